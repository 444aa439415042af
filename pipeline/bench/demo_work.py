"""Work per document, counted, on the demo model: real documents, prompt, samples and calculator.

The fast path is the pipeline's own: sample_calls, the calculator, score_calls. tau_s is 0, so that
k positions are used wherever a document has them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.bench.measuring import Seconds, timed
from pipeline.bench.metered import MeteredEngine
from pipeline.bench.shapes import DEMO_MODEL, PACKAGE
from pipeline.bench.work import Work
from pipeline.bench.workload import Sizes
from pipeline.config import RunConfig
from pipeline.execution import distinct_requests, record_results
from pipeline.method import Method, resolve_method
from pipeline.prepare import prepare
from pipeline.reading import SourceDocument
from pipeline.sampling import sample_calls
from pipeline.schemas import IN_FLIGHT
from pipeline.scoring import score_calls
from pipeline.tokens import TokenCodec
from tools.calculator import Calculator

DOCUMENT_TOKENS = 129
TOOL = "Calculator"
_PROMPT = PACKAGE / "configs" / "demo_prompts" / "Calculator.txt"
_DOCUMENTS = PACKAGE / "demo" / "documents.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedWork:
    """Work and seconds of a path over some documents.

    `seconds` are those inside the model, by kind; `all_seconds` those from tokens to losses,
    prompts, parsing and the calculator included.
    """

    documents: int
    work: dict[str, Work]
    seconds: dict[str, Seconds]
    all_seconds: Seconds
    positions: int  # that were selected
    calls: int  # that were scored

    def total(self) -> Work:
        return sum(self.work.values(), Work())


def demo_method(codec: TokenCodec, sizes: Sizes, *, context: int) -> Method:
    """The demo's Calculator with k, m and new tokens of `sizes`, and tau_s = 0."""
    config = RunConfig.model_validate(
        {
            "run": "bench",
            "input": str(_DOCUMENTS),
            "model": {"path": str(DEMO_MODEL)},
            "tools": {TOOL: {"prompt": str(_PROMPT), "tau_s": 0.0, "k": sizes.k, "m": sizes.m}},
            "sampling": {"max_new_tokens": sizes.new_tokens},
        }
    )
    return resolve_method(config, codec, context=context)


def demo_unit(method: Method, codec: TokenCodec, count: int) -> pa.Table:
    """`count` documents of exactly 129 canonical tokens that are offered to the calculator.

    Demo documents are shorter: each of these is several of them joined, cut after a token.
    """
    texts = pq.read_table(_DOCUMENTS, columns=["text"]).column("text").to_pylist()
    rows: list[dict[str, object]] = []
    for number, text in enumerate(_joined(texts, codec)):
        document = SourceDocument(
            doc_id=f"bench-{number}", text=text, url=None, date_download=None, language="en",
            dropped=None,
        )  # fmt: skip
        rows += [
            row for row in prepare([document], "bench", method, codec).to_pylist() if row["offers"]
        ]
        if len(rows) >= count:
            break
    return pa.Table.from_pylist(rows[:count], schema=IN_FLIGHT)


def _joined(texts: Sequence[str], codec: TokenCodec) -> Iterator[str]:
    joined = ""
    for text in texts:
        joined = f"{joined} {text}".strip()
        ids = codec.canonical(joined)
        if len(ids) < DOCUMENT_TOKENS:
            continue
        cut = b"".join(codec.token_bytes(ids[:DOCUMENT_TOKENS])).decode(errors="replace").strip()
        if len(codec.canonical(cut)) == DOCUMENT_TOKENS:
            yield cut
        joined = ""


def fast_work(
    engine: MeteredEngine, method: Method, codec: TokenCodec, unit: pa.Table
) -> CountedWork:
    """The pipeline's own stages over the unit."""
    engine.reset()
    with timed(engine.info.device) as all_seconds:
        unit = sample_calls(unit, method, codec, engine)
        results = {
            tool: dict(zip(asked, Calculator().run(asked), strict=True))
            for tool, asked in distinct_requests(unit).items()
        }
        unit = record_results(unit, results, codec, max_result_tokens=method.max_result_tokens)
        unit = score_calls(unit, method, codec, engine)
    scored = sum(
        call["loss_plus"] is not None for calls in unit["calls"].to_pylist() for call in calls
    )
    return CountedWork(
        documents=unit.num_rows,
        work=engine.work,
        seconds=engine.seconds,
        all_seconds=all_seconds,
        positions=sum(map(len, unit["positions"].to_pylist())),
        calls=scored,
    )
