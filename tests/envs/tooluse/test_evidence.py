"""Evidence of calls through real episodes: worked numbers of ToolRL and FTRL, and calls that share a turn."""

import json
from pathlib import Path

import pytest

import turngate
from tests.envs.tooluse.lamps import write
from turngate.envs.tooluse.engine.watch import likeness
from turngate.envs.tooluse.rubric import RUBRIC
from turngate.rewards import FromEvidence, Rubric
from turngate.rewards.outcome.calls import FtrlCalls, ToolRL
from turngate.types import Action, Ending, Record, ToolCall

TOOLS = '''
from turngate import tool
from turngate.envs.tooluse import State, policy

STATE = {"notes": []}


@tool(read_only=True)
def search(q: str, k: int) -> str:
    """Search."""
    return f"{k} hits for {q}"


@tool(read_only=True)
def open_page(n: int) -> str:
    """Open a page."""
    return f"page {n}"


@tool
def note(text: str, state: State) -> str:
    """Write a note."""
    state["notes"].append(text)
    return "noted"


@policy
def no_shouting(call, state: State) -> bool:
    return call.name == "note" and call.arguments["text"].isupper()


@policy
def no_names(call, state: State) -> bool:
    return call.name == "note" and "ADA" in call.arguments["text"]
'''
CATS = ("search", {"q": "cats", "k": 3})
DOGS = ("search", {"q": "dogs", "k": 3})
MISS = ("search", {"q": "cats", "k": 5})


def pages(n):
    return [("open_page", {"n": number}) for number in range(n)]


def task(id_, *gold):
    calls = [{"name": name, "arguments": arguments} for name, arguments in gold]
    return {"id": id_, "prompt": "Search.", "gold": calls, "goal": {"type": "calls", "spare": 50}}


def said(*calls):
    return "".join(
        "<tool_call>" + json.dumps({"name": name, "arguments": arguments}) + "</tool_call>" for name, arguments in calls
    )


