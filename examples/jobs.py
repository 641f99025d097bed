"""Runs of a study, one after the other or several at once."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

Wanted = TypeVar("Wanted")
Done = TypeVar("Done")


def each(do: Callable[[Wanted], Done], wanted: Sequence[Wanted], jobs: int) -> Iterator[Done]:
    """``do`` of each, as they end, ``jobs`` at a time in a process each; a single job stays in this process.

    ``do`` has to be a function of a module, which other processes import.
    """
    if jobs == 1:
        yield from map(do, wanted)
        return
    fresh = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
    with ProcessPoolExecutor(jobs, mp_context=fresh) as pool:
        yield from (done.result() for done in as_completed([pool.submit(do, one) for one in wanted]))
