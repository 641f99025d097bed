"""One training step from top to bottom: read ``train_step`` first. Each line of it calls a small function."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np

from turngate.agents.policies.base import Policy
from turngate.agents.rollout import Player, Worlds, play_groups
from turngate.errors import ConfigError, RunError
from turngate.examine.run import Examining
from turngate.metrics import Clock
from turngate.trainer.branched_play import Trees
from turngate.trainer.canary import UpdateKl, check_agreement, longest, probe
from turngate.trainer.checkpoint import Stateful
from turngate.trainer.evaluate import SUCCESS
from turngate.trainer.filters import Filter, keep
from turngate.trainer.guidance import Guide
from turngate.trainer.learner import MAX_KL, Learner, measured_for
from turngate.trainer.loss import Loss
from turngate.trainer.monitoring import credit_metrics, unwatched
from turngate.trainer.pack import Aggregate, by_turn, pack, split
from turngate.trainer.shared_turns import sampled_turns
from turngate.trainer.signals.base import AfterCredit, Signals
from turngate.trainer.table import tabulate
from turngate.types import (
    Batch,
    Credit,
    Ending,
    Group,
    Guidance,
    Metrics,
    Score,
    ScoredGroup,
    Task,
    TokenRule,
    Trajectory,
    TurnTable,
    derive_seed,
)

_log = logging.getLogger(__name__)
PROBES = 2  # episodes of which turns are sampled again after each publish (see ``canary``)


class Recorder(Protocol):
    """Stores what was played (see ``turngate.store``)."""

    def write(self, step: int, scored: Sequence[ScoredGroup]) -> None:
        """Store the episodes of ``step`` with their scores."""
        ...


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
    reference: Learner | None = None  # frozen, for losses that keep the policy close to it
    watch: Callable[[int, Sequence[ScoredGroup], Metrics], Metrics] = unwatched
    signals: Signals = field(default_factory=Signals)  # what the credit rule reads beyond rewards
    trees: Trees | None = None  # how episodes branch off others; None: siblings are chains

    @property
    def policy(self) -> Policy:
        """The policy that plays and is trained."""
        return self.player.policy

    @property
    def checkpointed(self) -> Mapping[str, Stateful]:
        """What a checkpoint saves beside the learner: the models that signals train, and the examiners' memory."""
        return self.signals.learners if self.examining is None else {**self.signals.learners, "examine": self.examining}

    @property
    def waits(self) -> bool:
        """Whether scores can depend on facts of examiners, which may be missing."""
        return self.examining is not None and bool(self.examining.examiners)

    def seed_at(self, step: int) -> int:
        """The seed from which everything random in one step derives."""
        return derive_seed(self.seed, "step", step)


async def train_step(run: Run, tasks: Sequence[Task], step: int) -> Metrics:
    """One update: plan help, play, examine, score, filter, credit, pack, learn, publish, record. Returns the
    metrics."""
    clock = Clock()
    plans = planned(run.guide, tasks, run.group_size)
    with clock("collect"):
        groups, examined = await play_examined(run, tasks, plans, step)
    with clock("reward"):
        scored = [run.score(group, step) for group in groups]
        kept, drops = keep(scored, run.filters)
    metrics = summarize(scored, waits=run.waits) | drops | examined
    if kept:
        with clock("credit"):
            table, after_credit = run.signals.measure(kept, tabulate(kept))
            credit = run.credit(table)
            batch = pack(kept, credit, aggregate=run.aggregate)
        metrics |= credit_metrics(run.credit, table, by_turn(credit, table.n_turns))
        with clock("learn"):
            metrics |= learn(run, batch, table, after_credit, first=step == 1)
        with clock("publish"):
            metrics |= await publish_checked(run, scored, step)
    run.guide.observe(scored)
    with clock("record"):
        run.store.write(step, scored)
        metrics |= run.watch(step, scored, metrics)
    return metrics | run.guide.metrics() | clock


def planned(guide: Guide, tasks: Sequence[Task], group_size: int) -> list[Sequence[Guidance | None]]:
    """What the guide plans for the siblings of each task. Raises ConfigError for guidance that cannot be trained on."""
    plans = [guide.plan(task, group_size) for task in tasks]
    for guidance in (entry for plan in plans for entry in plan if entry is not None):
        if guidance.strip_for_train:
            raise ConfigError(
                f"guidance of kind '{guidance.kind}' asks for strip_for_train, but training cannot take help out of "
                "the context yet; plan it with strip_for_train=False"
            )
    return plans


