"""Estimators of a policy that did not play: worked numbers, and exact values of a process that can be listed."""

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.trainer.offline.chain import N_ACTIONS, N_STATES, TURNS, Chain
from turngate.errors import EstimateRefused, ShapeError
from turngate.trainer.offline.doubly_robust import doubly_robust, weighted_doubly_robust
from turngate.trainer.offline.estimates import (
    LoggedTurns,
    crossed_model,
    estimate_all,
    number_names,
    overlap_of,
    refusal,
)
from turngate.trainer.offline.fitted_q import END, fitted_linear, fitted_table
from turngate.trainer.offline.importance import (
    effective_size,
    largest_share,
    ordinary,
    per_decision,
    turn_log_ratio,
    weighted,
    weighted_per_decision,
)
from turngate.trainer.offline.marginalized import values_by_state, weights_of_turns

NAMES = (
    "ordinary",
    "weighted",
    "per decision",
    "weighted per decision",
    "doubly robust",
    "weighted doubly robust",
    "marginalized",
)
IS = (ordinary, weighted, per_decision, weighted_per_decision)


def rows(*values):
    return np.array(values, np.float64)


# --- worked numbers ---------------------------------------------------------------------------------------------------


def test_two_episodes_of_two_turns():
    log_ratio_BT, reward_BT = np.log(rows((2, 0.5), (0.5, 3))), rows((0, 1), (0, 0))
    assert ordinary(log_ratio_BT, reward_BT).value == pytest.approx(0.5)
    assert weighted(log_ratio_BT, reward_BT).value == pytest.approx(0.4)
    assert effective_size(log_ratio_BT.sum(axis=1)) == pytest.approx(1.923077, abs=1e-6)
    assert largest_share(log_ratio_BT.sum(axis=1)) == pytest.approx(0.6)
    early_BT = rows((1, 0), (0, 0))  # W_0 = 2 and 0.5: a reward of the first turn is not weighed by the second
    assert per_decision(log_ratio_BT, early_BT).value == pytest.approx(1.0)
    assert weighted_per_decision(log_ratio_BT, early_BT).value == pytest.approx(0.8)


def test_three_weights():
    log_ratio_BT, reward_BT = np.log(rows((0.5,), (1,), (2,))), rows((1,), (0,), (1,))
    assert effective_size(log_ratio_BT[:, 0]) == pytest.approx(2.333333, abs=1e-6)
    assert ordinary(log_ratio_BT, reward_BT).value == pytest.approx(0.833333, abs=1e-6)
    assert weighted(log_ratio_BT, reward_BT).value == pytest.approx(0.714286, abs=1e-6)


def test_the_doubly_robust_recursion():
    log_ratio_BT, reward_BT = np.log(rows((2, 0.5))), rows((0, 1))
    model_q_BT, model_v_BT = rows((0.6, 0.8)), rows((0.5, 0.7))
    assert doubly_robust(log_ratio_BT, reward_BT, model_q_BT, model_v_BT).value == pytest.approx(0.9)
    last = doubly_robust(log_ratio_BT[:, 1:], reward_BT[:, 1:], model_q_BT[:, 1:], model_v_BT[:, 1:])
    assert last.value == pytest.approx(0.8)


def test_the_ratio_of_a_turn_is_the_product_of_its_tokens():
    ratio_S = np.array([1.2, 0.9, 3, 1])
    assert np.exp(turn_log_ratio(np.log(ratio_S), np.zeros(4), [0, 0, 0, 0], 1)) == pytest.approx([3.24])
    two = turn_log_ratio(np.log(ratio_S), np.zeros(4), [0, 0, 2, 2], 3)
    assert np.exp(two) == pytest.approx([1.08, 1, 3])
    with pytest.raises(ShapeError, match="one entry per token"):
        turn_log_ratio(np.zeros(3), np.zeros(4), [0, 0, 0, 0], 1)


