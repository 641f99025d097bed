"""Trajectories on disk: one Parquet file per step and phase, one row per trajectory, its turns nested inside.

    runs/NAME/trajectories/step=000012/train.parquet

The files are ordinary Parquet (zstd) in a hive partition, so ``SELECT step::INT, avg(outcome) FROM
'runs/NAME/trajectories/*/*.parquet' GROUP BY ALL`` works in DuckDB, and pandas or polars read the folder. Evidence,
tokens and scores are stored, and beside them what a step learned from them (``step_credit``). ``Task.private`` and
``Task.hints`` are never written.

A file is written under a temporary name, synced, and renamed, so under its final name it is always complete. No file is
ever overwritten. A writer locks ``trajectories/.lock`` while it writes; readers need no lock.
"""

from __future__ import annotations

import bisect
import logging
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, islice
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from turngate.errors import ConfigError, StoreError, UnknownName
from turngate.store.codecs import LAYOUTS, VERSION, Row
from turngate.store.files import locked, sync_folder, write_atomic
from turngate.store.folder import RunFolder, step_of, writing
from turngate.store.step_credit import EpisodeCredit, read_credit, write_credit
from turngate.types import ScoredGroup, Trajectory

_log = logging.getLogger(__name__)

ROWS_AT_ONCE = 256
"""Episodes of a file that a reader holds at a time."""
_PHASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Store:
    """The trajectories of one run. The constructor creates nothing; the first ``write`` makes the folder."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._folder = RunFolder(self.path).trajectories
        self._remove_leftovers()

    @classmethod
    def found(cls, path: str | Path) -> Store:
        """The store of a run, a folder with ``trajectories/``, or that folder itself. Raises ConfigError for another,
        and where nothing is recorded."""
        folder = Path(path)
        store = cls(folder.parent if folder.name == "trajectories" else folder)
        if not store.phases():
            raise ConfigError(f"'{path}' holds no recorded episodes (no trajectories/step=…/*.parquet)")
        return store

    def phases(self) -> list[str]:
        """The phases that are recorded in any step, in alphabetical order."""
        return sorted({file.stem for _, file in self._files(None)})

    def write(self, step: int, scored: Sequence[ScoredGroup], *, phase: str = "train") -> None:
        """Record all groups of a step in one file, completely or not at all.

        Raises StoreError for a step and phase that are recorded already, for an empty group, and for an id used twice;
        WriteError if the disk is full or read-only.
        """
        final = self._file(step, phase)
        table = _table(_rows(scored, step, phase))
        with writing(final):
            self._write(final, table)

    def _write(self, final: Path, table: pa.Table) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        with locked(self._folder):
            if final.exists():
                raise StoreError(f"{final} exists already; recorded steps are never overwritten")
            final.parent.mkdir(exist_ok=True)
            texts = list(_texts(table.schema))
            write_atomic(final, lambda file: pq.write_table(table, file, compression="zstd", use_dictionary=texts))
            sync_folder(self._folder)

    def write_credit(self, step: int, found: Mapping[str, EpisodeCredit]) -> None:
        """Record what a step learned from its episodes, by their ids; nothing is written where it learned from none.

        Raises WriteError if the disk is full or read-only.
        """
        write_credit(self._file(step, "train").parent, found)

    def credit(self, step: int) -> dict[str, EpisodeCredit]:
        """What a step learned from its episodes, by their ids. Raises StoreError for a file that is damaged."""
        return read_credit(self._file(step, "train").parent)

    def read(self, step: int | None = None, phase: str | None = None) -> Iterator[ScoredGroup]:
        """The groups of a step (None: all) and phase (None: all), in the order in which they were written.

        The groups are equal to those that were written, but ``task.private`` and ``task.hints`` are empty, and tuples
        inside JSON values are lists. Raises StoreError for a step that is not recorded, and for a file that is damaged
        or of an unknown version.
        """
        files = [file for at, file in self._files(phase) if step is None or at == step]
        if step is not None and not files:
            raise StoreError(f"{self._folder} has no step {step}" + (f" of phase '{phase}'" if phase else ""))
        return chain.from_iterable(map(_groups, files))

    def read_groups(self, step: int, phase: str, places: Collection[int]) -> Iterator[ScoredGroup]:
        """Some groups of a step and phase, by their places among those that were written, in this order.

        The others are not decoded. Raises StoreError as ``read`` does, and for a place that is not there.
        """
        file = self._file(step, phase)
        if not file.exists():
            raise StoreError(f"{self._folder} has no step {step} of phase '{phase}'")
        wanted = {_group_id(step, phase, place) for place in places}
        table = _load(file)
        ids = table.column("group_id")
        if missing := wanted - set(ids.to_pylist()):
            raise StoreError(f"{file} has no group '{min(missing)}'")
        return _groups_of(table.filter(pc.is_in(ids, pa.array(sorted(wanted), ids.type))), file)

    def with_images(self, step: int, most: int) -> list[Trajectory]:
        """Episodes of a step, of any phase, whose observations hold images: the first of each group, ``most`` at most.

        Files without images are not decoded. Raises StoreError as ``read`` does.
        """
        files = (file for at, file in self._files(None) if at == step and _has_images(file))
        groups = chain.from_iterable(map(_groups, files))
        shown = (
            group.trajectories[0]
            for group in groups
            if any(turn.observation.images for turn in group.trajectories[0].turns)
        )
        return list(islice(shown, most))

    def find(self, trajectory_id: str) -> tuple[int, ScoredGroup, int]:
        """(step, group, index in the group) of a trajectory; later steps are searched first. Raises UnknownName."""
        known: list[str] = []
        for step, file in reversed(self._files(None)):
            ids = _load(file, columns=["trajectory_id"]).column(0).to_pylist()
            if trajectory_id in ids:
                return next(
                    (step, group, index)
                    for group in _groups(file)
                    for index, trajectory in enumerate(group.trajectories)
                    if trajectory.id == trajectory_id
                )
            known += ids
        raise UnknownName("trajectory", trajectory_id, _neighbours(trajectory_id, known))

    def steps(self, phase: str | None = "train") -> list[int]:
        """The steps that are recorded, ascending; ``phase=None``: in any phase."""
        return sorted({step for step, _ in self._files(phase)})

    def last_step(self, phase: str | None = "train") -> int | None:
        """The last recorded step, or None when there is none."""
        return max(self.steps(phase), default=None)

    def set_aside_after(self, step: int) -> list[int]:
        """Move every step later than ``step`` to ``set_aside/`` in the run's folder; returns their numbers.

        A run that goes on calls it with the step of its checkpoint, and plays the later steps again. The last step is
        moved first, so that an interruption leaves no gap between the steps.
        """
        later = sorted((at for at in self.steps(None) if at > step), reverse=True)
        if not later:
            return []
        aside = _next_folder(RunFolder(self.path).set_aside)
        with locked(self._folder):
            for at in later:
                name = f"step={at:06d}"
                (self._folder / name).rename(aside / name)
            sync_folder(self._folder)
        _log.warning("set aside steps %d..%d of %s in %s", later[-1], later[0], self._folder, aside)
        return later[::-1]

    def discard(self, step: int, phase: str) -> None:
        """Delete one phase of a step if it is recorded, for a writer that was killed before its work was complete."""
        file = self._file(step, phase)
        if file.exists():
            with locked(self._folder):
                file.unlink()
                sync_folder(file.parent)
            _log.warning("discarded %s", file)

    def _file(self, step: int, phase: str) -> Path:
        if step < 0:
            raise StoreError(f"step is {step}; it must be at least 0")
        if not _PHASE.fullmatch(phase):
            raise StoreError(f"phase '{phase}' does not fit a file name; use letters, digits, '.', '_' and '-'")
        return self._folder / f"step={step:06d}" / f"{phase}.parquet"

    def _files(self, phase: str | None) -> list[tuple[int, Path]]:
        """(step, file) in order of step, then phase."""
        return sorted(
            (step_of(file.parent), file)
            for file in self._folder.glob("step=*/[!.]*.parquet")
            if phase in (None, file.stem)
        )

    def _remove_leftovers(self) -> None:
        """Delete temporary files of a writer that was killed, unless the lock says that a writer is at work."""
        if not any(self._folder.glob("step=*/.*.tmp")) or not os.access(self._folder, os.W_OK):
            return
        with locked(self._folder, wait=False) as mine:
            for leftover in self._folder.glob("step=*/.*.tmp") if mine else ():
                leftover.unlink()
                _log.warning("removed %s, left by a writer that was killed", leftover)
                if not any(leftover.parent.iterdir()):
                    leftover.parent.rmdir()


# --- rows ------------------------------------------------------------------------------------------------------------


def _rows(scored: Sequence[ScoredGroup], step: int, phase: str) -> list[Row]:
    empty = [group.task.id for group in scored if not group.trajectories]
    if empty:
        raise StoreError(f"the group of task '{empty[0]}' has no trajectories, so it cannot be stored")
    rows = [
        Row(_group_id(step, phase, position), sibling, phase, trajectory, score)
        for position, group in enumerate(scored)
        for sibling, (trajectory, score) in enumerate(zip(group.trajectories, group.scores, strict=True))
    ]
    name, count = next(iter(Counter(row.trajectory.id for row in rows).most_common(1)), ("", 0))
    if count > 1:
        raise StoreError(f"trajectory id '{name}' occurs {count} times in step {step}; ids must be unique")
    return rows


def _table(rows: Sequence[Row]) -> pa.Table:
    return pa.table(LAYOUTS[VERSION].columns(rows), metadata={"schema_version": str(VERSION)})


def _texts(fields: Iterable[pa.Field], above: str = "") -> Iterator[str]:
    """Paths of the columns of texts, as Parquet names them. Texts repeat, so a dictionary of them is smaller; one of
    numbers takes three times as long to write and is larger, because few token ids of a step occur often."""
    for field in fields:
        path, kind = above + field.name, field.type
        if pa.types.is_list(kind):
            yield from _texts([kind.value_field.with_name("list.element")], f"{path}.")
        elif pa.types.is_struct(kind):
            yield from _texts(kind, f"{path}.")
        elif pa.types.is_large_string(kind):
            yield path


def groups_in(file: Path) -> Iterator[ScoredGroup]:
    """The groups of one file of trajectories, for reading the rest of a damaged run; no other file is needed.

    Those before the damage come first. Raises StoreError as ``Store.read`` does.
    """
    return _groups(file)


def _group_id(step: int, phase: str, place: int) -> str:
    return f"{step:06d}/{phase}/{place}"


def _groups(file: Path) -> Iterator[ScoredGroup]:
    return _grouped(_stored(file))


def _groups_of(table: pa.Table, file: Path) -> Iterator[ScoredGroup]:
    version, batches = _version(table.schema, file), table.to_batches(ROWS_AT_ONCE)
    return _grouped(chain.from_iterable(_objects(version, batch) for batch in batches))


def _grouped(rows: Iterable[Row]) -> Iterator[ScoredGroup]:
    for _, siblings in groupby(rows, key=lambda row: row.group_id):
        members = list(siblings)
        yield ScoredGroup(
            task=members[0].trajectory.task,
            trajectories=tuple(row.trajectory for row in members),
            scores=tuple(row.score for row in members),
        )


def _stored(file: Path) -> Iterator[Row]:
    """The rows of a file, of which ``ROWS_AT_ONCE`` are in memory at a time."""
    try:
        with pq.ParquetFile(file, pre_buffer=False) as parquet:
            version = _version(parquet.schema_arrow, file)
            for batch in parquet.iter_batches(ROWS_AT_ONCE):
                yield from _objects(version, batch)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        raise _unreadable(file, error) from error


def _objects(version: int, batch: pa.RecordBatch) -> Iterable[Row]:
    rows: Iterable[Row] = LAYOUTS[version].objects(dict(zip(batch.schema.names, batch.columns, strict=True)))
    return rows


def _unreadable(file: Path, error: Exception) -> StoreError:
    return StoreError(f"{file} cannot be read as Parquet: {error}")


def _load(file: Path, columns: list[str] | None = None) -> pa.Table:
    try:
        with pq.ParquetFile(file) as parquet:
            _version(parquet.schema_arrow, file)
            return parquet.read(columns=columns)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        raise _unreadable(file, error) from error


def _has_images(file: Path) -> bool:
    """Whether an observation in a file holds an image; of the file nothing else is read."""
    try:
        with pq.ParquetFile(file) as parquet:
            paths = [parquet.schema.column(number).path for number in range(len(parquet.schema))]
            (images,) = (path for path in paths if ".observation.images." in path)
            turns = parquet.read(columns=[images]).column(0)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        raise _unreadable(file, error) from error
    while not pa.types.is_large_binary(turns.type):
        turns = pc.struct_field(turns, 0) if pa.types.is_struct(turns.type) else pc.list_flatten(turns)
    return len(turns) > 0


def _version(schema: pa.Schema, file: Path) -> int:
    text = (schema.metadata or {}).get(b"schema_version", b"missing").decode()
    if text.isdecimal() and int(text) in LAYOUTS:
        return int(text)
    known = ", ".join(map(str, LAYOUTS))
    raise StoreError(f"{file} has schema_version '{text}', this turngate reads {known}; a newer turngate may read it")


def _next_folder(parent: Path) -> Path:
    """Make the next of the folders ``0``, ``1``, … in ``parent``."""
    parent.mkdir(exist_ok=True)
    folder = parent / str(sum(1 for _ in parent.iterdir()))
    folder.mkdir()
    return folder


def _neighbours(name: str, known: list[str]) -> list[str]:
    """The ids next to ``name`` in alphabetical order; comparing it with every id of a long run would take minutes."""
    ordered = sorted(known)
    place = bisect.bisect(ordered, name)
    return ordered[max(0, place - 8) : place + 8]
