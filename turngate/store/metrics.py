"""Metrics: a clock for the stages of a step, and ``metrics.jsonl``, which keeps the numbers of each step.

A metric is one float under a name ``section/name``, with the unit at the end of the name where it has one. Metrics are
for people: no code decides by one, except for the end of a stage whose ``until`` names one.
"""

from __future__ import annotations

import json
import logging
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from turngate.errors import DataError
from turngate.store.folder import writing
from turngate.types import Metrics

_log = logging.getLogger(__name__)


class Clock(dict[str, float]):
    """Seconds per stage, itself a dict of metrics: ``with clock("learn"): …`` adds to ``time/learn_s``."""

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Add the duration of a block to its stage, also if the block raises."""
        start = time.perf_counter()
        try:
            yield
        finally:
            name = f"time/{stage}_s"
            self[name] = self.get(name, 0.0) + time.perf_counter() - start


# --- on disk ---------------------------------------------------------------------------------------------------------


class JsonlSink:
    """A file with one JSON object per line, such as ``{"step": 12, "train/success": 0.5, …}``.

    NaN is written as null, infinity as "inf" or "-inf". The file is opened for each line, so a process that is killed
    loses at most the line that it was writing.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists() and self.path.read_bytes()[-1:] not in (b"", b"\n"):
            self._replace(_parse(self.path))

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Append the line of one step. Raises WriteError if it does not fit on the disk; no part of it is left then."""
        line = _line({"step": step, **metrics}).encode()
        with writing(self.path), self.path.open("ab", buffering=0) as file:
            before = file.tell()
            try:
                while line:  # a disk that becomes full accepts a part of the line before it fails
                    line = line[file.write(line) :]
            except OSError:
                file.truncate(before)
                raise

    def truncate_after(self, step: int) -> int:
        """Drop the lines of steps after ``step`` and an incomplete last line; returns how many steps were dropped.

        A run that goes on calls it with the step of its checkpoint. The file is replaced by one rename. Raises
        DataError.
        """
        if not self.path.exists():
            return 0
        rows = _parse(self.path)
        kept = [row for row in rows if row["step"] <= step]
        self._replace(kept)
        return len(rows) - len(kept)

    def close(self) -> None:
        """Do nothing: the file is open only while a line is written."""

    def _replace(self, rows: Sequence[Mapping[str, float]]) -> None:
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        with temporary.open("w", encoding="utf-8") as file:
            file.writelines(map(_line, rows))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path)


def read_metrics(path: str | Path) -> list[Metrics]:
    """The lines that a ``JsonlSink`` wrote, each with its ``step``.

    A last line that is incomplete, because its writer was killed, is dropped with a warning. Raises DataError for any
    other bad line and for a file that does not exist.
    """
    if not Path(path).is_file():
        raise DataError(path, "there is no such file")
    return _parse(Path(path))


def _parse(path: Path) -> list[Metrics]:
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    rows: list[Metrics] = []
    for number, line in enumerate(lines, start=1):
        if not line and number == len(lines):
            break
        try:
            rows.append(_row(json.loads(line)))
        except ValueError as error:
            if number < len(lines):
                raise DataError(path, f"not a line of metrics: {error}", line=number) from error
            _log.warning("%s: dropped the incomplete last line %d, %d characters", path, number, len(line))
    return rows


def _row(data: object) -> Metrics:
    if not isinstance(data, dict):
        raise ValueError(f"expected an object, found {data!r}")
    if not isinstance(data.get("step"), int):
        raise ValueError(f"'step' is {data.get('step')!r}; it must be a whole number")
    return {name: value if name == "step" else _number(name, value) for name, value in data.items()}


def _number(name: str, value: object) -> float:
    if value is None:
        return math.nan
    if value == "inf" or value == "-inf" or (isinstance(value, int | float) and not isinstance(value, bool)):
        return float(value)
    raise ValueError(f'\'{name}\' is {value!r}; it must be a number, null, "inf" or "-inf"')


def _line(row: Mapping[str, float]) -> str:
    plain = {name: int(value) if name == "step" else _plain(value) for name, value in row.items()}
    return json.dumps(plain, allow_nan=False) + "\n"


def _plain(value: float) -> float | str | None:
    number = float(value)
    if math.isnan(number):
        return None
    return str(number) if math.isinf(number) else number
