"""All runs in a folder, read again when something was written: what the server hands to the page.

A run is known by its path below the folder, and only runs that were found there are read, so no name leads elsewhere.
Links to folders are not followed. Files of episodes never change once they are written, so the rows of each are read
once; of whole files the last ``FILES`` are kept.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

from turngate.errors import TurngateError
from turngate.report.episode_words import literal
from turngate.report.viewer.compared import comparison_record
from turngate.report.viewer.episode_record import Record
from turngate.report.viewer.run_record import ReadFile, RecordedFile, RunParts, RunReading, columns_of
from turngate.store.folder import RunFolder
from turngate.store.trajectories import groups_in
from turngate.types import JSON, Trajectory

FILES = 4
"""Files of which the decoded episodes are kept, because the next question is mostly about the same one."""
PARTS = ("controls", "baselines", "stages", "rescored", "continued")
"""Folders of a run that hold runs of their own."""


class LiveRuns:
    """The runs in ``folder``, or the run that it is. May be called from several threads."""

    def __init__(self, folder: Path, parts: RunParts) -> None:
        self._folder, self._parts = folder, parts
        self._lock = threading.RLock()
        self._readings: dict[str, tuple[str, RunReading]] = {}
        self._rows: dict[tuple[Path, int], list[Record]] = {}
        self._files: OrderedDict[tuple[Path, int], ReadFile] = OrderedDict()
        self._states: dict[str, tuple[str, str]] = {}

    def names(self) -> list[str]:
        """The names of the runs."""
        return list(self._found())

    def index(self) -> Record:
        """The runs, each with a text that changes when it does; ``folder`` as it was named."""
        with self._lock:
            runs, problems = list[JSON](), list[JSON]()
            for name, run in self._found().items():
                try:
                    version = _version(run)
                    runs.append(
                        {"id": name, "name": literal(name), "state": self._state(name, version), "version": version}
                    )
                except OSError as error:
                    problems.append(literal(f"{name}: {error}"))
            return {"folder": literal(str(self._folder)), "problems": problems, "runs": runs}

    def run(self, run: str) -> Record | None:
        """A run with the row of each of its episodes; None for one that is not in the folder."""
        with self._lock:
            reading = self._reading(run)
            if reading is None:
                return None
            record, rows = reading.record(), list[Record]()
            for file in reading.files():
                rows += self._rows_of(reading, file)
            told: Record = {"id": run, "version": self._readings[run][0], "rows": columns_of(rows), "left_out": 0}
            told["problems"] = list[JSON](reading.problems)
            return record | told

    def group(self, run: str, key: str) -> Record | None:
        """The turns of a group; None for one that is not recorded."""
        with self._lock:
            reading = self._reading(run)
            step, _, rest = key.partition("/")
            phase, _, place = rest.rpartition("/")
            for file in reading.files() if reading is not None else ():
                if (str(file.step), literal(file.phase)) == (step, phase) and place.isdecimal():
                    assert reading is not None
                    found = self._file(reading, file)
                    return reading.group(found, int(place)) if int(place) < len(found.groups) else None
            return None

    def compare(self, a: str, b: str) -> Record | None:
        """Two runs by their last evaluations; None where one is not in the folder."""
        with self._lock:
            one, other = self._reading(a), self._reading(b)
            return None if one is None or other is None else comparison_record(one, other) | {"a": a, "b": b}

    def find(self, run: str, text: str) -> Record | None:
        """The episodes of a run in whose turns, hints and facts a text stands, however it is capitalised."""
        with self._lock:
            reading = self._reading(run)
            if reading is None:
                return None
            found, wanted = list[str](), text.casefold()
            for file in reading.files():
                try:
                    for group in groups_in(file.path):
                        for one in group.trajectories:
                            if any(wanted in literal(part).casefold() for part in _texts(one)):
                                found.append(literal(one.id))
                except TurngateError:  # the run's own page names what cannot be read
                    continue
            return {"episodes": found}

    # --- parts --------------------------------------------------------------------------------------------------------

    def _found(self) -> dict[str, RunFolder]:
        """Name → run, the run's own path below the folder."""
        return {_name(path, self._folder): RunFolder(path) for path in _runs(self._folder)}

    def _reading(self, name: str) -> RunReading | None:
        run = self._found().get(name)
        if run is None:
            return None
        version = _version(run)
        if self._readings.get(name, ("",))[0] != version:
            self._readings[name] = (version, RunReading(run, self._parts))
        return self._readings[name][1]

    def _state(self, name: str, version: str) -> str:
        if self._states.get(name, ("",))[0] != version:
            reading = self._reading(name)
            assert reading is not None
            self._states[name] = (version, reading.state())
        return self._states[name][1]

    def _rows_of(self, reading: RunReading, file: RecordedFile) -> list[Record]:
        key = (file.path, file.path.stat().st_mtime_ns)
        if key not in self._rows:
            self._rows[key] = reading.rows(file, self._file(reading, file))
        return self._rows[key]

    def _file(self, reading: RunReading, file: RecordedFile) -> ReadFile:
        key = (file.path, file.path.stat().st_mtime_ns)
        if key not in self._files:
            self._files[key] = reading.read(file)
            while len(self._files) > FILES:
                self._files.popitem(last=False)
        self._files.move_to_end(key)
        return self._files[key]


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix() if path != folder else path.resolve().name


def _runs(folder: Path) -> Iterator[Path]:
    """The runs in a folder in alphabetical order, each before those that are parts of it."""
    if _is_run(folder):
        yield from _with_parts(folder)
        return
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not path.is_symlink() and _is_run(path):
            yield from _with_parts(path)


def _with_parts(path: Path) -> Iterator[Path]:
    if not RunFolder(path).stages:
        yield path
    for part in PARTS:
        for inside in sorted((path / part).glob("*")):
            if not inside.is_symlink() and _is_run(inside):
                yield from _with_parts(inside)


def _is_run(path: Path) -> bool:
    run = RunFolder(path)
    return path.is_dir() and (run.exists or run.is_imported or run.trajectories.is_dir())


def _version(run: RunFolder) -> str:
    """A text that changes as soon as one of the files that the page reads does."""
    files = [run.config, run.imported, run.metrics, run.alarms, run.evaluations, run.overlap, run.model]
    files += sorted(run.trajectories.glob("step=*/[!.]*.parquet"))
    told = hashlib.blake2b(digest_size=8)
    for file in files:
        if file.exists():
            state = file.stat()
            told.update(f"{file.name} {file.parent.name} {state.st_size} {state.st_mtime_ns}".encode(errors="replace"))
    return told.hexdigest()


def _texts(trajectory: Trajectory) -> Iterator[str]:
    """The texts of an episode that can be searched."""
    yield from (trajectory.id, trajectory.task.prompt, trajectory.error)
    for turn in trajectory.turns:
        yield from (turn.observation.text, turn.action.text, turn.observation.state_key)
        yield from (turn.guidance.text,) if turn.guidance else ()
    yield from (f"{fact.name} = {fact.value}" for fact in trajectory.evidence)
