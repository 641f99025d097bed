"""A cache of bounded size for values that are expensive to make and never change, such as database images."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Cache(Generic[Key, Value]):
    """Keeps values until their weights exceed ``room``, then forgets the least recently used. Safe across threads."""

    def __init__(self, room: int) -> None:
        self.room, self.weight = room, 0
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._making: dict[Key, tuple[Lock, int]] = {}
        self._lock = Lock()

    @contextmanager
    def reserve(self, key: Key) -> Iterator[None]:
        """Let one thread at a time work on ``key``, so that others wait for the value instead of making it too."""
        with self._lock:
            turn, users = self._making.get(key, (Lock(), 0))
            self._making[key] = turn, users + 1
        try:
            with turn:
                yield
        finally:
            with self._lock:
                turn, users = self._making.pop(key)
                if users > 1:
                    self._making[key] = turn, users - 1

    def get(self, key: Key) -> Value | None:
        """The value under ``key``, or None."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def put(self, key: Key, value: Value, weight: int = 1) -> None:
        """Keep ``value``; one that weighs more than the whole room is not kept."""
        if weight > self.room:
            return
        with self._lock:
            if key in self._kept:
                self.weight -= self._kept.pop(key)[1]
            self._kept[key] = (value, weight)
            self.weight += weight
            while self.weight > self.room:
                self.weight -= self._kept.popitem(last=False)[1][1]
