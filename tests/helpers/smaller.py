"""Settings of a study, made small enough for a test."""

import tomllib
from pathlib import Path
from typing import Any

import tomli_w


def smaller(file: Path, changes: dict[str, Any]) -> str:
    """The text of a config with other values; None takes a key or table out.

    Raises KeyError for a key that the file does not have, so that a study that is set otherwise is not run at length.
    """
    table = tomllib.loads(file.read_text(encoding="utf-8"))
    for name, value in changes.items():
        *sections, key = name.split(".")
        place = table
        for section in sections:
            place = place[section]
        if key not in place:
            raise KeyError(f"{file} does not set {name}")
        if value is None:
            del place[key]
        else:
            place[key] = value
    return tomli_w.dumps(table)
