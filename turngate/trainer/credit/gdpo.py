"""GDPO: every component of the reward is compared with the siblings on its own, then the advantages are added."""

from collections.abc import Mapping
from typing import Annotated, TypeAlias

import numpy as np
from pydantic import Field

from turngate.errors import ConfigError
from turngate.trainer.credit.baselines import z_of
from turngate.trainer.credit.cohorts import check_scale, group, to_turns, validate
from turngate.trainer.credit.pay_sources import components, paid_to
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Ddof, Eps
from turngate.types import FloatArray, TurnTable

Weights: TypeAlias = Annotated[
    Mapping[str, float] | None,
    Field(
        description="Weight of each reward component, by its name; components that are not named do not count. "
        "Leave it out to count all alike."
    ),
]
BatchNorm: TypeAlias = Annotated[
    bool,
    Field(description="Whether the sum is scaled to mean 0 and standard deviation 1 over the episodes of the batch."),
]


@rule
def gdpo(
    table: TurnTable,
    *,
    weights: Weights = None,
    batch_norm: BatchNorm = True,
    eps: Eps = 1e-4,
    ddof: Ddof = 1,
) -> FloatArray:
    """GDPO: every reward component is compared among siblings on its own, and the results are added up.

    ``A = z_batch(Σ_k w_k z(c_k))``: float32[N], the same for all turns of a trajectory.

    ``c_k`` is ``measured["paid/NAME_B"]``, what the component NAME was paid in the episode after all gates, NaN where
    no sibling had a verdict. ``weights`` names the components that count and their w; left out, all count with w = 1.
    z is over the cohort and divides by ``std + eps``, so the weights of the rubric do not matter here, only their
    signs.
    ``batch_norm`` moves and scales the sum to mean 0 and std 1 over the trajectories of the batch.

    Comparing components separately keeps apart what a z of the total does not: ``grpo`` gives the same credit to
    siblings paid (0, 1) as to siblings paid (0, 2). To count an easy component only where a hard one is reached, use
    the gate ``conditional`` in the rubric.

    Source: https://arxiv.org/abs/2601.05242 and its TRL code (eps, w = 1), which counts a missing reward as 0;
    here the table has the siblings' mean in its place, and NaN is left out of means, stds and sums. Known weakness: a
    component that is rarely paid gets a large z, however unimportant it is.

    Degenerate: a component that is equal among the siblings adds 0; a trajectory without any verdict gets 0 and does
    not count in the step over the batch. With one component it is ``grpo`` of that component, without the step over the
    batch. A cohort of one gets exactly 0 and does not count in the step over the batch. Raises ShapeError (see
    ``validate``; a component whose column is missing or infinite), ConfigError for eps < 0, another ddof than 0 or 1 or
    empty weights.
    """
    check_scale("gdpo", eps=eps, ddof=ddof)
    if weights is not None and not weights:
        raise ConfigError("gdpo: weights is empty; name the components that count, or leave it out for all of them")
    validate(table)
    chosen = dict.fromkeys(components(table, "gdpo"), 1.0) if weights is None else weights
    sum_B, heard_B = np.zeros(table.n_trajectories), np.zeros(table.n_trajectories, np.bool_)
    for name, weight in chosen.items():
        paid_B = paid_to(table, name, "gdpo")
        sum_B += weight * z_of(paid_B, ~np.isnan(paid_B), table.cohort_B, eps=eps, ddof=ddof)
        heard_B |= ~np.isnan(paid_B)
    if batch_norm and len(chosen) > 1:
        heard_B &= group(sum_B, table.cohort_B).count_G[table.cohort_B] > 1
        sum_B = z_of(sum_B, heard_B, np.zeros(len(sum_B), np.int64), eps=eps, ddof=ddof)
    return to_turns(sum_B, table)
