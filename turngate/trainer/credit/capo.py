"""CAPO: tokens of turns that a judge flagged are paid less, and all tokens of the siblings are compared."""

from typing import Annotated, TypeAlias

import numpy as np
from pydantic import Field

from turngate.errors import ConfigError, ShapeError
from turngate.trainer.credit.baselines import as_credit, cohorts, non_negative, outcomes, without_siblings, z_of
from turngate.trainer.credit.cohorts import Float64Array, check_scale, validate
from turngate.trainer.credit.pay_sources import scores, tokens
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Ddof, Eps, Outcome
from turngate.types import FloatArray, TurnTable

OutcomeWeight: TypeAlias = Annotated[
    float,
    Field(
        description="Weight of the outcome; must be above w_process, so that a wrong turn of a success still gets more "
        "credit than a right one of a failure."
    ),
]
FlagWeight: TypeAlias = Annotated[
    float, Field(ge=0, description="Deduction for a turn that is flagged as wrong, in units of reward.")
]


@rule
def capo(
    table: TurnTable,
    *,
    w_outcome: OutcomeWeight = 2.0,
    w_process: FlagWeight = 1.0,
    eps: Eps = 1e-6,
    ddof: Ddof = 1,
    outcome: Outcome = "settled",
) -> FloatArray:
    """CAPO: the outcome, less a deduction for every turn that a judge flags as wrong, compared among siblings.

    ``A_t = z(r_t)``, ``r_t = w_outcome · o − w_process · (1 − p_t)``, z over all policy tokens of the cohort.

    ``p_t = process_N`` where no gate closed it, 1 = right and 0 = flagged as wrong (a share between them for averaged
    votes); a turn without such a verdict is not flagged. o is ``measured["settled_B"]``, or ``outcome_B`` with
    ``outcome="earned"`` (see ``outcomes``). Mean and std count turn t ``measured["tokens_N"]`` times. float32[N].

    Source: https://arxiv.org/abs/2508.02298. ⚠ The weights 2 and 1 are not certain to be the paper's, only
    w_outcome > w_process is, so that a wrong step of a success still beats a right one of a failure. Known weakness:
    the mean depends mostly on long turns.

    Degenerate: without a flag and with one policy token per trajectory this is ``grpo`` of the outcome; longer
    trajectories weigh more. Equal rewards give exactly 0, so does a cohort of one. Raises ShapeError (see ``validate``;
    ``settled_B`` or ``tokens_N`` missing; a verdict outside [0, 1]), ConfigError unless w_outcome > w_process ≥ 0, for
    eps < 0 or another ddof than 0 or 1.
    """
    check_scale("capo", eps=eps, ddof=ddof)
    non_negative("capo", w_process=w_process)
    if not w_outcome > w_process:
        raise ConfigError(f"capo needs w_outcome > w_process, found {w_outcome} and {w_process}")
    validate(table)
    reward_N = flagged_rewards(table, outcomes(table, outcome, "capo"), w_outcome, w_process)
    tokens_N = tokens(table, "capo")
    z_N = z_of(reward_N, ~without_siblings(table), cohorts(table), eps=eps, ddof=ddof, weight_N=tokens_N)
    return as_credit(z_N)


def flagged_rewards(table: TurnTable, outcome_B: Float64Array, w_outcome: float, w_process: float) -> Float64Array:
    """``w_outcome · o − w_process · (1 − p_t)``, the reward of every token of a turn: float64[N]."""
    score_N = scores(table)
    outside = np.flatnonzero((score_N < 0) | (score_N > 1))
    if len(outside):
        where = f"trajectory {table.traj_N[outside[0]]}, turn {table.index_N[outside[0]]}"
        raise ShapeError(f"process_N is {score_N[outside[0]]} at {where}; capo reads verdicts in [0, 1]")
    return w_outcome * outcome_B[table.traj_N] - w_process * np.nan_to_num(1.0 - score_N, nan=0.0)
