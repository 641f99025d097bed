"""What a credit is the sum of, for rules that can say so: told by ``turngate show``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class CreditTerm(NamedTuple):
    """One comparison that a rule adds to the credit of every turn.

    ``name``: what was compared. ``credit_N``: what it adds, float64[N]. ``compared_N``: with how many others, int64[N];
    where that is 0 the term says nothing.
    """

    name: str
    credit_N: npt.NDArray[np.float64]
    compared_N: npt.NDArray[np.int64]