# --- exact values -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_in_expectation_all_give_the_value(seed):
    """Over every episode there is, by its probability: also with a model that is plainly wrong."""
    chain = Chain.random(seed)
    value, q_TSA, v_TS = chain.exact()
    chance_B, states_BT, actions_BT, reward_BT = chain.every_episode()
    assert chance_B.sum() == pytest.approx(1)
    log_ratio_BT = chain.log_ratio(states_BT, actions_BT)
    wrong_TSA = np.random.default_rng(seed).normal(size=q_TSA.shape)
    wrong_TS = (chain.policy_TSA * wrong_TSA).sum(axis=2)
    turns = np.arange(TURNS)
    found = [make(log_ratio_BT, reward_BT) for make in IS]
    for q, v in ((q_TSA, v_TS), (wrong_TSA, wrong_TS)):
        model = q[turns, states_BT, actions_BT], v[turns, states_BT]
        found += [make(log_ratio_BT, reward_BT, *model) for make in (doubly_robust, weighted_doubly_robust)]
    for sums in found:
        assert sums.of(chance_B @ sums.column_BC) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_the_table_and_the_line_of_fitted_q_find_q_and_v(seed):
    """From every transition there is; a line over one feature per pair is a table."""
    chain = Chain.random(seed)
    _, q_TSA, v_TS = chain.exact()
    chance_B, states_BT, actions_BT, reward_BT = chain.every_episode()
    turns = chain.logged(states_BT, actions_BT, reward_BT, np.arange(len(states_BT)))
    next_N = turns.next_of(turns.state_N)
    count_N = np.repeat(chance_B, TURNS)
    table = fitted_table(turns.state_N, turns.action_N, turns.reward_N, next_N, turns.policy_logprob_N, count_N)
    assert table.v_S == pytest.approx(v_TS.ravel())
    assert table.seen_S == pytest.approx(np.ones(TURNS * N_STATES))
    assert table.of_turns(turns.state_N, turns.action_N)[0] == pytest.approx(
        q_TSA[np.tile(np.arange(TURNS), len(states_BT)), states_BT.ravel(), actions_BT.ravel()]
    )
    n_pairs = TURNS * N_STATES * N_ACTIONS
    pair_N = turns.state_N * N_ACTIONS + turns.action_N
    policy = chain.policy_TSA.reshape(-1, N_ACTIONS)
    next_ND = np.zeros((len(pair_N), TURNS * N_STATES, N_ACTIONS))
    on = next_N != END
    next_ND[np.flatnonzero(on), next_N[on]] = policy[next_N[on]]
    scale_N = np.sqrt(count_N * len(pair_N))[:, None]
    weights = fitted_linear(
        scale_N * np.eye(n_pairs)[pair_N],
        scale_N[:, 0] * turns.reward_N,
        scale_N * next_ND.reshape(len(pair_N), -1),
        ridge=1e-13,
    )
    assert weights == pytest.approx(q_TSA.ravel(), abs=1e-6)


def test_a_policy_that_is_the_behaviour_earns_what_was_earned():
    chain = Chain.random(1)
    chain = replace(chain, policy_TSA=chain.behaviour_TSA)
    logged = chain.played(np.random.default_rng(0), tasks=40, siblings=2)
    earned = logged.rows(logged.reward_N).sum(axis=1).mean()
    for estimate in estimate_all(logged)[:4]:
        assert estimate.value == pytest.approx(earned)
    assert overlap_of(logged).effective_size == pytest.approx(80)


@pytest.mark.parametrize("seed", range(5))
def test_weighted_stays_within_what_was_earned_and_moves_with_it(seed):
    rng = np.random.default_rng(seed)
    log_ratio_BT, reward_BT = rng.normal(size=(6, 3)) * 5, rng.normal(size=(6, 3))
    total_B = reward_BT.sum(axis=1)
    value = weighted(log_ratio_BT, reward_BT).value
    assert total_B.min() <= value <= total_B.max()
    reward_BT[:, 0] += 7
    assert weighted(log_ratio_BT, reward_BT).value == pytest.approx(value + 7)


