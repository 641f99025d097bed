"""An episode that had no room for its first turn has no rows: it gets no credit, and counts as a sibling."""

from typing import Any

import numpy as np
import pytest

from turngate.trainer.credit import CREDITS, TOKEN_CREDITS, VALUE_TARGETS
from turngate.trainer.credit.control import random_reward, shuffle_between_trajectories
from turngate.types import TokenCredit

ROWS = [[], [0, 1], [0.5], [], [0, 0, 0.25], []]
PLAYED = [[0], [0, 1], [0.5], [0], [0, 0, 0.25], [0]]  # the same with one turn that was paid nothing
nan = np.nan

LIKE_A_FAILURE = {
    "grpo", "rloo", "dr_grpo", "qae", "ngrpo", "maxrl", "pass_at_k", "hero", "returns", "gigpo", "sag", "step_grpo",
    "mt_grpo", "igpo", "empg", "prorag", "spa", "pure", "rlvmr", "ppr", "clip", "delta", "progress", "spae", "tempo",
    "tree_grpo", "arpo", "lambda_grpo", "prime", "istar", "reinforce_plus_plus_baseline", "opo", "rl_zvp",
}  # fmt: skip
"""Rules that compare trajectories: an episode without turns is a sibling that was paid nothing."""


def measured(table_of: Any, rows: list[list[float]], spoken: bool = False) -> Any:
    """``spoken``: the turns that stand in for none have a token each."""
    n, b = sum(map(len, rows)), len(rows)
    index = np.repeat(np.arange(b), [len(row) for row in rows])
    tokens = np.where(np.isin(index, [0, 3, 5]) & (not spoken), 0, 2)
    turn_S = np.repeat(np.arange(n), tokens)
    columns = {name: np.full(n, nan) for name in ("gain_N", "accuracy_N", "confidence_N", "tag_N", "surprisal_N")}
    return table_of(
        rows,
        tokens_N=tokens,
        logratio_N=np.zeros(n),
        said_N=np.arange(n),
        value_N=np.zeros(n),
        parent_B=np.full(b, -1),
        branch_B=np.zeros(b, np.int64),
        turn_S=turn_S,
        **columns,
        **{name: np.ones(len(turn_S)) for name in ("value_S", "logratio_S", "surprisal_S", "sharing_S")},
        **{"paid/won_B": np.array([sum(row) for row in rows])},
    )


@pytest.mark.parametrize("name", [*CREDITS, *TOKEN_CREDITS])
def test_every_rule_credits_the_others(table_of: Any, name: str):
    table = measured(table_of, ROWS)
    found = (CREDITS | TOKEN_CREDITS)[name](table, **({"k": 2} if name == "pass_at_k" else {}))
    credit_N = found.per_turn(table.n_turns) if isinstance(found, TokenCredit) else found
    assert credit_N.shape == (6,)
    assert np.isfinite(credit_N).all()


@pytest.mark.parametrize("name", sorted(LIKE_A_FAILURE))
def test_it_counts_as_a_sibling_that_was_paid_nothing(table_of: Any, name: str):
    settings = {"k": 2} if name == "pass_at_k" else {}
    found = CREDITS[name](measured(table_of, ROWS), **settings)
    played = CREDITS[name](measured(table_of, PLAYED), **settings)
    np.testing.assert_allclose(found, played[[1, 2, 3, 5, 6, 7]], atol=1e-6)
    assert np.any(found != CREDITS[name](measured(table_of, [row for row in ROWS if row]), **settings))


@pytest.mark.parametrize("name", sorted(VALUE_TARGETS))
def test_a_critic_learns_from_the_others(table_of: Any, name: str):
    assert np.isfinite(VALUE_TARGETS[name](measured(table_of, ROWS))).all()


def test_controls_leave_it_out(table_of: Any):
    table = measured(table_of, ROWS)
    shuffled = shuffle_between_trajectories(table, np.arange(1, 7, dtype=np.float32), seed=3)
    assert shuffled[0] not in (1, 2)
    assert set(shuffled.tolist()) <= set(range(1, 7))
    coins = random_reward(table, seed=1)
    assert set(coins.reward_N[[1, 2, 5]].tolist()) <= {0.0, 1.0}
    np.testing.assert_array_equal(coins.reward_N[[1, 2, 5]], coins.outcome_B[[1, 2, 4]])
    assert not coins.reward_N[[0, 3, 4]].any()
