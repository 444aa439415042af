"""How the fast path grows with the length of a document and with the number of samples."""

from dataclasses import dataclass

from pipeline.bench.metered import MeteredEngine
from pipeline.bench.throughput import run_fast
from pipeline.bench.work import KINDS, Work
from pipeline.bench.workload import Sizes, make_documents

LENGTHS = (32, 64, 128, 256, 512)
SAMPLES = ((1, 5), (2, 5), (5, 5), (10, 10), (20, 10))  # (k, m)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """What one document costs."""

    document_tokens: int
    k: int
    m: int
    body_tokens: float
    head_rows: float
    cpu_s: float
    wall_s: float


def curve(
    engine: MeteredEngine, sizes: list[Sizes], *, documents: int, seed: int
) -> list[CurvePoint]:
    """A point for each of `sizes` that fits into the model's context."""
    vocabulary, context = engine.info.vocab_size, engine.info.max_len
    return [
        _point(engine, size, documents=documents, vocabulary=vocabulary, seed=seed)
        for size in sizes
        if size.longest() <= context
    ]


def _point(
    engine: MeteredEngine, sizes: Sizes, *, documents: int, vocabulary: int, seed: int
) -> CurvePoint:
    made = make_documents(sizes, vocabulary=vocabulary, count=documents, seed=seed)
    engine.reset()
    run_fast(engine, made, new_tokens=sizes.new_tokens)
    work = sum((engine.work[kind] for kind in KINDS), Work())
    return CurvePoint(
        document_tokens=sizes.document_tokens,
        k=sizes.k,
        m=sizes.m,
        body_tokens=work.tokens / documents,
        head_rows=work.rows / documents,
        cpu_s=sum(engine.seconds[kind].cpu_s for kind in KINDS) / documents,
        wall_s=sum(engine.seconds[kind].wall_s for kind in KINDS) / documents,
    )
