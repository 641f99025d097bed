"""The exact quantities of the laboratory against independent ways to get them."""

import numpy as np
import pytest

from benchmarks.credit_lab.paths import (
    comparison_policy,
    conditional,
    enumerate_paths,
    expectation,
    gradient,
    log_policy,
    weights,
)
from benchmarks.credit_lab.processes import all_processes

PROCESSES = {process.name: process for process in all_processes()}


@pytest.fixture(params=PROCESSES, name="paths")
def every_process(request):
    return enumerate_paths(PROCESSES[request.param])


def some_policy(paths, seed=3):
    return np.random.default_rng(seed).normal(size=paths.shape)


def value_by_recursion(process, pi, place, state, turn, paid, outcome, worth):
    """Plain recursion over states: (expected payments, expected truth), gates settled at the end of the episode."""
    total = truth = 0.0
    for action in range(len(process.actions)):
        for edge in process.edges[state, action]:
            chance = pi[place[process.observation(state)], action] * edge.probability
            verdict = 0.0 if np.isnan(edge.process) else edge.process
            now_paid, now_outcome = paid + process.process_weight * verdict, outcome + edge.outcome
            if edge.to is None or turn + 1 == process.max_turns:
                is_open = now_outcome >= 1 or not process.gated
                total += chance * (now_outcome + (now_paid if is_open else 0.0))
                truth += chance * (worth + edge.truth)
            else:
                more = value_by_recursion(
                    process, pi, place, edge.to, turn + 1, now_paid, now_outcome, worth + edge.truth
                )
                total, truth = total + chance * more[0], truth + chance * more[1]
    return total, truth


def test_probabilities_sum_to_one(paths):
    assert weights(paths, some_policy(paths)).sum() == pytest.approx(1.0, abs=1e-12)


def test_edges_of_an_action_are_a_distribution():
    edges_of = {(name, key): edges for name, process in PROCESSES.items() for key, edges in process.edges.items()}
    total_of = {key: sum(edge.probability for edge in edges) for key, edges in edges_of.items()}
    assert {key: total for key, total in total_of.items() if total != pytest.approx(1.0, abs=1e-12)} == {}
    assert total_of


def test_expected_return_is_that_of_a_recursion_over_states(paths):
    process, logits_OA = paths.process, some_policy(paths)
    place = {name: number for number, name in enumerate(paths.observations)}
    pi = np.exp(log_policy(logits_OA))
    total = truth = 0.0
    for task, chance in process.tasks.items():
        of_task = value_by_recursion(process, pi, place, task, 0, 0.0, 0.0, 0.0)
        total, truth = total + chance * of_task[0], truth + chance * of_task[1]
    assert expectation(paths, logits_OA, paths.total_P) == pytest.approx(total, abs=1e-12)
    assert expectation(paths, logits_OA, paths.truth_P) == pytest.approx(truth, abs=1e-12)


@pytest.mark.parametrize("what", ["total_P", "truth_P", "outcome_P"])
def test_exact_gradient_is_the_finite_difference_of_the_exact_return(paths, what):
    logits_OA, value_P, step = some_policy(paths), getattr(paths, what), 1e-5
    exact_OA = gradient(paths, logits_OA, value_P)
    for place in np.ndindex(paths.shape):
        bump_OA = np.zeros(paths.shape)
        bump_OA[place] = step
        above, below = (expectation(paths, logits_OA + side * bump_OA, value_P) for side in (1, -1))
        assert exact_OA[place] == pytest.approx((above - below) / (2 * step), abs=1e-9)


def test_a_perfect_critic_is_right_about_the_start_and_is_a_martingale(paths):
    logits_OA = some_policy(paths)
    value_PT = conditional(paths, logits_OA, paths.to_go_PT)
    weight_P = weights(paths, logits_OA)
    assert weight_P @ value_PT[:, 0] == pytest.approx(expectation(paths, logits_OA, paths.total_P), abs=1e-12)
    for turn in range(value_PT.shape[1] - 1):
        here_P = paths.length_P > turn
        ahead_P = paths.reward_PT[:, turn] + value_PT[:, turn + 1]
        node_P = paths.node_PT[:, turn]
        for node in np.unique(node_P[here_P]):
            same_P = here_P & (node_P == node)
            mean = weight_P[same_P] @ ahead_P[same_P] / weight_P[same_P].sum()
            assert value_PT[same_P, turn] == pytest.approx(mean, abs=1e-12)


def test_rows_that_begin_alike_lie_together(paths):
    def beginning(row, turns):
        steps = slice(0, turns)
        task = int(np.searchsorted(paths.task_high_K, row, side="right"))
        return task, paths.action_PT[row, steps].tolist(), paths.process_PT[row, steps].tolist()

    for row in range(0, len(paths.length_P), 7):
        for turn in range(int(paths.length_P[row])):
            alike = range(paths.low_PT[row, turn], paths.high_PT[row, turn])
            assert row in alike
            assert all(str(beginning(other, turn)) == str(beginning(row, turn)) for other in alike)


def test_the_verifier_scales_the_gradient_and_leaves_its_direction():
    paths = enumerate_paths(PROCESSES["noisy"])
    logits_OA = some_policy(paths)
    seen_OA = gradient(paths, logits_OA, paths.total_P)
    np.testing.assert_allclose(seen_OA, (0.8 - 0.25) * gradient(paths, logits_OA, paths.truth_P), atol=1e-12)


def test_hacking_pays_and_the_gate_makes_it_worthless():
    farm = np.array([[0.0, 9.0, 0.0], [0.0, 0.0, 0.0]])
    honest = np.array([[9.0, 0.0, 0.0], [0.0, 0.0, 9.0]])
    free, gated = enumerate_paths(PROCESSES["hackable"]), enumerate_paths(PROCESSES["gated"])
    assert expectation(free, farm, free.total_P) > 2.4 > 1.3 > expectation(free, honest, free.total_P)
    assert expectation(gated, farm, gated.total_P) < 0.1 < 1.2 < expectation(gated, honest, gated.total_P)


def test_the_comparison_policy_is_fixed_and_uniform_where_the_number_is_worked_by_hand():
    stopping, tree = PROCESSES["stopping"], PROCESSES["tree"]
    assert not comparison_policy(stopping, (2, 2)).any()
    np.testing.assert_array_equal(comparison_policy(tree, (14, 2)), comparison_policy(tree, (14, 2)))
    assert comparison_policy(tree, (14, 2)).any()
