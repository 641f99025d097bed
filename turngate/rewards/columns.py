"""Flat columns: what comes in is checked once, and a few passes over the turns of each trajectory.

A turn column ``_N`` holds the turns of all trajectories end to end, ``traj_N`` says whose they are (non-decreasing;
a trajectory without turns is simply absent). NaN means "no verdict", which is not zero; infinities are errors.
"""

from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from turngate.errors import ConfigError, ShapeError

Float64Array = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]
Missing: TypeAlias = Literal["allowed", "forbidden"]


def numbers(
    name: str,
    array: npt.ArrayLike,
    shape: tuple[int, ...] | None = None,
    *,
    missing: Missing = "forbidden",
    low: float | None = None,
    high: float | None = None,
) -> Float64Array:
    """``array`` in float64. Raises ShapeError for another shape, an infinity, a forbidden NaN or a value off range."""
    found = np.asarray(array, np.float64)
    if shape is not None and found.shape != shape:
        raise ShapeError(f"{name} has shape {found.shape}, expected {shape}")
    bad = np.isinf(found) if missing == "allowed" else ~np.isfinite(found)
    _refuse(name, found, bad, "it must be finite" + (" or NaN for no verdict" if missing == "allowed" else ""))
    if low is not None:
        _refuse(name, found, found < low, f"it must be at least {low:g}")
    if high is not None:
        _refuse(name, found, found > high, f"it must be at most {high:g}")
    return found


def flags(name: str, array: npt.ArrayLike, shape: tuple[int, ...], *, missing: Missing = "forbidden") -> Float64Array:
    """Like ``numbers``, but every value must be 0 or 1 (or NaN where allowed): float64, so that NaN fits in."""
    found = numbers(name, array, shape, missing=missing)
    _refuse(name, found, ~np.isin(found, (0.0, 1.0)) & ~np.isnan(found), "it must be 0 or 1; binarise it first")
    return found


def labels(name: str, array: npt.ArrayLike, length: int, *, below: int | None = None) -> Int64Array:
    """Whole numbers from 0, such as a group per trajectory: int64[length]. Raises ShapeError."""
    found = np.asarray(array)
    if found.shape != (length,):
        raise ShapeError(f"{name} has shape {found.shape}, expected ({length},)")
    if length and found.dtype.kind not in "iu":
        raise ShapeError(f"{name} has dtype {found.dtype}; labels are whole numbers from 0")
    _refuse(name, found, found < 0, "labels are counted from 0")
    if below is not None:
        _refuse(name, found, found >= below, f"there are only {below}, counted from 0")
    return found.astype(np.int64, copy=False)


def owners(traj_N: npt.ArrayLike, n_trajectories: int | None = None) -> Int64Array:
    """``traj_N`` as checked labels. Raises ShapeError if a trajectory's turns do not lie together, in order."""
    found = np.asarray(traj_N)
    checked = labels("traj_N", found, found.shape[0] if found.ndim else 0, below=n_trajectories)
    if (np.diff(checked) < 0).any():
        raise ShapeError("traj_N must not decrease: put the turns of each trajectory together, in order")
    return checked


def share(name: str, value: float, *, low: float = 0.0, high: float = 1.0) -> float:
    """``value`` if it lies in [low, high]. Raises ConfigError."""
    if not low <= value <= high:
        raise ConfigError(f"{name} is {value}; it must lie in [{low:g}, {high:g}]")
    return value


def turn_index(traj_N: Int64Array) -> Int64Array:
    """How many turns of the same trajectory come before each turn: int64[N]."""
    rows = np.arange(len(traj_N))
    first_N = np.maximum.accumulate(np.where(np.diff(traj_N, prepend=-1) != 0, rows, 0)) if len(rows) else rows
    return (rows - first_N).astype(np.int64, copy=False)


