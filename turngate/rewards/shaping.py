"""Rewards per turn made from scores of states or steps: differences, potentials, softened minima.

What they have in common: paid as they are, their sum over an episode is bounded whatever its length, because it
telescopes or is a weighted mean. That is lost as soon as they are clipped, gated or normalised per step.

A missing score (NaN) never counts as zero: differences join its neighbours, minima leave it out.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from turngate.errors import ConfigError, ShapeError
from turngate.rewards.columns import (
    Float64Array,
    Int64Array,
    counts,
    flags,
    following,
    labels,
    last_known,
    numbers,
    owners,
    share,
    suffix_min,
    suffix_sum,
    totals,
    turn_index,
)

# --- potentials ------------------------------------------------------------------------------------------------------


def potential_shaping(
    potential_N: npt.ArrayLike,
    end_B: npt.ArrayLike,
    terminated_B: npt.ArrayLike,
    traj_N: npt.ArrayLike,
    *,
    gamma: float = 1.0,
) -> Float64Array:
    """``F_t = γ Φ(s_{t+1}) − Φ(s_t)``: float64[N]; ``Σ γ^t F_t = γ^T Φ(s_T) − Φ(s_0)``.

    ``potential_N`` is Φ before each turn, ``end_B`` Φ after the last one. A *terminated* episode (``terminated_B``)
    ends in potential 0, whatever ``end_B`` says; a truncated one would have gone on, so it keeps Φ(s_T) as bootstrap.

    Policy-invariant: Ng, Harada and Russell 1999, https://people.eecs.berkeley.edu/~russell/papers/icml99-shaping.pdf.
    At γ=1 every sibling's sum is the same −Φ(s_0), so credit per trajectory does not see it; reward-to-go becomes
    ``G_t − Φ(s_t)``, a baseline that depends on the state. An unmeasured Φ (NaN) keeps the last known value, before the
    first one 0: any Φ of the history is a potential. Constant Φ: only the last turn of a terminated episode differs
    from 0 (γ=1). Raises ShapeError, ConfigError for γ outside [0, 1].
    """
    share("gamma", gamma)
    end_B = numbers("end_B", end_B, missing="allowed")
    over_B = flags("terminated_B", terminated_B, end_B.shape) == 1
    traj_N = owners(traj_N, len(end_B))
    potential_N = numbers("potential_N", potential_N, traj_N.shape, missing="allowed")
    filled_N = np.nan_to_num(last_known(potential_N, traj_N), nan=0.0)
    final_B = _at_last_turn(filled_N, traj_N, len(end_B))
    next_B = np.where(over_B, 0.0, np.where(np.isnan(end_B), final_B, end_B))
    return gamma * following(filled_N, traj_N, next_B) - filled_N


# --- differences of step scores --------------------------------------------------------------------------------------


def clip_scores(score_N: npt.ArrayLike, threshold: float) -> Float64Array:
    """Clip: ``min(q_t − η, 0)``: a good step earns nothing, so repeating it earns nothing: float64[N], at most 0.

    Source: https://arxiv.org/abs/2410.15115, from its abstract; η is not stated there (a quantile of the scores is a
    reasonable choice). Known weakness: with a sum over turns, fewer steps cost less. NaN stays. Raises ShapeError.
    """
    return np.minimum(numbers("score_N", score_N, missing="allowed") - threshold, 0.0)


def delta_scores(score_N: npt.ArrayLike, traj_N: npt.ArrayLike) -> Float64Array:
    """Delta: ``q_t − q_{t+1}``, 0 at the last verdict: float64[N].

    Reward-to-go is ``q_t − q_last``: each step earns its own score, and an episode no more than the range of scores.
    Delta of clipped scores (``delta_scores(clip_scores(…))``) is the paper's combination.

    Source: https://arxiv.org/abs/2410.15115, from its abstract. A step without verdict stays NaN and its neighbours
    are joined. One verdict: 0. Raises ShapeError.
    """
    traj_N = owners(traj_N)
    score_N = numbers("score_N", score_N, traj_N.shape, missing="allowed")
    delta_N = np.full(len(score_N), np.nan)
    known = np.flatnonzero(~np.isnan(score_N))
    if len(known):
        own_M, traj_M = score_N[known], traj_N[known]
        last_B = _at_last_turn(own_M, traj_M, int(traj_M[-1]) + 1)
        delta_N[known] = own_M - following(own_M, traj_M, last_B)
    return delta_N


# --- progress of values ----------------------------------------------------------------------------------------------


def best_of(value: npt.ArrayLike, k: int = 4) -> Float64Array:
    """Success of the best of k tries: ``1 − (1 − V)^k``, any shape, V in [0, 1]. The prover of PAV; k = 4 there.

    Raises ConfigError for k < 1, ShapeError for values outside [0, 1].
    """
    if k < 1:
        raise ConfigError(f"k is {k}; a prover tries at least once")
    return np.asarray(1.0 - (1.0 - numbers("value", value, missing="allowed", low=0.0, high=1.0)) ** k, np.float64)


def progress(
    value_N: npt.ArrayLike, end_B: npt.ArrayLike, traj_N: npt.ArrayLike, *, prover_k: int = 1, weight: float = 1.0
) -> Float64Array:
    """Process advantage: ``r_t = α (V(s_{t+1}) − V(s_t))`` under a prover: float64[N].

    ``value_N`` is the success rate from the state before each turn (from ``branch_values``, say), ``end_B`` after the
    last one, usually the outcome. ``prover_k`` > 1 turns both into those of the best of k tries. The sum over an
    episode telescopes to ``α (V_end − V_first)``, so filler earns nothing.

    Source: PAV, https://arxiv.org/abs/2410.08146; there k = 4, and α between 0.2 and 5, uncertain. A prover as weak,
    or as strong, as can be sees no progress; the policy itself (k=1) adds nothing to its own gradient. A state that
    nobody measured joins its neighbours, and the turns between share the difference evenly; turns before the first
    measured state, or after the last one where ``end_B`` is NaN, stay NaN. Raises ShapeError, ConfigError.
    """
    traj_N = owners(traj_N, np.shape(end_B)[0] if np.ndim(end_B) else None)
    end_B = best_of(end_B, prover_k)
    value_N = best_of(numbers("value_N", value_N, traj_N.shape, missing="allowed"), prover_k)
    before_N = last_known(value_N, traj_N)
    after_N = _next_known(value_N, end_B, traj_N)
    rows = np.arange(len(value_N), dtype=np.float64)
    start_N = last_known(np.where(np.isnan(value_N), np.nan, rows), traj_N)
    stop_N = _next_known(np.where(np.isnan(value_N), np.nan, rows), _after_last_turn(traj_N, end_B), traj_N)
    return weight * (after_N - before_N) / (stop_N - start_N)


def search_score(policy_value: npt.ArrayLike, progress: npt.ArrayLike, *, alpha: float = 0.5) -> Float64Array:
    """PAV's score for choosing among candidate steps: ``Q^π + α A^μ``, any shape. α between 0.2 and 0.6, uncertain."""
    value = numbers("policy_value", policy_value, missing="allowed")
    return value + alpha * numbers("progress", progress, value.shape, missing="allowed")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BranchValues:
    """``value_N``: success rate from the state before each turn; ``count_N``: how many episodes it was measured on."""

    value_N: Float64Array
    count_N: Int64Array


