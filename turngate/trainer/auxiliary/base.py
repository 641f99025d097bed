"""What an auxiliary loss is, and what it gets to work with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np
from pydantic import Field

from turngate.agents.chat import Chat, Schema
from turngate.agents.prefix_turns import Entry, PrefixTurns
from turngate.agents.rollout import Player
from turngate.judges.examiners.base import Likelihoods
from turngate.parts import Part
from turngate.trainer.auxiliary.preference import Contrast
from turngate.trainer.guidance.base import Helpers, Need
from turngate.trainer.guidance.results import is_solved
from turngate.types import (
    Action,
    BoolArray,
    FloatArray,
    Guidance,
    IntArray,
    Metrics,
    ScoredGroup,
    Source,
    Task,
    Trajectory,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AuxiliaryRow:
    """One text to learn from: ``ids`` int32[L], and which of them are ``trained``, bool[L], never the first.

    ``teacher``, float32[L]: a teacher's log-probabilities of the trained tokens, towards which the policy's are pulled;
    None: the tokens themselves are imitated. Where whole episodes are compared, ``turn`` is the turn of each token,
    int32[L], ``value`` what the loss is told of the episode, and ``weight`` a factor of its own.
    """

    ids: IntArray
    trained: BoolArray
    teacher: FloatArray | None = None
    turn: IntArray | None = None
    value: float = 0.0
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuxiliaryRows:
    """The rows of one auxiliary loss in a step; either all of them have a teacher or none has.

    ``weight`` times the mean over their trained tokens is added to the loss of the step. With ``lr_factor`` they get an
    update of their own instead, at this multiple of the learning rate. With ``contrast`` they are whole episodes, the
    preferred one of a pair before the other, whose ``teacher`` is the reference, and the mean is over pairs or
    episodes.
    """

    rows: Sequence[AuxiliaryRow]
    weight: float = 1.0
    lr_factor: float | None = None
    contrast: Contrast | None = None


class AuxiliarySource(ABC):
    """Chooses the rows of each step. One that remembers something from step to step is ``Remembering`` too."""

    @abstractmethod
    async def rows(self, groups: Sequence[ScoredGroup], step: int) -> AuxiliaryRows | None:
        """The rows of ``step``, in which ``groups`` were played, with all episodes of each task. None: no rows."""

    def metrics(self) -> Metrics:
        """Further metrics, without the prefix ``auxiliary/TYPE_``."""
        return {}

    def conclude(self) -> None:  # noqa: B027
        """Raise RunError at the end of a run in which it never found a row to learn."""


class Play(Protocol):
    """Plays episodes besides those of the step, with the current policy."""

    def __call__(
        self, tasks: Sequence[Task], entries: Sequence[Sequence[Entry]], *, seed: int
    ) -> Awaitable[list[ScoredGroup]]:
        """One scored group per task, with one episode per entry; ``seed`` must differ from call to call."""
        ...


@dataclass(frozen=True, kw_only=True)
class AuxiliaryContext:
    """What a run gives an auxiliary loss: what environments say about their tasks, a way to play them, and teachers.

    ``read``: the action that the environment of a task reads in a text. ``achieved``: the task that actions solved
    instead, if its environment can say so (see ``envs.tasks.Relabels``). ``tools``: those that its environment lists.
    ``player``: the running policy. ``teacher``
    opens a frozen model, by the name of a folder or on the hub, or "start" for the model that training began from.
    Everything random must derive from ``seed``.
    """

    helpers: Helpers
    play: Play
    teacher: Callable[[str], Likelihoods]
    read: Callable[[Task, str], Action]
    player: Player
    seed: int
    achieved: Callable[[Task, Sequence[Action]], Task | None] = field(default=lambda task, actions: None)
    tools: Callable[[Task], Sequence[Schema]] = field(default=lambda task: ())

    @property
    def chat(self) -> Chat:
        """The chat format of the policy."""
        return self.player.chat


class AuxiliaryPart(Part):
    """Rows that are learned beside the episodes of a step. A subclass writes ``open``, which returns the source."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "auxiliary loss"
    shipped_in: ClassVar[tuple[str, ...]] = ("turngate.trainer.auxiliary",)
    needs: ClassVar[frozenset[Need]] = frozenset()
    """What every environment of the run must have for it: hints, solutions."""
    plays: ClassVar[bool] = True
    """Whether its source may play or ask the policy, which then has the weights of every step."""

    @property
    def teachers(self) -> tuple[str, ...]:
        """Names of the models that it asks."""
        return ()

    @abstractmethod
    def open(self, means: AuxiliaryContext) -> AuxiliarySource:
        """The source of one run."""


class WeightedAuxiliaryPart(AuxiliaryPart):
    """An auxiliary loss whose mean loss per token is added to the policy's loss."""

    weight: float = Field(0.1, gt=0)
    """Factor of the mean cross-entropy per token, which is added to the loss; the rows' own tokens are averaged, so
    more or longer rows do not weigh more."""


ORACLE = Guidance(kind="oracle", level=0, text="", source="oracle")


async def demonstrated(means: AuxiliaryContext, tasks: Sequence[Task], *, seed: int) -> list[Trajectory]:
    """The first solution of each task, played from beginning to end; only those that solve their task."""
    known = {task.id: means.helpers.solutions(task) for task in tasks}
    able = [task for task in tasks if known[task.id]]
    entries = [[PrefixTurns(turns=tuple(known[task.id][0]), guidance=ORACLE, whole=True)] for task in able]
    groups: Sequence[ScoredGroup] = await means.play(able, entries, seed=seed) if able else []
    return [group.trajectories[0] for group in groups if is_solved(group.scores[0])]


def row_of(trajectory: Trajectory) -> AuxiliaryRow:
    """The whole episode, trained on all that was said in its turns."""
    said = [np.arange(len(turn.source)) >= len(turn.context_ids) for turn in trajectory.turns]
    return AuxiliaryRow(ids=trajectory.ids(), trained=np.concatenate(said))


def own_tokens(trajectory: Trajectory) -> BoolArray:
    """Which tokens of the whole episode the policy wrote: bool[L]."""
    marks = [np.zeros(0, np.bool_)]
    for turn in trajectory.turns:
        own = turn.source == Source.POLICY
        own[: len(turn.context_ids)] = False
        marks.append(own)
    return np.concatenate(marks)
