"""Clip and Delta: step scores reshaped so that repeating a good step earns nothing."""

from typing import Annotated, TypeAlias

import numpy as np
from pydantic import Field

from turngate.trainer.credit.baselines import as_credit, non_negative, one_of, outcomes, with_outcome
from turngate.trainer.credit.cohorts import Float64Array, validate
from turngate.trainer.credit.pay_sources import scores
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.scans import following, next_known
from turngate.trainer.credit.settings import Baseline, Outcome, ProcessWeight
from turngate.types import FloatArray, TurnTable

ClipThreshold: TypeAlias = Annotated[
    float, Field(description="Score below which a turn is charged: the difference to this, times weight.")
]


@rule
def clip(
    table: TurnTable,
    *,
    threshold: ClipThreshold = 0.5,
    weight: ProcessWeight = 1.0,
    baseline: Baseline = "rloo",
    outcome: Outcome = "settled",
) -> FloatArray:
    """Clipped process rewards: a turn whose score lies below a threshold costs something, a better one earns nothing.

    ``A_t = Σ_{s≥t} r_s + o − mean of the siblings' G_0``, ``r_s = weight · min(q_s − threshold, 0)``: float32[N].

    ``q_s = process_N`` where no gate closed it: a good step earns nothing, a bad one costs. o is
    ``measured["settled_B"]``, or ``outcome_B`` with ``outcome="earned"`` (see ``outcomes``); ``G_0`` is what a sibling
    earns in all. ``baseline="none"`` subtracts nothing.

    Source: https://arxiv.org/abs/2410.15115, from its abstract. ⚠ The threshold η is not stated there (0.5 is ours; a
    quantile of the scores is reasonable), neither is the weight beside the outcome. Known weakness: a step
    can only cost, so episodes of fewer steps cost less.

    Degenerate: a turn without a verdict earns nothing; without any, or with every verdict at or above the threshold,
    this is ``rloo`` of the outcome. A cohort of one gives exactly 0 with the baseline. Raises ShapeError (see
    ``validate``; ``settled_B`` missing or not finite), ConfigError for a negative weight or an unknown choice.
    """
    non_negative("clip", weight=weight)
    one_of("clip", "baseline", baseline, ("rloo", "none"))
    validate(table)
    outcome_B = outcomes(table, outcome, "clip")
    return as_credit(with_outcome(weight * clipped(scores(table), threshold), outcome_B, table, baseline))


DeltaThreshold: TypeAlias = Annotated[
    float | None,
    Field(
        description="Largest score: higher ones are lowered to it before differences are taken. Leave it out to use "
        "the scores as they are."
    ),
]


@rule
def delta(
    table: TurnTable,
    *,
    threshold: DeltaThreshold = None,
    weight: ProcessWeight = 1.0,
    baseline: Baseline = "rloo",
    outcome: Outcome = "settled",
) -> FloatArray:
    """Differences of process rewards: a turn earns its score less the next one's, so that more steps earn no more.

    ``clip`` with ``r_s = weight · (q_s − q_next)``, 0 at the last verdict: float32[N].

    From turn t on this sums to ``q_t − q_last``: a step earns its own score, an episode at most the range of scores,
    however many steps it takes. ``threshold`` clips the scores first, the paper's combination; None leaves them.

    Source: https://arxiv.org/abs/2410.15115, from its abstract; ⚠ the weight beside the outcome is not stated there.

    Degenerate: a turn without a verdict earns nothing, and its neighbours are joined; without any verdict, with one, or
    with equal ones this is ``rloo`` of the outcome. A cohort of one gives exactly 0 with the baseline. Raises as
    ``clip`` does.
    """
    non_negative("delta", weight=weight)
    one_of("delta", "baseline", baseline, ("rloo", "none"))
    validate(table)
    score_N = scores(table) if threshold is None else clipped(scores(table), threshold)
    outcome_B = outcomes(table, outcome, "delta")
    return as_credit(with_outcome(weight * differences(score_N, table), outcome_B, table, baseline))


def clipped(score_N: Float64Array, threshold: float) -> Float64Array:
    """``min(q − η, 0)``, NaN without a score: float64[N]."""
    return np.minimum(score_N - threshold, 0.0)


def differences(score_N: Float64Array, table: TurnTable) -> Float64Array:
    """``q_t − q_next``, next = the next scored turn; 0 at the last one, NaN without a score: float64[N]."""
    nothing_B = np.full(table.n_trajectories, np.nan)
    later_N = following(next_known(score_N, table.traj_N), table.traj_N, nothing_B)
    return score_N - np.where(np.isnan(later_N), score_N, later_N)
