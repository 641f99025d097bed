"""What a guide is, and what it gets to work with."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

from turngate.parts import Part
from turngate.trainer.guidance.plan import Plan
from turngate.types import JSON, Metrics, ScoredGroup, Task

Need: TypeAlias = Literal["hints", "solutions", "other_goals"]
"""What a guide asks an environment for."""


class Helpers(Protocol):
    """What the environments of a run say about their tasks, for guides alone, and the seed of the run."""

    @property
    def seed(self) -> int:
        """The seed of the run, from which every random draw of a guide must derive."""
        ...

    def hint(self, task: Task, level: int) -> str | None:
        """The hint of ``level``, from 1 (least) to ``hint_levels``; None where the task has none."""
        ...

    def hint_levels(self, task: Task) -> int:
        """How many levels of hints there are for the environment of ``task``."""
        ...

    def solutions(self, task: Task) -> Sequence[Sequence[str]]:
        """Lists of actions, each of which solves ``task``; the first is the one to imitate. Empty: none is known."""
        ...

    def secrets(self, task: Task) -> Sequence[str]:
        """Texts that give ``task`` away: no text of a guide may hold one (see ``turngate.envs.leak``)."""
        ...


class Guide:
    """Decides which episodes of a step get which help. This class gives no help; a guide overrides what it needs.

    A task is played in waves: ``plan`` says what the first one is, and after each of them ``again`` is asked for
    another. A guide that remembers something from step to step is ``Remembering`` too.
    """

    def plan(self, task: Task, group_size: int) -> Plan:
        """The first wave of a task, which has ``group_size`` episodes unless the guide wants another number."""
        return Plan(entries=(None,) * group_size)

    def again(self, group: ScoredGroup, wave: int) -> Plan | None:
        """Another wave of the same task, number ``wave`` (1, 2, …); None = no more in this step.

        ``group`` holds all episodes of the task in this step, in the order in which they were played.
        """
        return None

    def settle(self, group: ScoredGroup, played: ScoredGroup) -> ScoredGroup:
        """A group as it is learned from, after the last wave; ``played`` has all episodes of its task. By default as it
        is; a guide may add lines to ledgers."""
        return group

    def observe(self, groups: Sequence[ScoredGroup]) -> None:
        """Take in the results of a step: of each task all episodes that were played, also those not learned from."""

    def metrics(self) -> Metrics:
        """Metrics of the guide, named ``guide/…``."""
        return {}


@runtime_checkable
class Remembering(Protocol):
    """A guide with a state, which checkpoints keep."""

    def state(self) -> JSON:
        """All that it remembers, as JSON."""
        ...

    def load(self, state: JSON) -> None:
        """Go on from what ``state`` returned."""
        ...


class GuidePart(Part):
    """Which episodes get help. A subclass writes ``open``, which returns a ``Guide``."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "guide"
    shipped_in: ClassVar[tuple[str, ...]] = ("turngate.trainer.guidance",)
    fallback: ClassVar[str] = "none"
    needs: ClassVar[frozenset[Need]] = frozenset()
    """What every environment of the run must have for this guide: hints, solutions."""
    branches: ClassVar[bool] = False
    """Whether its episodes leave others at some turn, as rules over trees need."""
    experts: ClassVar[bool] = False
    """Whether an expert takes turns in its episodes (``Guidance.source`` is "expert"), as loss.experts needs."""

    bonuses: ClassVar[frozenset[str]] = frozenset()
    """Names of the lines that it adds to ledgers (``Guide.settle``). Rescoring, which scores by a rubric, leaves them
    out and says so."""

    @property
    def strips(self) -> bool:
        """Whether it has hints stripped for training, as loss.guided needs: its setting ``strip``, if it has one."""
        return bool(getattr(self, "strip", False))

    @abstractmethod
    def open(self, helpers: Helpers) -> Guide:
        """The guide of one run."""


class NoGuidePart(GuidePart):
    """No guidance: no episode gets help."""

    type: Literal["none"] = "none"

    def open(self, helpers: Helpers) -> Guide:
        """A guide that plans nothing."""
        return NoGuide()


class NoGuide(Guide):
    """Gives no help."""
