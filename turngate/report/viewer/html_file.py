"""One HTML file that holds a run, and the runs beside it, with everything that is needed to read them.

Data are compressed JSON in base64, one element for each part, so no text of a model can close an element. The row of
every episode is in the file. The turns of a group are left out where the file would become too large: those that
alarms name stay first, then a sample by hash, the same each time.
"""

from __future__ import annotations

import base64
import gzip
import heapq
import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from turngate.errors import ConfigError
from turngate.report.viewer.assets import assets
from turngate.report.viewer.compared import comparison_record
from turngate.report.viewer.episode_record import Record, group_key
from turngate.report.viewer.run_record import RunParts, RunReading, columns_of
from turngate.store import write_text_atomic
from turngate.store.folder import RunFolder
from turngate.types import JSON, derive_seed

FILE_BYTES = 20_000_000
"""A file holds all turns unless it would be larger than this."""


class _Element(NamedTuple):
    """The turns of a group as they stand in the file. The first to be left out is the one of the lowest rank."""

    rank: tuple[bool, int]
    name: str
    text: str
    run: int


class WrittenPage(NamedTuple):
    """A written file: its path, its size, and how many of all groups it holds."""

    path: Path
    size: int
    kept: int
    groups: int


def write_html(runs: Sequence[RunFolder], path: Path, parts: RunParts, *, most: int = FILE_BYTES) -> WrittenPage:
    """Write some runs into one HTML file; the first is the one that it is about.

    ``most``: bytes above which turns are left out. Raises ConfigError where none of the folders is a run, WriteError.
    """
    readings = [RunReading(run, parts) for run in runs]
    if unknown := [run for run in runs if not run.exists and not run.is_imported]:
        raise ConfigError(f"'{unknown[0].path}' is not the folder of a run (it has no config.toml)")
    names = _names(runs)
    records, kept, left_out = list[Record](), list[_Element](), [0] * len(runs)
    size = 0
    for at, reading in enumerate(readings):
        record = reading.record()
        rows = list[Record]()
        for element in _groups(at, reading, record, rows):
            heapq.heappush(kept, element)
            size += len(element.text)
            while size > most and kept:
                gone = heapq.heappop(kept)
                size -= len(gone.text)
                left_out[gone.run] += 1
        records.append(record | {"id": names[at], "rows": columns_of(rows), "problems": list(reading.problems)})
    held = [sum(element.run == at for element in kept) for at in range(len(runs))]
    data = [
        (f"r-{at}", _packed(record | {"kept": held[at], "left_out": left_out[at], "limit": f"{most / 1e6:g} MB"}))
        for at, record in enumerate(records)
    ]
    index = {
        "folder": "",
        "problems": [],
        "runs": [{"id": record["id"], "name": record["name"], "state": record["state"]} for record in records],
        "pairs": _pairs(names, readings),
    }
    page = assets("file")
    texts = [page.head, _script("index", _packed(index)), *(_script(*one) for one in data), page.program]
    texts += [_script(element.name, element.text) for element in sorted(kept, key=lambda one: one.name)]
    whole = "".join([*texts, "</body>\n</html>\n"])
    write_text_atomic(path, whole)
    return WrittenPage(path, len(whole), len(kept), len(kept) + sum(left_out))


def _groups(at: int, reading: RunReading, record: Mapping[str, JSON], rows: list[Record]) -> Iterator[_Element]:
    """The groups of a run; ``rows`` gets those of their episodes."""
    alarms = record["alarms"]
    assert isinstance(alarms, list)
    named = {name for alarm in alarms for name in alarm["trajectories"]}
    for file in reading.files():
        found = reading.read(file)
        own = reading.rows(file, found)
        rows += own
        alarmed = {row["group"] for row in own if row["id"] in named}
        for place in range(len(found.groups)):
            key = group_key(file.step, file.phase, place)
            text = _packed(reading.group(found, place))
            yield _Element((key in alarmed, derive_seed("viewer", key)), f"g-{at}-{key.replace('/', '_')}", text, at)


def _pairs(names: Sequence[str], readings: Sequence[RunReading]) -> list[JSON]:
    return [
        comparison_record(one, other) | {"a": a, "b": b}
        for a, one in zip(names, readings, strict=True)
        for b, other in zip(names, readings, strict=True)
        if a != b
    ]


def _names(runs: Sequence[RunFolder]) -> list[str]:
    """The labels of the runs, with a number behind those that another one has too."""
    labels = [run.label for run in runs]
    return [f"{name}-{at}" if labels.count(name) > 1 else name for at, name in enumerate(labels)]


def _packed(value: object) -> str:
    """A value as base64 of compressed JSON, which has no character that means anything in HTML."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=6, mtime=0)).decode()


def _script(name: str, text: str) -> str:
    return f'<script type="application/gzip" id="{escape(name)}">{text}</script>\n'
