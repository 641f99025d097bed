"""Locks that go wrong in one way each, by the number of the task. A module of its own: a spawned process imports it."""

import os
import sys
import time
from dataclasses import replace

import numpy as np

from turngate.envs.base import Outcome
from turngate.envs.lock import LockEnv
from turngate.errors import AgentFault, EnvError
from turngate.types import Evidence

WAYS = ("sound", "numpy", "number", "surrogate", "long", "set", "none", "name", "raise", "exit", "fault")
"""What task ``i`` does in its second turn is ``WAYS[i % len(WAYS)]``."""


class OddLock(LockEnv):
    """A lock whose second turn goes wrong. ``ways``: those that count, by name; the others are sound."""

    turn_spec = replace(LockEnv.turn_spec, evidence=None)  # it records more than a lock declares

    def __init__(self, *, tasks=None, split=None, max_turns=None, ways=WAYS):
        super().__init__(tasks=tasks, split=split, max_turns=max_turns)
        self.ways, self.way = ways, "sound"

    def start(self, task, rng):
        self.way = way_of(task.id, self.ways)
        return super().start(task, rng)

    def act(self, action):
        outcome = super().act(action)
        return spoilt(outcome, self.way) if len(self._right) == 2 else outcome


def way_of(task_id, ways=WAYS):
    return ways[int(task_id.rpartition("/")[2]) % len(ways)]


def spoilt(outcome, way):
    seen, fact = outcome.observation, None
    match way:
        case "numpy":
            fact = Evidence(name="speed", value={"mean": np.float32(0.5), "all": np.arange(2), "ok": np.bool_(True)})
        case "number":
            seen = replace(seen, text=17)
        case "surrogate":
            seen = replace(seen, text=f"{seen.text} \ud800")
        case "long":
            seen = replace(seen, text=f"{seen.text} {' '.join(map(str, range(60_000)))}")
        case "set":
            fact = Evidence(name="raw", value={1, 2})
        case "none":
            return None
        case "name":
            fact = Evidence(name=7, value=1)
        case "raise":
            raise EnvError("the lock is jammed \ud800")
        case "exit":
            sys.exit(3)
        case "fault":
            raise AgentFault("it bent the key \ud800")
    return Outcome(observation=seen, evidence=outcome.evidence + ((fact,) if fact else ()), done=outcome.done)


class OddOracle(LockEnv):
    """Of eight demonstrations one raises, one exits, one writes a number, and one does not start."""

    fails = (0, 1, 2, 3)

    def start(self, task, rng):
        if int(task.id.rpartition("/")[2]) % 8 == self.fails[3]:
            raise OSError("no display")
        return super().start(task, rng)

    def oracle(self, task):
        match int(task.id.rpartition("/")[2]) % 8:
            case number if number == self.fails[0]:
                raise KeyError("plan")
            case number if number == self.fails[1]:
                sys.exit(4)
            case number if number == self.fails[2]:
                return [17]
        return super().oracle(task)


class NoOracle(LockEnv):
    def oracle(self, task):
        sys.exit("no plan")


class BadClose(LockEnv):
    """``how``: what it does when it is closed."""

    def __init__(self, *, tasks=None, split=None, max_turns=None, how="raise"):
        super().__init__(tasks=tasks, split=split, max_turns=max_turns)
        self.how = how

    def close(self):
        if self.how == "exit":
            sys.exit(5)
        raise OSError("the lock cannot be put away")


class Hangs(LockEnv):
    """Every lock from number ``first`` on hangs in its first turn, for ever."""

    turn_spec = replace(LockEnv.turn_spec, deadline_s=0.05)

    def __init__(self, *, tasks=None, split=None, max_turns=None, first=0):
        super().__init__(tasks=tasks, split=split, max_turns=max_turns)
        self.first, self.hangs = first, False

    def start(self, task, rng):
        self.hangs = task.split == "train" and int(task.id.rpartition("/")[2]) >= self.first
        return super().start(task, rng)

    def act(self, action):
        if self.hangs:
            time.sleep(3600)
        return super().act(action)


class Dies(LockEnv):
    """In every third task the process dies in the second turn; in the next one it hangs there."""

    turn_spec = replace(LockEnv.turn_spec, deadline_s=0.5)

    def start(self, task, rng):
        self.number = int(task.id.rpartition("/")[2]) if task.split == "train" else 2
        return super().start(task, rng)

    def act(self, action):
        if self._right and self.number >= 8:  # the first are shown in the warm start
            if self.number % 3 == 0:
                os._exit(9)
            if self.number % 3 == 1:
                time.sleep(3600)
        return super().act(action)


class Breakable(LockEnv):
    """A lock with ways out: ``press void`` breaks the environment, ``press fault`` what measures the episode."""

    def act(self, action):
        match action.calls[0].arguments["key"] if action.calls else "":
            case "void":
                raise EnvError("the environment broke although the agent did it")
            case "fault":
                raise AgentFault("it broke the lock")
        return super().act(action)


class Scratched(LockEnv):
    """Says 1,000 characters, of which ``most`` are shown."""

    def __init__(self, *, most):
        super().__init__()
        self.turn_spec = replace(LockEnv.turn_spec, observation_chars=most)

    def act(self, action):
        outcome = super().act(action)
        return replace(outcome, observation=replace(outcome.observation, text="x" * 1000))
