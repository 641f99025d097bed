"""SAG, stratified advantage gating: outcomes and open process verdicts are normalised separately, then added."""

from typing import Annotated, TypeAlias

import numpy as np
from pydantic import Field

from turngate.trainer.credit.baselines import (
    as_credit,
    cohorts,
    non_negative,
    outcomes,
    without_siblings,
    z_beyond_siblings,
    z_of,
)
from turngate.trainer.credit.cohorts import validate
from turngate.trainer.credit.pay_sources import verdicts
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Eps, Outcome, Std
from turngate.types import FloatArray, TurnTable

VerdictWeight: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        description="Weight of the turns' verdicts beside the outcome; raise it where the verdicts can be trusted.",
    ),
]
Clip: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        description="Most that a turn's verdict can add to or take from credit, in standard deviations, before weight.",
    ),
]
MinStd: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        description="Least standard deviation of verdicts to divide by, so that tiny differences between verdicts have "
        "little weight.",
    ),
]


@rule
def sag(
    table: TurnTable,
    *,
    weight: VerdictWeight = 0.5,
    clip: Clip = 2.0,
    min_std: MinStd = 0.05,
    eps: Eps = 1e-6,
    std: Std = True,
    outcome: Outcome = "settled",
) -> FloatArray:
    """SAG: the outcome against that of the siblings, plus each turn's verdict against those of their other turns.

    ``A_t = z(o) + weight · clip(z_open(p_t))``: float32[N].

    * ``z(o) = (o − mean) / (std + eps)`` of the outcome over the cohort; ``std=False`` only centres it;
    * ``z_open(p_t) = (p_t − mean) / (max(std, min_std) + eps)`` of ``process_N`` over all turns of the cohort that no
      gate closed (``open_N``) and that have a verdict; 0 for every other turn. Both stds have ddof 1.

    Before clipping the process parts of a cohort sum to 0 over those turns: an open gate alone neither raises nor
    lowers credit; credit only moves between turns with open verdicts. ``min_std`` keeps tiny differences of verdicts
    from getting full weight, and ``clip`` keeps a rare verdict from outweighing the outcome.

    Source: ours; the defaults are no paper's. https://arxiv.org/abs/2509.19199 reports that adding advantages did
    better than adding rewards. Process verdicts enter by ``process_N`` only, so o is not ``total_B``, which contains
    paid process, but ``measured["settled_B"]``, the total without it; ``outcome="earned"`` takes ``outcome_B``, which
    counts a vetoed cheat as a success (see ``outcomes``). A bad turn of a success may become negative.

    Degenerate: fewer than two open verdicts, or equal ones, give process part 0; without any verdict this is ``grpo``
    of the outcome. A cohort of one gives exactly 0. Raises ShapeError (see ``validate``; ``settled_B`` missing or not
    finite), ConfigError for a negative setting or an unknown ``outcome``.
    """
    non_negative("sag", weight=weight, clip=clip, min_std=min_std, eps=eps)
    validate(table)
    outcome_B = outcomes(table, outcome, "sag")
    outcome_N = z_beyond_siblings(outcome_B, table, eps=eps, std=std)
    process_N = table.process_N.astype(np.float64)
    process_N = z_of(process_N, verdicts(table) & ~without_siblings(table), cohorts(table), eps=eps, min_std=min_std)
    return as_credit(outcome_N + weight * np.clip(process_N, -clip, clip))
