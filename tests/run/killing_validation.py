"""A lock whose process kills itself, once, in an episode of validation after a chosen training step."""

import os
import signal
from pathlib import Path

from turngate import register
from turngate.envs.base import Outcome
from turngate.envs.lock import LockEnv
from turngate.envs.tasks import TasksLike
from turngate.types import Action


class KillingValidation(LockEnv):
    """Its process ends in the first turn after the checkpoint of step 4, which is that of a validation."""

    def __init__(
        self, *, marker: str, tasks: TasksLike = None, split: str | None = None, max_turns: int | None = None
    ) -> None:
        super().__init__(tasks=tasks, split=split, max_turns=max_turns)
        self._marker = Path(marker)

    def act(self, action: Action) -> Outcome:
        run = self._marker.parent / "run"
        is_late = (run / "checkpoints/step=000004").exists()
        if is_late and not self._marker.exists():
            self._marker.write_text("killed")
            os.kill(os.getpid(), signal.SIGKILL)
        return super().act(action)


register("test/KillingValidation-v0", "tests.run.killing_validation:KillingValidation")
