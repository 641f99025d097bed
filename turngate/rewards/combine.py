"""From several rewards to one number: sums, squashed sums, stratified rewards and advantages.

Where each belongs in the order of operations (score → gate → normalise per component → combine → weights per task →
turns): ``weighted_sum``, ``lsc``, ``par``, ``ppr`` and ``hero`` make rewards, ``gdpo`` and ``hero_advantage`` make
advantages. A z-score cancels every scale and offset that a whole group shares, so weights per task come last.
Stratified advantage gating, which adds process verdicts to the outcome turn by turn, is ``trainer.credit.sag``.

NaN is "no verdict" everywhere and is left out of means and deviations, never filled with zero beforehand.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from turngate.errors import ConfigError, ShapeError
from turngate.rewards.columns import Float64Array, flags, labels, numbers, owners, share
from turngate.rewards.statistics import Singleton, group_stats, z_scores

# --- sums of components ----------------------------------------------------------------------------------------------


def weighted_sum(
    component_BK: npt.ArrayLike, weight_K: npt.ArrayLike | None = None, *, missing: Literal["skip", "nan"] = "skip"
) -> Float64Array:
    """``r_b = Σ_k w_k c_bk`` over the components that have a verdict: float64[B].

    ``missing="skip"`` leaves a component without verdict out of the sum; note that this spares a trajectory its
    unmeasured penalty. ``missing="nan"`` makes the whole sum unmeasured. A trajectory without any verdict is NaN.

    Degenerate: K = 0 raises. Known weakness: high process scores buy back a lost outcome, and one z-score over the sum
    lets the component with the largest spread decide alone (see ``gdpo``). Raises ShapeError, ConfigError.
    """
    component_BK, weight_K = _components(component_BK, weight_K, missing)
    return _sum(component_BK * weight_K, missing)


def lsc(
    score_BK: npt.ArrayLike,
    reference_K: npt.ArrayLike,
    weight_K: npt.ArrayLike | None = None,
    *,
    temperature: float = 1.0,
    missing: Literal["skip", "nan"] = "nan",
) -> Float64Array:
    """Log-sigmoid of centred scores: ``r_b = Σ_k w_k log σ((s_bk − ref_k) / τ)``: float64[B], at most 0.

    Reads as AND: with w = τ = 1 it is the log-probability that the answer beats its reference in every property, so
    one bad property cannot be bought back by the others, and a score far above its reference earns no more.
    ``reference_K`` has one score per property or, as float[B, K], one per trajectory (its task's); the paper takes a
    high quantile of what the initial policy scores there.

    Source: Wang et al., https://arxiv.org/abs/2402.00742, for w = τ = 1; weights and temperature are ours. A missing
    property leaves the AND unknown (NaN) by default; "skip" would pay for not being measured. Becomes
    ``weighted_sum`` of the centred scores, up to a constant, for scores far below their references. Raises
    ShapeError, ConfigError for τ ≤ 0 or a negative weight.
    """
    if not 0 < temperature < np.inf:
        raise ConfigError(f"temperature is {temperature}; it must be above 0")
    score_BK, weight_K = _components(score_BK, weight_K, missing)
    if (weight_K < 0).any():
        raise ConfigError(f"weight_K is {weight_K.tolist()}; an AND has no negative parts: turn the score around")
    reference = numbers("reference_K", reference_K)
    if reference.shape not in ((score_BK.shape[1],), score_BK.shape):
        raise ShapeError(f"reference_K has shape {reference.shape}, expected one per property of {score_BK.shape}")
    return _sum(_log_sigmoid((score_BK - reference) / temperature) * weight_K, missing)


def par(score_B: npt.ArrayLike, reference_BM: npt.ArrayLike) -> Float64Array:
    """Preference as reward: ``r_b = mean_m σ(s_b − ref_bm)``: float64[B] in (0, 1).

    The probability, under Bradley–Terry, that the answer beats a reference answer to the same task; bounded, so a
    reward model cannot be milked without end. ``reference_BM`` is float[B, M], or float[M] for the whole batch.

    Source: https://arxiv.org/abs/2502.18770, where one reference per task is enough. A missing reference is left out;
    no reference left, or no score, gives NaN. Equal to the references: ½. Raises ShapeError.
    """
    score_B = numbers("score_B", score_B, missing="allowed")
    reference_BM = np.atleast_2d(numbers("reference_BM", reference_BM, missing="allowed"))
    if reference_BM.ndim != 2 or reference_BM.shape[0] not in (1, len(score_B)):
        raise ShapeError(f"reference_BM has shape {reference_BM.shape}, expected ({len(score_B)}, M) or (M,)")
    wins_BM = np.exp(_log_sigmoid(score_B[:, None] - reference_BM))
    n_B = (~np.isnan(wins_BM)).sum(axis=1)
    return np.where(n_B > 0, np.nansum(wins_BM, axis=1) / np.maximum(n_B, 1), np.nan)


def ppr(
    process_N: npt.ArrayLike, outcome_B: npt.ArrayLike, traj_N: npt.ArrayLike, *, per_turn: bool = True
) -> Float64Array:
    """PPR with ReNorm: ``r_t = (p_t − ½) + (o − ½)``, both in [0, 1], paid at the end of each turn: float64[N].

    A turn without process verdict gets the outcome's part alone, ``o − ½``. ``per_turn=False`` divides by the number
    of turns T, which bounds what an episode is paid.

    Source: https://arxiv.org/abs/2509.25598; the exact form is read from reviews, so it is not certain to be the
    paper's. Known weakness of the published form (``per_turn=True``): a failing episode is paid at most 0 per turn, so
    failing sooner costs less, and a passing one at least 0, so passing slowly pays more. Raises ShapeError.
    """
    outcome_B = numbers("outcome_B", outcome_B, low=0.0, high=1.0)
    traj_N = owners(traj_N, len(outcome_B))
    process_N = numbers("process_N", process_N, traj_N.shape, missing="allowed", low=0.0, high=1.0)
    reward_N = np.nan_to_num(process_N - 0.5, nan=0.0) + outcome_B[traj_N] - 0.5
    return reward_N if per_turn else reward_N / np.bincount(traj_N)[traj_N]


# --- one z-score per component ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HardFirst:
    """Component ``easy`` counts only where component ``hard`` reaches ``threshold``; both are column numbers."""

    easy: int
    hard: int
    threshold: float


def gdpo(
    component_BK: npt.ArrayLike,
    group_B: npt.ArrayLike,
    weight_K: npt.ArrayLike | None = None,
    *,
    conditions: Sequence[HardFirst] = (),
    batch_norm: bool = True,
    eps: float = 1e-4,
    ddof: int = 1,
    singleton: Singleton = "zero",
) -> Float64Array:
    """Each reward against the siblings on its own, then added: ``A = Σ_k w_k z_group(c_k)``, then z over the batch.

    Keeps apart what one z-score over the sum throws together: totals (0, 1) and (0, 2) of two siblings look the same
    to GRPO. ``conditions`` are applied first, all on the components as given: ``c_easy ← c_easy · 1[c_hard ≥ θ]``; an
    unknown hard component leaves the easy one unknown. float64[B].

    A component without verdict is left out of its mean, its std and the sum (the authors' TRL code averages it in as
    0). A trajectory without any verdict gets 0 and has no say in the batch. Constant in its group: contributes 0.
    Becomes GRPO for K = 1, where the batch step is left out as in the released code.

    Source: https://arxiv.org/abs/2601.05242; eps=1e-4 and w=1 as in its TRL code, whose condition is a later addition
    by others. Known weakness: a rare component gets a large z whatever its importance, and a condition on a penalty
    pays for failing the hard one. Raises ShapeError, ConfigError for a condition on a column
    that does not exist or on itself.
    """
    component_BK, weight_K = _components(component_BK, weight_K, "skip")
    b, k = component_BK.shape
    group_B = labels("group_B", group_B, b)
    conditioned_BK = _conditioned(component_BK, conditions)
    z_BK = np.empty_like(conditioned_BK)
    for column in range(k):
        z_BK[:, column] = z_scores(
            conditioned_BK[:, column],
            group_B,
            eps=eps,
            ddof=ddof,
            singleton=singleton,
            name=f"component_BK[:, {column}]",
        )
    advantage_B = _sum(z_BK * weight_K, "skip")
    if batch_norm and k > 1:
        advantage_B = z_scores(advantage_B, np.zeros(b, np.int64), eps=eps, ddof=ddof)
    return np.nan_to_num(advantage_B, nan=0.0)


def _conditioned(component_BK: Float64Array, conditions: Sequence[HardFirst]) -> Float64Array:
    k = component_BK.shape[1]
    result_BK = component_BK.copy()
    for condition in conditions:
        if not (0 <= condition.easy < k and 0 <= condition.hard < k and condition.easy != condition.hard):
            raise ConfigError(f"{condition} names columns that are not two different ones of 0..{k - 1}")
        hard_B = component_BK[:, condition.hard]
        factor_B = np.where(np.isnan(hard_B), np.nan, hard_B >= condition.threshold)
        result_BK[:, condition.easy] *= factor_B
    return result_BK


# --- stratified ------------------------------------------------------------------------------------------------------


def hero(
    rule_B: npt.ArrayLike,
    score_B: npt.ArrayLike,
    group_B: npt.ArrayLike,
    *,
    alpha: float = 0.05,
    beta: float = 0.05,
    eta: float = 0.0,
    flat: float = 0.5,
) -> Float64Array:
    """A rule decides, a reward model ranks within its verdict: float64[B].

    Within a group and within one verdict of the rule, ``u = (s − min) / (max − min + η)``; then ``−α + 2αu`` where the
    rule says 0 and ``(1 − β) + 2βu`` where it says 1. For α, β < ½ no wrong answer overtakes a right one.

    α=β=0.05 for verifiable tasks (0.1 for mixed ones) is from a secondary description, so it may not be the paper's.
    ``flat`` is u for a stratum of one, of equal scores, or for an answer without score; published is 0, which puts
    them at the lower end.

    Source: https://arxiv.org/abs/2510.07242. Becomes the rule's verdict for α = β = 0. Known weakness: in a group where
    the rule gives one verdict only, a z-score cancels α (β), and reward-model ranks train at full strength; use an
    estimator without std or with a floor. Raises ShapeError (also for a rule's verdict other than 0 or 1), ConfigError
    for α or β outside [0, ½), η < 0 or flat outside [0, 1].
    """
    if not (0 <= alpha < 0.5 and 0 <= beta < 0.5 and 0 <= eta < np.inf):
        raise ConfigError(f"hero needs alpha and beta in [0, 0.5) and eta ≥ 0, found {alpha}, {beta} and {eta}")
    share("flat", flat)
    rule_B, score_B, group_B = _ruled(rule_B, score_B, group_B)
    stratum_B = 2 * group_B + (rule_B == 1)
    stats = group_stats(score_B, stratum_B, name="score_B")
    low_G, high_G = np.full(len(stats.size_G), np.inf), np.full(len(stats.size_G), -np.inf)
    np.fmin.at(low_G, stratum_B, score_B)
    np.fmax.at(high_G, stratum_B, score_B)
    with np.errstate(invalid="ignore"):  # inf − inf in strata without a score, which are degenerate
        range_G = np.where(stats.degenerate_G, 1.0, high_G - low_G + eta)
    u_B = (score_B - np.where(stats.degenerate_G, 0.0, low_G)[stratum_B]) / range_G[stratum_B]
    u_B = np.where(stats.degenerate_G[stratum_B] | np.isnan(score_B), flat, u_B)
    return np.where(rule_B == 1, 1 - beta + 2 * beta * u_B, -alpha + 2 * alpha * u_B)


def hero_weight(
    score_B: npt.ArrayLike,
    group_B: npt.ArrayLike,
    mean_spread: float,
    *,
    w_min: float = 0.4,
    w_max: float = 3.0,
    k: float = 6.0,
    ddof: int = 1,
) -> Float64Array:
    """HERO's weight per task, ``w = w_min + (w_max − w_min) · σ(k (std_group(s) − mean_spread))``: float64[B].

    Tasks on which the reward model's scores spread more than usual count more. ``mean_spread`` is the running mean of
    that std, which the caller keeps. Multiply an advantage with it, never a reward: inside a z-score it cancels (see
    ``hero_advantage``).

    (w_min, w_max, k) = (0.4, 3, 6) are uncertain; another reimplementation has (0.5, 2, 5), and the divisor of the std
    is not stated. Degenerate: a group with fewer than two scores or equal ones has spread 0. Raises ShapeError,
    ConfigError unless 0 ≤ w_min ≤ w_max, k ≥ 0 and mean_spread ≥ 0.
    """
    if not (0 <= w_min <= w_max < np.inf and 0 <= k < np.inf and 0 <= mean_spread < np.inf):
        raise ConfigError(
            f"hero_weight needs 0 ≤ w_min ≤ w_max, k ≥ 0 and mean_spread ≥ 0, "
            f"found {w_min}, {w_max}, {k} and {mean_spread}"
        )
    score_B = numbers("score_B", score_B, missing="allowed")
    stats = group_stats(score_B, labels("group_B", group_B, len(score_B)), name="score_B")
    steep_G = np.exp(_log_sigmoid(k * (stats.std_G(ddof) - mean_spread)))
    weight_B: Float64Array = (w_min + (w_max - w_min) * steep_G)[stats.group_M]
    return weight_B


def hero_advantage(
    rule_B: npt.ArrayLike,
    score_B: npt.ArrayLike,
    group_B: npt.ArrayLike,
    *,
    mean_spread: float,
    alpha: float = 0.05,
    beta: float = 0.05,
    std_floor: float = 0.05,
    eps: float = 1e-6,
    ddof: int = 1,
) -> Float64Array:
    """HERO in the order that works: ``A = hero_weight · z_group(hero)``: float64[B].

    ``std_floor`` (ours) keeps groups of one rule verdict, where only the reward model's ranks differ, from training
    at full strength; 0 is the published z-score. See ``hero`` and ``hero_weight`` for the rest and for what they raise.
    """
    reward_B = hero(rule_B, score_B, group_B, alpha=alpha, beta=beta)
    z_B = z_scores(reward_B, group_B, eps=eps, ddof=ddof, std_floor=std_floor, name="hero")
    return hero_weight(score_B, group_B, mean_spread, ddof=ddof) * z_B


# --- shared ----------------------------------------------------------------------------------------------------------


def _ruled(
    rule_B: npt.ArrayLike, score_B: npt.ArrayLike, group_B: npt.ArrayLike
) -> tuple[Float64Array, Float64Array, npt.NDArray[np.int64]]:
    score_B = numbers("score_B", score_B, missing="allowed")
    return flags("rule_B", rule_B, score_B.shape), score_B, labels("group_B", group_B, len(score_B))


def _components(
    component_BK: npt.ArrayLike, weight_K: npt.ArrayLike | None, missing: str
) -> tuple[Float64Array, Float64Array]:
    if missing not in ("skip", "nan"):
        raise ConfigError(f"missing is '{missing}'; it must be 'skip' or 'nan'")
    component_BK = numbers("component_BK", component_BK, missing="allowed")
    if component_BK.ndim != 2 or not component_BK.shape[1]:
        raise ShapeError(f"component_BK has shape {component_BK.shape}, expected trajectories × at least one component")
    k = component_BK.shape[1]
    return component_BK, np.ones(k) if weight_K is None else numbers("weight_K", weight_K, (k,))


def _log_sigmoid(x: Float64Array) -> Float64Array:
    """``log σ(x)`` that neither overflows nor warns of NaN."""
    return np.asarray(np.minimum(x, 0.0) - np.log1p(np.exp(-np.abs(x))), np.float64)


def _sum(part_BK: Float64Array, missing: str) -> Float64Array:
    if missing == "nan":
        return np.asarray(part_BK.sum(axis=1), np.float64)
    return np.where(np.isnan(part_BK).all(axis=1), np.nan, np.nansum(part_BK, axis=1))
