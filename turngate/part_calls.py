"""Calls of parts, a user's own among them: results and errors are checked before they are used.

``call_part`` calls a method of a part, or of what its ``open`` returned, and gives the result to a reader (``take``),
which returns it in the form that turngate works with, or raises ``Unusable``. A result that cannot be used ends the run
with one line, a PartError, that names the part, its file and line, and what it must return. So does any other error of
a user's part, ``SystemExit`` and ``asyncio.CancelledError`` included. Errors of turngate are raised as they are,
because parts raise them on purpose, and so are errors of shipped parts, which are bugs of turngate.
"""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar, cast

from turngate.errors import PartError, TurngateError
from turngate.foreign import StayingCoroutine, described, is_own, staying

T = TypeVar("T")
PACKAGE = Path(__file__).parent
SHOWN_CHARS = 80
"""Most characters of a wrong result in a message."""


class Unusable(ValueError):
    """The result of a part cannot be used; the text, if any, says which piece of it."""


def call_part(
    noun: str,
    method: Callable[..., object],
    *arguments: object,
    take: Callable[[Any], T],
    must: str,
    of: Callable[..., object] | None = None,
) -> T:
    """``take(method(*arguments))``. ``noun``: the kind of part; ``must``: what it must return, "" = nothing.

    ``of``: the method of the part that is named, where ``method`` is something that the part handed over or wraps it.
    Raises PartError for a result that ``take`` refuses, and for what a user's part raises.
    """
    with _blamed(noun, of or method, must), staying():
        found = method(*arguments)
    return check_result(noun, of or method, found, take=take, must=must)


async def call_part_later(
    noun: str, method: Callable[..., object], *arguments: object, take: Callable[[Any], T], must: str
) -> T:
    """The same of a coroutine; a plain function is taken too."""
    with _blamed(noun, method, must):
        with staying():
            found = method(*arguments)
        if inspect.isawaitable(found):
            found = await StayingCoroutine(cast("Awaitable[object]", found))
    return check_result(noun, method, found, take=take, must=must)


def check_result(noun: str, method: Callable[..., object], found: object, *, take: Callable[[Any], T], must: str) -> T:
    """``take(found)``, where ``method`` returned ``found``. Raises PartError if that cannot be used."""
    try:
        return take(found)
    except TurngateError:
        raise
    except Exception as error:  # a reader may use any method of what it is given
        detail = f": {error}" if isinstance(error, Unusable) and str(error) else ""
        who = _Author.of(method).named(noun)
        raise PartError(f"{who} returned {short_result(found)}{detail}; it must return {must}") from error


def ships(owner: object) -> bool:
    """Whether the class of a part, or of what it opened, is turngate's own."""
    return type(owner).__module__.partition(".")[0] == PACKAGE.name


def short_result(value: object) -> str:
    """A wrong result on one short line."""
    try:
        text = " ".join(repr(value).split())
    except BaseException as error:
        if not is_own(error):
            raise
        text = f"<{type(value).__name__}, whose text cannot be made>"
    return text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS - 1]}…"


# --- readers ----------------------------------------------------------------------------------------------------------


def ignored(found: object) -> None:
    """For a method that is called for its effect."""


def instance_of(*kinds: type) -> Callable[[object], Any]:
    """A reader of objects of these classes."""

    def read(found: object) -> Any:
        if not isinstance(found, kinds):
            raise Unusable
        return found

    return read


def answering(*methods: str) -> Callable[[Any], Any]:
    """A reader of objects that have these methods."""

    def read(found: Any) -> Any:
        for name in methods:
            if not callable(getattr(found, name, None)):
                raise Unusable(f"it has no {name}()")
        return found

    return read


def metrics_of(found: Mapping[str, object]) -> dict[str, float]:
    """Numbers by name; NaN is one that could not be measured."""
    read: dict[str, float] = {}
    for name, value in found.items():
        if not isinstance(name, str):
            raise Unusable(f"{short_result(name)} is no name")
        read[name] = number(value, name, finite=False)
    return read