def branch_values(
    outcome_B: npt.ArrayLike,
    parent_B: npt.ArrayLike,
    branch_B: npt.ArrayLike,
    traj_N: npt.ArrayLike,
    *,
    min_count: int = 1,
) -> BranchValues:
    """Monte-Carlo values from branched rollouts: ``V(s) = mean outcome of the episodes that went through s``.

    Trajectory b shares its first ``branch_B[b]`` turns, and the state after them, with ``parent_B[b]`` (−1 = it began
    on its own); branches of branches are followed to the root. An episode counts at each of its states, its own
    included. Each V is unbiased if branch points were not chosen by what came after them; the episodes of one tree are
    not independent, so ``count_N`` overstates how certain V is. V is NaN where fewer than ``min_count`` were seen.

    Becomes the episode's own outcome at every turn without branches. Raises ShapeError for a parent outside the batch,
    a branch point beyond the parent's last turn, or a circle; ConfigError for min_count < 1.
    """
    if min_count < 1:
        raise ConfigError(f"min_count is {min_count}; a value rests on at least one episode")
    outcome_B = numbers("outcome_B", outcome_B)
    traj_N = owners(traj_N, len(outcome_B))
    row_N = _shared_rows(np.asarray(parent_B), labels("branch_B", branch_B, len(outcome_B)), traj_N)
    seen_N = np.bincount(row_N, minlength=len(row_N))
    sum_N = np.bincount(row_N, weights=outcome_B[traj_N], minlength=len(row_N))
    count_N = seen_N[row_N].astype(np.int64, copy=False)
    value_N = np.where(count_N >= min_count, sum_N[row_N] / np.maximum(count_N, 1), np.nan)
    return BranchValues(value_N=value_N, count_N=count_N)


