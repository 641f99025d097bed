"""Importance sampling: the return of a policy from episodes of another one and from their probabilities under both.

Episodes i with turns t are rows of ``[B, T]``, filled up with 0 after their last turn. With π the policy to be
evaluated, μ the behaviour that played them and ``h_t`` all that was seen before turn t,

    ρ_t = π(a_t | h_t) / μ(a_t | h_t)        W_t = ρ_0 · … · ρ_t

where the probability of a turn is the product of those of its tokens. ``log_ratio_BT`` holds log ρ, and an episode that
is over keeps its last W. Discounts are not applied here: pass rewards that are discounted already.

Every estimator is a smooth function of sums over episodes (``Sums``), from which its intervals follow.
Sources: Precup, Sutton and Singh 2000, "Eligibility traces for off-policy policy evaluation" (ordinary, weighted and
per-decision); Thomas 2015, "Safe reinforcement learning" (weighted per-decision); Kong 1992 (effective sample size).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from turngate.errors import ShapeError
from turngate.trainer.credit.cohorts import Float64Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """An estimator in the form ``of(Σ_i column_i)``: ``column_BC`` has what each episode adds to each sum.

    ``of`` takes sums in its last axis, [..., C], and returns [...]; it is evaluated on sums over drawn episodes too.
    """

    column_BC: Float64Array
    of: Callable[[Float64Array], Float64Array]

    @property
    def value(self) -> float:
        """The estimate from all episodes."""
        return float(self.of(self.column_BC.sum(axis=0)))


def turn_log_ratio(
    policy_logprob_S: npt.NDArray[np.floating],
    behaviour_logprob_S: npt.NDArray[np.floating],
    turn_S: npt.ArrayLike,
    n_turns: int,
) -> Float64Array:
    """``log ρ = Σ_j (log π − log μ)`` over the tokens j of each turn: float64[N].

    ``turn_S`` is the turn of each token, from 0 to N − 1; a turn without tokens has 0. Raises ShapeError.
    """
    turn_S = np.asarray(turn_S, np.int64)
    if not policy_logprob_S.shape == behaviour_logprob_S.shape == turn_S.shape or turn_S.ndim != 1:
        raise ShapeError(
            f"log-probabilities {policy_logprob_S.shape} and {behaviour_logprob_S.shape} and turns {turn_S.shape} must "
            "be equal and flat: one entry per token"
        )
    difference_S = policy_logprob_S.astype(np.float64) - behaviour_logprob_S.astype(np.float64)
    log_ratio_N: Float64Array = np.bincount(turn_S, weights=difference_S, minlength=n_turns).astype(np.float64)
    return log_ratio_N


def log_weights(log_ratio_BT: Float64Array) -> Float64Array:
    """``log W_t``: float64[B, T]. Raises ShapeError for anything but one row per episode."""
    if log_ratio_BT.ndim != 2 or not log_ratio_BT.size:
        raise ShapeError(f"log_ratio_BT has shape {log_ratio_BT.shape}; need one row per episode, one column per turn")
    return np.cumsum(log_ratio_BT, axis=1)


def effective_size(log_weight_B: Float64Array) -> float:
    """``(Σ W)² / Σ W²``, the number of equally weighted episodes that would tell as much; 0 where every W is 0."""
    weight_B = relative(log_weight_B)
    return float(weight_B.sum() ** 2 / max(float((weight_B**2).sum()), 1e-300))


def largest_share(log_weight_B: Float64Array) -> float:
    """``max W / Σ W``; 0 where every W is 0."""
    weight_B = relative(log_weight_B)
    return float(weight_B.max() / max(float(weight_B.sum()), 1e-300))


def relative(log_weight_B: Float64Array) -> Float64Array:
    """``W / max W`` along the first axis, which does not overflow; 0 where every W is 0."""
    largest = log_weight_B.max(axis=0)
    relative_B: Float64Array = np.exp(log_weight_B - np.where(np.isfinite(largest), largest, 0.0))
    return relative_B


# --- the estimators --------------------------------------------------------------------------------------------------


def ordinary(log_ratio_BT: Float64Array, reward_BT: Float64Array) -> Sums:
    """``mean_i W_i Σ_t r_t``, W_i the last weight of the episode. Unbiased; its variance grows with the turns."""
    log_weight_BT = _checked(log_ratio_BT, reward_BT)
    weight_B = _exp(log_weight_BT[:, -1])
    return mean(weight_B * reward_BT.sum(axis=1))


def weighted(log_ratio_BT: Float64Array, reward_BT: Float64Array) -> Sums:
    """``Σ_i W_i Σ_t r_t / Σ_i W_i``. Never outside of what episodes earned; its bias vanishes as episodes grow many."""
    log_weight_BT = _checked(log_ratio_BT, reward_BT)
    weight_B = relative(log_weight_BT[:, -1])
    return Sums(column_BC=np.stack([weight_B * reward_BT.sum(axis=1), weight_B], axis=1), of=_ratio)


def per_decision(log_ratio_BT: Float64Array, reward_BT: Float64Array) -> Sums:
    """``mean_i Σ_t W_t r_t``: a reward is weighed by the turns that led to it alone. Unbiased."""
    log_weight_BT = _checked(log_ratio_BT, reward_BT)
    return mean((_exp(log_weight_BT) * reward_BT).sum(axis=1))


def weighted_per_decision(log_ratio_BT: Float64Array, reward_BT: Float64Array) -> Sums:
    """``Σ_t (Σ_i W_{i,t} r_{i,t} / Σ_i W_{i,t})``: per decision, with weights that sum to 1 at each turn."""
    log_weight_BT = _checked(log_ratio_BT, reward_BT)
    weight_BT, n_turns = relative(log_weight_BT), reward_BT.shape[1]

    def of(sum_C: Float64Array) -> Float64Array:
        found: Float64Array = quotient(sum_C[..., :n_turns], sum_C[..., n_turns:]).sum(axis=-1)
        return found

    return Sums(column_BC=np.concatenate([weight_BT * reward_BT, weight_BT], axis=1), of=of)


def mean(value_B: Float64Array) -> Sums:
    """The plain mean of one number per episode."""
    return Sums(column_BC=np.stack([value_B, np.ones_like(value_B)], axis=1), of=_ratio)


def quotient(above: Float64Array, below: Float64Array) -> Float64Array:
    """``above / below``, NaN where a draw of episodes has no weight at all."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(above / below)


def _ratio(sum_C: Float64Array) -> Float64Array:
    return quotient(sum_C[..., 0], sum_C[..., 1])


def _exp(log_weight: Float64Array) -> Float64Array:
    with np.errstate(over="ignore"):
        return np.exp(log_weight)


def _checked(log_ratio_BT: Float64Array, reward_BT: Float64Array) -> Float64Array:
    if log_ratio_BT.shape != reward_BT.shape:
        raise ShapeError(f"log_ratio_BT has shape {log_ratio_BT.shape} and reward_BT {reward_BT.shape}")
    return log_weights(log_ratio_BT)
