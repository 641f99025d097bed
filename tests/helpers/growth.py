"""What takes time in proportion to the size of its input, told apart from what takes the square of it.

A law of growth needs a clock, and a clock depends on the machine. So processor time of this thread is taken, without
the garbage collector (which walks all that other tests of this process left); ten times as much may take thirty times
as long, where a square takes a hundred; and only work that is too slow in each of several attempts is called slow.
"""

import gc
import time
from collections.abc import Callable

SIZES = 10
"""How many times as large the large input is."""
_MOST = 3 * SIZES
_SLACK_S = 0.2
_ATTEMPTS = 3


def assert_linear(small: Callable[[], object], large: Callable[[], object], what: object = "") -> None:
    """``large`` does what ``small`` does with ``SIZES`` times as much, and takes about ``SIZES`` times as long."""
    most_s = _MOST * processor_seconds(small) + _SLACK_S
    taken = []
    while len(taken) < _ATTEMPTS:
        taken.append(processor_seconds(large))
        if taken[-1] < most_s:
            return
    raise AssertionError(f"{what!r}: at most {most_s:.3f} s were to be taken, and these were: {taken}")


def processor_seconds(work: Callable[[], object]) -> float:
    """Processor time of this thread."""
    collects = gc.isenabled()
    gc.disable()
    try:
        start = time.thread_time()
        work()
        return time.thread_time() - start
    finally:
        if collects:
            gc.enable()
