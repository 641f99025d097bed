"""Who claims to be unbiased is; who is biased is caught."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.credit_lab.estimators import ESTIMATORS, Estimator, find, per_index_centring
from benchmarks.credit_lab.measure import bound, expected_gradient, measure, sample
from benchmarks.credit_lab.paths import comparison_policy, enumerate_paths, gradient
from benchmarks.credit_lab.processes import all_processes
from turngate.rewards.gates.whole_kinds import needs_outcome
from turngate.rewards.rubric import FromEvidence, Rubric
from turngate.trainer.credit.returns import returns
from turngate.trainer.credit.rloo import rloo
from turngate.types import Ending, Evidence, Record

PATHS = {process.name: enumerate_paths(process) for process in all_processes()}
BY_LABEL = {estimator.label: estimator for estimator in ESTIMATORS}
CLAIMED = [(name, one.label) for name, paths in PATHS.items() for one in ESTIMATORS if one.claims_on(paths.process)]
TRAJECTORIES = 20_000


def policy_of(name):
    return comparison_policy(PATHS[name].process, PATHS[name].shape)


def exact(name):
    return gradient(PATHS[name], policy_of(name), PATHS[name].total_P)


@pytest.fixture(scope="module")
def drawn():
    return {
        name: sample(paths, policy_of(name), trajectories=TRAJECTORIES, siblings=8, forked=False, seed=11)
        for name, paths in PATHS.items()
    }


# --- the stopping number, by hand ------------------------------------------------------------------------------------


def test_resume_is_worth_an_eighth_and_centring_per_index_sees_nothing():
    """π(go on) = ½ and a further turn pays ½ on average: ∂J/∂logit = ½ · ½ · ½ = 0.125; the control's mean is 0."""
    paths, policy = PATHS["stopping"], policy_of("stopping")
    go_on = (paths.observations.index("door"), 0)
    assert gradient(paths, policy, paths.total_P)[go_on] == pytest.approx(0.125, abs=1e-12)
    assert expected_gradient(per_index_centring, paths, policy)[go_on] == pytest.approx(0.0, abs=1e-7)
    assert expected_gradient(find("mt_grpo.mt_grpo"), paths, policy)[go_on] == pytest.approx(0.0, abs=1e-7)
    assert expected_gradient(returns, paths, policy)[go_on] == pytest.approx(0.125, abs=1e-7)


def test_centring_per_index_is_wrong_by_what_a_further_turn_pays(drawn):
    paths = PATHS["stopping"]
    control = BY_LABEL["control: centred per index"]
    bias = measure(control, paths, policy_of("stopping"), drawn["stopping"], 8).bias
    go_on = paths.observations.index("door") * 2
    assert bias.bias_X[go_on] == pytest.approx(-0.125, abs=4 * bias.error_X[go_on])


# --- exactly, in cohorts of two --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "label"), CLAIMED)
def test_the_mean_over_all_cohorts_of_two_is_the_exact_gradient(name, label):
    one = BY_LABEL[label]
    found_OA = expected_gradient(one.credit, PATHS[name], policy_of(name), one.columns)
    factor = 0.5 if one.claims == "direction" else 1.0  # centring by a mean that includes oneself: (n − 1)/n
    np.testing.assert_allclose(found_OA, factor * exact(name), atol=3e-7)


def test_the_mean_over_all_cohorts_of_two_agrees_with_a_plain_double_loop():
    paths, policy = PATHS["noisy"], policy_of("noisy")
    chance_P = np.exp(paths.log_chance_P + paths.counts_PX @ np.log(_softmax(policy)).ravel())
    expected_X = np.zeros(paths.counts_PX.shape[1])
    for i, first in enumerate(paths.total_P):
        for j, second in enumerate(paths.total_P):
            gap = (first - second) / 2  # centred reward of the first; the second has minus that
            expected_X += chance_P[i] * chance_P[j] * gap * (paths.counts_PX[i] - paths.counts_PX[j]) / 2
    expected_OA = expected_X.reshape(paths.shape)
    expected_OA = expected_OA - _softmax(policy) * expected_OA.sum(1, keepdims=True)
    np.testing.assert_allclose(expected_gradient(find("dr_grpo.dr_grpo"), paths, policy), expected_OA, atol=1e-7)


def _softmax(logits_OA):
    odds_OA = np.exp(logits_OA)
    return odds_OA / odds_OA.sum(1, keepdims=True)


# --- by sampling, in cohorts of eight --------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "label"), CLAIMED)
def test_claims_hold_within_sampling_error(drawn, name, label):
    one = BY_LABEL[label]
    bias = measure(one, PATHS[name], policy_of(name), drawn[name], 8).bias
    comparisons = sum(PATHS[name].counts_PX.shape[1] for name, _ in CLAIMED)
    assert (bias.bend_z if one.claims == "direction" else bias.z) <= bound(comparisons)
    if one.claims == "direction":
        assert bias.scale == pytest.approx(7 / 8, abs=0.15)


