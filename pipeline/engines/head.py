"""The LM head: float32 logits of the rows that are needed and of no others.

Shape suffixes: R rows, D hidden size, V vocabulary, A token ids of interest.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tools.base import ConfigError

_ROWS_AT_ONCE = 1024  # of logits: 1024 * 50,400 * 4 bytes = 206 MB for GPT-J


class LMHead:
    """The last norm and the matrix to the vocabulary.

    Attributes:
        rows_run: rows it was applied to.
    """

    def __init__(
        self, norm: Callable[[Tensor], Tensor], weight_VD: Tensor, bias_V: Tensor | None
    ) -> None:
        # A GPU multiplies half precision into float32; a CPU needs a float32 copy of the head.
        self._norm = norm
        self._weight_VD = weight_VD if weight_VD.is_cuda else weight_VD.float()
        self._bias_V = None if bias_V is None else bias_V.float()
        self.rows_run = 0

    def logits(self, h_RD: Tensor) -> Tensor:
        """float32 [R, V]. For at most a batch of rows: they are built at once."""
        self.rows_run += len(h_RD)
        h_RD = self._norm(h_RD)
        if self._weight_VD.dtype == torch.float32:
            logits_RV = h_RD.float() @ self._weight_VD.T
        else:
            logits_RV = torch.mm(h_RD, self._weight_VD.T, out_dtype=torch.float32)
        return logits_RV if self._bias_V is None else logits_RV.add_(self._bias_V)

    def numbers(self, h_RD: Tensor) -> Tensor:
        """The logits, if the largest of each row is a number.

        Raises:
            ConfigError: weights or dtype give none.
        """
        logits_RV = self.logits(h_RD)
        if not all(are_numbers(logits_RV)):
            raise no_numbers(h_RD.dtype)
        return logits_RV

    def logprobs(self, h_RD: Tensor, ids_RA: NDArray[np.int64]) -> NDArray[np.float32]:
        """log p of the given tokens after each row, float32 [R, A].

        Raises:
            ConfigError: weights or dtype give no numbers. NaN would pass for the end of a text.
        """
        ids = torch.from_numpy(np.ascontiguousarray(ids_RA)).to(h_RD.device)
        parts = []
        for start in range(0, len(h_RD), _ROWS_AT_ONCE):
            logits_RV = self.logits(h_RD[start : start + _ROWS_AT_ONCE])
            chosen_RA = logits_RV.gather(1, ids[start : start + _ROWS_AT_ONCE])
            normaliser_R1 = _logsumexp(logits_RV)
            if not bool(torch.isfinite(normaliser_R1).all()):
                raise no_numbers(h_RD.dtype)
            parts.append((chosen_RA - normaliser_R1).cpu())
        return torch.cat(parts).numpy()


def are_numbers(logits_RV: Tensor) -> list[bool]:
    """Whether the largest of each row is a number."""
    answers: list[bool] = torch.isfinite(logits_RV.amax(dim=-1)).tolist()
    return answers


def no_numbers(dtype: torch.dtype) -> ConfigError:
    """The error of rows whose logits are none, given the dtype of the model."""
    return ConfigError(
        f"the model's logits are not finite in {str(dtype).removeprefix('torch.')}: its "
        "weights are damaged, or the numbers are too large for this dtype (model.dtype)"
    )


def _logsumexp(logits_RV: Tensor) -> Tensor:
    """[R, 1]. On a CPU a few rows at a time: what lies between stays in the cache (3x faster)."""
    if logits_RV.is_cuda:
        return logits_RV.logsumexp(dim=-1, keepdim=True)
    slices = torch.split(logits_RV, 8)
    return torch.cat([rows.logsumexp(dim=-1, keepdim=True) for rows in slices])
