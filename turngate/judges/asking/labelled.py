"""Labelled work, to measure how good a judge is. A file has one JSON object per line, of either form,

    {"task": TEXT, "response": TEXT, "label": true or false}
    {"task": TEXT, "first": TEXT, "second": TEXT, "label": "first", "second" or "tie"}

each optionally with a "reference", the right answer as the judge is shown it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from turngate.errors import DataError
from turngate.jsonl import read_rows


class _LabelledRow(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    task: str
    reference: str = ""


class WorkRow(_LabelledRow):
    """One labelled response."""

    response: str
    label: bool


class PairRow(_LabelledRow):
    """Two responses and which is better."""

    first: str
    second: str
    label: Literal["first", "second", "tie"]


def read_labelled(path: Path) -> list[WorkRow | PairRow]:
    """The rows of a labelled file. Raises DataError with file, line and field."""
    rows = [_row(path, number, data) for number, data in read_rows(path)]
    if not rows:
        raise DataError(path, 'holds no rows; write one a line: {"task": …, "response": …, "label": true}')
    return rows


def _row(path: Path, number: int, data: object) -> WorkRow | PairRow:
    if not isinstance(data, dict):
        raise DataError(path, "must be a JSON object", line=number)
    form: type[WorkRow] | type[PairRow] = PairRow if {"first", "second"} & data.keys() else WorkRow
    try:
        return form.model_validate(data)
    except ValidationError as error:
        raise _data_error(path, number, error, form, data) from None


def _data_error(
    path: Path, number: int, error: ValidationError, form: type[WorkRow] | type[PairRow], data: Mapping[str, object]
) -> DataError:
    first = error.errors()[0]
    field = str(first["loc"][0])
    if first["type"] == "missing":
        return DataError(path, "is missing", line=number, field=field)
    if first["type"] == "extra_forbidden":
        known = ", ".join(form.model_fields)
        return DataError(path, f"is unknown; known: {known}", line=number, field=field)
    return DataError(path, f"{first['msg']}, got {data[field]!r}", line=number, field=field)
