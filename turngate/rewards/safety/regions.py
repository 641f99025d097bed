"""The outcomes that an episode can have, divided at the thresholds of the gates, for the proofs of ``safety``.

A *region* holds outcomes that all gates treat alike, so payments besides the outcome have one range there. Its outcomes
are intervals (spans): a level is a span of one point, an outcome that can take any value has a wider one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, pairwise, product

from turngate.rewards.gates.base import Gate
from turngate.rewards.parts import SLACK, Reward, Span, reaches
from turngate.rewards.safety.ranges import Scene

GAP = 2 * SLACK
"""How far below a threshold (or, for ">", beyond it) a value is sure to stand on that side."""
TIE = 1e-6
"""Outcomes and totals that differ by less count as equal: the difference may be rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Outcomes that all gates treat alike, as disjoint spans, lowest first, and every scene that they allow.

    The scenes hold one of the outcomes; ``Scene.at`` replaces it by another.
    """

    outcomes: tuple[Span, ...]
    scenes: tuple[Scene, ...]

    @property
    def samples(self) -> tuple[float, ...]:
        """The lowest, the highest and one in between, each once: a component may read the evidence of the outcome."""
        lowest, highest = self.outcomes[0][0], self.outcomes[-1][1]
        return tuple(dict.fromkeys((lowest, self.scenes[0].outcome, highest)))


def regions(rewards: Sequence[Reward], gates: Sequence[Gate]) -> list[Region]:
    """All outcomes that the components can earn, in regions; lowest first where they do not overlap.

    The number of scenes grows with 3^(components that gates compare with thresholds).
    """
    compared = {condition.component for gate in gates for condition in gate.conditions}
    cuts = sorted({cut for gate in gates for cut in gate.thresholds})
    states = sorted({state for gate in gates for state in gate.states})
    facts = [frozenset(chosen) for size in range(len(states) + 1) for chosen in combinations(states, size)]
    outcomes = {reward.name: _options(reward, gates, compared) for reward in rewards if reward.kind == "outcome"}
    others = {reward.name: cells(reward, gates) for reward in rewards if reward.name in compared - set(outcomes)}
    found = []
    for chosen in _choices(outcomes):
        sums = outcome_spans([reward for reward in rewards if reward.name in chosen], chosen)
        for piece in _cut(sums, cuts):
            low, high = max(piece, key=lambda span: span[1] - span[0])
            scene = Scene(outcome=(low + high) / 2, cells=chosen, facts=frozenset())
            variants = product(_choices(others), facts)
            scenes = tuple(replace(scene, cells=chosen | more, facts=true) for more, true in variants)
            found.append(Region(outcomes=piece, scenes=scenes))
    return sorted(found, key=lambda region: (region.outcomes[0], region.outcomes[-1]))


def cells(reward: Reward, gates: Sequence[Gate]) -> list[Span | None]:
    """The range of a component cut at the thresholds that gates compare it with, lowest first, then not measured."""
    cuts = set()
    for condition in (condition for gate in gates for condition in gate.conditions):
        if condition.component == reward.name:
            at = condition.at_least
            cuts.add((at - GAP, at) if condition.op == ">=" else (at, at + GAP))
    start, found = reward.low, list[Span | None]()
    for below, above in sorted(cuts):
        if start <= below and above <= reward.high:
            found.append((start, below))
            start = above
    found.append((start, reward.high))
    return found if reward.kind == "outcome" else [*found, None]


def outcome_spans(rewards: Sequence[Reward], chosen: Mapping[str, Span | None]) -> list[Span]:
    """Every weighted sum of outcome components with their verdicts in the chosen cells (by default anywhere)."""
    sums: list[Span] = [(0.0, 0.0)]
    for reward in rewards:
        own = weighted_values(reward, chosen.get(reward.name))
        sums = _merged([(low + other[0], high + other[1]) for low, high in sums for other in own])
    return sums


def weighted_values(reward: Reward, cell: Span | None) -> list[Span]:
    """Possible earnings of an outcome with its verdict in ``cell`` (None: anywhere): a point per level, or one span."""
    if reward.attainable is None:
        return [weighted(reward, cell)]
    low, high = cell or (reward.low, reward.high)
    return sorted(
        (reward.weight * level, reward.weight * level)
        for level in reward.attainable
        if low - SLACK <= level <= high + SLACK
    )


def weighted(reward: Reward, cell: Span | None) -> Span:
    """The range of earnings of verdicts in ``cell`` (None: anywhere in the component's range)."""
    low, high = sorted(reward.weight * value for value in (cell or (reward.low, reward.high)))
    return low, high


def closest(upper: Sequence[Span], lower: Sequence[Span]) -> tuple[Span, Span] | None:
    """The spans that hold the closest two outcomes, the first one better by more than a tie; None if none is better.

    Of several pairs as close the highest.
    """
    starts = [low for low, _ in lower]
    pairs = []
    for span in reversed(upper):
        place = bisect_left(starts, span[1] - TIE)
        if place:
            pairs.append((span, lower[place - 1]))
    return min(pairs, key=lambda pair: max(pair[0][0] - pair[1][1], 0.0), default=None)


def _options(reward: Reward, gates: Sequence[Gate], compared: set[str]) -> list[Span | None]:
    found = cells(reward, gates) if reward.name in compared else [(reward.low, reward.high)]
    return [cell for cell in found if weighted_values(reward, cell)]


def _choices(options: Mapping[str, Sequence[Span | None]]) -> Iterator[dict[str, Span | None]]:
    for choice in product(*options.values()):
        yield dict(zip(options, choice, strict=True))


def _merged(spans: Sequence[Span]) -> list[Span]:
    """Disjoint spans that cover the same; points that differ by rounding become one."""
    found: list[Span] = []
    for low, high in sorted(spans):
        if found and low <= found[-1][1] + SLACK:
            wide = found[-1][1] - found[-1][0] > SLACK or high - low > SLACK
            found[-1] = (found[-1][0], max(found[-1][1], high)) if wide else found[-1]
        else:
            found.append((low, high))
    return found


def _cut(spans: Sequence[Span], cuts: Sequence[float]) -> Iterator[tuple[Span, ...]]:
    """The spans below the first threshold, between the first two, …, above the last; empty ones are left out."""
    for at_least, below in pairwise(chain([None], cuts, [None])):
        piece = []
        for low, high in spans:
            start = low if at_least is None or reaches(low, at_least) else at_least
            end = high if below is None or not reaches(high, below) else below - GAP
            if start <= end:
                piece.append((start, end))
        if piece:
            yield tuple(piece)
