"""The records of a file from another program, one by one, each with its place; those that cannot be read are named.

Nothing is executed: JSON and zip files are read, and no pickle. Lines, documents and files have a largest size.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from turngate.errors import DataError
from turngate.store.formats import atif, inspect_logs, openai_chat, training_trace, trl, verifiers
from turngate.store.formats.fields import BadRecord, Fields, Plain, clean_texts
from turngate.store.formats.read_episode import ReadEpisode

MAX_LINE = 64 * 2**20
"""Most bytes of a line."""
MAX_DOCUMENT = 1024 * 2**20
"""Most bytes of a file that is one JSON document."""
MAX_FILE = 8 * 1024 * 2**20
"""Most bytes of a file of lines: its episodes are held in memory until all are read."""

READERS: Mapping[str, Callable[[Plain], list[ReadEpisode]]] = {
    "chat": openai_chat.episodes,
    "atif": atif.episodes,
    "trl": trl.episodes,
    "verifiers": verifiers.episodes,
    "inspect": inspect_logs.episodes,
    "training-trace": training_trace.episodes,
}
"""Name of each format that is read → from a record to its episodes."""

_ROWS_AT_ONCE = 256
_FOREIGN = {
    b"PAR1": "a Parquet file; a store of turngate is read as it is (turngate show, rescore, data export)",
    b"PK\x03\x04": "a zip file; of zip files only inspect_ai's logs are read (--from inspect, FILE.eval)",
    b"\x1f\x8b": "packed by gzip; unpack it first (gunzip)",
    b"\x28\xb5\x2f\xfd": "packed by zstd; unpack it first",
    b"\x80": "no text, maybe a pickle; pickles run code when they are read, and are never read here",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The episodes of one record, or why there are none. ``place`` is where it is, such as "log.jsonl, line 3"."""

    place: str
    episodes: tuple[ReadEpisode, ...] = ()
    problem: str = ""
    n_changed: int = 0


def load(path: Path, format: str) -> Iterator[Loaded]:
    """The records of a file, or of each ``.json`` and ``.jsonl`` file in a folder.

    Raises DataError for a file that is none of this format, or that cannot be read at all.
    """
    if path.is_dir():
        files = sorted(one for one in path.rglob("*") if one.suffix in (".json", ".jsonl", ".eval") and one.is_file())
        if not files:
            raise DataError(path, "is a folder without .json, .jsonl or .eval files")
    else:
        files = [path]
    for file in files:
        for place, found in _records(file, format):
            yield _loaded(f"{file}{place}", found, READERS[format])


def _loaded(place: str, found: Plain, read: Callable[[Plain], list[ReadEpisode]]) -> Loaded:
    if isinstance(found, BadRecord):
        return Loaded(place=place, problem=str(found))
    try:
        # What turngate recorded is kept to the letter: its tokens say what these texts are.
        value, n_changed = clean_texts(found, texts=not atif.is_own(found))
        return Loaded(place=place, episodes=tuple(read(value)), n_changed=n_changed)
    except (BadRecord, RecursionError) as error:
        return Loaded(place=place, problem=str(error) or "it is nested too deeply")


def _records(path: Path, format: str) -> Iterator[tuple[str, Plain]]:
    """(place in the file, value or BadRecord) of each record."""
    try:
        with path.open("rb") as file:
            first, size = file.read(8), file.seek(0, 2)
    except OSError as error:
        raise DataError(path, f"cannot be read: {error.strerror}") from error
    if not size:
        raise DataError(path, "is empty: nothing was written, or it was not copied")
    zipped = format == "inspect" and first.startswith(b"PK")
    columns = format == "trl" and first.startswith(b"PAR1")
    foreign = (
        None if zipped or columns else next((what for begin, what in _FOREIGN.items() if first.startswith(begin)), None)
    )
    if foreign:
        raise DataError(path, f"is {foreign}")
    if zipped:
        yield from _members(path)
    elif columns:
        yield from _parquet_rows(path)
    elif format == "inspect" or path.suffix == ".json":
        yield from _document(path, size, format)
    else:
        yield from _lines(path, size)


def _lines(path: Path, size: int) -> Iterator[tuple[str, Plain]]:
    if size > MAX_FILE:
        raise DataError(path, f"has {size:,} bytes, at most {MAX_FILE:,} are read at once; split it by its lines")
    with path.open("rb") as file:
        number, blank = 0, True
        while line := file.readline(MAX_LINE + 1):
            number += 1
            place = f", line {number}"
            if len(line) > MAX_LINE:
                blank = False
                yield place, BadRecord(f"it is longer than {MAX_LINE:,} bytes")
                while line and not line.endswith(b"\n"):
                    line = file.readline(MAX_LINE)
            elif line.strip():
                blank = False
                yield place, _value(line, whole=line.endswith(b"\n"))
    if blank:
        raise DataError(path, "has only blank lines")


def _value(text: bytes, *, whole: bool = True) -> Plain:
    """The JSON value of a text, or why it is none. ``whole``: it does not end before its line break."""
    try:
        return json.loads(text.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return BadRecord(f"it is not UTF-8 text (byte {error.start})")
    except json.JSONDecodeError as error:
        if not whole:
            return BadRecord(
                f"it is cut off after {len(text)} bytes, without a line break: the file was not written, or not "
                "copied, to its end"
            )
        return BadRecord(f"it is not JSON: {error.msg} (character {error.pos})")
    except (ValueError, RecursionError) as error:  # a number with too many digits, lists nested too deeply
        return BadRecord(f"it is not readable JSON: {error}")


def _parquet_rows(path: Path) -> Iterator[tuple[str, Plain]]:
    """The rows of a Parquet file, in which TRL logs completions."""
    number = 0
    try:
        with pq.ParquetFile(path) as parquet:
            for batch in parquet.iter_batches(_ROWS_AT_ONCE):
                for row in batch.to_pylist():
                    number += 1
                    yield f", row {number}", row
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(path, f"cannot be read as Parquet: {error}; was it written, and copied, to its end?") from error


def _document(path: Path, size: int, format: str) -> Iterator[tuple[str, Plain]]:
    if size > MAX_DOCUMENT:
        raise DataError(path, f"has {size:,} bytes; a document of at most {MAX_DOCUMENT:,} is read")
    value = _value(path.read_bytes())
    if isinstance(value, BadRecord):
        cut = "; it may be cut off: was it written, and copied, to its end?" if "not JSON" in str(value) else ""
        raise DataError(path, f"cannot be read: {value}{cut}")
    if format == "inspect":
        try:
            found = list(inspect_logs.samples(value))
        except BadRecord as error:
            raise DataError(path, str(error)) from error
        yield from ((f", sample {number}", sample) for number, sample in enumerate(found))
    elif isinstance(value, list):
        yield from ((f", document {number}", one) for number, one in enumerate(value))
    else:
        yield "", value


def _members(path: Path) -> Iterator[tuple[str, Plain]]:
    task = ""
    try:
        for name, text in inspect_logs.members(path):
            value = text if isinstance(text, BadRecord) else _value(text)
            if name != "header.json":
                yield f", {name}", value if isinstance(value, BadRecord) else {"task": task, "sample": value}
                continue
            if isinstance(value, BadRecord):
                raise value
            header = Fields(value)
            inspect_logs.check_version(header)
            task = header.table("eval").text("task", "inspect")
    except BadRecord as error:
        raise DataError(path, str(error)) from error
