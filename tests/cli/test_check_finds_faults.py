"""Faults of a user's own environment by which an agent could make episodes unusable at will: ``turngate check`` finds
each, and the same environment without the fault is fine."""

import json
from pathlib import Path

import pytest
import tomli_w

from tests.helpers.command_line import turngate

TOOLS = '''
import asyncio
from turngate import ToolCall, ToolError, tool
from turngate.envs.tooluse import State, policy

STATE = {{"orders": {{"A1": {{"status": "open"}}}}, "n": 1}}


@tool
def cancel(order: str, state: State) -> str:
    """Cancel an order."""
    {cancel}
    state["orders"].setdefault(order, {{}})["status"] = "cancelled"
    return "ok"


@tool
def multiply(times: int, state: State) -> str:
    """Multiply the number."""
    {multiply}
    state["n"] *= times
    return "ok"


@policy
def nothing_sent(call: ToolCall, state: State) -> bool:
    """Leave alone what was sent."""
    return call.name == "cancel" and {policy} == "sent"


def is_cancelled(state):
    return {check}
'''
SOUND = {
    "cancel": 'if order not in state["orders"]: raise ToolError("no such order")',
    "multiply": 'if not 0 < times < 9 or state["n"] > 99: raise ToolError("out of range")',
    "policy": 'state["orders"].get(call.arguments["order"], {}).get("status")',
    "check": 'state["orders"]["A1"]["status"] == "cancelled"',
}
GOLD = [{"name": "cancel", "arguments": {"order": "A1"}}, {"name": "multiply", "arguments": {"times": 2}}]
TASK = {
    "id": "a",
    "prompt": "Cancel A1, double n.",
    "gold": GOLD,
    "goal": {"type": "state", "check": "faulty_tools:is_cancelled", "free": ["orders", "n"]},
}
INLINE = "{tools = 'faulty_tools.py', tasks = {type = 'tool_tasks', file = 'tasks.jsonl', held_out = 0}}"
OWN = '''
import asyncio
import turngate
from turngate import Evidence, FromEvidence, Rubric, Task, ToolEnv, ToolError, TurnSpec, tool

RIGHT = FromEvidence(name="right", evidence="right", kind="outcome", levels=(0, 1))


def tasks():
    for split in ("train", "heldout"):
        yield Task(id=f"{{split}}/0", env_id="acme/Orders-v0", prompt=f"Take 3, then add 2 ({{split}}).", split=split)


class Orders(ToolEnv):
    turn_spec = TurnSpec(tasks=tasks, rubric=Rubric(rewards=(RIGHT,)), max_turns=70, has_oracle=True)

    def begin(self, task):
        self.taken, self.n = [], 1
        return task.prompt

    def state(self):
        return f"{{self.task.id}} {{self.taken}} {{self.n}}"

    @tool
    def take(self, what: str) -> str:
        """Take something."""
        {take}
        self.taken.append(what)
        return "taken"

    @tool
    def add(self, times: int) -> str:
        """Add."""
        {add}
        self.n *= times
        self.record("n", self.n)
        if times == 2:
            self.end()
        return "added"

    def verify(self):
        return [Evidence(name="right", value={verify})]

    def oracle(self, task):
        return ["take 3", "add 2"]


turngate.register("acme/Orders-v0", f"{{__name__}}:Orders", description="orders")
'''
SOUND_OWN = {
    "take": 'if what not in "123": raise ToolError("only 1 to 3")',
    "add": 'if abs(times) > 9: raise ToolError("at most 9")',
    "verify": 'self.taken == ["3"] and self.n == 2',
}


