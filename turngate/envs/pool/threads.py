"""``ThreadPool``: threads that share jobs which are mostly quick.

Waking a thread costs more than a quick job does, so one thread carries out all jobs as long as they go on. Where a job
stalls, the jobs behind it are given to more threads, twice as many each time: after seven times ``PATIENCE_S`` even 128
of them are carried out at once.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import TypeAlias

from turngate.envs.own_folder import part_from_process

Job: TypeAlias = Callable[[], None]

PATIENCE_S = 0.005
"""How long jobs wait behind one that is being carried out before more threads are called: Python's switch interval, so
a shorter time would not tell a slow job from one that was interrupted."""
TELL_S = 0.002
"""How long finished results may wait while jobs are left, because waking a waiting thread costs more than a quick
job."""
_numbers = count()


class ThreadPool:
    """At most ``most`` threads; jobs begin in the order in which they came. A job must not raise.

    ``tell`` is called, in any of the threads, soon after each job: when none waits, or some milliseconds later.
    """

    def __init__(self, most: int, tell: Callable[[], None]) -> None:
        self._most, self._tell, self._told_s = most, tell, 0.0
        self._jobs: deque[Job] = deque()
        lock = threading.Lock()
        self._rested, self._watched = threading.Condition(lock), threading.Condition(lock)
        self._lock = lock
        self._threads: list[threading.Thread] = []
        self._n_awake = self._n_resting = self._n_begun = 0
        self._watcher: threading.Thread | None = None
        self._watching = self._ended = False

    def put(self, job: Job) -> None:
        """Have a job carried out."""
        self._jobs.append(job)
        if self._n_awake and (self._watching or self._most == 1):
            return  # without the lock, which costs as much as the job: a thread looks for jobs again before it rests
        with self._lock:
            if not self._n_awake:
                self._call(1)
            elif self._most > 1 and not self._watching:
                self._watch()

    def widen(self) -> None:
        """Allow one thread more, for one that hangs."""
        with self._lock:
            self._most += 1

    def end(self) -> list[threading.Thread]:
        """Let the threads end when no job is left. Returns all of them, to be joined; safe to repeat."""
        with self._lock:
            self._ended = True
            self._rested.notify_all()
            self._watched.notify_all()
            return list(self._threads)

    # --- all of this holds the lock -----------------------------------------------------------------------------------

    def _call(self, n: int) -> None:
        """Have ``n`` more threads take jobs, or as many as there may be."""
        for _ in range(min(n, self._most - self._n_awake)):
            self._n_awake += 1
            if self._n_resting:
                self._n_resting -= 1
                self._rested.notify()
            else:
                self._start(self._work)

    def _watch(self) -> None:
        """Have a thread watch jobs that wait."""
        self._watching = True
        if self._watcher is None:
            self._watcher = self._start(self._call_when_stalled)
        else:
            self._watched.notify()

    def _start(self, target: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=target, name=f"turngate-env-{next(_numbers)}", daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    # --- threads ------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        part_from_process()
        while (job := self._next()) is not None:
            job()
            now_s = time.perf_counter()
            if not self._jobs or now_s > self._told_s + TELL_S:
                self._told_s = now_s
                self._tell()

    def _next(self) -> Job | None:
        """The next job, perhaps much later; None at the end."""
        while True:
            with suppress(IndexError):
                job = self._jobs.popleft()
                self._n_begun += 1
                return job
            with self._lock:
                if self._ended:
                    return None
                self._n_awake -= 1
                if self._jobs:  # put after the check above, by a thread that saw this one awake
                    self._n_awake += 1
                    continue
                self._n_resting += 1
                self._rested.wait()

    def _call_when_stalled(self) -> None:
        """Call as many threads again whenever jobs wait and none has begun for a while."""
        with self._lock:
            while not self._ended:
                self._tell()  # the results from before a job that takes long
                self._watching = bool(self._jobs)
                if not self._watching and not self._jobs:  # looked for once more, as in ``_next``
                    self._watched.wait()
                    continue
                begun = self._n_begun
                self._watched.wait(PATIENCE_S)
                if self._jobs and self._n_begun == begun:
                    self._call(self._n_awake)
