"""SIGINT and SIGTERM: the first signal lets a command close what it opened, the second ends the process at once."""

from __future__ import annotations

import asyncio
import logging
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from turngate.foreign import Interruption

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(Interruption):
    """A signal asked the command to end. It is no Exception, so that code which expects errors does not catch it.

    ``advice`` says which work is safe on disk and how to go on; "" where the command cannot be resumed.
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
    """In the block the first SIGINT or SIGTERM raises Stopped in the main thread. An ignored signal stays ignored."""
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
    """As ``stopping_in_order``, for the asyncio task that enters the block.

    A signal that comes while the task awaits something cancels it, so that it closes what it opened; the block then
    raises Stopped. A signal that comes while the task computes (a learner may do so for minutes) raises Stopped in it
    at once. Without ``stopping_in_order`` around it the block changes nothing.
    """
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    heard: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        _end_at_the_next_signal()
        heard.append(number)
        if task is None or asyncio.current_task(loop) is task:
            _silence_warnings_of_lost_tasks()
            raise Stopped(number)
        loop.call_soon_threadsafe(task.cancel)

    ours = [number for number in SIGNALS if signal.getsignal(number) is _stop]
    for number in ours:
        signal.signal(number, stop)
    try:
        yield
    except BaseException as error:
        if heard:  # the signal is what happened; an error raised while closing things becomes its cause
            raise Stopped(heard[0]) from error
        raise
    finally:
        if not heard:
            for number in ours:
                signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    _end_at_the_next_signal()
    raise Stopped(number)


def _silence_warnings_of_lost_tasks() -> None:
    """Switch off Python's two warnings of a task that never began.

    Stopped may be raised where one task was about to start another, which is then lost before its first line. Nothing
    is left open by that, and the warnings would hide the line that says how to go on.
    """
    warnings.filterwarnings("ignore", message="coroutine .* was never awaited", category=RuntimeWarning)
    logging.getLogger("asyncio").disabled = True


def _end_at_the_next_signal() -> None:
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
