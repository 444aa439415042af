"""Documents a second on a GPU, as estimated before anything was measured, and as measured.

The estimates are arithmetic for GPT-J-6B in bf16 on an A100 (80 GB) and an H200: documents of 500
tokens, every one of the k positions used, prefills at 50 % of the matrix units' peak, decoding at
80 % of the memory's bandwidth with 256 samples at once and the prefix of a document read once for
all its samples, all exact reductions on, and shares of valid and distinct calls that were
assumed, not measured.
"""

from dataclasses import dataclass

from pipeline.bench.metered import MeteredEngine
from pipeline.bench.throughput import run_fast
from pipeline.bench.work import KINDS
from pipeline.bench.workload import Sizes, make_documents

DOCUMENT_TOKENS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Milliseconds a document, estimated for a tool on a GPU."""

    tool: str
    gpu: str
    position_ms: float
    sample_ms: float  # prefill of what P did not leave, and shared-prefix decoding
    loss_ms: float
    documents_per_s: float


ESTIMATES = (
    Estimate(tool="QA", gpu="A100", position_ms=76, sample_ms=17 + 47, loss_ms=445,
             documents_per_s=1.8),
    Estimate(tool="QA", gpu="H200", position_ms=24, sample_ms=5 + 15, loss_ms=141,
             documents_per_s=5.6),
    Estimate(tool="Calculator", gpu="A100", position_ms=77, sample_ms=136 + 276, loss_ms=1125,
             documents_per_s=0.68),
    Estimate(tool="Calculator", gpu="H200", position_ms=24, sample_ms=43 + 87, loss_ms=355,
             documents_per_s=2.2),
)  # fmt: skip

# The header of the paper's prompt in GPT-J's tokens, and k and m of Appendix A.
TOOL_SIZES = {
    "QA": Sizes(document_tokens=DOCUMENT_TOKENS, header_tokens=200, k=5, m=5),
    "Calculator": Sizes(document_tokens=DOCUMENT_TOKENS, header_tokens=400, k=20, m=10),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Documents a second of each kind and of the whole, for one tool's sizes."""

    tool: str
    documents: int
    position_per_s: float
    sample_per_s: float
    loss_per_s: float
    documents_per_s: float


def measure_tools(engine: MeteredEngine, *, documents: int, seed: int) -> list[Measured]:
    """The fast path at the sizes of the estimates."""
    measured = []
    for tool, sizes in TOOL_SIZES.items():
        made = make_documents(sizes, vocabulary=engine.info.vocab_size, count=documents, seed=seed)
        run_fast(engine, made[:1], new_tokens=sizes.new_tokens)  # kernels are chosen at first use
        engine.reset()
        run_fast(engine, made, new_tokens=sizes.new_tokens)
        seconds = {kind: engine.seconds[kind].wall_s for kind in KINDS}
        measured.append(
            Measured(
                tool=tool,
                documents=documents,
                position_per_s=documents / seconds["position"],
                sample_per_s=documents / seconds["sample"],
                loss_per_s=documents / seconds["loss"],
                documents_per_s=documents / sum(seconds.values()),
            )
        )
    return measured
