"""SPA: distributes the outcome over the turns by their estimated progress."""

from typing import Annotated, TypeAlias

import numpy as np
from pydantic import Field

from turngate.trainer.credit.baselines import (
    as_credit,
    beyond_start,
    non_negative,
    one_of,
    outcomes,
    to_go,
    unit_interval,
)
from turngate.trainer.credit.cohorts import Float64Array, per_trajectory, validate
from turngate.trainer.credit.pay_sources import column, last_turns, scores, verdicts
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Baseline, Gamma, Outcome
from turngate.types import FloatArray, TurnTable

ProgressWeight: TypeAlias = Annotated[
    float, Field(ge=0, description="Weight of a turn's estimated share in the outcome.")
]
Grounding: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        description="Reward of a turn whose action was executed; above 0 it favours long episodes, and needs the "
        "column grounded_N (see signals.evidence).",
    ),
]
ExactSum: TypeAlias = Annotated[
    bool,
    Field(description="Whether the shares of an episode are corrected so that they sum to its outcome."),
]


@rule(reads=("grounded_N",))
def spa(
    table: TurnTable,
    *,
    progress: ProgressWeight = 1.0,
    grounding: Grounding = 0.0,
    exact_sum: ExactSum = True,
    gamma: Gamma = 1.0,
    baseline: Baseline = "rloo",
    outcome: Outcome = "settled",
) -> FloatArray:
    """SPA: an estimator gives each turn a share of the outcome, and a turn gets the sum of rewards from it on.

    ``A_t = G_t − mean of the siblings' G_0``, ``G_t = Σ_{s≥t} γ^{s−t} r_s``: float32[N].

    ``r_s = progress · ĉ_s + grounding · g_s``. ``ĉ_s = process_N`` is the share of the outcome that an estimator gives
    turn s, where no gate closed it; ``g_s``, read from ``measured["grounded_N"]`` if ``grounding`` is not 0, is 1 where
    the action was executed. ``exact_sum`` adds ``(o − Σ ĉ) / n`` to each of the n scored turns, so that a trajectory
    earns its outcome, however the estimator errs. o is ``measured["settled_B"]``, or ``outcome_B`` with
    ``outcome="earned"`` (see ``outcomes``).

    Source: https://arxiv.org/abs/2505.20732 with a critic in place of the siblings. Its code has progress=1 and
    grounding=0.5 (not confirmed by the text); 0 here, because a payment per valid action rewards length. ``exact_sum``
    is ours.

    Degenerate: a trajectory without any estimate earns its outcome on the last turn, so without estimates, at γ=1,
    progress=1 and grounding=0, this is ``rloo`` of the outcome. A cohort of one gives exactly 0 with the baseline.
    Raises ShapeError (see ``validate``; ``settled_B`` or ``grounded_N`` missing or not finite), ConfigError for γ
    outside [0, 1], a negative setting or an unknown choice.
    """
    unit_interval("spa", gamma=gamma)
    non_negative("spa", progress=progress, grounding=grounding)
    one_of("spa", "baseline", baseline, ("rloo", "none"))
    validate(table)
    outcome_B = outcomes(table, outcome, "spa")
    reward_N = progress * progress_steps(table, outcome_B, exact_sum=exact_sum)
    if grounding:
        reward_N += grounding * column(table, "grounded_N", "spa")
    sum_N = to_go(reward_N, table, gamma)
    if baseline == "rloo":
        sum_N = beyond_start(sum_N, table, progress * outcome_B)
    return as_credit(sum_N)


def progress_steps(table: TurnTable, outcome_B: Float64Array, *, exact_sum: bool = True) -> Float64Array:
    """Each turn's share of the outcome, 0 where unscored; the whole on the last turn without any score: float64[N]."""
    share_N = np.nan_to_num(scores(table), nan=0.0)
    scored_N = verdicts(table)
    scored_B = per_trajectory(scored_N, table)
    if exact_sum:
        missing_B = (outcome_B - per_trajectory(share_N, table)) / np.maximum(scored_B, 1.0)
        share_N += np.where(scored_N, missing_B[table.traj_N], 0.0)
    unscored_end_N = last_turns(table) & (scored_B == 0)[table.traj_N]
    return np.where(unscored_end_N, outcome_B[table.traj_N], share_N)