def _shared_rows(parent_B: npt.NDArray[np.integer], branch_B: Int64Array, traj_N: Int64Array) -> Int64Array:
    """For each turn the row of the same state in the trajectory that reached it first."""
    if parent_B.shape != branch_B.shape or (parent_B < -1).any() or (parent_B >= len(branch_B)).any():
        raise ShapeError(f"parent_B is {parent_B.tolist()}; it must name one of {len(branch_B)} trajectories or be -1")
    length_B = np.bincount(traj_N, minlength=len(branch_B))
    first_B = np.cumsum(length_B) - length_B
    has_parent_B = parent_B >= 0
    beyond_B = has_parent_B & (np.minimum(branch_B, length_B - 1) >= length_B[parent_B])
    if beyond_B.any():
        bad = int(np.flatnonzero(beyond_B)[0])
        raise ShapeError(
            f"trajectory {bad} branches at turn {branch_B[bad]} off trajectory {parent_B[bad]}, "
            f"which has only {length_B[parent_B[bad]]} turns"
        )
    row_N = np.arange(len(traj_N), dtype=np.int64)
    index_N = turn_index(traj_N)
    for _ in range(len(branch_B) + 1):
        owner_N = traj_N[row_N]
        up_N = has_parent_B[owner_N] & (index_N <= branch_B[owner_N])
        if not up_N.any():
            return row_N
        row_N = np.where(up_N, first_B[parent_B[owner_N]] + index_N, row_N)
    raise ShapeError(f"parent_B {parent_B.tolist()} runs in a circle; a trajectory cannot be its own ancestor")


# --- progress attribution --------------------------------------------------------------------------------------------


def spa(
    estimate_N: npt.ArrayLike,
    return_B: npt.ArrayLike,
    traj_N: npt.ArrayLike,
    *,
    grounded_N: npt.ArrayLike | None = None,
    a: float = 1.0,
    b: float = 0.0,
    exact_sum: bool = True,
) -> Float64Array:
    """SPA progress attribution: ``r_t = a ĉ_t + b g_t``: float64[N].

    ``estimate_N`` is how much of the return an estimator puts on each turn, ``grounded_N`` 1 where the action
    executed. ``exact_sum`` adds ``(R − Σ ĉ) / T`` to each ĉ, so that shares add up to ``return_B`` and the episode is
    worth what it was worth (ours; T counts turns with an estimate).

    Source: https://arxiv.org/abs/2505.20732; a = 1 and, in the released code, b = 0.5 (both uncertain), no exact sum.
    b = 0 here, because b pays for every further action that executes: padding raises the total. A turn without
    estimate stays NaN. Raises ShapeError; ConfigError for b ≠ 0 without ``grounded_N``.
    """
    if b and grounded_N is None:
        raise ConfigError(f"spa has b={b} but no grounded_N; give the column or set b=0")
    return_B = numbers("return_B", return_B)
    traj_N = owners(traj_N, len(return_B))
    share_N = numbers("estimate_N", estimate_N, traj_N.shape, missing="allowed")
    if exact_sum:
        known_B = np.maximum(counts(~np.isnan(share_N), traj_N, len(return_B)), 1)
        share_N = share_N + ((return_B - totals(share_N, traj_N, len(return_B))) / known_B)[traj_N]
    if grounded_N is None:
        return a * share_N
    return a * share_N + b * flags("grounded_N", grounded_N, traj_N.shape)


def spa_loss(estimate_N: npt.ArrayLike, return_B: npt.ArrayLike, traj_N: npt.ArrayLike) -> Float64Array:
    """What SPA's estimator is fitted by: ``(Σ_t ĉ_t − R)²`` per trajectory: float64[B].

    Any split with the right sum has zero loss. Turns without estimate are left out. Raises ShapeError.
    """
    return_B = numbers("return_B", return_B)
    traj_N = owners(traj_N, len(return_B))
    estimate_N = numbers("estimate_N", estimate_N, traj_N.shape, missing="allowed")
    return np.asarray((totals(estimate_N, traj_N, len(return_B)) - return_B) ** 2, np.float64)


# --- minima ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MinForm:
    """``reward_N`` per turn and ``return_N``, its sum from each turn on. NaN: no verdict (return: none from here)."""

    reward_N: Float64Array
    return_N: Float64Array