def checked(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    code = turngate("check", *words, "--episodes=1")
    return code, capsys.readouterr().out


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ({}, ""),
        (
            {"policy": 'state["orders"][call.arguments["order"]]["status"]'},
            "error: [own_code] policy 'nothing_sent' of 'faulty_tools.py' raised KeyError: '???' for the call cancel",
        ),
        (
            {"cancel": "state['orders'].pop('A1') if order != 'A1' else None"},
            "error: [own_code] the goal's check 'faulty_tools:is_cancelled' raised KeyError: 'A1' for a state",
        ),
        ({"multiply": "pass"}, 'error: [growth] the call {"name": "multiply"'),
        *(
            (
                {"cancel": f"if order != 'A1': raise {error}"},
                f"error: [own_code] tool 'cancel' of 'faulty_tools.py' raised {told}, which ends programs",
            )
            for error, told in [
                ("SystemExit('no')", "SystemExit: no"),
                ("KeyboardInterrupt", "KeyboardInterrupt"),
                ("GeneratorExit", "GeneratorExit"),
                ("asyncio.CancelledError", "CancelledError"),
            ]
        ),
    ],
)
def test_faults_of_tools_of_ones_own(fault, found, home, capsys):
    (home / "faulty_tools.py").write_text(TOOLS.format(**SOUND | fault))
    (home / "tasks.jsonl").write_text(json.dumps(TASK) + "\n")
    code, out = checked(capsys, "turngate/ToolUse-v1", "--kwargs", INLINE)
    assert code == (1 if found else 0), out
    assert found in out


def test_tools_of_ones_own_are_named_by_a_config_too(home, capsys):
    (home / "faulty_tools.py").write_text(TOOLS.format(**SOUND))
    (home / "tasks.jsonl").write_text(json.dumps(TASK) + "\n")
    tasks = {"type": "tool_tasks", "file": "tasks.jsonl", "held_out": 0}
    settings = {"id": "turngate/ToolUse-v1", "kwargs": {"tools": "faulty_tools.py"}, "tasks": tasks}
    (home / "c.toml").write_text(tomli_w.dumps({"env": settings, "warm_start": {"episodes": 2}}))
    assert checked(capsys, "turngate/ToolUse-v1", "--config=c.toml")[0] == 0
    assert turngate("play", "turngate/ToolUse-v1", "--oracle", "--config=c.toml") == 0
    assert "multiply" in capsys.readouterr().out
    assert turngate("play", "turngate/ToolUse-v1", "--oracle", "--kwargs", INLINE) == 0
    assert "FINISHED" in capsys.readouterr().out.upper()
    assert turngate("check", "turngate/Sql-v1", "--config=c.toml") == 2
    assert "unknown environment of 'c.toml' 'turngate/Sql-v1'" in capsys.readouterr().err
    assert turngate("check", "turngate/ToolUse-v1", "--config=c.toml", "--kwargs", INLINE) == 2
    assert "--kwargs has no effect with --config" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fault", "rule", "found"),
    [
        ({}, "", ""),
        (
            {"verify": "[int(one) for one in self.taken] == [3]", "take": "pass"},
            "arguments",
            "leaves behind what cannot be measured",
        ),
        ({"take": 'self.n = {"1": 1, "2": 1, "3": 1}[what]'}, "arguments", "raised EnvError"),
        ({"add": "pass"}, "growth", "made again and again"),
        ({"take": "if what != '3': raise KeyboardInterrupt"}, "arguments", "KeyboardInterrupt"),
        ({"take": "if what != '3': raise SystemExit(0)"}, "arguments", "SystemExit: 0"),
        ({"take": "if what != '3': raise asyncio.CancelledError"}, "arguments", "CancelledError"),
        ({"add": "if times < 0: raise GeneratorExit"}, "arguments", "GeneratorExit"),
    ],
)
def test_faults_of_an_environment_of_ones_own(fault, rule, found, home, capsys, monkeypatch):
    name = f"orders_{abs(hash(str(fault)))}"
    (home / f"{name}.py").write_text(
        OWN.format(**SOUND_OWN | fault).replace("acme/Orders", f"acme/{name.title().replace('_', '')}")
    )
    code, out = checked(capsys, f"{name}:acme/{name.title().replace('_', '')}-v0")
    assert code == (1 if found else 0), out
    assert f"[{rule}]" in out or not rule
    assert found in out
