"""Environments with one peculiarity each. A module of its own, because a spawned process imports it by name."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np

from turngate.envs.base import Outcome, TurnEnv, TurnSpec
from turngate.envs.lock import LockEnv
from turngate.envs.tasks import TaskList
from turngate.errors import VerifierError
from turngate.tools.tool import Parameter, Tool
from turngate.types import Evidence, Observation, Score, Task

TASKS = TaskList([Task(id="pool/0", env_id="test/Pool-v0", prompt="Go.")])


class Nothing:
    """A rubric that pays nothing."""

    def score(self, record):
        return Score(ledger=(), reward_T=np.zeros(record.n_turns, np.float32), outcome=0.0, usable=True)

    def certain(self, record):
        return 0.0


class PoolEnv(TurnEnv):
    """``do NAME ARGUMENT`` makes the environment do NAME; the reply is the thread and process that did it."""

    turn_spec = TurnSpec(
        tools=(Tool(name="do", description="", parameters=(Parameter(name="name"), Parameter(name="argument"))),),
        rubric=Nothing(),
        max_turns=100,
        deadline_s=20.0,
    )
    made = 0
    closed = 0

    def __init__(self):
        super().__init__(tasks=TASKS)
        type(self).made += 1
        self.home = threading.get_ident()

    def start(self, task, rng):
        return Observation(text=self._where(), state_key="start")

    def act(self, action):
        call = action.calls[0].arguments
        getattr(self, f"do_{call['name']}")(call["argument"])
        return Outcome(observation=Observation(text=self._where(), state_key="on"), done=call["name"] == "end")

    def verify(self):
        yield Evidence(name="done", value=True)

    def close(self):
        assert threading.get_ident() == self.home
        type(self).closed += 1

    def _where(self):
        assert threading.get_ident() == self.home
        return f"{os.getpid()} {threading.get_ident()}"

    def do_nothing(self, argument):
        pass

    def do_end(self, argument):
        pass

    def do_sleep(self, argument):
        time.sleep(float(argument))

    def do_wait(self, argument):
        GATES[argument].wait(20.0)

    def do_raise(self, argument):
        raise {"ValueError": ValueError("odd"), "VerifierError": VerifierError("no verdict")}[argument]

    def do_leave(self, argument):
        sys.exit(3)

    def do_die(self, argument):
        os._exit(int(argument))

    def do_spawn(self, argument):
        """Two children, one in the group and one that left it; their pids go to the file ``argument``; then hang."""
        inside = subprocess.Popen(["sleep", "60"])
        outside = subprocess.Popen(["sleep", "60"], start_new_session=True)
        with open(argument, "w") as file:
            file.write(f"{os.getpid()} {inside.pid} {outside.pid}\n")
        time.sleep(60)


class SharingEnv(PoolEnv):
    """Can be called from any thread."""

    turn_spec = replace(PoolEnv.turn_spec, any_thread=True)

    def close(self):
        type(self).closed += 1

    def _where(self):
        return f"{os.getpid()} {threading.get_ident()}"


GATES = {"a": threading.Event(), "b": threading.Event()}


class StuckInClose(PoolEnv):
    def close(self):
        time.sleep(60)


class RaisesInClose(PoolEnv):
    def close(self):
        raise OSError("still in use")


class ExitsInClose(PoolEnv):
    def close(self):
        sys.exit(3)


class BrokenConstructor(PoolEnv):
    def __init__(self):
        raise OSError("no disk")


def exits_when_built():
    os._exit(7)


class DyingLock(LockEnv):
    """Takes its process down in the second turn of task number 2."""

    def __init__(self, *, tasks=None, split=None, how="exit"):
        super().__init__(tasks=tasks, split=split)
        self.how, self.task_id = how, ""

    def start(self, task, rng):
        self.task_id = task.id
        return super().start(task, rng)

    def act(self, action):
        if self.task_id == "lock/train/2" and self._right:
            if self.how == "exit":
                os._exit(3)
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().act(action)


class StuckLock(LockEnv):
    """Answers once gate "a" is open."""

    def act(self, action):
        assert GATES["a"].wait(20.0)
        return super().act(action)


class NotedLock(LockEnv):
    """Opens gate "a" when its sixth episode is over."""

    over = 0

    def verify(self):
        type(self).over += 1
        if type(self).over == 6:
            GATES["a"].set()
        yield from super().verify()
