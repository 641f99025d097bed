"""IGPO: a turn earns what it adds to the policy's belief in the right answer."""

from typing import Annotated, TypeAlias

import numpy as np
from pydantic import Field

from turngate.errors import ShapeError
from turngate.trainer.credit.baselines import as_credit, non_negative, to_go, unit_interval, z_among_siblings
from turngate.trainer.credit.cohorts import Float64Array, validate
from turngate.trainer.credit.pay_sources import column, last_turns
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Eps, Gamma
from turngate.types import FloatArray, TurnTable

GainWeight: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        description="Weight of the gain in probability of the right answer beside the outcome; lower it to 0.1 if "
        "training becomes unstable, which others report from 0.5 on.",
    ),
]


@rule(reads=("gain_N",))
def igpo(table: TurnTable, *, gamma: Gamma = 1.0, weight: GainWeight = 1.0, eps: Eps = 1e-6) -> FloatArray:
    """IGPO: each turn earns what it adds to the probability of the right answer, and the last one the episode's
    payment.

    ``A_t = Σ_{s≥t} γ^{s−t} z(r_s)``: float32[N].

    ``r_s = weight · measured["gain_N"]`` (see ``information_gain``) on every turn but the last, whose r is everything
    paid to the trajectory; its own gain is not read. ``z = (r − mean) / (std + eps)`` (ddof 1) is taken jointly over
    all these rewards of the cohort.

    Source: https://arxiv.org/abs/2510.14967; γ=1 and weight=1, its order of normalising and summing from a secondary
    description (not confirmed). Others use a weight of 0.1, and report unstable training from 0.5 on. Without
    normalisation and at γ=1 the gains telescope to a potential; the joint z breaks that and adds the same number for
    every further turn.

    Degenerate: a turn whose gain is NaN is left out of statistics and sums; without any gain and at γ=1 this is
    ``grpo``. A cohort of one gives exactly 0. Raises ShapeError (see ``validate``; ``gain_N`` missing or infinite),
    ConfigError for γ outside [0, 1] or a negative setting.
    """
    unit_interval("igpo", gamma=gamma)
    non_negative("igpo", weight=weight, eps=eps)
    validate(table)
    reward_N = weight * column(table, "gain_N", "igpo", missing=True)
    last_N = last_turns(table)
    reward_N[last_N] = table.total_B[table.traj_N[last_N]]
    z_N = z_among_siblings(reward_N, ~np.isnan(reward_N), table, eps=eps)
    return as_credit(to_go(z_N, table, gamma))


def information_gain(table: TurnTable, belief_N: Float64Array, *, log: bool = False) -> Float64Array:
    """``p_{t+1} − p_t`` for the column ``gain_N``, NaN on each last turn: float64[N].

    ``belief_N`` is the probability of the gold answer before turn t, ``exp(mean over its tokens of log π)``, taken
    without gradient. ``log`` takes differences of logarithms. NaN beliefs give NaN gains. Raises ShapeError for another
    shape than [N], an infinite belief or, with ``log``, one that is not above 0.
    """
    validate(table)
    if belief_N.shape != (table.n_turns,):
        raise ShapeError(f"belief_N has shape {belief_N.shape}, expected ({table.n_turns},)")
    bad = np.flatnonzero(np.isinf(belief_N) | (log & (belief_N <= 0)))
    if len(bad):
        where = f"trajectory {table.traj_N[bad[0]]}, turn {table.index_N[bad[0]]}"
        raise ShapeError(f"belief_N is {belief_N[bad[0]]} at {where}; it must be {'> 0' if log else 'finite'}")
    value_N = np.log(belief_N) if log else belief_N.astype(np.float64)
    gain_N = np.full(table.n_turns, np.nan)
    gain_N[:-1] = value_N[1:] - value_N[:-1]
    gain_N[last_turns(table)] = np.nan
    return gain_N
