"""Step verdicts of a judge on GUI actions, absolute and by comparison."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def step_verdicts(verdicts: Sequence[bool | None], *, signed: bool = False) -> Array:
    """A judge's yes or no on each step as a reward: float64[T], 1 and 0, or ±1 if ``signed``; None becomes NaN.

    After GUI-Shepherd (https://arxiv.org/abs/2509.23738), of which the abstract was read only: whether a bad step is 0
    or −1 is not known, so ``signed`` is a choice and not the paper's.
    """
    low = -1.0 if signed else 0.0
    return np.array([np.nan if verdict is None else (1.0 if verdict else low) for verdict in verdicts], np.float64)


def both_orders(first: float | None, second: float | None) -> float | None:
    """The share won by A from asking about (A, B) and (B, A): 1, 0, or ½ where the two answers disagree.

    ``first`` is A's share when A stands first, ``second`` A's share when it stands second; None if either is missing.
    """
    if first is None or second is None:
        return None
    return first if first == second else 0.5
