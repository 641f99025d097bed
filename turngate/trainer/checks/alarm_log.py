"""The alarms of a run on disk: ``alarms.jsonl``, with one line each time an alarm began.

The file is always replaced as a whole, so it never ends in half a line.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from turngate.errors import DataError
from turngate.jsonl import read_text
from turngate.rewards.monitors.alarm import Alarm
from turngate.store import write_text_atomic
from turngate.store.folder import RunFolder
from turngate.types import JSON


class Raised(NamedTuple):
    """An alarm and the step in which it began."""

    step: int
    alarm: Alarm


class AlarmLog:
    """Writes the alarms of the run in folder ``run``."""

    def __init__(self, run: Path) -> None:
        self._run, self._file = run, RunFolder(run).alarms

    def write(self, step: int, alarm: Alarm) -> None:
        """Add ``alarm``, which began in ``step``."""
        self._replace([*read_alarms(self._run), Raised(step, alarm)])

    def truncate_after(self, step: int) -> None:
        """Remove alarms of later steps, because a resumed run plays those again."""
        if self._file.exists():
            self._replace([raised for raised in read_alarms(self._run) if raised.step <= step])

    def _replace(self, alarms: Sequence[Raised]) -> None:
        write_text_atomic(self._file, "".join(map(_line, alarms)))


def read_alarms(run: Path) -> list[Raised]:
    """The alarms of a run in the order in which they began; none if it has no file of them. Raises DataError."""
    file = RunFolder(run).alarms
    lines = read_text(file).splitlines() if file.exists() else []
    return [_read(file, number, line) for number, line in enumerate(lines, start=1)]


def _read(file: Path, number: int, line: str) -> Raised:
    try:
        row = json.loads(line)
        return Raised(row.pop("step"), Alarm(**row))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataError(file, f"not an alarm: {error}", line=number) from error


def _line(raised: Raised) -> str:
    step, alarm = raised
    row = {
        "step": step,
        "name": alarm.name,
        "severity": alarm.severity,
        "sentence": alarm.sentence,
        "evidence": _plain(alarm.evidence),
    }
    return json.dumps(row, allow_nan=False) + "\n"


def _plain(value: JSON) -> JSON:
    """``value`` without what JSON cannot say: infinity becomes "inf"."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value
