"""Monitors over episodes that broke: how many, of which task, and whether hard tasks break more often."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.scores import alarm_of, episode, group
from tests.rewards.monitors.facts import course
from turngate.rewards.monitors.broken import (
    agent_fault_share,
    faults_with_failure,
    median_test,
    rank_correlation,
    silenced,
    unusable_share,
    unusable_task,
    unusable_with_failure,
)
from turngate.rewards.monitors.step_facts import EndingCount, measure, tallies
from turngate.rewards.no_verdict import SILENCED
from turngate.types import FAULT, Ending, Evidence


def played(task, *, good=0, bad=0, unusable=0, faults=0):
    """A group of one task: successes, failures, unusable episodes, episodes that the agent broke."""
    kinds = [*[(1.0, True)] * good, *[(0.0, True)] * bad, *[(None, False)] * unusable, *[(0.0, True)] * faults]
    episodes = []
    for number, (outcome, usable) in enumerate(kinds):
        trajectory, score = episode(f"{task}#{number}", outcome=outcome, usable=usable)
        trajectory = replace(trajectory, task=replace(trajectory.task, id=task), error="" if usable else "no disk")
        if number >= good + bad + unusable:
            fact = Evidence(name=FAULT, value="it killed its shell")
            trajectory = replace(trajectory, ending=Ending.AGENT_FAULT, evidence=(fact,))
        episodes.append((trajectory, score))
    return group(*episodes)


SAID = [
    ({"missing": "invalid"}, True),
    ({"missing": "malformed", "detail": "x"}, True),
    ([{"passed": True}, {"missing": "cut_off"}], True),  # of a panel, and of several goals
    ([{"nugget": "n", "verdict": {"missing": "refusal"}}], True),
    ({"critiques": 3, "missing": ["unquoted"]}, True),
    ({"missing": "unavailable"}, False),  # the server's
    ({"missing": ["timeout"]}, False),
    ({"missing": "void"}, False),  # the judge's own
    ({"matches": 6, "missing": 0}, False),
    ({"passed": False}, False),
    (None, False),
]


@pytest.mark.parametrize(("said", "counts"), SAID)
def test_episodes_in_which_a_judge_said_nothing_of_use_are_counted(said, counts):
    whole = played("a", good=9, unusable=1)
    (first, score), *others = zip(whole.trajectories, whole.scores, strict=True)
    first = replace(first, evidence=(Evidence(name="verdict_judge", value=said),))
    check = silenced([group((first, score), *others)])
    assert check.value == counts / 10
    assert (check.alarm is not None) is counts


def test_an_episode_whose_user_said_nothing_of_use_is_counted():
    episodes = [
        replace(one, error=f"the user gave no reply, of which {SILENCED}")
        for one in played("a", unusable=1).trajectories
    ]
    assert silenced([replace(played("a", unusable=1), trajectories=tuple(episodes))]).value == 1
    assert silenced([played("a", unusable=1)]).value == 0


def test_tallies_say_how_the_episodes_of_each_task_ended():
    groups = [played("a", good=3, bad=2, unusable=1, faults=2), played("b", unusable=4)]
    assert tallies(groups) == {"a": EndingCount(8, 1, 2, 2), "b": EndingCount(4, 4, 0, 0)}
    facts = measure(1, groups)
    assert facts is not None
    assert facts.tasks == tallies(groups)


def test_a_share_of_unusable_episodes_above_the_limit_is_told_with_its_reason():
    """The case of the issue: 5 of 12 episodes, 42 %."""
    alarm = alarm_of(unusable_share([played("a", good=7, unusable=5)]))
    assert alarm.sentence == (
        "5 of 12 episodes are unusable (limit 20%): the environment, a verifier, a judge or the model failed, so no "
        "reward and no mean counts them; most frequent reason: no disk"
    )
    assert alarm.trajectories == ("a#7", "a#8", "a#9")
    assert alarm_of(unusable_share([played("a", good=4, unusable=1)])) is None
    assert unusable_share([]) is None


def test_a_task_that_breaks_is_named_though_the_step_as_a_whole_is_fine():
    groups = [played(f"t{i}", good=8) for i in range(9)] + [played("odd", good=2, unusable=6)]
    assert alarm_of(unusable_share(groups)) is None
    alarm = alarm_of(unusable_task(groups))
    assert alarm.sentence == (
        "6 of 8 episodes of task 'odd' are unusable (limit 50%), so hardly anything is learned from it; repair the "
        "task or leave it out; tasks above the limit: 1 of 10; most frequent reason: no disk"
    )
    assert alarm.trajectories == ("odd#2", "odd#3", "odd#4")
    assert unusable_task([played("odd", unusable=3)]) is None  # too few to tell


def test_episodes_that_the_agent_broke_are_told_apart_with_its_reason():
    groups = [played("a", good=6, faults=2)]
    assert unusable_share(groups).value == 0
    alarm = alarm_of(agent_fault_share(groups))
    assert alarm.sentence == (
        "2 of 8 episodes were broken by the agent (limit 10%): they count as failures; make sure that the fault is the "
        "agent's and not the environment's; most frequent reason: it killed its shell"
    )
    assert alarm_of(agent_fault_share([played("a", good=9, faults=1)])) is None


def steps(tally_of, *, n_tasks=20):
    return course(2, tasks={f"t{i}": tally_of(i) for i in range(n_tasks)})


def test_voiding_where_the_policy_fails_is_seen():
    """Half of the tasks are never solved, and there 4 of 8 episodes are voided."""
    hard = steps(lambda i: EndingCount(n=8, unusable=4 * (i % 2), faults=0, failures=4 * (i % 2)))
    alarm = alarm_of(unusable_with_failure(hard))
    assert alarm.evidence["r"] == pytest.approx(1)
    assert alarm.sentence.startswith(
        "the more often a task is failed, the more of its episodes are unusable: rank correlation 1.00 over 20 tasks"
    )
    broken = steps(lambda i: EndingCount(n=8, unusable=0, faults=4 * (i % 2), failures=4 * (i % 2)))
    assert unusable_with_failure(broken) is None  # nothing varies
    assert alarm_of(faults_with_failure(broken)).evidence["p"] == pytest.approx(1 / 184_756)  # 1 / C(20, 10)


def test_breaking_alike_everywhere_or_where_the_policy_succeeds_is_calm():
    alike = steps(
        lambda i: EndingCount(n=8, unusable=4 * (i // 2 % 2), faults=0, failures=(i % 2) * (8 - 4 * (i // 2 % 2)))
    )
    assert unusable_with_failure(alike).value == pytest.approx(0)
    assert alarm_of(unusable_with_failure(alike)) is None
    easy = steps(lambda i: EndingCount(n=8, unusable=4 * (i % 2), faults=0, failures=4 * (1 - i % 2)))
    assert unusable_with_failure(easy).value == pytest.approx(-1)
    assert alarm_of(unusable_with_failure(easy)) is None


def test_one_task_that_always_breaks_is_no_correlation():
    """A parametric z would call this significant; one task of fifteen cannot be."""
    one = steps(lambda i: EndingCount(n=8, unusable=7 * (i == 0), faults=0, failures=int(i == 0)), n_tasks=15)
    assert unusable_with_failure(one).value == pytest.approx(1)
    assert alarm_of(unusable_with_failure(one)) is None
    assert unusable_with_failure(steps(lambda i: EndingCount(8, i % 2, 0, i % 2), n_tasks=9)) is None


small = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=6)


@settings(max_examples=60)
@given(small)
def test_the_p_value_is_the_share_of_all_orders_that_agree_as_much(pairs):
    x, y = np.array(pairs, np.float64).T
    high = y > np.median(y)

    def above_both(order):
        return int(((order > np.median(x)) & high).sum())

    counts = [above_both(np.array(order)) for order in permutations(x)]
    assert median_test(x, y) == pytest.approx(np.mean([count >= above_both(x) for count in counts]))


@given(small)
def test_the_rank_correlation_is_that_of_ranks_counted_by_hand(pairs):
    x, y = np.array(pairs, np.float64).T

    def ranks(values):
        return [sum(v < value for v in values) + (sum(v == value for v in values) + 1) / 2 for value in values]

    r = rank_correlation(x, y)
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert r is None
    else:
        assert r == pytest.approx(np.corrcoef(ranks(x), ranks(y))[0, 1])
