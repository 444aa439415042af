"""Loading: what is refused, in one line each, and what identifies the weights."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BloomConfig, Gemma2Config, GPTJConfig, PreTrainedConfig
from transformers.models.auto import AutoModelForCausalLM

from pipeline.config import EngineConfig, ModelConfig
from pipeline.engines.causal_lm import CausalLM, causal_lm
from pipeline.engines.checkpoint import context_length, weights_id
from pipeline.engines.describe import describe_model
from pipeline.engines.load import load_engine
from tests.pipeline.tiny_checkpoints import CONTEXT, VOCABULARY
from tools.base import ConfigError


@pytest.fixture
def copy(checkpoints: dict[str, Path], tmp_path: Path) -> Path:
    """A GPT-J checkpoint to spoil."""
    return Path(shutil.copytree(checkpoints["gptj"], tmp_path / "model"))


def load(path: Path | str) -> None:
    load_engine(ModelConfig(path=str(path)), EngineConfig())


def rewrite_weights(directory: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    weights = load_file(directory / "model.safetensors")
    change(weights)
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})


def one_line_error(path: Path | str, match: str) -> None:
    with pytest.raises(ConfigError, match=match) as error:
        load(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_a_checkpoint_loads_by_its_configuration(copy: Path) -> None:
    engine = load_engine(
        ModelConfig(path=str(copy), dtype="bfloat16"), EngineConfig(token_budget=64)
    )
    assert engine.info.dtype == "bfloat16"
    assert (engine.info.max_len, engine.info.vocab_size) == (CONTEXT, VOCABULARY)
    assert engine.info.weights_id == weights_id(str(copy), None)


def test_a_model_is_described_without_its_weights(checkpoint: Path) -> None:
    model = ModelConfig(path=str(checkpoint))
    assert describe_model(model, EngineConfig()) == load_engine(model, EngineConfig()).info


def test_a_damaged_configuration_is_refused(copy: Path) -> None:
    (copy / "config.json").write_text("{")
    one_line_error(copy, r"no usable config\.json")
    with pytest.raises(ConfigError, match=r"no usable config\.json"):
        describe_model(ModelConfig(path=str(copy)), EngineConfig())


def test_a_large_weight_file_with_a_damaged_header_is_refused(copy: Path) -> None:
    with (copy / "model.safetensors").open("wb") as file:
        file.write((100).to_bytes(8, "little") + b"{" * 100)
        file.truncate(20 << 20)  # of a small file the header is not read to hash it
    with pytest.raises(ConfigError, match=r"model\.safetensors: its header is damaged"):
        weights_id(str(copy), None)


def test_a_missing_directory_is_refused(tmp_path: Path) -> None:
    one_line_error(tmp_path / "nothing", "no such model directory")


def test_a_file_is_refused(copy: Path) -> None:
    one_line_error(copy / "config.json", "no such model directory")


def test_a_hub_name_is_refused_where_the_hub_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    one_line_error("nobody/no-such-model", "no tokenizer")
    with pytest.raises(ConfigError, match=r"no usable config\.json"):
        weights_id("nobody/no-such-model", None)


def test_missing_weights_are_refused(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    one_line_error(copy, "cannot be loaded")
    with pytest.raises(ConfigError, match="no weights"):
        weights_id(str(copy), None)


def test_torn_weights_are_refused(copy: Path) -> None:
    file = copy / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])
    one_line_error(copy, "cannot be loaded")


def test_a_missing_tensor_is_refused_and_not_made_up(copy: Path) -> None:
    def drop(weights: dict[str, torch.Tensor]) -> None:
        del weights["lm_head.bias"]

    rewrite_weights(copy, drop)
    one_line_error(copy, r"1 weights are missing, lm_head\.bias among them")


def test_weights_that_are_no_numbers_are_refused(copy: Path) -> None:
    def damage(weights: dict[str, torch.Tensor]) -> None:
        weights["transformer.h.1.mlp.fc_in.weight"][0, 0] = float("nan")

    rewrite_weights(copy, damage)
    with pytest.raises(ConfigError, match="its logits are not finite in float32: are its weights"):
        load(copy)


def test_weights_of_another_shape_are_refused(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"n_embd": 64}))
    one_line_error(copy, "cannot be loaded")


def test_an_unknown_architecture_is_refused(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"model_type": "abacus"}))
    one_line_error(copy, "abacus")


def test_a_tokenizer_of_a_larger_model_is_refused(copy: Path) -> None:
    tokenizer = json.loads((copy / "tokenizer.json").read_text())
    for token in tokenizer["added_tokens"]:
        token["id"] = VOCABULARY + 7
    tokenizer["model"]["vocab"]["<|endoftext|>"] = VOCABULARY + 7
    (copy / "tokenizer.json").write_text(json.dumps(tokenizer))
    one_line_error(copy, "do not belong together")


SMALL: dict[str, Any] = {"vocab_size": 50, "hidden_size": 32, "initializer_range": 0.2}
HEADS: dict[str, Any] = {
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 8,
}


def random_model(config: PreTrainedConfig, dtype: torch.dtype) -> CausalLM:
    torch.manual_seed(3)
    model: Any = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    return causal_lm(model.eval().to(dtype), torch.device("cpu"), 64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_that_caps_its_logits_is_refused(dtype: torch.dtype) -> None:
    capped = Gemma2Config(
        **SMALL, **HEADS, pad_token_id=0, bos_token_id=0, eos_token_id=0,
        intermediate_size=64, final_logit_softcapping=2.0,
    )  # fmt: skip
    with pytest.raises(ConfigError, match="not one whose logits are a linear map"):
        random_model(capped, dtype)


def test_a_model_without_a_context_length_is_refused() -> None:
    bloom = BloomConfig(**SMALL, n_layer=2, n_head=4)
    with pytest.raises(ConfigError, match="states no context length"):
        context_length(bloom, "bloom")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_check_leaves_no_trace_in_the_counts(dtype: torch.dtype) -> None:
    ends: dict[str, Any] = {"bos_token_id": 0, "eos_token_id": 0}
    config = GPTJConfig(
        vocab_size=50, n_positions=64, n_embd=32, n_layer=2, n_head=4, rotary_dim=4,
        initializer_range=0.2, tie_word_embeddings=False, **ends,
    )  # fmt: skip
    lm = random_model(config, dtype)
    assert (lm.tokens_run, lm.padding_run, lm.head.rows_run) == (0, 0, 0)


def test_the_context_ends_where_a_sliding_window_would_forget() -> None:
    config = Gemma2Config(
        **SMALL, **HEADS, pad_token_id=0, bos_token_id=0, eos_token_id=0,
        intermediate_size=64, max_position_embeddings=64, sliding_window=24,
    )  # fmt: skip
    assert context_length(config, "gemma2") == 24


def test_equal_weights_have_equal_ids_wherever_they_lie(
    checkpoints: dict[str, Path], copy: Path
) -> None:
    assert weights_id(str(copy), None) == weights_id(str(checkpoints["gptj"]), None)
    assert weights_id(str(copy), None) != weights_id(str(checkpoints["llama"]), None)


def test_one_changed_weight_changes_the_id(copy: Path) -> None:
    before = weights_id(str(copy), None)

    def change(weights: dict[str, torch.Tensor]) -> None:
        weights["lm_head.bias"][3] += 1.0

    rewrite_weights(copy, change)
    assert weights_id(str(copy), None) != before


def test_a_changed_configuration_changes_the_id(copy: Path) -> None:
    before = weights_id(str(copy), None)
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"layer_norm_epsilon": 1e-6}))
    assert weights_id(str(copy), None) != before


@pytest.mark.parametrize("tensor", ["a", "b", "c"])
def test_a_change_at_the_start_of_any_tensor_of_a_large_file_changes_the_id(
    tmp_path: Path, tensor: str
) -> None:
    (tmp_path / "config.json").write_text("{}")
    weights = {name: torch.zeros(2 << 20) for name in "abc"}  # 24 MB in all, hashed in parts
    save_file(weights, tmp_path / "model.safetensors")
    before = weights_id(str(tmp_path), None)
    weights[tensor][0] = 1.0
    save_file(weights, tmp_path / "model.safetensors")
    assert weights_id(str(tmp_path), None) != before


def test_a_large_file_that_is_no_safetensors_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * (17 << 20))
    with pytest.raises(ConfigError, match="not a safetensors file"):
        weights_id(str(tmp_path), None)
