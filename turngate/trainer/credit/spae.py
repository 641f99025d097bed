"""SPAE: a turn earns what it adds to accuracy and confidence; one that comes after a sure right answer is charged."""

from typing import Annotated, TypeAlias

import numpy as np
from pydantic import Field

from turngate.trainer.credit.baselines import as_credit, non_negative, outcomes, without_siblings, z_beyond_siblings
from turngate.trainer.credit.cohorts import Float64Array, validate
from turngate.trainer.credit.pay_sources import column
from turngate.trainer.credit.progress import rises_after
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.scans import last_known, preceding
from turngate.trainer.credit.settings import Eps, Outcome
from turngate.types import FloatArray, TurnTable

PotentialWeight: TypeAlias = Annotated[
    float, Field(ge=0, description="Weight of what turns add to accuracy and confidence, beside the outcome.")
]
Saturation: TypeAlias = Annotated[
    float, Field(ge=0, description="Deduction for a turn that comes when the answer is already right and sure.")
]
Saturated: TypeAlias = Annotated[
    float, Field(description="Potential, from −1 to 1, above which the answer counts as already right and sure.")
]


@rule(reads=("accuracy_N", "confidence_N"))
def spae(
    table: TurnTable,
    *,
    weight: PotentialWeight = 0.5,
    saturation: Saturation = 0.1,
    saturated: Saturated = 0.9,
    eps: Eps = 1e-6,
    outcome: Outcome = "settled",
) -> FloatArray:
    """SPAE: the outcome against that of the siblings, plus what each turn adds to a right and sure answer.

    ``A_t = z(o) + weight · (ΔΦ_t − saturation · 1[Φ_{t−1} > saturated])``: float32[N].

    ``Φ = 1.5 · Acc · Conf + 0.5 · Acc − Conf`` in [−1, 1]: 1 for a sure right answer, −1 for a sure wrong one.
    ``Acc = measured["accuracy_N"]`` is the chance of the right answer when it is forced after the turn,
    ``Conf = measured["confidence_N"]`` how sure the policy then is, both in [0, 1]. ``ΔΦ_t = Φ_t − Φ_{t−1}``, 0 at the
    first turn. z is over the cohort and divides by ``std + eps`` (ddof 1); o is ``measured["settled_B"]``, or
    ``outcome_B`` with ``outcome="earned"`` (see ``outcomes``).

    Source: SPAE's code (https://github.com/cii030/SPAE-RL) for Φ and for 0.9. ⚠ How ΔΦ and saturation enter the
    advantage is not known, nor their weights: form and both weights are ours.

    Degenerate: a turn that was not measured (NaN in either column) shares evenly with the next ones that were; before
    the first and after the last measurement a turn keeps z(o); without any this is ``grpo`` of the outcome. A cohort of
    one gives exactly 0. Raises ShapeError (see ``validate``; a column missing or infinite), ConfigError for a negative
    setting.
    """
    non_negative("spae", weight=weight, saturation=saturation, eps=eps)
    validate(table)
    accuracy_N = column(table, "accuracy_N", "spae", missing=True)
    confidence_N = column(table, "confidence_N", "spae", missing=True)
    potential_N = potential(accuracy_N, confidence_N)
    rise_N = np.nan_to_num(rises_after(potential_N, None, table), nan=0.0)
    unknown_B = np.full(table.n_trajectories, np.nan)
    before_N = preceding(last_known(potential_N, table.traj_N), table.traj_N, unknown_B)
    step_N = rise_N - saturation * (before_N > saturated)
    outcome_N = z_beyond_siblings(outcomes(table, outcome, "spae"), table, eps=eps)
    return as_credit(np.where(without_siblings(table), 0.0, outcome_N + weight * step_N))


def potential(accuracy_N: Float64Array, confidence_N: Float64Array) -> Float64Array:
    """``Φ = 1.5 · Acc · Conf + 0.5 · Acc − Conf``: float64[N], NaN where either is missing."""
    return 1.5 * accuracy_N * confidence_N + 0.5 * accuracy_N - confidence_N
