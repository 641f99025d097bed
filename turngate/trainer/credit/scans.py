"""Passes through segments laid end to end, without a Python loop over their members: sums, minima, neighbours."""

import numpy as np
import numpy.typing as npt

from turngate.trainer.credit.cohorts import Float64Array


def scan_back(value_M: Float64Array, carry_M: Float64Array) -> Float64Array:
    """``x_j = value_j + carry_j · x_{j+1}``: float64[M]. ``carry_M`` must be 0 at the end of each segment.

    Computed by doubling: after k passes ``x_j`` holds the sum over the next 2^k members, so the number of passes grows
    with the logarithm of the longest segment.
    """
    x_M, carry_M = value_M.astype(np.float64), carry_M.astype(np.float64)
    step = 1
    while carry_M.any():
        x_M[:-step] += carry_M[:-step] * x_M[step:]
        carry_M[:-step] *= carry_M[step:]
        step *= 2
    return x_M


def goes_on(segment_M: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
    """True where the next member belongs to the same segment: bool[M]."""
    return np.append(segment_M[1:] == segment_M[:-1], False)


def carry(segment_M: npt.NDArray[np.integer], factor: float) -> Float64Array:
    """``factor`` inside each segment and 0 at its end, as ``scan_back`` wants it: float64[M]."""
    return np.where(goes_on(segment_M), factor, 0.0)


def gae(
    reward_M: Float64Array,
    value_M: Float64Array,
    segment_M: npt.NDArray[np.integer],
    *,
    gamma: float,
    lam: float,
    bootstrap_M: Float64Array,
) -> Float64Array:
    """``A_j = δ_j + γλ A_{j+1}``, ``δ_j = r_j + γ V_{j+1} − V_j`` inside each segment: float64[M].

    ``bootstrap_M`` is the value after the last member of a segment; its other entries are not read.
    Source: https://arxiv.org/abs/1506.02438.
    """
    inside_M = goes_on(segment_M)
    next_M = np.where(inside_M, np.append(value_M[1:], 0.0), bootstrap_M)
    return scan_back(reward_M + gamma * next_M - value_M, np.where(inside_M, gamma * lam, 0.0))


def suffix_min(value_M: Float64Array, segment_M: npt.NDArray[np.integer]) -> Float64Array:
    """The least of this member and those after it in its segment, NaN left out (all NaN: NaN): float64[M]."""
    low_M, step = value_M.copy(), 1
    while (same_M := segment_M[:-step] == segment_M[step:]).any():
        low_M[:-step] = np.where(same_M, np.fmin(low_M[:-step], low_M[step:]), low_M[:-step])
        step *= 2
    return low_M


def following(value_M: Float64Array, segment_M: npt.NDArray[np.integer], end_B: Float64Array) -> Float64Array:
    """The value of the member after, and after the last one of segment b ``end_B[b]``: float64[M]."""
    return np.where(goes_on(segment_M), np.append(value_M[1:], np.nan), end_B[segment_M])


def preceding(value_M: Float64Array, segment_M: npt.NDArray[np.integer], start_B: Float64Array) -> Float64Array:
    """The value of the member before, and before the first one of segment b ``start_B[b]``: float64[M]."""
    first_M = np.diff(segment_M, prepend=-1) != 0
    return np.where(first_M, start_B[segment_M], np.append(np.nan, value_M[:-1]))


def last_known(value_M: Float64Array, segment_M: npt.NDArray[np.integer]) -> Float64Array:
    """The latest value up to and including this member, NaN before the first one of its segment: float64[M]."""
    place_M = np.arange(len(value_M))
    known_M = np.maximum.accumulate(np.where(np.isnan(value_M), -1, place_M))
    own_M = (known_M >= 0) & (segment_M[known_M] == segment_M)
    return np.where(own_M, value_M[known_M], np.nan)


def next_known(value_M: Float64Array, segment_M: npt.NDArray[np.integer]) -> Float64Array:
    """The earliest value from this member on, NaN after the last one of its segment: float64[M]."""
    return last_known(value_M[::-1], segment_M[::-1])[::-1]