def pure(
    score_N: npt.ArrayLike,
    traj_N: npt.ArrayLike,
    *,
    mode: Literal["softmin_all", "strict_suffix"] = "softmin_all",
    temperature: float = 0.1,
) -> MinForm:
    """PURE: an episode is worth its worst step, so good steps cannot buy back a bad one.

    "softmin_all" (published): ``w = softmax(−q / τ)`` over the steps of the episode, ``r_k = w_k q_k``,
    ``G_k = Σ_{j≥k} r_j ≈ min``; steps after the worst get about 0, not their own minimum. "strict_suffix":
    ``G_k = min_{j≥k} q_j`` and ``r_k = G_k − G_{k+1}`` (the last one its own score).

    Scores lie in [−1, 1] there, P(good) − P(bad), and τ = 0.1. ``G_0`` lies between the least score and the mean.
    Under "softmin_all" a further step that scores above it still raises it (from 0.3 to 0.33 for a second step of
    0.4); under "strict_suffix" no step ever does.

    Source: https://arxiv.org/abs/2504.15275 and its code. Known weakness: empty politeness and one giant step score
    well; a judge must see separators. NaN steps are left out. One step: its score. τ → 0 makes ``G_0`` of both modes
    equal. Raises ShapeError, ConfigError for τ ≤ 0 or an unknown mode.
    """
    if mode not in ("softmin_all", "strict_suffix"):
        raise ConfigError(f"mode is '{mode}'; it must be 'softmin_all' or 'strict_suffix'")
    if not 0 < temperature < np.inf:
        raise ConfigError(f"temperature is {temperature}; it must be above 0")
    traj_N = owners(traj_N)
    score_N = numbers("score_N", score_N, traj_N.shape, missing="allowed")
    low_N = suffix_min(score_N, traj_N)
    if mode == "strict_suffix":
        past_end_B = np.zeros(int(traj_N.max(initial=-1)) + 1)
        later_N = following(np.nan_to_num(low_N, nan=0.0), traj_N, past_end_B)
        return MinForm(reward_N=np.where(np.isnan(score_N), np.nan, low_N - later_N), return_N=low_N)
    reward_N = softmin_rewards(score_N, traj_N, temperature=temperature)
    to_go_N = suffix_sum(np.nan_to_num(reward_N, nan=0.0), traj_N)
    return MinForm(reward_N=reward_N, return_N=np.where(np.isnan(low_N), np.nan, to_go_N))


def softmin_rewards(score_N: Float64Array, traj_N: npt.NDArray[np.integer], *, temperature: float) -> Float64Array:
    """``r = softmax(−q / τ) · q`` over the steps of each trajectory, NaN left out: float64[N], without checks.

    The rewards of ``pure`` under "softmin_all". The softmax is shifted by the least score, so that none overflows.
    """
    if not len(score_N):
        return score_N
    start_B = np.flatnonzero(np.diff(traj_N, prepend=traj_N[0] - 1))
    length_B = np.diff(start_B, append=len(score_N))
    raw_N = np.repeat(np.fmin.reduceat(score_N, start_B), length_B)
    raw_N -= score_N
    raw_N /= temperature
    np.exp(raw_N, out=raw_N)
    total_B = np.add.reduceat(np.where(np.isnan(raw_N), 0.0, raw_N), start_B)
    total_B[total_B == 0] = 1.0  # no step has a score, so all are NaN
    raw_N *= score_N
    raw_N /= np.repeat(total_B, length_B)
    return raw_N


# --- shared ----------------------------------------------------------------------------------------------------------


def _at_last_turn(value_N: Float64Array, traj_N: Int64Array, n_trajectories: int) -> Float64Array:
    last_B = np.zeros(n_trajectories)
    last_B[traj_N] = value_N  # the last write of each trajectory stays
    return last_B


def _after_last_turn(traj_N: Int64Array, end_B: Float64Array) -> Float64Array:
    """The row one past each trajectory's last turn, NaN where its end was not measured: float64[B]."""
    past_B = np.cumsum(np.bincount(traj_N, minlength=len(end_B))).astype(np.float64)
    return np.where(np.isnan(end_B), np.nan, past_B)


def _next_known(value_N: Float64Array, end_B: Float64Array, traj_N: Int64Array) -> Float64Array:
    """The next measured value strictly after each turn, ``end_B`` beyond the last one: float64[N]."""
    shifted_N = following(value_N, traj_N, end_B)
    return last_known(shifted_N[::-1], traj_N.max(initial=0) - traj_N[::-1])[::-1]
