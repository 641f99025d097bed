"""One training step from top to bottom: read ``train_step`` first. Each line of it calls a small function.

``collect`` plays, ``update`` learns, ``finish`` publishes and records. ``turngate.trainer.ahead`` puts the same three
together so that the first of a step and the second of the step before run at the same time.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from turngate.errors import RunError
from turngate.store.metrics import Clock
from turngate.store.step_credit import EpisodeCredit
from turngate.trainer.auxiliary.learning import AuxiliaryBatch, add_beside, learn_apart
from turngate.trainer.batch.contexts import without_hints
from turngate.trainer.batch.episode_credit import episode_credits
from turngate.trainer.batch.pack import by_turn, pack, split
from turngate.trainer.batch.shared_turns import sampled_turns
from turngate.trainer.batch.table import tabulate
from turngate.trainer.checks.broken_batch import keeping
from turngate.trainer.checks.canary import UpdateKl, check_agreement, longest, probe
from turngate.trainer.checks.monitoring import credit_metrics
from turngate.trainer.filters.parts import keep
from turngate.trainer.learner import measured_for
from turngate.trainer.offline.answers import waves_of
from turngate.trainer.offline.ratios import ratio_metrics
from turngate.trainer.offline.sources import Waves
from turngate.trainer.run import Run
from turngate.trainer.signals.base import AfterCredit
from turngate.trainer.torch.peak_memory import peak_memory
from turngate.trainer.waves import play_waves
from turngate.types import (
    Batch,
    Ending,
    Metrics,
    Score,
    ScoredGroup,
    Source,
    Task,
    Trajectory,
    TurnTable,
)

_log = logging.getLogger(__name__)
UNUSED = "unused"  # phase under which the store keeps episodes that were played and not learned from
COUNTS = {"learner/skipped_updates"}  # metrics of updates that are added up; of others the mean is taken
PROBES = 2  # episodes of which turns are sampled again after each publish (see ``canary``)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What a step learns from: ``waves``, and the rows in ``auxiliary``.

    ``n_tasks`` is how many tasks the step was given, before any refill. ``found`` are the metrics of the auxiliary
    losses and ``observed`` those of guide and curriculum, which have seen the results. ``clock`` goes on in the later
    stages.
    """

    step: int
    n_tasks: int
    waves: Waves
    auxiliary: Sequence[AuxiliaryBatch]
    found: Metrics
    observed: Metrics
    clock: Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated:
    """What ``update`` did: its metrics, whether the weights changed, and the credit of each episode by its id."""

    metrics: Metrics
    moved: bool
    credit: Mapping[str, EpisodeCredit]


async def train_step(run: Run, tasks: Sequence[Task], step: int) -> Metrics:
    """One update: play and score in waves, filter, collect auxiliary rows, credit, pack, learn, publish, record.

    Returns the metrics.
    """
    collected = await collect(run, tasks, step)
    return await finish(run, collected, update(run, collected))


async def collect(run: Run, tasks: Sequence[Task], step: int) -> Collected:
    """Get the episodes of the step, played with the sampler's weights or recorded before, and show those that were
    played to guide and curriculum. The learner stays as it is."""
    clock, before_s = Clock(), run.worlds.env_time_s
    waves = await waves_of(run.episodes, partial(play_waves, run, step=step, clock=clock), tasks, step)
    with clock("collect"):
        auxiliary, found = await run.auxiliary.batches(waves.played or waves.replayed, step)
    if waves.played:
        found = {**found, "busy/env_s": run.worlds.env_time_s - before_s}
    observed = run.observe(waves.played)
    return Collected(
        step=step, n_tasks=len(tasks), waves=waves, auxiliary=auxiliary, found=found, observed=observed, clock=clock
    )


def update(run: Run, collected: Collected) -> Updated:
    """Update the learner on what was collected; the sampler keeps its weights.

    It awaits nothing and shares no state with ``collect``, so it may run in a thread of its own meanwhile. Raises
    RunError where no episode is usable, and what ``learn`` raises.
    """
    scored, auxiliary, clock = collected.waves.groups, collected.auxiliary, collected.clock
    most = collected.n_tasks if run.batches > 1 else None
    kept, drops = keep(scored, run.filters, most=most, lone=run.lone)
    kept = without_hints(kept)
    metrics = (
        summarize(collected.waves.fresh or scored, waits=run.waits) | drops | collected.waves.metrics | collected.found
    )
    learned: Mapping[str, EpisodeCredit] = {}
    if kept:
        with clock("credit"):
            known = tabulate(kept)
            table, after_credit = run.signals.measure(kept, known)
            credit = run.credit(table)
            batch = pack(kept, credit, aggregate=run.aggregate, experts=run.experts)
            learned = episode_credits(kept, table, credit, table.measured.keys() - known.measured.keys() - {"turn_S"})
        metrics |= credit_metrics(run.credit, table, by_turn(credit, table.n_turns))
        with clock("learn"):
            metrics |= learn(run, batch, table, after_credit, auxiliary, first=collected.step == 1)
    if auxiliary:
        with clock("learn"):
            metrics |= learn_apart(run.learner, auxiliary, alone=not kept)
    return Updated(metrics=metrics, moved=bool(kept or auxiliary), credit=learned)


