"""A bounded memory for what is expensive to make and never changes: database images, gold rows, reports of tests."""

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Cache(Generic[Key, Value]):
    """Keeps values until their weights exceed ``room``, then forgets the least recently used. Safe across threads."""

    def __init__(self, room: int) -> None:
        self.room, self.weight = room, 0
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._lock = Lock()

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
