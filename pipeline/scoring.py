"""L for a unit: the three losses of every answered call (section 2, Filtering API Calls)."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.engines.protocol import LMEngine, LossRequest
from pipeline.losses import WINDOW, gain, weighted_loss
from pipeline.method import Method
from pipeline.schemas import IN_FLIGHT
from pipeline.tokens import TokenCodec
from tools.calls import ApiCall, pieces_with_result

# A call to score: the index of its row, the row's tokens, and the call itself.
Scored = tuple[int, list[int], dict[str, Any]]


def score_calls(unit: pa.Table, method: Method, codec: TokenCodec, engine: LMEngine) -> pa.Table:
    """The unit with the losses of every call that has a result, rows and order unchanged.

    With `method.exact_reductions`, L+ comes first and L_i(e(c, eps)) only where
    L_i(eps) - L+ reaches the smallest threshold of interest: elsewhere the call cannot be
    kept, and its loss_call and gain stay null.
    """
    rows = unit.to_pylist()
    answered: list[Scored] = [
        (index, row["input_ids"], call)
        for index, row in enumerate(rows)
        for call in row["calls"]
        if call["result"] is not None
    ]
    _losses_after(answered, "loss_plus", codec, engine)
    open_calls = [
        scored
        for scored in answered
        if not method.exact_reductions
        or scored[2]["loss_empty"] - scored[2]["loss_plus"] >= method.smallest_tau_f
    ]
    _losses_after(open_calls, "loss_call", codec, engine)
    for _, _, call in open_calls:
        call["gain"] = gain(
            loss_empty=call["loss_empty"],
            loss_call=call["loss_call"],
            loss_plus=call["loss_plus"],
        )
    return pa.Table.from_pylist(rows, schema=IN_FLIGHT)


def _losses_after(
    scored: Sequence[Scored], column: str, codec: TokenCodec, engine: LMEngine
) -> None:
    """Fill `column` with L_i(z), z being e(c, r) for loss_plus and e(c, eps) for loss_call.

    Calls of one document with the same z share a forward pass, whatever their positions.
    """
    groups: dict[tuple[int, str, str, str], list[dict[str, Any]]] = defaultdict(list)
    tokens = {index: input_ids for index, input_ids, _ in scored}
    for index, _, call in scored:
        result = call["result"] if column == "loss_plus" else ""
        groups[(index, call["tool"], call["input"], result)].append(call)
    requests = []
    for (index, tool, call_input, result), calls in groups.items():
        z_ids = codec.encode_pieces(pieces_with_result(ApiCall(tool, call_input), result))
        positions = np.array([call["position"] for call in calls], dtype=np.int32)
        x_ids = np.asarray(tokens[index], dtype=np.int32)
        requests.append(LossRequest(z_ids=z_ids, x_ids=x_ids, positions=positions))
    answers = engine.window_logprobs(requests, WINDOW)
    for calls, logprobs_QW in zip(groups.values(), answers, strict=True):
        for call, loss in zip(calls, weighted_loss(logprobs_QW).tolist(), strict=True):
            call[column] = loss
