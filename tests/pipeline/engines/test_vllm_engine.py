"""VLLMEngine against what every engine must do, and what is its own."""

import asyncio
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from pipeline.engines.checkpoint import weights_id
from pipeline.engines.generation import Choosing, GenerationUsage
from pipeline.engines.protocol import EngineUsage, SamplingParams
from pipeline.engines.vllm_capabilities import vllm_version
from pipeline.engines.vllm_engine import VLLMEngine
from pipeline.engines.vllm_generation import VLLMGeneration
from pipeline.tokens import TokenCodec
from tests.pipeline.engines.asked import LOSSES, STOP_IDS, WIDTH, ids, losses, sampling
from tests.pipeline.engines.checkpoint_variants import save_vllm_checkpoint, with_other_weights
from tests.pipeline.engines.conformance import POSITIONS, SAMPLES, TOKENS, Conformance, asking
from tests.pipeline.engines.generation_conformance import (
    GREEDY,
    LONGEST,
    GenerationConformance,
    joined,
    stretch,
)
from tests.pipeline.slow_reference import SlowReference
from tests.pipeline.tiny_checkpoints import CONTEXT, VOCABULARY
from tools.base import ConfigError, ContractError

pytest.importorskip("vllm", reason="vllm is not installed")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_vllm_checkpoint(tmp_path_factory.mktemp("vllm"))


