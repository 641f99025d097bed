"""What can overtake what: the bounds I1–I3, computed from declared ranges before any episode is played.

* I1, no overtaking: between two outcomes on the same side of every gate, the better one is paid more whatever the
  process scores. Holds iff the gap between the outcomes exceeds the range of process and penalties.
* I2, no gate inversion: getting past a gate never pays less. For a gate on the outcome the better outcome must be paid
  strictly more; for a veto, an episode that keeps the rule must be paid at least the floor.
* I3, bounded in length: what an episode can be paid does not grow with the number of verdicts.

Assumed: components reach their extremes independently; optional components may also earn nothing; no payment of an
outcome is closed (an episode whose outcome was withheld by ``requires`` does not count as passing).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from turngate.errors import ConfigError
from turngate.rewards.parts import Gate, Kind, Reward, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """An imagined episode at an extreme of the declared ranges. ``n_verdicts``: per component with agg "sum"."""

    outcome: float
    process: float
    penalty: float
    total: float
    n_verdicts: int
    vetoed_by: str = ""

    def __str__(self) -> str:
        if self.vetoed_by:
            return f"an episode closed by {self.vetoed_by} ({self.total:g})"
        parts = f"outcome {self.outcome:g}, process {self.process:+g}, penalties {self.penalty:+g}"
        return f"an episode with {parts} ({self.total:g} in all, {self.n_verdicts} verdicts)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One invariant. If it is violated, ``better`` should be paid more than ``worse`` and is not (I3: no pair)."""

    name: Literal["I1", "I2", "I3"]
    holds: bool
    sentence: str
    better: Run | None = None
    worse: Run | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Safety:
    """The verdict on a rubric; ``str()`` gives one line per bound."""

    bounds: tuple[Bound, ...]

    @property
    def safe(self) -> bool:
        """Whether all bounds hold."""
        return all(bound.holds for bound in self.bounds)

    def __getitem__(self, name: str) -> Bound:
        return next(bound for bound in self.bounds if bound.name == name)

    def __str__(self) -> str:
        return "\n".join(f"{b.name} {'holds' if b.holds else 'VIOLATED'}: {b.sentence}" for b in self.bounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claim:
    """``better(n)`` must be paid more than ``worse(n)`` (or as much, if ``tie`` is allowed) for every n."""

    better: Callable[[float], Run]
    worse: Callable[[float], Run]
    tie: bool = False

    def margin(self, n: float) -> float:
        """How much more the better one is paid."""
        return self.better(n).total - self.worse(n).total

    def broken(self, n: float) -> bool:
        """Whether it fails at ``n`` verdicts."""
        return self.margin(n) < 0 if self.tie else self.margin(n) <= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranges:
    """What episodes of ``n`` verdicts can be paid at an outcome level, after gates."""

    rewards: Sequence[Reward]
    gates: Sequence[Gate]

    def earned(self, kind: Kind, n: float) -> Span:
        """Of one kind before gates; 0 is included because optional components may be silent."""
        spans = [reward.span(n) for reward in self.rewards if reward.kind == kind]
        return sum(min(low, 0.0) for low, _ in spans), sum(max(high, 0.0) for _, high in spans)

    def process(self, level: float, n: float) -> Span:
        """Of process payments after gates."""
        span = self.earned("process", n)
        for gate in self.gates:
            span = gate.bound(span, level)
        return span

    def worst(self, level: float, n: float) -> Run:
        """The least that an episode with outcome ``level`` is paid without a veto."""
        return self._run(level, self.process(level, n)[0], self.earned("penalty", n)[0], n)

    def best(self, level: float, n: float) -> Run:
        """The most."""
        return self._run(level, self.process(level, n)[1], 0.0, n)

    @staticmethod
    def _run(level: float, process: float, penalty: float, n: float) -> Run:
        total = level + process + penalty
        count = int(n) if math.isfinite(n) else -1
        return Run(outcome=level, process=process, penalty=penalty, total=total, n_verdicts=count)


def assess(rewards: Sequence[Reward], gates: Sequence[Gate], levels: Sequence[float] | None = None) -> Safety:
    """Compute I1–I3 for all episodes that the declared ranges allow.

    ``levels`` are the weighted outcomes that can occur; by default the lowest and the highest, as if the outcome were
    all or nothing. A graded outcome has more: name them. Raises ConfigError for fewer than two levels.
    """
    ranges = _Ranges(rewards=rewards, gates=gates)
    spans = [reward.span(1.0) for reward in rewards if reward.kind == "outcome"]
    default = (sum(low for low, _ in spans), sum(high for _, high in spans))
    steps = sorted(set(default if levels is None else levels))
    if len(steps) < 2 or not all(map(math.isfinite, steps)):
        raise ConfigError(f"levels {list(steps)} must hold at least two different finite outcomes")
    same: list[_Claim] = []
    across: list[_Claim] = []
    for low, high in combinations(steps, 2):
        alike = ranges.process(low, math.inf) == ranges.process(high, math.inf)
        (same if alike else across).append(_outranks(ranges, high, low))
    across += [_beats_veto(ranges, gate, floor, steps) for gate in gates if (floor := gate.replaces()) is not None]
    return Safety(
        bounds=(
            _bound("I1", same, "no two outcome levels lie on the same side of every gate, so nothing can overtake"),
            _bound("I2", across, "no gate depends on the outcome and none forbids an act"),
            _bounded(ranges, steps),
        )
    )


def _outranks(ranges: _Ranges, high: float, low: float) -> _Claim:
    return _Claim(better=lambda n: ranges.worst(high, n), worse=lambda n: ranges.best(low, n))


def _beats_veto(ranges: _Ranges, gate: Gate, floor: float, steps: Sequence[float]) -> _Claim:
    def lawful(n: float) -> Run:
        return min((ranges.worst(step, n) for step in steps), key=lambda run: run.total)

    def vetoed(n: float) -> Run:
        count = lawful(n).n_verdicts
        return Run(outcome=steps[0], process=0.0, penalty=floor, total=floor, n_verdicts=count, vetoed_by=gate.name)

    return _Claim(better=lawful, worse=vetoed, tie=True)


def _bound(name: Literal["I1", "I2"], claims: Sequence[_Claim], vacuous: str) -> Bound:
    if not claims:
        return Bound(name=name, holds=True, sentence=vacuous)
    tightest = min(claims, key=lambda claim: (not claim.broken(math.inf), claim.margin(math.inf)))
    if not tightest.broken(math.inf):
        better, worse = tightest.better(math.inf), tightest.worse(math.inf)
        sentence = f"at worst {_brief(better)} is paid {better.total:g}, {_brief(worse)} {worse.total:g}"
        return Bound(name=name, holds=True, sentence=sentence)
    n = _first(tightest.broken)
    better, worse = tightest.better(n), tightest.worse(n)
    relation = "less than" if better.total < worse.total else "no more than"
    return Bound(name=name, holds=False, sentence=f"{better} is paid {relation} {worse}", better=better, worse=worse)


def _brief(run: Run) -> str:
    return f"an episode closed by {run.vetoed_by}" if run.vetoed_by else f"outcome {run.outcome:g}"


def _first(broken: Callable[[float], bool]) -> int:
    """The smallest number of verdicts at which a claim fails; ranges only grow with it, so bisection finds it."""
    high = 1
    while not broken(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if broken(middle) else (middle, high)
    return high


def _bounded(ranges: _Ranges, steps: Sequence[float]) -> Bound:
    endless: list[Kind] = [kind for kind in ("outcome", "penalty") if not _finite(ranges.earned(kind, math.inf))]
    spans = [ranges.process(step, math.inf) for step in steps]
    if not all(map(_finite, spans)):
        endless.append("process")
    if endless:
        guilty = [reward for reward in ranges.rewards if reward.kind in endless and not _finite(reward.span(math.inf))]
        names = ", ".join(f"'{reward.name}' (up to {max(map(abs, reward.span(1))):g} each)" for reward in guilty)
        sentence = f"every further verdict pays again for {names}; use agg='mean' or another one-verdict agg"
        return Bound(name="I3", holds=False, sentence=sentence + (", or cap_process" if "process" in endless else ""))
    low, high = min(low for low, _ in spans), max(high for _, high in spans)
    penalty = ranges.earned("penalty", math.inf)[0]
    sentence = f"whatever the length, process pays {low:g} to {high:g} and penalties cost at most {-penalty:g}"
    return Bound(name="I3", holds=True, sentence=sentence)


def _finite(span: Span) -> bool:
    return all(map(math.isfinite, span))