@pytest.mark.parametrize("label", ["grpo", "gigpo", "returns γ=.9", "control: centred per index"])
def test_bias_by_design_is_caught(drawn, label):
    found = [measure(BY_LABEL[label], PATHS[name], policy_of(name), drawn[name], 8).bias.z for name in PATHS]
    assert max(found) > 15


def test_a_deliberate_error_is_caught(drawn):
    """Advantages a tenth too large on first turns that chose the first action; exactly, a thousandth is enough."""
    name = "delayed"
    paths, policy = PATHS[name], policy_of(name)
    honest = measure(BY_LABEL["rloo"], paths, policy, drawn[name], 8).bias
    wrong = measure(Shifted(label="shifted", method="", columns=("logratio_N",)), paths, policy, drawn[name], 8).bias
    assert honest.z < 3
    assert wrong.z > bound(8)

    def shifted(turns):
        return rloo(turns) + 0.001 * (turns.index_N == 0) * (turns.measured["logratio_N"] > 0)

    found_OA = expected_gradient(shifted, paths, policy, ["logratio_N"])
    assert np.abs(found_OA - exact(name)).max() > 1e-4


class Shifted(Estimator):
    def credit(self, turns):
        return rloo(turns) + np.float32(0.1) * (turns.index_N == 0) * (turns.measured["logratio_N"] > 0)


# --- payments that a later turn decides ------------------------------------------------------------------------------


def test_reward_to_go_is_biased_where_a_gate_opens_at_the_end():
    """What a first turn was paid depends on later turns here, and reward-to-go of the later turns leaves it out."""
    exact_OA = exact("gated")
    whole_OA = expected_gradient(rloo, PATHS["gated"], policy_of("gated"))
    to_go_OA = expected_gradient(returns, PATHS["gated"], policy_of("gated"))
    np.testing.assert_allclose(whole_OA, exact_OA, atol=3e-7)
    assert np.linalg.norm(to_go_OA - exact_OA) > 0.25 * np.linalg.norm(exact_OA)


BOOKED = enumerate_paths(replace(PATHS["gated"].process, book_last=True))
CAUSAL = [one for one in ESTIMATORS if one.claims == "causal gradient"]


@pytest.mark.parametrize("one", CAUSAL, ids=lambda one: one.label)
def test_booking_gated_payments_on_the_last_turn_repairs_it(one):
    """``Rubric.book_last``: the same is paid in all, and credit from reward-to-go is the exact gradient again."""
    np.testing.assert_allclose(BOOKED.total_P, PATHS["gated"].total_P)
    assert one.claims_on(BOOKED.process)
    assert not one.claims_on(PATHS["gated"].process)
    repaired_OA = expected_gradient(one.credit, BOOKED, policy_of("gated"), one.columns)
    np.testing.assert_allclose(repaired_OA, exact("gated"), atol=3e-7)


def test_the_laboratory_books_as_the_rubric_does():
    """Every episode of the gated process as evidence: the rubric puts on each turn what the laboratory does."""
    process = BOOKED.process
    rewards = (
        FromEvidence(name="done", evidence="done", kind="outcome"),
        FromEvidence(name="praise", evidence="praise", weight=process.process_weight, per_turn=True, agg="sum"),
    )
    for paths, book_last in ((BOOKED, True), (PATHS["gated"], False)):
        rubric = Rubric(rewards=rewards, gates=(needs_outcome(1.0),), book_last=book_last)
        for row, length in enumerate(paths.length_P):
            praise = enumerate(paths.process_PT[row, :length].tolist())
            facts = [Evidence(name="praise", value=value, turn=turn) for turn, value in praise]
            facts.append(Evidence(name="done", value=paths.outcome_P[row]))
            record = Record(task_id="t", n_turns=int(length), ending=Ending.FINISHED, evidence=tuple(facts))
            np.testing.assert_allclose(rubric.score(record).reward_T, paths.reward_PT[row, :length], atol=1e-6)


# --- shaping ---------------------------------------------------------------------------------------------------------


def shaped(turns, least=-np.inf):
    """Payments plus ``Φ(next) − Φ(here)`` for a potential by state, 0 at the end; ``least`` cuts the second part."""
    last_N = np.append(turns.traj_N[1:] != turns.traj_N[:-1], True)
    here_N = np.array([0.2, 0.9, 0.4])[turns.state_N]
    step_N = np.where(last_N, 0.0, np.append(here_N[1:], 0.0)) - here_N
    return replace(turns, reward_N=(turns.reward_N + np.maximum(step_N, least)).astype(np.float32))


@pytest.mark.parametrize("baseline", ["rloo", "none"])
def test_a_potential_is_a_baseline_until_it_is_clipped(baseline):
    paths, policy = PATHS["key-door"], policy_of("key-door")

    def gradient_of(least):
        return expected_gradient(lambda turns: returns(shaped(turns, least), baseline=baseline), paths, policy)

    np.testing.assert_allclose(gradient_of(-np.inf), exact("key-door"), atol=3e-7)
    assert np.linalg.norm(gradient_of(0.0) - exact("key-door")) > 0.5 * np.linalg.norm(exact("key-door"))
