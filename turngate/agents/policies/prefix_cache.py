"""Cache rows of ended episodes, so that an episode that begins like one of them is not fed the same tokens again."""

from __future__ import annotations

import numpy as np

from turngate.agents.policies.kv_cache import SlotCache
from turngate.types import IntArray


class PrefixMemory:
    """Rows of the episodes that ended last, in ``own``, a cache of ``slots`` rows: the oldest is replaced first."""

    def __init__(self, own: SlotCache, slots: int) -> None:
        self._cache, self._slots = own, slots
        self._fed: list[IntArray] = []
        self._n_put = 0

    def put(self, cache: SlotCache, row: int, fed: IntArray) -> None:
        """Keep a row of ``cache`` in which the ids ``fed`` are stored."""
        place = self._n_put % self._slots
        self._cache.reserve(len(fed))
        self._cache.copy_from(cache, row, place, len(fed))
        self._fed[place : place + 1] = [fed]
        self._n_put += 1

    def recall(self, cache: SlotCache, row: int, ids: IntArray) -> IntArray:
        """Copy the longest beginning of ``ids`` that is kept into a row of ``cache``; that beginning, maybe empty.

        The last id is never part of it, because a pass needs something to feed.
        """
        lengths = [_common(fed, ids[:-1]) for fed in self._fed]
        best = int(np.argmax(lengths)) if lengths else 0
        if not lengths or not lengths[best]:
            return ids[:0]
        cache.copy_from(self._cache, best, row, lengths[best])
        return ids[: lengths[best]]


def _common(one: IntArray, other: IntArray) -> int:
    """How many ids both begin with."""
    n = min(len(one), len(other))
    differs = np.flatnonzero(one[:n] != other[:n])
    return int(differs[0]) if len(differs) else n
