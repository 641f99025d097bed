"""Process rewards and costs per turn. Worked numbers: ddof 1, eps 0 unless stated."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError, ShapeError
from turngate.rewards.columns import suffix_sum
from turngate.rewards.process import (
    Tag,
    capo,
    capo_advantage,
    capo_votes,
    charged,
    cost_among_successes,
    igpo_rewards,
    information_gain,
    overlong,
    repeats,
    rlvmr,
    rlvmr_rewards,
    void_mask,
)
from turngate.rewards.statistics import z_scores

NAN = math.nan
EXACT: dict[str, Any] = {"eps": 0.0, "ddof": 1}
quick = settings(max_examples=25, deadline=None)


def near(expected: Any, tolerance: float = 1e-5) -> Any:
    return pytest.approx(expected, abs=tolerance, rel=0, nan_ok=True)


# --- CAPO ------------------------------------------------------------------------------------------------------------


def test_capo_votes_worked_numbers():
    bad = [[0, 0, 1], [1, 1, 1], [0, 1, 0]]  # turns × critiques {2}, {2, 3}, {1, 2}
    assert capo_votes(bad).tolist() == [0, 1, 0]
    assert capo_votes(bad, mode="intersection").tolist() == [0, 1, 0]
    assert capo_votes(bad, mode="average").tolist() == near([1 / 3, 1, 1 / 3])


def test_capo_invalid_critiques_have_no_vote():
    bad = [[NAN, 1, NAN], [NAN, 1, 0], [NAN, NAN, NAN]]
    assert capo_votes(bad).tolist() == near([1, 0, NAN])  # a tie is no majority
    assert capo_votes(bad, mode="intersection").tolist() == near([1, 0, NAN])
    assert capo_votes(bad, mode="average").tolist() == near([1, 0.5, NAN])


def test_capo_worked_numbers():
    assert capo([0, 1, 0, 0, 1, 0], [1, 0], [0, 0, 0, 1, 1, 1]).tolist() == [2, 1, 2, 0, -1, 0]
    assert capo([NAN, 0.5], [1], [0, 0]).tolist() == [2, 1.5]


@quick
@given(st.lists(st.floats(0, 1), min_size=2, max_size=10))
def test_capo_a_wrong_step_of_a_success_beats_any_step_of_a_failure(bad: list[float]):
    n = len(bad)
    reward = capo(bad + bad, [1, 0], [0] * n + [1] * n)
    assert reward[:n].min() > reward[n:].max()


def test_capo_advantage_is_over_tokens():
    reward, tokens = np.array([2.0, 1.0, 0.0, -1.0]), np.array([3, 1, 2, 4])
    repeated = np.repeat(reward, tokens)
    expected = (reward - repeated.mean()) / repeated.std(ddof=1)
    assert capo_advantage(reward, tokens, [0, 0, 1, 1], [0, 0], **EXACT).tolist() == near(expected.tolist())
    assert capo_advantage([2.0, 2.0], [5, 5], [0, 1], [0, 0]).tolist() == [0.0, 0.0]
    apart = capo_advantage([2.0, 1.0, 5.0, 5.0], [1] * 4, [0, 0, 1, 1], [0, 1], **EXACT)
    assert apart.tolist() == near([0.707107, -0.707107, 0.0, 0.0])


# --- RLVMR -----------------------------------------------------------------------------------------------------------


def test_rlvmr_rewards_are_checked_against_what_the_step_did():
    steps = [  # tag, repeated, valid, changed → reward, in a success
        (Tag.REFLECTION, 0, 1, 1, 0.0),  # nothing to reflect on yet
        (Tag.PLANNING, 0, 1, 1, 1.0),
        (Tag.EXPLORE, 0, 1, 1, 1.0),
        (Tag.EXPLORE, 1, 1, 0, 0.0),  # a repeat
        (Tag.EXPLORE, 0, 0, 1, 0.0),  # not valid: earns nothing
        (Tag.REFLECTION, 0, 1, 1, 1.0),
        (Tag.REFLECTION, 0, 1, 1, 0.0),  # the step before was fine
        (Tag.NONE, 0, 0, 1, 0.0),
        (Tag.REFLECTION, 1, 1, 0, 0.0),  # the action did not change
        (Tag.MONITOR, 0, 1, 1, 0.0),
        (Tag.MALFORMED, 0, 0, 1, -0.1),
    ]
    tag, repeated, valid, changed, expected = zip(*steps, strict=True)
    traj = [0] * len(steps)
    assert rlvmr_rewards(tag, [1], repeated, valid, changed, traj).tolist() == near(list(expected))
    failed = rlvmr_rewards(tag, [0], repeated, valid, changed, traj)
    assert failed[1] == 0.0


def test_rlvmr_a_step_does_not_reflect_on_another_episode():
    assert rlvmr_rewards([4, 2], [0, 0], [0, 0], [0, 1], [1, 1], [0, 1]).tolist() == [0.0, 0.0]


RLVMR: dict[str, Any] = {
    "reward_N": [1, 1, 0, 0, 0],
    "tag_N": [1] * 5,
    "outcome_B": [1, 0, 0, 0],
    "traj_N": [0, 1, 1, 2, 3],
    "cohort_B": [0] * 4,
}


def test_rlvmr_worked_numbers():
    assert z_scores(RLVMR["reward_N"], [0] * 5, **EXACT)[0] == near(1.095445)
    assert rlvmr(**RLVMR, **EXACT)[0] == near(1.297723)
    assert rlvmr(**RLVMR, alpha=1.0, form="code", **EXACT)[0] == near(2.595445)


def test_rlvmr_a_tag_seen_once_gives_nothing():
    lone = rlvmr(**(RLVMR | {"tag_N": [0, 1, 1, 1, 1]}), **EXACT)
    assert lone[0] == near(0.5 * 1.5)


def test_rlvmr_compares_within_cohort_and_tag():
    tags = [1, 1, 0, 0, 1, 1]
    reward, traj, cohort = [1, 0, 1, 0, 5, 3], [0, 0, 1, 1, 2, 2], [0, 0, 1]
    term = rlvmr(reward, tags, [0, 0, 0], traj, cohort, alpha=0.0, **EXACT)
    assert term.tolist() == near([0.707107, -0.707107] * 3)


def test_rlvmr_malformed_and_untagged_steps_share_a_pool():
    term = rlvmr([-0.1, 0.0], [Tag.MALFORMED, Tag.NONE], [0], [0, 0], [0], alpha=0.0, **EXACT)
    assert term.tolist() == near([-0.707107, 0.707107])


def test_rlvmr_becomes_grpo_on_the_outcome():
    expected = z_scores([1, 0, 0, 0], [0] * 4, **EXACT)[[0, 1, 1, 2, 3]].tolist()
    assert rlvmr(**RLVMR, alpha=1.0, **EXACT).tolist() == near(expected)
    assert rlvmr(**RLVMR, alpha=0.0, form="code", **EXACT).tolist() == near(expected)
    assert rlvmr(**(RLVMR | {"reward_N": [NAN] * 5}), alpha=1.0, **EXACT).tolist() == near(expected)


# --- IGPO ------------------------------------------------------------------------------------------------------------


def test_igpo_worked_numbers():
    start, after, traj = np.log([0.1, 0.05]), np.log([0.3, 0.25, 0.9, 0.1, 0.9]), np.array([0, 0, 0, 1, 1])
    gain = information_gain(after, start, traj)
    assert gain.tolist() == near([0.2, -0.05, NAN, 0.05, NAN])
    reward = igpo_rewards(gain, [1, 0], traj)
    assert reward.tolist() == near([0.2, -0.05, 1.0, 0.05, 0.0])
    assert suffix_sum(reward, traj)[:3].tolist() == near([1.15, 0.95, 1.0])
    assert (reward.mean(), reward.std(ddof=1)) == near((0.24, 0.435029))
    z = z_scores(reward, [0] * 5, **EXACT)
    assert z.tolist() == near([-0.091948, -0.666623, 1.747011, -0.436753, -0.551688])
    assert suffix_sum(z, traj).tolist() == near([0.988440, 1.080388, 1.747011, -0.988440, -0.551688])


def test_igpo_missing_beliefs_are_spanned():
    logs = np.log([0.3, NAN, 0.4, 0.9])
    assert information_gain(logs, [math.log(0.1)], [0] * 4).tolist() == near([0.2, NAN, 0.1, NAN])
    assert information_gain(logs, [NAN], [0] * 4).tolist() == near([NAN, NAN, 0.1, NAN])
    assert information_gain(logs, [math.log(0.1)], [0] * 4, form="log")[0] == near(math.log(3))


def test_igpo_one_turn_is_paid_its_outcome():
    gain = information_gain([-0.1], [-2.0], [0])
    assert igpo_rewards(gain, [0.7], [0]).tolist() == near([0.7])
    assert igpo_rewards([0.4, NAN], [1.0], [0, 0], weight=0.1).tolist() == near([0.04, 1.0])


@quick
@given(st.lists(st.one_of(st.just(NAN), st.floats(-20, 0)), min_size=1, max_size=30), st.floats(-20, 0))
def test_igpo_gains_telescope_so_length_earns_nothing(logs: list[float], start: float):
    gain = information_gain(logs, [start], [0] * len(logs))
    known = [v for v in logs[:-1] if not math.isnan(v)]
    expected = math.exp(known[-1]) - math.exp(start) if known else 0.0
    assert np.nansum(gain) == near(expected, 1e-9)
    assert abs(np.nansum(gain)) <= 1.0


# --- events ----------------------------------------------------------------------------------------------------------


def test_charged_worked_example():
    traj = [0] * 6 + [1]
    charge = charged([1, 1, 0, 1, NAN, 2, 3], traj, free=1, budget=2)
    assert charge.tolist() == near([0, 0.5, 0, 0.5, NAN, 0, 1])


amounts = st.lists(st.one_of(st.just(NAN), st.floats(0, 3)), min_size=1, max_size=12)


@quick
@given(amounts, st.floats(0, 3), st.floats(0.1, 5))
def test_charged_is_its_definition_and_bounded(row: list[float], free: float, budget: float):
    charge = charged(row, [0] * len(row), free=free, budget=budget)
    used, expected = 0.0, []
    for amount in row:
        if math.isnan(amount):
            expected.append(NAN)
            continue
        before, used = used, used + amount
        part = min(max(used - free, 0), budget) - min(max(before - free, 0), budget)
        expected.append(part / budget)
    assert charge.tolist() == near(expected, 1e-9)
    assert 0 <= np.nansum(charge) <= 1 + 1e-9


@quick
@given(amounts, amounts, st.integers(0, 12), st.floats(0, 3), st.floats(0.1, 5))
def test_spamming_and_padding_never_lower_a_charge(
    row: list[float], extra: list[float], place: int, free: float, budget: float
):
    def cost(amounts: list[float]) -> float:
        return float(np.nansum(charged(amounts, [0] * len(amounts), free=free, budget=budget)))

    longer = row[:place] + extra + row[place:]
    assert cost(longer) >= cost(row) - 1e-9
    assert cost(row + [0.0] * 50) == near(cost(row), 1e-9)


def test_repeats_are_found_per_episode_and_state():
    action, traj = [7, 8, 7, 7, -1, -1, 7], [0, 0, 0, 0, 0, 0, 1]
    assert repeats(action, traj).tolist() == [False, False, True, True, False, False, False]
    state = [1, 1, 2, 1, 1, 1, 1]
    assert repeats(action, traj, state).tolist() == [False, False, False, True, False, False, False]
    assert repeats([7, 7], [0, 0], [-1, -1]).tolist() == [False, False]
    assert repeats(np.zeros(0, np.int64), np.zeros(0, np.int64)).tolist() == []


@quick
@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 2), st.integers(0, 2)), max_size=20))
def test_repeats_is_its_definition(rows: list[tuple[int, int, int]]):
    rows = sorted(rows, key=lambda row: row[2])
    action, state, traj = (np.array([row[k] for row in rows], np.int64) for k in range(3))
    expected = [
        row[0] >= 0 and row[1] >= 0 and any(row == earlier for earlier in rows[:n]) for n, row in enumerate(rows)
    ]
    assert repeats(action, traj, state).tolist() == expected


def test_void_turns_are_masked():
    void, traj = [0, 1, NAN, 0, 0], [0, 0, 0, 1, 1]
    assert void_mask(void, traj).tolist() == [False, False, False, True, True]
    assert void_mask(void, traj, scope="turn").tolist() == [True, False, True, True, True]
    assert void_mask([], []).tolist() == []


def test_void_episodes_stay_in_the_statistics_of_their_group():
    advantage = z_scores([1, 0, 0, 1], [0] * 4, **EXACT)
    assert advantage.tolist() == near([0.866025, -0.866025, -0.866025, 0.866025])
    trained = np.where(void_mask([0, 0, 1, 0], [0, 1, 2, 3]), advantage, 0.0)
    assert trained.tolist() == near([0.866025, -0.866025, 0.0, 0.866025])


# --- lengths ---------------------------------------------------------------------------------------------------------


def test_overlong_worked_numbers():
    lengths = [0, 16384, 18432, 20480, 20481]
    assert overlong(lengths, limit=20480, buffer=4096).tolist() == near([0, 0, -0.5, -1, -1])
    assert overlong([20480 + 4096], limit=20480, buffer=4096, floor=None).tolist() == near([-2])
    assert overlong([3840], limit=4096, buffer=512).tolist() == near([-0.5])
    assert overlong([18], limit=20, buffer=5).tolist() == near([-0.6])


def test_cost_among_successes_worked_numbers():
    assert cost_among_successes([4, 6, 8], [1, 1, 1], [0] * 3).tolist() == near([0, -0.05, -0.1])
    assert cost_among_successes([4, 6, 8, 1, 99], [1, 1, 1, 0, 0], [0] * 5).tolist() == near([0, -0.05, -0.1, 0, 0])
    assert cost_among_successes([5, 9, 5, 5], [1, 0, 1, 1], [0, 0, 1, 1]).tolist() == [0] * 4
    assert cost_among_successes([], [], np.zeros(0, np.int64)).tolist() == []


@quick
@given(st.lists(st.tuples(st.integers(1, 30), st.booleans()), min_size=1, max_size=8), st.integers(1, 20), st.data())
def test_taking_longer_never_raises_ones_own_pay(rows: list[tuple[int, bool]], longer: int, data: Any):
    length, success = np.array([row[0] for row in rows]), [row[1] for row in rows]
    who = data.draw(st.integers(0, len(rows) - 1))
    stretched = length + longer * (np.arange(len(rows)) == who)
    for cost in (
        lambda x: cost_among_successes(x, success, [0] * len(rows)),
        lambda x: overlong(x, limit=20, buffer=5),
    ):
        assert cost(stretched)[who] <= cost(length)[who] + 1e-12
        assert ((cost(length) <= 0) & (cost(length) >= -1)).all()
    failed = ~np.array(success)
    assert (cost_among_successes(length, success, [0] * len(rows))[failed] == 0).all()


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: capo_votes([[0.5]]), ShapeError, r"bad_NC\[\(0, 0\)\] is 0.5"),
        (lambda: capo_votes([0.0]), ShapeError, "turns × critiques"),
        (lambda: capo_votes([[0]], mode="any"), ConfigError, "'any'"),
        (lambda: capo([0], [1], [0], w_outcome=1.0), ConfigError, "w_outcome > w_process"),
        (lambda: capo([2.0], [1], [0]), ShapeError, "at most 1"),
        (lambda: capo_advantage([NAN], [1], [0], [0]), ShapeError, "reward_N"),
        (lambda: capo_advantage([1.0], [-1], [0], [0]), ShapeError, "weight_M"),
        (lambda: rlvmr([0], [6], [0], [0], [0]), ShapeError, "there are only 6"),
        (lambda: rlvmr([0], [0], [0], [0], [0], alpha=1.5), ConfigError, "alpha is 1.5"),
        (lambda: rlvmr([0], [0], [0], [0], [0], form="yaml"), ConfigError, "'yaml'"),
        (lambda: rlvmr_rewards([0], [0], [0.5], [1], [1], [0]), ShapeError, "repeated_N"),
        (lambda: information_gain([0.1], [-1], [0]), ShapeError, r"gold_logprob_N\[0\] is 0.1"),
        (lambda: information_gain([-1], [-1], [0], form="ratio"), ConfigError, "'ratio'"),
        (lambda: igpo_rewards([0.1], [NAN], [0]), ShapeError, "outcome_B"),
        (lambda: charged([-1], [0]), ShapeError, "at least 0"),
        (lambda: charged([1], [0], budget=0), ConfigError, "budget > 0"),
        (lambda: repeats([0.5], [0]), ShapeError, "action_N must hold 1 whole numbers"),
        (lambda: void_mask([0.5], [0]), ShapeError, "void_N"),
        (lambda: void_mask([0], [0], scope="batch"), ConfigError, "'batch'"),
        (lambda: overlong([1], limit=4, buffer=5), ConfigError, "buffer ≤ limit"),
        (lambda: cost_among_successes([1], [1], [0], weight=-0.1), ConfigError, "weight is -0.1"),
        (lambda: cost_among_successes([1], [0.5], [0]), ShapeError, "binarise"),
    ],
)
def test_bad_input_raises(call: Any, error: type[Exception], words: str):
    with pytest.raises(error, match=words):
        call()
