"""The leak guard between environment and guide: what it refuses, how it counts, and what it leaves alone."""

import logging
from dataclasses import replace

import pytest

from turngate.agents.prefix_turns import PrefixTurns
from turngate.trainer.guidance.guarded_help import GuardedHelp, LeakGuard
from turngate.trainer.guidance.plan import Plan
from turngate.types import Guidance, Task

TASK = Task(id="t", env_id="e", prompt="Is it 40 or 42?", private={"answer": "42"})
OTHER = Task(id="u", env_id="e", prompt="Guess.", private={"answer": "42"})


class Fake:
    """Hints of three levels, of which the last holds the answer."""

    def hint(self, task, level):
        return {1: "It is even.", 2: "It is above 40.", 3: "It is 42."}.get(level)

    def hint_levels(self, task):
        return 3

    def solutions(self, task):
        return [["say 42"]]

    def secrets(self, task):
        return ["42"]


@pytest.fixture
def guard():
    return LeakGuard(Fake().secrets)


@pytest.fixture
def guarded(guard):
    return GuardedHelp(Fake(), guard)


def test_a_hint_that_holds_the_answer_is_no_hint(guarded):
    assert [guarded.hint(OTHER, level) for level in range(5)] == [None, "It is even.", "It is above 40.", None, None]
    assert guarded.hint(TASK, 3) == "It is 42."  # the task says so itself
    assert guarded.hint_levels(OTHER) == 3
    assert guarded.solutions(OTHER) == [["say 42"]]
    assert guarded.secrets(OTHER) == ["42"]


def test_each_refused_hint_counts_once_a_step_and_is_named_once_a_run(guarded, guard, caplog):
    assert guard.metrics() == {}  # nothing was asked for
    with caplog.at_level(logging.WARNING):
        for task in (OTHER, OTHER, Task(id="v", env_id="e", prompt="Guess.")):
            guarded.hint(task, 3)
    assert guard.metrics() == {"guide/refused_hints": 2.0}
    guarded.hint(OTHER, 1)
    assert guard.metrics() == {"guide/refused_hints": 0.0}
    (told,) = [record.getMessage() for record in caplog.records]
    assert told == "hint of level 3 refused: that of task 'u' holds the answer, '42'; see 'turngate hints'"


def test_texts_of_any_guide_are_refused_and_the_episodes_played_without_them(guard):
    told = Guidance(kind="reflection", level=0, text="Say 42 this time.", source="self")
    fine = Guidance(kind="reflection", level=0, text="Say it this time.", source="self")
    forced = PrefixTurns(turns=("look",), guidance=told)
    plan = Plan(entries=[told, fine, None, forced, replace(forced, guidance=fine)], into="own")
    allowed = guard.allowed(OTHER, plan)
    assert allowed.into == "own"
    assert allowed.entries == [None, fine, None, replace(forced, guidance=replace(told, text="")), plan.entries[4]]
    assert guard.metrics() == {"guide/refused_hints": 1.0}
    assert guard.allowed(TASK, plan) is plan
    assert LeakGuard().allowed(OTHER, plan) is plan
