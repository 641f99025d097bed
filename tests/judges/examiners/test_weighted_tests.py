"""Weights of hidden tests: the published numbers through rubric and credit, what is remembered, what is missing."""

from dataclasses import replace

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from tests.helpers import examine_kit
from turngate.judges.examiners.base import Examiner
from turngate.judges.examiners.weighted_tests import WeightedTests
from turngate.rewards import FromEvidence, Rubric, UnitTests
from turngate.trainer.batch.table import tabulate
from turngate.trainer.credit.grpo import grpo
from turngate.types import Ending

NAMES = ("easy", "middle", "hard")


def results(*rows):
    """Recorded results per attempt: "110" passes the first two tests, "?" could not be measured."""
    return [dict(zip(NAMES, [{"1": True, "0": False, "?": None}[c] for c in row], strict=False)) for row in rows]


def attempts(*rows, name="task"):
    return examine_kit.told(
        examine_kit.group(examine_kit.episodes(*[2] * len(rows)), name=name), fail_to_pass=results(*rows)
    )


def find(examiner, group, at=None):
    return examine_kit.examine(examiner, [group], at or examine_kit.context())[0]


def scores(facts, name="test_score"):
    return [found.get(None, "none") for found in examine_kit.values(facts, name)]


PUBLISHED = ("111", "110", "100", "100")


# --- published numbers -----------------------------------------------------------------------------------------------


def test_a_test_weighs_more_the_fewer_pass_it():
    facts = find(WeightedTests(), attempts(*PUBLISHED))
    assert scores(facts) == pytest.approx([1, 0.4, 0, 0])
    assert scores(facts, "test_score_weights")[2] == pytest.approx({"easy": 0, "middle": 0.4, "hard": 0.6})
    assert scores(find(WeightedTests(add_outcome=True), attempts(*PUBLISHED))) == pytest.approx([2, 0.4, 0, 0])


@pytest.mark.parametrize(
    ("examiner", "rewards"),
    [
        (
            {"add_outcome": True},
            (FromEvidence(name="tests", evidence="test_score", kind="outcome", high=2.0),),
        ),
        (
            {},
            (UnitTests(name="all"), FromEvidence(name="tests", evidence="test_score")),
        ),
    ],
)
def test_from_facts_to_credit(examiner, rewards):
    """R = Σ w·passed + 1[all] = [2, .4, 0, 0], as one outcome and as an outcome with the score beside it."""
    group = attempts(*PUBLISHED)
    facts = find(Examiner.load({"type": "test_weights", **examiner}), group)
    scored = Rubric(rewards=rewards).score_group(examine_kit.with_facts(group, facts))
    assert [score.total for score in scored.scores] == pytest.approx([2, 0.4, 0, 0])
    credit = grpo(tabulate([scored]), eps=0)
    np.testing.assert_allclose(credit[::2], [1.470294, -0.210042, -0.630126, -0.630126], atol=1e-6)
    plain = Rubric(rewards=(UnitTests(name="all"),)).score_group(group)
    np.testing.assert_allclose(grpo(tabulate([plain]), eps=0)[::2], [1.5, -0.5, -0.5, -0.5], atol=1e-6)


# --- what is remembered ----------------------------------------------------------------------------------------------


def test_pass_rates_are_smoothed_over_the_steps_of_a_task():
    at, examiner = examine_kit.context(), WeightedTests(keep=0.5)
    find(examiner, attempts(*PUBLISHED), at)
    assert at.memory == {"task": {"easy": 1.0, "middle": 0.5, "hard": 0.25}}
    facts = find(examiner, attempts("110", "110"), at)  # rates 1, 1, 0 beside the old ones: 1, .75, .125
    assert at.memory == {"task": {"easy": 1.0, "middle": 0.75, "hard": 0.125}}
    assert scores(facts) == pytest.approx([0.25 / 1.125] * 2)
    assert scores(find(examiner, attempts("110", "110", name="other"), at)) == pytest.approx([0, 0])
    assert at.memory["task"] == {"easy": 1.0, "middle": 0.75, "hard": 0.125}
    find(examiner, attempts("?11"), at)
    assert at.memory["task"] == {"easy": 1.0, "middle": 0.875, "hard": 0.5625}


def test_without_memory_only_siblings_count():
    at = examine_kit.context()
    find(WeightedTests(keep=0), attempts(*PUBLISHED), at)
    assert at.memory == {}


# --- what is missing -------------------------------------------------------------------------------------------------


def test_where_all_pass_everything_the_score_is_missing_unless_a_floor_is_set():
    assert scores(find(WeightedTests(), attempts("111", "111"))) == [None, None]
    assert scores(find(WeightedTests(), attempts("111", "111")), "test_score_weights") == [None, None]
    assert scores(find(WeightedTests(floor=0.1), attempts("111", "111"))) == pytest.approx([1, 1])
    assert scores(find(WeightedTests(floor=0.1, add_outcome=True), attempts("111", "111"))) == pytest.approx([2, 2])


def test_what_was_not_measured_is_missing_and_what_did_not_run_is_not_passed():
    group = attempts("111", "1?0", "?10", "1")  # the last one deleted two tests
    facts = find(WeightedTests(), group)
    rates = {"easy": 1.0, "middle": 2 / 3, "hard": 0.25}
    weight = {name: (1 - rate) / (1 / 3 + 3 / 4) for name, rate in rates.items()}
    assert scores(facts, "test_score_weights")[0] == pytest.approx(weight)
    assert scores(facts) == [pytest.approx(1), None, pytest.approx(weight["middle"]), 0]
    assert scores(find(WeightedTests(add_outcome=True), group)) == [pytest.approx(2), None, None, 0]


def test_an_episode_that_broke_or_was_not_tested_has_no_score_and_counts_nowhere():
    group = attempts("111", "110", "100")
    first, second, third = group.trajectories
    group = replace(group, trajectories=(first, replace(second, ending=Ending.ENV_ERROR), replace(third, evidence=())))
    assert scores(find(WeightedTests(floor=0.5), group)) == [pytest.approx(1), "none", "none"]
    assert scores(find(WeightedTests(), replace(group, trajectories=group.trajectories[1:]))) == ["none", "none"]


def test_results_of_another_form():
    group = examine_kit.told(examine_kit.group(examine_kit.episodes(1)), fail_to_pass=[{"a": 0.5}])
    with pytest.raises(ValueError, match="'task0' must map tests to true, false or null"):
        find(WeightedTests(), group)


@pytest.mark.parametrize(("settings", "problem"), [({"keep": 1}, "less than 1"), ({"floor": -1}, "greater than")])
def test_settings_that_cannot_work(settings, problem):
    with pytest.raises(ValidationError, match=problem):
        TypeAdapter(Examiner).validate_python({"type": "test_weights", **settings})
