"""Running examiners: who is called with what and when, and that nothing that they do ends a run or lies about facts."""

import asyncio
import json
import logging
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.judges.examiners.episodes import (
    Told,
    ToldOfBatches,
    ToldOfEpisodes,
    context,
    episode,
    every,
    examined,
    group,
    run,
    told,
    values,
)
from turngate.errors import ConfigError, EnvError, RunError, StoreError
from turngate.judges.examiners import examining as run_module
from turngate.judges.examiners.examining import Examining
from turngate.judges.examiners.facts import plain, recorded_answer
from turngate.rewards.gates.whole_kinds import Veto
from turngate.rewards.rubric import FromEvidence, Rubric
from turngate.types import Ending, Evidence

MISSING = Evidence(name="told", value=None, by="verifier")


# --- what is called, and what comes of it ----------------------------------------------------------------------------


def test_facts_are_added_behind_what_was_measured():
    before = group("a", "b")
    (after,), metrics = examined([told(every(0.5))], [before])
    for old, new in zip(before.trajectories, after.trajectories, strict=True):
        assert new == replace(old, evidence=(*old.evidence, Evidence(name="told", value=0.5, by="judge")))
    assert metrics == {"examine/told/failed": 0.0, "examine/told/unusable": 0.0, "examine/told/missing_share": 0.0}


@pytest.mark.parametrize(
    ("kind", "calls"),
    [
        (ToldOfEpisodes, [[("a#0",)], [("a#1",)], [("b#0",)]]),
        (Told, [[("a#0", "a#1")], [("b#0",)]]),
        (ToldOfBatches, [[("a#0", "a#1"), ("b#0",)]]),
    ],
)
def test_each_scope_sees_as_much_as_it_asks_for(kind, calls):
    examiner = told(kind=kind)
    groups, _ = examined([examiner], [group("x", "y", name="a"), group("z", name="b")])
    assert examiner.calls == calls
    assert values(groups) == [[[1], [1]], [[1]]]


def test_unusable_episodes_are_left_out_and_counted():
    broken = episode("x", name="t#1", ending=Ending.ENV_ERROR)
    mixed = group("a", "b", "c")
    mixed = replace(mixed, trajectories=(mixed.trajectories[0], broken, mixed.trajectories[2]))
    lost = replace(mixed, trajectories=(broken,))
    examiner = told()
    groups, metrics = examined([examiner], [mixed, lost])
    assert examiner.calls == [[("t#0", "t#2")]]
    assert values(groups) == [[[1], [], [1]], [[]]]
    assert metrics["examine/told/unusable"] == 2


def test_only_its_environments_episodes_are_examined():
    examiner = told(kind=ToldOfBatches, env="test/Other-v1")
    groups, metrics = examined([examiner], [group("a"), group("b", name="u", env="test/Other-v1")])
    assert examiner.calls == [[("u#0",)]]
    assert values(groups) == [[[]], [[1]]]
    assert metrics["examine/told/unusable"] == 0


def test_nothing_to_look_at_is_no_call():
    examiner = told(kind=ToldOfBatches)
    assert examined([examiner], [])[0] == []
    assert examiner.calls == []


def test_facts_stand_in_the_order_of_the_examiners_whoever_is_ready_first():
    def later(name, wait_s):
        async def script(groups, context):
            await asyncio.sleep(wait_s)
            return every(1, name)(groups, context)

        return told(script, facts_named=(name,))

    (after,), _ = examined([later("slow", 0.05), later("quick", 0)], [group("a")])
    assert [fact.name for fact in after.trajectories[0].evidence] == ["answer", "slow", "quick"]


def test_who_may_begin_early_does_and_who_asks_the_policy_waits():
    async def go():
        seen = []

        def note(name):
            return lambda groups, context: seen.append(name) or every(1, name)(groups, context)

        examiners = [
            told(note("late"), facts_named=("late",), policy=True),
            told(note("later"), facts_named=("later",), policy=True, kind=ToldOfBatches),
            told(note("early"), facts_named=("early",)),
            told(note("whole"), facts_named=("whole",), kind=ToldOfBatches),
        ]
        one, two = group("a", name="a"), group("b", name="b")
        async with Examining(examiners, context()) as examining, examining.begin(1) as stage:
            stage.group_done(one)
            stage.group_done(one)  # told twice is told once
            await asyncio.sleep(0.01)
            assert seen == ["early"]
            after, _ = await stage.finish([one, two])
        assert seen.count("early") == seen.count("late") == 2
        assert seen.count("whole") == seen.count("later") == 1
        assert seen.index("later") > max(at for at, name in enumerate(seen) if name == "late")
        return after

    after = run(go())
    assert [[len(one.evidence) for one in group.trajectories] for group in after] == [[5], [5]]


