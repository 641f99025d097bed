"""``Run``: everything that a training step needs, and the interface to the disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from turngate.agents.policies.base import Policy, Weights
from turngate.agents.rollout import Player, Worlds
from turngate.judges.examiners.examining import Examining
from turngate.part_calls import Unusable, call_part, ignored
from turngate.store.step_credit import EpisodeCredit
from turngate.trainer.auxiliary.answers import AUXILIARY
from turngate.trainer.auxiliary.learning import AuxiliaryLosses
from turngate.trainer.batch.pack import Aggregate
from turngate.trainer.branching.tree_play import Trees
from turngate.trainer.checkpoint import Stateful
from turngate.trainer.checks.monitoring import unwatched
from turngate.trainer.curriculum.base import Curriculum
from turngate.trainer.filters.parts import Filter
from turngate.trainer.guidance.answers import observed
from turngate.trainer.guidance.base import Guide, Remembering
from turngate.trainer.guidance.guarded_help import LeakGuard
from turngate.trainer.guidance.writer import Writer
from turngate.trainer.learner import MAX_KL, Learner, Measured, Measuring
from turngate.trainer.loss.tokens import Loss
from turngate.trainer.offline.sources import EpisodeSource, PlayedEpisodes
from turngate.trainer.publishing import Publishing
from turngate.trainer.signals.base import Signals
from turngate.types import Batch, Credit, Group, Metrics, ScoredGroup, TokenRule, derive_seed


class Recorder(Protocol):
    """Stores what was played (see ``turngate.store``)."""

    def write(self, step: int, scored: Sequence[ScoredGroup], *, phase: str = "train") -> None:
        """Store the episodes of ``step`` with their scores."""
        ...

    def write_credit(self, step: int, found: Mapping[str, EpisodeCredit]) -> None:
        """Store what ``step`` learned from its episodes, by their ids."""
        ...


def not_kept(batch: Batch, measured: Measured) -> None:
    """Write no batch."""


class Reset:
    """What becomes of the reference after a step: by default it stays as it is."""

    def after(self, step: int, weights: Callable[[], Weights]) -> None:
        """Called after each step; ``weights`` gives those of the learner."""

    @property
    def checkpointed(self) -> Mapping[str, Stateful]:
        """What a checkpoint saves of it."""
        return {}


@dataclass(frozen=True, kw_only=True)
class Run:
    """Everything that a training step needs, made by ``turngate.run``.

    ``score`` applies the rubric to a group: it takes the group and the number of the step. ``tolerance`` is that of
    ``check_agreement``.
    """

    player: Player
    worlds: Worlds
    score: Callable[[Group, int], ScoredGroup]
    guide: Guide
    credit: Credit | TokenRule
    filters: Mapping[str, Filter]
    learner: Learner
    loss: Loss
    store: Recorder
    group_size: int
    minibatches: int
    aggregate: Aggregate
    tolerance: float
    seed: int
    max_kl: float = MAX_KL  # furthest that the updates of a step may move the policy, in nats per token
    rounding: str = ""  # advice for the case that sampler and learner differ by rounding alone
    examining: Examining | None = None  # looks at the episodes before they are scored
    writer: Writer | None = None  # the model that writes for the guide
    reference: Measuring | None = None  # frozen, for losses that keep the policy close to it
    watch: Callable[[int, Sequence[ScoredGroup], Metrics], Metrics] = unwatched
    lone: bool = False  # whether an episode without siblings is learned from (``CreditRule.imitates``)
    experts: bool = False  # whether the turns of experts are trained (``loss.experts``)
    auxiliary: AuxiliaryLosses = field(default_factory=AuxiliaryLosses)  # rows that are learned beside the episodes
    signals: Signals = field(default_factory=Signals)  # what the credit rule reads beyond rewards
    curriculum: Curriculum | None = None  # learns from the results which tasks to play; None = they are given
    guard: LeakGuard = field(default_factory=LeakGuard)  # refuses help that holds the answer
    batches: int = 1  # most batches of tasks of a step; the further ones replace what filters drop
    keep_batch: Callable[[Batch, Measured], Path | None] = not_kept  # writes a batch that could not be learned from
    episodes: EpisodeSource = field(default_factory=PlayedEpisodes)  # what a step learns from: played, or recorded
    publishing: Publishing = field(default_factory=Publishing)  # after which steps the sampler gets the weights
    reset: Reset = field(default_factory=Reset)  # when the reference is replaced
    trees: Trees | None = None  # how episodes branch off others; None: siblings are chains

    @property
    def policy(self) -> Policy:
        """The policy that plays and is trained."""
        return self.player.policy

    @property
    def checkpointed(self) -> Mapping[str, Stateful]:
        """What a checkpoint saves beside the learner: models that signals train, memories of other parts."""
        found: dict[str, Stateful] = {**self.signals.learners, **self.publishing.checkpointed}
        found |= self.reset.checkpointed
        if self.examining is not None:
            found["examine"] = self.examining
        if isinstance(self.guide, Remembering):
            found["guide"] = _Memory("guide", self.guide)
        if self.curriculum is not None and self.curriculum.stateful:
            found["curriculum"] = self.curriculum
        for kind, source in self.auxiliary.sources.items():
            if isinstance(source, Remembering):
                found[f"auxiliary_{kind}"] = _Memory(AUXILIARY, source)
        return found

    @property
    def waits(self) -> bool:
        """Whether scores can depend on facts of examiners, which may be missing."""
        return self.examining is not None and bool(self.examining.examiners)

    def observe(self, played: Sequence[ScoredGroup]) -> Metrics:
        """Show the results of a step to the guide and to the curriculum, and return their metrics."""
        helped = observed(self.guide, played) | self.guard.metrics()
        if self.curriculum is None:
            return helped
        self.curriculum.observe(played)
        return helped | self.curriculum.metrics()

    def seed_at(self, step: int) -> int:
        """The seed from which everything random in one step derives."""
        return derive_seed(self.seed, "step", step)


class _Memory:
    """The state of a guide or an auxiliary loss as a file of a checkpoint."""

    def __init__(self, noun: str, owner: Remembering) -> None:
        self._noun, self._owner = noun, owner

    def save(self, path: Path) -> None:
        """Write it as JSON. Raises PartError for a state that is none."""
        text = call_part(self._noun, self._owner.state, take=_json_of, must="JSON: texts, numbers, lists, dictionaries")
        path.write_text(text, encoding="utf-8")

    def load(self, path: Path) -> None:
        """Read what ``save`` wrote."""
        call_part(self._noun, self._owner.load, json.loads(path.read_text(encoding="utf-8")), take=ignored, must="")


def _json_of(state: object) -> str:
    try:
        return json.dumps(state)
    except (TypeError, ValueError, RecursionError) as error:
        raise Unusable(str(error)) from error
