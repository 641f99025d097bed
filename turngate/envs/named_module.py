"""The module of an id ``module:namespace/Name-vN``: imported, or an error that names the module and the folders that
were searched."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path, PurePath
from types import ModuleType

from turngate.errors import ConfigError, MissingExtra, UnknownName, UserError
from turngate.parts import import_module


def module_of_id(id: str) -> ModuleType:
    """Import what stands before the colon of ``id``, also a module of the current folder.

    Raises UnknownName for a module that is not there, ConfigError for a path and for a module that fails on import,
    MissingExtra for one that needs an optional dependency.
    """
    name, _, own = id.rpartition(":")
    if not name or name.endswith(".py") or "/" in name or "\\" in name:
        raise ConfigError(_mend(name, own))
    try:
        return import_module(name)
    except MissingExtra:
        raise
    except (UserError, SystemExit) as error:
        cause = error.__cause__ or error
        missing = cause.name if isinstance(cause, ModuleNotFoundError) else None
        if missing is not None and f"{name}.".startswith(f"{missing}."):
            hint = f"looked in the current folder, '{Path.cwd()}', and on Python's path"
            raise UnknownName("module", name, _near_modules(name), hint=hint) from None
        raise ConfigError(f"module '{name}' of '{id}' failed on import: {_error_place(cause)}") from error


def _mend(name: str, id: str) -> str:
    """What to write before the colon, where there is a file or nothing."""
    path = PurePath(name.removesuffix(".py") or "MODULE")
    inside = not path.is_absolute() and ".." not in path.parts
    mend = f"write '{'.'.join(path.parts) if inside else path.name}:{id}'"
    where = "" if inside else f" in the folder '{path.parent}'"
    return f"'{name}' is not the name of a module; {mend}{where}"


def _near_modules(name: str) -> Iterator[str]:
    """Modules and packages in the current folder at the place of a missing one of this name."""
    *above, _ = name.split(".")
    folder = Path(*above)
    found = [path.stem for path in folder.glob("*.py") if path.stem != "__init__"]
    found += [path.parent.name for path in folder.glob("*/__init__.py")]
    return (".".join([*above, one]) for one in found)


def _error_place(error: BaseException) -> str:
    """The last line of an error, and the last place in a file of the current folder that led to it."""
    line = str(error) if isinstance(error, UserError) else traceback.format_exception_only(error)[-1].strip()
    places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError):
        places.append((error.filename or "", error.lineno))
    own = [(file, number) for file, number in places if Path(file).is_relative_to(Path.cwd())]
    return f"{line} ({Path(own[-1][0]).relative_to(Path.cwd())}, line {own[-1][1]})" if own else line
