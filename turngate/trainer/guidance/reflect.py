"""R3L: a failed episode is played again from the turn at which it went wrong, with a note of what went wrong there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from turngate.agents.branches import root
from turngate.agents.given import given_again
from turngate.agents.prefix_turns import PrefixTurns
from turngate.errors import ConfigError
from turngate.parts import import_object
from turngate.trainer.guidance.base import Guide, GuidePart, Helpers
from turngate.trainer.guidance.plan import Plan
from turngate.trainer.guidance.results import is_solved, unguided
from turngate.types import JSON, Guidance, ScoredGroup, Task, Trajectory

if TYPE_CHECKING:
    from turngate.config import Config

Reflection: TypeAlias = Callable[[Trajectory], tuple[int, str] | None]
"""The turn of a failed episode to try again from, and a note for it; None: there is nothing to say."""

_NOTE = "An earlier attempt went wrong from here on: it wrote '{action}', and {evidence} was {value}."


def retry_from(
    trajectory: Trajectory,
    turn: int,
    note: str,
    *,
    strip: bool,
    siblings: Sequence[Trajectory] = (),
    temperature: float | None = None,
) -> PrefixTurns:
    """The same episode up to ``turn``, then the policy goes on, with ``note`` before it.

    The environment begins as it did there, and its states are compared up to the pivot. ``siblings``: all episodes of
    the task, which a branch needs, because its environment began with another one. ``temperature``: see
    ``PrefixTurns``. Raises ValueError for a turn that the trajectory does not have, and for a branch without its
    parent.
    """
    known = {one.id: one for one in siblings}
    if trajectory.parent is not None and trajectory.parent[0] not in known:
        raise ValueError(f"'{trajectory.id}' branched off '{trajectory.parent[0]}'; give all siblings of the task")
    if not 0 <= turn < len(trajectory.turns):
        raise ValueError(f"turn {turn} to try again from; '{trajectory.id}' has {len(trajectory.turns)} turns")
    return PrefixTurns(
        turns=tuple(map(given_again, trajectory.turns[:turn])),
        keys=tuple(one.observation.state_key for one in trajectory.turns[1 : turn + 1]),
        guidance=Guidance(
            kind="correction",
            level=turn,
            text=note,
            source="self",
            insert_turn=turn,
            strip_for_train=strip,
            joins=True,
        ),
        parent=(trajectory.id, turn),
        seed=root(trajectory, known).seed,
        temperature=temperature,
    )


class ReflectPart(GuidePart):
    """R3L: half of the siblings play, and each that fails is tried again from the turn at which it went wrong, with a
    note of what went wrong. Both are compared, from that turn on (credit "r3l").

    Source: https://arxiv.org/abs/2601.03715, where the policy writes the note and chooses the turn; here they follow
    from a fact that the environment records for each turn, or from a function of yours.
    """

    type: Literal["reflect"] = "reflect"
    branches: ClassVar[bool] = True
    evidence: str = ""
    """Name of a fact about single turns, for instance right_key: an episode is tried again from the first turn in which
    it was false, or a number below 0.5."""
    note: str = _NOTE
    """Text of the note, in which {action}, {evidence}, {value} and {turn} stand for what was written in that turn, the
    name of the fact, its value and the number of the turn."""
    writer: str = Field("", pattern=r"^$|:")
    """Instead of evidence: package.module:function, which takes the failed trajectory and returns the turn and the
    note, or None to leave it alone."""
    strip: bool = True
    """Whether the note is taken out of the context that is learned from, as in the paper."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if bool(self.evidence) == bool(self.writer):
            raise ValueError("give either evidence (the name of a fact about turns) or writer (a function)")
        if self.writer and self.note != _NOTE:
            raise ValueError("note has no effect: the writer writes it")
        if self.writer and not callable(import_object(self.writer)):
            raise ValueError(f"writer '{self.writer}' is not a function")
        try:
            self.note.format(action="", evidence="", value="", turn=0)
        except (KeyError, IndexError, ValueError) as error:
            raise ValueError(f"note can use {{action}}, {{evidence}}, {{value}}, {{turn}}; found {error}") from None
        return self

    def check_config(self, config: Config) -> None:
        group_size = config.train.group_size
        if group_size < 4:
            raise ConfigError(f"guide: half of {group_size} siblings play first; train.group_size must be at least 4")

    def open(self, helpers: Helpers) -> Reflect:
        """The guide of one run."""
        reflection: Reflection = import_object(self.writer) if self.writer else self._first_fault
        return Reflect(reflection, strip=self.strip)

    def _first_fault(self, trajectory: Trajectory) -> tuple[int, str] | None:
        for number, turn in enumerate(trajectory.turns):
            facts = [fact.value for fact in trajectory.facts_of(number) if fact.name == self.evidence]
            bad = [value for value in facts if _is_bad(value)]
            if bad:
                said = {"action": turn.action.text, "evidence": self.evidence, "value": bad[0], "turn": number}
                return number, self.note.format(**said)
        return None


class Reflect(Guide):
    """What ``ReflectPart`` opens."""

    def __init__(self, reflection: Reflection, *, strip: bool) -> None:
        self._reflection, self._strip = reflection, strip

    def plan(self, task: Task, group_size: int) -> Plan:
        """Half of the siblings, so that there is room for a retry of each."""
        return Plan(entries=[None] * (group_size // 2))

    def again(self, group: ScoredGroup, wave: int) -> Plan | None:
        """A retry of every failure about which there is something to say."""
        if wave > 1:
            return None
        entries = []
        for trajectory, score in zip(group.trajectories, group.scores, strict=True):
            if score.usable and unguided(trajectory) and not is_solved(score) and trajectory.turns:
                found = self._reflection(trajectory)
                if found is not None:
                    entries.append(retry_from(trajectory, *found, strip=self._strip, siblings=group.trajectories))
        return Plan(entries=entries) if entries else None


def _is_bad(value: JSON) -> bool:
    return isinstance(value, bool | int | float) and value < 0.5
