"""Step verdicts of a judge on GUI actions, absolute and by comparison."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from turngate.errors import ShapeError

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


def win_rate(won_NN: npt.ArrayLike) -> Array:
    """Centred win rate of each action over the others sampled in the same state: float64[N] in [−½, ½].

    ``r_i = mean_{j≠i} won_ij − ½``, where ``won_ij`` is 1, ½ (tie) or 0 and NaN where nobody judged; ``won_ji`` is
    ``1 − won_ij``. Over full comparisons the rewards sum to 0, so cycles (A over B over C over A) cancel. An action
    that was never compared is NaN; a single action is. The comparison is WebArbiter's
    (https://arxiv.org/abs/2601.21872), its use as a reward is ours. Raises ShapeError for a matrix that contradicts
    itself.
    """
    won_NN = np.array(won_NN, np.float64)
    if won_NN.ndim != 2 or won_NN.shape[0] != won_NN.shape[1]:
        raise ShapeError(f"won_NN has shape {won_NN.shape}; it must be square")
    np.fill_diagonal(won_NN, np.nan)
    if ((won_NN < 0) | (won_NN > 1)).any() or not np.allclose(won_NN, 1 - won_NN.T, equal_nan=True):
        raise ShapeError("won_NN must hold shares in [0, 1] with won_ij = 1 − won_ji; settle both orders first")
    count_N = np.sum(~np.isnan(won_NN), axis=1)
    rate_N = np.full(len(won_NN), np.nan)
    some_N = count_N > 0
    rate_N[some_N] = np.nansum(won_NN, axis=1)[some_N] / count_N[some_N] - 0.5
    return rate_N
