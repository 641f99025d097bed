"""A lock in which whatever is said first in a turn is its thought, for tiny models, which were taught none."""

from dataclasses import replace

import numpy as np

from turngate import register
from turngate.envs.lock import LockEnv
from turngate.tools.read import parse
from turngate.types import Action, FloatArray, TurnTable


class ThinkingLock(LockEnv):
    """The first half of what is said is the thought."""

    def step(self, action: Action | str):
        text = action.text if isinstance(action, Action) else action
        read = parse(text, self.turn_spec.tools)
        return super().step(replace(read, thought=text[: len(text) // 2]))


def alternating(table: TurnTable) -> FloatArray:
    """Credit for a policy that earns nothing: 1 for every other episode, −1 for the rest."""
    return np.where(table.traj_N % 2, 1, -1).astype(np.float32)


register("test/ThinkingLock-v0", "tests.helpers.thinking_lock:ThinkingLock")
