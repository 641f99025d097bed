"""The sampler against the enumerated probabilities, and the tables that it makes."""

import numpy as np
import pytest

from benchmarks.credit_lab.draw import COLUMNS, draw, gradients, table
from benchmarks.credit_lab.measure import bound
from benchmarks.credit_lab.paths import enumerate_paths, log_policy, weights
from benchmarks.credit_lab.processes import all_processes
from turngate.errors import UnknownName
from turngate.trainer.credit.cohorts import validate

PROCESSES = {process.name: process for process in all_processes()}
ALL = sorted(COLUMNS)
COMPARISONS = 2 * 4 * sum(len(enumerate_paths(process).length_P) for process in PROCESSES.values())


def drawn_from(name, *, forked=False, cohorts=200, siblings=8, policies=1, seed=0):
    paths = enumerate_paths(PROCESSES[name])
    logits_WOA = np.random.default_rng(5).normal(size=(policies, *paths.shape))
    rngs = [np.random.default_rng([seed, policy]) for policy in range(policies)]
    return draw(paths, logits_WOA, cohorts=cohorts, siblings=siblings, rngs=rngs, forked=forked)


@pytest.mark.parametrize("name", PROCESSES)
@pytest.mark.parametrize("forked", [False, True], ids=["independent", "forked"])
def test_episodes_come_as_often_as_they_should(name, forked):
    """Each place in a cohort by itself, roots and branches: one is drawn from each of many independent cohorts."""
    cohorts = 100_000
    drawn = drawn_from(name, forked=forked, cohorts=cohorts, siblings=4)
    chance_P = weights(drawn.paths, drawn.logits_WOA[0])
    error_P = np.sqrt(cohorts * chance_P * (1 - chance_P))
    expected_P = cohorts * chance_P
    common_P = expected_P > 25  # where a count is nearly normal
    for place in range(4):
        count_P = np.bincount(drawn.path_B[place::4], minlength=len(chance_P))
        z_P = np.abs(count_P - expected_P)[common_P] / error_P[common_P]
        assert z_P.max() <= bound(COMPARISONS)
        rare = expected_P[~common_P].sum()
        assert count_P[~common_P].sum() == pytest.approx(rare, abs=5 * np.sqrt(rare) + 1e-6)


@pytest.mark.parametrize("name", PROCESSES)
@pytest.mark.parametrize("forked", [False, True], ids=["independent", "forked"])
def test_tables_are_what_estimators_expect(name, forked):
    drawn = drawn_from(name, forked=forked, policies=3)
    turns = table(drawn, ALL)
    validate(turns)
    assert turns.n_trajectories == 3 * 200 * 8
    np.testing.assert_allclose(turns.total_B, drawn.paths.total_P[drawn.path_B], atol=1e-6)
    np.testing.assert_array_equal(np.bincount(turns.cohort_B), 8)
    assert not np.isnan(turns.measured["value_N"]).any()


@pytest.mark.parametrize("name", PROCESSES)
@pytest.mark.parametrize("siblings", [7, 8])
def test_branches_share_their_first_turns_with_a_root_of_their_cohort(name, siblings):
    drawn = drawn_from(name, forked=True, cohorts=50, siblings=siblings)
    turns = table(drawn, ALL)
    branches = np.flatnonzero(drawn.parent_B >= 0)
    assert len(branches) == 50 * (siblings // 2)
    for branch in branches:
        parent, shared = drawn.parent_B[branch], drawn.branch_B[branch]
        assert turns.cohort_B[parent] == turns.cohort_B[branch]
        assert drawn.parent_B[parent] == -1
        for column in (turns.state_N, drawn.choice_N, turns.process_N):
            first, second = column[turns.traj_N == parent], column[turns.traj_N == branch]
            np.testing.assert_array_equal(first[:shared], second[:shared])


def test_a_cohort_has_one_task():
    drawn = drawn_from("tree")
    task_B = np.searchsorted(drawn.paths.task_high_K, drawn.path_B, side="right").reshape(-1, 8)
    assert (task_B == task_B[:, :1]).all()
    assert set(task_B[:, 0]) == {0, 1}


def test_a_seed_does_not_depend_on_its_neighbours():
    alone, together = drawn_from("key-door"), drawn_from("key-door", policies=3)
    np.testing.assert_array_equal(together.path_B[: len(alone.path_B)], alone.path_B)


def test_perfect_models_know_the_progress():
    drawn = drawn_from("key-door")
    turns = table(drawn, ALL)
    last_N = drawn.last_N
    progress_N = 0.05 * turns.measured["logratio_N"]
    start = weights(drawn.paths, drawn.logits_WOA[0]) @ drawn.paths.outcome_P
    summed_B = np.bincount(turns.traj_N, weights=progress_N)
    np.testing.assert_allclose(summed_B, turns.outcome_B - start, atol=1e-5)
    np.testing.assert_allclose(turns.measured["gain_N"][~last_N], progress_N[~last_N], atol=1e-6)
    assert np.isnan(turns.measured["gain_N"][last_N]).all()


def test_surprisal_is_that_of_the_owner():
    drawn = drawn_from("noisy", policies=2)
    logp_WX = log_policy(drawn.logits_WOA).reshape(2, -1)
    turns = table(drawn, ["surprisal_N"])
    for row in range(0, turns.n_turns, 97):
        owner = drawn.owner_B[turns.traj_N[row]]
        assert turns.measured["surprisal_N"][row] == pytest.approx(-logp_WX[owner, drawn.choice_N[row]], abs=1e-6)


def test_gradients_are_those_of_a_loop_over_turns():
    drawn = drawn_from("key-door", cohorts=6, siblings=2, policies=2)
    turns = table(drawn)
    advantage_N = np.random.default_rng(1).normal(size=turns.n_turns).astype(np.float32)
    found_UX = gradients(drawn, advantage_N, drawn.cohort_B)
    expected = np.zeros((12, *drawn.paths.shape))
    for row in range(turns.n_turns):
        trajectory = turns.traj_N[row]
        observation, action = divmod(int(drawn.choice_N[row]), drawn.paths.shape[1])
        pi_A = np.exp(log_policy(drawn.logits_WOA[drawn.owner_B[trajectory]]))[observation]
        grad_A = np.eye(len(pi_A))[action] - pi_A
        expected[turns.cohort_B[trajectory], observation] += advantage_N[row] * grad_A / 2
    np.testing.assert_allclose(found_UX, expected.reshape(12, -1), atol=1e-12)


def test_a_column_that_the_laboratory_cannot_measure_is_named():
    with pytest.raises(UnknownName, match=r"values_N.*value_N"):
        table(drawn_from("stopping", cohorts=1), ["values_N"])
