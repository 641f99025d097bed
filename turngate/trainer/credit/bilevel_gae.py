"""Bi-level GAE, brought back from tokens to turns."""

from turngate.trainer.credit.cohorts import validate
from turngate.trainer.credit.sources import column
from turngate.trainer.credit.tokens import bilevel_token_gae, turn_means
from turngate.types import FloatArray, IntArray, TurnTable


def bilevel_gae(
    table: TurnTable,
    *,
    value_S: FloatArray,
    turn_S: IntArray,
    gamma_turn: float = 0.95,
    gamma: float = 1.0,
    lam: float = 1.0,
) -> FloatArray:
    """The mean over each turn's trained tokens of ``bilevel_token_gae``: float32[N].

    ``value_S`` are the critic's values at the trained tokens of the batch, ``turn_S`` the row of ``table`` that each
    belongs to. ``measured["bootstrap_B"]``, if there, is the value after the last turn of a truncated episode. Where a
    learner takes one number per token, give it ``bilevel_token_gae`` itself: the mean forgets which token of a turn
    did better than the critic expected.

    Source: VAGEN, https://arxiv.org/abs/2510.16907. A turn without trained tokens gets 0. Turns of one token make it
    ``turn_gae(gamma=gamma_turn)``. Raises ShapeError (see ``validate``) and what ``bilevel_token_gae`` raises.
    """
    validate(table)
    bootstrap_B = column(table, "bootstrap_B", "bilevel_gae") if "bootstrap_B" in table.measured else None
    advantage_S = bilevel_token_gae(
        table.reward_N,
        table.traj_N,
        value_S,
        turn_S,
        gamma_turn=gamma_turn,
        gamma=gamma,
        lam=lam,
        bootstrap_B=None if bootstrap_B is None else bootstrap_B.astype("float32"),
    )
    return turn_means(advantage_S, turn_S, table.n_turns)
