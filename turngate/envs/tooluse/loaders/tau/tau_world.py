"""The world of a tau task: tools and tables of a checkout, and a simulated user with free instructions."""

from __future__ import annotations

import copy
import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from turngate.envs.tooluse.engine.world import CallReply, OpenWorld, ToolWorld
from turngate.envs.tooluse.facts import OF_TALKS
from turngate.envs.tooluse.generated.domains.domain_world import SAY
from turngate.envs.tooluse.generated.domains.mood import BEGIN, emotion_after, mood
from turngate.envs.tooluse.generated.domains.talk import ENDINGS, Exchange, UserSheet
from turngate.envs.tooluse.generated.domains.users import LiveUser, ScriptedUser, SimulatedUser
from turngate.envs.tooluse.loaders.tau.copy_on_write import Holder, Place, Tables
from turngate.envs.tooluse.loaders.tau.graded import state_of
from turngate.errors import ConfigError
from turngate.problems import one_line
from turngate.tools.tool import Tool, named_apart
from turngate.types import JSON, ToolCall

MOST_SUM = 200
"""Most characters of an expression for the calculator: the checkouts evaluate it as Python."""


class KitCall(BaseModel):
    """A function of the toolkit that a task calls before it begins, or to see whether an assertion holds."""

    model_config = ConfigDict(frozen=True)
    func_name: str
    arguments: Mapping[str, object] = {}
    assert_value: bool = True


class TauStart(BaseModel):
    """How a task begins. ``data``: contents of its tables beside the domain's; ``setup``: calls after that."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    instructions: str = ""
    data: Mapping[str, object] | None = None
    setup: tuple[KitCall, ...] = ()
    assertions: tuple[KitCall, ...] = ()


class Toolkit(Protocol):
    """The tools of a checkout on tables of their own."""

    tools: tuple[Tool, ...]
    tables: Tables
    ends_with: frozenset[str]
    """Tools whose call ends the episode."""
    reads_count: bool
    """Whether changes by a tool that only reads count too; if not, the tables are not compared after it."""

    def begin(self, start: TauStart, rows: Mapping[Place, object] = MappingProxyType({})) -> None:
        """Put the tables into the state in which a task begins, or into that of ``rows`` (see ``Tables.snapshot``).

        Raises UserError for a state that does not fit.
        """
        ...

    def call(self, name: str, arguments: Mapping[str, object]) -> str:
        """The text of a call. Its exceptions are errors that the agent reads."""
        ...

    def holds(self, assertion: KitCall) -> bool:
        """Whether an assertion is met."""
        ...

    @property
    def holder(self) -> Holder:
        """The present tables."""
        ...


class TauWorld(ToolWorld):
    """Base of the worlds whose tools a checkout has. A subclass sets ``type`` and writes ``toolkit``."""

    user: SimulatedUser = ScriptedUser()
    """The simulated user: a model, or "nobody" for replaying gold calls."""

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError for a user who cannot play instructions."""
        needs_instructed(self.user)

    @property
    def outside(self) -> str:
        return self.user.outside

    @abstractmethod
    def toolkit(self) -> Toolkit:
        """The tools and the tables. Raises UserError for a checkout of another form."""

    def open(self) -> OpenWorld:
        return OpenTau(self.toolkit(), self.user.open())