def test_with_the_right_model_and_no_chance_every_episode_has_the_value():
    """Actions lead where they lead and earn what they earn: then no sequence of actions differs from V of the start."""
    chain = Chain.random(2)
    sure_TSAS = np.zeros_like(chain.next_TSAS)
    np.put_along_axis(sure_TSAS, chain.next_TSAS.argmax(axis=3)[..., None], 1.0, axis=3)
    chain = replace(chain, next_TSAS=sure_TSAS)
    _, q_TSA, v_TS = chain.exact()
    chance_B, states_BT, actions_BT, reward_BT = chain.every_episode()
    real = chance_B > 0
    turns = np.arange(TURNS)
    for states, actions, reward in zip(states_BT[real], actions_BT[real], reward_BT[real], strict=True):
        model = q_TSA[turns, states, actions][None], v_TS[turns, states][None]
        found = doubly_robust(chain.log_ratio(states[None], actions[None]), reward[None], *model)
        assert found.value == pytest.approx(v_TS[0, states[0]])


# --- how sure ---------------------------------------------------------------------------------------------------------

DATA_SETS = 1000


@pytest.mark.timeout(900)
def test_intervals_of_95_percent_hold_the_value_in_93_to_97_percent_of_data_sets():
    """1,000 data sets of 150 tasks with two episodes each. With a true coverage of 95 % the share has a binomial
    standard deviation of 0.69 points, so a right interval is within the 2 points of the bounds in 99.6 % of seeds."""
    chain = Chain.random(3)
    value, _, _ = chain.exact()
    inside = {(name, kind): 0 for name in NAMES for kind in ("bootstrap", "normal")}
    for number in range(DATA_SETS):
        logged = chain.played(np.random.default_rng(number), tasks=150, siblings=2)
        for estimate in estimate_all(logged, seed=number, resamples=300):
            for kind in ("bootstrap", "normal"):
                low, high = getattr(estimate, kind)
                inside[estimate.name, kind] += low <= value <= high
    shares = {key: count / DATA_SETS for key, count in inside.items()}
    assert {key: share for key, share in shares.items() if not 0.93 <= share <= 0.97} == {}


def test_the_same_seed_gives_the_same_intervals():
    logged = Chain.random(3).played(np.random.default_rng(0), tasks=30, siblings=2)
    assert estimate_all(logged, seed=4) == estimate_all(logged, seed=4) != estimate_all(logged, seed=5)


def test_a_model_takes_the_noise_of_the_weights_out():
    chain = Chain.random(3)
    chain = replace(chain, reward_TSA=chain.reward_TSA.round())
    logged = chain.played(np.random.default_rng(0), tasks=200, siblings=4)
    width = {one.name: one.bootstrap[1] - one.bootstrap[0] for one in estimate_all(logged)}
    assert width["doubly robust"] < 0.8 * width["per decision"]


# --- refusals ---------------------------------------------------------------------------------------------------------


def far(logged: LoggedTurns, scale: float) -> LoggedTurns:
    return replace(logged, log_ratio_N=scale * logged.log_ratio_N)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda logged: replace(logged, task_B=np.zeros_like(logged.task_B)), "of one task"),
        (lambda logged: replace(logged, log_ratio_N=logged.log_ratio_N + 400), "not finite"),
        (lambda logged: far(logged, 12), r"are worth \d+\.\d of the policy's own, fewer than 10"),
        (
            lambda logged: replace(logged, log_ratio_N=logged.log_ratio_N - 0.2),
            r"weights average 0\.5\d+ ± 0\.\d+, not",
        ),
    ],
)
def test_weights_that_tell_nothing_are_refused_with_the_reason(change, reason):
    logged = change(Chain.random(3).played(np.random.default_rng(0), tasks=50, siblings=2))
    found = refusal(overlap_of(logged))
    assert re.search(reason, found)
    for estimate in estimate_all(logged)[:6]:
        assert estimate.value is estimate.bootstrap is estimate.normal is None
        assert estimate.reason == found


