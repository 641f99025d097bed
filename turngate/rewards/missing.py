"""Verdicts that were due but could not be obtained, and the siblings' mean that replaces them in comparisons.

An episode is paid by what was measured; nothing here changes a ledger. But siblings are compared by their payments, and
there a missing verdict would count as 0. So they are compared as if it were the siblings' mean.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from turngate.rewards.parts import Verdict

Place: TypeAlias = tuple[int | None, int]
"""A turn (None: the whole episode), and which of the component's readings about that turn it is, from 0."""


class SiblingMeans:
    """The mean reading of the members of a cohort for one component, at each place and over all places.

    ``readings_B``: the readings of each member (``Reward.readings``).
    """

    def __init__(self, readings_B: Sequence[Sequence[Verdict]]) -> None:
        values: dict[Place, list[float]] = {}
        for readings in readings_B:
            if _nothing_was_had(readings):
                continue
            for place, value in _placed(readings):
                values.setdefault(place, []).extend([] if value is None else [float(value)])
        self._at = {place: _mean(found) for place, found in values.items()}
        self._overall = _mean([value for found in values.values() for value in found])

    def fill(self, readings: Sequence[Verdict], *, per_turn: bool, n_turns: int) -> tuple[list[Verdict], bool]:
        """The readings of a member of ``n_turns`` turns with means in the place of missing ones; whether any was.

        The mean is that of the same place, or over all places where no member read anything there. A member that has
        none of its readings gets one at every place at which a sibling was due one.
        """
        if self._overall is None:
            return list(readings), False
        if _nothing_was_had(readings):
            places = [place for place in self._at if place[0] is None or place[0] < n_turns]
            return [(place[0], self._mean_at(place)) for place in places], bool(places)
        found: list[Verdict] = []
        filled = False
        for place, value in _placed(readings):
            turn = place[0]
            if value is not None:
                found.append((turn, value))
            elif (turn is None and not per_turn) or (turn is not None and turn < n_turns):
                found.append((turn, self._mean_at(place)))
                filled = True
        return found, filled

    def _mean_at(self, place: Place) -> float | None:
        mean = self._at.get(place)
        return self._overall if mean is None else mean


def _nothing_was_had(readings: Sequence[Verdict]) -> bool:
    """Whether it is known only that some reading was due, not where."""
    return (None, None) in readings and not any(value is not None for _, value in readings)


def _placed(readings: Sequence[Verdict]) -> Iterator[tuple[Place, float | None]]:
    seen: Counter[int | None] = Counter()
    for turn, value in readings:
        yield (turn, seen[turn]), value
        seen[turn] += 1


def _mean(values: Sequence[float]) -> float | None:
    """The mean, exact for equal values; None without any."""
    return min(max(math.fsum(values) / len(values), min(values)), max(values)) if values else None
