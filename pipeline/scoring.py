"""L for a unit: the three losses of every answered call (section 2, Filtering API Calls)."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.engines.protocol import LMEngine, LossRequest
from pipeline.failures import OUT_OF_MEMORY
from pipeline.losses import WINDOW, gain, weighted_loss
from pipeline.method import Method
from pipeline.schemas import IN_FLIGHT
from pipeline.tokens import TokenCodec
from pipeline.windows import Window, windows_of
from tools.calls import ApiCall, pieces_with_result


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answered:
    """A call to score, the text it was sampled in, and the position there."""

    row: int
    window: Window
    position: int
    call: dict[str, Any]


def score_calls(unit: pa.Table, method: Method, codec: TokenCodec, engine: LMEngine) -> pa.Table:
    """The unit with the losses of every call that has a result, rows and order unchanged.

    With `method.exact_reductions`, L+ comes first and L_i(e(c, eps)) only where
    L_i(eps) - L+ reaches the smallest threshold of interest: elsewhere the call cannot be
    kept, and its loss_call and gain stay null.
    """
    rows = unit.to_pylist()
    answered = [scored for index, row in enumerate(rows) for scored in _answered(index, row, codec)]
    _losses_after(answered, "loss_plus", codec, engine)
    open_calls = [
        scored
        for scored in answered
        if scored.call["loss_plus"] is not None
        and (
            not method.exact_reductions
            or scored.call["loss_empty"] - scored.call["loss_plus"] >= method.smallest_tau_f
        )
    ]
    _losses_after(open_calls, "loss_call", codec, engine)
    _drop_what_does_not_fit(rows, answered, open_calls)
    for call in (scored.call for scored in open_calls):
        if call["loss_call"] is None:
            continue
        call["gain"] = gain(
            loss_empty=call["loss_empty"],
            loss_call=call["loss_call"],
            loss_plus=call["loss_plus"],
        )
    return pa.Table.from_pylist(rows, schema=IN_FLIGHT)


def _drop_what_does_not_fit(
    rows: Sequence[dict[str, Any]], answered: Sequence[_Answered], open_calls: Sequence[_Answered]
) -> None:
    """A document with a call that the engine could not score goes no further, nor do its calls."""
    unscored = {scored.row for scored in answered if scored.call["loss_plus"] is None}
    unscored |= {scored.row for scored in open_calls if scored.call["loss_call"] is None}
    for index in unscored:
        rows[index]["dropped"] = OUT_OF_MEMORY
        for call in rows[index]["calls"]:
            call["loss_plus"] = call["loss_call"] = None


def _answered(index: int, row: Mapping[str, Any], codec: TokenCodec) -> Iterator[_Answered]:
    windows: dict[str, list[Window]] = {}
    for call in row["calls"]:
        if call["result"] is None:
            continue
        tool, place = call["tool"], call["byte_offset"]
        if tool not in windows:
            windows[tool] = windows_of(row, tool, codec)
        [window] = [w for w in windows[tool] if w.span[0] <= place < w.span[1]]
        position = window.position_of(call["position"])
        yield _Answered(row=index, window=window, position=position, call=call)


def _losses_after(
    answered: Sequence[_Answered], column: str, codec: TokenCodec, engine: LMEngine
) -> None:
    """Fill `column` with L_i(z), z being e(c, r) for loss_plus and e(c, eps) for loss_call.

    Calls of one text with the same z share a forward pass, whatever their positions.
    """
    groups: dict[tuple[int, tuple[int, int], str, str, str], list[_Answered]] = defaultdict(list)
    for scored in answered:
        call = scored.call
        result = call["result"] if column == "loss_plus" else ""
        groups[scored.row, scored.window.span, call["tool"], call["input"], result].append(scored)
    requests = []
    for (_, _, tool, call_input, result), group in groups.items():
        z_ids = codec.encode_pieces(pieces_with_result(ApiCall(tool, call_input), result))
        positions = np.array([scored.position for scored in group], dtype=np.int32)
        x_ids = group[0].window.x_ids
        requests.append(LossRequest(z_ids=z_ids, x_ids=x_ids, positions=positions))
    answers = engine.window_logprobs(requests, WINDOW)
    for group, logprobs_QW in zip(groups.values(), answers, strict=True):
        if logprobs_QW is None:
            continue
        for scored, loss in zip(group, weighted_loss(logprobs_QW).tolist(), strict=True):
            scored.call[column] = loss
