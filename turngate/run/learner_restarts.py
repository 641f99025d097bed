"""The work on a run with the processes of its learner, which are started anew where a cluster lost one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rich.console import Console

from turngate.config.run_config import Config
from turngate.errors import ProcessLost
from turngate.store.folder import RunFolder
from turngate.trainer.checkpoint import Checkpoints
from turngate.trainer.checks import learner_output

T = TypeVar("T")
RESTARTS = 3
"""How often in a row the processes are started anew without a step in between."""


def run_with_learner(
    config: Config, folder: RunFolder, work: Callable[[], T], console: Console, *, jobs: int = 1
) -> T | None:
    """``work()`` while the processes of the learner are there; None in a process that only helped (``started``).

    ``work`` does what is left of the run in ``folder``, as the command does that is given again. Raises ProcessLost
    after ``RESTARTS`` in a row.
    """
    restarts, reached = 0, None
    while True:
        try:
            with learner_output.start_learner(config.learner, jobs=jobs, cluster=config.cluster) as works:
                return work() if works else None
        except ProcessLost as lost:
            step = Checkpoints(folder.checkpoints).last()
            restarts = restarts + 1 if step == reached else 1
            reached = step
            if restarts > RESTARTS:
                raise
            since = "the beginning" if step is None else f"step {step}"
            line = f"{lost}; the learner is started again, after {since}"
            console.print(line, markup=False, highlight=False, soft_wrap=True)
