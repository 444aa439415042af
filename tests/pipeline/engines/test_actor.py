"""Replicas as Ray actors: in one pool or in several they annotate as an engine in this process."""

import shutil
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import ray
import yaml
from ray.exceptions import RayActorError
from safetensors.numpy import load_file, save_file

from pipeline.config import RunConfig
from pipeline.engines.describe import describe_engines
from pipeline.engines.load import load_engine
from pipeline.engines.protocol import LMEngine, PositionRequest
from pipeline.execution import distinct_requests, record_results
from pipeline.method import Method, resolve_method
from pipeline.pools import Pools, load_weights, start_pools, wait_for_pools
from pipeline.prepare import prepare
from pipeline.ray_session import our_error
from pipeline.reading import read_rows
from pipeline.sampling import sample_calls
from pipeline.scoring import score_calls
from pipeline.tokens import TokenCodec
from pipeline.trace import read_trace
from tests.pipeline.demo_runs import DEMO, ROOT
from tests.pipeline.tiny_checkpoints import save_checkpoint
from tools.base import ConfigError
from tools.calculator import Calculator

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("local_ray")]

TORCH = {"name": "torch", "token_budget": 1024}
LOSS_APART = {"loss": TORCH | {"replicas": 2}}
ALL_APART = {"position": TORCH | {"max_num_seqs": 1}, "loss": TORCH | {"max_num_seqs": 2}}


def configured(path: Path = DEMO / "model", **settings: Any) -> RunConfig:
    demo = yaml.safe_load((ROOT / "pipeline" / "configs" / "demo.yaml").read_text())
    calculator = demo["tools"]["Calculator"] | {
        "prompt": str(ROOT / "pipeline" / "configs" / "demo_prompts" / "Calculator.txt")
    }
    return RunConfig.model_validate(
        {"run": "r", "input": str(DEMO / "documents.parquet"), "model": {"path": str(path)}}
        | {"engine": TORCH, "tools": {"Calculator": calculator}}
        | settings
    )


@pytest.fixture(scope="module")
def codec() -> TokenCodec:
    return TokenCodec.load(str(DEMO / "model"))


@pytest.fixture(scope="module")
def method(codec: TokenCodec) -> Method:
    return resolve_method(configured(), codec, context=1024)


@pytest.fixture(scope="module")
def unit(codec: TokenCodec, method: Method) -> pa.Table:
    """Documents of the demo, prepared; some are offered to the Calculator."""
    documents = read_rows(DEMO / "documents.parquet", 0, 12)
    return prepare(documents, "0", method, codec, None)


def executed(unit: pa.Table, method: Method, codec: TokenCodec) -> pa.Table:
    asked = distinct_requests(unit)["Calculator"]
    results = {"Calculator": dict(zip(asked, Calculator().run(asked), strict=True))}
    return record_results(unit, results, codec, max_result_tokens=method.max_result_tokens)


@pytest.fixture(scope="module")
def alone(unit: pa.Table, method: Method, codec: TokenCodec) -> tuple[pa.Table, LMEngine]:
    """The unit annotated in this process, and the engine that did it and nothing else."""
    engine = load_engine(configured().model, configured().engine)
    sampled = sample_calls(unit, method, codec, engine)
    scored = score_calls(executed(sampled, method, codec), method, codec, engine)
    assert any(call["gain"] is not None for row in scored.to_pylist() for call in row["calls"])
    return scored, engine


@pytest.mark.parametrize("engines", [{}, LOSS_APART, ALL_APART], ids=["one", "loss", "three"])
def test_pools_annotate_like_one_engine_in_this_process(
    engines: dict[str, Any],
    unit: pa.Table,
    method: Method,
    codec: TokenCodec,
    alone: tuple[pa.Table, LMEngine],
) -> None:
    config = configured(engines=engines)
    pools = start_pools(config)
    wait_for_pools(pools, describe_engines(config), {"Calculator": Calculator().version}, print)
    (sampler,), scorers = pools.replicas_of("sample"), pools.replicas_of("loss")
    assert len(pools.language_models) == 1 + len(engines)
    sampled = ray.get(sampler.sample_unit.remote(unit, method))
    scored = ray.get(scorers[-1].score_unit.remote(executed(sampled, method, codec), method))
    expected, engine = alone
    assert scored.drop_columns("trace").equals(expected.drop_columns("trace"))
    tokens, usage = read_trace(scored)["tokens"], engine.usage()
    assert tokens["loss_tokens"] == usage.loss_tokens
    assert tokens["position_tokens"] == usage.position_tokens
    if "position" in engines:  # S finds nothing that P computed
        assert tokens["sample_tokens"] > usage.sample_tokens
    else:
        assert tokens["sample_tokens"] == usage.sample_tokens


def test_units_that_arrive_together_are_all_annotated(
    unit: pa.Table, method: Method, alone: tuple[pa.Table, LMEngine]
) -> None:
    expected, _ = alone
    pools = start_pools(configured(engines=ALL_APART))
    (sampler,) = pools.replicas_of("sample")
    asked = [sampler.sample_unit.remote(unit, method) for _ in range(4)]
    for sampled in ray.get(asked):
        inputs = [[c["input"] for c in row["calls"]] for row in sampled.to_pylist()]
        assert inputs == [[c["input"] for c in row["calls"]] for row in expected.to_pylist()]


def test_what_cannot_be_loaded_is_the_error_it_is(tmp_path: Path) -> None:
    config = configured(tmp_path / "nothing", engines=LOSS_APART)
    pools = start_pools(config)
    (sampler,) = pools.replicas_of("sample")
    for _ in range(2):  # the second call tries again
        with pytest.raises(ConfigError, match="no such model directory"):
            ray.get(sampler.info.remote())


