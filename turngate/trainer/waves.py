"""Plays the tasks of a step, in as many waves as the guide wants: plan, play, examine, score, and ask the guide again.

The waves of several tasks are played together, and each waits for the whole groups of the one before. Every episode is
booked once: ``sampled = kept + replaced + tried + failed_experts``. Where a run branches, the episodes of each wave do;
what that cost is counted over all waves and batches of a step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, TypeAlias

import numpy as np

from turngate.agents.prefix_turns import PrefixTurns
from turngate.agents.rollout import play_groups
from turngate.errors import RunError
from turngate.judges.examiners.examining import Stage
from turngate.store.metrics import Clock
from turngate.trainer.batch.shared_turns import regrafted
from turngate.trainer.branching.tree_costs import branch_metrics
from turngate.trainer.guidance.answers import first_wave, next_wave, settle
from turngate.trainer.guidance.base import Guide, NoGuide
from turngate.trainer.guidance.plan import Plan
from turngate.trainer.guidance.results import is_solved, success_rate, unguided
from turngate.trainer.guidance.writer import consult, prepare
from turngate.trainer.offline.sources import Waves
from turngate.trainer.refill import Filling
from turngate.trainer.run import Run
from turngate.types import Group, Metrics, Score, ScoredGroup, Task, Trajectory, derive_seed

MAX_WAVES = 64
"""Waves of a step after which a guide that still wants more stops the run."""
Unused: TypeAlias = Literal["replaced", "tried", "failed_experts"]
"""Why a played episode is not learned from. replaced: a better one took its place; tried: it was to replace another,
but was not the best or not better; failed_experts: an expert played it from beginning to end and failed."""


async def play_waves(
    run: Run, tasks: Sequence[Task], step: int, clock: Clock, *, group_size: int | None = None
) -> Waves:
    """Play the tasks of a step until the guide wants no more of any; and further ones, where a run refills its steps.

    ``group_size``: episodes of each task; None: those of the run. Raises PartError for a plan that cannot be played,
    RunError for a guide that does not stop.
    """
    run = run if group_size is None else replace(run, group_size=group_size)
    courses: list[_Course] = []
    groups_scored: list[ScoredGroup] = []
    filling, examined, waves = Filling(run, len(tasks)), dict[str, float](), 0
    async with nullcontext() if run.examining is None else run.examining.begin(step) as stage:
        while tasks:
            batch = [_Course(task) for task in tasks]
            examined, n = await _play_batch(run, stage, batch, step, clock)
            courses, waves = courses + batch, waves + n
            with clock("reward"):
                groups_scored += [
                    settle(run.guide, group, course.scored()) for course in batch for group in course.learned(run, step)
                ]
                tasks = filling.further(groups_scored)
    played = [course.scored() for course in courses]
    unused = [group for course in courses for group in course.unused()]
    episodes = [one for group in played for one in group.trajectories]
    cost = None if run.trees is None else run.trees.cost(episodes)
    env_steps = sum(len(one.turns) for one in episodes) if cost is None else cost.steps
    books = {} if isinstance(run.guide, NoGuide) else _books(courses, groups_scored, played, waves, env_steps)
    branched = {} if cost is None else branch_metrics(cost)
    written = {} if run.writer is None else run.writer.metrics()
    metrics = examined | books | branched | written | filling.metrics()
    return Waves(groups=groups_scored, played=played, unused=unused, metrics=metrics)


async def _play_batch(
    run: Run, stage: Stage | None, courses: Sequence[_Course], step: int, clock: Clock
) -> tuple[Metrics, int]:
    """Play some tasks until the guide wants no more of any; the metrics of the examiners, and the number of waves."""
    await prepare(run.guide, run.writer, [course.task for course in courses], seed=_seed(run, step, 0))
    plans: list[Plan | None] = [first_wave(run.guide, course.task, run.group_size) for course in courses]
    examined: Metrics = {}
    wave = 0
    while active := [(course, plan) for course, plan in zip(courses, plans, strict=True) if plan is not None]:
        _refuse_endless(run.guide, active, wave)
        active = [(course, run.guard.allowed(course.task, plan)) for course, plan in active]
        with clock("collect"):
            groups, examined = await _play(run, stage, active, _seed(run, step, wave))
        with clock("reward"):
            for (course, plan), group in zip(active, groups, strict=True):
                course.add(plan, group, run, step)
        wave += 1
        asked = [course.scored() for course, _ in active]
        await consult(run.guide, run.writer, asked, wave=wave, seed=_seed(run, step, wave))
        plans = [
            None if plan is None else next_wave(run.guide, course.scored(), wave, rows=len(course.rows))
            for course, plan in zip(courses, plans, strict=True)
        ]
    return examined, wave


def _seed(run: Run, step: int, wave: int) -> int:
    return derive_seed(run.seed_at(step), "wave", wave) if wave else run.seed_at(step)


def _refuse_endless(guide: Guide, active: Sequence[tuple[_Course, Plan]], wave: int) -> None:
    if wave >= MAX_WAVES:
        name, task = type(guide).__name__, active[0][0].task.id
        raise RunError(f"{name} wants wave {wave} of task '{task}'; again() must answer None before that")


async def _play(
    run: Run, stage: Stage | None, active: Sequence[tuple[_Course, Plan]], seed: int
) -> tuple[list[Group], Metrics]:
    """The groups of one wave with the facts of all examiners, which begin with a group while others are played."""
    tasks, entries = [course.task for course, _ in active], [plan.entries for _, plan in active]
    play = partial(play_groups if run.trees is None else run.trees.play, run.player, run.worlds, tasks, entries)
    if stage is None:
        return await play(seed=seed), {}
    return await stage.finish(await play(seed=seed, ended=stage.group_done))


@dataclass(slots=True)
class _Course:
    """One task in one step: its episodes in the order in which they were played, and where each of them belongs."""

    task: Task
    trajectories: list[Trajectory] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    own: list[list[int]] = field(default_factory=list)
    left_out: dict[int, Unused] = field(default_factory=dict)

    def add(self, plan: Plan, group: Group, run: Run, step: int) -> None:
        """Score the episodes of a wave beside the earlier ones, and put them where the plan says."""
        fresh = range(len(self.trajectories), len(self.trajectories) + len(group.trajectories))
        self.trajectories += group.trajectories
        self.scores = list(run.score(Group(task=self.task, trajectories=tuple(self.trajectories)), step).scores)
        good = []
        for row, entry in zip(fresh, plan.entries, strict=True):
            if isinstance(entry, PrefixTurns) and entry.whole and not is_solved(self.scores[row]):
                self.left_out[row] = "failed_experts"
            else:
                good.append(row)
        if plan.into == "same" or not self.rows:
            self.rows += good
        elif plan.into == "own":
            self.own.append(good)
        else:
            self._replace(good, plan.row)

    def scored(self) -> ScoredGroup:
        """All episodes so far."""
        return self._chosen(range(len(self.trajectories)))

    def learned(self, run: Run, step: int) -> Iterator[ScoredGroup]:
        """The groups to learn from: that of the task, then those of waves that make a group of their own.

        Each is scored by itself, as ``turngate rescore`` would.
        """
        whole = list(range(len(self.trajectories)))
        for rows in (self.rows, *self.own):
            if rows == whole:
                yield self.scored()
            elif rows:
                trajectories = self._grafted(rows)
                yield run.score(Group(task=self.task, trajectories=trajectories), step)

    def unused(self) -> Iterator[ScoredGroup]:
        """The episodes that are not learned from, if there are any."""
        if self.left_out:
            yield self._chosen(sorted(self.left_out))

    def _replace(self, candidates: Sequence[int], place: int | None) -> None:
        """Put the best candidate in the place of a row (None: the worst unguided one), if it is better than that."""
        for row in candidates:
            self.left_out[row] = "tried"
        if place is None:
            free = [at for at, row in enumerate(self.rows) if self.trajectories[row].guidance is None]
            place = min(free, key=lambda at: self._worth(self.rows[at]), default=None)
        best = max(candidates, key=self._worth, default=None)
        if place is None or best is None or self._worth(best) <= self._worth(self.rows[place]):
            return
        self.left_out[self.rows[place]] = "replaced"
        del self.left_out[best]
        self.rows[place] = best

    def _worth(self, row: int) -> tuple[bool, float, float]:
        score = self.scores[row]
        return score.usable, score.outcome or 0.0, score.compared.total

    def _grafted(self, rows: Sequence[int]) -> tuple[Trajectory, ...]:
        """The episodes of some rows in their order, without those of the others that they branched off."""
        stays_B = np.zeros(len(self.trajectories), np.bool_)
        stays_B[list(rows)] = True
        left = {one.id: one for one in regrafted(self.trajectories, stays_B)}
        return tuple(left[self.trajectories[row].id] for row in rows)

    def _chosen(self, rows: Sequence[int]) -> ScoredGroup:
        return ScoredGroup(
            task=self.task,
            trajectories=tuple(self.trajectories[row] for row in rows),
            scores=tuple(self.scores[row] for row in rows),
        )


def _books(
    courses: Sequence[_Course],
    groups: Sequence[ScoredGroup],
    played: Sequence[ScoredGroup],
    waves: int,
    env_steps: int,
) -> Metrics:
    """Where every episode went, how many were helped, and by how much help of each level raised success.

    ``guide/lift_L`` is the success of episodes with help of level L less ``guide/unguided_success``, in this step.
    """
    pairs = [pair for group in played for pair in zip(group.trajectories, group.scores, strict=True)]
    kept = sum(len(group.trajectories) for group in groups)
    left_out = Counter(reason for course in courses for reason in course.left_out.values())
    assert len(pairs) == kept + left_out.total(), "every episode is booked once"
    alone = success_rate([score for one, score in pairs if unguided(one)])
    levels: dict[int, list[Score]] = {}
    for one, score in pairs:
        if one.guidance is not None:
            levels.setdefault(one.guidance.level, []).append(score)
    rates = {level: success_rate(scores) for level, scores in sorted(levels.items())}
    found = {
        "waves": float(waves),
        "sampled": float(len(pairs)),
        "kept": float(kept),
        **{reason: float(left_out[reason]) for reason in ("replaced", "tried", "failed_experts")},
        "env_steps": float(env_steps),
        "guided_share": float(np.mean([not unguided(one) for one, _ in pairs])),
    }
    if alone is not None:
        found["unguided_success"] = alone
        found |= {f"lift_{level}": rate - alone for level, rate in rates.items() if rate is not None}
    return {f"guide/{name}": value for name, value in found.items()}
