"""Read text, JSON, JSON lines and TOML that users write. Errors of files name the file and the line."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from turngate.errors import DataError
from turngate.types import JSON


def read_text(path: Path) -> str:
    """The text of a file, without a byte-order mark at its beginning. Raises DataError if it cannot be read or is not
    UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(path, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(path, f"is not UTF-8 text (byte {error.start})") from error


def read_json(path: Path) -> JSON:
    """The JSON value in a file. Raises DataError."""
    return _parsed(path, read_text(path), None)


def read_rows(path: Path) -> Iterator[tuple[int, JSON]]:
    """(number of the line, from 1, its JSON value) for each line that is not blank. Raises DataError."""
    for number, line in enumerate(read_text(path).split("\n"), 1):  # splitlines would also cut at U+2028 in a text
        if line.strip():
            yield number, _parsed(path, line, number)


def toml_of(text: str) -> dict[str, Any]:
    """The table that a TOML text is. Raises TOMLDecodeError, for numbers that are too long and deep nesting too."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError as error:
        raise tomllib.TOMLDecodeError("a number has too many digits") from error
    except RecursionError as error:
        raise tomllib.TOMLDecodeError("values are nested too deeply") from error


def cut_torn_line(path: Path) -> int:
    """Cut off a last line that its writer did not finish; returns its length in bytes, 0 if nothing was cut off.

    A last line is cut off if it has no line break and is not JSON. If it is JSON, the line break is added. A file that
    does not exist is left alone.
    """
    whole = path.read_bytes() if path.exists() else b""
    last = whole[whole.rfind(b"\n") + 1 :]
    if not last:
        return 0
    with path.open("r+b") as file:
        try:
            json.loads(last)
        except ValueError:
            file.truncate(len(whole) - len(last))
            return len(last)
        file.seek(len(whole))
        file.write(b"\n")
    return 0


def _parsed(path: Path, text: str, line: int | None) -> JSON:
    try:
        value: JSON = json.loads(text)
        return value
    except json.JSONDecodeError as error:
        raise DataError(path, f"is not JSON: {error.msg}", line=line or error.lineno) from error
    except (ValueError, RecursionError) as error:  # a number with too many digits, lists nested too deeply
        raise DataError(path, f"is not readable JSON: {error}", line=line) from error
