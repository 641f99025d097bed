"""Code of users and other packages: which of its exceptions end a call, and the texts of its errors and results.

Such code may raise anything, ``SystemExit``, ``KeyboardInterrupt`` and ``asyncio.CancelledError`` included, and even
``str()`` of what it raises may raise. None of this may reach the caller of ``env.step`` as it is.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import traceback
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

_log = logging.getLogger(__name__)
T = TypeVar("T")


class Interruption(BaseException):
    """A person or the system stopped the program, for instance by a signal; it passes through the code of users."""


def is_own(error: BaseException) -> bool:
    """Whether foreign code raised ``error`` by itself.

    An Interruption comes from outside, and so does a KeyboardInterrupt of the main thread where Python raises one for
    Ctrl-C: they have to be raised again.
    """
    if isinstance(error, KeyboardInterrupt):
        of_python = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        return not (of_python and threading.current_thread() is threading.main_thread())
    return not isinstance(error, Interruption)


def text_of(value: object) -> str:
    """``str(value)``, or a text that says that there is none."""
    try:
        return str(value)
    except BaseException as error:
        if not is_own(error):
            raise
        return f"<{type(value).__name__}, whose text cannot be made: {type(error).__name__}>"


def described(error: BaseException) -> str:
    """``KeyError: 'A1'``: the type of an exception and its text, on one line."""
    text = " ".join(text_of(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def place_of(error: BaseException) -> str:
    """``file.py, line 12``: the innermost place that an exception came from, or "" if it was raised nowhere.

    A place in an installed package is named only where no other is: some packages wrap functions of Python.
    """
    places = list(traceback.extract_tb(error.__traceback__))
    places = [one for one in places if "site-packages" not in Path(one.filename).parts] or places
    return f"{Path(places[-1].filename).name}, line {places[-1].lineno}" if places else ""


@contextmanager
def staying() -> Iterator[None]:
    """Run foreign code: the current folder is afterwards the one from before, so that relative paths lead where they
    did."""
    try:
        before = os.getcwd()
    except FileNotFoundError:  # it was removed, so no relative path leads anywhere
        yield
        return
    try:
        yield
    finally:
        try:
            moved = os.getcwd() != before
        except FileNotFoundError:
            moved = True
        if moved:
            os.chdir(before)


class StayingCoroutine(Generic[T]):
    """``await StayingCoroutine(found)`` is ``await found``, each part of which between two waits runs as in
    ``staying``: code that runs while foreign code waits has the folder from before, too."""

    def __init__(self, found: Awaitable[T]) -> None:
        self._found = found

    def __await__(self) -> Generator[object, object, T]:
        parts = self._found.__await__()
        next_part: Callable[[], object] = partial(next, parts)
        while True:
            try:
                with staying():
                    wanted = next_part()
            except StopIteration as end:
                result: T = end.value
                return result
            try:
                answer = yield wanted
                next_part = partial(parts.send, answer)
            except BaseException as error:  # a cancellation, too: foreign code decides what it does about it
                next_part = partial(parts.throw, error)


@contextmanager
def guarded(
    made: Callable[[str], Exception], *, through: type[Exception] | tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Run foreign code: every exception becomes ``made(described(error))``, except those in ``through``."""
    try:
        with staying():
            yield
    except BaseException as error:
        if isinstance(error, through) or not is_own(error):
            raise
        raise made(described(error)) from error


def answer_for(who: str, problem: str, *, loud: bool = True) -> None:
    """Report a mistake of foreign code for which an answer was found all the same.

    ``who``: the code, with its name. ``loud``: a warning; else it is reported only where an environment is checked.
    """
    _log.log(logging.WARNING if loud else logging.DEBUG, "%s %s", who, problem)


@contextmanager
def answered_for() -> Iterator[list[str]]:
    """The block's messages of ``answer_for``, the first of each ``who``; they are not logged meanwhile."""
    said: dict[str, str] = {}

    class _Collecting(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            who = str(record.args[0]) if isinstance(record.args, tuple) and record.args else ""
            said.setdefault(who, record.getMessage())
            messages[:] = said.values()
            return False

    messages: list[str] = []
    collecting, level = _Collecting(), _log.level
    _log.addFilter(collecting)
    _log.setLevel(logging.DEBUG)
    try:
        yield messages
    finally:
        _log.removeFilter(collecting)
        _log.setLevel(level)
