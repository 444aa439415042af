"""Keys and values of a batch, of which documents and columns can be taken.

Shape suffixes: B documents, C columns, H heads, D head size.
"""

from typing import Protocol, cast

from torch import Tensor
from transformers import DynamicCache


class _Layer(Protocol):
    keys: Tensor  # [B, H, C, D]
    values: Tensor


class KVCache:
    """A Hugging Face cache, `hf`, that the model appends to; every layer keeps all columns."""

    def __init__(self) -> None:
        self.hf = DynamicCache()

    def select(self, documents_B: Tensor) -> "KVCache":
        """A new cache of these documents."""
        selected = KVCache()
        for index, layer in enumerate(self._layers()):
            selected.hf.update(layer.keys[documents_B], layer.values[documents_B], index)
        return selected

    def take(self, documents_B: Tensor, columns_BC: Tensor) -> None:
        """Keep these documents and of each these columns, in this order."""
        for layer in self._layers():
            _, H, _, D = layer.keys.shape
            index_BHCD = columns_BC[:, None, :, None].expand(-1, H, -1, D)
            layer.keys = layer.keys[documents_B].gather(2, index_BHCD)
            layer.values = layer.values[documents_B].gather(2, index_BHCD)

    def _layers(self) -> list[_Layer]:
        return cast(list[_Layer], self.hf.layers)
