"""How well a model does, on held-out documents, what annotation asks of it (paper section 2).

Plain forward passes, no engine: p(" [") behind the demo prompts, the argument that greedy and
sampled decoding write there, and L_minus - L_plus with true, missing and wrong results.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from rich.table import Table
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from tools.base import InputError
from tools.calls import CLOSE, OPEN, ApiCall, parse_call, pieces_with_result
from training.world.document import Document
from training.world.examples import TOOLS, encode_pieces, encode_text, marks_of
from training.world.items import Mark

WEIGHTS = (1 / 3, 0.8 / 3, 0.6 / 3, 0.4 / 3, 0.2 / 3)  # w_t, section 4.1
_MAX_ARGUMENT_TOKENS = 64  # the pipeline's sampling.max_new_tokens
_NUM_SAMPLES = 5


@dataclass(slots=True, kw_only=True)
class ToolFigures:
    """What was seen of one tool; one element per held-out call, losses in nats."""

    position_right: list[bool] = field(default_factory=list)
    p_right: list[float] = field(default_factory=list)
    p_elsewhere: list[float] = field(default_factory=list)
    p_unneeded: list[float] = field(default_factory=list)  # largest p in a document without calls
    greedy_right: list[bool] = field(default_factory=list)
    any_sample_right: list[bool] = field(default_factory=list)
    gain_right: list[float] = field(default_factory=list)
    gain_wrong: list[float] = field(default_factory=list)
    gain_call_only: list[float] = field(default_factory=list)  # L(eps) - L(e(c, eps))


class Meter:
    """Measures one model. Needs the tokenizer's single-token markers."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerFast,
        prompts: Mapping[str, str],
    ) -> None:
        self._model, self._tokenizer, self._prompts = model, tokenizer, prompts
        (self._open,) = tokenizer.encode(OPEN)
        (self._close,) = tokenizer.encode(CLOSE)

    def measure(self, documents: Sequence[Document], seed: int = 0) -> dict[str, ToolFigures]:
        """Figures per tool over all documents."""
        torch.manual_seed(seed)
        rng = random.Random(seed)
        figures = {tool: ToolFigures() for tool in TOOLS}
        for document in documents:
            for tool in TOOLS:
                self._positions(document, tool, figures[tool])
            for mark in document.marks:
                self._losses(document, mark, figures[mark.right.call.tool], rng)
        return figures

    @torch.inference_mode()
    def _logprobs(self, tokens: list[int]) -> torch.Tensor:
        """log p of the token after each of `tokens`, [T, V]."""
        logits_TV = self._model(torch.tensor([tokens])).logits[0]
        return torch.log_softmax(logits_TV.double(), dim=-1)

    def _head(self, document: Document, tool: str) -> list[int]:
        prompt = self._prompts[tool].replace("{x}", document.text)
        return [self._tokenizer.bos_token_id, *self._tokenizer.encode(prompt)]

    def _positions(self, document: Document, tool: str, figures: ToolFigures) -> None:
        """p(" [") at every position of the copy; arguments at the true positions."""
        head = self._head(document, tool)
        c, offsets = encode_text(self._tokenizer, document.text)
        logprobs_TV = self._logprobs(head + c)
        p = logprobs_TV[len(head) - 1 : -1, self._open].exp().tolist()
        true = {offsets.index(mark.offset): mark.right for mark in marks_of(document, tool)}
        if not true:
            figures.p_unneeded.append(max(p))
            return
        figures.position_right.append(max(range(len(p)), key=p.__getitem__) in true)
        figures.p_right += [p[i] for i in true]
        figures.p_elsewhere.append(max(value for i, value in enumerate(p) if i not in true))
        for i, right in true.items():
            same = {right.call, *right.also}
            greedy, *sampled = self._sample([*head, *c[:i], self._open], tool)
            figures.greedy_right.append(greedy in same)
            figures.any_sample_right.append(any(call in same for call in sampled))

    @torch.inference_mode()
    def _sample(self, prefix: list[int], tool: str) -> list[ApiCall | None]:
        """One greedy call and _NUM_SAMPLES sampled ones."""
        output = self._model(torch.tensor([prefix]), use_cache=True)
        logits_BV = output.logits[:, -1].expand(1 + _NUM_SAMPLES, -1)
        cache = output.past_key_values
        cache.batch_repeat_interleave(1 + _NUM_SAMPLES)
        written_BT = torch.empty((1 + _NUM_SAMPLES, 0), dtype=torch.long)
        for _ in range(_MAX_ARGUMENT_TOKENS):
            next_B1 = torch.multinomial(logits_BV.softmax(-1), 1)
            next_B1[0] = logits_BV[0].argmax()
            written_BT = torch.cat([written_BT, next_B1], dim=1)
            if bool((written_BT == self._close).any(1).all()):
                break
            output = self._model(next_B1, past_key_values=cache, use_cache=True)
            logits_BV = output.logits[:, -1]
        texts = self._tokenizer.batch_decode(written_BT)
        return [parse_call(text.split(CLOSE)[0], tool) if CLOSE in text else None for text in texts]

    def _loss(self, z: list[int], c: list[int], i: int) -> float:
        """L_i(z) with z before c, after the begin-of-text token."""
        head = [self._tokenizer.bos_token_id, *z]
        logprobs_TV = self._logprobs(head + c[: i + len(WEIGHTS)])
        following = c[i : i + len(WEIGHTS)]
        return -sum(
            weight * float(logprobs_TV[len(head) + i + t - 1, token])
            for t, (weight, token) in enumerate(zip(WEIGHTS, following, strict=False))
        )

    def _losses(
        self, document: Document, mark: Mark, figures: ToolFigures, rng: random.Random
    ) -> None:
        c, offsets = encode_text(self._tokenizer, document.text)
        i = offsets.index(mark.offset)

        def loss(call: ApiCall, result: str) -> float:
            z = encode_pieces(self._tokenizer, pieces_with_result(call, result))
            return self._loss(z, c, i)

        def gain(call: ApiCall, result: str) -> float:
            return min(loss_eps, loss(call, "")) - loss(call, result)

        loss_eps = self._loss([], c, i)
        right = mark.right
        figures.gain_right.append(gain(right.call, right.result))
        figures.gain_call_only.append(loss_eps - loss(right.call, ""))
        if mark.wrong:
            wrong = rng.choice(mark.wrong)
            figures.gain_wrong.append(gain(wrong.call, wrong.result))


