"""Bi-level GAE: advantages from a critic, computed first over turns and then over the tokens inside each turn."""

import numpy as np

from turngate.trainer.credit.cohorts import validate
from turngate.trainer.credit.pay_sources import column, turn_of_tokens
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Gamma, Lam, TokenGamma, Whitened
from turngate.trainer.credit.token_credit import bilevel_token_gae, whiten
from turngate.types import FloatArray, TokenCredit, TurnTable


def bilevel_targets(table: TurnTable, *, gamma_turn: float = 0.95, gamma: float = 1.0, lam: float = 1.0) -> FloatArray:
    """The targets of the critic, ``A_j + V_j`` before whitening, one per policy token: float32[S].

    At γ = λ = 1 every token of a turn has the same target, the return of the turn.
    """
    advantage_S = _advantage(table, gamma_turn, gamma, lam)
    return (advantage_S + column(table, "value_S", "bilevel_gae")).astype(np.float32)


@rule(reads=("value_S", "bootstrap_B"), value_targets=bilevel_targets)
def bilevel_gae(
    table: TurnTable, *, gamma_turn: Gamma = 0.95, gamma: TokenGamma = 1.0, lam: Lam = 1.0, whitened: Whitened = False
) -> TokenCredit:
    """VAGEN: advantages from a critic (GAE), first from turn to turn, then from token to token inside each turn.

    One number per policy token (see ``bilevel_token_gae``). Turns: ``A^h_t = δ_t + γ_turn λ A^h_{t+1}`` with V at the
    *last* policy token of a turn; inside a turn the last token gets ``A^h_t``, the others ``A_j = γ V_{j+1} − V_j + γλ
    A_{j+1}``. Reads ``measured["value_S"]`` (the critic's value of the state before each policy token), ``turn_S``, and
    ``bootstrap_B`` if that is there (value after the last turn of a truncated episode). ``whitened`` moves and scales
    the result to mean 0 and variance 1 over all policy tokens of the batch.

    Source: VAGEN, https://arxiv.org/abs/2510.16907, whose scripts use γ_turn = 0.95 and λ 0.95–1 and whiten. The reward
    of a turn without policy tokens is added to the turn before it. Turns of one token make it ``turn_gae`` with γ_turn.
    Raises ShapeError (see ``validate``; a column that is missing or not finite), ConfigError for a discount outside [0,
    1].
    """
    advantage_S = _advantage(table, gamma_turn, gamma, lam)
    if whitened:
        advantage_S = whiten(advantage_S.astype(np.float64), np.ones(len(advantage_S))).astype(np.float32)
    return TokenCredit(advantage_S=advantage_S, turn_S=turn_of_tokens(table, "bilevel_gae").astype(np.int32))


def _advantage(table: TurnTable, gamma_turn: float, gamma: float, lam: float) -> FloatArray:
    validate(table)
    turn_S = turn_of_tokens(table, "bilevel_gae")
    bootstrap_B = column(table, "bootstrap_B", "bilevel_gae") if "bootstrap_B" in table.measured else None
    return bilevel_token_gae(
        table.reward_N,
        table.traj_N,
        column(table, "value_S", "bilevel_gae").astype(np.float32),
        turn_S.astype(np.int32),
        gamma_turn=gamma_turn,
        gamma=gamma,
        lam=lam,
        bootstrap_B=None if bootstrap_B is None else bootstrap_B.astype(np.float32),
    )