@pytest.fixture(scope="module")
def other(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_other_weights(checkpoint, tmp_path_factory.mktemp("other"))


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_vllm_checkpoint(tmp_path_factory.mktemp("foreign"), context=2 * CONTEXT)


@pytest.fixture(scope="module")
def codec(checkpoint: Path) -> TokenCodec:
    return TokenCodec.load(str(checkpoint))


@pytest.fixture(scope="module")
def reference(checkpoint: Path, codec: TokenCodec) -> SlowReference:
    assert codec.bos_id is not None and codec.eos_id is not None
    model: Any = AutoModelForCausalLM.from_pretrained(checkpoint)
    return SlowReference(model.eval(), bos_id=codec.bos_id, eos_id=codec.eos_id)


@pytest.fixture(scope="module")
def engine(checkpoint: Path) -> Iterator[VLLMEngine]:
    """One for all: vLLM takes long to start. Few tokens a pass: most requests wait for others."""
    engine = VLLMEngine(str(checkpoint), max_num_batched_tokens=CONTEXT)
    yield engine
    engine.close()


@pytest.fixture
def generation(engine: VLLMEngine) -> VLLMGeneration:
    """On the vLLM of the other tests, and not closed before them."""
    return VLLMGeneration(engine)


class TestVLLMEngine(Conformance):
    """One engine answers all."""


class TestVLLMGeneration(GenerationConformance):
    """The same vLLM, with texts that grow in it."""


def test_more_of_the_likeliest_than_vllm_tells_are_refused(generation: VLLMGeneration) -> None:
    choosing = Choosing(max_new_tokens=1, trigger_id=257, trigger_k=50)
    with pytest.raises(ConfigError, match=r"^api_top_k: got 50, expected at most 20: .*: torch$"):
        asyncio.run(stretch(generation, ids(9), choosing))
    assert len(asyncio.run(stretch(generation, ids(9), GREEDY))) == 12


def test_whole_blocks_of_a_text_are_reused(generation: VLLMGeneration) -> None:
    async def grow() -> tuple[GenerationUsage, GenerationUsage]:
        async with generation.begin(LONGEST) as begun:
            text = ids(55, seed=3)
            steps = [step async for step in begun.stretch(text, GREEDY)]
            first = generation.usage()
            text = np.concatenate([joined(text, steps), ids(3)])
            assert len([step async for step in begun.stretch(text, GREEDY)]) == 12
        return first, generation.usage()

    first, both = asyncio.run(grow())
    # The last token of a stretch goes through nothing. 67 tokens did: two blocks of 32.
    assert first == (1 + 55 + 11, 0, 12)
    assert both == (first.run_tokens + 1 + 55 + 12 + 3 + 11 - 64, 64, 24)


def test_a_prompt_that_is_reused_but_for_its_last_token_is_counted_once(
    generation: VLLMGeneration,
) -> None:
    counts = []
    for _ in range(2):
        asyncio.run(stretch(generation, ids(32, seed=4), GREEDY))
        counts.append(generation.usage())
    assert counts == [(1 + 32 + 11, 0, 12), (1 + 32 + 11 + 1 + 11, 32, 24)]


def test_a_stretch_that_is_left_ends_its_request(
    engine: VLLMEngine, generation: VLLMGeneration, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm = engine.core._running.llm
    aborted, abort = threading.Event(), llm.abort

    async def told_to_abort(*request: Any, **how: Any) -> None:
        await abort(*request, **how)
        aborted.set()

    monkeypatch.setattr(llm, "abort", told_to_abort)

    async def leave() -> None:
        async with generation.begin(LONGEST) as begun:
            async for _ in begun.stretch(ids(9), Choosing(max_new_tokens=80)):
                break

    asyncio.run(leave())
    assert aborted.wait(10)
    assert not llm.output_processor.has_unfinished_requests()


def test_info_says_what_answers(engine: VLLMEngine, checkpoint: Path) -> None:
    assert engine.info == (
        "vllm", vllm_version(), "cpu", "float32", CONTEXT, VOCABULARY,
        weights_id(str(checkpoint), None),
    )  # fmt: skip
    assert engine.remark is not None
    assert engine.remark.startswith(f"vLLM {vllm_version()} on this device tells no chosen tokens")
    assert engine.concurrency > 1
    assert engine.kept_tokens * engine.concurrency > CONTEXT


def test_threads_that_ask_at_once_get_their_own_answers(engine: VLLMEngine) -> None:
    params = SamplingParams(stop_ids=STOP_IDS, max_new_tokens=12)
    alone_P = engine.position_logprobs(POSITIONS, TOKENS)
    alone_L = engine.window_logprobs(LOSSES, WIDTH)
    alone_S = engine.sample(SAMPLES, params)
    start = threading.Barrier(4)

    def unit(number: int) -> tuple[Any, Any, Any, EngineUsage]:
        assert engine.usage() == EngineUsage()  # another thread's work is not ours
        start.wait()
        shift = slice(number, None)
        return (
            engine.position_logprobs(POSITIONS[shift], TOKENS),
            engine.window_logprobs(LOSSES[shift], WIDTH),
            engine.sample(SAMPLES[shift], params),
            engine.usage(),
        )

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(unit, range(4)))
    for number, (ours_P, ours_L, ours_S, usage) in enumerate(answers):
        for ours, alone in ((ours_P, alone_P), (ours_L, alone_L)):
            for our, one in zip(ours, alone[number:], strict=True):
                np.testing.assert_allclose(our, one, atol=1e-4)
        assert ours_S == alone_S[number:]
        assert min(usage.position_tokens, usage.sample_tokens, usage.loss_tokens) > 0


def test_what_is_in_the_cache_is_not_counted(engine: VLLMEngine) -> None:
    greedy = SamplingParams(stop_ids=frozenset(), max_new_tokens=1, temperature=0.0)
    request = sampling(7, 6, prompt=64)
    prompt_tokens = 1 + 64 + 6 + 1
    counts = []
    for _ in range(2):
        before = engine.usage().sample_tokens
        engine.sample([request], greedy)
        counts.append(engine.usage().sample_tokens - before)
    # Blocks of 32 tokens: two are found again.
    assert counts == [prompt_tokens, prompt_tokens - 64]


def test_a_failed_request_leaves_the_engine_usable(engine: VLLMEngine) -> None:
    with pytest.raises(ContractError, match=r"vllm: document of .* got VLLMValidationError"):
        engine.position_logprobs([asking(5, 6), asking(5, 7)], [VOCABULARY + 5])
    assert len(engine.window_logprobs([losses(3, 9, 2)], WIDTH)) == 1


@pytest.mark.parametrize("temperature", [0.001, 2.5])
def test_temperatures_vllm_would_change_are_refused(engine: VLLMEngine, temperature: float) -> None:
    params = SamplingParams(stop_ids=STOP_IDS, temperature=temperature)
    with pytest.raises(ConfigError, match=f"temperature: got {temperature:g}, expected 0 or 0.01"):
        engine.sample([sampling(9, 3)], params)


def test_weights_of_another_depth_or_tokenizer_are_refused(
    engine: VLLMEngine, checkpoint: Path, tmp_path: Path
) -> None:
    deeper = save_vllm_checkpoint(tmp_path / "deeper", num_layers=3)
    with pytest.raises(
        ConfigError, match=f"{deeper}: .*{checkpoint}: its n_layer is 3, expected 2"
    ):
        engine.load_weights(str(deeper))
    renamed = shutil.copytree(checkpoint, tmp_path / "renamed")
    tokenizer = renamed / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace('"<|endoftext|>"', '"<|the end|>"'))
    settings = renamed / "tokenizer_config.json"
    settings.write_text(settings.read_text().replace("<|endoftext|>", "<|the end|>"))
    with pytest.raises(ConfigError, match="their tokenizers differ"):
        engine.load_weights(str(renamed))
    assert engine.info.weights_id == weights_id(str(checkpoint), None)


def test_a_vllm_of_another_device_is_named(checkpoint: Path) -> None:
    with pytest.raises(ConfigError, match="engine: vllm: got a vLLM for cpu, expected one for cu"):
        VLLMEngine(str(checkpoint), device="cuda")


def test_weights_that_do_not_load_make_the_engine_refuse_everything(
    engine: VLLMEngine, checkpoint: Path, tmp_path: Path
) -> None:
    """The last test of this engine."""
    torn = shutil.copytree(checkpoint, tmp_path / "torn")
    weights = load_file(torn / "model.safetensors")
    name = "transformer.h.1.mlp.fc_in.weight"
    save_file(weights | {name: weights[name][:-1].clone()}, torn / "model.safetensors")
    with pytest.raises(ConfigError, match=f"^{torn}: vLLM cannot load its weights: "):
        engine.load_weights(str(torn))
    assert engine.info.weights_id == weights_id(str(checkpoint), None)
    for ask in (
        lambda: engine.window_logprobs([losses(3, 9, 2)], WIDTH),
        lambda: engine.load_weights(str(checkpoint)),
    ):
        with pytest.raises(ConfigError, match=f"^{torn}: vLLM may have loaded its weights only in"):
            ask()
