"""Code and data of a third-party checkout, which is not installed: its modules are imported from the folder.

Importing a module runs the checkout's own code. Packages that import far more than is needed here (models, servers) are
replaced by empty ones, and the imported modules are removed from ``sys.modules`` again, so that an installed package of
the same name is neither hidden nor replaced.
"""

from __future__ import annotations

import importlib
import json
import sys
import threading
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from turngate.errors import ConfigError, DataError
from turngate.jsonl import toml_of

_LOCK = threading.Lock()
_IMPORTED: dict[tuple[Path, str], ModuleType] = {}


def imported(folder: Path, name: str, *, bare: Sequence[str]) -> ModuleType:
    """Module ``name`` of the packages that lie in ``folder``, imported once. ``bare``: packages, the outermost first,
    whose own ``__init__`` is not run.

    Raises DataError for a module that is not there, ConfigError where it cannot be imported.
    """
    key = folder.resolve(), name
    with _LOCK:
        if key not in _IMPORTED:
            _IMPORTED[key] = _imported(*key, bare)
        return _IMPORTED[key]


def _imported(folder: Path, name: str, bare: Sequence[str]) -> ModuleType:
    root = name.partition(".")[0]
    kept = _taken_out(root)
    try:
        for package in bare:
            stand_in = ModuleType(package)
            stand_in.__path__ = [str(folder.joinpath(*package.split(".")))]
            sys.modules[package] = stand_in
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = str(error.name)
        if missing == root or missing.startswith(f"{root}."):
            raise DataError(folder.joinpath(*missing.split(".")), "there is no such module") from None
        raise ConfigError(
            f"'{name}' in '{folder}' needs '{missing}', which is not installed; pip install what the checkout needs"
        ) from None
    except Exception as error:  # third-party code
        raise ConfigError(f"'{name}' in '{folder}' cannot be imported: {error!r}") from error
    finally:
        _taken_out(root)
        sys.modules.update(kept)


def _taken_out(root: str) -> dict[str, ModuleType]:
    """Take a package and all below it out of ``sys.modules``."""
    names = [name for name in sys.modules if name == root or name.startswith(f"{root}.")]
    return {name: sys.modules.pop(name) for name in names}


def read_table(path: Path) -> Mapping[str, object]:
    """The table in a JSON or TOML file. Raises DataError."""
    found = read_json(path) if path.suffix == ".json" else _read_toml(path)
    if not isinstance(found, dict):
        raise DataError(path, "holds no table")
    return found


def read_json(path: Path) -> object:
    """The value in a JSON file. Raises DataError."""
    try:
        return json.loads(text_of(path))
    except ValueError as error:
        raise DataError(path, f"is not JSON: {error}") from None


def text_of(path: Path) -> str:
    """The text of a file. Raises DataError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(path, f"cannot be read: {error}") from None


def _read_toml(path: Path) -> object:
    try:
        return toml_of(text_of(path))
    except tomllib.TOMLDecodeError as error:
        raise DataError(path, f"is not TOML: {error}") from None
