"""SIGINT and SIGTERM: the first one ends a command in order, the second one ends the process at once."""

from __future__ import annotations

import asyncio
import logging
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(BaseException):
    """A signal asked the command to end. Not an Exception, so that nothing which expects failures takes it for one.

    ``advice`` says what is safe on disk and how to go on; empty where there is nothing to go on with.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
        self.advice = ""

    @property
    def code(self) -> int:
        """The exit code by which shells know the signal: 130 or 143."""
        return 128 + self.number

    def __str__(self) -> str:
        return f"stopped by {signal.Signals(self.number).name}" + (f"; {self.advice}" if self.advice else "")


@contextmanager
def stopping_in_order() -> Iterator[None]:
    """Inside, the first SIGINT or SIGTERM raises Stopped in the main thread. A signal that is ignored stays ignored."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stopping_task() -> Iterator[None]:
    """The same inside a task: it is cancelled where it waits, so that it closes what it opened, and raises Stopped.

    A signal that finds the task at work (a learner may compute for minutes) raises in it at once. Without
    ``stopping_in_order`` around it nothing is changed.
    """
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    heard: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        _end_hard_next()
        heard.append(number)
        if task is None or asyncio.current_task(loop) is task:
            _say_nothing_of_what_was_not_begun()
            raise Stopped(number)
        loop.call_soon_threadsafe(task.cancel)

    ours = [number for number in SIGNALS if signal.getsignal(number) is _stop]
    for number in ours:
        signal.signal(number, stop)
    try:
        yield
    except BaseException as error:
        if heard:  # whatever else was raised, while things were being closed, is its cause
            raise Stopped(heard[0]) from error
        raise
    finally:
        if not heard:
            for number in ours:
                signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    _end_hard_next()
    raise Stopped(number)


def _say_nothing_of_what_was_not_begun() -> None:
    """The exception may come where the task was about to start another one, which then is lost before its first line:
    nothing is left open by that, and Python's two warnings of it would hide how to go on."""
    warnings.filterwarnings("ignore", message="coroutine .* was never awaited", category=RuntimeWarning)
    logging.getLogger("asyncio").disabled = True


def _end_hard_next() -> None:
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