async def finish(run: Run, collected: Collected, updated: Updated) -> Metrics:
    """Publish the new weights, if there are any, and record the step. Returns all metrics of the step."""
    step, waves, clock = collected.step, collected.waves, collected.clock
    metrics = dict(updated.metrics)
    if run.publishing.due(step, moved=updated.moved):
        with clock("publish"):
            metrics |= await publish_checked(run, waves.groups, step)
    run.reset.after(step, run.learner.weights)
    metrics |= collected.observed | run.publishing.metrics(step)
    with clock("record"):
        if waves.fresh:
            run.store.write(step, waves.fresh)
        if waves.unused:
            run.store.write(step, waves.unused, phase=UNUSED)
        run.store.write_credit(step, updated.credit)
        metrics |= run.watch(step, waves.fresh, metrics)
    return metrics | clock | peak_memory()


def learn(
    run: Run,
    batch: Batch,
    table: TurnTable,
    after_credit: AfterCredit,
    auxiliary: Sequence[AuxiliaryBatch] = (),
    *,
    first: bool,
) -> Metrics:
    """Update the learner on the batch and on the auxiliary losses, in ``minibatches`` optimizer steps; then train the
    models of signals.

    ``first`` marks the first batch of a run, on which the learner's log-probabilities are compared with the sampler's.
    Raises MismatchError where they differ, RunError for updates that move the policy too far.
    """
    metrics = (_check(run, batch) if first else {}) | ratio_metrics(batch, run.learner)
    returns, noted = after_credit(table)
    parts = [  # all columns are measured before the first update
        (part, measured_for(run.loss, part, run.learner, run.reference) | own)
        for part, own in split(batch, returns, run.minibatches)
    ]
    metrics |= noted
    update_kl = UpdateKl(batch, run.learner)
    for place, (part, columns) in enumerate(parts):
        with keeping(run.keep_batch, part, columns):
            measured = run.learner.forward_backward(part, run.loss, measured=columns)
            measured |= add_beside(run.learner, auxiliary, minibatch=place, of=len(parts)) | run.learner.optim_step()
        for name, value in measured.items():
            metrics[name] = metrics.get(name, 0.0) + value / (1 if name in COUNTS else len(parts))
    return metrics | update_kl.check(metrics, limit=run.max_kl)


async def publish_checked(run: Run, scored: Sequence[ScoredGroup], step: int) -> Metrics:
    """Give the new weights to the sampler and check that it samples with them. Raises MismatchError if not.

    The check samples new replies and takes only the observations from the episodes, so recorded ones do as well.
    """
    await run.publishing.publish(run.policy, run.learner.weights(), step)
    played = longest([trajectory for group in scored for trajectory in group.trajectories if trajectory.turns], PROBES)
    spoken = await probe(run.player, played, seed=run.seed_at(step))
    return _check(run, spoken) | {"policy/version": float(step)}


def _check(run: Run, batch: Batch) -> Metrics:
    truncates = run.player.sampling.truncates
    return check_agreement(batch, run.learner, tolerance=run.tolerance, truncates=truncates, rounding=run.rounding)


def summarize(groups: Sequence[ScoredGroup], *, waits: bool = False) -> Metrics:
    """Success and payments of a step, and of each environment where there are several (``env/NAME/…``).

    Unusable episodes are counted and left out of the averages, except of ``success_of_all``, where they are failures.
    In ``paid`` a missing verdict counts as the siblings' mean (``Score.compared``); ``missing_shares`` says how often.
    ``cut_off_share`` is the share of the turns that were cut off at their token limit. Raises RunError if no episode is
    usable. With ``waits``, scores need facts of examiners, which may be missing for a step (a judge's server is down):
    that is logged, and RunError is raised only if all episodes of the step broke.
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
    means = {f"train/{key}": value for key, value in _means(pairs).items()}
    return means | {k: v for one in own for k, v in one.items()} | missing_shares(pairs)


def missing_shares(pairs: Sequence[tuple[Trajectory, Score]]) -> Metrics:
    """``reward/NAME/missing_share``: share of the usable episodes in which a verdict of the component NAME was due and
    is missing; for every process and penalty component that was paid or missing somewhere."""
    scores = [score for _, score in pairs if score.usable]
    paid = {event.name for score in scores for event in score.ledger if event.kind != "outcome"}
    names = sorted(paid.union(*(score.missing for score in scores)))
    return {
        f"reward/{name}/missing_share": sum(name in score.missing for score in scores) / len(scores) for name in names
    }


def _means(pairs: Sequence[tuple[Trajectory, Score]]) -> Metrics:
    usable = [(trajectory, score) for trajectory, score in pairs if score.usable]
    successes = sum(bool(score.success) for _, score in usable)
    of_all = {
        "unusable_share": 1 - len(usable) / len(pairs),
        "agent_fault_share": sum(t.ending is Ending.AGENT_FAULT for t, _ in pairs) / len(pairs),
        "success_of_all": successes / len(pairs),
    }
    if not usable:
        return of_all
    sources = [turn.source for trajectory, _ in usable for turn in sampled_turns(trajectory)]
    cuts = [turn.action.cut_off for trajectory, _ in usable for turn in sampled_turns(trajectory)]
    n_tokens = sum(int(np.count_nonzero(source == Source.POLICY)) for source in sources)
    return {
        "success": successes / len(usable),
        "outcome": float(np.mean([score.outcome or 0.0 for _, score in usable])),
        "paid": float(np.mean([score.compared.total for _, score in usable])),
        "turns": float(np.mean([len(trajectory.turns) for trajectory, _ in usable])),
        "finished_share": float(np.mean([trajectory.ending.terminated for trajectory, _ in usable])),
        "cut_off_share": sum(cuts) / max(len(cuts), 1),
        "sampled_tokens": float(n_tokens),
        **of_all,
    }
