"""Runs of a study, one after the other or several at once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

Wanted = TypeVar("Wanted")
Done = TypeVar("Done")


def each(do: Callable[[Wanted], Done], stages: Iterable[Sequence[Wanted]], jobs: int) -> Iterator[Done]:
    """``do`` of each, as they end, ``jobs`` at a time in a process each; a single job stays in this process. What is in
    one stage begins when all of the stage before has ended, and a stage is asked for no sooner.

    ``do`` has to be a function of a module, which other processes import. They end in order when this one is killed.
    """
    if jobs == 1:
        for stage in stages:
            yield from map(do, stage)
        return
    fresh = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
    with ProcessPoolExecutor(jobs, mp_context=fresh, initializer=_end_with_parent) as pool:
        for stage in stages:
            yield from (done.result() for done in as_completed([pool.submit(do, one) for one in stage]))


def _end_with_parent() -> None:
    """Have this process get SIGTERM when the one that started it is gone."""
    threading.Thread(target=_wait_for_parent, daemon=True, name="parent watch").start()


def _wait_for_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "only for processes that multiprocessing started"
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
