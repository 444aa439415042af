"""The tokens that mean something while a text is generated."""

from dataclasses import dataclass

from pipeline.tokens import TokenCodec
from tools.calls import ARROW, CLOSE

_DECIDING = (ARROW[-1:].encode(), CLOSE.encode(), b"\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Markers:
    """Of one model. `deciding_ids` may complete a call, or show that there will be none."""

    open_id: int
    eos_id: int | None
    deciding_ids: frozenset[int]

    @property
    def ends_plain_text(self) -> frozenset[int]:
        return frozenset({self.open_id} if self.eos_id is None else {self.open_id, self.eos_id})

    @property
    def ends_call(self) -> frozenset[int]:
        return self.deciding_ids | self.ends_plain_text


def markers_of(codec: TokenCodec, vocab_size: int) -> Markers:
    """The markers among the first `vocab_size` token ids."""
    table = codec.token_bytes(range(vocab_size))
    return Markers(
        open_id=codec.open_ids[0],
        eos_id=codec.eos_id,
        deciding_ids=frozenset(
            token_id for token_id, token in enumerate(table) if any(d in token for d in _DECIDING)
        ),
    )