def load_meter(model: Path, prompts: Mapping[str, str]) -> Meter:
    """A meter for the model and tokenizer in a folder."""
    if not (model / "config.json").is_file():
        raise InputError(f"{model}: no model here; train one with: python -m training pretrain")
    tokenizer = AutoTokenizer.from_pretrained(model)
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    return Meter(AutoModelForCausalLM.from_pretrained(model), tokenizer, prompts)


def _share(values: Sequence[bool]) -> str:
    return f"{100 * sum(values) / len(values):.0f} %" if values else "-"


def _mean(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.2f}" if values else "-"


ROWS: tuple[tuple[str, Callable[[ToolFigures], str]], ...] = (
    ("calls", lambda f: str(len(f.gain_right))),
    ("documents whose most likely position is a right one", lambda f: _share(f.position_right)),
    ('mean p(" [") at right positions', lambda f: _mean(f.p_right)),
    ("calls with p > 0.05", lambda f: _share([p > 0.05 for p in f.p_right])),
    ("mean of the largest p elsewhere", lambda f: _mean(f.p_elsewhere)),
    ("mean of the largest p where no call helps", lambda f: _mean(f.p_unneeded)),
    ("right argument, greedy", lambda f: _share(f.greedy_right)),
    (f"right argument, any of {_NUM_SAMPLES} samples", lambda f: _share(f.any_sample_right)),
    ("mean gain, true result", lambda f: _mean(f.gain_right)),
    ("gain >= 0.5, true result", lambda f: _share([g >= 0.5 for g in f.gain_right])),
    ("gain >= 1.0, true result", lambda f: _share([g >= 1.0 for g in f.gain_right])),
    ("mean gain, wrong call and its result", lambda f: _mean(f.gain_wrong)),
    ("gain >= 0.5, wrong call", lambda f: _share([g >= 0.5 for g in f.gain_wrong])),
    ("mean L(eps) - L(e(c, eps))", lambda f: _mean(f.gain_call_only)),
)


def figures_table(figures: Mapping[str, ToolFigures]) -> Table:
    """The figures, one column per tool."""
    table = Table(title="The demo model on held-out documents (losses in nats)")
    table.add_column("")
    for tool in figures:
        table.add_column(tool, justify="right")
    for label, show in ROWS:
        table.add_row(label, *(show(each) for each in figures.values()))
    return table
