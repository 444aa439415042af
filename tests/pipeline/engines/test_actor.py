"""Replicas as Ray actors: in one pool or in several they annotate as an engine in this process."""

import shutil
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import ray
from ray.exceptions import RayActorError
from safetensors.numpy import load_file, save_file

from pipeline.config import RunConfig
from pipeline.engines.describe import describe_engines
from pipeline.engines.load import load_engine
from pipeline.engines.protocol import EngineUsage, LMEngine, PositionRequest
from pipeline.method import Method
from pipeline.pools import Pools, load_weights, start_pools, wait_for_pools
from pipeline.ray_session import our_error
from pipeline.sampling import sample_calls
from pipeline.scoring import score_calls
from pipeline.tokens import TokenCodec
from pipeline.trace import read_trace, usage_between
from tests.pipeline.demo_runs import DEMO
from tests.pipeline.engines.demo_units import (
    TORCH,
    configured,
    demo_codec,
    demo_method,
    demo_unit,
    executed,
    num_gains,
)
from tests.pipeline.tiny_checkpoints import save_checkpoint
from tools.base import ConfigError
from tools.calculator import Calculator

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("local_ray")]

LOSS_APART = {"loss": TORCH | {"max_num_seqs": 1}}  # torch has no use for it: a pool of its own
ALL_APART = LOSS_APART | {"position": TORCH | {"max_num_seqs": 2}}


@pytest.fixture(scope="module")
def codec() -> TokenCodec:
    return demo_codec()


@pytest.fixture(scope="module")
def method(codec: TokenCodec) -> Method:
    return demo_method(codec)


@pytest.fixture(scope="module")
def unit(codec: TokenCodec, method: Method) -> pa.Table:
    return demo_unit(0, 8, method, codec)


@pytest.fixture(scope="module")
def alone(unit: pa.Table, method: Method, codec: TokenCodec) -> tuple[pa.Table, LMEngine]:
    """The unit annotated in this process, and the engine that did it and nothing else."""
    engine = load_engine(configured().model, configured().engine)
    sampled = sample_calls(unit, method, codec, engine)
    scored = score_calls(executed(sampled, method, codec), method, codec, engine)
    assert num_gains(scored)
    return scored, engine


def annotated(pools: Pools, unit: pa.Table, method: Method, codec: TokenCodec) -> pa.Table:
    (sampler,), (scorer,) = pools.access_to("sample").replicas, pools.access_to("loss").replicas
    sampled = ray.get(sampler.sample_unit.remote(unit, method))
    return ray.get(scorer.score_unit.remote(executed(sampled, method, codec), method))


def test_pools_annotate_like_one_engine_and_are_seen_by_prometheus(
    unit: pa.Table, method: Method, codec: TokenCodec, alone: tuple[pa.Table, LMEngine]
) -> None:
    config = configured(engines=LOSS_APART)
    pools = start_pools(config)
    told: list[str] = []
    versions = {"Calculator": Calculator().version}
    wait_for_pools(pools, describe_engines(config), versions, told.append)
    assert told == []
    assert [pool.plan.name for pool in pools.language_models] == ["loss", "position+sample"]
    scored, (expected, engine) = annotated(pools, unit, method, codec), alone
    assert scored.drop_columns("trace").equals(expected.drop_columns("trace"))
    assert read_trace(scored)["tokens"] == usage_between(EngineUsage(), engine.usage())
    assert_prometheus_sees(engine.usage())


def test_where_p_is_apart_s_computes_its_prompts_itself(
    unit: pa.Table, method: Method, codec: TokenCodec, alone: tuple[pa.Table, LMEngine]
) -> None:
    pools = start_pools(configured(engines=ALL_APART))
    scored, (expected, engine) = annotated(pools, unit, method, codec), alone
    assert scored.drop_columns("trace").equals(expected.drop_columns("trace"))
    tokens, usage = read_trace(scored)["tokens"], engine.usage()
    assert tokens["loss_tokens"] == usage.loss_tokens
    assert tokens["position_tokens"] == usage.position_tokens
    assert tokens["sample_tokens"] > usage.sample_tokens
    # Two are at work at once there, and those that arrive together are all annotated.
    (sampler,) = pools.access_to("sample").replicas
    for sampled in ray.get([sampler.sample_unit.remote(unit, method) for _ in range(3)]):
        inputs = [[c["input"] for c in row["calls"]] for row in sampled.to_pylist()]
        assert inputs == [[c["input"] for c in row["calls"]] for row in expected.to_pylist()]


