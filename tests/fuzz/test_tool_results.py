"""Whatever a user's tool returns, raises or leaves in the state, ``env.step`` answers, or names the owner of the fault.

1. What a tool of ``ToolUse-v1`` returns or raises is the answer of its call. Only a state that cannot be compared
   ends the episode: unusable, with the tool's name, because no words of the agent make it.
2. What a method of a ``ToolEnv`` raises, returns or records makes the episode unusable with its name, or is
   fine. Nothing raw, in no thread.
"""

import asyncio
import datetime
import decimal
import io
import json
import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import turngate
from tests.fuzz import odd_tools
from tests.fuzz.budget import examples
from tests.fuzz.texts import TEXTS
from turngate import ToolEnv, ToolError, TurnSpec, tool
from turngate.envs.tasks import TaskList
from turngate.errors import EnvError, EpisodeError
from turngate.rewards import FromEvidence, Rubric
from turngate.types import Ending, Evidence, Task


class Mute:
    def __str__(self):
        raise ValueError("no text")

    __repr__ = __str__


class Rude(Mute):
    """Its text ends the program."""

    def __str__(self):
        raise SystemExit(3)

    __repr__ = __str__


class Unsayable(Exception):
    __str__ = Mute.__str__
    __repr__ = Mute.__str__


class Liar(str):
    """A text that says that it is another."""

    def __str__(self):
        return self + "\0\ud800"


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)
ODD = [
    *({Mute(): 1}, 10**5000),
    *(Mute(), Rude(), Liar("a"), CIRCLE, io.BytesIO(b"x"), threading.Lock(), iter([1]), lambda: 1, type, object(), ...),
    *(b"\xff\0", bytearray(3), decimal.Decimal("NaN"), datetime.date(2024, 1, 2), 1j, {1: 2}, {"a": {3}}, {(1, 2): 3}),
    *(-(10**9999), math.nan, math.inf, np.float32(0.5), np.array([1.0, np.nan]), np.array(["a"]), np.int8(3)),
    *({Rude(): {}}, {1.5: float, "x": print}),
    *("a" * 300_000, "\ud800", "\0", "", (), [], {}, NotImplemented, range(3), [[[[]]]] * 40, Ellipsis),
]
ERRORS = [
    *(SystemExit(0), SystemExit("no"), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit(), MemoryError()),
    *(
        StopIteration(1),
        StopAsyncIteration(),
        Unsayable(),
        ToolError(Mute()),
        ToolError("\ud800"),
        ToolError(""),
        OSError(),
    ),
    *(
        RecursionError(),
        AssertionError(),
        UnicodeEncodeError("utf-8", "\ud800", 0, 1, "no"),
        KeyError(Mute()),
        Exception(),
    ),
    *(
        ExceptionGroup("g", [ValueError()]),
        BaseExceptionGroup("g", [KeyboardInterrupt()]),
        BaseException("b"),
        Warning(),
    ),
]


class Deed:
    """What a tool does with a value. Its text says which of ``ODD`` or ``ERRORS`` that is: some have no text."""

    def __init__(self, kind: str, value: Any = None, number: int | None = None) -> None:
        self.kind, self.value, self.number = kind, value, number
        if number is not None:
            self.value = ERRORS[number] if kind == "raise" else ODD[number]

    def __repr__(self) -> str:
        of = f"a {type(self.value).__name__}" if self.number is None else f"number {self.number}"
        return f"<{self.kind} {of}>"


DOINGS = st.sampled_from(["return", "keep", "record"])
DEEDS = st.one_of(
    st.integers(0, len(ERRORS) - 1).map(lambda number: Deed("raise", number=number)),
    st.tuples(DOINGS, st.integers(0, len(ODD) - 1)).map(lambda made: Deed(made[0], number=made[1])),
    st.tuples(DOINGS, st.one_of(TEXTS, st.floats(), st.integers())).map(lambda made: Deed(*made)),
)


class Odd(ToolEnv):
    """An environment whose only tool does what the test says."""

    turn_spec = TurnSpec(
        rubric=Rubric(rewards=(FromEvidence(name="done", evidence="done", kind="outcome", levels=(0, 1)),)), max_turns=3
    )
    deed = Deed("return", "")

    def begin(self, task: Task) -> str:
        return task.prompt

    @tool
    def do(self) -> str:
        """Do it."""
        kind, value = self.deed.kind, self.deed.value
        if kind == "raise":
            raise value
        if kind == "record":
            self.record("kept", value)
        return value if kind == "return" else "done"

    def verify(self):
        return [Evidence(name="done", value=True), Evidence(name="also", value=self.deed.value)]


def in_a_thread(play: Callable[[], None]) -> None:
    """Environments play in threads; in the main thread a KeyboardInterrupt is a person's."""
    raised: list[BaseException] = []

    def run():
        try:
            play()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    for error in raised:
        raise error


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    file = tmp_path_factory.mktemp("odd") / "tasks.jsonl"
    gold = [{"name": "do", "arguments": {"what": 0}}]
    file.write_text(json.dumps({"id": "a", "prompt": "Do.", "gold": gold, "goal": {"type": "state"}}) + "\n")
    tasks = {"type": "tool_tasks", "file": str(file), "held_out": 0}
    with turngate.make("turngate/ToolUse-v1", tools=odd_tools.__name__, tasks=tasks) as env:
        yield env


@examples(250)
@given(deed=DEEDS)
@example(deed=Deed("keep", number=0))  # the error did not name the tool
@example(deed=Deed("keep", number=1))  # voided the episode, although calls can make it so
def test_a_tool_of_a_world_answers_whatever_it_does(world, deed):
    def play():
        world.reset(seed=0)
        odd_tools.DEEDS[1] = deed.kind, deed.value
        try:
            seen, _, terminated, _, info = world.step("do 1")
        except EnvError as error:
            if deed.kind in ("return", "raise") or not str(error).startswith("after do: the state of the world "):
                raise
            return
        assert isinstance(seen.text, str)
        seen.text.encode()
        if not terminated:
            info = world.finish(Ending.TIME_BUDGET)[1]
        assert info["score"].usable

    in_a_thread(play)


@examples(250)
@given(deed=DEEDS)
def test_a_method_that_does_anything_leaves_a_typed_error_or_none(deed):
    def play():
        env = Odd(tasks=TaskList([Task(id="a", env_id="test/Odd-v0", prompt="Do.")]))
        env.deed = deed
        env.reset(seed=0)
        try:
            info = env.step("do")[4]
            assert info["ending"] is not None or env.finish(Ending.TIME_BUDGET)[1]["score"] is not None
        except EpisodeError as error:
            str(error).encode(errors="strict")
        env.close()

    in_a_thread(play)
