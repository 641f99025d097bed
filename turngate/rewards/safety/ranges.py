"""Ranges of the payments of an imagined episode after the gates, as intervals, for the proofs of ``safety``.

A *scene* fixes everything that gates decide by: the outcome, the range of each overall verdict that is compared with a
threshold, and which evidence is true.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from turngate.rewards.parts import Condition, Kind, Reward, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Assumptions about an episode. ``outcome``: its outcome, weights included. ``cells``: component → the interval in
    which its overall verdict lies, before its weight; None = not measured. ``facts``: those of the gates' ``states``
    that are true."""

    outcome: float
    cells: Mapping[str, Span | None]
    facts: frozenset[str]

    def is_met(self, condition: Condition) -> bool:
        """Whether the condition holds; it holds in the whole cell or nowhere in it."""
        cell = self.cells[condition.component]
        return cell is not None and condition.is_met(cell[0])

    def at(self, outcome: float) -> Scene:
        """The same with another outcome of its region."""
        return replace(self, outcome=outcome)


class SupportsTouches(Protocol):
    """The method that ``Ranges`` needs of a gate (``gate.Gate``)."""

    def touches(self, name: str, kind: Kind) -> bool:
        """Whether it may ever change a payment of component ``name``."""
        ...


class Ranges:
    """The range of payments of each process or penalty component in a scene with ``n`` verdicts per component with agg
    "sum".

    ``spans`` holds the range of the sum of a component's lines, ``parts`` that of any part of them, which is what a
    gate that closes single lines leaves. They differ where lines pay and cost and only their sum is known: in a mean
    that a condition looks at, and in sums whose terms cancel (``InformationGain``). A component that no condition reads
    may be silent, so its range holds 0. Gates narrow the ranges in their order.

    A limit on the gains and, apart from them, on the losses takes a sum of both only nearer to 0, never past it.
    """

    __slots__ = ("_cap", "_limit", "_n", "_scene", "_shares", "parts", "rewards", "spans")

    def __init__(self, rewards: Sequence[Reward], scene: Scene, n: float) -> None:
        self.rewards = {reward.name: reward for reward in rewards if reward.kind != "outcome"}
        self._n, self._scene = n, scene
        self._cap = math.inf  # on process as it stands now
        self._limit = math.inf  # on process as it stood before later gates
        self._shares = dict.fromkeys(self.rewards, 1.0)
        self.spans = dict[str, Span]()
        self.parts = dict[str, Span]()
        for name, reward in self.rewards.items():
            self.spans[name], self.parts[name] = self._first(reward)

    def _first(self, reward: Reward) -> tuple[Span, Span]:
        if reward.name not in self._scene.cells:
            return _with_zero(reward.span(self._n)), reward.part_span(self._n)
        cell = self._scene.cells[reward.name]
        if cell is None:
            return (0.0, 0.0), (0.0, 0.0)
        low, high = sorted(reward.weight * value for value in cell)
        cancel = reward.per_turn and reward.agg in ("mean", "sum") and reward.low < 0 < reward.high
        return (low, high), reward.part_span(self._n) if cancel else _with_zero((low, high))

    def of(self, gate: SupportsTouches) -> Iterator[str]:
        """The components that the gate touches."""
        return (name for name, reward in self.rewards.items() if gate.touches(name, reward.kind))

    def close(self, name: str) -> None:
        """It is paid nothing."""
        self._touch(name)
        self.spans[name] = self.parts[name] = (0.0, 0.0)

    def may_close(self, name: str) -> None:
        """Any of its lines may be closed."""
        self._touch(name)
        self.spans[name] = self.parts[name]

    def may_shrink(self, name: str) -> None:
        """All of its lines are paid the same share, any from none to all."""
        self._touch(name)
        self.spans[name] = _with_zero(self.spans[name])

    def share(self, name: str, share: float) -> None:
        """All of its lines are paid this share."""
        self._touch(name)
        for ranges in (self.spans, self.parts):
            low, high = ranges[name]
            ranges[name] = (low * share, high * share) if share else (0.0, 0.0)
        self._shares[name] *= share

    def verdicts_within(self, name: str, low: float, high: float) -> None:
        """A part of its lines is paid that together earns as much as one verdict in [low, high], or nothing."""
        self._touch(name)
        ends = [self.rewards[name].weight * value * self._shares[name] for value in (low, high)]
        self.parts[name] = self.spans[name] = _clamped(self.parts[name], min(0.0, *ends), max(0.0, *ends))

    def limit(self, name: str, limit: float) -> None:
        """Its gains are paid at most ``limit`` in all and its losses, apart from them, at most −``limit``."""
        self._touch(name)
        span = _with_zero(self.spans[name]) if self._mixed(name) else self.spans[name]
        self.spans[name] = _clamped(span, -limit, limit)
        self.parts[name] = _clamped(self.parts[name], -limit, limit)

    def cap(self, limit: float) -> None:
        """All process gains together are paid at most ``limit``, all losses at least −``limit``."""
        parts = [self.parts[name] for name in self._process()]
        if sum(high for _, high in parts) > limit or sum(low for low, _ in parts) < -limit:
            self._cap = min(self._cap, limit)

    def process(self) -> Span:
        """Lowest and highest sum of process payments."""
        names = self._process()
        lows, highs = [self.spans[name][0] for name in names], [self.spans[name][1] for name in names]
        if self._cap < math.inf and any(map(self._mixed, names)):
            total = _clamped(_with_zero((sum(lows), sum(highs))), -self._cap, self._cap)
        else:
            total = _capped(lows, self._cap), _capped(highs, self._cap)
        return _clamped(total, -self._limit, self._limit)

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

    def _process(self) -> list[str]:
        return [name for name in self.rewards if self._is(name, "process")]

    def _mixed(self, name: str) -> bool:
        """Whether gains and losses of its lines may cancel in a way that the range of their sum does not show."""
        return self.parts[name] != _with_zero(self.spans[name])

    def _touch(self, name: str) -> None:
        """A gate behind a cap acts on lines that the cap has scaled, gains and losses by unknown shares."""
        if self._cap == math.inf or not self._is(name, "process"):
            return
        for other in self._process():
            self.parts[other] = self.spans[other] = _clamped(self.parts[other], -self._cap, self._cap)
        self._limit, self._cap = min(self._limit, self._cap), math.inf


def _with_zero(span: Span) -> Span:
    return min(span[0], 0.0), max(span[1], 0.0)


def _clamped(span: Span, low: float, high: float) -> Span:
    return min(max(span[0], low), high), max(min(span[1], high), low)


def _capped(amounts: Sequence[float], limit: float) -> float:
    gains, losses = sum(a for a in amounts if a > 0), -sum(a for a in amounts if a < 0)
    return min(gains, limit) - min(losses, limit)
