"""The terms of a credit that is a sum, for rules that can name them; ``turngate show`` prints them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class CreditTerm(NamedTuple):
    """One comparison that a rule adds to the credit of every turn.

    ``name``: what it compares. ``credit_N``: the number that it adds, float64[N]. ``compared_N``: with how many others,
    int64[N]; where that is 0 the term adds nothing.
    """

    name: str
    credit_N: npt.NDArray[np.float64]
    compared_N: npt.NDArray[np.int64]
