"""PURE: a trajectory is worth its worst step, not the sum of its steps."""

from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import Field

from turngate.errors import ConfigError
from turngate.trainer.credit.baselines import (
    as_credit,
    beyond_siblings,
    non_negative,
    one_of,
    outcomes,
    rate_baseline,
    to_go,
)
from turngate.trainer.credit.cohorts import Float64Array, validate
from turngate.trainer.credit.pay_sources import scores, tokens, verdicts
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.scans import following, suffix_min
from turngate.trainer.credit.settings import Outcome
from turngate.types import FloatArray, TurnTable

Tau: TypeAlias = Annotated[
    float,
    Field(
        gt=0,
        description="Temperature of the soft minimum (τ in the paper), in units of the scores; the smaller it is, the "
        "closer it comes to counting the worst step only.",
    ),
]
OutcomeCoef: TypeAlias = Annotated[float, Field(description="Weight of the outcome beside the process reward.", ge=0)]
MinMode: TypeAlias = Annotated[
    Literal["softmin_all", "strict_suffix"],
    Field(
        description="How a turn's process reward is computed. softmin_all: from the soft minimum over the whole "
        "episode, as published; strict_suffix: from the exact minimum over this turn and the later ones."
    ),
]
PureBaseline: TypeAlias = Annotated[
    Literal["token", "step", "none"],
    Field(
        description="Unit for which the siblings' mean process reward is subtracted. token; step, which favours few "
        "steps; none: nothing is subtracted."
    ),
]


@rule
def pure(
    table: TurnTable,
    *,
    tau: Tau = 0.1,
    coef: OutcomeCoef = 1.0,
    min_mode: MinMode = "softmin_all",
    baseline: PureBaseline = "token",
    outcome: Outcome = "settled",
) -> FloatArray:
    """PURE: process reward by the worst step of an episode instead of the sum over its steps.

    ``A_t = Σ_{s≥t} (PR*_s − n_s b) + coef · (o − mean of the siblings' o)``: float32[N].

    ``PR*_s = softmax(−PR/τ)_s · PR_s`` over the scored turns of the trajectory (``process_N``, in [−1, 1], where no
    gate closed it), so that the first sum is about the minimum of all steps. ``min_mode="strict_suffix"`` pays
    differences instead: the sum from t on is exactly the minimum from t on. b is the mean of the siblings'
    ``Σ PR* / Σ n``. With ``baseline="token"``, n_s is ``measured["tokens_N"]`` of a scored turn; with "step" it is 1
    (favours few steps); "none" has b = 0. o is ``measured["settled_B"]``, or ``outcome_B`` with ``outcome="earned"``
    (see ``outcomes``).

    Source: https://arxiv.org/abs/2504.15275 and its code: τ=0.1, coef=1, token baseline, a softmin over the whole
    trajectory (steps after the worst get about 0, not their own minimum).

    Degenerate: turns without a verdict are in no softmax and no sum; without any verdict this is ``coef`` times
    ``rloo`` of the outcome. One scored turn keeps its score. A cohort of one gives exactly 0, except for the process
    part under "none". Raises ShapeError (see ``validate``; ``settled_B`` missing; under "token" ``tokens_N`` missing or
    negative), ConfigError for τ ≤ 0, a negative coef or an unknown choice.
    """
    if not tau > 0:
        raise ConfigError(f"pure: tau is {tau}; it must be > 0")
    non_negative("pure", coef=coef)
    one_of("pure", "min_mode", min_mode, ("softmin_all", "strict_suffix"))
    one_of("pure", "baseline", baseline, ("token", "step", "none"))
    validate(table)
    step_N = softmin_steps(table, tau) if min_mode == "softmin_all" else suffix_min_steps(table)
    outcome_N = coef * beyond_siblings(outcomes(table, outcome, "pure"), table)
    if baseline == "none":
        return as_credit(to_go(step_N, table) + outcome_N)
    size_N = tokens(table, "pure") if baseline == "token" else np.ones(table.n_turns)
    process_N = rate_baseline(step_N, np.where(verdicts(table), size_N, 0.0), table)
    return as_credit(process_N + outcome_N)


def softmin_steps(table: TurnTable, tau: float = 0.1) -> Float64Array:
    """``softmax(−PR/τ) · PR`` over the scored turns of each trajectory, 0 on the others: float64[N].

    The softmax is shifted by the lowest score of the trajectory, so that none overflows.
    """
    score_N = scores(table)
    start_N = np.flatnonzero(table.index_N == 0)
    length_N = np.diff(start_N, append=len(score_N))
    weight_N = np.exp((np.repeat(np.fmin.reduceat(score_N, start_N), length_N) - score_N) / tau)
    sum_N = np.add.reduceat(np.nan_to_num(weight_N, nan=0.0), start_N)
    sum_N[sum_N == 0] = 1.0  # no turn has a score
    step_N: Float64Array = np.nan_to_num(weight_N / np.repeat(sum_N, length_N) * score_N, nan=0.0)
    return step_N


def suffix_min_steps(table: TurnTable) -> Float64Array:
    """Per turn the lowest score from it on, minus that from the next scored turn on: float64[N], 0 where unscored.

    So the sum from t on is the lowest score from t on, and 0 if no turn is scored from there on.
    """
    score_N = scores(table)
    low_N = np.nan_to_num(suffix_min(score_N, table.traj_N), nan=0.0)
    later_N = following(low_N, table.traj_N, np.zeros(table.n_trajectories))
    return np.where(np.isnan(score_N), 0.0, low_N - later_N)
