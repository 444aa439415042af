"""Texts of a model in torch, compared with a loop that runs all of a text for each token."""

import asyncio
import re
from collections.abc import Sequence
from typing import Any, cast

import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, GPT2Config, PreTrainedModel

from pipeline.config import ModelConfig
from pipeline.engines.torch_generation import TorchGeneration
from pipeline.tool_config import ServedTool
from tests.training.generate.reciting import CODEC, MODEL, tokens
from tools.base import ToolRequest
from tools.calculator import Calculator
from tools.calls import ApiCall, pieces_with_result
from training.generate.config import GenerateConfig
from training.generate.events import Generation
from training.generate.generator import Generator
from training.generate.params import GenerationParams
from training.generate.writer import TAKEN_BACK_PER_CALL

OPEN_ID = CODEC.open_ids[0]
# What the model learns by heart, more or less: it mixes them up, which makes brackets of all kinds.
SENTENCES = (
    (" The sum of 2 and 3 is", "Calculator(2 + 3)", "5", " 5 in all."),
    (" The sum of 7 and 8 is", "Calculator(7 + 8)", "15", " 15 in all."),
    (" He has 9 and gives 4, so", "Calculator(9 - 4)", "5", " 5 are left."),
    (" The town is old", None, "", " [1] and small."),
    (" A box of", "Calculator(box)", "", " is red."),
)
PROMPTS = (
    "The sum of 2 and 3", "The sum of 7 and", "He has 9", "He has 7 and 8", "The town", "A box",
    "The", "", "is left", "and small",
)  # fmt: skip
CHOICES = (
    GenerationParams(max_new_tokens=16),
    GenerationParams(max_new_tokens=24, api_top_k=40, max_calls=3, max_call_tokens=12),
    GenerationParams(max_new_tokens=16, api_top_k=1, max_calls=2),
    GenerationParams(max_new_tokens=16, api_top_k=0),
)


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    """A GPT-2 of 130,000 weights that has read the sentences for a second or two."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    config = GPT2Config(
        vocab_size=1536, n_positions=128, n_embd=48, n_layer=2, n_head=4, bos_token_id=0,
        eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    factory: Any = AutoModelForCausalLM
    model = factory.from_config(config)
    texts = [[0, *tokens(_pieces(*sentence)), 0] for sentence in SENTENCES]
    longest = max(map(len, texts))
    ids = torch.tensor([text + [0] * (longest - len(text)) for text in texts])
    labels = torch.tensor([text + [-100] * (longest - len(text)) for text in texts])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(60):
        loss = cross_entropy(
            model(input_ids=ids).logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        )
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
    return cast(PreTrainedModel, model.eval())


def _pieces(before: str, call: str | None, result: str, after: str) -> Sequence[str]:
    if call is None:
        return (before, after)
    name, _, argument = call.partition("(")
    known = ApiCall(tool=name, input=argument.removesuffix(")"))
    return (before, *pieces_with_result(known, result), after)


@pytest.fixture(scope="module")
def texts(model: PreTrainedModel) -> dict[tuple[GenerationParams, str], Generation]:
    """The text of every prompt for each of the choices: those of a choice side by side."""

    async def generated() -> dict[tuple[GenerationParams, str], Generation]:
        texts = {}
        engine = TorchGeneration(model, bos_id=0, weights_id="learned")
        config = GenerateConfig(model=ModelConfig(path=MODEL), tools={"Calculator": ServedTool()})
        async with Generator(config, engine=engine) as generator:
            for params in CHOICES:
                asked = iter(PROMPTS)
                async for text in generator.generate_all((prompt, params) for prompt in PROMPTS):
                    assert isinstance(text, Generation)
                    texts[params, next(asked)] = text
            for prompt in PROMPTS:  # and alone
                alone = await generator.generate(prompt, CHOICES[1])
                assert alone.annotated == texts[CHOICES[1], prompt].annotated
        await engine.close()
        return texts

    return asyncio.run(generated())


Texts = dict[tuple[GenerationParams, str], Generation]


class Slow:
    """Greedy decoding with calls by a loop of its own, without keys and values."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._model, self._calculator = model, Calculator()
        self._orders: dict[tuple[int, ...], list[int]] = {}

    def annotated(self, prompt: str, params: GenerationParams) -> str:
        ids = CODEC.beginning(prompt).tolist()
        text, plain, brackets, made, banned = b"", 0, 0, set[str](), False
        while plain < params.max_new_tokens:
            may_call = params.api_top_k and len(made) < params.max_calls and not banned
            order = self._order(ids)
            best = next(i for i in order if i != OPEN_ID or may_call)
            enough = brackets >= TAKEN_BACK_PER_CALL * params.max_calls
            top = order[: 1 if enough else params.api_top_k]
            banned, chosen = False, [best]
            if may_call and OPEN_ID in (best, *top):
                after = self._after_open([*ids, OPEN_ID], params.max_call_tokens)
                spelt = b"".join(CODEC.token_bytes(after)).decode()
                call = re.fullmatch(r"([A-Za-z]\w*\(.*) ->", spelt)
                if call and call[1] not in made:
                    made.add(call[1])
                    answer = self._answer(call[1])
                    inserted = CODEC.encode_pieces([f" {answer}", "]"] if answer else ["]"])
                    ids += [OPEN_ID, *after, *inserted.tolist()]
                    text += f" [{spelt}{' ' * bool(answer)}{answer}]".encode()
                    continue
                if call or best != OPEN_ID:
                    brackets, banned = brackets + 1, True
                    continue
                chosen = [OPEN_ID, *after]
            for token in chosen:
                if token == 0:
                    return text.decode()
                if plain < params.max_new_tokens:
                    text, plain = text + CODEC.token_bytes([token])[0], plain + 1
                    ids.append(token)
        return text.decode()

    def _after_open(self, ids: list[int], most: int) -> list[int]:
        """The tokens up to that which decides whether they are a call."""
        after: list[int] = []
        while len(after) < most:
            after.append(self._order([*ids, *after])[0])
            spelt = b"".join(CODEC.token_bytes(after)).decode()
            begins = re.fullmatch(r"[A-Za-z]\w*(\(.*)?", spelt.removesuffix(" ->"), re.DOTALL)
            if not begins or after[-1] == 0 or re.search(r"]|\n| ->| \[", spelt):
                break
        return after

    def _answer(self, call: str) -> str:
        argument = re.fullmatch(r"Calculator\((.*)\)", call)
        if argument is None:
            return ""
        (answer,) = self._calculator.run([ToolRequest(input=argument[1])])
        return answer.result or ""

    def _order(self, ids: list[int]) -> list[int]:
        """All tokens, the most likely first."""
        key = tuple(ids)
        if key not in self._orders:
            with torch.no_grad():
                logits = self._model(input_ids=torch.tensor([[0, *ids]])).logits[0, -1]
            self._orders[key] = logits.argsort(descending=True, stable=True)[:50].tolist()
        return self._orders[key]


