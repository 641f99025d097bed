"""``SeededRandom``: random choices of generated tasks, the same on every machine and with every version of Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from turngate.types import derive_seed

T = TypeVar("T")
WORDS = "an bee cat door east fig gate hill Ice Jam kiwi level Moon noon oak pin rest Sun tree Up wow".split()


class SeededRandom:
    """Random choices by seed path. Only ``random()`` is used, whose sequence Python guarantees for all versions."""

    def __init__(self, *path: int | str) -> None:
        self.uniform = random.Random(derive_seed(*path)).random

    def pick(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[int(self.uniform() * len(items))]

    def whole(self, low: int, high: int) -> int:
        """An integer from ``low`` to ``high``, both included."""
        return low + int(self.uniform() * (high - low + 1))

    def sample(self, items: Sequence[T], size: int) -> list[T]:
        """``size`` different items in random order."""
        rest = list(items)
        for i in range(size):
            j = self.whole(i, len(rest) - 1)
            rest[i], rest[j] = rest[j], rest[i]
        return rest[:size]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """All items in random order."""
        return self.sample(items, len(items))

    def numbers(self, low: int = -9, high: int = 9, *, least: int = 1, most: int = 5) -> list[int]:
        """Between ``least`` and ``most`` integers from ``low`` to ``high``."""
        return [self.whole(low, high) for _ in range(self.whole(least, most))]

    def words(self, least: int = 1, most: int = 4) -> list[str]:
        """Between ``least`` and ``most`` short words; a word may come twice, some begin with a capital."""
        return [self.pick(WORDS) for _ in range(self.whole(least, most))]

    def phrase(self, least: int = 1, most: int = 3) -> str:
        """Words with single spaces between them."""
        return " ".join(self.words(least, most))

    def table(self, low: int = 0, high: int = 9, *, least: int = 1, most: int = 4) -> dict[str, int]:
        """Letters "a" to "e" with different numbers."""
        size = self.whole(least, most)
        return dict(zip(self.sample("abcde", size), self.sample(range(low, high + 1), size), strict=True))