def test_a_rubric_chooses_the_examiners_that_it_reads():
    async def go():
        examiners = [told(facts_named=("told",)), told(every(1, "other"), facts_named=("other",))]
        async with Examining(examiners, context()) as examining:
            return await examining.examined([group("a")], 0, reads={"other", "answer"})

    groups, metrics = run(go())
    assert (values(groups), values(groups, "other")) == ([[[]]], [[[1]]])
    assert set(metrics) == {"examine/other/failed", "examine/other/unusable", "examine/other/missing_share"}


def test_two_examiners_cannot_record_under_one_name():
    with pytest.raises(ConfigError, match="both record 'told'"):
        Examining([told(), told(facts_named=("mine", "told"))], context())


def test_seeds_differ_by_step_and_examiner_and_by_nothing_else():
    seen = {}

    def script(groups, context):
        seen.setdefault((context.step, groups[0].task.id), []).append(context.seed)
        return [[() for _ in group.trajectories] for group in groups]

    for step in (1, 2, 1):
        examined([told(script)], [group("a")], step=step)
    examined([told(script, facts_named=("other",))], [group("a")], step=1)
    first, again, other = seen[1, "t"]
    assert first == again
    assert len({first, other, *seen[2, "t"]}) == 3


# --- what cannot be had is missing -----------------------------------------------------------------------------------


async def hang(groups, context):
    await asyncio.Event().wait()


async def hang_on(groups, context):
    while True:
        try:
            await asyncio.sleep(0.2)
        except asyncio.CancelledError:
            pass
        else:
            return every(1)(groups, context)


async def cancel_itself(groups, context):
    asyncio.current_task().cancel()
    await asyncio.sleep(1)


def crash(groups, context):
    raise EnvError("out of\nmemory")


def at_first(script):
    """``script`` in the call for the task t; in others it is right, because one that is always wrong ends the run."""
    return lambda groups, context: script(groups, context) if groups[0].task.id == "t" else every(1)(groups, context)


CIRCLE = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    ("script", "told_of"),
    [
        (hang, "no answer within 0.05 s"),
        (hang_on, "no answer within 0.05 s"),
        (cancel_itself, "it cancelled itself"),
        (crash, "out of memory"),
        (lambda groups, context: {}["x"], "KeyError('x')"),
        (lambda groups, context: None, "it returned None, which must be a list of 1"),
        (lambda groups, context: [[()]], "which must be a list of 2"),
        (lambda groups, context: [[(), (), ()]], "which must be a list of 2"),
        (lambda groups, context: [[(), ()]] * 2, "which must be a list of 1"),
        (
            lambda groups, context: [["told", "told"]],
            "it returned 'told', which must be a list of the facts about one episode",
        ),
        (lambda groups, context: [[("told",), ()]], "it returned 'told', which must be an Evidence"),
        (every(1, "opened"), "it recorded 'opened', but declares only ['told']"),
        (every(1, turn=1), "is about turn 1 of an episode with 1 turns"),
        (every(1, turn=-1), "is about turn -1"),
        (every(1, turn=True), "is about turn True"),
        (every(math.nan), "nan is not JSON; record None for what could not be measured"),
        (every({"x": [1, math.inf]}), "inf is not JSON"),
        (every({1: 2}), "its keys must be texts"),
        (every({1, 2}), "of type set is not JSON"),
        (every(CIRCLE), "RecursionError"),
    ],
)
def test_whatever_goes_wrong_is_missing_counted_and_told_in_one_line(script, told_of, caplog, monkeypatch):
    monkeypatch.setattr(run_module, "GRACE_S", 0.05)
    before = group("a", "b")

    with caplog.at_level(logging.WARNING):
        (after, _), metrics = examined(
            [told(at_first(script), deadline_s=0.05), told(every(2, "good"), facts_named=("good",))],
            [before, group("c", name="other")],
        )
    for old, new in zip(before.trajectories, after.trajectories, strict=True):
        assert new.evidence == (*old.evidence, MISSING, Evidence(name="good", value=2, by="judge"))
    assert (metrics["examine/told/failed"], metrics["examine/told/missing_share"]) == (1, pytest.approx(2 / 3))
    assert metrics["examine/good/failed"] == metrics["examine/good/missing_share"] == 0
    lines = [record.getMessage() for record in caplog.records if "are missing" in record.getMessage()]
    assert len(lines) == 1
    assert lines[0].startswith("examiner 'told' (told): ")
    assert lines[0].endswith("; its facts about task 't' are missing")
    assert told_of in lines[0]
    assert "\n" not in lines[0]


