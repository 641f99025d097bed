"""GAE over turns: advantages from a critic's values of the state before each turn."""

import numpy as np

from turngate.trainer.credit.cohorts import Float64Array, validate
from turngate.trainer.credit.pay_sources import column, tokens
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.scans import gae
from turngate.trainer.credit.settings import Gamma, Lam, Whitened
from turngate.trainer.credit.token_credit import check_discounts, whiten
from turngate.types import FloatArray, TurnTable


def value_targets(table: TurnTable, *, gamma: float = 0.99, lam: float = 0.9) -> FloatArray:
    """The targets of ``turn_gae``'s critic, ``A_t + V_t`` before whitening, one per turn: float32[N]."""
    advantage_N = _advantage(table, gamma, lam)
    return (advantage_N + column(table, "value_N", "turn_gae")).astype(np.float32)


@rule(reads=("value_N", "bootstrap_B"), value_targets=value_targets)
def turn_gae(table: TurnTable, *, gamma: Gamma = 0.99, lam: Lam = 0.9, whitened: Whitened = False) -> FloatArray:
    """Turn-PPO: advantages from a critic (GAE), from turn to turn.

    ``A_t = δ_t + γλ A_{t+1}``, ``δ_t = r_t + γ V_{t+1} − V_t``, one step per turn: float32[N].

    V is ``measured["value_N"]``, the critic's value before each turn. After the last turn it is
    ``measured["bootstrap_B"]`` if that is there (the value of the state in which a truncated episode stopped, 0 for a
    finished one), else 0. ``whitened`` moves and scales the result to mean 0 and variance 1 over all policy tokens of
    the batch (reads ``measured["tokens_N"]``), in which long turns weigh more; a batch without differences then gets 0.

    Source: Turn-PPO, https://arxiv.org/abs/2512.17008, γ=0.99 and λ=0.9 from there. Siblings are not compared, so a
    cohort of one is as good as any. With V=0 and λ=1 it is ``returns(baseline="none")``; with one turn it is ``r − V``.
    The gradient is unbiased for γ=λ=1 and any V that is a function of the state, where no later action changes what a
    turn was paid (not with gates that open on the outcome; ``Rubric.book_last`` repairs that). Raises ShapeError (see
    ``validate``), also without ``value_N``, ConfigError for γ or λ outside [0, 1].
    """
    advantage_N = _advantage(table, gamma, lam)
    if whitened:
        advantage_N = whiten(advantage_N, tokens(table, "turn_gae"))
    return advantage_N.astype(np.float32)


def _advantage(table: TurnTable, gamma: float, lam: float) -> Float64Array:
    check_discounts(gamma=gamma, lam=lam)
    validate(table)
    value_N = column(table, "value_N", "turn_gae")
    bootstrap_B = np.zeros(table.n_trajectories)
    if "bootstrap_B" in table.measured:
        bootstrap_B = column(table, "bootstrap_B", "turn_gae")
    reward_N = table.reward_N.astype(np.float64)
    return gae(reward_N, value_N, table.traj_N, gamma=gamma, lam=lam, bootstrap_M=bootstrap_B[table.traj_N])
