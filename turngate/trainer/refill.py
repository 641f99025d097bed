"""Dynamic sampling: a step whose filters drop groups plays further tasks, until as many are left as it began with."""

from __future__ import annotations

import math
from collections.abc import Sequence

from turngate.trainer.filters.parts import keep
from turngate.trainer.run import Run
from turngate.types import Metrics, ScoredGroup, Task

MARGIN = 1.25
"""Tasks that are played per task that is expected to be needed."""


def batch_size(missing: int, kept: int, played: int, most: int) -> int:
    """``⌈1.25·missing/q⌉``, but at most ``most``: how many tasks to play next, where q = kept/played stayed so far.

    Source: the adaptive batch of GRESO, https://arxiv.org/abs/2506.02177. Where none stayed it is ``most``.
    """
    return min(most, math.ceil(MARGIN * missing * played / kept)) if kept else most


class Filling:
    """How full a step is; it is full with ``wanted`` tasks that each have a group which passes the filters.

    The groups of a batch are all played before they are counted, because those that are done first are the short ones.
    Source: DAPO, https://arxiv.org/abs/2503.14476, which ends after 10 batches. A step that is still not full then, or
    has no tasks left to play, is trained on what there is.
    """

    def __init__(self, run: Run, wanted: int) -> None:
        self._run, self._wanted = run, wanted
        self._batches = self._played = 0
        self._kept = 0

    def further(self, scored: Sequence[ScoredGroup]) -> Sequence[Task]:
        """The tasks to play next, after ``scored`` was played; empty where the step is full or has to end."""
        run = self._run
        if run.curriculum is None or run.batches == 1:
            return ()
        self._batches += 1
        self._played = len(_tasks(scored))
        self._kept = len(_tasks(keep(scored, run.filters, lone=run.lone)[0]))
        missing = self._wanted - self._kept
        if missing <= 0 or self._batches >= run.batches:
            return ()
        return run.curriculum.more(batch_size(missing, self._kept, self._played, self._wanted))

    def metrics(self) -> Metrics:
        """How many batches and tasks were played, and how many tasks the step lacks; none where nothing is refilled."""
        if not self._batches:
            return {}
        return {
            "refill/batches": float(self._batches),
            "refill/tasks": float(self._played),
            "refill/missing_tasks": float(max(0, self._wanted - self._kept)),
        }


def _tasks(groups: Sequence[ScoredGroup]) -> set[str]:
    return {group.task.id for group in groups}
