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

This class does what all such environments need: it finds the method of a call, converts its arguments to the types of
the method, answers calls that cannot be read, records facts about each call, and makes the key of the state.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from turngate.envs.base import Outcome, Snapshot, TurnEnv
from turngate.envs.glossary import meanings
from turngate.errors import ConfigError, EnvError
from turngate.tools.arguments import BadArguments, convert_arguments
from turngate.tools.read import find, unknown
from turngate.tools.tool import Tool, is_tool, named_apart, tool_of
from turngate.types import JSON, Action, Evidence, Observation, Task, ToolCall

COMMON_FACTS = ("tool", "repeated", "call_ok")
KNOWN_FACTS = (*COMMON_FACTS, "action_key")


class ToolError(Exception):
    """Raised by a tool that cannot do what the agent asked for; the agent sees the message."""


class ToolEnv(TurnEnv):
    """An environment whose tools are methods. A subclass sets ``turn_spec`` (its ``tools`` are filled in), and writes
    ``begin`` and its tools. It also writes ``verify`` if the outcome is measured at the end, and ``state`` if its
    states can be told apart.

    Raises ConfigError, when the class is defined, for two tools of one name and for what ``tool`` refuses.

    Each turn has the fact ``parsed``: whether the text was a call without a flaw. Each call has the facts named in
    ``common_facts``: ``tool`` (its name), ``repeated`` (whether the same call was made before in the same state),
    ``call_ok`` (False if it raised ToolError or called ``fail``) and ``action_key`` (a text that is equal for equal
    calls). After them come the facts that the tool recorded.
    """

    calls_per_turn: ClassVar[int] = 1
    """Most calls in one turn; they are carried out in order. A turn with more is refused as a whole."""
    common_facts: ClassVar[tuple[str, ...]] = COMMON_FACTS
    """Which of the facts ``tool``, ``repeated``, ``call_ok`` and ``action_key`` are recorded for each call."""
    refusals: ClassVar[tuple[type[Exception], ...]] = (ToolError,)
    """Exceptions by which its tools say that they cannot do what was asked; the agent sees the message."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if strange := [name for name in cls.common_facts if name not in KNOWN_FACTS]:
            raise ConfigError(f"{cls.__name__}.common_facts has '{strange[0]}'; there are {', '.join(KNOWN_FACTS)}")
        if hasattr(cls, "turn_spec"):
            methods = _methods(cls)
            if taken := [name for name in methods if hasattr(ToolEnv, name)]:
                raise ConfigError(
                    f"the tool '{taken[0]}' of {cls.__name__} takes the place of a method that every environment has; "
                    f'call it otherwise and write @tool(name="{taken[0]}")'
                )
            cls._method_of = {one.name: name for name, one in methods.items()}
            declared, common = cls.turn_spec.evidence, meanings("parsed", *cls.common_facts)
            cls.turn_spec = replace(
                cls.turn_spec,
                tools=named_apart(methods.values(), cls.__name__),
                evidence=None if declared is None else {**common, **declared},
            )

    _method_of: ClassVar[dict[str, str]] = {}

    # --- what a subclass writes ---------------------------------------------------------------------------------------

    def begin(self, task: Task) -> str:
        """Prepare everything that ``task`` needs, and return what the agent sees first."""
        raise NotImplementedError(f"{type(self).__name__} has no begin(task)")

    def state(self) -> str | None:
        """A text that is equal for equal states, for instance ``f"{self.task.id} {self.board}"``; None if not known.

        Two states are equal only if the same actions lead to the same results, so the task is part of the text.
        """
        return None

    def present(self, text: str) -> str:
        """The text of an observation as the agent shall see it, for instance shortened."""
        return text

    def refusal(self, problem: str) -> str:
        """What the agent sees of a call that could not be carried out. ``problem``: the message of the exception."""
        return f"error: {problem}"

    def carry_out(self, tool: Tool, arguments: Mapping[str, object], call: ToolCall) -> str:
        """The text of one call, by the method of its tool. Override it for tools that are no methods.

        ``arguments``: those of ``call``, converted to the types of the tool.
        """
        text: str = getattr(self, self._method_of[tool.name])(**arguments)
        return text

    def changed(self) -> Iterable[Evidence]:
        """Facts about the state after the calls of a turn, recorded with those of the calls."""
        return ()

    def verify(self) -> Iterable[Evidence]:
        """No facts besides those that the tools recorded; see ``TurnEnv.verify``."""
        return ()

    # --- what its tools use -------------------------------------------------------------------------------------------

    task: Task
    """The task of the present episode."""
    rng: np.random.Generator
    """The random numbers of the episode; use no others, so that a seed repeats it."""
    turn: int
    """Number of the present turn, from 0; −1 before the first."""
    shown: str
    """The text of the present observation, for ``changed`` and ``state``; "" in ``begin``."""

    def record(self, name: str, value: JSON) -> None:
        """Record a fact (evidence) about this turn."""
        known = type(value) in (bool, int, str)
        self._facts.append(fact(name, value, self.turn) if known else Evidence(name=name, value=value, turn=self.turn))

    def end(self) -> None:
        """End the episode with this call."""
        self._ended = True

    def fail(self) -> None:
        """Record ``call_ok`` as False for this call, although it returns a text: it did not do what was asked."""
        self._ok = False

    # --- the turn -----------------------------------------------------------------------------------------------------

    def start(self, task: Task, rng: np.random.Generator) -> Observation:
        self.task, self.rng, self.turn, self.shown = task, rng, -1, ""
        self._done: set[str] = set()
        self._forget()
        text = self.begin(task)
        return Observation(text=text, state_key=self._state_key())

    def act(self, action: Action) -> Outcome:
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
        """Carry out one call and return its text. Its common facts come before those that the tool records."""
        tool = find(call.name, self.turn_spec.tools)
        if tool is None:  # of a recorded action; parsed calls have been checked
            return self._refused(unknown(call.name, self.turn_spec.tools))
        try:
            arguments, _ = convert_arguments(tool, call.arguments)
        except BadArguments as error:
            return self._refused(str(error))
        place = len(self._facts)
        repeated = "repeated" in self.common_facts and self._repeated(call)
        self._ok = True
        try:
            text = self.carry_out(tool, arguments, call)
        except self.refusals as error:
            self._ok, text = False, self.refusal(str(error))
        if not isinstance(text, str):
            raise EnvError(f"tool '{tool.name}' of {type(self).__name__} returned {text!r:.60}; it must be text")
        values = {"tool": tool.name, "repeated": repeated, "call_ok": self._ok}
        if "action_key" in self.common_facts:
            values["action_key"] = _key_of(call)
        self._facts[place:place] = [fact(name, values[name], self.turn) for name in self.common_facts]
        return text

    def _refused(self, problem: str) -> str:
        self._facts[0] = fact("parsed", False, self.turn)  # the facts of calls before it in the turn stay
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


def _key_of(call: ToolCall) -> str:
    items = tuple(sorted(call.arguments.items()))
    is_text = all(type(value) is str for _, value in items)  # 1 equals True, but is spelled otherwise
    return _spelled_key(call.name, items) if is_text else _spelled_key.__wrapped__(call.name, items)


@lru_cache(maxsize=4096)
def _spelled_key(name: str, items: tuple[tuple[str, object], ...]) -> str:
    spelled = json.dumps([name, dict(items)], sort_keys=True)
    return hashlib.blake2b(spelled.encode(), digest_size=8).hexdigest()


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


@lru_cache(maxsize=4096, typed=True)  # 1 equals True, but is another value
def fact(name: str, value: bool | int | str, turn: int) -> Evidence:
    """A fact about a turn, made once for each different value, because few differ."""
    return Evidence(name=name, value=value, turn=turn)
