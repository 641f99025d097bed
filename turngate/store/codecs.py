"""The columns of a trajectory file: how each type of ``types.py`` becomes an Arrow column, and back.

A ``_Codec`` turns a whole column of Python values into one Arrow array and back. Small codecs are combined into the
layout at the end of this file, which names every stored field once. Fields have the same names as in the data classes,
so ``turns[1].completion.ids_K`` is also what one writes in SQL. ``LAYOUTS`` keeps one layout per schema version, and a
file is read with the layout of the version that it was written in.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from enum import StrEnum
from itertools import chain, pairwise
from json.encoder import encode_basestring
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from turngate.errors import StoreError
from turngate.types import (
    Action,
    Completion,
    EndedBy,
    Ending,
    Evidence,
    FloatArray,
    Guidance,
    Observation,
    RewardEvent,
    Score,
    Task,
    ToolCall,
    Trajectory,
    Turn,
)


class _Codec(Protocol):
    """Converts a column to Arrow and back, so that ``decode(encode(values)) == values``."""

    def encode(self, values: Sequence[Any]) -> pa.Array: ...
    def decode(self, array: pa.Array) -> list[Any]: ...


def _values(array: pa.Array) -> list[Any]:
    """The same as ``array.to_pylist()``, in a twentieth of its time, since no Arrow scalar is made of each value."""
    return _with_nulls(array.drop_null().to_numpy(zero_copy_only=False).tolist(), array)


def _with_nulls(present: list[Any], array: pa.Array) -> list[Any]:
    """The values of an array of which ``present`` are those that are not null."""
    if not array.null_count:
        return present
    following = iter(present)
    return [next(following) if valid else None for valid in array.is_valid().to_numpy(zero_copy_only=False).tolist()]


# --- codecs ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Plain:
    """Numbers, booleans and bytes of one Arrow type; None is null."""

    type: pa.DataType

    def encode(self, values: Sequence[Any]) -> pa.Array:
        return pa.array(values, self.type)

    def decode(self, array: pa.Array) -> list[Any]:
        return _values(array)


class _Real:
    """float64; None is null, which is not NaN."""

    def encode(self, values: Sequence[Any]) -> pa.Array:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())

    def decode(self, array: pa.Array) -> list[Any]:
        return _values(array)


# Arrow text is UTF-8, which has no lone surrogates, but a model can write one through a JSON escape. Such a text is
# kept in escaped form behind this noncharacter; a text that starts with it by itself is escaped too.
_ESCAPED = "\uffff"


class _Text:
    """Any Python text, which comes back unchanged; None is null."""

    def encode(self, values: Sequence[Any]) -> pa.Array:
        try:
            array = pa.array(values, pa.large_string())
        except UnicodeEncodeError:
            array = None
        if array is not None and not pc.any(pc.starts_with(array, _ESCAPED)).as_py():
            return array
        return pa.array([value if value is None else _to_utf8(value) for value in values], pa.large_string())

    def decode(self, array: pa.Array) -> list[Any]:
        texts = _values(array)
        if pc.any(pc.starts_with(array, _ESCAPED)).as_py():
            return [value if value is None else _from_utf8(value) for value in texts]
        return texts


def _to_utf8(text: str) -> str:
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _ESCAPED + text.encode("unicode_escape").decode("ascii")
    return _ESCAPED + text.encode("unicode_escape").decode("ascii") if text.startswith(_ESCAPED) else text


def _from_utf8(text: str) -> str:
    return text[1:].encode("ascii").decode("unicode_escape") if text.startswith(_ESCAPED) else text


class _Json:
    """JSON values as JSON text; None is null. Tuples come back as lists."""

    def encode(self, values: Sequence[Any]) -> pa.Array:
        return _Text().encode([None if value is None else _to_json(value) for value in values])

    def decode(self, array: pa.Array) -> list[Any]:
        texts = ("null" if text is None else text for text in _Text().decode(array))
        return json.loads(f"[{','.join(texts)}]")  # type: ignore[no-any-return]


def _plain_container(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return list(value)
    raise StoreError(f"{value!r} of type {type(value).__name__} is not a JSON value; make it a plain Python value")


def _to_json(value: Any) -> str:
    """The JSON text of a value; true, false and plain texts, which most evidence is, cost no encoder."""
    if value is True:
        return "true"
    if value is False:
        return "false"
    return encode_basestring(value) if type(value) is str else _JSON(value)


_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain_container).encode


@dataclass(frozen=True, slots=True)
class _Enum:
    """Members of a StrEnum, stored as their values."""

    members: type[StrEnum]

    def encode(self, values: Sequence[Any]) -> pa.Array:
        return pa.array(values, pa.large_string())

    def decode(self, array: pa.Array) -> list[Any]:
        values = _values(array)
        members = {value: self.members(value) for value in set(values)}
        return [members[value] for value in values]


@dataclass(frozen=True, slots=True)
class _Vector:
    """One-dimensional numpy arrays of one dtype and any lengths. They come back as read-only views."""

    dtype: type[np.generic]

    def encode(self, values: Sequence[Any]) -> pa.Array:
        flat = np.concatenate([np.zeros(0, self.dtype), *values]).astype(self.dtype, copy=False)
        return pa.ListArray.from_arrays(_offsets(values), pa.array(flat))

    def decode(self, array: pa.Array) -> list[Any]:
        flat = array.values.to_numpy()
        return [flat[start:stop] for start, stop in pairwise(_values(array.offsets))]


@dataclass(frozen=True, slots=True)
class _Many:
    """Sequences of any length; come back as tuples."""

    item: _Codec

    def encode(self, values: Sequence[Any]) -> pa.Array:
        return pa.ListArray.from_arrays(_offsets(values), self.item.encode(list(chain.from_iterable(values))))

    def decode(self, array: pa.Array) -> list[Any]:
        flat = self.item.decode(array.values)
        return [tuple(flat[start:stop]) for start, stop in pairwise(_values(array.offsets))]


def _offsets(values: Sequence[Any]) -> pa.Array:
    return pa.array(np.cumsum([0, *map(len, values)], dtype=np.int32))


@dataclass(frozen=True, slots=True)
class _Optional:
    """A value or null."""

    item: _Codec

    def encode(self, values: Sequence[Any]) -> pa.Array:
        present = [value for value in values if value is not None]
        if not present:
            return pa.nulls(len(values), self.item.encode([]).type)
        position = iter(range(len(present)))
        index = [None if value is None else next(position) for value in values]
        return self.item.encode(present).take(pa.array(index, pa.int32()))

    def decode(self, array: pa.Array) -> list[Any]:
        return _with_nulls(self.item.decode(array.drop_null()), array)


class _Struct:
    """Objects that ``make`` builds of the columns of their fields, all at once.

    A field is given as its codec, or as (codec, getter) if the object has no attribute with the field's name.
    """

    def __init__(self, make: Callable[..., list[Any]], **fields: _Codec | tuple[_Codec, Callable[[Any], Any]]) -> None:
        self._make = make
        self.fields = {
            name: field if isinstance(field, tuple) else (field, attrgetter(name)) for name, field in fields.items()
        }

    def columns(self, values: Sequence[Any]) -> dict[str, pa.Array]:
        """One Arrow array per field."""
        return {name: codec.encode(list(map(get, values))) for name, (codec, get) in self.fields.items()}

    def objects(self, columns: Mapping[str, pa.Array]) -> list[Any]:
        """The inverse of ``columns``; columns that are not fields are ignored."""
        return self._make(**{name: codec.decode(columns[name]) for name, (codec, _) in self.fields.items()})

    def encode(self, values: Sequence[Any]) -> pa.Array:
        columns = self.columns(values)
        return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))

    def decode(self, array: pa.Array) -> list[Any]:
        return self.objects(dict(zip(self.fields, array.flatten(), strict=True)))


def _all_of(kind: type) -> Callable[..., list[Any]]:
    """The function that makes one ``kind``, a data class with slots, of each row of columns of its fields.

    A field is set in all objects before the next one is, which takes a third of the time of as many calls of ``kind``.
    """

    def make(**columns: Sequence[Any]) -> list[Any]:
        (count,) = set(map(len, columns.values()))
        made: list[Any] = [object.__new__(kind) for _ in range(count)]
        for field in fields(kind):
            values = columns[field.name] if field.name in columns else [_default(kind, field) for _ in made]
            deque(map(getattr(kind, field.name).__set__, made, values), maxlen=0)
        if check := getattr(kind, "__post_init__", None):
            deque(map(check, made), maxlen=0)
        return made

    return make


def _tuples(**columns: Sequence[Any]) -> list[tuple[Any, ...]]:
    return list(zip(*columns.values(), strict=True))


def _default(kind: type, field: Field[Any]) -> Any:
    """The value of a field that files of this version do not have."""
    if field.default_factory is not MISSING:
        return field.default_factory()
    if field.default is MISSING:
        raise StoreError(f"{kind.__name__} needs {field.name}, for which this version has no column")
    return field.default


_Field: TypeAlias = tuple[_Codec, Callable[[Any], Any]]

# --- rows ------------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """One row of a trajectory file: a trajectory with its score, and its place among the groups of the step."""

    group_id: str
    sibling: int
    phase: str
    trajectory: Trajectory
    score: Score


_text, _real, _flag, _json = _Text(), _Real(), _Plain(pa.bool_()), _Json()
_int32, _int64 = _Plain(pa.int32()), _Plain(pa.int64())

_EVIDENCE = _Many(_Struct(_all_of(Evidence), name=_text, value=_json, turn=_int32, by=_text))
_GUIDANCE = _Optional(
    _Struct(
        _all_of(Guidance),
        kind=_text,
        level=_int32,
        text=_text,
        source=_text,
        insert_turn=_int32,
        strip_for_train=_flag,
        joins=_flag,
    )
)
_ACTION = _Struct(
    _all_of(Action),
    text=_text,
    thought=_text,
    calls=_Many(_Struct(_all_of(ToolCall), name=_text, arguments=_json)),
    parse_error=_text,
    flaw=_text,
)
_TURNS = _Many(
    _Struct(
        _all_of(Turn),
        observation=_Struct(_all_of(Observation), text=_text, images=_Many(_Plain(pa.large_binary())), state_key=_text),
        context_ids=_Vector(np.int32),
        completion=_Struct(
            _all_of(Completion),
            ids_K=_Vector(np.int32),
            logprobs_K=_Vector(np.float32),
            ended_by=_Enum(EndedBy),
            policy_version=_int64,
            text=_text,
        ),
        source=_Vector(np.uint8),
        action=_ACTION,
        guidance=_GUIDANCE,
    )
)
_LEDGER = _Many(
    _Struct(
        _all_of(RewardEvent),
        name=_text,
        kind=_text,
        turn=_int32,
        value=_real,
        weight=_real,
        share=_real,
        factor=_real,
        gate=_text,
    )
)
_PARENT = _Optional(_Struct(_tuples, id=(_text, itemgetter(0)), turn=(_int32, itemgetter(1))))


def _rows(**columns: Sequence[Any]) -> list[Row]:
    """One row of the columns of each; those that a version does not have get the defaults of the data classes."""

    def made(kind: type, *names: str, **others: Sequence[Any]) -> list[Any]:
        return _all_of(kind)(**{name: columns[name] for name in names if name in columns}, **others)

    tasks = made(Task, "env_id", "prompt", "split", "question", id=columns["task_id"])
    known = ("turns", "ending", "seed", "evidence", "guidance", "parent", "error")
    trajectories = made(Trajectory, *known, id=columns["trajectory_id"], task=tasks)
    scores = made(Score, "ledger", "reward_T", "outcome", "usable", "problem", "success", "missing")
    if "filled" in columns:
        scores = list(map(_filled, scores, columns["filled"]))
    return list(map(Row, columns["group_id"], columns["sibling"], columns["phase"], trajectories, scores))


def _filled(score: Score, pair: tuple[tuple[RewardEvent, ...], FloatArray] | None) -> Score:
    """A score with the payments that it would have had, if its missing verdicts could be filled in."""
    if pair is None:
        return score
    ledger, reward_T = pair
    return replace(score, filled=replace(score, ledger=ledger, reward_T=reward_T))


def _of(codec: _Codec, path: str) -> _Field:
    return codec, attrgetter(path)


def _layout(**added: _Field) -> _Struct:
    return _Struct(
        _rows,
        trajectory_id=_of(_text, "trajectory.id"),
        group_id=_text,
        sibling=_int32,
        phase=_text,
        task_id=_of(_text, "trajectory.task.id"),
        env_id=_of(_text, "trajectory.task.env_id"),
        split=_of(_text, "trajectory.task.split"),
        ending=_of(_Enum(Ending), "trajectory.ending"),
        n_turns=(_int32, lambda row: len(row.trajectory.turns)),
        outcome=_of(_real, "score.outcome"),
        total=_of(_real, "score.total"),
        usable=_of(_flag, "score.usable"),
        problem=_of(_text, "score.problem"),
        error=_of(_text, "trajectory.error"),
        seed=_of(_int64, "trajectory.seed"),
        parent=_of(_PARENT, "trajectory.parent"),
        guidance=_of(_GUIDANCE, "trajectory.guidance"),
        prompt=_of(_text, "trajectory.task.prompt"),
        reward_T=_of(_Vector(np.float32), "score.reward_T"),
        ledger=_of(_LEDGER, "score.ledger"),
        evidence=_of(_EVIDENCE, "trajectory.evidence"),
        turns=_of(_TURNS, "trajectory.turns"),
        **added,
    )


_FILLED = _Optional(_Struct(_tuples, ledger=_LEDGER, reward_T=_Vector(np.float32)))
_SCORED: Mapping[str, _Field] = {
    "success": _of(_flag, "score.success"),
    "missing": _of(_Many(_text), "score.missing"),
    "filled": _of(_FILLED, "score.filled"),
}

VERSION = 6
"""The schema version that is written."""

LAYOUTS: Mapping[int, _Struct] = {
    4: _layout(),  # success was an outcome of 1, whatever the rubric; a score did not say which verdicts were missing
    5: _layout(**_SCORED),  # the prompt was taken for the question
    6: _layout(**_SCORED, question=_of(_text, "trajectory.task.question")),
}
"""Schema version → the layout of its files. Old versions stay here, so that their files can be read."""
