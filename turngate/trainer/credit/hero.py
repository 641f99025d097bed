"""HERO: a rule decides which episodes are right, a score ranks them within each verdict, and tasks are weighted."""

from typing import Annotated, TypeAlias

import numpy as np
from pydantic import Field

from turngate.errors import ConfigError
from turngate.trainer.credit.baselines import as_credit, non_negative, unit_interval, z_beyond_siblings
from turngate.trainer.credit.cohorts import Float64Array, check_scale, group, per_trajectory, validate
from turngate.trainer.credit.pay_sources import paid_to, scores, successes, verdicts
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Ddof, Eps, Threshold
from turngate.types import BoolArray, FloatArray, TurnTable

ScoreName: TypeAlias = Annotated[
    str | None,
    Field(
        description="Name of the reward component that ranks episodes; leave it out for the mean of their process "
        "verdicts."
    ),
]
Alpha: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        lt=0.5,
        description="How far scores move the reward of episodes that the rule calls wrong, up or down from 0 (α in the "
        "paper).",
    ),
]
Beta: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        lt=0.5,
        description="How far scores move the reward of episodes that the rule calls right, up or down from 1 (β in the "
        "paper).",
    ),
]
Flat: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        le=1,
        description="Rank, from 0 to 1, of episodes without a score or with equal scores; 0 is the published value.",
    ),
]
WMin: TypeAlias = Annotated[
    float, Field(ge=0, description="Smallest weight of a task, approached where its scores hardly differ.")
]
WMax: TypeAlias = Annotated[
    float, Field(ge=0, description="Largest weight of a task, approached where its scores differ much.")
]
Steepness: TypeAlias = Annotated[
    float, Field(ge=0, description="How sharply the weight rises with the spread of a task's scores.")
]
Spread: TypeAlias = Annotated[
    float | None,
    Field(
        description="Standard deviation of a task's scores at which its weight is half-way between smallest and "
        "largest; leave it out for the mean over the tasks of the batch."
    ),
]
MinStd: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        description="Least standard deviation to divide by, so that differences of scores alone do not train at "
        "full strength; 0 is the published form.",
    ),
]


@rule
def hero(
    table: TurnTable,
    *,
    score: ScoreName = None,
    threshold: Threshold = None,
    alpha: Alpha = 0.05,
    beta: Beta = 0.05,
    flat: Flat = 0.5,
    w_min: WMin = 0.4,
    w_max: WMax = 3.0,
    k: Steepness = 6.0,
    spread: Spread = None,
    min_std: MinStd = 0.05,
    eps: Eps = 1e-6,
    ddof: Ddof = 1,
) -> FloatArray:
    """HERO: a judge's scores rank siblings among those that a rule calls right, and among those it calls wrong.

    ``A = w · z(r̂)``, the same for all turns of a trajectory: float32[N].

    * The rule says right where outcome and total reach ``threshold``. Inside one cohort and one verdict of the rule,
      ``u = (s − min) / (max − min)``; ``r̂ = −α + 2αu`` where it says wrong, ``1 − β + 2βu`` where right. For α, β < ½
      a wrong episode never overtakes a right one.
    * s is ``measured["paid/SCORE_B"]``, what the component ``score`` was paid in the episode, or by default the mean of
      the trajectory's process verdicts that no gate closed.
    * ``w = w_min + (w_max − w_min) · σ(k (std(s) − spread))`` per cohort: tasks on which s spreads more count more.
      ``spread`` is the std at which w is half-way, by default the mean of the cohorts' stds in this batch.
    * ``z = (r̂ − mean) / (max(std, min_std) + eps)`` over the cohort. w multiplies z, because inside z it would
      cancel. ``min_std`` (ours) keeps cohorts with one verdict of the rule, in which only ranks of s differ, from
      training at full strength; 0 is the published z.

    Source: https://arxiv.org/abs/2510.07242. ⚠ α = β = 0.05 (0.1 for tasks that are hard to verify) and (w_min, w_max,
    k) = (0.4, 3, 6) are from secondary descriptions, another has (0.5, 2, 5); the paper keeps a running mean as
    ``spread``. ``flat`` is u where nothing is ranked: one member, equal scores, no score; published is 0.

    Degenerate: without any score w is the same for all cohorts and this is ``grpo(min_std)`` of the rule's verdict
    times w; α = β = 0 too, but for w. Equal r̂ and a cohort of one give exactly 0. Raises ShapeError (see ``validate``;
    the column of ``score`` missing or infinite), ConfigError for α or β outside [0, ½), w_min > w_max or another
    setting out of range, also for another ``ddof`` than 0 or 1.
    """
    check_scale("hero", eps=eps, ddof=ddof)
    unit_interval("hero", flat=flat)
    non_negative("hero", w_min=w_min, w_max=w_max, k=k, min_std=min_std, spread=0.0 if spread is None else spread)
    if not (0 <= alpha < 0.5 and 0 <= beta < 0.5 and w_min <= w_max):
        raise ConfigError(
            f"hero needs alpha and beta in [0, 0.5) and w_min ≤ w_max, found {alpha}, {beta}, {w_min} and {w_max}"
        )
    validate(table)
    score_B = _process_mean(table) if score is None else paid_to(table, score, "hero")
    ranked_B = stratified(successes(table, threshold), score_B, table, alpha=alpha, beta=beta, flat=flat)
    weight_B = spread_weight(score_B, table, spread, w_min=w_min, w_max=w_max, k=k, ddof=ddof)
    z_N = z_beyond_siblings(ranked_B, table, eps=eps, ddof=ddof, min_std=min_std)
    return as_credit(weight_B[table.traj_N] * z_N)


