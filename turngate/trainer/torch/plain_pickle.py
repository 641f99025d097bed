"""Pickles that hold data alone.

A pickle names the functions and classes that build what it holds, and a forged one may name any. Read here are numbers,
texts, containers, arrays of numpy, and dataclasses, enums and settings of turngate; whatever else a pickle names is
refused before it is looked up, and at writing, so that nothing is written that could not be read.
"""

from __future__ import annotations

import dataclasses
import io
import pickle
import sys
from enum import Enum
from typing import Any, TypeVar

from pydantic import BaseModel

T = TypeVar("T")

_PLAIN = {
    "builtins": {"set", "frozenset", "complex", "bytearray", "slice", "range"},
    "collections": {"OrderedDict", "Counter", "deque"},
    "datetime": {"date", "datetime", "time", "timedelta", "timezone"},
    "decimal": {"Decimal"},
    "fractions": {"Fraction"},
    "uuid": {"UUID"},
    "pathlib": {"PurePosixPath", "PosixPath"},
    "numpy": {"dtype", "ndarray"},
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "numpy.core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.numeric": {"_frombuffer"},
    "numpy.core.numeric": {"_frombuffer"},
    "turngate.store.metrics": {"Clock"},
    "turngate.trainer.auxiliary.learning": {"towards_text", "TowardsTeacher"},  # losses without settings
}
_OWN = "turngate"


def dumps(value: object) -> bytes:
    """``value`` as a pickle that ``loads`` reads. Raises UnpicklingError or PicklingError, which name the part that is
    not data."""
    try:
        written = pickle.dumps(value)
    except (TypeError, AttributeError) as error:
        raise pickle.PicklingError(str(error)) from error
    loads(written)
    return written


def loads(written: bytes) -> Any:
    """What ``dumps`` wrote. Raises UnpicklingError for a pickle that names anything but data."""
    return _PlainUnpickler(io.BytesIO(written)).load()


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        if global_name in _PLAIN.get(module_name, ()):
            return super().find_class(module_name, global_name)
        # Only from modules that are imported already: an import runs code.
        known = sys.modules.get(module_name) if module_name.partition(".")[0] == _OWN else None
        found = getattr(known, global_name, None)
        if isinstance(found, type) and (dataclasses.is_dataclass(found) or issubclass(found, Enum | BaseModel)):
            return found
        raise pickle.UnpicklingError(f"'{module_name}.{global_name}' is no plain data")