def needs_instructed(user: SimulatedUser) -> None:
    """Raises ConfigError for a user who cannot play the instructions of a tau task."""
    if isinstance(user, ScriptedUser):
        raise ConfigError(
            'a scripted user cannot play the instructions of these tasks; write user = {type = "model", judge = …}, or '
            'user = "nobody" to replay gold calls'
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _SavedDesk:
    start: TauStart
    rows: Mapping[Place, object]
    lines: tuple[Exchange, ...]
    emotion: int


class OpenTau:
    """An open tau world; see ``OpenWorld``. ``lenient``: a call that fails is no reason to refuse a task, since the
    originals let gold calls fail."""

    fork: Literal["exact", "none"] = "exact"
    knows_state = True
    evidence: Mapping[str, str] = OF_TALKS

    def __init__(self, toolkit: Toolkit, user: LiveUser, *, lenient: bool = False) -> None:
        self._toolkit, self._user, self._lenient = toolkit, user, lenient
        self.tools: tuple[Tool, ...] = named_apart((SAY, *toolkit.tools), "the checkout")
        self._start = TauStart()
        self._lines: tuple[Exchange, ...] = ()
        self._emotion = BEGIN
        self._state: JSON = None

    def start(self, initial: Mapping[str, object] | None) -> None:
        """See ``OpenWorld.start``. Raises ConfigError for a start of another form."""
        try:
            self._start = TauStart.model_validate(initial or {})
        except ValidationError as error:
            raise ConfigError(f"the task's state: {one_line(error, TauStart, initial)}") from None
        self._toolkit.begin(self._start)
        alike = self._start.data is None and not self._start.setup and not self._start.assertions
        self._state = state_of({}, []) if alike else None
        self._lines, self._emotion = (), BEGIN

    def call(self, tool: Tool, arguments: Mapping[str, object], call: ToolCall) -> CallReply:
        """See ``OpenWorld.call``. Arguments are handed over as the agent wrote them where they mean the same."""
        if tool.name == SAY.name:
            return self._speak(str(arguments["text"]))
        if _sum_too_long(arguments):
            return CallReply(text="Error: this is too long to calculate, or has a power in it", ok=False)
        written = {name: copy.deepcopy(_written(call.arguments.get(name), value)) for name, value in arguments.items()}
        ends = tool.name in self._toolkit.ends_with
        if self._toolkit.reads_count or not tool.read_only:
            self._state = None
        try:
            text = self._toolkit.call(tool.name, written)
        except Exception as error:  # third-party code, whose error the agent's arguments may cause
            return CallReply(text=f"Error: {error}", ok=self._lenient, ends=ends)
        return CallReply(text=text, ok=self._lenient or not text.startswith("Error"), ends=ends)

    def state(self) -> JSON:
        """See ``OpenWorld.state`` and ``state_of``."""
        if self._state is None:
            self._state = self._compared()
        return self._state

    def talked(self) -> str:
        return json.dumps(self._lines)

    def rehearsal(self) -> OpenWorld:
        """See ``HoldsTalk``: the same tools and tables, in which calls may fail."""
        return OpenTau(self._toolkit, self._user, lenient=True)

    def save(self) -> object:
        rows = self._toolkit.tables.snapshot(self._toolkit.holder)
        return _SavedDesk(start=self._start, rows=rows, lines=self._lines, emotion=self._emotion)

    def load(self, saved: object) -> None:
        assert isinstance(saved, _SavedDesk)
        self._start, self._lines, self._emotion = saved.start, saved.lines, saved.emotion
        self._toolkit.begin(TauStart(), saved.rows)
        self._state = None

    def close(self) -> None:
        self._user.close()

    def _compared(self) -> JSON:
        held = [self._toolkit.holds(one) for one in self._start.assertions]
        return state_of(self._toolkit.tables.differences(self._toolkit.holder.plain()), held)

    def _speak(self, text: str) -> CallReply:
        heard = self._user.reply(UserSheet(wish="", instructions=self._start.instructions), self._lines, text)
        self._lines = (*self._lines, Exchange(text, heard.text))
        self._emotion = emotion_after(self._emotion, heard.change)
        facts = {"user_said": heard.text, "emotion": self._emotion, "mood": mood(self._emotion), **heard.facts}
        left = any(mark in heard.text for mark in ENDINGS)
        return CallReply(text=_without(heard.text, ENDINGS) or "(the user has left)", facts=facts, ends=left)


def _written(written: object, typed: object) -> object:
    """The agent's own value if it means the same as the typed one: tables keep 1 and 1.0 apart."""
    return written if written == typed else typed


def _sum_too_long(arguments: Mapping[str, object]) -> bool:
    expression = str(arguments.get("expression", ""))
    return "**" in expression.replace(" ", "") or len(expression) > MOST_SUM


def _without(text: str, marks: Sequence[str]) -> str:
    for mark in marks:
        text = text.replace(mark, "")
    return text.strip()
