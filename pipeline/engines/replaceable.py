"""Whether the weights of one checkpoint can take the place of another's in a running engine."""

from typing import Any

from pipeline.engines.checkpoint import load_config, load_tokenizer
from tools.base import ConfigError

# Entries of config.json that change no log-probability. Any other must be the same.
_OF_NO_EFFECT = frozenset(
    {
        # where it is from
        "_name_or_path", "architectures", "transformers_version", "tokenizer_class",
        # the configuration of a run says it
        "dtype", "torch_dtype", "use_cache", "output_attentions", "output_hidden_states",
        "return_dict", "torchscript",
        # of training
        "initializer_range", "gradient_checkpointing", "attention_dropout", "attn_pdrop",
        "classifier_dropout", "embd_pdrop", "hidden_dropout", "resid_pdrop",
        # of other tasks
        "task_specific_params", "problem_type", "id2label", "label2id", "summary_activation",
        "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj",
        # the tokenizers are compared
        "bos_token_id", "eos_token_id", "pad_token_id",
    }
)  # fmt: skip


def check_replaceable(
    path: str, revision: str | None, new_path: str, new_revision: str | None
) -> None:
    """Nothing, if both checkpoints are of one architecture, shape and tokenizer.

    Raises:
        ConfigError: they are not, or one is missing or damaged.
    """
    ours, theirs = _configuration(path, revision), _configuration(new_path, new_revision)
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            raise ConfigError(
                f"{new_path}: cannot replace the weights of {path}: its {name} is "
                f"{theirs.get(name)!r}, expected {ours.get(name)!r}"
            )
    if _tokens(path, revision) != _tokens(new_path, new_revision):
        raise ConfigError(
            f"{new_path}: cannot replace the weights of {path}: their tokenizers differ"
        )


def _configuration(path: str, revision: str | None) -> dict[str, Any]:
    from transformers import AutoConfig

    load_config(path, revision)  # a missing or damaged one is named as what it is
    config: dict[str, Any] = AutoConfig.from_pretrained(path, revision=revision).to_dict()
    return {name: value for name, value in config.items() if name not in _OF_NO_EFFECT}


def _tokens(path: str, revision: str | None) -> tuple[dict[str, int], int | None, int | None]:
    tokenizer = load_tokenizer(path, revision)
    return tokenizer.backend.get_vocab(), tokenizer.bos_id, tokenizer.eos_id
