"""A lock whose process kills itself by SIGKILL, once, in the second turn of a given training episode."""

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
_begun = {"n": 0}


class LateKillingLock(LockEnv):
    """``episode``: which one it is, of all that the process plays on tasks of training, from 1 on."""

    def __init__(
        self,
        *,
        marker: str,
        episode: int,
        tasks: TasksLike = None,
        split: str | None = None,
        max_turns: int | None = None,
    ) -> None:
        super().__init__(tasks=tasks, split=split, max_turns=max_turns)
        self._marker, self._last, self._number = Path(marker), episode, 0

    def act(self, action: Action) -> Outcome:
        if not self._right and self._episode.task.split == "train":
            with _lock:
                _begun["n"] += 1
                self._number = _begun["n"]
        elif self._number >= self._last and not self._marker.exists():
            self._marker.write_text(str(self._number))
            os.kill(os.getpid(), signal.SIGKILL)
        return super().act(action)


register("test/LateKillingLock-v0", "tests.run.late_killing:LateKillingLock")
