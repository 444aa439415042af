"""What every engine refuses before it asks its model."""

from collections.abc import Iterable, Sequence

from pipeline.engines.protocol import LossRequest, SampleRequest, SamplingParams
from pipeline.tokens import TokenCodec
from tools.base import ConfigError, ContractError


def load_codec(path: str, revision: str | None) -> tuple[TokenCodec, int]:
    """The codec of a checkpoint, and the token that every sequence begins with.

    Raises:
        ConfigError: the checkpoint is missing, its tokenizer not usable, or has no such token.
    """
    codec = TokenCodec.load(path, revision)
    if codec.bos_id is None:
        raise ConfigError(f"{path}: its tokenizer has no begin-of-text and no end-of-text token")
    return codec, codec.bos_id


def check_lengths(stage: str, lengths: Iterable[int], max_len: int) -> None:
    """Raises ContractError for the first of the requests that is longer than `max_len` tokens."""
    for index, length in enumerate(lengths):
        if length > max_len:
            raise ContractError(
                stage=stage,
                doc_id=f"number {index} of the call",
                got=f"a prompt longer than the context: {length} tokens",
                expected=f"at most {max_len} tokens",
            )


def check_positions(stage: str, requests: Sequence[LossRequest | SampleRequest]) -> None:
    """Raises ContractError for positions that are none of the document."""
    for request in requests:
        positions, n = request.positions, len(request.x_ids)
        if positions.size and (positions.min() < 0 or positions.max() >= n):
            raise ContractError(
                stage=stage,
                doc_id=f"of {n} tokens",
                got=f"positions from {positions.min()} to {positions.max()}",
                expected=f"positions from 0 to {n - 1}",
            )


def check_samples(requests: Sequence[SampleRequest], params: SamplingParams, max_len: int) -> None:
    """Raises ContractError for positions outside the document, too long samples, other openings."""
    check_positions("sample", requests)
    openings = {request.open_ids for request in requests}
    if len(openings) > 1 or () in openings:
        raise ContractError(
            stage="sample",
            doc_id=f"{len(requests)} requests",
            got=f"openings {sorted(openings)}",
            expected='one for all, the tokens of " ["',
        )
    lengths = (
        1
        + len(request.prompt_ids)
        + int(request.positions.max(initial=0))
        + len(request.open_ids)
        + params.max_new_tokens
        for request in requests
    )
    check_lengths("sample", lengths, max_len)


def longer_text(tokens: int, at_most: int) -> ContractError:
    """The error of a text that gets longer than it may."""
    return ContractError(
        stage="generate",
        doc_id="that grows",
        got=f"a text of {tokens} tokens",
        expected=f"at most {at_most} tokens",
    )