def turns_left(traj_N: Int64Array) -> Int64Array:
    """How many turns of the same trajectory come after each turn: int64[N]."""
    return np.bincount(traj_N)[traj_N] - 1 - turn_index(traj_N) if len(traj_N) else traj_N


def totals(value_N: Float64Array, traj_N: Int64Array, n_trajectories: int) -> Float64Array:
    """Sum over the turns of each trajectory, turns without verdict left out: float64[B]."""
    total_B = np.bincount(traj_N, weights=np.nan_to_num(value_N, nan=0.0), minlength=n_trajectories)
    return total_B.astype(np.float64, copy=False)


def counts(present_N: npt.NDArray[np.bool_], traj_N: Int64Array, n_trajectories: int) -> Float64Array:
    """How many turns of each trajectory are marked: float64[B]."""
    return np.bincount(traj_N[present_N], minlength=n_trajectories).astype(np.float64)


def prefix_sum(value_N: Float64Array, traj_N: Int64Array) -> Float64Array:
    """Sum over this turn and those before it in the same trajectory: float64[N].

    By doubling, like ``suffix_sum``, so that one trajectory's rounding never depends on its neighbours.
    """
    return suffix_sum(value_N[::-1], traj_N.max(initial=0) - traj_N[::-1])[::-1]


def suffix_sum(value_N: Float64Array, traj_N: Int64Array, gamma: float = 1.0) -> Float64Array:
    """``G_t = x_t + γ G_{t+1}`` inside each trajectory: float64[N].

    By doubling: after k passes each turn holds the next 2^k, so passes grow with the log of the longest episode.
    """
    sum_N, left_N = value_N.copy(), turns_left(traj_N)
    step, factor = 1, gamma
    while step <= left_N.max(initial=0):
        sum_N[:-step] += np.where(left_N[:-step] >= step, factor * sum_N[step:], 0.0)
        step, factor = 2 * step, factor * factor
    return sum_N


def suffix_min(value_N: Float64Array, traj_N: Int64Array) -> Float64Array:
    """The least of this turn and those after it in the same trajectory, NaN left out (all NaN: NaN): float64[N]."""
    low_N, left_N = value_N.copy(), turns_left(traj_N)
    step = 1
    while step <= left_N.max(initial=0):
        low_N[:-step] = np.where(left_N[:-step] >= step, np.fmin(low_N[:-step], low_N[step:]), low_N[:-step])
        step *= 2
    return low_N


def last_known(value_N: Float64Array, traj_N: Int64Array) -> Float64Array:
    """The latest value up to and including this turn, NaN before the first one of the trajectory: float64[N]."""
    rows = np.arange(len(value_N))
    known_N = np.maximum.accumulate(np.where(np.isnan(value_N), -1, rows)) if len(rows) else rows
    return np.where(known_N >= rows - turn_index(traj_N), value_N[known_N], np.nan)


def shifted(value_N: Float64Array, traj_N: Int64Array, start_B: Float64Array) -> Float64Array:
    """The value of the turn before, ``start_B`` at the first turn of each trajectory: float64[N]."""
    if not len(value_N):
        return value_N
    before_N = np.concatenate([value_N[:1], value_N[:-1]])
    return np.where(turn_index(traj_N) == 0, start_B[traj_N], before_N)


def following(value_N: Float64Array, traj_N: Int64Array, end_B: Float64Array) -> Float64Array:
    """The value of the turn after, ``end_B`` at the last turn of each trajectory: float64[N]."""
    if not len(value_N):
        return value_N
    after_N = np.concatenate([value_N[1:], value_N[-1:]])
    return np.where(turns_left(traj_N) == 0, end_B[traj_N], after_N)


def _refuse(name: str, found: npt.NDArray[np.generic], bad: npt.NDArray[np.bool_], rule: str) -> None:
    if bad.any():
        where = tuple(int(index) for index in np.argwhere(bad)[0])
        place = where[0] if len(where) == 1 else where
        raise ShapeError(f"{name}[{place}] is {found[where]}; {rule}")
