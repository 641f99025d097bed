"""What can overtake what: the bounds I1–I3, computed from declared ranges before any episode is played.

* I1, no overtaking: between two outcomes on the same side of every gate, the better one is paid more whatever the
  process scores. Holds iff the gap between the outcomes exceeds the range of process and penalties.
* I2, no gate inversion: getting past a gate never pays less. For a gate on the outcome the better outcome must be paid
  strictly more; for a veto, an episode that keeps the rule must be paid at least the floor; for any other condition, an
  episode that meets it must be paid at least what the same episode is paid that just misses it.
* I3, bounded in length: what an episode can be paid does not grow with the number of verdicts.

A bound that fails comes with two imagined episodes, staged as records and paid by the gates themselves, and every gate
with an example of what gets past it. Leads below ``TIE`` count as none, for they may be rounding.

Assumed: components reach their extremes independently, of each other and of the facts that gates read; optional
components may also earn nothing; no payment of an outcome is closed (an episode whose outcome was withheld by
``requires`` does not count as passing). Where these do not hold, or a mean of gains and losses is cut line by line, the
ranges can be wider than what can happen: then a bound may fail without an example, and says that it is not proven.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

from turngate.errors import ConfigError
from turngate.rewards.parts import Gate, Reward, Span
from turngate.rewards.ranges import Ranges, Scene, outcome_range, scenes
from turngate.rewards.staging import Flip, Run, flips, stage, stage_flip, stage_veto

TIE = 1e-6
"""Totals that differ by less count as equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One invariant. If it is violated, ``better`` should be paid more than ``worse`` and is not.

    Both are None if it holds, if it is merely not proven, and for I3 if only losses are endless.
    """

    name: Literal["I1", "I2", "I3"]
    holds: bool
    sentence: str
    better: Run | None = None
    worse: Run | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """What gets past a gate: ``better`` should be paid more than ``worse``, or as much where only the gate differs."""

    gate: str
    bound: Literal["I1", "I2", "I3"]
    better: Run
    worse: Run

    def __str__(self) -> str:
        relation = "less than" if self.better.total < self.worse.total else "no more than"
        return f"{self.gate}: {self.better.story} is paid {relation} {self.worse.story} ({self.bound})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Safety:
    """The verdict on a rubric; ``str()`` gives one line per bound and, if one fails, one per gate."""

    bounds: tuple[Bound, ...]
    examples: tuple[Example, ...] = ()
    gates: tuple[str, ...] = ()

    @property
    def safe(self) -> bool:
        """Whether all bounds hold."""
        return all(bound.holds for bound in self.bounds)

    def __getitem__(self, name: str) -> Bound:
        return next(bound for bound in self.bounds if bound.name == name)

    def __str__(self) -> str:
        lines = [f"{b.name} {'holds' if b.holds else 'VIOLATED'}: {b.sentence}" for b in self.bounds]
        if not self.safe:
            found = {example.gate: str(example) for example in self.examples}
            lines += [f"  {found.get(gate, f'{gate}: no example gets past it')}" for gate in self.gates]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    """A claim that was tried. ``margin`` is the lead of the better side where it is smallest."""

    bound: Literal["I1", "I2"]
    gates: tuple[str, ...]
    broken: bool
    margin: float
    sentence: str
    better: Run | None = None
    worse: Run | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    """Rewards, gates and every scene at each outcome level."""

    rewards: Sequence[Reward]
    gates: Sequence[Gate]
    scenes: dict[float, list[Scene]] = field(default_factory=dict)

    def ranges(self, scene: Scene, n: float, gates: Sequence[Gate] | None = None) -> Ranges:
        """What can be paid in a scene after the gates, by default all."""
        ranges = Ranges(self.rewards, scene, n)
        for gate in self.gates if gates is None else gates:
            gate.bound(ranges, scene)
        return ranges

    def worst(self, level: float, n: float) -> tuple[float, Scene]:
        """The least that an episode with this outcome is paid without a veto, and in which scene."""
        totals = [self.ranges(scene, n) for scene in self.scenes[level]]
        lows = [level + ranges.process()[0] + ranges.penalty()[0] for ranges in totals]
        place = min(range(len(lows)), key=lows.__getitem__)
        return lows[place], self.scenes[level][place]

    def best(self, level: float, n: float) -> tuple[float, Scene]:
        """The most."""
        totals = [self.ranges(scene, n) for scene in self.scenes[level]]
        highs = [level + ranges.process()[1] + ranges.penalty()[1] for ranges in totals]
        place = max(range(len(highs)), key=highs.__getitem__)
        return highs[place], self.scenes[level][place]

    def extent(self, level: float, gates: Sequence[Gate] | None = None) -> tuple[Span, Span]:
        """The range of process payments and of penalties at a level, whatever the length."""
        every = [self.ranges(scene, math.inf, gates) for scene in self.scenes[level]]
        process, penalty = [ranges.process() for ranges in every], [ranges.penalty() for ranges in every]
        return _hull(process), _hull(penalty)


def assess(rewards: Sequence[Reward], gates: Sequence[Gate], levels: Sequence[float] | None = None) -> Safety:
    """Compute I1–I3 for all episodes that the declared ranges allow.

    ``levels`` are the weighted outcomes that can occur; by default the lowest and the highest, as if the outcome were
    all or nothing. A graded outcome has more: name them. The work grows with 3^(components that gates compare with
    thresholds). Raises ConfigError for fewer than two levels and for one that the outcome components cannot earn.
    """
    low, high = outcome_range(rewards, {})
    steps = sorted(set((low, high) if levels is None else levels))
    if len(steps) < 2 or not all(map(math.isfinite, steps)):
        raise ConfigError(f"levels {list(steps)} must hold at least two different finite outcomes")
    rules = _Rules(rewards=rewards, gates=gates, scenes={step: scenes(rewards, gates, step) for step in steps})
    outside = [step for step in steps if not rules.scenes[step]]
    if outside:
        raise ConfigError(f"levels {outside} cannot occur: the weighted outcome lies in [{low:g}, {high:g}]")
    findings = [_outranks(rules, upper, lower) for lower, upper in combinations(steps, 2)]
    findings += [_beats_veto(rules, gate, floor) for gate in gates if (floor := gate.replaces()) is not None]
    findings += [_survives(rules, flip) for flip in flips(rewards, gates)]
    endless, padding = _bounded(rules)
    bounds = (
        _bound("I1", findings, "no two outcome levels lie on the same side of every gate, so nothing can overtake"),
        _bound("I2", findings, "no gate depends on the outcome, on a condition or on a forbidden act"),
        endless,
    )
    return Safety(bounds=bounds, examples=_examples(gates, findings, padding), gates=tuple(g.name for g in gates))


# --- claims ----------------------------------------------------------------------------------------------------------


def _outranks(rules: _Rules, upper: float, lower: float) -> _Finding:
    """The better outcome is paid more, whatever the rest."""

    def margin(n: float) -> float:
        return rules.worst(upper, n)[0] - rules.best(lower, n)[0]

    parting = tuple(g.name for g in rules.gates if rules.extent(upper, [g]) != rules.extent(lower, [g]))
    bound: Literal["I1", "I2"] = "I1" if rules.extent(upper) == rules.extent(lower) else "I2"
    worst, best = rules.worst(upper, math.inf)[0], rules.best(lower, math.inf)[0]
    sentence = f"at worst outcome {upper:g} is paid {worst:g}, outcome {lower:g} at best {best:g}"
    if worst - best > TIE:
        return _Finding(bound=bound, gates=parting, broken=False, margin=worst - best, sentence=sentence)
    n = _first(lambda n: margin(n) <= TIE)
    better = stage(rules.rewards, rules.gates, rules.worst(upper, n)[1], n, best=False)
    worse = stage(rules.rewards, rules.gates, rules.best(lower, n)[1], n, best=True)
    if better.total - worse.total > TIE:
        return _unproven(bound, parting, worst - best, sentence)
    through = tuple(g.name for g in rules.gates if _lets_through(rules, g, better) or _lets_through(rules, g, worse))
    return _refuted(bound, parting if bound == "I2" else through, better, worse)


def _beats_veto(rules: _Rules, gate: Gate, floor: float) -> _Finding:
    """An episode that keeps the rule is paid at least the floor."""

    def lawful(n: float) -> tuple[float, Scene]:
        return min((rules.worst(level, n) for level in rules.scenes), key=lambda found: found[0])

    worst = lawful(math.inf)[0]
    sentence = f"at worst a lawful episode is paid {worst:g}, an episode closed by {gate.name} {floor:g}"
    if worst - floor >= -TIE:
        return _Finding(bound="I2", gates=(gate.name,), broken=False, margin=worst - floor, sentence=sentence)
    n = _first(lambda n: lawful(n)[0] - floor < -TIE)
    better = stage(rules.rewards, rules.gates, lawful(n)[1], n, best=False)
    worse = stage_veto(rules.rewards, rules.gates, lawful(n)[1], n, gate)
    if better.total - worse.total >= -TIE:
        return _unproven("I2", (gate.name,), worst - floor, sentence)
    return _refuted("I2", (gate.name,), better, worse)


def _survives(rules: _Rules, flip: Flip) -> _Finding:
    """Meeting a condition pays at least as much as just missing it, all else equal."""
    pairs = [
        stage_flip(rules.rewards, rules.gates, flip, scene, best=best)
        for level in rules.scenes.values()
        for scene in level
        for best in (False, True)
        if flip.possible(scene)
    ]
    if not pairs:
        sentence = f"'{flip.what}' cannot be missed"
        return _Finding(bound="I2", gates=(flip.gate,), broken=False, margin=math.inf, sentence=sentence)
    better, worse = min(pairs, key=lambda pair: pair[0].total - pair[1].total)
    margin = better.total - worse.total
    if margin >= -TIE:
        sentence = f"with {flip.what} an episode is paid no less than without, all else equal"
        return _Finding(bound="I2", gates=(flip.gate,), broken=False, margin=math.inf, sentence=sentence)
    sentence = f"{better.story} is paid less than {worse.story}, though {flip.gate} is there for {flip.what}"
    return _Finding(
        bound="I2", gates=(flip.gate,), broken=True, margin=margin, sentence=sentence, better=better, worse=worse
    )


def _refuted(bound: Literal["I1", "I2"], gates: tuple[str, ...], better: Run, worse: Run) -> _Finding:
    margin = better.total - worse.total
    relation = "less than" if margin < -TIE else "no more than"
    return _Finding(
        bound=bound,
        gates=gates,
        broken=True,
        margin=margin,
        sentence=f"{better} is paid {relation} {worse}",
        better=better,
        worse=worse,
    )


def _unproven(bound: Literal["I1", "I2"], gates: tuple[str, ...], margin: float, sentence: str) -> _Finding:
    words = f"not proven: as far as ranges tell, {sentence}; but no example was found"
    return _Finding(bound=bound, gates=gates, broken=True, margin=margin, sentence=words)


def _lets_through(rules: _Rules, gate: Gate, run: Run) -> bool:
    kinds = {reward.name: reward.kind for reward in rules.rewards}
    return any(gate.touches(name, kinds[name]) for name, paid in run.paid.items() if paid and name in kinds)


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


# --- bounds ----------------------------------------------------------------------------------------------------------


def _bound(name: Literal["I1", "I2"], findings: Sequence[_Finding], vacuous: str) -> Bound:
    mine = [finding for finding in findings if finding.bound == name]
    if not mine:
        return Bound(name=name, holds=True, sentence=vacuous)
    worst = min(mine, key=lambda finding: (not finding.broken, finding.better is None, finding.margin))
    return Bound(name=name, holds=not worst.broken, sentence=worst.sentence, better=worst.better, worse=worst.worse)


def _bounded(rules: _Rules) -> tuple[Bound, tuple[Run, Run] | None]:
    """I3 and, if gains are endless, a short episode and one in which repetition is worth more than the outcome."""
    every = [(level, scene, rules.ranges(scene, math.inf)) for level, found in rules.scenes.items() for scene in found]
    names = {name for _, _, ranges in every for name in ranges.endless()}
    names |= {r.name for r in rules.rewards if r.kind == "outcome" and not all(map(math.isfinite, r.span(math.inf)))}
    if not names:
        process, penalty = _hull([r.process() for *_, r in every]), _hull([r.penalty() for *_, r in every])
        sentence = f"process pays {process[0]:g} to {process[1]:g} and penalties cost at most {-penalty[0]:g}"
        return Bound(name="I3", holds=True, sentence=f"whatever the length, {sentence}"), None
    guilty = [reward for reward in rules.rewards if reward.name in names]
    listed = ", ".join(f"'{reward.name}' (up to {max(map(abs, reward.span(1))):g} each)" for reward in guilty)
    advice = "use agg='mean' or another one-verdict agg"
    if any(reward.kind != "outcome" for reward in guilty):
        advice += ", or one of once, best_so_far and budget"
    if any(reward.kind == "process" for reward in guilty):
        advice += ", or cap_process"
    sentence = f"every further verdict pays again for {listed}; {advice}"
    pair = _padding(rules, [scene for _, scene, ranges in every if max(ranges.process()[1], 0.0) == math.inf])
    runs = {"better": pair[0], "worse": pair[1]} if pair else {}
    return Bound(name="I3", holds=False, sentence=sentence, **runs), pair


def _padding(rules: _Rules, farms: Sequence[Scene]) -> tuple[Run, Run] | None:
    if not farms:
        return None
    levels = list(rules.scenes)
    scene = farms[-1]
    short = stage(rules.rewards, rules.gates, scene, 1, best=True)
    n = _first(lambda n: rules.ranges(scene, n).process()[1] - short.process > max(levels) - min(levels))
    long = stage(rules.rewards, rules.gates, scene, n, best=True)
    return (short, long) if long.total - short.total > TIE else None


def _examples(
    gates: Sequence[Gate], findings: Sequence[_Finding], padding: tuple[Run, Run] | None
) -> tuple[Example, ...]:
    """For each gate the strongest thing that gets past it."""
    found = []
    for gate in gates:
        broken = [f for f in findings if f.better is not None and f.worse is not None and gate.name in f.gates]
        if broken:
            worst = min(broken, key=lambda finding: (finding.bound == "I1", finding.margin))
            assert worst.better is not None
            assert worst.worse is not None
            found.append(Example(gate=gate.name, bound=worst.bound, better=worst.better, worse=worst.worse))
        elif padding is not None:
            found.append(Example(gate=gate.name, bound="I3", better=padding[0], worse=padding[1]))
    return tuple(found)


def _hull(spans: Sequence[Span]) -> Span:
    return min(low for low, _ in spans), max(high for _, high in spans)
