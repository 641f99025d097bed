"""Whether evaluated tasks also occur in training: counted before any work, reported with the results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from turngate.config.run_config import Config, load_run
from turngate.envs.tasks import SupportsMarks
from turngate.errors import UserError
from turngate.run.environments import Environments
from turngate.store.folder import RunFolder
from turngate.trainer.evaluation.overlap import QUESTION, SplitOverlap, overlap, question_of
from turngate.types import Task

COMPARED = 1000
"""Training tasks that are looked at, at most: making them costs time, and a leak shows in fewer."""


def split_overlaps(config: Config, environments: Environments) -> Iterator[SplitOverlap]:
    """What each evaluated split shares with training, by environment; a split that is trained on itself is left out."""
    seen = _seen(config, environments, steps=config.train.steps)
    for label, section in environments.sections.items():
        splits = [split for split in config.eval.splits if split != section.split]
        if not (splits and seen[label]):
            continue
        trained = _trained(environments, label, seen[label])
        for split in splits:
            yield _compared(config, environments, label, split, trained)


def overlaps_with_run(model: str, config: Config, environments: Environments) -> tuple[list[SplitOverlap], list[str]]:
    """What the splits that ``config`` evaluates share with the training tasks of ``model``, and lines on unknown cases.

    The training tasks are known for the model of a run, RUN/model or RUN/warm_start: the run's config names them.
    """
    run = RunFolder(Path(model).parent)
    if not (run.exists and Path(model) in (run.model, run.warm_start)):
        return [], [f"overlap with training: not known, because '{model}' is not the model of a run"]
    try:
        own = load_run(run)
        with Environments(own.env, trained=False) as taught:
            steps = own.train.steps if Path(model) == run.model else 0
            return _shared_with(own, taught, config, environments, steps=steps)
    except UserError as error:
        return [], [f"overlap with training: not known, because the config of '{run.path}' cannot be used: {error}"]


def _shared_with(
    own: Config, taught: Environments, config: Config, environments: Environments, *, steps: int
) -> tuple[list[SplitOverlap], list[str]]:
    """``own`` and ``taught`` are of the run of the model, of which it has seen the first ``steps`` training steps."""
    seen = _seen(own, taught, steps=steps)
    found, lines = [], []
    for label, section in environments.sections.items():
        same = {name: one for name, one in taught.sections.items() if one.id == section.id and seen[name]}
        trained = [task for name in same for task in _trained(taught, name, seen[name])]
        for split in config.eval.splits:
            if not trained:
                lines.append(f"overlap with training: not known, because no training task of '{label}' is known")
            elif any((one.split, one.arguments) == (split, section.arguments) for one in same.values()):
                lines.append(f"warning: split '{split}' of '{label}' is the one that the model was trained on")
            else:
                found.append(_compared(config, environments, label, split, trained))
    return found, list(dict.fromkeys(lines))


def _seen(config: Config, environments: Environments, *, steps: int) -> dict[str, int]:
    """How many tasks of each environment the warm start and so many training steps play."""
    shown = config.warm_start.episodes or 0 if config.warm_start else 0
    return environments.split(shown + steps * config.train.tasks_per_step)


def _trained(environments: Environments, label: str, seen: int) -> list[Task]:
    split = environments.sections[label].split
    size = environments[label].tasks.size(split)
    return environments.heldout(label, split, min(seen if size is None else size, COMPARED))


def _compared(
    config: Config, environments: Environments, label: str, split: str, trained: Sequence[Task]
) -> SplitOverlap:
    env = environments[label]
    marks, answers = (env.marks, env.answers) if isinstance(env, SupportsMarks) else (None, ())
    tasks = environments.heldout(label, split, config.eval.tasks)
    shared = overlap(trained, tasks, marks)
    return SplitOverlap(
        split=split if len(environments.sections) == 1 else f"{label}:{split}",
        trained=len(trained),
        tasks=len(tasks),
        questions=len(set(question_of(tasks).values())),
        shared=shared,
        leaks=tuple(name for name in (QUESTION, *answers) if name in shared and shared[name].count),
    )
