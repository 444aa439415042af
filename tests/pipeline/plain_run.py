"""A run without Ray, one step after the other: what whole runs are compared with."""

from pathlib import Path

from pipeline.config import RunConfig
from pipeline.engines.load import load_engine
from pipeline.execution import distinct_requests, record_results
from pipeline.method import resolve_method
from pipeline.prepare import prepare
from pipeline.reading import read_rows
from pipeline.rundir import RunDir, commit_unit
from pipeline.sampling import sample_calls
from pipeline.scoring import score_calls
from pipeline.tokens import TokenCodec
from pipeline.trace import read_trace
from pipeline.units import plan_units
from tests.pipeline.demo_runs import unit_bytes
from tools.calculator import Calculator


def plainly_annotated(config: RunConfig) -> dict[str, bytes]:
    """The unit files of a run whose only tool is the Calculator, which is called directly."""
    codec = TokenCodec.load(config.model.path)
    engine = load_engine(config.model, config.engine)
    method = resolve_method(config, codec, context=engine.info.max_len)
    for unit in plan_units(config.input, config.unit_documents):
        documents = read_rows(Path(unit.file), unit.row_start, unit.num_documents)
        rows = prepare(documents, unit.unit_id, method, codec, None)
        rows = sample_calls(rows, method, codec, engine)
        results = {
            name: dict(zip(requests, Calculator().run(requests), strict=True))
            for name, requests in distinct_requests(rows).items()
        }
        rows = record_results(rows, results, codec, max_result_tokens=method.max_result_tokens)
        rows = score_calls(rows, method, codec, engine)
        commit_unit(RunDir(config.run), unit, rows, read_trace(rows) | {"finished_at": 0.0})
    return unit_bytes(config.run)