async def play_examined(
    run: Run, tasks: Sequence[Task], plans: Sequence[Sequence[Guidance | None]], step: int
) -> tuple[list[Group], Metrics]:
    """The groups of a step, with the facts of all examiners, which begin with a group while others are still played."""
    seed = run.seed_at(step)
    play = partial(play_groups, run.player, run.worlds, tasks, plans, seed=seed)
    if run.trees is not None:
        play = partial(run.trees.play, run.player, run.worlds, tasks, budget=run.group_size, seed=seed)
    if run.examining is None:
        groups, metrics = await play(), dict[str, float]()
    else:
        async with run.examining.begin(step) as stage:
            groups, metrics = await stage.finish(await play(ended=stage.group_done))
    return groups, metrics | ({} if run.trees is None else run.trees.metrics(groups))


def learn(run: Run, batch: Batch, table: TurnTable, after_credit: AfterCredit, *, first: bool) -> Metrics:
    """Update the learner on the batch, in ``minibatches`` optimizer steps, and train what signals train.

    ``first`` marks the first batch of a run, on which the learner's log-probabilities are compared with the sampler's.
    Raises MismatchError where they differ, RunError for updates that move the policy too far.
    """
    metrics = _check(run, batch) if first else {}
    returns, noted = after_credit(table)
    parts = [  # all columns are measured before the first update
        (part, measured_for(run.loss, part, run.learner, run.reference) | own)
        for part, own in split(batch, returns, run.minibatches)
    ]
    metrics |= noted
    update_kl = UpdateKl(batch, run.learner)
    for part, columns in parts:
        measured = run.learner.forward_backward(part, run.loss, measured=columns) | run.learner.optim_step()
        for name, value in measured.items():
            metrics[name] = metrics.get(name, 0.0) + value / len(parts)
    return metrics | update_kl.check(metrics, limit=run.max_kl)


async def publish_checked(run: Run, scored: Sequence[ScoredGroup], step: int) -> Metrics:
    """Give the new weights to the sampler and check that it samples with them. Raises MismatchError if not."""
    await run.policy.publish(run.learner.weights(), step)
    played = longest([trajectory for group in scored for trajectory in group.trajectories if trajectory.turns], PROBES)
    spoken = await probe(run.player, played, seed=run.seed_at(step))
    return _check(run, spoken) | {"policy/version": float(step)}


def _check(run: Run, batch: Batch) -> Metrics:
    truncates = run.player.sampling.truncates
    return check_agreement(batch, run.learner, tolerance=run.tolerance, truncates=truncates, rounding=run.rounding)


def summarize(groups: Sequence[ScoredGroup], *, waits: bool = False) -> Metrics:
    """Success and payments of a step, and of each environment where there are several (``env/NAME/…``).

    Unusable episodes are counted and left out of the averages, except of ``success_of_all``, where they are failures.
    Raises RunError if no episode is usable. With ``waits``, scores need facts of examiners, which may be missing for a
    step (a judge's server is down): that is logged, and RunError is raised only if all episodes of the step broke.
    """
    pairs = [pair for group in groups for pair in zip(group.trajectories, group.scores, strict=True)]
    if not any(score.usable for _, score in pairs):
        problem = next((t.error or s.problem for t, s in pairs if t.error or s.problem), "no episode was played")
        if not waits or not any(trajectory.ending.usable for trajectory, _ in pairs):
            raise RunError(
                f"none of {len(pairs)} episodes of this step can be used; the problem of the first: {problem}"
            )
        _log.warning(
            "none of %d episodes of this step can be scored; the problem of the first: %s", len(pairs), problem
        )
        return {"train/unusable_share": 1.0}
    by_env: dict[str, list[tuple[Trajectory, Score]]] = {}
    for trajectory, score in pairs:
        by_env.setdefault(trajectory.task.env_id, []).append((trajectory, score))
    apart = by_env if len(by_env) > 1 else {}
    own = [{f"env/{name}/{key}": value for key, value in _means(some).items()} for name, some in apart.items()]
    return {f"train/{key}": value for key, value in _means(pairs).items()} | {
        k: v for one in own for k, v in one.items()
    }


def _means(pairs: Sequence[tuple[Trajectory, Score]]) -> Metrics:
    usable = [(trajectory, score) for trajectory, score in pairs if score.usable]
    successes = sum((score.outcome or 0.0) >= SUCCESS for _, score in usable)
    of_all = {
        "unusable_share": 1 - len(usable) / len(pairs),
        "agent_fault_share": sum(t.ending is Ending.AGENT_FAULT for t, _ in pairs) / len(pairs),
        "success_of_all": successes / len(pairs),
    }
    if not usable:
        return of_all
    n_tokens = sum(len(turn.completion.ids_K) for trajectory, _ in usable for turn in sampled_turns(trajectory))
    return {
        "success": successes / len(usable),
        "outcome": float(np.mean([score.outcome or 0.0 for _, score in usable])),
        "paid": float(np.mean([score.total for _, score in usable])),
        "turns": float(np.mean([len(trajectory.turns) for trajectory, _ in usable])),
        "finished_share": float(np.mean([trajectory.ending.terminated for trajectory, _ in usable])),
        "sampled_tokens": float(n_tokens),
        **of_all,
    }
