"""What an auxiliary loss answers, read before it is used: rows and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from turngate.part_calls import Unusable, call_part, call_part_later, metrics_of, number, short_result
from turngate.trainer.auxiliary.base import AuxiliaryRow, AuxiliaryRows, AuxiliarySource
from turngate.trainer.auxiliary.preference import Contrast
from turngate.types import Metrics, ScoredGroup

AUXILIARY = "auxiliary loss"
_ROWS = (
    "AuxiliaryRows whose rows have ids and trained, equally many of both, the first not trained, and a teacher in all "
    "rows or in none; or None"
)


async def rows_of(
    source: AuxiliarySource, groups: Sequence[ScoredGroup], step: int, *, n_tokens: int | None
) -> AuxiliaryRows | None:
    """``AuxiliarySource.rows``. ``n_tokens``: size of the model's vocabulary; None where it is not known.

    Raises PartError for rows that cannot be learned.
    """
    return await call_part_later(
        AUXILIARY, source.rows, groups, step, take=partial(_rows, n_tokens=n_tokens), must=_ROWS
    )


def metrics_of_source(source: AuxiliarySource) -> Metrics:
    """``AuxiliarySource.metrics``. Raises PartError for metrics that are no numbers."""
    return call_part(AUXILIARY, source.metrics, take=metrics_of, must="a dictionary of numbers by name")


def _rows(found: object, n_tokens: int | None) -> AuxiliaryRows | None:
    if found is None:
        return None
    if not isinstance(found, AuxiliaryRows):
        raise Unusable
    rows = [_row(row, f"row {place}", n_tokens) for place, row in enumerate(found.rows)]
    if len({row.teacher is None for row in rows}) > 1:
        raise Unusable("some rows have a teacher and some have none")
    if found.contrast is not None:
        if not isinstance(found.contrast, Contrast):
            raise Unusable(f"contrast is {short_result(found.contrast)}")
        if len(rows) % found.contrast.together:
            raise Unusable(f"{len(rows)} rows, and {found.contrast.together} of them belong together")
    factor = None if found.lr_factor is None else number(found.lr_factor, "lr_factor")
    return replace(found, rows=rows, weight=number(found.weight, "weight"), lr_factor=factor)


def _row(row: object, name: str, n_tokens: int | None) -> AuxiliaryRow:
    if not isinstance(row, AuxiliaryRow):
        raise Unusable(f"{name} is {short_result(row)}")
    ids, trained = _array(row.ids, "iu", f"ids of {name}"), _array(row.trained, "b", f"trained of {name}")
    others = [
        None if column is None else _array(column, kinds, f"{key} of {name}")
        for key, column, kinds in (("teacher", row.teacher, "f"), ("turn", row.turn, "iu"))
    ]
    if any(len(one) != len(ids) for one in (trained, *others) if one is not None):
        raise Unusable(f"{name} has {len(ids)} ids and {len(trained)} of trained")
    if trained[:1].any():
        raise Unusable(f"the first token of {name} is trained, and nothing predicts it")
    if len(ids) and (ids.min() < 0 or (n_tokens is not None and ids.max() >= n_tokens)):
        raise Unusable(f"ids of {name} are {ids.min()}…{ids.max()}; the model has 0…{(n_tokens or 0) - 1}")
    teacher, turn = others
    if teacher is not None and not np.isfinite(teacher[trained]).all():
        raise Unusable(f"teacher of {name} is not finite")
    value, weight = number(row.value, f"value of {name}"), number(row.weight, f"weight of {name}")
    return AuxiliaryRow(ids=ids, trained=trained, teacher=teacher, turn=turn, value=value, weight=weight)


def _array(column: object, kinds: str, name: str) -> npt.NDArray[Any]:
    """``column`` as a flat array whose numbers are of one of these kinds of numpy."""
    found: npt.NDArray[Any] = np.asarray(column)
    if found.ndim != 1 or found.dtype.kind not in kinds:
        raise Unusable(f"{name} is {short_result(column)}")
    return found
