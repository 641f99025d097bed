"""A lock that takes its time. A module of its own, because processes of a cluster import it by name."""

import time

import turngate
from turngate.envs.lock import LockEnv


class SlowLock(LockEnv):
    """Each turn sleeps for 0.1 s, as one that waits for a tool."""

    def act(self, action):
        time.sleep(0.1)
        return super().act(action)


turngate.register("test/SlowLock-v0", "tests.run.cluster_parts:SlowLock")