def test_what_fails_in_another_pool_is_the_error_it_is(
    tmp_path: Path, unit: pa.Table, method: Method
) -> None:
    model = tmp_path / "model"
    shutil.copytree(DEMO / "model", model)
    pools = start_pools(configured(model, engines=LOSS_APART))
    (sampler,), (scorer,) = pools.access_to("sample").replicas, pools.access_to("loss").replicas
    ray.get(sampler.info.remote())
    (model / "config.json").unlink()  # before the other pool has loaded
    with pytest.raises(ConfigError, match=r"has no config\.json"):
        ray.get(scorer.info.remote())
    with pytest.raises(Exception) as error:
        ray.get(sampler.sample_unit.remote(unit, method))
    ours = our_error(error.value)
    assert isinstance(ours, ConfigError)
    assert "has no config.json" in str(ours)


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


@pytest.fixture(scope="module")
def trained(rounds: tuple[Path, Path]) -> tuple[Pools, RunConfig, RunConfig]:
    """Pools that run the first checkpoint, and the configurations of both."""
    first, second = (configured(path, engines=LOSS_APART) for path in rounds)
    return start_pools(first), first, second


QUESTION = PositionRequest(
    prompt_ids=np.array([5, 6, 7], dtype=np.int32), x_ids=np.array([8, 9, 10], dtype=np.int32)
)


def test_new_weights_are_loaded_everywhere_and_survive_a_restart(
    trained: tuple[Pools, RunConfig, RunConfig],
) -> None:
    pools, first, second = trained
    (sampler,) = pools.access_to("sample").replicas
    (before,), _ = ray.get(sampler.position_logprobs.remote([QUESTION], [3]))
    assert describe_engines(first) != describe_engines(second)
    assert load_weights(pools, second.model.path) == describe_engines(second)
    new = load_engine(second.model, second.engine)
    (expected,) = new.position_logprobs([QUESTION], [3])
    (after,), _ = ray.get(sampler.position_logprobs.remote([QUESTION], [3]))
    assert expected is not None
    assert np.array_equal(after, expected) and not np.allclose(after, before)
    old = ray.get(sampler.ready.remote())
    ray.kill(sampler, no_restart=False)
    deadline = time.monotonic() + 120
    while (life := loaded(sampler)) in (None, old):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert life != old
    assert ray.get(sampler.info.remote()) == new.info


def loaded(replica: Any) -> str | None:
    """What names the process of a replica once it has loaded; None while it is not there."""
    try:
        ray.get(replica.info.remote())
        life: str | None = ray.get(replica.ready.remote())
    except RayActorError:
        return None
    return life


def test_weights_of_another_shape_are_refused(
    trained: tuple[Pools, RunConfig, RunConfig], tmp_path: Path
) -> None:
    pools, _, _ = trained
    (sampler,) = pools.access_to("sample").replicas
    before = ray.get(sampler.info.remote())
    with pytest.raises(ConfigError, match="no such model directory"):
        load_weights(pools, str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="llama: cannot replace the weights of "):
        load_weights(pools, str(save_checkpoint(tmp_path / "llama", "llama")))
    assert ray.get(sampler.info.remote()) == before


def assert_prometheus_sees(usage: EngineUsage) -> None:
    here, there = ('engine="torch",', 'pool="position+sample"'), ('engine="torch",', 'pool="loss"')
    wanted: dict[tuple[str, ...], float | None] = {
        ("tokens_total{", *here, 'kind="position"'): usage.position_tokens,
        ("tokens_total{", *here, 'kind="sample"'): usage.sample_tokens,
        ("running{", *here): 0.0,
        ("waiting{", *here, 'stage="sample_unit"'): 0.0,
        ("waiting{", *there, 'stage="loss"'): 0.0,
        ("idle_seconds_total{", *there): None,
    }
    deadline = time.monotonic() + 60
    while missing := [key for key, value in wanted.items() if not shown(key, value)]:
        assert time.monotonic() < deadline, missing
        time.sleep(0.5)


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
