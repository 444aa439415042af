"""How many tokens an engine holds while it answers, estimated before it is asked."""

import pyarrow as pa

from pipeline.engines.protocol import LossRequest, PositionRequest, SampleRequest
from pipeline.method import Method
from pipeline.tokens import TokenCodec
from tools.prompt import header

Request = PositionRequest | SampleRequest | LossRequest


def unit_tokens(unit: pa.Table, method: Method, codec: TokenCodec) -> int:
    """About how many tokens are alive while M reads a unit: P(x) and x again for every offer."""
    tokens, offered = 0, set()
    columns = (unit.column(name).to_pylist() for name in ("dropped", "input_ids", "offers"))
    for dropped, input_ids, offers in zip(*columns, strict=True):
        if dropped is None:
            tokens += 2 * len(input_ids) * len(offers)
            offered |= {offer["tool"] for offer in offers}
    return tokens + sum(len(codec.prompt_ids(header(method[tool].template))) for tool in offered)


def request_tokens(request: Request) -> int:
    """About how many tokens are alive while M answers a request, but for its tool's examples."""
    if isinstance(request, LossRequest):
        return len(request.z_ids) + len(request.x_ids)
    return len(request.prompt_ids) - request.header_len + len(request.x_ids)
