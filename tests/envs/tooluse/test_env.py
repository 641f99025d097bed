"""``turngate/ToolUse-v1`` turn by turn: what the agent reads, which evidence is measured, what is paid."""

import json

import pytest

import turngate
from tests.envs.tooluse.lamps import ASKED, LIT, write
from turngate.envs.check.check_env import check_env
from turngate.errors import ConfigError
from turngate.types import Ending

ID = "turngate/ToolUse-v1"
FILE = {"type": "tool_tasks", "file": "tasks.jsonl", "held_out": 0}


def make(**settings):
    return turngate.make(ID, **{"tools": "lamps.py", "tasks": FILE} | settings)


def played(env, task, *actions):
    """The info of the last step, with the facts of each step under "turns"."""
    env.reset(seed=0, options={"task": task})
    turns = []
    for action in actions:
        observation, _, terminated, truncated, info = env.step(action)
        turns.append([(fact.name, fact.value) for fact in info["evidence"] if fact.by == "env"])
        if terminated or truncated:
            break
    if not (terminated or truncated):
        _, info = env.finish(Ending.TIME_BUDGET)
    return {fact.name: fact.value for fact in info["evidence"]}, info["score"], turns, observation.text


def call(name, **arguments):
    return "<tool_call>" + json.dumps({"name": name, "arguments": arguments}) + "</tool_call>"


def test_the_checker_finds_nothing_with_tools_of_ones_own(home):
    with make() as env:
        assert [str(finding) for finding in check_env(env)] == []


def test_what_the_agent_sees_first(home):
    with make() as env:
        observation, info = env.reset(options={"task": "lit"})
        assert observation.text == (
            "tools: look LAMP | switch LAMP ON | buy LAMP | throw_away LAMP | answer [TEXT]\nLight the hall."
        )
        names = [schema["function"]["name"] for schema in info["tools"]]
        assert names == ["look", "switch", "buy", "throw_away", "answer"]
        switch = info["tools"][1]["function"]["parameters"]
        assert switch["properties"]["on"] == {"description": "on or off", "type": "boolean"}
        assert "state" not in switch["properties"]


def test_the_oracle_solves_every_task_and_is_paid_in_full(home):
    with make() as env:
        assert list(env.oracle(env.tasks.find("lit"))) == ["switch hall true", "answer"]
        assert list(env.oracle(env.tasks.find("asked"))) == ["look cellar", "answer on"]
        for task in ("lit", "asked"):
            facts, score, _, _ = played(env, task, *env.oracle(env.tasks.find(task)))
            assert (facts["solved"], facts["frame_kept"], facts["call_quality"]) == (True, True, 1.0)
            assert score.total == pytest.approx(1.1)


def test_the_facts_of_a_turn(home):
    with make() as env:
        facts, score, turns, _ = played(
            env,
            "lit",
            "look hall",
            "look hall",
            "switch hall false",
            "buy porch",
            "switch nowhere true",
            "switch hall true",
            "answer",
        )
        by_turn = [dict(turn) for turn in turns]
        assert [turn["repeated"] for turn in by_turn] == [False, True, False, False, False, False, False]
        assert [turn["call_ok"] for turn in by_turn] == [True, True, True, True, False, True, True]
        assert [turn.get("wrote") for turn in by_turn] == [False, False, False, True, False, True, None]
        assert [turn.get("needless_write") for turn in by_turn] == [False, False, False, True, False, False, None]
        assert [turn.get("matched") for turn in by_turn] == [False, False, False, False, False, True, None]
        assert [turn.get("right_name") for turn in by_turn] == [False, False, True, False, True, True, None]
        assert [turn.get("right_arguments") for turn in by_turn] == [0.0, 0.0, 1.0, 0.0, 1.0, 1.0, None]
        assert [turn.get("right_values") for turn in by_turn] == [0.0, 0.0, 0.5, 0.0, 0.5, 1.0, None]
        assert [turn["distance"] for turn in by_turn] == [1, 1, 1, 2, 2, 1, 1]
        assert (facts["solved"], facts["frame_kept"]) == (False, False)
        assert facts["call_precision"] == pytest.approx(1 / 6)
        assert facts["call_completeness"] == 1.0
        assert score.total == 0.0


def test_a_broken_policy_costs_everything(home):
    with make() as env:
        facts, score, turns, _ = played(env, "lit", call("switch", lamp="cellar", on=False), "answer")
        assert ("policy_violation", True) in turns[0]
        assert not facts["solved"]
        assert score.total == -1.0


