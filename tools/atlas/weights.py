"""The weights of Atlas: their names in its checkpoint, the sizes they imply, and their files.

A config.json here holds what the model classes of transformers need, inferred from the shapes of
the weights, so that no base model has to be downloaded.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tools.base import ConfigError, InputError

Tensors = dict[str, torch.Tensor]

# In the checkpoint a second time (they are `shared`), or never used.
_DROPPED_OF_READER = re.compile(
    r"(encoder|decoder)\.embed_tokens\.weight"
    r"|decoder\.block\.\d+\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight"
)
_DROPPED_OF_RETRIEVER = re.compile(r"embeddings\.position_ids|pooler\..*")
# An untied retriever embeds questions with its own weights; the index holds what the other made.
_QUERY_ENCODERS = ("retriever.contriever.", "retriever.query_contriever.")
_BERT_HEAD_SIZE = 64
_SAFETENSORS_TYPES = {
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
}


def reader_tensors(state: Mapping[str, torch.Tensor]) -> Tensors:
    """The weights of the reader under the names of T5ForConditionalGeneration.

    Raises:
        InputError: there is no reader.
    """
    tensors = {
        name: tensor
        for name, tensor in _below(state, "reader.").items()
        if not _DROPPED_OF_READER.fullmatch(name)
    }
    if not tensors:
        raise InputError(f"the checkpoint has no reader.* weights, only {_prefixes(state)}")
    return tensors


def retriever_tensors(state: Mapping[str, torch.Tensor]) -> Tensors:
    """The weights that embed questions, under the names of BertModel without a pooler.

    Raises:
        InputError: there is no retriever.
    """
    for prefix in _QUERY_ENCODERS:
        if found := _below(state, prefix):
            return {
                name: tensor
                for name, tensor in found.items()
                if not _DROPPED_OF_RETRIEVER.fullmatch(name)
            }
    raise InputError(
        f"the checkpoint has no {' or '.join(f'{prefix}*' for prefix in _QUERY_ENCODERS)} weights, "
        f"only {_prefixes(state)}"
    )


def _below(state: Mapping[str, torch.Tensor], prefix: str) -> Tensors:
    plain = {re.sub(r"^(reader|retriever)\.module\.", r"\1.", key): key for key in state}
    return {
        name.removeprefix(prefix): state[key]
        for name, key in plain.items()
        if name.startswith(prefix)
    }


def _prefixes(state: Mapping[str, torch.Tensor]) -> str:
    return ", ".join(sorted({".".join(key.split(".")[:2]) + ".*" for key in state})[:5]) or "none"


def reader_config(tensors: Tensors) -> dict[str, Any]:
    """T5Config of the reader.

    Raises:
        InputError: a weight that says a size is missing, or the reader is not T5 v1.1.
    """
    bias = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    num_buckets, num_heads = _shape(tensors, bias)
    vocab_size, d_model = _shape(tensors, "shared.weight")
    inner_size, _ = _shape(tensors, "encoder.block.0.layer.0.SelfAttention.q.weight")
    d_ff, _ = _shape(tensors, "encoder.block.0.layer.1.DenseReluDense.wi_0.weight")
    _shape(tensors, "lm_head.weight")
    return {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        "vocab_size": vocab_size,
        "d_model": d_model,
        "d_kv": inner_size // num_heads,
        "d_ff": d_ff,
        "num_layers": _num_layers(tensors, "encoder.block."),
        "num_decoder_layers": _num_layers(tensors, "decoder.block."),
        "num_heads": num_heads,
        "relative_attention_num_buckets": num_buckets,
        "relative_attention_max_distance": 128,
        "layer_norm_epsilon": 1e-6,
        "feed_forward_proj": "gated-gelu",
        "tie_word_embeddings": False,
        "decoder_start_token_id": 0,
        "pad_token_id": 0,
        "eos_token_id": 1,
    }


def retriever_config(tensors: Tensors, *, num_attention_heads: int | None) -> dict[str, Any]:
    """BertConfig of the retriever; heads of 64 dimensions unless their number is given.

    Raises:
        ConfigError: the heads do not divide the hidden size.
        InputError: a weight that says a size is missing.
    """
    vocab_size, hidden_size = _shape(tensors, "embeddings.word_embeddings.weight")
    num_positions, _ = _shape(tensors, "embeddings.position_embeddings.weight")
    num_types, _ = _shape(tensors, "embeddings.token_type_embeddings.weight")
    intermediate_size, _ = _shape(tensors, "encoder.layer.0.intermediate.dense.weight")
    num_heads = num_attention_heads or max(1, hidden_size // _BERT_HEAD_SIZE)
    if hidden_size % num_heads:
        raise ConfigError(
            f"num_attention_heads is {num_heads}, expected a divisor of the retriever's hidden "
            f"size {hidden_size}"
        )
    return {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "vocab_size": vocab_size,
        "hidden_size": hidden_size,
        "num_hidden_layers": _num_layers(tensors, "encoder.layer."),
        "num_attention_heads": num_heads,
        "intermediate_size": intermediate_size,
        "max_position_embeddings": num_positions,
        "type_vocab_size": num_types,
        "layer_norm_eps": 1e-12,
        "hidden_act": "gelu",
    }


def _shape(tensors: Tensors, name: str) -> tuple[int, int]:
    if name not in tensors:
        raise InputError(f"the checkpoint has no weight {name}; expected T5 v1.1 and BERT")
    if tensors[name].dim() != 2:
        raise InputError(f"{name} has the shape {tuple(tensors[name].shape)}, expected a matrix")
    first, second = tensors[name].shape
    return int(first), int(second)


def _num_layers(tensors: Tensors, prefix: str) -> int:
    numbers = [
        int(name.removeprefix(prefix).split(".")[0]) for name in tensors if name.startswith(prefix)
    ]
    return max(numbers, default=-1) + 1


def check_fits(model: torch.nn.Module, tensors: Tensors, what: str) -> None:
    """Whether `tensors` are exactly the parameters of `model`, whose embeddings are shared.

    Raises:
        InputError: one is missing, is not known, or has another shape.
    """
    expected = {name: tuple(p.shape) for name, p in model.named_parameters()}
    for name in sorted(expected.keys() | tensors.keys()):
        got = tuple(tensors[name].shape) if name in tensors else "no such weight"
        if got != expected.get(name):
            raise InputError(
                f"the {what} of the checkpoint has {name}: {got}, expected "
                f"{expected.get(name, 'no such weight')}"
            )


def num_parameters(tensors: Tensors) -> int:
    return sum(tensor.numel() for tensor in tensors.values())


def write_safetensors(path: Path, tensors: Tensors) -> None:
    """Write `tensors`, one after the other: safetensors' own writer holds all of them in memory.

    Raises:
        InputError: a tensor is not of floating point.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, tensor in sorted(tensors.items()):
        if tensor.dtype not in _SAFETENSORS_TYPES:
            raise InputError(f"the weight {name} is of {tensor.dtype}, expected floating point")
        end = offset + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _SAFETENSORS_TYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-len(encoded) % 8)
    with path.open("wb") as stream:
        stream.write(len(encoded).to_bytes(8, "little"))
        stream.write(encoded)
        for _, tensor in sorted(tensors.items()):
            stream.write(tensor.detach().contiguous().view(torch.uint8).numpy().data)