def test_an_error_in_another_pool_is_the_error_it_is(
    tmp_path: Path, unit: pa.Table, method: Method
) -> None:
    model = tmp_path / "model"
    shutil.copytree(DEMO / "model", model)
    pools = start_pools(configured(model, engines=LOSS_APART))
    (sampler,) = pools.replicas_of("sample")
    ray.get(sampler.info.remote())
    (model / "config.json").unlink()  # before the other pool has loaded
    with pytest.raises(Exception) as error:
        ray.get(sampler.sample_unit.remote(unit, method))
    ours = our_error(error.value)
    assert isinstance(ours, ConfigError)
    assert "has no config.json" in str(ours)


def test_a_pool_that_is_gone_for_good_is_rays_error(unit: pa.Table, method: Method) -> None:
    pools = start_pools(configured(engines={"loss": TORCH | {"num_threads": 2}}))
    (sampler,), (scorer,) = pools.replicas_of("sample"), pools.replicas_of("loss")
    ray.get([sampler.info.remote(), scorer.info.remote()])
    ray.kill(scorer)
    with pytest.raises(Exception) as error:
        ray.get(sampler.sample_unit.remote(unit, method))
    assert isinstance(getattr(error.value, "cause", None), RayActorError)


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A checkpoint, and another of the same shape, as after a round of self-training."""
    first = save_checkpoint(tmp_path_factory.mktemp("first"), "gptj")
    second = tmp_path_factory.mktemp("second") / "model"
    shutil.copytree(first, second)
    weights = load_file(second / "model.safetensors")
    moved = {name: (tensor * np.float32(0.5)) for name, tensor in weights.items()}
    save_file(moved, second / "model.safetensors", {"format": "pt"})
    return first, second


@pytest.fixture
def trained(rounds: tuple[Path, Path]) -> Iterator[tuple[Pools, RunConfig, RunConfig]]:
    """Pools that run the first checkpoint, and the configurations of both."""
    engines = {"loss": TORCH | {"replicas": 2}}
    configs = [configured(path, engine=TORCH, engines=engines) for path in rounds]
    yield start_pools(configs[0]), configs[0], configs[1]


QUESTION = PositionRequest(
    prompt_ids=np.array([5, 6, 7], dtype=np.int32), x_ids=np.array([8, 9, 10], dtype=np.int32)
)


def test_new_weights_are_loaded_everywhere_and_survive_a_restart(
    trained: tuple[Pools, RunConfig, RunConfig],
) -> None:
    pools, first, second = trained
    (sampler,) = pools.replicas_of("sample")
    (before,), _ = ray.get(sampler.position_logprobs.remote([QUESTION], [3]))
    assert describe_engines(first) != describe_engines(second)
    assert load_weights(pools, second.model.path) == describe_engines(second)
    new = load_engine(second.model, second.engine)
    (expected,) = new.position_logprobs([QUESTION], [3])
    (after,), _ = ray.get(sampler.position_logprobs.remote([QUESTION], [3]))
    assert expected is not None
    assert np.array_equal(after, expected) and not np.allclose(after, before)
    ray.kill(sampler, no_restart=False)
    deadline = time.monotonic() + 60
    while True:
        try:
            info = ray.get(sampler.info.remote())
            break
        except RayActorError:
            assert time.monotonic() < deadline
            time.sleep(0.2)
    assert info == new.info


def test_weights_of_another_shape_are_refused(
    trained: tuple[Pools, RunConfig, RunConfig], tmp_path: Path
) -> None:
    pools, first, _ = trained
    with pytest.raises(ConfigError, match="no such model directory"):
        load_weights(pools, str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="llama: cannot replace the weights of "):
        load_weights(pools, str(save_checkpoint(tmp_path / "llama", "llama")))
    (sampler,) = pools.replicas_of("sample")
    assert ray.get(sampler.info.remote()) == describe_engines(first)["sample"]


def test_prometheus_sees_tokens_idleness_and_what_waits(unit: pa.Table, method: Method) -> None:
    pools = start_pools(configured(engines={"loss": TORCH | {"num_threads": 3}}))
    (sampler,), (scorer,) = pools.replicas_of("sample"), pools.replicas_of("loss")
    sampled = ray.get(sampler.sample_unit.remote(unit, method))
    tokens = read_trace(sampled)["tokens"]
    here, there = ('engine="torch",', 'pool="position+sample"'), ('engine="torch",', 'pool="loss"')
    wanted: dict[tuple[str, ...], float | None] = {
        ("tokens_total{", *here, 'kind="position"'): tokens["position_tokens"],
        ("tokens_total{", *here, 'kind="sample"'): tokens["sample_tokens"],
        ("running{", *here): 0.0,
        ("waiting{", *here, 'stage="sample_unit"'): 0.0,
        ("waiting{", *there, 'stage="loss"'): 0.0,
        ("idle_seconds_total{", *there): None,
    }
    deadline = time.monotonic() + 60
    while missing := [key for key, value in wanted.items() if not shown(key, value)]:
        assert time.monotonic() < deadline, missing
        time.sleep(0.5)
    del scorer


def shown(parts: tuple[str, ...], value: float | None) -> bool:
    """Whether some series has all `parts` in its name and tags, and that value if any is given."""
    (node,) = ray.nodes()  # type: ignore[no-untyped-call]
    url = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
    with urllib.request.urlopen(url) as page:
        lines = page.read().decode().splitlines()
    series = [
        line
        for line in lines
        if line.startswith("ray_toolformer_lm_") and all(part in line for part in parts)
    ]
    values = [float(line.rsplit(" ", 1)[1]) for line in series]
    return bool(values) and (value is None or value in values)
