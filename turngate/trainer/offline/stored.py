"""``episodes.type = "stored"``: steps that learn from recorded episodes and play none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from turngate.errors import ConfigError
from turngate.trainer.offline.episode_index import TRAINING, Recorded, RecordedEpisodes, Where
from turngate.trainer.offline.sources import EpisodeSource, EpisodesPart, PlayTasks, SourceMeans, Waves
from turngate.types import Task, derive_seed

NO_WHERE = Where()


class ReadingPart(EpisodesPart):
    """Base of the parts that read recorded runs."""

    runs: tuple[Path, ...] = ()
    """Folders of the runs whose episodes are learned from."""
    phase: str = TRAINING
    """Phase of the episodes: train, or that of an evaluation, such as before-heldout-sampled."""
    where: Where = NO_WHERE
    """Which of the episodes are learned from; left out: all."""
    leave_out: tuple[Literal["guided", "branched"], ...] = ()
    """Kinds of episodes to pass over, which otherwise are refused: guided, those whose help stays in the context, and
    branched, those that share turns with another."""

    @property
    def folders(self) -> tuple[Path, ...]:
        return self.runs


class StoredPart(ReadingPart):
    """No step plays: each learns from recorded episodes, which today's rubric scores again.

    A group holds episodes of one task that one version of a policy played, at most ``train.group_size`` of them, so
    they are compared with each other and never with those of another policy. Each pass over the groups has an order of
    its own. Importance ratios are taken to the recorded log-probabilities.
    """

    type: Literal["stored"] = "stored"
    plays: ClassVar[bool] = False
    runs: tuple[Path, ...] = Field(min_length=1)
    """Folders of the runs whose episodes are learned from."""

    def open(self, means: SourceMeans) -> EpisodeSource:
        return Stored(means)


class Stored:
    """Gives each step the next groups of an order that depends on the seed alone.

    Raises ConfigError where no group has two episodes, and where filters drop all of them.
    """

    def __init__(self, means: SourceMeans) -> None:
        self._recorded, self._seed = means.recorded, means.seed
        self._groups = list(grouped(means.recorded.rows, means.group_size, seed=means.seed))
        if not self._groups:
            raise ConfigError(f"no task has two episodes of one policy version; {said_of(means.recorded)}")
        if not any(means.filters_pass(means.recorded.group(rows, 1)) for rows in self._in_order(0)):
            raise ConfigError(
                f"train.filters drop each of the {len(self._groups)} recorded groups (all of their episodes "
                "are paid alike, for instance), so nothing can be learned from them; record others, or change the "
                "filters"
            )

    async def waves(self, play: PlayTasks, tasks: Sequence[Task], step: int) -> Waves:
        """As many groups as the step has tasks; all there are, where that is fewer."""
        n = min(len(tasks), len(self._groups))
        epoch, place = divmod(step - 1, len(self._groups) // n)
        chosen = self._in_order(epoch)[place * n : (place + 1) * n]
        groups = [self._recorded.group(rows, step) for rows in chosen]
        metrics = {"replay/share": 1.0, "replay/epoch": float(epoch)}
        return Waves(groups=groups, played=[], unused=[], metrics=metrics)

    def _in_order(self, epoch: int) -> list[list[Recorded]]:
        order = np.random.default_rng(derive_seed(self._seed, "stored", epoch)).permutation(len(self._groups))
        return [self._groups[index] for index in order]


def grouped(rows: Sequence[Recorded], size: int, *, seed: int) -> Iterator[list[Recorded]]:
    """Groups of 2 to ``size`` episodes of one task, run and policy version, of as equal sizes as can be, each episode
    in at most one. Single ones are left out."""
    together: defaultdict[tuple[str, str, int, int], list[Recorded]] = defaultdict(list)
    for row in rows:
        together[row.env, row.task, row.store, row.version].append(row)
    for (env, task, store, version), members in together.items():
        n = -(-len(members) // size)
        rng = np.random.default_rng(derive_seed(seed, "group", env, task, store, version))
        order = rng.permutation(len(members)) if n > 1 else np.arange(len(members))
        for part in range(n):
            group = [members[index] for index in sorted(order[part::n])]
            if len(group) > 1:
                yield group


def said_of(recorded: RecordedEpisodes) -> str:
    """The contents of an index, in words."""
    left_out = "".join(f", {count} {why}" for why, count in recorded.left_out.items())
    return f"{len(recorded.rows)} episodes can be learned from{left_out and '; left out:' + left_out[1:]}"
