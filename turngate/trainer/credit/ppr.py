"""PPR with ReNorm: every turn earns its process verdict and the outcome, each less one half."""

from typing import Annotated, TypeAlias

import numpy as np
from pydantic import Field

from turngate.trainer.credit.baselines import as_credit, beyond_start, one_of, outcomes, to_go
from turngate.trainer.credit.cohorts import Float64Array, lengths, validate
from turngate.trainer.credit.pay_sources import scores
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Baseline, Outcome
from turngate.types import FloatArray, TurnTable

PerTurn: TypeAlias = Annotated[
    bool,
    Field(
        description="Whether every turn earns the outcome in full, as published; false: what turns earn is divided by "
        "their number, so that long episodes earn no more than short ones."
    ),
]


@rule
def ppr(
    table: TurnTable,
    *,
    per_turn: PerTurn = True,
    baseline: Baseline = "rloo",
    outcome: Outcome = "settled",
) -> FloatArray:
    """PPR: each turn earns its process score and the outcome, each less one half.

    ``A_t = Σ_{s≥t} r_s − mean of the siblings' G_0``, ``r_s = (p_s − ½) + (o − ½)``: float32[N].

    ``p_s = process_N`` where no gate closed it; a turn without such a verdict has ``r_s = o − ½``. o is
    ``measured["settled_B"]``, or ``outcome_B`` with ``outcome="earned"`` (see ``outcomes``); both are meant to lie in
    [0, 1]. ``G_0`` is what a sibling earns in all. ``per_turn=False`` divides r by the number of turns, which bounds
    what an episode earns; ``baseline="none"`` subtracts nothing.

    Source: https://arxiv.org/abs/2509.25598 with siblings in place of its critic. ⚠ The form is read from reviews, not
    from the paper. Known weakness as published: a failing episode earns at most 0 in each turn, so failing sooner costs
    less, and a passing one at least 0, so passing slowly earns more; the outcome is paid once per turn.

    Degenerate: an episode of one turn without a verdict earns its outcome, so there this is ``rloo`` of the outcome. A
    trajectory without turns earns ``o − ½``. A cohort of one gives exactly 0 with the baseline. Raises ShapeError (see
    ``validate``; ``settled_B`` missing or not finite), ConfigError for an unknown choice.
    """
    one_of("ppr", "baseline", baseline, ("rloo", "none"))
    validate(table)
    outcome_B = outcomes(table, outcome, "ppr")
    sum_N = to_go(renormed(table, outcome_B, per_turn=per_turn), table)
    return as_credit(sum_N if baseline == "none" else beyond_start(sum_N, table, outcome_B - 0.5))


def renormed(table: TurnTable, outcome_B: Float64Array, *, per_turn: bool = True) -> Float64Array:
    """``(p_t − ½) + (o − ½)``, without the first part where no verdict is open: float64[N]."""
    reward_N = np.nan_to_num(scores(table) - 0.5, nan=0.0) + (outcome_B - 0.5)[table.traj_N]
    return reward_N if per_turn else reward_N / lengths(table)[table.traj_N]
