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
    """Bytes that a step cannot but read, over its seconds, over the bandwidth of a large copy.

    A step reads the weights of body and head once, the prefix of every document once, and every
    sample's own keys and values. If the engine decodes the documents in several groups it reads
    the weights more often than counted here, and the true share is higher.
    """
    device = engine.info.device
    bandwidth = copy_bandwidth(num_bytes=_COPY_BYTES, device=device)
    fast.positions(engine, documents)  # whose keys and values S goes on from
    with timed(device) as seconds:
        fast.samples(engine, documents, new_tokens=new_tokens)
    prefix_tokens = sum(1 + len(d.prompt_ids) + int(d.positions.max()) for d in documents)
    num_samples = sum(d.seeds_Km.size for d in documents)
    own_tokens = num_samples * new_tokens * (new_tokens + 1) / 2
    weights = new_tokens * (cost.body_bytes + cost.head_bytes)
    read = weights + cost.kv_bytes_per_token * (new_tokens * prefix_tokens + own_tokens)
    return DecodeBandwidth(share=read / seconds.wall_s / bandwidth, copy_bytes_per_s=bandwidth)
