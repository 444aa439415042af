"""Which positions of a document a call is sampled at (paper section 2, Sampling API Calls)."""

import numpy as np
from numpy.typing import NDArray


def select_positions(
    p_api_n: NDArray[np.float64], legal_n: NDArray[np.bool_], *, tau_s: float, k: int
) -> NDArray[np.int32]:
    """I = {i | p_i > tau_s}, of these the k most probable, in ascending order: int32 [K].

    Positions that are not legal (inside a character) are no candidates. Of equal
    probabilities the earlier position wins.
    """
    allowed = np.flatnonzero((p_api_n > tau_s) & legal_n)
    by_probability = np.argsort(-p_api_n[allowed], kind="stable")
    return np.sort(allowed[by_probability[:k]]).astype(np.int32)
