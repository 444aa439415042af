"""Work of a causal language model, counted: tokens through its body, rows through its head, FLOPs.

    FLOPs = linear_per_token * tokens + attention_per_pair * pairs + head_per_row * rows

`linear_per_token` is two operations for every weight of the body's matrices, `head_per_row` two
for every weight of the head, `attention_per_pair` four for every channel of the queries of all
layers: a pair is a token and one that it sees, itself among them, so a sequence of T tokens has
T (T + 1) / 2. Padding runs and counts as tokens; the pairs of padding do not count.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.engines.protocol import LossRequest, PositionRequest, Sample, SampleRequest

if TYPE_CHECKING:
    from transformers import PreTrainedModel

KINDS = ("position", "sample", "loss")


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What ran. `tokens` has the padding in it."""

    tokens: int = 0
    padding: int = 0
    rows: int = 0
    pairs: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        return Work(
            tokens=self.tokens + other.tokens,
            padding=self.padding + other.padding,
            rows=self.rows + other.rows,
            pairs=self.pairs + other.pairs,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCost:
    """What a model costs, from the shapes of its parameters."""

    linear_per_token: int
    attention_per_pair: int
    head_per_row: int
    parameters: int
    body_bytes: int  # of the matrices and vectors every token passes through, embedding apart
    head_bytes: int
    kv_bytes_per_token: int

    def flops(self, work: Work) -> float:
        return (
            self.linear_per_token * work.tokens
            + self.attention_per_pair * work.pairs
            + self.head_per_row * work.rows
        )


def model_cost(model: "PreTrainedModel") -> ModelCost:
    """The cost of a Hugging Face model with one head dimension for all its layers."""
    config: Any = model.config
    heads = config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    head: Any = model.get_output_embeddings()  # type: ignore[no-untyped-call]
    embeddings = {
        id(parameter)
        for module in model.modules()
        if type(module).__name__ == "Embedding"
        for parameter in module.parameters()
    }
    not_body = embeddings | {id(parameter) for parameter in head.parameters()}
    body = [p for p in model.parameters() if id(p) not in not_body]
    size = head.weight.element_size()
    return ModelCost(
        linear_per_token=2 * sum(p.numel() for p in body if p.dim() == 2),
        attention_per_pair=4 * heads * head_dim * config.num_hidden_layers,
        head_per_row=2 * head.weight.numel(),
        parameters=sum(p.numel() for p in model.parameters()),
        body_bytes=size * sum(p.numel() for p in body),
        head_bytes=size * sum(p.numel() for p in head.parameters()),
        kv_bytes_per_token=2 * size * kv_heads * head_dim * config.num_hidden_layers,
    )


def pairs_of(begin: int, end: int) -> float:
    """Pairs of the tokens begin, ..., end - 1 of a sequence, each of which sees all before it."""
    return (end * (end + 1) - begin * (begin + 1)) / 2


def position_pairs(requests: Sequence[PositionRequest], tokens: int) -> float:
    """Pairs of P when `tokens` ran: scaled from the tokens past the header, which is shared."""
    spans = [(r.header_len, len(r.prompt_ids) + len(r.x_ids)) for r in requests]
    return _scaled(spans, tokens)


def sample_pairs(
    requests: Sequence[SampleRequest], samples: Sequence[list[list[Sample]] | None], tokens: int
) -> float:
    """Pairs of S when `tokens` ran: those of the samples, and of prefixes what is left over."""
    decoded, pairs = 0, 0.0
    for request, samples_Km in zip(requests, samples, strict=True):
        for i, samples_m in zip(request.positions.tolist(), samples_Km or [], strict=True):
            before = 1 + len(request.prompt_ids) + i
            for sample in samples_m:
                fed = len(request.open_ids) + len(sample.token_ids) - 1
                decoded += fed
                pairs += pairs_of(before, before + fed)
    prefixes = [(0, 1 + len(r.prompt_ids) + int(r.positions.max(initial=0))) for r in requests]
    if tokens < decoded:  # samples that began alike ran as one
        return pairs * tokens / decoded
    return pairs + _scaled(prefixes, tokens - decoded)


def loss_pairs(requests: Sequence[LossRequest], width: int, tokens: int) -> float:
    """Pairs of L when `tokens` ran, one pass for each z and x up to the last token asked for."""
    last: dict[tuple[bytes, bytes], int] = {}
    for request in requests:
        if request.positions.size:
            end = min(int(request.positions.max()) + width, len(request.x_ids))
            key = (request.z_ids.tobytes(), request.x_ids.tobytes())
            last[key] = max(last.get(key, 0), len(request.z_ids) + end)
    return _scaled([(0, end) for end in last.values()], tokens)


def _scaled(spans: Sequence[tuple[int, int]], tokens: int) -> float:
    expected = sum(end - begin for begin, end in spans)
    return sum(pairs_of(*span) for span in spans) * tokens / expected if expected else 0.0