def stratified(
    right_B: BoolArray, score_B: Float64Array, table: TurnTable, *, alpha: float, beta: float, flat: float
) -> Float64Array:
    """r̂ of ``hero``: float64[B], in [−α, α] where wrong and in [1 − β, 1 + β] where right."""
    stratum_B = 2 * table.cohort_B.astype(np.int64) + right_B
    known = np.flatnonzero(~np.isnan(score_B))
    strata = group(score_B[known], stratum_B[known])
    low_G, high_G = np.full(len(strata.count_G), np.inf), np.full(len(strata.count_G), -np.inf)
    np.minimum.at(low_G, stratum_B[known], score_B[known])
    np.maximum.at(high_G, stratum_B[known], score_B[known])
    range_G = np.where(strata.degenerate_G, np.inf, high_G - low_G)
    u_B = np.full(len(score_B), flat)
    ranked = known[~strata.degenerate_G[stratum_B[known]]]
    u_B[ranked] = (score_B[ranked] - low_G[stratum_B[ranked]]) / range_G[stratum_B[ranked]]
    return np.where(right_B, 1.0 - beta + 2.0 * beta * u_B, -alpha + 2.0 * alpha * u_B)


def spread_weight(
    score_B: Float64Array,
    table: TurnTable,
    spread: float | None,
    *,
    w_min: float,
    w_max: float,
    k: float,
    ddof: int,
) -> Float64Array:
    """w of ``hero``: float64[B]. A cohort with fewer than two scores, or equal ones, has spread 0."""
    n_cohorts = int(table.cohort_B.max()) + 1
    known = np.flatnonzero(~np.isnan(score_B))
    std_G = np.zeros(n_cohorts)
    found_G = group(score_B[known], table.cohort_B[known]).std_G(ddof)
    std_G[: len(found_G)] = found_G
    usual = float(std_G[np.unique(table.cohort_B)].mean()) if spread is None else spread
    steep_G = 0.5 * (1.0 + np.tanh(0.5 * k * (std_G - usual)))
    weight_B: Float64Array = (w_min + (w_max - w_min) * steep_G)[table.cohort_B]
    return weight_B


def _process_mean(table: TurnTable) -> Float64Array:
    """The mean over each trajectory's turns with an open verdict, NaN without any: float64[B]."""
    n_B = per_trajectory(verdicts(table), table)
    sum_B = per_trajectory(np.nan_to_num(scores(table), nan=0.0), table)
    return np.where(n_B > 0, sum_B / np.maximum(n_B, 1.0), np.nan)
