"""``ToolEnv``: an environment whose tools are its own methods, marked with ``@tool``.

    class Guess(ToolEnv):
        turn_spec = TurnSpec(rubric=RUBRIC, max_turns=5)

        def begin(self, task: Task) -> str:
            return task.prompt

        @tool
        def guess(self, number: int) -> str:
            \"\"\"Guess the number.\"\"\"
            found = number == self.task.private["number"]
            self.record("found", found)
            if found:
                self.end()
            return "found" if found else "no"

This class holds what such environments repeat: which method is called, arguments as the method takes them, what to tell
an agent that wrote something else, the facts that every call leaves, and the key of the state.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from turngate.envs.base import Outcome, Snapshot, TurnEnv
from turngate.errors import ConfigError, EnvError
from turngate.tools.arguments import BadArguments, typed
from turngate.tools.read import find, unknown
from turngate.tools.tool import Tool, is_tool, named_apart, tool_of
from turngate.types import JSON, Action, Evidence, Observation, Task, ToolCall

COMMON_FACTS = ("tool", "repeated", "call_ok")


class ToolError(Exception):
    """What the agent asked for cannot be done; the message is what it observes. Raised by a tool."""


class ToolEnv(TurnEnv):
    """An environment of methods. A subclass sets ``turn_spec``, whose ``tools`` are filled in, writes ``begin`` and its
    tools; also ``verify`` where the outcome is not known on the way, and ``state`` where states can be told apart.

    Raises ConfigError, when the class is defined, for two tools of one name and for what ``tool`` refuses.

    Every turn has the fact ``parsed``: the text was a call, written without a flaw. Every call has those of
    ``common_facts``: ``tool`` (its name), ``repeated`` (the same call in the same state once more) and ``call_ok``
    (False = it raised ToolError or called ``fail``); then come those that the tool recorded.
    """

    calls_per_turn: ClassVar[int] = 1
    """How many calls one turn may hold; they are carried out in order."""
    common_facts: ClassVar[tuple[str, ...]] = COMMON_FACTS
    refusals: ClassVar[tuple[type[Exception], ...]] = (ToolError,)
    """What its tools raise where they cannot do what was asked: the agent observes the message."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if strange := [name for name in cls.common_facts if name not in COMMON_FACTS]:
            raise ConfigError(f"{cls.__name__}.common_facts has '{strange[0]}'; there are {', '.join(COMMON_FACTS)}")
        if hasattr(cls, "turn_spec"):
            methods = _methods(cls)
            if taken := [name for name in methods if hasattr(ToolEnv, name)]:
                raise ConfigError(
                    f"the tool '{taken[0]}' of {cls.__name__} takes the place of a method that every environment has; "
                    f'call it otherwise and write @tool(name="{taken[0]}")'
                )
            cls._method_of = {one.name: name for name, one in methods.items()}
            cls.turn_spec = replace(cls.turn_spec, tools=named_apart(methods.values(), cls.__name__))

    _method_of: ClassVar[dict[str, str]] = {}

    # --- what a subclass writes ---------------------------------------------------------------------------------------

    def begin(self, task: Task) -> str:
        """Put the world of ``task`` in place; what the agent sees first."""
        raise NotImplementedError(f"{type(self).__name__} has no begin(task)")

    def state(self) -> str | None:
        """Tells states apart, for instance ``f"{self.task.id} {self.board}"``. None: unknown.

        Equal only where equal actions lead to equal ends, so the task is part of it.
        """
        return None

    def present(self, text: str) -> str:
        """An observation as the agent sees it, for instance shortened."""
        return text

    def refusal(self, problem: str) -> str:
        """What an agent sees of a call that could not be done."""
        return f"error: {problem}"

    def changed(self) -> Iterable[Evidence]:
        """Facts about the world after the calls of a turn."""
        return ()

    def verify(self) -> Iterable[Evidence]:
        """Nothing more than was recorded on the way; see ``TurnEnv.verify``."""
        return ()

    # --- what its tools use -------------------------------------------------------------------------------------------

    task: Task
    """The task that is played."""
    rng: np.random.Generator
    """The only randomness of an episode."""
    turn: int
    """Number of the turn, from 0; −1 before the first."""
    shown: str
    """The text of the observation that is being made; "" in ``begin``."""

    def record(self, name: str, value: JSON) -> None:
        """A fact about this turn."""
        known = type(value) in (bool, str)
        self._facts.append(_fact(name, value, self.turn) if known else Evidence(name=name, value=value, turn=self.turn))

    def end(self) -> None:
        """The episode ends with this call."""
        self._ended = True

    def fail(self) -> None:
        """The call did not do what was asked, although it has something to show: ``call_ok`` is False."""
        self._ok = False

    # --- the turn -----------------------------------------------------------------------------------------------------

    def start(self, task: Task, rng: np.random.Generator) -> Observation:
        """See ``TurnEnv.start``."""
        self.task, self.rng, self.turn, self.shown = task, rng, -1, ""
        self._done: set[str] = set()
        self._forget()
        text = self.begin(task)
        return Observation(text=text, state_key=self._state_key())

    def act(self, action: Action) -> Outcome:
        """See ``TurnEnv.act``."""
        self.turn += 1
        self._forget()
        problem = action.parse_error or self._too_many(action.calls)
        texts = [f"error: {problem}"] if problem else []
        self.record("parsed", not (problem or action.flaw))
        for call in () if problem else action.calls:
            texts.append(self._carry_out(call))
            if self._ended:
                break
        self.shown = self.present("\n\n".join(texts))
        if not problem:
            self._facts += self.changed()
        observation = Observation(text=self.shown, state_key=self._state_key())
        return Outcome(observation=observation, evidence=tuple(self._facts), done=self._ended)

    def restore(self, snapshot: Snapshot) -> None:
        """See ``TurnEnv.restore``."""
        super().restore(snapshot)
        self.task, self.rng = snapshot.episode.task, self.np_random

    def _forget(self) -> None:
        self._facts: list[Evidence] = []
        self._ended, self._ok = False, True

    def _too_many(self, calls: Sequence[ToolCall]) -> str:
        if 1 <= len(calls) <= self.calls_per_turn:
            return ""
        most = "exactly one" if self.calls_per_turn == 1 else f"1 to {self.calls_per_turn}"
        return f"{len(calls)} tool calls in one turn, none was carried out; write {most}"

    def _carry_out(self, call: ToolCall) -> str:
        """One call: what it has to say. Its facts stand before those that it records."""
        tool = find(call.name, self.turn_spec.tools)
        if tool is None:  # of a recorded action; what was read has been checked
            return self._refused(unknown(call.name, self.turn_spec.tools))
        try:
            arguments, _ = typed(tool, call.arguments)
        except BadArguments as error:
            return self._refused(str(error))
        place = len(self._facts)
        repeated = "repeated" in self.common_facts and self._repeated(call)
        self._ok = True
        try:
            text = getattr(self, self._method_of[tool.name])(**arguments)
        except self.refusals as error:
            self._ok, text = False, self.refusal(str(error))
        if not isinstance(text, str):
            raise EnvError(f"tool '{tool.name}' of {type(self).__name__} returned {text!r:.60}; it must be text")
        values = {"tool": tool.name, "repeated": repeated, "call_ok": self._ok}
        self._facts[place:place] = [_fact(name, values[name], self.turn) for name in self.common_facts]
        return text

    def _refused(self, problem: str) -> str:
        self._facts = [_fact("parsed", False, self.turn)]
        return f"error: {problem}"

    def _repeated(self, call: ToolCall) -> bool:
        key = f"{self._state_key()}\x1f{call.name}\x1f{sorted(call.arguments.items())}"
        repeated = key in self._done
        self._done.add(key)
        return repeated

    def _state_key(self) -> str:
        state = self.state()
        if state is None:
            return ""
        return hashlib.blake2b(state.encode(errors="replace"), digest_size=8).hexdigest()


def _methods(cls: type) -> dict[str, Tool]:
    """Name of the method → its tool, of the class and those above it, in the order of definition."""
    namespace = vars(sys.modules.get(cls.__module__, inspect))
    found: dict[str, Tool] = {}
    for owner in reversed(cls.__mro__):
        for name, member in vars(owner).items():
            if is_tool(member):
                found[name] = tool_of(member, namespace)
            elif name in found:  # overridden by something that is no tool
                del found[name]
    return found


@lru_cache(maxsize=4096)
def _fact(name: str, value: Any, turn: int) -> Evidence:
    """Facts are many and few are different. For bools and texts, which no other value is equal to."""
    return Evidence(name=name, value=value, turn=turn)
