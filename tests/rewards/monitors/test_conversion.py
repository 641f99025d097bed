"""What help leads to: tasks counted by hand and by a slow loop, and the alarm for help without any effect."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.scores import alarm_of, episode, group, turn
from tests.rewards.monitors.facts import course
from turngate.rewards.monitors.conversion import Conversions, conversions, guidance_effect
from turngate.rewards.monitors.step_facts import HelpCount, measure
from turngate.trainer.checks.monitoring import Watch
from turngate.types import Guidance, Source

HINT = Guidance(kind="hint", level=1, text="x", source="env")
HELPED = HelpCount(guided=4, guided_won=1, alone=4)
FAILED = HelpCount(alone=4)
ALONE = HelpCount(alone=4, alone_won=1)


def seen(*visits, task="t"):
    return course(len(visits), helped=lambda i: {} if visits[i] is None else {task: visits[i]})


@pytest.mark.parametrize(
    ("visits", "expected"),
    [
        ((FAILED, HELPED, FAILED, None, ALONE), (1, 0, 0)),
        ((HELPED, FAILED, FAILED, FAILED, ALONE), (0, 1, 0)),  # too late
        ((HELPED, HELPED, HelpCount(guided=4)), (0, 0, 1)),  # one visit only: the last step has no unguided episode
        ((ALONE, HELPED, FAILED, FAILED, FAILED), (0, 0, 0)),  # first solved alone
        ((HelpCount(4, 1, 4, 1), FAILED, FAILED, FAILED), (0, 0, 0)),  # both in one step
        ((HelpCount(shown=1, alone=4), ALONE), (1, 0, 0)),  # shown by an expert
        ((FAILED,) * 5, (0, 0, 0)),
    ],
)
def test_a_task_by_hand(visits, expected):
    assert conversions(seen(*visits)) == Conversions(*expected)


def test_the_share_is_of_decided_tasks():
    assert Conversions(3, 1, 9).share == 0.75
    assert Conversions(0, 0, 9).share is None
    assert conversions([]) == Conversions(0, 0, 0)


COUNTS = st.sampled_from([None, FAILED, HELPED, ALONE, HelpCount(guided=2), HelpCount(shown=1), HelpCount(4, 1, 4, 1)])


def slow(visits):
    solved, tries = False, 0
    for count in visits:
        if count is None:
            continue
        if not solved:
            if count.alone_won:
                return ""
            solved = bool(count.guided_won or count.shown)
        elif count.alone_won and tries < 3:
            return "converted"
        elif count.alone:
            tries += 1
    if not solved:
        return ""
    return "lost" if tries >= 3 else "waiting"


@given(st.lists(st.lists(COUNTS, min_size=9, max_size=9), min_size=1, max_size=4))
def test_tasks_against_a_loop(tasks):
    trend = course(9, helped=lambda i: {f"t{n}": row[i] for n, row in enumerate(tasks) if row[i] is not None})
    states = [slow(row) for row in tasks]
    assert conversions(trend) == Conversions(*(states.count(name) for name in Conversions._fields))


def test_help_that_never_succeeds_raises_after_twenty_steps():
    idle = course(20, helped={"t": HelpCount(guided=4, alone=4)})
    assert guidance_effect(idle[:19]) is None
    check = guidance_effect(idle)
    assert (check.value, check.alarm.name) == (0.0, "guidance_effect")
    assert check.alarm.sentence.startswith("no episode with help succeeded in 20 steps with help, so help costs")
    assert alarm_of(guidance_effect([*idle[1:], *seen(HELPED)])) is None


def test_help_that_is_never_learned_from_counts_too():
    """A ladder replaces a row only by a success, so failures with help are not among the scored groups."""
    assert alarm_of(guidance_effect(course(20, guided_share=0.3))) is not None
    assert guidance_effect(course(20, guided_share=0.0)) is None
    assert guidance_effect(course(20, guided_share=0.3, helped={"t": HelpCount(shown=1, alone=4)})) is None


def test_help_that_nothing_is_learned_from_raises():
    def rows(i):
        return {f"t{n}": HELPED if i == 0 else FAILED for n in range(10)}

    check = guidance_effect(course(4, helped=rows))
    assert check.alarm.sentence.startswith(
        "none of 10 tasks first solved with help was solved without it in its next 3"
    )
    assert check.alarm.evidence["lost"] == 10
    assert guidance_effect(course(3, helped=rows)) is None


def test_episodes_are_counted_by_who_played_them():
    (one, score), (other, fails) = episode("a", outcome=1.0, turns=[turn("x", ids=[1])]), episode("b", outcome=0.0)
    forced = replace(one, guidance=HINT, turns=(replace(one.turns[0], source=np.array([0, Source.GUIDE], np.uint8)),))
    groups = [group((one, score), (other, fails), (replace(one, guidance=HINT), score), (forced, score))]
    assert measure(1, groups).helped == {"task": HelpCount(guided=1, guided_won=1, alone=2, alone_won=1, shown=1)}


def test_the_watch_tells_the_conversion_as_a_metric_of_the_guide():
    watch = Watch()
    helped, alone = replace(episode("a", outcome=1.0)[0], guidance=HINT), episode("b", outcome=0.0)
    first = watch(1, [group((helped, episode()[1]), alone)], {})
    assert "guide/conversion" not in first
    assert watch(2, [group(episode("c", outcome=1.0), alone)], {})["guide/conversion"] == 1.0


def test_a_watch_that_was_restored_tells_the_same():
    helped = (replace(episode("a", outcome=1.0)[0], guidance=HINT), episode()[1])
    alone = episode("b", outcome=0.0)
    steps = [(1, [group(helped, alone)], {}), (2, [group(alone, alone)], {}), (3, [group(episode("c"), alone)], {})]
    one, other = Watch(), Watch()
    told = [one(*step) for step in steps]
    other.replay(iter(steps[:2]))
    assert other(*steps[2]) == told[2]
    assert told[2]["guide/conversion"] == 1.0
