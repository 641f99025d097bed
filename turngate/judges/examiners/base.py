"""``Examiner``: the part that looks at episodes after they were played, and the context that it works with."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from pydantic import Field

from turngate.agents.rollout import Player
from turngate.errors import ConfigError
from turngate.judges.asking import Judge, JudgePart
from turngate.parts import Part
from turngate.types import JSON, BoolArray, Evidence, FloatArray, Group, IntArray, Trajectory

if TYPE_CHECKING:
    from turngate.config import Config

Facts: TypeAlias = Sequence[Sequence[tuple[Evidence, ...]]]
"""Result of an examiner: for each group, for each of its trajectories in order, the facts about it."""
Scope: TypeAlias = Literal["episode", "group", "batch"]
Likelihoods: TypeAlias = Callable[[Sequence[IntArray], Sequence[BoolArray]], list[FloatArray]]
"""Log-probabilities of given texts under the policy's current weights. Takes, for each text, its ids [L] and marks of
the tokens that are asked for, bool[L]; returns, for each text, one number in nats per asked token, in order."""


def not_open(part: JudgePart) -> Judge:
    """Default of ``ExamineContext.judge`` outside of a run, where no judge is open. Raises RuntimeError."""
    raise RuntimeError(
        f"no judge of type '{part.type}' is open here; use turngate.judges.examiners.examining.Examining"
    )


@dataclass(frozen=True, kw_only=True)
class ExamineContext:
    """The context that a run gives an examiner in one step.

    * ``player``: the running policy; ``step``: the training step, 0 outside of training;
    * ``seed``: everything random must derive from it;
    * ``answer``: a function that returns an episode's answer as its environment recorded it;
    * ``likelihoods``: measures texts under the policy's weights; None where that is impossible, for instance when a
      model on a server is evaluated;
    * ``memory``: a JSON object of this examiner, saved in checkpoints. An examiner must not remember anything
      elsewhere. Calls of one examiner may run concurrently and end in any order, so only an examiner of scope "batch"
      should write to it;
    * ``verdicts``: the file that remembers verdicts, so that a step which is played again asks nothing twice; None: no
      file;
    * ``judge``: a function that returns the opened judge for one of the parts in the examiner's ``asked``.
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

    ``scope`` says what it sees at once: one episode, a group of siblings, or the whole batch. An examiner of episodes
    or groups is called as soon as these are played, while others still are. An exception are examiners that ask the
    policy (``asks_policy``): they are called when all episodes are played, so that sampling stays reproducible.
    """

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "examiner"
    shipped_in: ClassVar[tuple[str, ...]] = ("turngate.judges.examiners",)
    scope: ClassVar[Scope] = "group"
    env: str = ""
    """Id of the environment whose episodes are examined; empty: those of all environments."""
    deadline_s: float = Field(600.0, gt=0)
    """Most seconds of one call of the examiner; after that its facts are missing."""

    @property
    @abstractmethod
    def writes(self) -> tuple[str, ...]:
        """Names of the evidence that it records; what it could not measure is recorded with value None."""

    @property
    def all_judges(self) -> tuple[JudgePart, ...]:
        """The judges that it asks, by default all settings that are judges. They are opened once per run."""
        return tuple(value for value in self.settings().values() if isinstance(value, JudgePart))

    @property
    def asks_policy(self) -> bool:
        """Whether it asks the policy that is being trained."""
        return any(judge.is_policy for judge in self.all_judges)

    @property
    def measures(self) -> bool:
        """Whether it asks for ``ExamineContext.likelihoods``, which are those of the learner's weights."""
        return False

    def check_config(self, config: Config) -> None:
        """Raise ConfigError where it measures under weights that change meanwhile."""
        if self.measures and config.train.ahead:
            raise ConfigError(
                f"examiner '{self.type}' does not go with train.ahead: it measures under the learner's weights, which "
                "change while episodes are played; set train.ahead = 0"
            )

    @property
    def label(self) -> str:
        """Its name in metrics and warnings: that of the first fact that it records, or its type if it records none."""
        return self.writes[0] if self.writes else self.type

    @abstractmethod
    async def examine(self, groups: Sequence[Group], context: ExamineContext) -> Facts:
        """The facts about every trajectory of ``groups``, in the same shape.

        Called with one group for the scopes "episode" and "group" (for "episode" it holds one trajectory), with all
        groups of the step for "batch"; only usable episodes are among them, as they were played. What it raises, and an
        answer of another shape, makes its facts missing. It must not block the event loop: long computations go into
        ``asyncio.to_thread``. All calls in a step get the same ``context.seed``; derive from it and from ids.
        """
