"""``Examiner``: the part that looks at episodes after they were played, and what it is handed to work with."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias

from pydantic import Field

from turngate.agents.rollout import Player
from turngate.judging import Judge, JudgePart
from turngate.parts import Part
from turngate.types import JSON, BoolArray, Evidence, FloatArray, Group, IntArray, Trajectory

Facts: TypeAlias = Sequence[Sequence[tuple[Evidence, ...]]]
"""What an examiner returns: for each group, for each of its trajectories in order, the facts about it."""
Scope: TypeAlias = Literal["episode", "group", "batch"]
Likelihoods: TypeAlias = Callable[[Sequence[IntArray], Sequence[BoolArray]], list[FloatArray]]
"""Log-probabilities of given texts under today's weights: from ids [L] and which of them are asked for, bool[L], per
text, to one number in nats per asked token, in order."""


def not_open(part: JudgePart) -> Judge:
    """The judges of a desk at which none was opened. Raises RuntimeError."""
    raise RuntimeError(f"no judge of type '{part.type}' is open here; examine through turngate.examine.run.Examining")


@dataclass(frozen=True, kw_only=True)
class Desk:
    """What examiners work with in one step of a run.

    ``player`` is the running policy. ``likelihoods`` measures texts by its weights; None where nobody can (evaluation
    of a server). ``step`` is the training step, 0 outside of training; ``seed`` decides everything random. ``memory``
    belongs to one examiner, is JSON and is kept in the checkpoint; what is not in it is forgotten between steps. Calls
    of one examiner may run side by side and end in any order, so only one that sees the whole batch at once should
    write in it. ``answer`` says what an episode's answer is, as its environment recorded it. ``verdicts`` is the file
    in which verdicts are remembered, so that a step which is played again asks nothing twice; None: nowhere. ``judge``
    gives the judge that a part of the examiner's ``asked`` stands for, opened.
    """

    player: Player
    step: int
    seed: int
    answer: Callable[[Trajectory], str | None]
    likelihoods: Likelihoods | None = None
    memory: MutableMapping[str, JSON] = field(default_factory=dict)
    verdicts: Path | None = None
    judge: Callable[[JudgePart], Judge] = not_open


class Examiner(Part):
    """Looks at episodes and returns facts. A subclass sets ``type`` and ``scope`` and writes ``writes``, ``examine``.

    ``scope`` says how much it has to see at once: single episodes, whole groups of siblings, or the whole batch. An
    examiner of episodes or groups is called as soon as those are played, while others are still being played, unless it
    ``asks_policy``: the running policy answers when all episodes are played, so that sampling stays reproducible.
    """

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "examiner"
    scope: ClassVar[Scope] = "group"
    env: str = ""
    """Id of the environment whose episodes it examines, as tasks name it; empty: all of them."""
    deadline_s: float = Field(600.0, gt=0)
    """Most seconds of one call; after that its facts are missing."""

    @property
    @abstractmethod
    def writes(self) -> tuple[str, ...]:
        """Names of the evidence that it records. A fact that it could not measure is recorded with value None."""

    @property
    def asked(self) -> tuple[JudgePart, ...]:
        """The judges that it asks: its settings that are judges. They are opened once per run."""
        return tuple(value for value in self.settings().values() if isinstance(value, JudgePart))

    @property
    def asks_policy(self) -> bool:
        """Whether it asks the policy that is being trained."""
        return any(judge.is_policy for judge in self.asked)

    @property
    def label(self) -> str:
        """What metrics and warnings call it: the first fact that it records, or its type if it records none."""
        return self.writes[0] if self.writes else self.type

    @abstractmethod
    async def examine(self, groups: Sequence[Group], desk: Desk) -> Facts:
        """The facts about every trajectory of ``groups``, in the same shape.

        Called with one group for the scopes "episode" and "group" (for "episode" it holds one trajectory), with all
        groups of the step for "batch"; only usable episodes are among them, as they were played. What it raises, and an
        answer of another shape, makes its facts missing. It must not block the event loop: what computes for long goes
        into ``asyncio.to_thread``. All calls in a step get the same ``desk.seed``; derive from it and from ids.
        """
