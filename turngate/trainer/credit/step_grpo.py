"""Step-level GRPO: every paid step is compared with all paid steps of the siblings."""

from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import Field

from turngate.errors import ConfigError
from turngate.trainer.credit.baselines import as_credit, z_among_siblings
from turngate.trainer.credit.cohorts import Float64Array, validate
from turngate.trainer.credit.pay_sources import last_turns, verdicts
from turngate.trainer.credit.returns import reward_to_go
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.scans import carry, scan_back
from turngate.trainer.credit.settings import Ddof, Eps, Gamma
from turngate.trainer.credit.token_credit import check_discounts
from turngate.types import BoolArray, FloatArray, TurnTable

Mode: TypeAlias = Annotated[
    Literal["sum", "mean", "to_go"],
    Field(
        description="How step rewards become credit. sum: a turn gets the sum over its step and the later ones, as "
        "published; mean: their mean, which favours neither long nor short episodes; to_go: the siblings' returns "
        "are compared instead of single steps."
    ),
]


@rule
def step_grpo(
    table: TurnTable,
    *,
    mode: Mode = "sum",
    gamma: Gamma = 1.0,
    eps: Eps = 1e-6,
    ddof: Ddof = 1,
) -> FloatArray:
    """GRPO with process supervision: step rewards are compared among siblings and summed from each turn on.

    ``A_t = Σ_{s≥t} γ^{s−t} z_s`` with z over all step rewards of the cohort together: float32[N].

    A step is a turn with an open process verdict, a payment other than 0, or the end of its trajectory; its reward is
    what it was paid. Turns without a verdict are no steps, instead of steps worth 0.

    * "sum" is as published. Each further step adds its z, so with positive z episodes learn to be long and with
      negative z to be short;
    * "mean" divides by the number of steps from t on, each weighted by its discount, which makes length irrelevant;
    * "to_go" normalises ``G_t = Σ_{s≥t} γ^{s−t} r_s`` over all turns of the cohort.

    Source: process supervision in DeepSeekMath, https://arxiv.org/abs/2402.03300, where γ = 1. eps and ddof are verl's
    and torch's. Without verdicts and with everything paid at the end, "sum" at γ=1 and "mean" at any γ are ``grpo``;
    so is "to_go" at γ=1 and ddof 0 for siblings of equal length. In "sum" and "mean" the z of a cohort sum to 0, the
    advantages do not.

    Branches: the statistics hold steps of leaves that share the turn, so early turns learn less: in two trees of two
    leaves that branch after turn 1, paid 0 or 1, 0.95 of turn 1's policy gradient against 1.41 of turn 2's (see
    ``docs/branching.md``).

    Degenerate: a cohort of one trajectory gets exactly 0 (steps of one episode are not compared with each other),
    equal step rewards give 0. Raises ShapeError (see ``validate``), ConfigError for an unknown mode, γ outside [0, 1],
    eps < 0 or another ddof than 0 or 1.
    """
    check_discounts(gamma=gamma)
    if mode not in ("sum", "mean", "to_go") or eps < 0 or ddof not in (0, 1):
        raise ConfigError(
            f"step_grpo needs mode 'sum', 'mean' or 'to_go', eps ≥ 0 and ddof 0 or 1, found '{mode}', {eps}, {ddof}"
        )
    validate(table)
    if mode == "to_go":
        every_N = np.ones(table.n_turns, np.bool_)
        return as_credit(z_among_siblings(reward_to_go(table, gamma), every_N, table, eps=eps, ddof=ddof))
    step_N = verdicts(table) | (table.reward_N != 0) | last_turns(table)
    z_N = z_among_siblings(table.reward_N.astype(np.float64), step_N, table, eps=eps, ddof=ddof)
    return as_credit(_to_go(z_N, step_N, table, gamma, mode == "mean"))


def _to_go(z_N: Float64Array, step_N: BoolArray, table: TurnTable, gamma: float, mean: bool) -> Float64Array:
    carry_N = carry(table.traj_N, gamma)
    total_N = scan_back(z_N, carry_N)
    if not mean:
        return total_N
    weight_N = scan_back(step_N.astype(np.float64), carry_N)
    # At γ=0 a turn that is not a step has no weight to divide by.
    return np.divide(total_N, weight_N, out=np.zeros_like(total_N), where=weight_N > 0)
