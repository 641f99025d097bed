"""An episode that ended before its first turn is a result: every rule counts it, and credits nothing to it.

1. Rules run with such an episode first, in the middle and last, and give one finite number per turn.
2. They give the others what they would give beside an episode of one turn without tokens, verdicts or measurements.
3. Group baselines include it, by hand.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.credit_rules import CREDITS, TOKEN_CREDITS, VALUE_TARGETS
from turngate.errors import ShapeError
from turngate.trainer.credit.control import random_reward, shuffle_between_trajectories
from turngate.trainer.credit.grpo import grpo
from turngate.trainer.credit.implicit import cross_entropy, preference
from turngate.trainer.credit.mt_grpo import mt_grpo
from turngate.trainer.credit.rloo import rloo
from turngate.trainer.credit.step_grpo import step_grpo
from turngate.types import TokenCredit, TurnTable

NAN = float("nan")
MORE = {"pass_at_k": {"k": 2}, "ngrpo": {"best": 100.0}}
VARIANTS: dict[str, Any] = {
    "mt_grpo corrected": partial(mt_grpo, mode="corrected"),
    "step_grpo mean": partial(step_grpo, mode="mean"),
    "step_grpo to_go": partial(step_grpo, mode="to_go"),
    "canon surprisal": partial(CREDITS["canon"], by="surprisal"),
    "spa without exact sums": partial(CREDITS["spa"], exact_sum=False, gamma=0.9),
    "tree_rpo by the std": partial(CREDITS["tree_rpo"], scale="sample"),
    "arpo hard": partial(CREDITS["arpo"], mode="hard"),
    "tempo acts": partial(CREDITS["tempo"], merge="action_observation"),
    "tempo recorded": partial(CREDITS["tempo"], merge="recorded"),
    "hero judged": partial(CREDITS["hero"], score="judged", spread=0.1),
}
RULES: dict[str, Any] = {
    name: partial(rule, **MORE.get(name, {})) for name, rule in (CREDITS | TOKEN_CREDITS | VARIANTS).items()
} | {f"targets of {name}": target for name, target in VALUE_TARGETS.items()}

TURN = st.tuples(st.sampled_from([0.0, 0.25, 1.0]), st.sampled_from([NAN, 0.0, 1.0]), st.booleans(), st.integers(0, 2))
EPISODE = st.tuples(
    st.integers(0, 1),  # cohort
    st.sampled_from([0.0, 0.5, 1.0]),  # outcome
    st.none() | st.lists(TURN, min_size=1, max_size=3),  # None = no turns
    st.integers(0, 3),  # a branch off the previous episode of the cohort after so many turns
)
Batch = list[tuple[int, float, list[tuple[float, float, bool, int]] | None, int]]
FILLER = (NAN, NAN, False, 0)


def tabled(batch: Batch, *, fill: bool = False, forked: bool = True) -> TurnTable:
    """The table of a batch; with ``fill`` an episode without turns has one in which nothing was said."""
    played = [turns if turns is not None or not fill else [FILLER] for *_, turns, _ in batch]
    lengths = [len(turns or ()) for turns in played]
    rows = [turn for turns in played for turn in turns or ()]
    outcome_B = np.array([outcome for _, outcome, *_ in batch], np.float32)
    traj_N = np.repeat(np.arange(len(batch), dtype=np.int32), lengths)
    real_N = np.array([not np.isnan(reward) for reward, *_ in rows])
    last_N = np.append(traj_N[1:] != traj_N[:-1], True)
    process_N = np.array([said for _, said, *_ in rows], np.float32)
    open_N = np.array([not closed for *_, closed, _ in rows])
    paid_N = np.where(open_N & last_N, np.nan_to_num(process_N), 0).astype(np.float32)
    reward_N = np.nan_to_num([reward for reward, *_ in rows]) + np.where(last_N, outcome_B[traj_N], 0) + paid_N
    tokens_N = np.array([tokens for *_, tokens in rows], np.int32)
    noise = np.random.default_rng(int(real_N.sum()))
    n_tokens, n_real = int(tokens_N.sum()), int(real_N.sum())

    def measured(filler: float) -> Any:
        column_N = np.full(len(rows), filler, np.float32)
        column_N[real_N] = noise.random(n_real)
        return column_N

    parent_B, branch_B = branches(batch) if forked else (np.full(len(batch), -1, np.int32), np.zeros(len(batch)))
    columns = {
        "unplaced_B": np.where(np.array(lengths) == 0, outcome_B, 0),
        "settled_B": outcome_B,
        "process_paid_N": paid_N,
        "tokens_N": tokens_N,
        "surprisal_N": measured(NAN),
        "logratio_N": measured(NAN),
        "gain_N": measured(NAN),
        "value_N": measured(0.0),
        "format_N": measured(0.0),
        "accuracy_N": measured(NAN),
        "confidence_N": measured(NAN),
        "tag_N": np.floor(6 * measured(NAN)),
        "said_N": np.floor(2 * measured(-1.0)).astype(np.int64),
        "act_N": np.floor(2 * measured(-1.0)).astype(np.int64),
        "paid/won_B": outcome_B,
        "paid/judged_B": np.where(outcome_B > 0, outcome_B / 2, NAN),
        "parent_B": parent_B,
        "branch_B": branch_B.astype(np.int32),
        "turn_S": np.repeat(np.arange(len(rows)), tokens_N),
        "sharing_S": np.ones(n_tokens, np.int32),
        **{name: noise.random(n_tokens) for name in ("value_S", "logratio_S", "surprisal_S")},
    }
    return TurnTable(
        reward_N=reward_N.astype(np.float32),
        process_N=process_N,
        open_N=open_N,
        traj_N=traj_N,
        index_N=np.concatenate([np.arange(length) for length in lengths]).astype(np.int32),
        state_N=np.where(real_N, np.cumsum(real_N) % 3, -1).astype(np.int64),
        outcome_B=outcome_B,
        cohort_B=np.array([cohort for cohort, *_ in batch], np.int32),
        measured=columns,
    )


def branches(batch: Batch) -> tuple[Any, Any]:
    """Who branched off whom: the previous episode of the cohort, after at most the turns that both have."""
    last: dict[int, int] = {}
    parent_B, branch_B = np.full(len(batch), -1, np.int32), np.zeros(len(batch), np.int32)
    for number, (cohort, _, turns, wanted) in enumerate(batch):
        if cohort in last and turns is not None and wanted:
            before = batch[last[cohort]][2]
            assert before is not None
            parent_B[number], branch_B[number] = last[cohort], min(wanted, len(turns), len(before))
        if turns is not None:
            last[cohort] = number
    return parent_B, branch_B


def credit(name: str, table: TurnTable) -> Any:
    found = RULES[name](table)
    return found.advantage_S if isinstance(found, TokenCredit) else found


@pytest.mark.parametrize("name", sorted(RULES))
@settings(max_examples=25)
@given(
    batch=st.lists(EPISODE, min_size=1, max_size=6),
    places=st.lists(st.integers(0, 8), min_size=1, max_size=3),
    outcome=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_it_counts_like_one_in_which_nothing_was_said(name: str, batch: Batch, places: list[int], outcome: float):
    batch = [(0, 1.0, [(0.0, 1.0, False, 2)], 0), (0, 0.0, [(0.0, 0.0, False, 1)], 0), *batch]
    for place in places:
        batch.insert(place, (0, outcome, None, 0))
    # a fork is compared with what else was tried at that place, and without a turn nothing was
    forked = name != "portool"
    without, filled = tabled(batch, forked=forked), tabled(batch, fill=True, forked=forked)
    np.testing.assert_allclose(without.total_B, filled.total_B, atol=1e-6)
    found, expected = credit(name, without), credit(name, filled)
    if len(expected) == filled.n_turns and len(found) == without.n_turns:
        played_B = np.array([turns is not None for *_, turns, _ in batch])
        expected = expected[played_B[filled.traj_N]]
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize("place", [0, 1, 3])
def test_the_baseline_of_grpo_includes_it(table_of: Any, place: int):
    """Outcomes 1, 0, 0 and 0 without a turn: (1 − ¼) / ½ = 1.5 and −0.5, as if all four had turns."""
    rows, outcome = [[0, 1], [0], [0, 0]], [1, 0, 0]
    rows.insert(place, [])
    outcome.insert(place, 0)
    table = table_of(rows, outcome=outcome)
    assert table.total_B.tolist() == outcome
    np.testing.assert_allclose(grpo(table, eps=0.0), [1.5, 1.5, -0.5, -0.5, -0.5], atol=1e-6)
    np.testing.assert_allclose(rloo(table), [1, 1, -1 / 3, -1 / 3, -1 / 3], atol=1e-6)


def test_what_it_was_paid_counts(table_of: Any):
    """Paid −1 for having done nothing: mean ⅓ of −1, 1 and 1, so the others have ⅔ / 1.154701."""
    table = table_of([[1], [], [1]], outcome=[1, -1, 1])
    np.testing.assert_allclose(grpo(table, eps=0.0), [0.577350, 0.577350], atol=1e-6)
    np.testing.assert_allclose(grpo(table, std=False), [2 / 3, 2 / 3], atol=1e-6)


def test_a_reward_model_learns_from_episodes_with_turns_only(table_of: Any):
    table = table_of([[1], [], [0]], outcome=[1, 0, 0], logratio_N=[2.0, -1.0])
    alone = table_of([[1], [0]], outcome=[1, 0], logratio_N=[2.0, -1.0])
    for loss in (cross_entropy, preference):
        value, gradient_B = loss(table)
        assert value == pytest.approx(loss(alone)[0])
        np.testing.assert_allclose(gradient_B, np.insert(loss(alone)[1], 1, 0.0))


def test_controls_leave_it_out_and_pay_it_a_coin(table_of: Any):
    table = table_of([[0, 0, 0], [], [0, 0], []])
    swapped = shuffle_between_trajectories(table, np.array([1, 2, 3, 4, 5], np.float32), seed=3)
    assert swapped.tolist() == [4, 5, 5, 1, 2]
    with pytest.raises(ShapeError, match="cannot swap advantages"):
        shuffle_between_trajectories(table_of([[0, 1], []]), np.zeros(2, np.float32), 0)
    tossed = random_reward(table_of([[5, 5], []] * 100), seed=7)
    assert tossed.total_B.tolist() == tossed.outcome_B.tolist()
    assert 30 <= tossed.outcome_B[1::2].sum() <= 70
    assert not tossed.reward_N[::2].any()


def test_a_batch_without_any_turn_is_refused(table_of: Any):
    table = table_of([[], []], outcome=[1, 0])
    with pytest.raises(ShapeError, match="the table has no turns"):
        grpo(replace(table))
