"""What may differ between a checkpoint and the one that takes its place."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pipeline.engines.replaceable import check_replaceable
from tests.pipeline.tiny_checkpoints import CONTEXT, save_checkpoint
from tools.base import ConfigError


def copy_with(checkpoint: Path, directory: Path, **entries: Any) -> Path:
    """The checkpoint with other entries in its config.json."""
    shutil.copytree(checkpoint, directory)
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))
    return directory


@pytest.mark.parametrize(
    "entries",
    [
        {"dtype": "bfloat16", "architectures": ["GPTJModel"], "_name_or_path": "elsewhere"},
        {"torch_dtype": "float16", "transformers_version": "4.21.0", "use_cache": False},
        {"pad_token_id": 0, "bos_token_id": None, "tokenizer_class": "GPT2Tokenizer"},
        {"gradient_checkpointing": True, "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1},
        {"initializer_range": 0.02, "task_specific_params": {"text-generation": {"top_k": 5}}},
        {"summary_type": "mean", "summary_use_proj": False, "summary_first_dropout": 0.0},
        {"id2label": {"0": "one", "1": "two", "2": "three"}, "problem_type": "regression"},
    ],
    ids=lambda entries: next(iter(entries)),
)
def test_what_training_leaves_in_a_configuration_is_no_obstacle(
    checkpoints: dict[str, Path], tmp_path: Path, entries: dict[str, Any]
) -> None:
    trained = copy_with(checkpoints["gptj"], tmp_path / "trained", **entries)
    check_replaceable(str(checkpoints["gptj"]), None, str(trained), None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_layer", 3),
        ("n_positions", CONTEXT + 1),
        ("rotary_dim", 8),
        ("activation_function", "gelu"),
        ("layer_norm_epsilon", 1e-6),
        ("tie_word_embeddings", True),
        ("an_entry_of_tomorrow", 1),
    ],
)
def test_what_changes_the_computation_is_named(
    checkpoints: dict[str, Path], tmp_path: Path, name: str, value: Any
) -> None:
    other = copy_with(checkpoints["gptj"], tmp_path / "other", **{name: value})
    with pytest.raises(
        ConfigError, match=f"^{other}: cannot replace .*: its .* expected "
    ) as error:
        check_replaceable(str(checkpoints["gptj"]), None, str(other), None)
    assert f"its {name} is {value!r}, " in str(error.value)


def test_another_tokenizer_is_another_model(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    other = save_checkpoint(tmp_path, "gptj")
    path = other / "tokenizer.json"
    data = json.loads(path.read_text())
    vocabulary = data["model"]["vocab"]
    vocabulary["!"], vocabulary['"'] = vocabulary['"'], vocabulary["!"]
    path.write_text(json.dumps(data))
    with pytest.raises(ConfigError, match=r"their tokenizers differ$"):
        check_replaceable(str(checkpoints["gptj"]), None, str(other), None)
