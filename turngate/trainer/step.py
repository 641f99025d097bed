"""One training step. This file tells the story; every verb in it is a small function elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from turngate.agents.policies.base import Policy
from turngate.agents.rollout import Player, Worlds, play_groups
from turngate.errors import RunError
from turngate.metrics import Clock
from turngate.trainer.canary import check_agreement, longest, probe
from turngate.trainer.evaluate import SUCCESS
from turngate.trainer.filters import Filter, keep
from turngate.trainer.guidance import Guide
from turngate.trainer.learner import Learner, measured_for
from turngate.trainer.loss import Loss
from turngate.trainer.monitoring import credit_by_turns, unwatched
from turngate.trainer.pack import Aggregate, by_turn, pack, split_with
from turngate.trainer.signals import Lesson, Signals
from turngate.trainer.table import tabulate
from turngate.types import Batch, Credit, Group, Metrics, ScoredGroup, Task, TokenRule, TurnTable, derive_seed

PROBES = 2  # episodes that the canary replays after each publish


class Recorder(Protocol):
    """Where a step is recorded (see ``turngate.store``)."""

    def write(self, step: int, scored: Sequence[ScoredGroup]) -> None:
        """Keep what was played in ``step``, with its scores."""
        ...


@dataclass(frozen=True, kw_only=True)
class Run:
    """Everything a step needs, made by ``turngate.build``. ``score``: a rubric's ``score_group``, of group and step."""

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
    reference: Learner | None = None  # frozen, for losses that hold the policy near it
    watch: Callable[[int, Sequence[ScoredGroup], Metrics], Metrics] = unwatched
    signals: Signals = field(default_factory=Signals)  # what the credit rule reads beyond rewards

    @property
    def policy(self) -> Policy:
        """Who acts."""
        return self.player.policy

    def seed_at(self, step: int) -> int:
        """The seed of everything random in one step."""
        return derive_seed(self.seed, "step", step)


async def train_step(run: Run, tasks: Sequence[Task], step: int) -> Metrics:
    """One update: plan, play, score, keep, credit, pack, learn, publish, record."""
    clock = Clock()
    plans = [run.guide.plan(task, run.group_size) for task in tasks]
    with clock("rollout"):
        groups = await play_groups(run.player, run.worlds, tasks, plans, seed=run.seed_at(step))
    with clock("reward"):
        scored = [run.score(group, step) for group in groups]
        kept, drops = keep(scored, run.filters)
    metrics = summarize(scored) | drops
    if kept:
        with clock("credit"):
            table, lesson = run.signals.measure(kept, tabulate(kept))
            credit = run.credit(table)
            batch = pack(kept, credit, aggregate=run.aggregate)
        metrics |= credit_by_turns(table, by_turn(credit, table.n_turns))
        with clock("learn"):
            metrics |= learn(run, batch, table, lesson, first=step == 1)
        with clock("publish"):
            metrics |= await publish_checked(run, scored, step)
    run.guide.observe(scored)
    with clock("record"):
        run.store.write(step, scored)
        metrics |= run.watch(step, scored, metrics)
    return metrics | run.guide.metrics() | clock


def learn(run: Run, batch: Batch, table: TurnTable, lesson: Lesson, *, first: bool) -> Metrics:
    """Descend on the batch in ``minibatches`` steps; the run's first batch must be what the learner would sample."""
    metrics = _check(run, batch) if first else {}
    returns, noted = lesson(table)
    parts = [  # all columns are measured before the first update
        (part, measured_for(run.loss, part, run.learner, run.reference) | own)
        for part, own in split_with(batch, returns, run.minibatches)
    ]
    metrics |= noted
    for part, columns in parts:
        measured = run.learner.forward_backward(part, run.loss, measured=columns) | run.learner.optim_step()
        for name, value in measured.items():
            metrics[name] = metrics.get(name, 0.0) + value / len(parts)
    return metrics


async def publish_checked(run: Run, scored: Sequence[ScoredGroup], step: int) -> Metrics:
    """Hand the new weights to the sampler and make sure that it samples with them. Raises MismatchError."""
    await run.policy.publish(run.learner.weights(), step)
    played = longest([trajectory for group in scored for trajectory in group.trajectories if trajectory.turns], PROBES)
    spoken = await probe(run.player, played, seed=run.seed_at(step))
    return _check(run, spoken) | {"policy/version": float(step)}


def _check(run: Run, batch: Batch) -> Metrics:
    return check_agreement(batch, run.learner, tolerance=run.tolerance, truncates=run.player.sampling.truncates)


def summarize(groups: Sequence[ScoredGroup]) -> Metrics:
    """Success and payments of a step. Unusable episodes are counted, not averaged in; RunError if all are."""
    pairs = [pair for group in groups for pair in zip(group.trajectories, group.scores, strict=True)]
    usable = [(trajectory, score) for trajectory, score in pairs if score.usable]
    if not usable:
        problem = next((t.error or s.problem for t, s in pairs if t.error or s.problem), "no episode was played")
        raise RunError(f"none of {len(pairs)} episodes of this step can be used; the first says: {problem}")
    n_tokens = sum(len(turn.completion.ids_K) for trajectory, _ in usable for turn in trajectory.turns)
    return {
        "train/success": float(np.mean([(score.outcome or 0.0) >= SUCCESS for _, score in usable])),
        "train/outcome": float(np.mean([score.outcome or 0.0 for _, score in usable])),
        "train/paid": float(np.mean([score.total for _, score in usable])),
        "train/turns": float(np.mean([len(trajectory.turns) for trajectory, _ in usable])),
        "train/finished_share": float(np.mean([trajectory.ending.terminated for trajectory, _ in usable])),
        "train/unusable_share": 1 - len(usable) / len(pairs),
        "train/sampled_tokens": float(n_tokens),
    }