def number(value: object, name: str, *, finite: bool = True) -> float:
    """A number of any library as a float; ``name`` is what an Unusable calls it."""
    value = _plain(value)
    if not isinstance(value, Real) or (finite and not abs(float(value)) < float("inf")):
        raise Unusable(f"{name} is {short_result(value)}")
    return float(value)


def whole(value: object, name: str, *, least: int = 0) -> int:
    """A whole number of any library as an int."""
    value = _plain(value)
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < least:
        raise Unusable(f"{name} is {short_result(value)}")
    return int(value)


def text(value: object, name: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise Unusable(f"{name} is {short_result(value)}")
    return value


def _plain(value: object) -> object:
    """A scalar of numpy or torch as one of Python."""
    item = getattr(value, "item", None)
    return item() if callable(item) and getattr(value, "shape", None) == () else value


# --- who is to blame --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Author:
    """The owner of a method: the ``name`` of its part or class, ``module``, ``file`` and ``line``, and the method's
    name, "" for a part that is a function."""

    name: str
    module: str
    file: str
    line: int
    method: str

    @classmethod
    def of(cls, method: Callable[..., object]) -> _Author:
        owner = getattr(method, "__self__", None)
        function: Any = inspect.unwrap(getattr(method, "__func__", method))
        made_of = getattr(owner, "function", None) if hasattr(owner, "noun") else None
        if made_of is not None:  # a part that was made from a function
            owner, function, name = None, inspect.unwrap(made_of), str(getattr(owner, "type", ""))
        elif owner is not None and hasattr(owner, "noun"):
            name = str(getattr(owner, "type", ""))
        else:
            named = function if owner is None else type(owner)
            name = f"{named.__module__}:{getattr(named, '__qualname__', type(named).__name__)}"
        module = function.__module__ if owner is None else type(owner).__module__
        file, line = _written(function, owner)
        return cls(name, str(module), file, line, "" if owner is None else str(getattr(function, "__name__", "")))

    @property
    def ships(self) -> bool:
        return self.module.partition(".")[0] == PACKAGE.name

    def named(self, noun: str) -> str:
        place = f" ({Path(self.file).name}, line {self.line})" if self.file else ""
        return f"{noun} '{self.name}'{place}" + (f": {self.method}()" if self.method else "")

    def place(self, error: BaseException) -> str:
        """Where in its file the error came from."""
        lines = [one.lineno for one in traceback.extract_tb(error.__traceback__) if one.filename == self.file]
        return f" in line {lines[-1]}" if lines else ""


def _written(function: Any, owner: object) -> tuple[str, int]:
    """File and line of a function; of the class of its owner where turngate wrote the function, or it is none."""
    code = getattr(function, "__code__", None)
    if code is not None and PACKAGE not in Path(code.co_filename).parents:
        return code.co_filename, code.co_firstlineno
    for kind in type(owner).__mro__ if owner is not None else ():
        try:
            file = inspect.getsourcefile(kind)
            line = inspect.getsourcelines(kind)[1]
        except (OSError, TypeError):
            continue
        if file is not None and PACKAGE not in Path(file).parents:
            return file, line
    return ("", 0) if code is None else (code.co_filename, code.co_firstlineno)


@contextmanager
def _blamed(noun: str, method: Callable[..., object], must: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        if isinstance(error, TurngateError) or not is_own(error) or _is_cancelled(error):
            raise
        author = _Author.of(method)
        if author.ships:
            raise
        said = f"{author.named(noun)} raised {described(error)}{author.place(error)}"
        raise PartError(f"{said}; it must return {must}" if must else said) from error


def _is_cancelled(error: BaseException) -> bool:
    """Whether the running task was cancelled from outside, so that the error is not the part's."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # a thread without a loop
        return False
    return task is not None and task.cancelling() > 0
