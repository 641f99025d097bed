"""Returns: the sum of payments from a turn on, the simplest credit per turn."""

import numpy as np

from turngate.errors import ConfigError
from turngate.trainer.credit.baselines import as_credit, beyond_start, turns_left
from turngate.trainer.credit.cohorts import Float64Array, validate
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Baseline, Gamma
from turngate.types import FloatArray, TurnTable


@rule
def returns(table: TurnTable, *, gamma: Gamma = 1.0, baseline: Baseline = "rloo") -> FloatArray:
    """Returns: the payments from each turn on, less the mean of the other siblings' payments.

    ``A_t = G_t − mean of the other siblings' G_0`` with ``G_t = Σ_{k≥t} γ^{k−t} r_k``: float32[N].

    At γ=1 ``G_0`` is everything paid to a sibling. One baseline for all turns of a trajectory does not depend on what
    it did, so it leaves the policy gradient unbiased; a baseline per turn index would not, because the policy decides
    which turns exist. That holds where no later action changes what a turn was paid: a gate that opens on the outcome
    does, and then ``rloo`` is the unbiased one. ``baseline="none"`` subtracts nothing.

    Becomes ``rloo`` for episodes of one turn, and for episodes paid only at the end at γ=1. Degenerate: with the
    baseline, a cohort of one gives exactly 0, and among siblings of equal ``G_0`` each is its own baseline. Raises
    ShapeError (see ``validate``), ConfigError for γ outside [0, 1] or an unknown baseline.
    """
    if baseline not in ("rloo", "none"):
        raise ConfigError(f"baseline is '{baseline}'; it must be 'rloo' or 'none'")
    validate(table)
    to_go_N = reward_to_go(table, gamma)
    if baseline == "none":
        return as_credit(to_go_N)
    return as_credit(beyond_start(to_go_N, table, table.total_B))


def reward_to_go(table: TurnTable, gamma: float) -> Float64Array:
    """``G_t = r_t + γ G_{t+1}`` inside each trajectory, in float64: float64[N].

    Computed by doubling: after k passes each turn holds the sum over the next 2^k turns, so the number of passes grows
    with the logarithm of the longest episode. Raises ConfigError for γ outside [0, 1].
    """
    if not 0.0 <= gamma <= 1.0:
        raise ConfigError(f"gamma is {gamma}; it must lie in [0, 1]")
    to_go_N = table.reward_N.astype(np.float64)
    left_N = turns_left(table)
    step, factor = 1, gamma
    while step <= left_N.max(initial=0):
        to_go_N[:-step] += np.where(left_N[:-step] >= step, factor * to_go_N[step:], 0.0)
        step, factor = 2 * step, factor * factor
    return to_go_N
