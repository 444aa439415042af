"""The fast path over arrays: its shares, its counts by hand, and that it is no other result."""

import numpy as np
import pytest

from pipeline.bench import fast
from pipeline.bench.demo_work import DOCUMENT_TOKENS, demo_method, demo_unit, fast_work
from pipeline.bench.engine import BOS_ID, engine_over
from pipeline.bench.metered import MeteredEngine
from pipeline.bench.naive import NaiveBaseline
from pipeline.bench.shapes import DEMO_MODEL, make_model, parse_shape
from pipeline.bench.tables import MAX_BODY_TOKENS, MAX_HEAD_ROWS
from pipeline.bench.throughput import agreement, run_fast
from pipeline.bench.workload import Document, Sizes, make_documents
from pipeline.engines.torch_engine import TorchEngine
from pipeline.tokens import TokenCodec

SIZES = Sizes(document_tokens=8, header_tokens=4, k=2, m=3, new_tokens=3)
SHAPE = parse_shape("16,2,2,64")


@pytest.fixture(scope="module")
def engine() -> MeteredEngine:
    model = make_model(SHAPE, dtype="float32", device="cpu", seed=0)
    return engine_over(model, device="cpu", threads=1, token_budget=512)


def documents(count: int, sizes: Sizes = SIZES) -> list[Document]:
    return make_documents(sizes, vocabulary=64, count=count, seed=3)


def test_25_samples_are_19_distinct_calls_at_positions_and_17_distinct_calls() -> None:
    [document] = documents(1, Sizes())
    found = [(c.position, c.call) for c in document.candidates]
    assert (len(found), len(set(found)), len({call for _, call in found})) == (25, 19, 17)
    assert all(sum(p == place for p, _ in found) == 5 for place in document.positions.tolist())
    assert len({c.call for c in document.candidates if c.needs_call}) == 2  # of 19, a tenth


def test_the_same_seed_makes_the_same_documents_with_one_header() -> None:
    first, second = documents(2)
    again, _ = documents(2)
    assert np.array_equal(first.prompt_ids, again.prompt_ids)
    assert np.array_equal(first.prompt_ids[:4], second.prompt_ids[:4])
    assert not np.array_equal(first.x_ids, second.x_ids)


def test_p_runs_the_header_once_and_one_row_for_each_token(engine: MeteredEngine) -> None:
    engine.reset()
    fast.positions(engine, documents(2))
    # Begin and header, then twice x, separator and x without its last token.
    assert engine.work["position"].tokens == 5 + 2 * (8 + 4 + 7)
    assert engine.work["position"].rows == 2 * 8
    assert engine.work["sample"].tokens == engine.work["loss"].tokens == 0


def test_s_goes_on_from_p_and_runs_equal_samples_once(engine: MeteredEngine) -> None:
    made = documents(2)
    fast.positions(engine, made)
    engine.reset()
    fast.samples(engine, made, new_tokens=3, greedy=True)
    assert engine.work["sample"].tokens == engine.work["sample"].rows == 2 * 2 * 3


def test_s_computes_the_prefixes_again_once_it_has_gone_on_from_them(
    engine: MeteredEngine,
) -> None:
    made = documents(2)
    run_fast(engine, made, new_tokens=3)
    engine.reset()
    fast.samples(engine, made, new_tokens=3, greedy=True)
    # After the header, which stays: x and the separator of the prompt, x up to the last position.
    prefixes = sum(8 + 4 + int(document.positions.max()) for document in made)
    assert engine.work["sample"].tokens == prefixes + 2 * 2 * 3


def test_l_runs_equal_calls_once_and_cuts_the_document_after_the_window(
    engine: MeteredEngine,
) -> None:
    [document] = documents(1)
    engine.reset()
    fast.losses_without(engine, [document])
    last = min(int(document.positions.max()) + 5, 8)
    assert engine.work["loss"].tokens == last  # begin, and all but the last token of the window
    windows = {i + t for i in document.positions.tolist() for t in range(5) if i + t < 8}
    assert engine.work["loss"].rows == len(windows)


def test_l_without_the_result_is_nan_where_it_cannot_matter(engine: MeteredEngine) -> None:
    [document] = documents(1)
    [losses_C2] = fast.losses_with(engine, [document])
    needed = [c.needs_call for c in document.candidates]
    assert np.array_equal(~np.isnan(losses_C2[:, 0]), needed) and any(needed) and not all(needed)
    assert np.isfinite(losses_C2[:, 1]).all()


def test_both_paths_give_the_same_numbers(engine: MeteredEngine) -> None:
    model = make_model(SHAPE, dtype="float32", device="cpu", seed=0)
    baseline = NaiveBaseline(model, bos_id=BOS_ID)
    found = agreement(engine, baseline, documents(1)[0], new_tokens=3)
    assert found.max_abs_dp < 1e-6 and found.max_abs_dloss_nats < 1e-5
    assert found.greedy_samples_identical


def test_the_work_on_the_demo_stays_below_its_aims() -> None:
    codec = TokenCodec.load(str(DEMO_MODEL))
    engine = MeteredEngine(TorchEngine.load(str(DEMO_MODEL), token_budget=1024))
    method = demo_method(codec, Sizes(), context=engine.info.max_len)
    unit = demo_unit(method, codec, 4)
    assert [len(x_ids) for x_ids in unit.column("input_ids").to_pylist()] == [DOCUMENT_TOKENS] * 4
    counted = fast_work(engine, method, codec, unit)
    assert counted.positions == 4 * 5
    assert counted.total().tokens / 4 <= MAX_BODY_TOKENS
    assert counted.total().rows / 4 <= MAX_HEAD_ROWS
    assert counted.calls >= 4  # otherwise little work would mean little
    assert 0 < sum(spent.cpu_s for spent in counted.seconds.values()) < counted.all_seconds.cpu_s