@pytest.fixture
def env(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("desk.py").write_text(TOOLS)
    write(task("one", CATS), task("two", CATS, DOGS))
    tasks = {"type": "tool_tasks", "file": "tasks.jsonl", "held_out": 0}
    with turngate.make("turngate/ToolUse-v1", tools="desk.py", tasks=tasks) as made:
        yield made


def played(env, id_, *turns):
    """The record of an episode that ends with ``answer`` after these turns."""
    env.reset(seed=0, options={"task": id_})
    facts = []
    for turn in (*turns, "answer"):
        info = env.step(turn)[4]
        facts += info["evidence"]
    return Record(task_id=id_, n_turns=len(turns) + 1, ending=Ending.FINISHED, evidence=tuple(facts))


def values(record, name):
    return [(fact.turn, fact.value) for fact in record.evidence if fact.name == name]


def paid(record, reward):
    return Rubric(rewards=(reward,)).score(record).total


@pytest.mark.parametrize(
    ("turns", "published", "ours"),
    [
        ([said(MISS)], 2.5, 1 + 6 * (1 + 1 + 1 / 2) / 3 - 3),
        ([said(CATS)], 4.0, 4.0),
        ([said(CATS, *pages(1))], 3.25, 1 + 6 / 2 - 3),
        ([said(CATS, *pages(7)), said(*pages(3))], 1 + 1.636364, 1 + 6 / 11 - 3),
        ([], -2.0, -2.0),
        (["search cats many", said(CATS)], -2.0, 1 + 6 / 2 - 3),  # one call that could not be read
    ],
)
def test_toolrl_of_an_episode(env, turns, published, ours):
    record = played(env, "one", *turns)
    assert paid(record, ToolRL(name="calls", faithful=True)) == pytest.approx(published, abs=1e-5)
    assert paid(record, ToolRL(name="calls")) == pytest.approx(ours)


@pytest.mark.parametrize(
    ("turn", "solved", "made", "published", "ours"),
    [
        (said(CATS, DOGS, *pages(1)), 2, 3, 1.0, 2 * 2 / (3 + 2)),
        (said(DOGS, MISS), 1, 2, 2 / 3, 2 / 3),
        (said(CATS, DOGS), 2, 2, 4 / 3, 1.0),
        (said(CATS, CATS), 1, 2, 2 / 3, 2 / 3),  # one gold call is solved once
        (said(MISS), 0, 1, 0.0, 0.0),
    ],
)
def test_ftrl_of_a_turn(env, turn, solved, made, published, ours):
    record = played(env, "two", turn)
    assert values(record, "n_calls") == [(0, made)]  # the turn with answer has none
    assert values(record, "n_solved") == [(0, solved)]
    done = FromEvidence(name="solved", evidence="solved", kind="outcome", weight=0.0, levels=(0, 1))
    for faithful, expected in ((True, published), (False, ours)):
        calls = FtrlCalls(name="turn", faithful=faithful, high=2.0)
        score = Rubric(rewards=(done, calls)).score(record)
        assert list(score.reward_T) == pytest.approx([expected, 0.0])


def test_calls_that_share_a_turn_count_once_each(env):
    record = played(env, "two", said(CATS, *pages(2)), said(DOGS))
    assert values(record, "matched") == [(0, True), (0, False), (0, False), (1, True)]
    assert values(record, "parsed") == [(0, True), (1, True), (2, True)]
    assert values(record, "distance") == [(0, 0), (1, 0), (2, 0)]
    assert values(record, "call_precision") == [(None, 2 / 4)]
    assert values(record, "call_completeness") == [(None, 1.0)]
    assert list(RUBRIC.score(record).reward_T) == pytest.approx([0.1 / 4, 0.1 / 4, 1.0])


def test_writes_and_reads_that_share_a_turn(env):
    record = played(env, "two", said(("note", {"text": "a"}), CATS, CATS), said(("note", {"text": "a"}), CATS))
    assert values(record, "needless_write") == [(0, True), (0, False), (0, False), (1, True), (1, False)]
    assert [value for _, value in values(record, "repeated")] == [False, False, True, False, False, False]
    assert values(record, "distance") == [(0, 2), (1, 3), (2, 3)]  # the empty list was a leaf, too


def test_each_broken_policy_is_a_fact_and_costs_once(env):
    record = played(env, "two", said(CATS, ("note", {"text": "ADA"})), said(("note", {"text": "LOUD"})))
    assert values(record, "policy_violation") == [(0, True), (0, True), (1, True)]
    assert RUBRIC.score(record).total == -1.0


def test_a_recorded_action_with_a_call_that_does_not_fit_keeps_the_facts_of_the_calls_before_it(env):
    env.reset(seed=0, options={"task": "two"})
    loud = ToolCall(name="note", arguments={"text": "LOUD"})
    info = env.step(Action(text="", calls=(loud, ToolCall(name="search", arguments={}))))[4]
    facts = {fact.name: fact.value for fact in info["evidence"]}
    assert facts["parsed"] is False
    assert facts["policy_violation"] is True


def test_the_nearest_gold_call_has_most_in_common():
    far, near = ToolCall(name="s", arguments={"x": 9, "y": 9}), ToolCall(name="s", arguments={"x": 1, "y": 1, "z": 1})
    mine = ToolCall(name="s", arguments={"x": 1, "y": 1})
    # far: both names and no value, 1 + 0; near: two of three names and values, 2/3 + 2/3
    assert likeness(mine, (far, near)) == likeness(mine, (near, far)) == (True, 2 / 3, 2 / 3)


def test_an_episode_without_calls_is_measured(env):
    record = played(env, "two")
    assert values(record, "calls") == [(None, [])]
    assert values(record, "call_quality") == [(None, 0.0)]
    score = RUBRIC.score(record)
    assert score.usable
    assert score.total == 0.0
