"""A judge for code that cannot await, and how an environment's verifier uses it."""

import asyncio
import doctest
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

import turngate.judges.asking
from tests.helpers.scripted_judge import CRITERION, DOWN, FAST, NO, fair, is_null, item, judge, said, yes
from turngate.envs.tasks import TaskList
from turngate.errors import ConfigError
from turngate.judges.asking import BlockingJudge
from turngate.judges.texts import Fault, FaultKind, Rule, item_of_text
from turngate.types import Task

PATIENT = {"gather_s": 0.3}


def civil(prompt, n):
    """Yes to what begins as a letter does."""
    return yes(prompt) if said(prompt)[0].startswith("Dear Ms Lee") else NO


def letters(*prompts):
    return TaskList([Task(id=f"letter {n}", env_id="Letters-v0", prompt=prompt) for n, prompt in enumerate(prompts)])


def example(who):
    """The names in the example of the package, after it was run with this judge, and what failed in it."""
    names = {"judge": who, "BlockingJudge": BlockingJudge, "tasks": letters("Ms Lee got a broken lamp. Answer her.")}
    (test,) = doctest.DocTestFinder(recurse=False).find(
        turngate.judges.asking, "turngate.judges.asking", extraglobs=names
    )
    results = doctest.DocTestRunner().run(test, out=lambda text: None, clear_globs=False)
    return test.globs, results


def test_the_example_of_the_package_is_true():
    names, results = example(judge(civil))
    assert (results.attempted, results.failed) == (6, 0)
    assert names["info"]["score"].usable


def test_a_judge_that_fails_makes_the_episode_unusable_and_never_a_zero():
    names, _ = example(judge(lambda prompt, n: DOWN))
    score = names["info"]["score"]
    assert (score.usable, score.outcome) == (False, None)
    _answer, plain, record = names["info"]["evidence"]
    assert (plain.value, plain.by) == (None, "judge")
    assert (record.value["judge"], record.value["version"], record.value["missing"]) == ("scripted", "1", "void")


def ask(blocking, *items):
    with ThreadPoolExecutor(len(items)) as threads:
        return [future.result(30) for future in [threads.submit(blocking.pointwise, one, CRITERION) for one in items]]


def test_items_that_come_together_share_their_canaries():
    with BlockingJudge(judge(fair), **PATIENT) as blocking:
        answers = ask(blocking, *map(item, range(6)))
        assert [answer.passed for answer in answers] == [True] * 6
        assert (blocking.tally.n_calls, blocking.tally.n_canaries) == (6 + 5, 5)
        assert blocking.pointwise(item(7), CRITERION).passed  # another batch
        assert blocking.tally.n_canaries == 10
        assert blocking.pointwise(item_of_text("k", "t", "."), CRITERION) is Rule.TOO_SHORT
    assert not [thread for thread in threading.enumerate() if thread.name == "judge"]


def test_each_gets_its_own_verdict():
    def script(prompt, n):
        return NO if is_null(prompt) or "is 3" in prompt else yes(prompt)

    with BlockingJudge(judge(script), **PATIENT) as blocking:
        assert [answer.passed for answer in ask(blocking, *map(item, range(5)))] == [
            True,
            True,
            True,
            False,
            True,
        ]


def test_criteria_are_batches_of_their_own():
    other = replace(CRITERION, name="other")
    with BlockingJudge(judge(fair), **PATIENT) as blocking, ThreadPoolExecutor(2) as threads:
        futures = [threads.submit(blocking.pointwise, item(0), criterion) for criterion in (CRITERION, other)]
        assert [future.result(30).passed for future in futures] == [True, True]
        assert blocking.tally.n_canaries == 10


def test_a_mistake_of_the_caller_reaches_all_who_wait():
    def script(prompt, n):
        raise ConfigError("wrong key")

    with BlockingJudge(judge(script), **PATIENT) as blocking:
        with ThreadPoolExecutor(2) as threads:
            futures = [threads.submit(blocking.pointwise, item(n), CRITERION) for n in range(2)]
            assert [str(future.exception(30)) for future in futures] == ["wrong key"] * 2
        with pytest.raises(ConfigError, match="wrong key"):
            blocking.pointwise(item(3), CRITERION)


async def hang():
    await asyncio.sleep(3600)


def test_nobody_waits_longer_than_allowed():
    with BlockingJudge(
        judge(lambda prompt, n: hang(), settings=FAST.model_copy(update=dict(deadline_s=600))), wait_s=0.1
    ) as blocking:
        assert blocking.pointwise(item(0), CRITERION) == Fault(kind=FaultKind.TIMEOUT, detail="no verdict within 0.1 s")
    assert blocking.tally.faults == {FaultKind.TIMEOUT: 1}


def test_closing_lets_nobody_wait():
    started = threading.Event()

    def script(prompt, n):
        started.set()
        return hang()

    with ThreadPoolExecutor(1) as threads:
        with BlockingJudge(
            judge(script, settings=FAST.model_copy(update=dict(call_s=600, deadline_s=600)))
        ) as blocking:
            future = threads.submit(blocking.pointwise, item(0), CRITERION)
            assert started.wait(30)
        with pytest.raises(RuntimeError, match="stopped before there was a verdict"):
            future.result(30)
    with pytest.raises(RuntimeError, match="inside 'with BlockingJudge"):
        blocking.pointwise(item(0), CRITERION)


def test_a_speaker_that_does_not_open_is_told_at_once(monkeypatch):
    async def broken(text_model):
        raise ConfigError("no such file")

    who = judge(fair)
    monkeypatch.setattr(type(who.text_model), "__aenter__", broken)
    with pytest.raises(ConfigError, match="no such file"), BlockingJudge(who):
        pass
