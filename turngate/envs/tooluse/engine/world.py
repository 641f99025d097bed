"""Worlds of tools, on which an agent's tools act, and the part by which a config names one.

A world is opened once for each environment and starts again with every episode. A new kind of world takes two classes:
the world, and a ``ToolWorld`` that opens it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol, runtime_checkable

from turngate.parts import Part
from turngate.tools.tool import Tool
from turngate.types import JSON, ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class CallReply:
    """The result of one call. ``ok``: whether it did what it was asked. ``violations``: the policies that it broke."""

    text: str
    ok: bool = True
    violations: tuple[str, ...] = ()
    facts: Mapping[str, JSON] = field(default_factory=dict)
    """Further facts that are recorded about the call, name → value."""
    ends: bool = False
    """Whether the episode is over with this call, for instance because the user has left."""
    wrote: bool | None = None
    """Whether it changed something; None: as the states say, or, where those are not known, the mark of the tool."""


class OpenWorld(Protocol):
    """Tools and what they act on. One episode at a time; calls come one after another."""

    tools: tuple[Tool, ...]
    """The tools that the agent can call."""
    fork: Literal["exact", "none"]
    """Whether ``save`` and ``load`` copy its state."""
    knows_state: bool
    """Whether ``state`` gives the state; then the gold calls of each task are played beforehand."""

    def start(self, initial: Mapping[str, object] | None) -> None:
        """Begin an episode in the state ``initial``; None: in the world's own first state.

        Raises UserError for a state that does not fit the world, EnvError where it cannot be set up.
        """
        ...

    def call(self, tool: Tool, arguments: Mapping[str, object], call: ToolCall) -> CallReply:
        """Carry out ``call``, whose arguments are given once more in the types of ``tool``.

        A call that cannot be done gives a CallReply that says so. Raises EnvError where the world itself broke.
        """
        ...

    def state(self) -> JSON:
        """The present state, as a value that later calls do not change; None where it cannot be known."""
        ...

    def save(self) -> object:
        """A copy of the state for ``load``; only where ``fork`` is "exact"."""
        ...

    def load(self, saved: object) -> None:
        """Return to a saved state, also that of another world which the same part opened."""
        ...

    def close(self) -> None:
        """Free the world's resources. Safe to repeat."""
        ...


@runtime_checkable
class HoldsTalk(Protocol):
    """A world with a simulated user."""

    def talked(self) -> str:
        """The conversation so far. It is no part of the state, but later replies depend on it."""
        ...

    def rehearsal(self) -> OpenWorld:
        """A world to try gold calls out in, where no model is asked. It may be the same one; ``start`` follows."""
        ...


@runtime_checkable
class DeclaresEvidence(Protocol):
    """A world that records facts of its own and says so, so that a rubric may read them (see ``TurnSpec``)."""

    evidence: Mapping[str, str]
    """Name of each fact → its meaning in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSays:
    """The user's next message when the agent ends a turn of its user. ``over``: the user has nothing more to say."""

    text: str
    over: bool = False
    facts: Mapping[str, JSON] = field(default_factory=dict)
    """Facts that are recorded about the turn that ended, name → value."""


@runtime_checkable
class LeadsTurns(Protocol):
    """A world whose user speaks turn by turn: a text of the agent without a call ends a turn, and the next message of
    the user is the observation. It grades the episode itself, and ``tools`` are those that are on offer now."""

    every: tuple[Tool, ...]
    """All tools that are ever on offer: a text that begins with the name of one is a call, even a malformed one."""

    def end_turn(self) -> UserSays:
        """The agent is done with this turn of the user."""
        ...

    def may_go_on(self) -> bool:
        """Count one more turn of the agent; False: the user gives up."""
        ...

    def key(self) -> str:
        """A text that is equal for equal states."""
        ...

    def measured(self) -> Mapping[str, JSON]:
        """Facts about the episode so far, name → value; "solved" is one."""
        ...

    def lines(self, initial: Mapping[str, object]) -> Sequence[Sequence[ToolCall]]:
        """The gold calls of a task that begins in the state ``initial``, turn by turn of the user."""
        ...


class ToolWorld(Part):
    """A world of tools as a config names it. A subclass sets ``type``, declares its settings and writes ``open``."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "tool world"
    shipped_in: ClassVar[tuple[str, ...]] = (
        "turngate.envs.tooluse.engine.python_world",
        "turngate.envs.tooluse.engine.mcp_world",
        "turngate.envs.tooluse.generated.domains.domain_world",
        "turngate.envs.tooluse.loaders.bfcl.desk",
        "turngate.envs.tooluse.loaders.tau.tau_bench",
        "turngate.envs.tooluse.loaders.tau.tau2_bench",
    )

    @property
    def outside(self) -> str:
        """The outside source of the answers to calls, in words; "" where equal calls lead to equal results."""
        return ""

    @abstractmethod
    def open(self) -> OpenWorld:
        """The world. Raises UserError where there is none by these settings."""
