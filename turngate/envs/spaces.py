"""``Texts``: the gymnasium space of observations and actions, and what gymnasium's vector environments need for it.

``gymnasium.make_vec`` works in its modes "sync" and "async"; a batch is a tuple with one entry per environment.
"""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Sequence
from multiprocessing.context import BaseContext
from typing import Any, TypeAlias

import gymnasium
from gymnasium.vector.utils import create_shared_memory, read_from_shared_memory, write_to_shared_memory

SLOT_BYTES = 1 << 20
"""Largest pickled observation, in bytes, that ``gymnasium.vector.AsyncVectorEnv`` can pass through shared memory."""
_LENGTH_BYTES = 8

_Memory: TypeAlias = Any  # a ctypes array, whose type has no public name


class Texts(gymnasium.Space[Any]):
    """The space of texts of any length and alphabet (gymnasium's ``Text`` rejects spaces and newlines).

    ``kind``: the type that holds a text, besides ``str``. ``examples``: what ``sample`` picks from. Two spaces of the
    same kind and examples are equal.
    """

    def __init__(self, kind: type, examples: Sequence[object], seed: int | None = None) -> None:
        super().__init__(None, None, seed)
        self._kind, self._examples = kind, tuple(examples)

    def contains(self, x: object) -> bool:
        """Whether ``x`` is a text of this kind."""
        return isinstance(x, (self._kind, str))

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """One of the examples."""
        return self._examples[int(self.np_random.integers(len(self._examples)))]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Texts) and (self._kind, self._examples) == (other._kind, other._examples)

    def __hash__(self) -> int:
        return hash((Texts, self._kind, len(self._examples)))

    def __repr__(self) -> str:
        return f"Texts({self._kind.__name__})"


# --- how ``AsyncVectorEnv`` hands over observations: pickled, in a slot of fixed size per environment ----------------


class _Slots(Sequence[object]):
    """A view of the present content of all slots. Gymnasium asks for it once and copies it after every step."""

    def __init__(self, memory: _Memory, n: int) -> None:
        self._view, self._n = memoryview(memory).cast("B"), n

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self)[index]
        start = range(self._n)[index] * SLOT_BYTES
        first = start + _LENGTH_BYTES
        return pickle.loads(self._view[first : first + int.from_bytes(self._view[start:first], "big")])

    def __deepcopy__(self, memo: object) -> tuple[object, ...]:
        return tuple(self)


@create_shared_memory.register(Texts)
def _create(space: Texts, n: int = 1, ctx: BaseContext | None = None) -> _Memory:
    return (ctx or multiprocessing.get_context()).RawArray("c", n * SLOT_BYTES)


@write_to_shared_memory.register(Texts)
def _write(space: Texts, index: int, value: object, shared_memory: _Memory) -> None:
    data = pickle.dumps(value)
    room = SLOT_BYTES - _LENGTH_BYTES
    if len(data) > room:
        raise ValueError(
            f"an observation takes {len(data):,} bytes, and shared memory has room for {room:,}; "
            "pass vector_kwargs={'shared_memory': False}"
        )
    start = index * SLOT_BYTES
    whole = len(data).to_bytes(_LENGTH_BYTES, "big") + data
    memoryview(shared_memory).cast("B")[start : start + len(whole)] = whole


@read_from_shared_memory.register(Texts)
def _read(space: Texts, shared_memory: _Memory, n: int = 1) -> Sequence[object]:
    return _Slots(shared_memory, n)
