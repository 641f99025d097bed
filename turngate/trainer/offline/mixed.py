"""``episodes.type = "mixed"``: steps that learn from fresh episodes and from recorded ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from turngate.errors import ConfigError
from turngate.trainer.offline.answers import plan_of
from turngate.trainer.offline.episode_index import Recorded
from turngate.trainer.offline.replays import Remix, ReplayFacts, ReplayPart, StepPlan
from turngate.trainer.offline.sources import EpisodeSource, PlayTasks, SourceMeans, Waves
from turngate.trainer.offline.stored import ReadingPart, said_of
from turngate.types import Metrics, ScoredGroup, Task, derive_seed


class MixedPart(ReadingPart):
    """Each step plays, and replays recorded episodes: its own earlier ones, or those of other runs.

    A run that was killed finds its earlier episodes where it recorded them. Guided and branched episodes of its own are
    passed over.
    """

    type: Literal["mixed"] = "mixed"
    replay: ReplayPart = Remix()
    """Which recorded episodes a step replays, and whether they are compared with fresh ones."""
    max_age: int | None = Field(None, ge=1)
    """Most steps since an episode of this run was played; older ones are not replayed. Left out: any number. Of old
    episodes most tokens are clipped, so they cost time and teach little."""

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if self.runs and self.max_age is not None:
            raise ValueError(
                "max_age has no effect with runs: the age of episodes of other runs is not known; leave one out"
            )
        if not self.runs and (self.phase != type(self).model_fields["phase"].default or self.leave_out):
            raise ValueError(
                "phase and leave_out have no effect without runs: a run replays its own training episodes without "
                "help; leave them out, or name runs"
            )
        return self

    def open(self, means: SourceMeans) -> EpisodeSource:
        return Mixed(self, means)


class Mixed:
    """Plays the tasks that the plan of the replay part leaves, and adds the replayed episodes."""

    def __init__(self, part: MixedPart, means: SourceMeans) -> None:
        self._part, self._means = part, means
        if part.runs and not means.recorded.rows:
            raise ConfigError(f"nothing is there to replay; {said_of(means.recorded)}")

    async def waves(self, play: PlayTasks, tasks: Sequence[Task], step: int) -> Waves:
        """Fresh groups first, then replayed ones. With nothing to replay, the step is that of ``played``."""
        plan = self._plan(tasks, step)
        recorded = self._means.recorded
        parts = [await play(tasks[: plan.n_tasks])]
        if plan.again:
            again = [recorded.find(task) for task in plan.again]
            parts.append(await play(again, group_size=self._means.group_size - 1))
        joined = {**plan.joined, **{task: [row] for task, row in plan.again.items()}}
        groups = [
            recorded.joined(group, joined[group.task.id], step) if group.task.id in joined else group
            for part in parts
            for group in part.groups
        ]
        groups += [recorded.group(rows, step) for rows in plan.groups]
        return Waves(
            groups=groups,
            played=[group for part in parts for group in part.played],
            unused=[group for part in parts for group in part.unused],
            metrics=parts[0].metrics | self._metrics(groups, step),
        )

    def _plan(self, tasks: Sequence[Task], step: int) -> StepPlan:
        recorded, part = self._means.recorded, self._part
        oldest = 1 if part.max_age is None else step - part.max_age
        if not part.runs:
            recorded.catch_up(step, since=oldest)
        seed = derive_seed(self._means.seed, "replay", step)
        facts = ReplayFacts(
            step=step,
            tasks=[task.id for task in tasks],
            rows=[row for row in recorded.rows if part.runs or row.step >= oldest],
            group_size=self._means.group_size,
            seed=seed,
            rng=np.random.default_rng(seed),
            entropies=self._entropies,
        )
        return plan_of(part.replay, facts)

    def _entropies(self, rows: Sequence[Recorded]) -> list[float]:
        return self._means.entropies(self._means.recorded.load(rows))

    def _metrics(self, groups: Sequence[ScoredGroup], step: int) -> Metrics:
        """``replay/share`` of the episodes of the step, 0 for a step that is purely on-policy, and the mean age in
        steps of those of this run."""
        replays = [one.replay for group in groups for one in group.trajectories]
        ages = [step - replay.step for replay in replays if replay is not None]
        metrics = {"replay/share": len(ages) / len(replays) if replays else 0.0}
        return metrics | ({"replay/age_steps": float(np.mean(ages))} if ages and not self._part.runs else {})