def test_several_calls_in_one_turn_are_carried_out_in_order(home):
    with make() as env:
        both = call("look", lamp="hall") + call("switch", lamp="hall", on=True) + call("look", lamp="hall")
        facts, score, turns, _ = played(env, "lit", both, "answer")
        assert [value for name, value in turns[0] if name == "tool"] == ["look", "switch", "look"]
        assert [value for name, value in turns[0] if name == "wrote"] == [False, True, False]
        assert [value for name, value in turns[0] if name == "repeated"] == [False, False, False]
        assert facts["solved"]
        assert score.outcome == 1.0


def test_results_and_descriptions_are_cut(home):
    (home / "lamps.py").write_text(
        'from turngate import tool\n\n@tool\ndef flood() -> str:\n    """'
        + "Words " * 100
        + '"""\n    return "x" * 10**6\n'
    )
    gold = [{"name": "flood"}]
    write(LIT | {"gold": gold, "goal": {"type": "calls"}})
    with make(max_chars=100, doc_chars=60) as env:
        _, _, _, text = played(env, "lit", "flood")
        assert text == "x" * 100 + "\n[… 999900 more characters …]"
        description = env.turn_spec.tools[0].description
        assert description.startswith("Words Words")
        assert description.endswith("more characters …]")


def test_a_snapshot_goes_on_in_another_environment(home):
    with make() as env, make() as other:
        env.reset(seed=0, options={"task": "lit"})
        env.step("look hall")
        snapshot = env.snapshot()
        env.step("throw_away hall")
        other.restore(snapshot)
        observation, _, _, _, info = other.step("look hall")
        assert observation.text == "off"
        assert dict((fact.name, fact.value) for fact in info["evidence"])["repeated"] is True
        other.step("switch hall true")
        assert other.step("answer")[4]["score"].outcome == 1.0


ODD = '''
import sys

from turngate import tool
from turngate.envs.tooluse import State


@tool
def keep(what: list, state: State) -> str:
    """Keep something."""
    state["kept"] = what
    return "kept"


@tool
def leave(code: int) -> str:
    """Leave."""
    sys.exit(code)
'''


def test_what_an_agent_makes_of_the_tools_is_no_reason_to_void_the_episode(home):
    (home / "lamps.py").write_text(ODD)
    write(LIT | {"gold": [{"name": "keep", "arguments": {"what": [1]}}]})
    deep = [1]
    for _ in range(80):
        deep = [deep]
    with make() as env:
        env.reset(seed=0, options={"task": "lit"})
        assert env.step("leave 3")[0].text == "error: SystemExit: 3"
        refused, *_, info = env.step(call("keep", what=deep))
        assert "nested" in refused.text
        assert info["ending"] is None


def test_equal_states_have_equal_keys(home):
    with make() as env:
        first, _ = env.reset(seed=0, options={"task": "lit"})
        keys = [env.step(action)[0].state_key for action in ("look hall", "switch hall true", "switch hall false")]
        assert keys[0] == first.state_key == keys[2] != keys[1]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tools": None}, "'tool_tasks' needs tools; write tools ="),
        ({"tools": "lamps.py", "tasks": None}, "tools has no effect with its own tasks, which bring tools"),
        ({"tools": "lamps.py", "tasks": {"type": "lending"}}, "tools has no effect with 'lending', which brings tools"),
        ({"tools": "nolamps.py"}, "nolamps.py: there is no such file of tools"),
        ({"tools": "no_lamps"}, "'no_lamps' cannot be imported"),
        ({"tools": "leaving.py"}, "'leaving.py' cannot be imported: SystemExit: 0"),
        ({"tools": "leaving"}, "'leaving' cannot be imported: SystemExit: 0"),
        ({"tools": {"type": "pyton"}}, "tools: unknown tool world type 'pyton'; did you mean 'python'"),
        ({"tools": {"module": "lamps"}}, "tools: a tool world needs a type"),
        ({"max_chars": 3}, "max_chars is 3; it must be at least 40"),
        ({"tasks": {"type": "lock"}}, "gives tasks of locks"),
    ],
)
def test_settings_that_do_not_go_together(home, settings, said):
    (home / "leaving.py").write_text("import sys\nsys.exit(0)\n")
    with pytest.raises((ConfigError, turngate.DataError), match=None) as raised:
        make(**settings)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_hints_say_less_than_the_calls(home):
    with make() as env:
        assert [env.hint(env.tasks.find("lit"), level) for level in (1, 2, 3)] == [
            "Use switch.",
            "Call switch(lamp, on).",
            None,
        ]
        assert ASKED["goal"]["answer"] in env.secrets(env.tasks.find("asked"))
