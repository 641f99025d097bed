"""What a step learned from its episodes, beside them: the credit of each turn and the columns that decided it.

    runs/NAME/trajectories/step=000012/credit.feather

One row per trajectory, in Arrow's file format (``pandas.read_feather``): ``trajectory_id``; ``advantage_N``, a number
for each turn; ``advantage_S``, for rules that give credit by token, a number for each token that the policy wrote, turn
by turn; and columns of ``TurnTable.measured``, whose suffix says their shape: ``_B`` a number, ``_N`` a number for each
turn, ``_S`` one for each of the policy's tokens, turn by turn. What a critic, a reward model or a forward pass measured
is in no other file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.feather as feather  # type: ignore[import-untyped]

from turngate.errors import StoreError
from turngate.store.files import write_atomic
from turngate.store.folder import writing

NAME = "credit.feather"
Column: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeCredit:
    """What was learned from one episode of T turns.

    ``advantage_T``: the credit of each turn. ``tokens_T``: that of the policy's tokens in each turn, in order, for
    rules that give credit by token; else None. ``columns``: what was measured for the rule, by the name of its column:
    an array of no dimension (``_B``), of one entry per turn (``_N``), or a tuple of an array per turn (``_S``).
    """

    advantage_T: Column
    tokens_T: tuple[Column, ...] | None = None
    columns: Mapping[str, Column | tuple[Column, ...]] = field(default_factory=dict)


def write_credit(folder: Path, found: Mapping[str, EpisodeCredit]) -> None:
    """Write the credit of the episodes of a step, by their ids, into the step's folder, in place of what is there: no
    file where it learned from none.

    Raises WriteError if the disk is full or read-only.
    """
    if not found:
        with writing(folder / NAME):
            (folder / NAME).unlink(missing_ok=True)
        return
    rows = list(found.values())
    columns = {"trajectory_id": pa.array(list(found), pa.string())}
    columns["advantage_N"] = _of_turns([row.advantage_T for row in rows])
    if rows[0].tokens_T is not None:
        columns["advantage_S"] = _of_tokens([row.tokens_T or () for row in rows])
    for name in rows[0].columns:
        values: Sequence[Any] = [row.columns[name] for row in rows]
        columns[name] = _of_column(name, values)
    table, path = pa.table(columns), folder / NAME
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, lambda file: feather.write_feather(table, file, compression="zstd"))


def read_credit(folder: Path) -> dict[str, EpisodeCredit]:
    """The credit of the episodes of a step by their ids; none for a step that recorded none.

    Raises StoreError for a file that is damaged.
    """
    path = folder / NAME
    if not path.exists():
        return {}
    try:
        table = feather.read_table(path)
        held = {name: _arrays(name, table.column(name).combine_chunks()) for name in table.column_names[1:]}
        ids, advantage = table.column("trajectory_id").to_pylist(), held.pop("advantage_N")
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise StoreError(f"{path} cannot be read as credit: {error}") from error
    tokens = held.pop("advantage_S", None)
    return {
        name: EpisodeCredit(
            advantage_T=advantage[at],
            tokens_T=None if tokens is None else tokens[at],
            columns={column: values[at] for column, values in held.items()},
        )
        for at, name in enumerate(ids)
    }


def _of_column(name: str, rows: Sequence[Any]) -> pa.Array:
    if name.endswith("_B"):
        return pa.array(np.stack(rows))
    return _of_turns(rows) if name.endswith("_N") else _of_tokens(rows)


def _of_turns(rows: Sequence[Column]) -> pa.Array:
    return pa.ListArray.from_arrays(_offsets(rows), pa.array(np.concatenate(rows)))


def _of_tokens(rows: Sequence[Sequence[Column]]) -> pa.Array:
    turns = [turn for row in rows for turn in row]
    return pa.ListArray.from_arrays(_offsets(rows), _of_turns(turns or [np.zeros(0, np.float32)])[: len(turns)])


def _offsets(rows: Sequence[Sequence[Any] | Column]) -> pa.Array:
    return pa.array(np.cumsum([0, *map(len, rows)]), pa.int32())


def _arrays(name: str, column: pa.Array) -> list[Any]:
    """The entries of a column, an array or a tuple of arrays for each row."""
    if name.endswith("_B"):
        return list(column.to_numpy(zero_copy_only=False))
    if name.endswith("_N"):
        return _cut(column.offsets, column.flatten().to_numpy(zero_copy_only=False))
    turns = _cut(column.flatten().offsets, column.flatten().flatten().to_numpy(zero_copy_only=False))
    offsets = column.offsets.to_numpy()
    return [tuple(turns[first:last]) for first, last in pairwise(offsets)]


def _cut(offsets: pa.Array, values: Column) -> list[Column]:
    return np.split(values, offsets.to_numpy()[1:-1]) if len(offsets) > 1 else []
