"""What an imagined episode can still be paid: interval arithmetic over gates, for ``safety`` to reason with.

A scene fixes what gates decide by: the outcome, in which range the overall verdicts lie that they compare with
thresholds, and which facts are true. Within a scene every payment is monotone in what was earned, so the extremes of
the total lie at the ends of the ranges.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product

from turngate.rewards.parts import SLACK, Condition, Gate, Kind, Reward, Span

GAP = 2 * SLACK
"""How far below a threshold (or, for ">", beyond it) a value is sure to stand on that side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What is assumed of an episode. ``cells``: where overall verdicts lie, before weights; None = not measured.

    ``outcome`` is the weighted outcome; ``facts`` are the ``states`` of the gates that are true.
    """

    outcome: float
    cells: Mapping[str, Span | None]
    facts: frozenset[str]

    def met(self, condition: Condition) -> bool:
        """Whether the condition holds; it holds in the whole cell or nowhere in it."""
        cell = self.cells[condition.component]
        return cell is not None and condition.met(cell[0])


def scenes(rewards: Sequence[Reward], gates: Sequence[Gate], outcome: float) -> list[Scene]:
    """Every scene in which the weighted outcome can be ``outcome``."""
    known = {reward.name: reward for reward in rewards}
    compared = {condition.component for gate in gates for condition in gate.conditions}
    names = [name for name in known if name in compared]
    options = [cells(known[name], gates) for name in names]
    states = sorted({state for gate in gates for state in gate.states})
    subsets = list(chain.from_iterable(combinations(states, size) for size in range(len(states) + 1)))
    found = []
    for choice in product(*options):
        chosen = dict(zip(names, choice, strict=True))
        low, high = outcome_range(rewards, chosen)
        if low - SLACK <= outcome <= high + SLACK:
            found += [Scene(outcome=outcome, cells=chosen, facts=frozenset(subset)) for subset in subsets]
    return found


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


def outcome_range(rewards: Sequence[Reward], chosen: Mapping[str, Span | None]) -> Span:
    """Lowest and highest weighted outcome with the verdicts in the chosen cells."""
    spans = [weighted(reward, chosen.get(reward.name)) for reward in rewards if reward.kind == "outcome"]
    return sum(low for low, _ in spans), sum(high for _, high in spans)


def weighted(reward: Reward, cell: Span | None) -> Span:
    """What verdicts in ``cell`` (None: anywhere in the component's range) earn."""
    low, high = sorted(reward.weight * value for value in (cell or (reward.low, reward.high)))
    return low, high


class Ranges:
    """What each process or penalty component can be paid in a scene with ``n`` verdicts per component with agg "sum".

    A component that no condition reads may be silent, so its range holds 0. Gates narrow the ranges in their order.
    """

    __slots__ = ("_cap", "_closed", "_n", "_scene", "_shares", "rewards", "spans")

    def __init__(self, rewards: Sequence[Reward], scene: Scene, n: float) -> None:
        self.rewards = {reward.name: reward for reward in rewards if reward.kind != "outcome"}
        self._n, self._scene, self._cap = n, scene, math.inf
        self._shares = dict.fromkeys(self.rewards, 1.0)
        self._closed: set[str] = set()
        self.spans = {name: self._first(reward) for name, reward in self.rewards.items()}

    def _first(self, reward: Reward) -> Span:
        if reward.name not in self._scene.cells:
            return _with_zero(reward.span(self._n))
        cell = self._scene.cells[reward.name]
        return (0.0, 0.0) if cell is None else weighted(reward, cell)

    def of(self, gate: Gate) -> Iterator[str]:
        """The components that the gate touches."""
        return (name for name, reward in self.rewards.items() if gate.touches(name, reward.kind))

    def close(self, name: str) -> None:
        """It is paid nothing."""
        self.spans[name] = (0.0, 0.0)
        self._closed.add(name)

    def may_close(self, name: str) -> None:
        """Any of its lines may be closed."""
        self._blur(name)
        self.spans[name] = _with_zero(self.spans[name])

    def may_shrink(self, name: str) -> None:
        """All of its lines are paid the same share, any from none to all."""
        self.spans[name] = _with_zero(self.spans[name])

    def share(self, name: str, share: float) -> None:
        """All of its lines are paid this share."""
        low, high = self.spans[name]
        self.spans[name] = (low * share if low else 0.0, high * share if high else 0.0)
        self._shares[name] *= share
        if self.rewards[name].kind == "process" and all(
            span == (0.0, 0.0) for other, span in self.spans.items() if other != name and self._is(other, "process")
        ):
            self._cap *= share if self._cap < math.inf else 1.0

    def verdicts_within(self, name: str, low: float, high: float) -> None:
        """Together its lines are paid what one verdict in [low, high] earns, or nothing."""
        ends = [self.rewards[name].weight * value * self._shares[name] for value in (low, high)]
        self.paid_within(name, min(0.0, *ends), max(0.0, *ends))

    def paid_within(self, name: str, low: float, high: float) -> None:
        """Its lines together are paid at least ``low`` and at most ``high``; gains and losses are cut apart."""
        full = _with_zero(self.rewards[name].span(self._n))
        if full[0] < low or full[1] > high:
            self._blur(name)
        before = self.spans[name]
        self.spans[name] = (min(max(before[0], low), high), max(min(before[1], high), low))

    def cap(self, limit: float) -> None:
        """All process gains together are paid at most ``limit``, all losses at least −``limit``."""
        process = [name for name in self.rewards if self._is(name, "process")]
        full = [_with_zero(self.rewards[name].span(self._n)) for name in process]
        if sum(high for _, high in full) > limit or sum(low for low, _ in full) < -limit:
            for name in process:
                self._blur(name)
        self._cap = min(self._cap, limit)

    def process(self) -> Span:
        """Lowest and highest sum of process payments."""
        spans = [span for name, span in self.spans.items() if self._is(name, "process")]
        return _capped([low for low, _ in spans], self._cap), _capped([high for _, high in spans], self._cap)

    def penalty(self) -> Span:
        """Lowest and highest sum of penalties."""
        spans = [span for name, span in self.spans.items() if self._is(name, "penalty")]
        return sum(low for low, _ in spans), sum(high for _, high in spans)

    def endless(self) -> list[str]:
        """Components that can be paid without bound as verdicts are added."""
        return [
            name
            for name, span in self.spans.items()
            if not all(map(math.isfinite, span)) and (self._cap == math.inf or self._is(name, "penalty"))
        ]

    def _is(self, name: str, kind: Kind) -> bool:
        return self.rewards[name].kind == kind

    def _blur(self, name: str) -> None:
        """Where a mean of gains and losses is known only as a whole, cutting single lines can leave any part of it."""
        reward = self.rewards[name]
        if name in self._closed or self._scene.cells.get(name) is None:
            return
        if reward.per_turn and reward.agg == "mean" and reward.low < 0 < reward.high:
            low, high = _with_zero(reward.span(self._n))
            self.spans[name] = (low * self._shares[name], high * self._shares[name])


def _with_zero(span: Span) -> Span:
    return min(span[0], 0.0), max(span[1], 0.0)


def _capped(amounts: Sequence[float], limit: float) -> float:
    gains, losses = sum(a for a in amounts if a > 0), -sum(a for a in amounts if a < 0)
    return min(gains, limit) - min(losses, limit)
