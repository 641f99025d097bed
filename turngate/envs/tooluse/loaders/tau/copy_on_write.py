"""Large tables of which an episode changes a few rows: the differences from the first tables, and how to go back.

A state is the set of differences, leaf by leaf, so that a database of megabytes need not be copied for each call. The
rows of a table are its entries if it is a dict, else it is one row. Rows are compared by their bytes: 1 is not 1.0, as
it is not in the hashes by which tau-bench and tau2 compare databases.
"""

from __future__ import annotations

import copy
import marshal
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

from turngate.envs.tooluse.engine.states import leaves, spelled
from turngate.errors import EnvError
from turngate.types import JSON

Place: TypeAlias = tuple[str, str | None]
"""A table and the key of a row; None: the table as a whole."""
GONE: JSON = ["gone"]
"""Value of a leaf that is not there any more, in a state."""


class _Absent:
    """Stands for a row that is not there; the class itself does, because copies of it are the same."""


class Holder(Protocol):
    """Something that holds tables: a dict, or an object of the checkout's own classes."""

    def table(self, name: str) -> object:
        """A table as it is held."""
        ...

    def put(self, name: str, table: object) -> None:
        """Replace a table."""
        ...

    def plain(self) -> Mapping[str, object]:
        """All tables as JSON values; they may be the very ones that are held."""
        ...


class Tables:
    """The first tables. ``make`` builds a holder of them; one is kept, and never handed out."""

    def __init__(self, make: Callable[[], Holder]) -> None:
        self.make = make
        self._first = make()
        self._marks = {place: _mark(row) for place, row in _rows(self._first.plain())}

    def _changed(self, now: Mapping[str, object]) -> dict[Place, Any]:
        """The rows of ``now`` that differ from the first ones; of rows that are gone, a mark."""
        rows = dict(_rows(now))
        found = {place: row for place, row in rows.items() if self._marks.get(place) != _mark(row)}
        return found | dict.fromkeys(self._marks.keys() - rows.keys(), _Absent)

    def differences(self, now: Mapping[str, object]) -> dict[str, JSON]:
        """``table/key/…`` → value, for each leaf that differs from the first one; see ``GONE``."""
        found: dict[str, JSON] = {}
        for place, row in self._changed(now).items():
            mark = self._marks.get(place)
            old = leaves(marshal.loads(mark)) if mark is not None else {}
            new = {} if row is _Absent else leaves(row)
            for path in old.keys() | new.keys():
                if path not in new:
                    found["/".join((*_named(place), *path))] = GONE
                elif path not in old or spelled(old[path]) != spelled(new[path]):
                    found["/".join((*_named(place), *path))] = copy.copy(new[path])  # an empty list may be filled
        return dict(sorted(found.items()))

    def snapshot(self, holder: Holder) -> dict[Place, object]:
        """Copies of the rows that differ from the first ones, for ``restore``; of rows that are gone, a mark."""
        return {place: copy.deepcopy(_row(holder, place)) for place in self._changed(holder.plain())}

    def restore(self, holder: Holder, rows: Mapping[Place, object]) -> None:
        """Reset all rows to the first tables, except ``rows``, which ``taken`` gave."""
        for place in self._changed(holder.plain()):
            if place not in rows:
                _put_row(holder, place, copy.deepcopy(_row(self._first, place)), self._first)
        for place, row in rows.items():
            _put_row(holder, place, copy.deepcopy(row), self._first)


def _rows(tables: Mapping[str, object]) -> Iterator[tuple[Place, Any]]:
    for name, table in tables.items():
        if isinstance(table, dict):
            for key, row in table.items():
                yield (name, key), row
        else:
            yield (name, None), table


def _mark(row: Any) -> bytes:
    try:
        return marshal.dumps(row, 2)  # version 2 writes no references, so equal rows have equal bytes
    except ValueError as error:
        raise EnvError(f"a row of the tables is {row!r:.60}, which is not like JSON") from error


def _named(place: Place) -> tuple[str, ...]:
    return tuple(str(step) for step in place if step is not None)


def _row(holder: Holder, place: Place) -> object:
    name, key = place
    table = holder.table(name)
    if key is None:
        return table
    assert isinstance(table, dict)
    return table.get(key, _Absent)


def _put_row(holder: Holder, place: Place, row: object, first: Holder) -> None:
    name, key = place
    if key is None:
        holder.put(name, row)
        return
    table = holder.table(name)
    assert isinstance(table, dict)
    if row is _Absent:
        table.pop(key, None)
        return
    anew = key not in table
    table[key] = row
    if anew:  # tools list rows in their order, so a row that comes back goes to its place
        listed = first.table(name)
        assert isinstance(listed, dict)
        order = {known: number for number, known in enumerate(listed)}
        rows = sorted(table.items(), key=lambda item: order.get(item[0], len(order)))
        table.clear()
        table.update(rows)