@pytest.mark.parametrize("script", [lambda groups, context: {}["x"], lambda groups, context: None, every(math.nan)])
def test_code_that_fails_in_every_call_ends_the_run(script):
    with pytest.raises(RunError, match=r"examiner 'told' \(told\) failed in all 2 calls .* \(\w+\.py, line \d+\)$"):
        examined([told(script)], [group("a"), group("b", name="other")])


def test_an_outage_in_every_call_does_not(caplog):
    for error in (EnvError("down"), ConnectionError("refused"), json.JSONDecodeError("no JSON", "<html>", 0)):

        def script(groups, context, error=error):
            raise error

        (after,), metrics = examined([told(script)], [group("a")])
        assert after.trajectories[0].evidence[-1] == MISSING
        assert metrics["examine/told/failed"] == 1


def test_one_call_that_fails_leaves_the_others_alone():
    def script(groups, context):
        if groups[0].task.id == "b":
            raise RuntimeError("no")
        return every(1)(groups, context)

    groups, metrics = examined([told(script)], [group("x", name=name) for name in "abc"])
    assert values(groups) == [[[1]], [[None]], [[1]]]
    assert (metrics["examine/told/failed"], metrics["examine/told/missing_share"]) == (1, pytest.approx(1 / 3))


def test_a_name_that_was_declared_and_left_out_is_missing():
    examiner = told(every(1), facts_named=("told", "why"))
    (after,), metrics = examined([examiner], [group("a")])
    assert [(fact.name, fact.value) for fact in after.trajectories[0].evidence[1:]] == [("told", 1), ("why", None)]
    assert metrics["examine/told/failed"] == 0


def test_what_the_episode_has_already_stays_as_it_is():
    measured = Evidence(name="told", value=False)
    before = group("a", evidence=[measured])
    (after, _), metrics = examined([told(every(True), facts_named=("told", "why"))], [before, group("c", name="other")])
    assert values([after]) == [[[False]]]
    assert values([after], "why") == [[[None]]]
    assert metrics["examine/told/failed"] == 1


def test_facts_are_copies():
    mine = {"list": [1, (2, 3)]}
    (after,), _ = examined([told(every(mine))], [group("a")])
    mine["list"].append(4)
    assert values([after]) == [[[{"list": [1, [2, 3]]}]]]


def test_missing_facts_make_an_outcome_unusable_and_open_no_veto():
    rubric = Rubric(rewards=(FromEvidence(name="told", evidence="told", kind="outcome"),))
    (after,), _ = examined([told(crash)], [group("a", "b")])
    scored = rubric.score_group(after)
    assert [(score.usable, score.outcome) for score in scored.scores] == [(False, None)] * 2
    guarded = Rubric(
        rewards=(FromEvidence(name="answered", evidence="good", kind="outcome"),),
        gates=(Veto(evidence="told", floor=-1.0),),
    )
    (after,), _ = examined([told(crash), told(every(1, "good"), facts_named=("good",))], [group("a")])
    (score,) = guarded.score_group(after).scores
    assert not score.usable  # nobody knows whether it cheated


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.binary(max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2) | st.integers(), inner, max_size=2),
    max_leaves=4,
)
lies = st.one_of(
    json_values,
    st.builds(
        Evidence,
        name=st.sampled_from(["told", "why", "answer", "opened"]),
        value=json_values,
        turn=st.none() | st.integers(-2, 3) | st.booleans() | st.floats(),
        by=st.sampled_from(["env", "verifier", "judge", "nobody"]),
    ),
)
answers = st.recursive(lies, lambda inner: st.lists(inner, max_size=3) | st.tuples(inner), max_leaves=8)
shaped = st.lists(st.lists(st.lists(lies, max_size=3).map(tuple), min_size=2, max_size=2), min_size=1, max_size=1)


