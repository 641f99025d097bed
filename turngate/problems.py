"""Turn pydantic's ValidationError into one line in terms of the user's file, not of Python classes.

``one_line`` is for a table of a config: it names the key, the value and the closest known name. ``of_row`` is for a row
of a data file.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from turngate.errors import UserError
from turngate.parts import Part

Steps = Sequence[int | str]

_IN_TOML = {"tuple_type": "must be a list", "model_type": "must be a table", "dict_type": "must be a table"}
"""Kind of a pydantic error → the required TOML value, where pydantic's own words name types of Python."""


_IN_JSON = {
    **dict.fromkeys(("model_type", "dict_type", "model_attributes_type"), "must be a JSON object"),
    **dict.fromkeys(("list_type", "tuple_type"), "must be a list"),
    **{"string_type": "must be a text", "bool_type": "must be true or false", "int_type": "must be a whole number"},
}
"""The same for a row of JSON."""

GOT_CHARS, GOT_CHARS_IN_TOML = 60, 300  # most characters of a wrong value in a message

RENAMED = {"aside": "auxiliary", "lanes": "concurrency", "speaker": "text_model"}
"""Keys of earlier commits, each with its present name."""


def of_row(error: ValidationError) -> tuple[str, str | None]:
    """(first problem of a row, its field). The field is None where the row as a whole is wrong."""
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"])) or None
    kind, said = first["type"], first["msg"].removeprefix("Value error, ")
    if kind == "missing":
        return "is missing", field
    if kind == "json_invalid":
        said = said.removeprefix("Invalid JSON: ").replace("at line 1 column", "at column")  # a row is one line
        return f"is not JSON: {said}", field
    if kind in ("string_too_short", "too_short") and not first["input"]:
        return "is empty", field
    if kind == "extra_forbidden":
        return "is unknown", field
    if kind == "value_error":
        return said, field
    return f"{_IN_JSON.get(kind, said)}, got {_shown(first['input'], GOT_CHARS)}", field


def one_line(error: ValidationError, model: type[BaseModel], data: object) -> str:
    """One line on the most important mistake in ``data``, which ``model`` refused."""
    first = max(error.errors(), key=_weight)
    steps = _written(first["loc"], data)
    where = spelled(steps)
    if first["type"] == "extra_forbidden":
        known = keys_at(model, steps[:-1], data)
        if (new := RENAMED.get(str(steps[-1]))) in known:
            return f"unknown key '{where}'; it is called '{new}' now"
        close = difflib.get_close_matches(str(steps[-1]), known, n=1, cutoff=0.4)
        return f"unknown key '{where}'; " + (f"did you mean '{close[0]}'?" if close else f"known: {', '.join(known)}")
    if first["type"] == "missing":
        return f"key '{spelled([*steps, *first['loc'][-1:]])}' is missing"
    said = _IN_TOML.get(first["type"], first["msg"].removeprefix("Value error, "))
    if first["type"] == "tuple_type" and isinstance(first["input"], Mapping):
        return f"{where}: {said} of tables; write [[{where}]]"
    whole = first["type"] == "value_error" and isinstance(first["input"], Mapping | list | tuple)
    if first["type"] == "part" or whole:  # the message names the value, and a whole table would hide the message
        return f"{where}: {said}" if where else said
    return f"{where}: {said}, got {_shown(first['input'], GOT_CHARS_IN_TOML)}" if where else said


def _shown(value: object, most: int) -> str:
    return _short(repr(value), most)


def _short(text: str, most: int = 100) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def spelled(steps: Steps) -> str:
    """``("gates", 0, "type")`` as ``gates[0].type``."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{_short(step)}" for step in steps).removeprefix(".")


def keys_at(model: type[BaseModel], steps: Steps, data: object) -> list[str]:
    """The keys that the table at ``steps`` of ``data`` may have, in alphabetical order."""
    return sorted({name for found in _models_at(model, steps, data) for name in found.model_fields})


def _weight(found: Mapping[str, Any]) -> tuple[bool, int, bool]:
    """Sort key of errors, the largest is reported: unknown keys, then the deepest location, then our own messages.

    The deepest location belongs to the member of a union that fits the data best.
    """
    return found["type"] == "extra_forbidden", len(found["loc"]), found["type"] == "value_error"


def _written(loc: Steps, data: object) -> list[int | str]:
    """The steps of a location that are in the data; pydantic adds the names of union members, which are dropped."""
    steps: list[int | str] = []
    for step in loc:
        below: Any = data
        in_table = isinstance(data, Mapping) and step in data
        if not in_table and not (isinstance(step, int) and isinstance(data, Sequence) and step < len(data)):
            continue
        data = below[step]
        steps.append(step)
    return steps


def _models_at(model: type[BaseModel], steps: Steps, data: object) -> list[type[BaseModel]]:
    models = [model]
    for step in steps:
        data = _below(data, step)
        if isinstance(step, str):
            fields = [found.model_fields[step].annotation for found in models if step in found.model_fields]
            models = [one for annotation in fields for one in _models(annotation)]
        models = [_chosen(one, data) for one in models]
    return models


def _below(data: Any, step: int | str) -> Any:
    try:
        return data[step]
    except (KeyError, IndexError, TypeError):
        return None


def _chosen(model: type[BaseModel], data: object) -> type[BaseModel]:
    """The part that a table or a name chooses, if ``model`` is a family of parts; else ``model`` itself."""
    if not (issubclass(model, Part) and "types" in model.__dict__) or not isinstance(data, Mapping | str):
        return model
    name = data.get("type", model.fallback) if isinstance(data, Mapping) else data
    try:
        return model.find(str(name))
    except UserError:
        return model


def _models(annotation: Any) -> Iterable[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Union, UnionType, Annotated, tuple, list, dict):
        return [model for one in get_args(annotation) for model in _models(one)]
    return []
