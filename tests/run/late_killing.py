"""A lock whose process kills itself by SIGKILL, once, in a second turn, when so many steps are recorded."""

import os
import signal
import threading
from pathlib import Path

from turngate import register
from turngate.envs.base import Outcome
from turngate.envs.lock import LockEnv
from turngate.envs.tasks import TasksLike
from turngate.types import Action

_lock = threading.Lock()


class LateKillingLock(LockEnv):
    """``run``: the run's folder, whose records say how many ``steps`` are finished."""

    def __init__(
        self,
        *,
        run: str,
        steps: int,
        tasks: TasksLike = None,
        split: str | None = None,
        max_turns: int | None = None,
    ) -> None:
        super().__init__(tasks=tasks, split=split, max_turns=max_turns)
        self._metrics, self._marker, self._steps = Path(run, "metrics.jsonl"), Path(run, "../marker"), steps

    def act(self, action: Action) -> Outcome:
        with _lock:
            if len(self._right) == 1 and not self._marker.exists() and self._recorded() == self._steps:
                self._marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return super().act(action)

    def _recorded(self) -> int:
        return len(self._metrics.read_text().splitlines()) if self._metrics.exists() else 0


register("test/LateKillingLock-v0", "tests.run.late_killing:LateKillingLock")
