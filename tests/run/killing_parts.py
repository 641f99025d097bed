"""A lock whose process kills itself, once, in the middle of an episode; and a guide that says in which wave.

The process dies by SIGKILL, so nothing in it can tidy up. A marker file, written just before, keeps it from happening
again: the run that goes on with the same config lives.
"""

import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

from turngate import register
from turngate.envs.base import Outcome
from turngate.envs.lock import LockEnv
from turngate.envs.tasks import TasksLike
from turngate.trainer.guidance.base import Helpers
from turngate.trainer.guidance.plan import Plan
from turngate.trainer.guidance.prefix_schedules import ReverseCurriculum, ReverseCurriculumPart
from turngate.types import Action, ScoredGroup

WAVE, BRANCH = 2, 9
"""The wave in which it happens; where there are branches, with which of them: one step has at most eight."""
_lock = threading.Lock()
_wave = {"is_on": False}
_branches = {"n": 0}


class KillingLock(LockEnv):
    """Its process ends in its second turn of the wave, or in the first turn after a branch."""

    def __init__(
        self, *, marker: str, tasks: TasksLike = None, split: str | None = None, max_turns: int | None = None
    ) -> None:
        super().__init__(tasks=tasks, split=split, max_turns=max_turns)
        self._marker, self._continues = Path(marker), False

    def load(self, saved: object) -> None:
        super().load(saved)
        with _lock:
            _branches["n"] += 1
            self._continues = _branches["n"] >= BRANCH

    def act(self, action: Action) -> Outcome:
        in_wave = _wave["is_on"] and len(self._right) == 1
        if in_wave or self._continues:
            self._end(f"turn {len(self._right)}, {'wave' if in_wave else 'branch'}")
        return super().act(action)

    def _end(self, where: str) -> None:
        with _lock:
            if not self._marker.exists():
                self._marker.write_text(where)
                os.kill(os.getpid(), signal.SIGKILL)


class WavesPart(ReverseCurriculumPart):
    """Three waves of each task, with a state that moves from step to step. ``kills``: the step in which it happens."""

    kills: int = 2

    def open(self, helpers: Helpers) -> "Waves":
        guide = Waves(helpers, self)
        guide.kills = self.kills
        return guide


class Waves(ReverseCurriculum):
    steps, kills = 0, 2

    def again(self, group: ScoredGroup, wave: int) -> Plan | None:
        _wave["is_on"] = self.steps + 1 == self.kills and wave == WAVE
        return Plan(entries=[None] * 2, into="own") if wave <= WAVE else None

    def observe(self, groups: Sequence[ScoredGroup]) -> None:
        self.steps += 1
        super().observe(groups)


register("test/KillingLock-v0", "tests.run.killing_parts:KillingLock")
