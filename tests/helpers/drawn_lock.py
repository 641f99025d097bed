"""A lock that shows numbers drawn from the episode's own randomness: another seed would show others."""

from dataclasses import replace

from turngate import register
from turngate.envs.lock import LockEnv


class DrawnLock(LockEnv):
    """Every observation and every state key ends with a number that was drawn."""

    def start(self, task, rng):
        return self._drawn(super().start(task, rng))

    def act(self, action):
        outcome = super().act(action)
        return replace(outcome, observation=self._drawn(outcome.observation))

    def _drawn(self, seen):
        number = int(self.np_random.integers(100))
        return replace(seen, text=f"{seen.text} {number}", state_key=f"{seen.state_key} {number}")


register("test/DrawnLock-v0", "tests.helpers.drawn_lock:DrawnLock")
