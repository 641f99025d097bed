"""A domain as a world of tools: tables, rules, tools on the tables, and a user to talk with.

A domain is a Python module with functions that are marked with ``tool`` and ``policy`` (see ``python_world.py``) and,
if its rows shall be checked, ``ENTITIES``: table → pydantic model of its rows. The docstrings of the policies are the
rules that an agent is told. A call that breaks one is carried out, and loses the episode.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeVar, cast

from pydantic import BaseModel, ValidationError

from turngate.envs.tooluse.engine.python_world import PythonTools, tools_module
from turngate.envs.tooluse.engine.states import leaves
from turngate.envs.tooluse.engine.world import CallReply, OpenWorld, ToolWorld
from turngate.envs.tooluse.facts import OF_TALKS
from turngate.envs.tooluse.generated.domains.mood import BEGIN, emotion_after, mood, walks_away
from turngate.envs.tooluse.generated.domains.talk import Exchange, UserSheet
from turngate.envs.tooluse.generated.domains.users import LiveUser, ScriptedUser, SimulatedUser
from turngate.errors import ConfigError
from turngate.problems import one_line
from turngate.rewards.outcome.normal_form import one_form
from turngate.tools.tool import Tool, named_apart, tool, tool_of
from turngate.types import JSON, ToolCall

Model = TypeVar("Model", bound=BaseModel)


@tool(read_only=True)
def say(text: str) -> str:
    """Say something to the user, and hear what they reply.

    Args:
        text: what you say, such as a question
    """
    raise NotImplementedError(text)  # the world replies


SAY = tool_of(say)


class DomainWorld(ToolWorld):
    """The tables, rules and tools of a domain, and a user to talk with."""

    type: Literal["domain"] = "domain"
    module: str
    """The domain, as package.module or as a file."""
    user: SimulatedUser = ScriptedUser()
    """The simulated user."""

    @property
    def outside(self) -> str:
        return self.user.outside

    def open(self) -> OpenWorld:
        inner = PythonTools(module=self.module).open()
        return OpenDomain(inner, getattr(tools_module(self.module), "ENTITIES", {}), self.user)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Saved:
    inner: object
    sheet: UserSheet
    lines: tuple[Exchange, ...]
    emotion: int


class OpenDomain:
    """An open domain; see ``OpenWorld``. The entry "user" of a task's state is the sheet of its user.

    The conversation is no part of the state: it does not change the tables.
    """

    fork: Literal["exact", "none"] = "exact"
    knows_state = True
    evidence: Mapping[str, str] = OF_TALKS

    def __init__(self, inner: OpenWorld, entities: Mapping[str, type[BaseModel]], user: SimulatedUser) -> None:
        self._inner, self._entities, self._user = inner, entities, user
        self._talker: LiveUser = user.open()
        self.tools: tuple[Tool, ...] = named_apart((SAY, *inner.tools), "the domain")
        self._sheet = UserSheet(wish="")
        self._lines: tuple[Exchange, ...] = ()
        self._emotion = BEGIN

    def start(self, initial: Mapping[str, object] | None) -> None:
        """See ``OpenWorld.start``. Raises ConfigError for rows and sheets that do not fit."""
        tables = dict(initial or {})
        self._sheet = _fitting(UserSheet, tables.pop("user", {"wish": ""}), "the user")
        for table, entity in self._entities.items():
            rows = tables.get(table)
            if not isinstance(rows, Mapping):
                raise ConfigError(f"the state has no table '{table}'")
            checked = {str(key): _fitting(entity, row, f"{table}.{key}") for key, row in rows.items()}
            tables[table] = {key: row.model_dump(mode="json") for key, row in checked.items()}
        self._inner.start(tables)
        self._lines, self._emotion = (), BEGIN

    def call(self, tool: Tool, arguments: Mapping[str, object], call: ToolCall) -> CallReply:
        if tool.name == SAY.name:
            return self._speak(str(arguments["text"]))
        # rules look at the call too, and must find the same row as the tool
        told = cast("Mapping[str, JSON]", self._named(call.arguments))
        return self._inner.call(tool, self._named(arguments), replace(call, arguments=told))

    def state(self) -> JSON:
        """See ``OpenWorld.state``: the tables."""
        return self._inner.state()

    def talked(self) -> str:
        return json.dumps(self._lines)

    def rehearsal(self) -> OpenWorld:
        """See ``HoldsTalk``: the same domain with a scripted user."""
        return self if isinstance(self._user, ScriptedUser) else OpenDomain(self._inner, self._entities, ScriptedUser())

    def save(self) -> object:
        return _Saved(inner=self._inner.save(), sheet=self._sheet, lines=self._lines, emotion=self._emotion)

    def load(self, saved: object) -> None:
        assert isinstance(saved, _Saved)
        self._inner.load(saved.inner)
        self._sheet, self._lines, self._emotion = saved.sheet, saved.lines, saved.emotion

    def close(self) -> None:
        self._talker.close()
        self._inner.close()

    def _named(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """Arguments with texts in one form of their letters; one that names something in the tables as it stands there.

        So a name is found in any form of its letters, and stored texts do not depend on that form.
        """
        if all(not isinstance(value, str) or value.isascii() for value in arguments.values()):
            return arguments
        found = leaves(self._inner.state())
        names = {step for path in found for step in path} | {leaf for leaf in found.values() if isinstance(leaf, str)}
        plain = {one_form(name): name for name in names}
        return {
            key: value if not isinstance(value, str) or value in names else plain.get(one_form(value), one_form(value))
            for key, value in arguments.items()
        }

    def _speak(self, text: str) -> CallReply:
        if walks_away(self._emotion):
            return CallReply(text="error: the user has left", ok=False)
        heard = self._talker.reply(self._sheet, self._lines, text)
        self._lines = (*self._lines, Exchange(text, heard.text))
        self._emotion = emotion_after(self._emotion, heard.change)
        facts = {"user_said": heard.text, "emotion": self._emotion, "mood": mood(self._emotion), **heard.facts}
        return CallReply(text=heard.text, facts=facts)


def _fitting(model: type[Model], data: object, what: str) -> Model:
    """Raises ConfigError."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"{what}: {one_line(error, model, data)}") from None