def test_texts_are_those_of_a_loop_that_runs_all_of_a_text_for_each_token(
    model: PreTrainedModel, texts: Texts
) -> None:
    slow = Slow(model)
    for (params, prompt), text in texts.items():
        assert text.annotated == slow.annotated(prompt, params), (params, prompt)


def test_the_model_has_shown_brackets_of_all_kinds(texts: Texts) -> None:
    calls = [ended for text in texts.values() for ended in text.calls]
    assert {str(ended.status) for ended in calls} == {"ok", "invalid"}
    assert {ended.started.triggered for ended in calls} == {False, True}
    assert any(text.taken_back for text in texts.values())
    assert any(" [1]" in text.text for text in texts.values())
    assert max(len(text.calls) for text in texts.values()) > 1
    assert {text.finish_reason for text in texts.values()} == {"stop", "length"}


def test_a_text_is_its_annotated_form_without_the_calls(texts: Texts) -> None:
    for text in texts.values():
        plain = text.annotated
        for ended in text.calls:
            result = ended.result and f" {ended.result}"
            begin = ended.started.offset
            end = begin + plain[begin:].index(f" ->{result}]") + len(f" ->{result}]")
            assert plain[begin:].startswith(f" [{ended.started.call.tool}(")
            plain = plain[:begin] + plain[end:]
        assert plain == text.text


def test_disabled_texts_have_no_bracket(texts: Texts) -> None:
    for (params, _), text in texts.items():
        if params.disabled:
            assert text.annotated == text.text and " [" not in text.text