@pytest.mark.parametrize("shared", [True, False], ids=["shared states", "states of their own"])
def test_by_state_is_per_decision_where_no_episodes_meet_and_needs_fewer_where_they_do(shared):
    """Weights of whole episodes that are worth too few leave enough where many of them meet in a state."""
    chain = Chain.random(5, closeness=0.0)
    logged = far(chain.played(np.random.default_rng(0), tasks=300, siblings=1), 1.0)
    if not shared:
        logged = replace(logged, state_N=np.arange(len(logged.state_N)))
    by_name = {one.name: one for one in estimate_all(logged)}
    found, alone = by_name["marginalized"], by_name["per decision"]
    if shared:
        assert found.bootstrap[1] - found.bootstrap[0] < alone.bootstrap[1] - alone.bootstrap[0]
    else:
        assert found.value == pytest.approx(alone.value)
    next_N = logged.next_of(logged.state_N)
    weight_N = weights_of_turns(logged.state_N, next_N, logged.log_ratio_N, logged.state_N[logged.turn_N == 0])
    assert weight_N @ logged.reward_N == pytest.approx(found.value)


@pytest.mark.parametrize("seed", range(3))
def test_values_by_state_are_exact_over_all_episodes(seed):
    chain = Chain.random(seed)
    chance_B, states_BT, actions_BT, reward_BT = chain.every_episode()
    logged = chain.logged(states_BT, actions_BT, reward_BT, np.arange(len(states_BT)))
    count_RN = np.repeat(chance_B, TURNS)[None]
    next_N = logged.next_of(logged.state_N)
    (v_S,) = values_by_state(logged.state_N, logged.reward_N, next_N, logged.log_ratio_N, count_RN)
    assert v_S == pytest.approx(chain.exact()[2].ravel())


def test_what_was_never_recorded_twice_is_not_taken_for_what_the_policy_does():
    """A policy that errs once in fifty turns, each time in another way: a table of recorded actions forgets the errors
    that were not recorded, and the estimators have the rate at which they occurred."""
    rng, n = np.random.default_rng(0), 400
    wrong_B = rng.random(n) < 0.02
    logged = LoggedTurns(
        episode_N=np.arange(n),
        reward_N=1.0 - wrong_B,
        log_ratio_N=np.zeros(n),
        policy_logprob_N=np.where(wrong_B, np.log(1e-9), np.log(0.98)),
        state_N=np.arange(n) // 4,
        history_N=np.arange(n) // 4,
        action_N=np.where(wrong_B, 1 + np.arange(n), 0),
        task_B=np.arange(n) // 4,
    )
    by_name = {one.name: one for one in estimate_all(logged)}
    assert overlap_of(logged).coverage > 0.95
    for name in NAMES:
        assert by_name[name].value == pytest.approx(1 - wrong_B.mean(), abs=0.005), name
    ends_N = np.full(n, END)
    table = fitted_table(logged.state_N, logged.action_N, logged.reward_N, ends_N, logged.policy_logprob_N)
    assert table.v_S.mean() > 0.9999


def test_regressions_that_do_not_settle_are_refused():
    one = np.ones((4, 1))
    with pytest.raises(EstimateRefused, match="do not settle"):
        fitted_linear(one, np.ones(4), 2 * one)
    again = np.zeros(4, np.int64)
    with pytest.raises(EstimateRefused, match="do not settle"):
        fitted_table(again, again, np.ones(4), again, np.zeros(4))
    with pytest.raises(EstimateRefused, match="do not settle"):
        values_by_state(again, np.ones(4), again, np.zeros(4), np.ones((1, 4)))
    with pytest.raises(EstimateRefused, match="do not settle"):
        weights_of_turns(again, again, np.zeros(4), again[:1])


def test_tables_of_other_episodes_know_nothing_of_a_task_that_was_played_once():
    logged = Chain.random(3).played(np.random.default_rng(0), tasks=8, siblings=1)
    alone = replace(logged, history_N=number_names(list(range(len(logged.history_N)))))
    for column in crossed_model(alone):
        assert not column.any()


@pytest.mark.parametrize("make", IS)
def test_rows_that_do_not_fit_together_are_an_error(make):
    with pytest.raises(ShapeError, match="shape"):
        make(np.zeros((2, 3)), np.zeros((2, 2)))
