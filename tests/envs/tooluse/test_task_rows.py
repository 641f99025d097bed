"""Tasks from JSON lines: each is tried out, and one that cannot be solved is refused with file and line."""

import pytest

import turngate
from tests.envs.tooluse.lamps import ASKED, LIT, SWITCH, write
from turngate.errors import UserError

LOOK = {"name": "look", "arguments": {"lamp": "hall"}}


def opened(**settings):
    tasks = {"type": "tool_tasks", "file": "tasks.jsonl", "held_out": 0} | settings
    return turngate.make("turngate/ToolUse-v1", tools="lamps.py", tasks=tasks)


def test_splits_and_first_states(home):
    rows = [LIT | {"id": str(n), "state": {"lamps": {"hall": False}, "n": n}} for n in range(40)]
    write(*rows, ASKED | {"split": "dev"})
    with opened(held_out=4) as env:
        assert set(env.tasks.splits) == {"train", "heldout", "dev"}
        assert 3 <= env.tasks.size("heldout") <= 20
        observation, _ = env.reset(options={"task": "7"})
        assert observation.text.endswith("\nLight the hall.")
        env.step("switch hall true")
        assert env._watch.state == {"lamps": {"hall": True}, "n": 7}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"gold": [{"name": "swich", "arguments": {}}]},
            "gold call 1 (swich): unknown tool 'swich'; did you mean switch",
        ),
        ({"gold": [{"name": "switch", "arguments": {"lamp": "hall"}}]}, "gold call 1 (switch): switch needs ON"),
        (
            {"gold": [SWITCH, {"name": "look", "arguments": {"lamp": "x"}}]},
            "gold call 2 (look) fails: error: no lamp 'x'",
        ),
        (
            {"gold": [{"name": "switch", "arguments": {"lamp": "cellar", "on": False}}]},
            "breaks the policy 'the_cellar_stays_lit'",
        ),
        ({"gold": [LOOK]}, "task 'lit': its goal holds although nothing was done"),
        ({"gold": []}, "its goal holds although nothing was done"),
        ({"goal": {"type": "state", "holds": {"lamps.hall": False}}}, "its gold calls do not meet its goal"),
        ({"goal": {"type": "state", "holds": {"lamps.hal": True}}}, "its gold calls do not meet its goal"),
        ({"goal": [{"type": "state"}, {"type": "no"}]}, "unknown goal type 'no'"),
        ({"goal": []}, "field 'goal': is empty"),
        ({"goal": None}, "a goal must be a table with a type"),
        ({"prompt": ""}, "field 'prompt': is empty"),
        ({"gold": [{"arguments": {}}]}, "field 'gold.0.name': is missing"),
        ({"extra": 1}, "field 'extra': is unknown"),
        ({"id": "asked"}, "the id 'asked' is used twice, first in line 1"),
        ({"state": {"lamps": {}}}, "gold call 1 (switch) fails: error: no lamp 'hall'"),
    ],
)
def test_a_task_that_cannot_be_used_is_named_by_its_line(home, change, said):
    write(ASKED, LIT | change)
    with pytest.raises(UserError) as raised:
        opened()
    assert str(raised.value).startswith("tasks: tasks.jsonl, line 2")
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_rest_loads_only_if_asked_for(home, caplog):
    write(LIT | {"gold": [LOOK]}, ASKED)
    with opened(refused="drop") as env:
        assert env.tasks.size("train") == 1
        assert [(one.id, one.line) for one in env.tasks.dropped] == [("lit", 1)]
    assert "dropped 1 of 2 tasks that cannot be solved" in caplog.text


def test_tools_that_do_not_always_do_the_same_are_refused(home):
    (home / "lamps.py").write_text(
        "import itertools\nfrom turngate import tool\nfrom turngate.envs.tooluse import State\n"
        "N = itertools.count()\nSTATE = {'n': 0}\n\n@tool\ndef count(state: State) -> str:\n"
        '    """Count."""\n    state["n"] = next(N) + 1\n    return "counted"\n'
    )
    write(LIT | {"gold": [{"name": "count"}]})
    with pytest.raises(UserError, match="do not always lead to the same state"):
        opened()


def test_a_tool_that_says_it_only_looks_and_does_not_is_refused(home):
    text = (home / "lamps.py").read_text()
    (home / "lamps.py").write_text(text.replace("@tool\ndef switch", "@tool(read_only=True)\ndef switch"))
    with pytest.raises(UserError, match=r"gold call 1 \(switch\) is marked as read-only, but it changes the state"):
        opened()


@pytest.mark.parametrize(("text", "said"), [("", "holds no tasks"), ("{", "line 1: is not JSON"), ("3\n", "line 1")])
def test_a_file_that_holds_no_tasks(home, text, said):
    (home / "tasks.jsonl").write_text(text)
    with pytest.raises(UserError) as raised:
        opened()
    assert said in str(raised.value)
