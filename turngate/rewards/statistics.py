"""Mean, std and z-score per group, NaN-aware, with one policy for groups that cannot be compared.

Every combiner uses these, so the degenerate cases have one answer each:

* a member without verdict (NaN) is left out of mean and std and stays NaN; it is never filled with zero;
* a group whose values differ by no more than rounding (range ≤ 1e-6 · max(1, |mean|)) has z = 0 exactly. Without that
  snap, twelve float32 copies of 0.9 can get z ≈ 0.9, and a group of equal rewards trains;
* a group with one verdict follows ``singleton``.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from turngate.errors import ConfigError, ShapeError
from turngate.rewards.columns import Float64Array, Int64Array, labels, numbers
from turngate.types import BoolArray

Singleton: TypeAlias = Literal["zero", "raw", "batch_mean"]
ZERO_RANGE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupStats:
    """Statistics of M values in G groups. ``centred_M`` is NaN without verdict and exactly 0 in degenerate groups.

    ``size_G`` counts the verdicts, ``weight_G`` adds up their weights (the same without weights).
    """

    group_M: Int64Array
    weight_M: Float64Array
    size_G: Int64Array
    weight_G: Float64Array
    mean_G: Float64Array
    degenerate_G: BoolArray
    centred_M: Float64Array

    def std_G(self, ddof: int = 1) -> Float64Array:
        """Standard deviation with divisor ``Σ weight − ddof`` (0 in degenerate groups)."""
        square_M = np.nan_to_num(self.centred_M, nan=0.0) ** 2 * self.weight_M
        divisor_G = np.where(self.degenerate_G, 1.0, self.weight_G - ddof)
        variance_G: Float64Array = _sums(self.group_M, square_M, len(self.weight_G)) / divisor_G
        return np.sqrt(variance_G)

    def z_M(self, *, eps: float = 1e-6, ddof: int = 1, std_floor: float = 0.0) -> Float64Array:
        """``centred / (max(std, std_floor) + eps)``; 0 in degenerate groups, NaN without verdict."""
        scale_G = np.maximum(self.std_G(ddof), std_floor) + eps
        scale_G[self.degenerate_G] = 1.0
        z_M: Float64Array = self.centred_M / scale_G[self.group_M]
        return z_M


def group_stats(
    values_M: npt.ArrayLike, group_M: npt.ArrayLike, *, weight_M: npt.ArrayLike | None = None, name: str = "values_M"
) -> GroupStats:
    """Statistics of ``values_M`` (float[M], NaN = no verdict) by group number ``group_M`` (int[M], from 0).

    ``weight_M`` counts a value that often (whole numbers such as tokens per turn, for statistics over tokens); a value
    of weight 0 has no say and still gets its distance from the mean. Degenerate: fewer than two verdicts of positive
    weight, or a range below rounding. Raises ShapeError, calling the values ``name``.
    """
    value_M = numbers(name, values_M, missing="allowed")
    label_M = labels("group_M", group_M, len(value_M))
    size = (len(value_M),)
    times_M = np.ones(size) if weight_M is None else _repeats(weight_M, size)
    present_M = ~np.isnan(value_M) & (times_M > 0)
    times_M = np.where(present_M, times_M, 0.0)
    n_groups = int(label_M.max()) + 1 if len(label_M) else 0
    size_G = np.bincount(label_M[present_M], minlength=n_groups).astype(np.int64, copy=False)
    weight_G = _sums(label_M, times_M, n_groups)
    low_G, high_G = np.full(n_groups, np.inf), np.full(n_groups, -np.inf)
    np.minimum.at(low_G, label_M[present_M], value_M[present_M])
    np.maximum.at(high_G, label_M[present_M], value_M[present_M])
    # measured from the group's lowest value, so that a large common offset costs no digits
    offset_G = np.where(size_G > 0, low_G, 0.0)
    above_M = np.where(present_M, value_M - offset_G[label_M], 0.0)
    mean_G = offset_G + _sums(label_M, above_M * times_M, n_groups) / np.where(size_G > 0, weight_G, 1.0)
    spread_G = np.where(size_G > 0, high_G - offset_G, 0.0)
    degenerate_G = (size_G < 2) | (spread_G <= ZERO_RANGE * np.maximum(1.0, np.abs(mean_G)))
    centred_M = np.where(degenerate_G[label_M], np.where(np.isnan(value_M), np.nan, 0.0), value_M - mean_G[label_M])
    return GroupStats(
        group_M=label_M,
        weight_M=times_M,
        size_G=size_G,
        weight_G=weight_G,
        mean_G=mean_G,
        degenerate_G=degenerate_G,
        centred_M=centred_M,
    )


def z_scores(
    values_M: npt.ArrayLike,
    group_M: npt.ArrayLike,
    *,
    eps: float = 1e-6,
    ddof: int = 1,
    std_floor: float = 0.0,
    singleton: Singleton = "zero",
    name: str = "values_M",
) -> Float64Array:
    """``z = (x − mean) / (max(std, std_floor) + eps)`` over the verdicts of each group: float64[M], NaN stays NaN.

    ``singleton`` says what a lone verdict of a group becomes: "zero" (ours); "raw", the value itself, as much public
    code has it by taking mean 0 and std 1; "batch_mean", its z-score against all verdicts of the batch.

    eps=1e-6 is verl's, ddof=1 what torch.std computes. Any map ``x → a·x + b`` with a > 0 on a whole group cancels
    (for eps=0 and no floor): weights per task belong after this step. A floor keeps hair-splitting differences small.
    Raises ShapeError, ConfigError for eps < 0, std_floor < 0, another ddof than 0 or 1, or an unknown ``singleton``.
    """
    check_scale(eps, ddof, std_floor)
    if singleton not in ("zero", "raw", "batch_mean"):
        raise ConfigError(f"singleton is '{singleton}'; it must be 'zero', 'raw' or 'batch_mean'")
    stats = group_stats(values_M, group_M, name=name)
    z_M = stats.z_M(eps=eps, ddof=ddof, std_floor=std_floor)
    if singleton == "zero":
        return z_M
    value_M = np.asarray(values_M, np.float64)
    alone_M = (stats.size_G == 1)[stats.group_M] & ~np.isnan(value_M)
    if singleton == "batch_mean":
        batch = group_stats(value_M, np.zeros(len(value_M), np.int64))
        value_M = batch.z_M(eps=eps, ddof=ddof, std_floor=std_floor)
    return np.where(alone_M, value_M, z_M)


def check_scale(eps: float, ddof: int, std_floor: float = 0.0) -> None:
    """Raise ConfigError for settings of a z-score that cannot be."""
    if not (0 <= eps < np.inf and 0 <= std_floor < np.inf and ddof in (0, 1)):
        raise ConfigError(
            f"a z-score needs eps ≥ 0, std_floor ≥ 0 and ddof 0 or 1, found eps={eps}, std_floor={std_floor}, "
            f"ddof={ddof}"
        )


def _repeats(weight_M: npt.ArrayLike, size: tuple[int, ...]) -> Float64Array:
    times_M = numbers("weight_M", weight_M, size, low=0.0)
    if (times_M != np.floor(times_M)).any():
        raise ShapeError("weight_M holds fractions; a weight says how often a value counts, in whole numbers")
    return times_M


def _sums(group_M: Int64Array, values_M: Float64Array, n_groups: int) -> Float64Array:
    return np.bincount(group_M, weights=values_M, minlength=n_groups).astype(np.float64, copy=False)