@given(answer=answers | shaped)
def test_an_examiner_that_lies_changes_no_measured_fact_and_makes_no_zero(answer):
    opened = Evidence(name="opened", value=True, turn=0)
    before = group("a", ["b", "c"], evidence=[opened])
    (after, _), metrics = examined(
        [told(at_first(lambda groups, context: answer), facts_named=("told", "why"))],
        [before, group("c", name="other")],
    )
    json.dumps(plain([[fact.value for fact in one.evidence] for one in after.trajectories]), allow_nan=False)
    for old, new in zip(before.trajectories, after.trajectories, strict=True):
        assert new.evidence[: len(old.evidence)] == old.evidence
        added = new.evidence[len(old.evidence) :]
        assert {fact.name for fact in added} == {"told", "why"}
        assert all(fact.turn is None or 0 <= fact.turn < len(new.turns) for fact in added)
        if metrics["examine/told/failed"]:
            assert [fact.value for fact in added] == [None, None]


# --- cancellation, memory --------------------------------------------------------------------------------------------


def test_leaving_early_leaves_no_task_behind():
    stopped = []

    async def wait(groups, context):
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(groups[0].task.id)

    async def go():
        before = asyncio.all_tasks()
        async with Examining([told(wait)], context()) as examining, examining.begin(1) as stage:
            stage.group_done(group("a", name="a"))
            stage.group_done(group("b", name="b"))
            await asyncio.sleep(0.01)
            assert len(asyncio.all_tasks()) > len(before)
        assert asyncio.all_tasks() == before

    run(go())
    assert sorted(stopped) == ["a", "b"]


def test_cancelling_the_stage_cancels_everybody():
    async def go():
        before = asyncio.all_tasks()
        async with Examining([told(hang), told(hang, facts_named=("b",), policy=True)], context()) as examining:
            work = asyncio.ensure_future(examining.examined([group("a")], 1))
            await asyncio.sleep(0.01)
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
        assert asyncio.all_tasks() == before

    run(go())


def count(groups, context):
    context.memory["seen"] = context.memory.get("seen", 0) + 1
    return every(context.memory["seen"])(groups, context)


def test_memory_lasts_from_step_to_step_and_through_a_checkpoint():
    async def go():
        async with Examining([told(count)], context()) as examining:
            first, second = [values((await examining.examined([group("a")], step))[0]) for step in (1, 2)]
            outside = values((await examining.examined([group("a")], 0))[0])
            state = json.loads(json.dumps(examining.state()))
        async with Examining([told(count)], context()) as resumed:
            resumed.restore(state)
            return first, second, outside, values((await resumed.examined([group("a")], 3))[0])

    assert run(go()) == ([[[1]]], [[[2]]], [[[3]]], [[[3]]])  # an evaluation leaves no trace


def test_memory_that_is_no_json_goes_back_to_what_it_was(caplog):
    def script(groups, context):
        context.memory["seen"] = math.nan if context.step == 2 else context.step
        return every(1)(groups, context)

    async def go():
        async with Examining([told(script)], context()) as examining:
            failed = [(await examining.examined([group("a")], step))[1]["examine/told/failed"] for step in (1, 2)]
            return failed, examining.state()

    assert run(go()) == ([0, 1], {"told": {"seen": 1}})
    assert "what it remembered in this step is dropped" in caplog.text


def test_the_memory_of_somebody_else_is_refused():
    with pytest.raises(StoreError, match="memory of an examiner 'ranks'"):
        Examining([told()], context()).restore({"ranks": {}})


# --- answers ---------------------------------------------------------------------------------------------------------


def test_the_recorded_answer():
    assert recorded_answer(episode("x", answer="42")) == "42"
    assert recorded_answer(episode("x", answer=None)) is None
    with pytest.raises(ConfigError, match=r"\(test/Env-v1\) records no answers"):
        recorded_answer(episode("x", answer=...))
