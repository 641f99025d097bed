"""Whether what a run evaluates on is apart from what it trains on: counted before any work, told with the results."""

from __future__ import annotations

from collections.abc import Iterator

from turngate.config import Config
from turngate.envs.tasks import SupportsMarks
from turngate.run.environments import Environments
from turngate.trainer.overlap import QUESTION, SplitOverlap, overlap, question_of

COMPARED = 1000
"""Training tasks that are looked at, at most: making them costs time, and a leak shows in fewer."""


def split_overlaps(config: Config, environments: Environments) -> Iterator[SplitOverlap]:
    """What each evaluated split shares with training, by environment; a split that is trained on itself is left out."""
    shown = config.warm_start.episodes or 0 if config.warm_start else 0
    seen = environments.split(shown + config.train.steps * config.train.tasks_per_step)
    for label, section in environments.sections.items():
        splits = [split for split in config.eval.splits if split != section.split]
        if not (splits and seen[label]):
            continue
        env = environments[label]
        size = env.tasks.size(section.split)
        trained = environments.heldout(label, section.split, min(seen[label] if size is None else size, COMPARED))
        marks, answers = (env.marks, env.answers) if isinstance(env, SupportsMarks) else (None, ())
        for split in splits:
            tasks = environments.heldout(label, split, config.eval.tasks)
            shared = overlap(trained, tasks, marks)
            yield SplitOverlap(
                split=split if len(environments.sections) == 1 else f"{label}:{split}",
                trained=len(trained),
                tasks=len(tasks),
                questions=len(set(question_of(tasks).values())),
                shared=shared,
                leaks=tuple(name for name in (QUESTION, *answers) if name in shared and shared[name].count),
            )
