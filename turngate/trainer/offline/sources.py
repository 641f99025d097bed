"""Where the episodes of a step come from: the part ``episodes`` of a config, and what a step gets from it.

A source is asked once per step, with the tasks of the step and a function that plays them, and returns ``Waves``.
Everything after that (credit, packing, loss, update, publishing) is the same for every source.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from turngate.errors import ConfigError
from turngate.parts import Part
from turngate.types import Metrics, ScoredGroup, Task, Trajectory

if TYPE_CHECKING:
    from turngate.config import Config
    from turngate.trainer.offline.episode_index import RecordedEpisodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Waves:
    """The episodes of a step. ``groups`` are learned from, ``played`` has all episodes that were played, one group per
    task, and ``unused`` those of them that are in no group."""

    groups: list[ScoredGroup]
    played: list[ScoredGroup]
    unused: list[ScoredGroup]
    metrics: Metrics

    @property
    def fresh(self) -> list[ScoredGroup]:
        """The groups that are learned from and were played in this step; these are recorded and summarised."""
        return _members(self.groups, lambda one: one.replay is None)

    @property
    def replayed(self) -> list[ScoredGroup]:
        """The groups that are learned from and were played before."""
        return _members(self.groups, lambda one: one.replay is not None)


class PlayTasks(Protocol):
    """Plays tasks with the sampler's weights, as guide and branching say."""

    async def __call__(self, tasks: Sequence[Task], *, group_size: int | None = None) -> Waves:
        """``group_size``: episodes of each task; None: those of the run."""
        ...


class EpisodeSource(Protocol):
    """Gives each step its episodes, as a function of the seed of the run, the step and the recorded episodes."""

    async def waves(self, play: PlayTasks, tasks: Sequence[Task], step: int) -> Waves:
        """The episodes of one step; ``tasks`` are those that the curriculum picked for it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMeans:
    """The means that a run gives a source.

    ``recorded``: the episodes of the runs that the part names, or of this run so far. ``entropies`` measures the mean
    entropy of each episode's tokens, in nats, under the learner's present weights.
    """

    recorded: RecordedEpisodes
    entropies: Callable[[Sequence[Trajectory]], list[float]]
    group_size: int
    seed: int
    filters_pass: Callable[[ScoredGroup], bool]


class EpisodesPart(Part):
    """Where the episodes of a step come from. A subclass writes ``open``, which returns an ``EpisodeSource``."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "episode source"
    shipped_in: ClassVar[tuple[str, ...]] = ("turngate.trainer.offline",)
    fallback: ClassVar[str] = "played"
    plays: ClassVar[bool] = True
    """Whether steps play episodes."""
    reads: ClassVar[bool] = True
    """Whether steps learn from recorded episodes."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """The runs whose episodes are read; empty: those of this run, or none."""
        return ()

    def check_config(self, config: Config) -> None:
        """Raise ConfigError for settings that have no effect, or a wrong one, beside recorded episodes."""
        if not self.reads:
            return
        name = f'episodes.type = "{self.type}"'
        if config.branching is not None:
            why = "shares turns among its episodes" if self.plays else "has no effect, as no step plays"
            raise ConfigError(
                f"branching '{config.branching.type}' does not go with {name}: it {why}; leave [branching] out"
            )
        if config.train.refill is not None:
            raise ConfigError(
                f"train.refill does not go with {name}: it plays further tasks in place of groups that filters drop, "
                "and recorded groups take places of their own; leave it out"
            )
        if not self.plays:
            _check_nothing_plays(name, config)

    @abstractmethod
    def open(self, means: SourceMeans) -> EpisodeSource:
        """The source of one run. Raises ConfigError for settings that do not fit the recorded episodes."""


def _check_nothing_plays(name: str, config: Config) -> None:
    without_effect = {
        f"guide '{config.guide.type}'": config.guide.type != "none",
        f"curriculum '{config.curriculum.type}'": config.curriculum.type != "order",
        f"train.ahead = {config.train.ahead}": bool(config.train.ahead),
        "env.together": any(env.together > 1 for env in config.env),
        "env.weight": any(env.weight != 1 for env in config.env),
    }
    for setting, is_set in without_effect.items():
        if is_set:
            raise ConfigError(f"{setting} has no effect with {name}: no step plays; leave it out")


class PlayedPart(EpisodesPart):
    """Every step plays its episodes, with the policy that it trains."""

    type: Literal["played"] = "played"
    reads: ClassVar[bool] = False

    def open(self, means: SourceMeans) -> EpisodeSource:
        return PlayedEpisodes()


class PlayedEpisodes:
    """Plays the tasks of the step."""

    async def waves(self, play: PlayTasks, tasks: Sequence[Task], step: int) -> Waves:
        return await play(tasks)


def _members(groups: Sequence[ScoredGroup], wanted: Callable[[Trajectory], bool]) -> list[ScoredGroup]:
    """The groups with those of their episodes that are wanted; a group of which none is left is left out."""
    found = []
    for group in groups:
        stays = [wanted(one) for one in group.trajectories]
        if all(stays):
            found.append(group)
        elif any(stays):
            found.append(
                ScoredGroup(
                    task=group.task,
                    trajectories=tuple(compress(group.trajectories, stays)),
                    scores=tuple(compress(group.scores, stays)),
                )
            )
    return found
