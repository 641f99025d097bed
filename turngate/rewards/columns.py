"""Flat columns (one array entry per turn or per trajectory): checking them, and summing over each trajectory's turns.

A column ``_N`` holds the turns of all trajectories end to end. ``traj_N`` gives the number of each turn's trajectory
and never decreases; a trajectory without turns does not occur in it. NaN means "no verdict", which is not zero;
infinities are errors.
"""

from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from turngate.errors import ConfigError, ShapeError
from turngate.types import BoolArray

Float64Array = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]
Missing: TypeAlias = Literal["allowed", "forbidden"]

ZERO_RANGE = 1e-6
"""Rewards that differ by less count as equal, because in float32 the mean of equal numbers may differ from them."""


def alike(low: npt.ArrayLike, high: npt.ArrayLike, mean: npt.ArrayLike) -> BoolArray:
    """Whether values between ``low`` and ``high`` differ by rounding only, ``high − low ≤ 1e-6 · max(1, |mean|)``."""
    same: BoolArray = np.subtract(high, low) <= ZERO_RANGE * np.maximum(1.0, np.abs(mean))
    return same


def numbers(
    name: str,
    array: npt.ArrayLike,
    shape: tuple[int, ...] | None = None,
    *,
    missing: Missing = "forbidden",
    low: float | None = None,
    high: float | None = None,
) -> Float64Array:
    """``array`` in float64. Raises ShapeError for another shape, an infinity, a forbidden NaN or a value out of
    range."""
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


def totals(value_N: Float64Array, traj_N: Int64Array, n_trajectories: int) -> Float64Array:
    """Sum over the turns of each trajectory, turns without verdict left out: float64[B]."""
    total_B = np.bincount(traj_N, weights=np.nan_to_num(value_N, nan=0.0), minlength=n_trajectories)
    return total_B.astype(np.float64, copy=False)


def counts(present_N: npt.NDArray[np.bool_], traj_N: Int64Array, n_trajectories: int) -> Float64Array:
    """How many turns of each trajectory are marked: float64[B]."""
    return np.bincount(traj_N[present_N], minlength=n_trajectories).astype(np.float64)


def _refuse(name: str, found: npt.NDArray[np.generic], bad: npt.NDArray[np.bool_], rule: str) -> None:
    if bad.any():
        where = tuple(int(index) for index in np.argwhere(bad)[0])
        place = where[0] if len(where) == 1 else where
        raise ShapeError(f"{name}[{place}] is {found[where]}; {rule}")
