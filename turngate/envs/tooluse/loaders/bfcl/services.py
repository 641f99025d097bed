"""BFCL's simulated services: a few objects that an episode calls, compares and copies.

The classes are the wheel's own, so calls have the same results as there, also where a class is odd. Of the agent's
calls only functions that the docs describe arrive here, by name and with values; no text is ever evaluated.
"""

from __future__ import annotations

import copy
import decimal
import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from turngate.envs.tooluse.loaders.bfcl.fingerprint import fingerprint
from turngate.envs.tooluse.loaders.bfcl.wheel import STATELESS
from turngate.errors import AgentFault

MOST_FILES = 20_000
"""Files and folders that a file system may hold, each counted as often as it can be reached."""
MOST_DEEP = 64
"""Folders inside of each other; code that walks through them is recursive."""
MOST_DIGITS = 100
"""Digits of a number for the calculator, and the most that a precision or an exponent may be."""
_ERROR = "Error during execution: "
_LOCK = threading.Lock()
"""Some services set global state of the process, such as the precision of decimal numbers."""


class Services:
    """The objects of one episode. Raises the errors of the wheel's classes for a configuration that does not fit."""

    def __init__(self, classes: Mapping[str, type], config: Mapping[str, object], *, long_context: bool) -> None:
        self._objects: dict[str, Any] = {}
        self._functions: dict[str, str] = {}
        for name, made in classes.items():
            one = self._objects[name] = made()
            if name not in STATELESS:
                one._load_scenario(copy.deepcopy(config.get(name, {})), long_context=long_context)
            found = [method for method in dir(made) if not method.startswith("_") and callable(getattr(made, method))]
            self._functions |= dict.fromkeys(found, name)

    def call(self, function: str, arguments: Mapping[str, object]) -> tuple[str, bool]:
        """The result of a function as BFCL's runner words it, and whether the call succeeded.

        Raises AgentFault where the call makes a file system that nothing can walk through.
        """
        owner = self._objects[self._functions[function]]
        if problem := _too_large(self._functions[function], arguments):
            return f"{_ERROR}{problem}", False
        with _LOCK, decimal.localcontext(), _own_precision():
            text, fine = _call_service(getattr(owner, function), copy.deepcopy(dict(arguments)))
        if hasattr(owner, "root") and max(map(_reachable, (owner.root, owner._current_dir))) > MOST_FILES:
            raise AgentFault(f"{function} made a file system that holds itself, is too deep or has too many files")
        return text, fine

    def unlike(self, other: Services) -> int:
        """How many public attributes differ from those that ``other`` has."""
        pairs = ((vars(self._objects[name]), vars(theirs)) for name, theirs in other._objects.items())
        return sum(mine.get(key) != theirs[key] for mine, theirs in pairs for key in theirs if key[:1] != "_")

    def marks(self) -> tuple[str, str]:
        """Fingerprints of the attributes that BFCL compares, and of the others, on which later results depend as well:
        the present folder, the next random number."""
        public: dict[str, object] = {}
        private: dict[str, object] = {}
        for name, one in self._objects.items():
            for key, value in vars(one).items():
                (private if key[:1] == "_" else public)[f"{name}.{key}"] = value
        return fingerprint(public), fingerprint(private)


def _call_service(function: Callable[..., object], arguments: Mapping[str, object]) -> tuple[str, bool]:
    try:
        result = function(**arguments)
        if isinstance(result, dict):
            try:
                return json.dumps(result), "error" not in result
            except (TypeError, ValueError):
                return str(result), "error" not in result
        return str(result), True
    except Exception as error:  # the wheel's own code, whose error the agent's arguments may cause
        return f"{_ERROR}{error}", False


def _own_precision() -> Any:
    import mpmath  # type: ignore[import-untyped]

    return mpmath.workdps(mpmath.mp.dps)


def _too_large(service: str, arguments: Mapping[str, object]) -> str:
    """Why a call of the calculator would never end; "" = it does."""
    if service != "MathAPI":
        return ""
    for name, value in _numbers(arguments):
        size = abs(value)
        if size >= 10**MOST_DIGITS or (name in ("precision", "exponent", "decimal_places") and size > MOST_DIGITS):
            return f"{name} is too large for the calculator"
    return ""


def _numbers(arguments: Mapping[str, object]) -> Iterator[tuple[str, int | float]]:
    for name, value in arguments.items():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, int | float) and not (isinstance(one, float) and not math.isfinite(one)):
                yield name, one


def _reachable(root: Any) -> float:
    """How many files and folders one meets when one walks through a folder; infinite where it holds itself or is deep.

    A copy of a folder shares what it holds, so this can be far more than there are; each is counted once here.
    """
    known: dict[int, float] = {}
    waiting = [root]
    while waiting:
        folder = waiting[-1]
        inside = [one for one in folder.contents.values() if hasattr(one, "contents")]
        open_ = [one for one in inside if id(one) not in known]
        if not open_:
            known[id(folder)] = 1 + len(folder.contents) + sum(known[id(one)] - 1 for one in inside)
            waiting.pop()
        elif len(waiting) > MOST_DEEP or any(one is above for one in open_ for above in waiting):
            return math.inf
        else:
            waiting.append(open_[0])
    return known[id(root)]
