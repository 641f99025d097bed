"""On whose account an error goes: what no words of an agent can bring about voids the episode, what they bring about
does not."""

import json
import signal
import sys
import threading

import pytest

import turngate
from tests.envs.tooluse.lamps import write
from turngate.errors import ConfigError, EnvError
from turngate.types import Ending

TOOLS = '''
import asyncio
import datetime
import io

from turngate import ToolError, tool
from turngate.envs.tooluse import State, policy

STATE = {"orders": {"A1": {"status": "open"}}}


class Mute:
    def __str__(self):
        raise ValueError("no text")


class Unsayable(Exception):
    def __str__(self):
        raise ValueError("no text")

    __repr__ = __str__


@tool
def cancel(order: str, state: State) -> str:
    """Cancel an order."""
    state["orders"].setdefault(order, {})["status"] = "cancelled"
    return "ok"


@tool
def drop(order: str, state: State) -> str:
    """Drop an order."""
    del state["orders"][order]
    return "ok"


@tool
def stamp(order: str, state: State) -> str:
    """Note when."""
    state["orders"][order]["at"] = datetime.date(2024, 1, 2)
    return "ok"


@tool
def open_file(order: str, state: State) -> str:
    """Keep a file."""
    state["orders"][order]["file"] = io.BytesIO().getbuffer()
    return "ok"


@tool
def circle(order: str, state: State) -> str:
    """Hold itself."""
    state["orders"][order]["all"] = state
    return "ok"


@tool
def mute() -> str:
    """Return what has no text."""
    return Mute()


@tool
def leave(how: str) -> str:
    """Raise."""
    raise {
        "exit": SystemExit(0),
        "interrupt": KeyboardInterrupt(),
        "cancel": asyncio.CancelledError(),
        "stop": GeneratorExit(),
        "unsayable": Unsayable(),
        "refused": ToolError(Mute()),
        "iteration": StopIteration(),
        "memory": MemoryError(),
    }[how]


@policy
def no_sent_order(call, state: State):
    """Leave alone what was sent."""
    return call.name == "cancel" and state["orders"][call.arguments["order"]]["status"] == "sent"


def is_cancelled(state):
    return state["orders"]["A1"]["status"] == "cancelled"


def never_reads(state):
    return state["no such key"]
'''
CANCEL = {
    "id": "a",
    "prompt": "Cancel A1.",
    "gold": [{"name": "cancel", "arguments": {"order": "A1"}}],
    "goal": {"type": "state", "check": "owned_tools:is_cancelled"},
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "owned_tools.py").write_text(TOOLS)
    write(CANCEL)
    monkeypatch.delitem(sys.modules, "owned_tools", raising=False)
    return tmp_path


def make():
    return turngate.make(
        "turngate/ToolUse-v1", tools="owned_tools", tasks={"type": "tool_tasks", "file": "tasks.jsonl", "held_out": 0}
    )


def test_a_policy_that_raises_keeps_the_call_from_being_carried_out_and_voids_nothing(home, caplog):
    with make() as env:
        env.reset(seed=0, options={"task": "a"})
        seen, *_ = env.step("cancel ZZ")
        assert seen.text == "error: KeyError: 'ZZ'"
        assert "policy 'no_sent_order' of 'owned_tools' raised KeyError: 'ZZ'" in caplog.text
        env.step("cancel A1")
        assert env.step("answer")[4]["score"].outcome == 1.0, "ZZ was not made, so the frame was kept"


def test_dates_are_compared_as_texts(home):
    write(CANCEL | {"gold": [{"name": "stamp", "arguments": {"order": "A1"}}], "goal": {"type": "state"}})
    with make() as env:
        env.reset(seed=0, options={"task": "a"})
        env.step("stamp A1")
        assert env.step("answer")[4]["score"].outcome == 1.0


@pytest.mark.parametrize(
    ("tool", "said"), [("open_file", "a memoryview, which cannot be compared"), ("circle", "that holds itself")]
)
def test_a_state_that_no_words_bring_about_voids_the_episode_and_names_the_tool(home, tool, said):
    with make() as env:
        env.reset(seed=0, options={"task": "a"})
        with pytest.raises(EnvError, match=f"after {tool}: .*{said}"):
            env.step(f"{tool} A1")


def test_a_check_that_cannot_take_what_the_agent_left_says_no(home):
    with make() as env:
        env.reset(seed=0, options={"task": "a"})
        env.step("drop A1")
        info = env.step("answer")[4]
        assert (info["ending"], info["score"].outcome) == (Ending.FINISHED, 0.0)


def test_a_check_that_cannot_take_the_right_state_either_is_the_authors(home):
    write(CANCEL | {"goal": {"type": "state", "check": "owned_tools:never_reads"}})
    with pytest.raises(ConfigError, match=r"'owned_tools:never_reads' raised KeyError: 'no such key'"):
        make()


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("exit", "SystemExit: 0"),
        ("interrupt", "KeyboardInterrupt"),
        ("cancel", "CancelledError"),
        ("stop", "GeneratorExit"),
        ("unsayable", "Unsayable: <Unsayable, whose text cannot be made: ValueError>"),
        ("refused", "<ToolError, whose text cannot be made: ValueError>"),
        ("iteration", "StopIteration"),
        ("memory", "MemoryError"),
    ],
)
def test_whatever_a_tool_raises_is_the_answer_of_its_call(home, how, told):
    answers = []

    def play():  # environments play in threads; in the main thread a KeyboardInterrupt is a person's
        with make() as env:
            env.reset(seed=0, options={"task": "a"})
            answers.append(env.step(json.dumps({"name": "leave", "arguments": {"how": how}}))[0].text)

    thread = threading.Thread(target=play)
    thread.start()
    thread.join()
    assert answers == [f"error: {told}"]


def test_ctrl_c_of_a_person_is_raised_in_the_main_thread(home, request):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    with make() as env:
        env.reset(seed=0, options={"task": "a"})
        with pytest.raises(KeyboardInterrupt):
            env.step("leave interrupt")


def test_a_result_without_a_text_is_an_answer(home):
    with make() as env:
        env.reset(seed=0, options={"task": "a"})
        assert env.step("mute")[0].text == "<Mute, whose text cannot be made: ValueError>"
