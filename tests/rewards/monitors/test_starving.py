"""Starvation: groups that rank nothing, judges that say nothing, gates that let nothing through."""

from dataclasses import replace

import pytest

from tests.helpers.scores import alarm_of, episode, group
from tests.rewards.monitors.facts import course
from turngate.rewards.monitors.starving import (
    canaries_missed,
    few_open_groups,
    group_shares,
    judge_silent,
    silent_groups,
    starvation,
    uninformative_process,
)
from turngate.rewards.monitors.step_facts import Opened
from turngate.types import Evidence, Guidance

# --- groups without advantage ----------------------------------------------------------------------------------------


def paid(*values, usable=True):
    return group(*(episode(outcome=value, usable=usable) for value in values))


def test_groups_paid_the_same_and_groups_of_one_have_no_advantage():
    """Of four groups one is equal, one has a single usable episode, one is equal within rounding: 75 %."""
    lone = group(episode(outcome=1.0), episode(outcome=0.0, usable=False))
    groups = [paid(1.0, 1.0, 1.0), lone, paid(0.5, 0.5 + 1e-9), paid(0.0, 1.0)]
    assert group_shares(groups) == {"singleton": 0.25, "equal": 0.5}
    check = silent_groups(groups, at_most=0.7)
    assert check.value == 0.75
    assert check.alarm.sentence == (
        "3 of 4 groups teach nothing (limit 70%): in 2 all episodes were paid the same, 1 had a single usable episode; "
        "tasks that are solved sometimes, neither always nor never, would teach more"
    )
    assert (silent_groups(groups).value, silent_groups(groups).alarm) == (0.75, None)


def test_guided_and_unguided_siblings_are_groups_of_their_own():
    helped = Guidance(kind="hint", level=1, text="x", source="task")
    (a, one), (b, two) = episode("a", outcome=1.0), episode("b", outcome=0.0)
    assert group_shares([group((a, one), (b, two))]) == {"singleton": 0.0, "equal": 0.0}
    assert group_shares([group((replace(a, guidance=helped), one), (b, two))]) == {"singleton": 1.0, "equal": 0.0}


def test_an_episode_without_turns_is_a_member_of_its_group():
    """It had no room for its first turn, but the sibling that had one is compared with it."""
    (a, one), (b, two) = episode("a", outcome=1.0), episode("b", outcome=0.0)
    turnless = (replace(b, turns=()), replace(two, reward_T=two.reward_T[:0]))
    assert group_shares([group((a, one), turnless)]) == {"singleton": 0.0, "equal": 0.0}


def test_without_usable_episodes_there_are_no_shares():
    assert silent_groups([paid(1.0, 1.0, usable=False)]) is None
    assert group_shares([]) == {}


# --- the judge -------------------------------------------------------------------------------------------------------


def judged(name, value, record=None, *, usable=False):
    trajectory, score = episode(name, usable=usable)
    facts = [Evidence(name="good", value=value, by="judge")]
    if record is not None:
        facts.append(Evidence(name="good_judge", value={"judge": "j", "version": "1", **record}, by="judge"))
    return replace(trajectory, evidence=tuple(facts)), score


def test_missing_verdicts_are_counted_also_where_they_made_the_episode_unusable():
    said = [judged(f"t{i}", True, {"passed": True}, usable=True) for i in range(8)]
    lost = [judged(f"lost{i}", None, {"missing": "timeout", "detail": "30 s"}) for i in range(2)]
    check = judge_silent([group(*said, *lost)])
    assert check.value == pytest.approx(0.2)
    assert check.alarm.trajectories == ("lost0", "lost1")
    assert check.alarm.sentence == (
        "2 of 10 facts from the judge are missing (limit 10%): an episode whose rubric needs one is unusable; check "
        "the judge's server, deadline and replies; most frequent reason: timeout"
    )
    assert judge_silent([group(*said, *lost)], at_most=0.2).alarm is None
    assert judge_silent([group(*said, *lost[:1])]) is None  # nine facts
    assert judge_silent([group(episode())], least=0) is None  # no judge


def test_a_void_batch_is_told_from_other_missing_verdicts():
    late = judged("late", None, {"missing": "timeout", "detail": "30 s"})
    void = judged("void", None, {"missing": "void", "detail": "the judge accepted 1 of 4 canaries"})
    votes = judged("votes", None, {"missing": ["void", "malformed"]})
    assert (canaries_missed([group(late)]).value, canaries_missed([group(late)]).alarm) == (0, None)
    check = canaries_missed([group(late, void, votes)])
    assert check.value == 2
    assert check.alarm.trajectories == ("void", "votes")
    assert check.alarm.sentence == (
        "2 of 3 judged facts were thrown away because of a canary, an answer without content that the judge must "
        "reject (the judge accepted 1 of 4 canaries); measure the judge with 'turngate judge-check', or use another one"
    )
    assert canaries_missed([group(episode())]) is None


# --- gates that stay shut --------------------------------------------------------------------------------------------


def opening(*counts):
    return course(len(counts), opened=lambda i: {"p": Opened(n_open=counts[i], n=200, gate="needs")}, closed=("c",))


def test_a_component_that_gates_keep_shut_for_twenty_batches_starves():
    check = starvation(opening(*[1] * 20))
    assert check.value == 0.005
    assert check.alarm.trajectories == ("c",)
    assert check.alarm.sentence == (
        "gates let through 20 of 4000 payments of 'p' in 20 batches (limit 1%), so the policy learns nothing from it; "
        "loosen the gate that closed most of them, needs, or begin with easier tasks"
    )


def test_one_open_batch_or_one_without_payments_is_no_starvation():
    assert starvation(opening(*[1] * 19)) is None
    calm = starvation(opening(*[1] * 10, 2, *[1] * 9))  # 2 of 200 is 1 %, not below
    assert (calm.value, calm.alarm) == (0.01, None)
    trend = opening(*[1] * 20)
    assert starvation([*trend[:5], replace(trend[5], opened={}), *trend[6:]]) is None
    assert starvation(course(20)) is None


def test_the_component_that_starves_most_is_named():
    both = {"a": Opened(n_open=0, n=9, gate="g"), "b": Opened(n_open=9, n=9)}
    assert starvation(course(20, opened=both)).alarm.evidence["component"] == "a"


def test_groups_in_which_gates_leave_one_episode_open_rank_nothing():
    check = few_open_groups(course(20, open_groups=0.04, closed=("c",)))
    assert (check.value, check.alarm.trajectories) == (0.04, ("c",))
    assert few_open_groups(course(20, open_groups=lambda i: 0.05 if i == 3 else 0.0)).alarm is None
    assert few_open_groups(course(19, open_groups=0.0)) is None
    assert few_open_groups(course(40)) is None


def test_a_process_that_tells_nothing():
    coin = course(50, auc=lambda i: 0.5 + 0.08 * (i % 2))
    check = uninformative_process(coin)
    assert check.value == check.alarm.evidence["auc"] == pytest.approx(0.54)
    assert uninformative_process(coin[1:]) is None
    assert alarm_of(uninformative_process(course(50, auc=0.55))) is None
    gaps = course(60, auc=lambda i: None if i % 6 == 0 else 0.5)
    assert uninformative_process(gaps).alarm is not None  # steps that could not tell are passed over
