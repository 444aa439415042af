"""The weighted loss L_i(z) and the gain a call is kept for (paper sections 2 and 4.1).

    L_i(z) = - sum_{j=i}^{n} w_{j-i} log p(x_j | z, x_{1:j-1}),   w_t ~ max(0, 1 - 0.2 t)
    L+     = L_i(e(c, r))
    L-     = min(L_i(eps), L_i(e(c, eps)))
    keep c when the gain L- - L+ >= tau_f

Losses are in nats, in float64. Weights are normalised over all t, so a window cut short by the
end of the document weighs less than 1 in sum.

Shape suffixes: Q scored positions, W window.
"""

import numpy as np
from numpy.typing import NDArray

WINDOW = 5
_RAW_WEIGHTS_W = np.maximum(0.0, 1.0 - 0.2 * np.arange(WINDOW))
WEIGHTS_W: NDArray[np.float64] = _RAW_WEIGHTS_W / _RAW_WEIGHTS_W.sum()


def weighted_loss(logprobs_QW: NDArray[np.float32]) -> NDArray[np.float64]:
    """L_i(z) in nats, float64 [Q], from log p(x_{i+t} | z, ...); NaN stands past the end of x."""
    present_QW = np.nan_to_num(logprobs_QW.astype(np.float64), nan=0.0)
    return -(present_QW @ WEIGHTS_W)


def gain(*, loss_empty: float, loss_call: float, loss_plus: float) -> float:
    """L- - L+ in nats: what the result is worth against no call and against a call without it."""
    return min(loss_empty, loss_call) - loss_plus
