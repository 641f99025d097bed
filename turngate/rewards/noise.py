"""Verifiers that make errors: correcting verdicts for known error rates, and estimating the rates from appeals.

An *appeal* sends an answer that the verifier rejected to a second verifier. The error rates are everywhere
``false_positive`` ρ0 = P(says 1 | truth 0) and ``false_negative`` ρ1 = P(says 0 | truth 1), as one number or one per
trajectory. A verdict is 0, 1 or NaN (not measured); NaN stays NaN in every function.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from turngate.errors import ConfigError, ShapeError
from turngate.rewards.columns import Float64Array, Int64Array, flags, labels, numbers, share
from turngate.types import BoolArray, derive_seed

_SEEDS = 2.0**63

# --- corrections -----------------------------------------------------------------------------------------------------


def backward(verdict_B: npt.ArrayLike, *, false_positive: npt.ArrayLike, false_negative: npt.ArrayLike) -> Float64Array:
    """Correct verdicts so that they are right on average: ``R̂ = (R̃ − ρ0) / (1 − ρ0 − ρ1)``, E[R̂ | R] = R:
    float64[B].

    Known weakness: where all siblings have the same rates it only shifts and scales, which dividing by the group's
    standard deviation undoes. Use it with estimators that do not divide by it, or use ``forward``; rates per task then
    only weigh tasks against each other. Corrected values may lie outside [0, 1], and their variance grows as ρ0 + ρ1
    nears 1.

    Source: https://arxiv.org/abs/2510.00915. Becomes the verdict for ρ0 = ρ1 = 0. Raises ShapeError, also for a verdict
    other than 0 or 1; ConfigError for ρ0 + ρ1 ≥ 1 (the verdict would say nothing, or the opposite).
    """
    verdict_B = _verdicts(verdict_B)
    rho0_B, rho1_B = _rates(false_positive, false_negative, verdict_B)
    return (verdict_B - rho0_B) / (1.0 - rho0_B - rho1_B)


def forward(verdict_B: npt.ArrayLike, *, false_negative: npt.ArrayLike) -> Float64Array:
    """Weights for ∇ log π that need only ρ1: ``w(1) = ρ1``, ``w(0) = ρ1 − 1``: float64[B].

    ``E[w | R] = (1 − ρ0 − ρ1)(R − 1)``, so the gradient has the direction that it would have without errors. In
    expectation a true success has weight 0 and a true failure a negative one. Use the weights in place of normalised
    advantages.

    Source: https://arxiv.org/abs/2510.00915. Becomes ``R̃ − 1`` for ρ1 = 0. Raises ShapeError, ConfigError.
    """
    verdict_B = _verdicts(verdict_B)
    _, rho1_B = _rates(0.0, false_negative, verdict_B)
    return rho1_B - 1.0 + verdict_B


# --- appeals ---------------------------------------------------------------------------------------------------------


def select_appeals(verdict_B: npt.ArrayLike, names: Sequence[str], *, limit: int, seed: int) -> BoolArray:
    """Choose the rejected answers that go to a second verifier: bool[B], at most ``limit``.

    They are drawn at random by ``seed`` and each trajectory's name, in any order of the batch the same ones: only a
    random sample gives unbiased rates (``estimate_rates``). Accepted and unmeasured (NaN) answers are never chosen; to
    audit accepted answers, pass ``1 − verdict_B``. Raises ShapeError, ConfigError for limit < 0.
    """
    if limit < 0:
        raise ConfigError(f"limit is {limit}; it must be at least 0")
    verdict_B = _verdicts(verdict_B)
    order = np.argsort(_uniform(names, seed, verdict_B), kind="stable")
    chosen_B = np.zeros(len(verdict_B), np.bool_)
    chosen_B[order[verdict_B[order] == 0][:limit]] = True
    return chosen_B


def settle_appeals(verdict_B: npt.ArrayLike, second_B: npt.ArrayLike, *, overturned: float = 1.0) -> Float64Array:
    """The verdict after appeals: float64[B]. ``second_B`` is NaN where the second verifier was not asked, or failed.

    A rejection that the second verifier accepts becomes ``overturned``. Set it below 1 so that passing the first
    verifier is worth more than persuading a second, softer one. An acceptance that was audited and rejected becomes 0.
    Otherwise the first verdict stands; a second verifier that failed changes nothing. These rules are ours.

    Raises ShapeError, ConfigError for ``overturned`` outside [0, 1].
    """
    share("overturned", overturned)
    verdict_B = _verdicts(verdict_B)
    second_B = flags("second_B", second_B, verdict_B.shape, missing="allowed")
    settled_B = np.where((verdict_B == 0) & (second_B == 1), overturned, verdict_B)
    return np.where((verdict_B == 1) & (second_B == 0), 0.0, settled_B)


# --- rates -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rates:
    """Error rates per task, float64[G]; NaN = not known."""

    false_positive_G: Float64Array
    false_negative_G: Float64Array

    def per_trajectory(self, group_B: npt.ArrayLike, *, unknown: float = 0.0) -> tuple[Float64Array, Float64Array]:
        """``(ρ0, ρ1)`` of each trajectory's task, as the corrections take them: float64[B] each.

        ``unknown`` stands in for a rate that is not known; 0 trusts the verifier. Raises ShapeError.
        """
        group_B = np.asarray(group_B)
        group_B = labels("group_B", group_B, group_B.size, below=len(self.false_positive_G))
        rho0_G, rho1_G = (np.nan_to_num(r, nan=unknown) for r in (self.false_positive_G, self.false_negative_G))
        return rho0_G[group_B], rho1_G[group_B]


def estimate_rates(
    verdict_B: npt.ArrayLike,
    second_B: npt.ArrayLike,
    group_B: npt.ArrayLike,
    *,
    n_groups: int,
    trust_accepted: bool = False,
) -> Rates:
    """Error rates of the first verifier, taking the second for the truth where it was asked (not NaN).

    Per group, the share of checked rejections that the second accepts stands for all rejections (q = overturned /
    checked), likewise for acceptances: with n₀ rejections, n₁ acceptances and c the confirmed share of acceptances,
    ``ρ1 = q n₀ / (q n₀ + c n₁)`` and ``ρ0 = (1 − c) n₁ / ((1 − c) n₁ + (1 − q) n₀)``. ``trust_accepted`` takes
    acceptances without an audit for right (c = 1), which appeals alone need.

    NaN where a needed share was not sampled, or nothing of that truth was seen. Groups are small: feed the result to
    ``update_rates``. Raises ShapeError, ConfigError.
    """
    if n_groups < 1:
        raise ConfigError(f"n_groups is {n_groups}; there must be at least one")
    verdict_B = _verdicts(verdict_B)
    second_B = flags("second_B", second_B, verdict_B.shape, missing="allowed")
    group_B = labels("group_B", group_B, len(verdict_B), below=n_groups)
    right_G, wrong_G = _split(verdict_B == 1, second_B, group_B, n_groups, 1.0 if trust_accepted else np.nan)
    missed_G, rejected_G = _split(verdict_B == 0, second_B, group_B, n_groups, np.nan)
    return Rates(
        false_positive_G=_ratio(wrong_G, wrong_G + rejected_G), false_negative_G=_ratio(missed_G, missed_G + right_G)
    )


def update_rates(old: Rates, new: Rates, *, decay: float = 0.9, max_sum: float = 0.9) -> Rates:
    """Exponential moving average, ``decay · old + (1 − decay) · new``; a rate known on one side only is kept.

    Where ρ0 + ρ1 would exceed ``max_sum``, both shrink in proportion, so that ``backward`` never divides by 0. Both
    settings are ours. Raises ShapeError for different numbers of groups, ConfigError.
    """
    share("decay", decay)
    share("max_sum", max_sum, high=0.999)
    positive_G = _blend(old.false_positive_G, new.false_positive_G, decay)
    negative_G = _blend(old.false_negative_G, new.false_negative_G, decay)
    total_G = np.nan_to_num(positive_G, nan=0.0) + np.nan_to_num(negative_G, nan=0.0)
    shrink_G = np.where(total_G > max_sum, max_sum / np.where(total_G > 0, total_G, 1.0), 1.0)
    return Rates(false_positive_G=positive_G * shrink_G, false_negative_G=negative_G * shrink_G)


# --- shared ----------------------------------------------------------------------------------------------------------


def _verdicts(verdict_B: npt.ArrayLike) -> Float64Array:
    found = np.asarray(verdict_B, np.float64)
    if found.ndim != 1:
        raise ShapeError(f"verdict_B has shape {found.shape}, expected one verdict per trajectory")
    return flags("verdict_B", found, found.shape, missing="allowed")


def _rates(
    false_positive: npt.ArrayLike, false_negative: npt.ArrayLike, verdict_B: Float64Array
) -> tuple[Float64Array, Float64Array]:
    rho0, rho1 = numbers("false_positive", false_positive), numbers("false_negative", false_negative)
    for name, rate in (("false_positive", rho0), ("false_negative", rho1)):
        if rate.shape not in ((), verdict_B.shape):
            raise ShapeError(f"{name} has shape {rate.shape}, expected one number or one per trajectory")
        if (rate < 0).any():
            raise ConfigError(f"{name} is {float(rate.min())}; a rate is at least 0")
    total = np.broadcast_to(rho0 + rho1, verdict_B.shape)
    if (total >= 1).any():
        bad = int(np.flatnonzero(total >= 1)[0])
        raise ConfigError(f"error rates add up to {total[bad]} for trajectory {bad}; below 1 they can be corrected")
    return rho0, rho1


def _uniform(names: Sequence[str], seed: int, verdict_B: Float64Array) -> Float64Array:
    """A number in [0, 1) per trajectory that depends on its name and the seed only."""
    if len(names) != len(verdict_B):
        raise ShapeError(f"{len(names)} names for {len(verdict_B)} verdicts; each trajectory needs its own")
    return np.array([derive_seed(seed, "appeal", name) / _SEEDS for name in names], np.float64)


def _split(
    mine_B: BoolArray, second_B: Float64Array, group_B: Int64Array, n_groups: int, unchecked: float
) -> tuple[Float64Array, Float64Array]:
    """Of the marked verdicts of each group, how many are truly 1 and truly 0, scaled up from those checked."""
    n_G = np.bincount(group_B[mine_B], minlength=n_groups).astype(np.float64)
    checked_B = mine_B & ~np.isnan(second_B)
    checked_G = np.bincount(group_B[checked_B], minlength=n_groups)
    ones_G = np.bincount(group_B[checked_B & (second_B == 1)], minlength=n_groups)
    share_G = np.where(checked_G > 0, ones_G / np.maximum(checked_G, 1), np.where(n_G > 0, unchecked, 0.0))
    return n_G * share_G, n_G * (1.0 - share_G)


def _ratio(part_G: Float64Array, whole_G: Float64Array) -> Float64Array:
    return np.where(whole_G > 0, part_G / np.where(whole_G > 0, whole_G, 1.0), np.nan)


def _blend(old_G: Float64Array, new_G: Float64Array, decay: float) -> Float64Array:
    if old_G.shape != new_G.shape:
        raise ShapeError(f"rates of {old_G.shape[0]} groups meet rates of {new_G.shape[0]}; keep one order of tasks")
    both_G = decay * old_G + (1 - decay) * new_G
    return np.where(np.isnan(new_G), old_G, np.where(np.isnan(old_G), new_G, both_G))
