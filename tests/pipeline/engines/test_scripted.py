"""The null engine answers as an engine must, and every stage finds something to do in it."""

import numpy as np
import pytest

from pipeline.config import ModelConfig
from pipeline.engine_config import EngineConfig
from pipeline.engines.describe import describe_model
from pipeline.engines.load import load_engine
from pipeline.engines.protocol import LossRequest, PositionRequest, SampleRequest, SamplingParams
from pipeline.engines.scripted import ScriptedEngine
from pipeline.positions import select_positions
from pipeline.tokens import TokenCodec
from tests.pipeline.demo_runs import DEMO
from tools.base import ConfigError
from tools.calls import parse_call
from tools.prompt import load_prompt, render

NAME = "pipeline.engines.scripted:ScriptedEngine"
MODEL = ModelConfig(path=str(DEMO / "model"))
TEXT = "The team won 3 of 7 games in 2012, and the town of 4500 people was glad of it. " * 4


@pytest.fixture(scope="module")
def codec() -> TokenCodec:
    return TokenCodec.load(MODEL.path)


@pytest.fixture(scope="module")
def engine() -> ScriptedEngine:
    loaded = load_engine(MODEL, EngineConfig(name=NAME))
    assert isinstance(loaded, ScriptedEngine)
    return loaded


def test_it_is_described_as_it_is_loaded(engine: ScriptedEngine) -> None:
    assert describe_model(MODEL, EngineConfig(name=NAME)) == engine.info


def test_about_one_position_in_sixteen_is_likely(engine: ScriptedEngine, codec: TokenCodec) -> None:
    x_ids = codec.canonical(TEXT * 20)
    request = PositionRequest(prompt_ids=codec.prompt_ids("Input:"), x_ids=x_ids)
    [logprobs_nA] = engine.position_logprobs([request], codec.open_ids)
    assert logprobs_nA is not None and logprobs_nA.shape == (len(x_ids), 1)
    p_api_n = np.exp(logprobs_nA[:, 0].astype(np.float64))
    likely = select_positions(p_api_n, np.ones(len(x_ids), bool), tau_s=0.05, k=len(x_ids))
    assert 0.5 < len(likely) / (len(x_ids) / 16) < 2


@pytest.mark.parametrize("tool", ["Calculator", "WikiSearch"])
def test_its_samples_are_calls_of_the_tool_of_the_prompt(
    engine: ScriptedEngine, codec: TokenCodec, tool: str
) -> None:
    seeds_Km = np.array([[1, 2, 8], [9, 2, 500]], dtype=np.uint64)
    request = SampleRequest(
        prompt_ids=codec.prompt_ids(render(load_prompt(tool), TEXT)), x_ids=codec.canonical(TEXT),
        positions=np.array([3, 5], dtype=np.int32), open_ids=codec.open_ids, seeds_Km=seeds_Km,
    )  # fmt: skip
    params = SamplingParams(stop_ids=codec.close_ids)
    [samples] = engine.sample([request], params)
    assert samples is not None and [len(row) for row in samples] == [3, 3]
    for sample in (sample for row in samples for sample in row):
        text = codec.decode_sample(sample.token_ids)
        assert sample.ended and text is not None
        assert parse_call(text, tool) is not None
    assert samples[0][1] == samples[1][1] != samples[0][0]


def test_some_calls_help_and_others_do_not(engine: ScriptedEngine, codec: TokenCodec) -> None:
    x_ids, positions = codec.canonical(TEXT), np.array([2, 4], dtype=np.int32)
    z_ids = [codec.encode_pieces([f"[Calculator({a})"]) for a in range(20)]
    nothing = np.zeros(0, dtype=np.int32)
    requests = [
        LossRequest(z_ids=z, x_ids=x_ids, positions=positions) for z in [nothing, *z_ids]
    ]  # fmt: skip
    without, *after = (
        rows[0, 0] for rows in engine.window_logprobs(requests, 5) if rows is not None
    )
    assert without == -2.0
    assert {round(float(value - without), 1) for value in after} == {-0.6, 0.0, 0.6, 1.2, 1.8}


def test_windows_end_with_the_text(engine: ScriptedEngine, codec: TokenCodec) -> None:
    x_ids = codec.canonical(TEXT)
    request = LossRequest(
        z_ids=np.zeros(0, dtype=np.int32),
        x_ids=x_ids,
        positions=np.array([len(x_ids) - 2], dtype=np.int32),
    )
    [rows] = engine.window_logprobs([request], 5)
    assert rows is not None and np.isnan(rows[0]).tolist() == [False, False, True, True, True]


@pytest.mark.parametrize(
    ("engine", "says"),
    [
        ({"name": NAME, "options": {"second": 1}}, "second: Extra inputs are not permitted"),
        ({"name": "nowhere:Engine"}, "engine nowhere:Engine: cannot import nowhere: ModuleNotFoun"),
        (
            {"name": "pipeline.tokens:Codec"},
            "pipeline.tokens:Codec: .* has no callable 'Codec'",
        ),
        ({"name": "pipeline.tokens:Ids"}, r"engine pipeline.tokens:Ids: the class has no describe"),
    ],
)
def test_what_is_wrong_with_an_engine_of_ones_own_is_one_line(
    engine: dict[str, object], says: str
) -> None:
    with pytest.raises(ConfigError, match=says) as error:
        describe_model(MODEL, EngineConfig.model_validate(engine))
    assert "\n" not in str(error.value)
