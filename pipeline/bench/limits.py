"""Shares of what the hardware can do: matrix products of the prefill, bandwidth of the decoding."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline.bench import fast
from pipeline.bench.measuring import MatmulPeak, copy_bandwidth, timed
from pipeline.bench.metered import MeteredEngine
from pipeline.bench.work import ModelCost
from pipeline.bench.workload import Document

_COPY_BYTES = 4 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilisation:
    """FLOPs a second of P and L, of the prefill's matrix products at their best, and shares.

    mfu = (FLOPs of work.py: body, causal attention and head rows) / seconds / peak
    """

    mfu_prefill: float
    mfu_loss: float
    prefill_flops_per_s: float
    loss_flops_per_s: float
    matmul_peak_flops_per_s: float


def utilisation(
    engine: MeteredEngine,
    cost: ModelCost,
    documents: Sequence[Document],
    *,
    matmul_size: int,
    threads: int,
    repeats: int,
) -> Utilisation:
    """The best of several passes of P and L, each after another try at the matmul peak.

    Documents are given without a shared header: every token of P runs. On a CPU seconds are CPU
    seconds divided by the threads, for the peak and for the passes alike.
    """
    info = engine.info
    peak = MatmulPeak(size=matmul_size, dtype=info.dtype, device=info.device, threads=threads)
    passes: dict[str, Callable[[], object]] = {
        "position": lambda: fast.positions(engine, documents),
        "loss": lambda: fast.losses_with(engine, documents),
    }
    best = dict.fromkeys(passes, 0.0)
    for _ in range(repeats):
        for kind, run in passes.items():
            peak.try_again()
            engine.reset()
            run()
            flops = cost.flops(engine.work[kind])
            best[kind] = max(best[kind], flops / peak.busy_s(engine.seconds[kind]))
    return Utilisation(
        mfu_prefill=best["position"] / peak.flops_per_s,
        mfu_loss=best["loss"] / peak.flops_per_s,
        prefill_flops_per_s=best["position"],
        loss_flops_per_s=best["loss"],
        matmul_peak_flops_per_s=peak.flops_per_s,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeBandwidth:
    """How much of the memory's bandwidth S uses while it decodes."""

    share: float
    copy_bytes_per_s: float


def decode_bandwidth(
    engine: MeteredEngine, cost: ModelCost, documents: Sequence[Document], *, new_tokens: int
) -> DecodeBandwidth:
    """Bytes that decoding cannot but read, over its seconds, over the bandwidth of a large copy."""
    device = engine.info.device
    bandwidth = copy_bandwidth(num_bytes=_COPY_BYTES, device=device)
    fast.positions(engine, documents)  # whose keys and values S goes on from
    with timed(device) as seconds:
        fast.samples(engine, documents, new_tokens=new_tokens)
    read = decode_bytes(cost, documents, new_tokens=new_tokens)
    return DecodeBandwidth(share=read / seconds.wall_s / bandwidth, copy_bytes_per_s=bandwidth)


def decode_bytes(cost: ModelCost, documents: Sequence[Document], *, new_tokens: int) -> int:
    """Bytes that S must read once P has left its keys and values, all documents side by side.

    Each of `new_tokens` steps reads the weights of body and head once, the keys and values of a
    header (and the begin-of-text token) once for all documents that share it, those of the rest of
    every document's prefix up to its last position once, and those of every sample's own tokens.
    The first step, which feeds the token that opens a call, is one for all samples of a position;
    then samples are taken to part at once, as those of random weights do.

    An engine that decodes in several groups reads weights and header more often than this, so the
    share it reaches is understated.
    """
    headers = {d.prompt_ids[: d.header_len].tobytes(): d.header_len for d in documents}
    own_prefixes = (len(d.prompt_ids) - d.header_len + int(d.positions.max()) for d in documents)
    prefix_tokens = sum(1 + length for length in headers.values()) + sum(own_prefixes)
    num_positions = sum(len(d.positions) for d in documents)
    num_samples = sum(d.seeds_Km.size for d in documents)
    own_tokens = num_positions + num_samples * sum(range(2, new_tokens + 1))
    weights = cost.body_bytes + cost.head_bytes
    in_cache = new_tokens * prefix_tokens + own_tokens
    return new_tokens * weights + cost.kv_bytes_per_token * in_cache
