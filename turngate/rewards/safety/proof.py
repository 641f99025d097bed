"""Is a rubric safe? The bounds I1–I3, computed from the declared ranges of its components before any episode is played.

* I1, no overtaking: of two outcomes that all gates treat alike, the better one is paid more, whatever the process
  scores are. It holds if the gap between the outcomes exceeds the range of process and penalties together. Outcomes
  that can take any value have no smallest gap, so there it holds only if nothing else that is paid varies.
* I2, no gate inversion: meeting the condition of a gate never pays less than missing it. For a gate on the outcome, the
  better outcome must be paid strictly more; for a veto, an episode that keeps the rule must be paid at least the floor;
  for evidence or a condition on a component, an episode that meets it throughout must be paid at least as much as the
  same episode without it.
* I3, bounded in length: what an episode can be paid does not grow with the number of its verdicts.

An outcome can be anything that its components can earn: every sum of their ``Reward.levels``, and every value between
``low`` and ``high`` of a component that declares none.

A bound that fails comes with two imagined episodes that show it, and every gate with an example that it does not
prevent, if there is one. The imagined episodes are made as records of evidence and paid by the rubric's own gates. A
difference below ``TIE`` counts as none, because it may be rounding.

I1, I3 and I2 for outcomes and vetoes are proven from the ranges. I2 for evidence and conditions is not proven but
tested, on pairs of episodes at the ends of the ranges, in the middle and close to 0.

It is assumed that components reach their extremes independently of each other and of the evidence that gates read, and
that process and penalty components may also earn nothing. Where that is not so, the ranges may be wider than what can
happen: a bound may then fail without an example, and its sentence says that it is not proven.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Literal, TypeAlias

from turngate.rewards.gates.base import Gate
from turngate.rewards.parts import Reward, Span
from turngate.rewards.safety.counterexamples import Flip, ImaginedEpisode, flips, stage, stage_flip, stage_veto
from turngate.rewards.safety.ranges import Ranges, Scene
from turngate.rewards.safety.regions import TIE, Region, closest, regions

Name: TypeAlias = Literal["I1", "I2", "I3"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One bound: whether it holds, and in words why. If it does not, ``better`` should be paid more than ``worse`` but
    is not.

    Both episodes are None if the bound holds, if it is merely not proven, and for I3 if only losses have no bound.
    ``advice`` says what to change, where one change is obvious.
    """

    name: Name
    holds: bool
    sentence: str
    better: ImaginedEpisode | None = None
    worse: ImaginedEpisode | None = None
    advice: str = ""

    @property
    def problem(self) -> str:
        """The violation, in a line, with the two episodes that show it where there are some; "" if it holds."""
        if self.holds:
            return ""
        if self.better is None or self.worse is None:
            return f"{self.name}, {_MEANING[self.name]}: {self.sentence}"
        relation = "less than" if self.better.total < self.worse.total - TIE else "no more than"
        shown = f"{self.better.story} is paid {relation} {self.worse.story}"
        return f"{self.name}, {_MEANING[self.name]}: {shown}" + (f"; {self.advice}" if self.advice else "")


_MEANING: dict[Name, str] = {
    "I1": "a better outcome can be overtaken",
    "I2": "staying behind a gate can pay",
    "I3": "payments have no bound",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """What a gate does not prevent: ``better`` should be paid more than ``worse`` (or as much, where the two episodes
    differ only in the gate's condition), but is not."""

    gate: str
    bound: Name
    better: ImaginedEpisode
    worse: ImaginedEpisode

    def __str__(self) -> str:
        relation = "less than" if self.better.total < self.worse.total else "no more than"
        return f"{self.gate}: {self.better.story} is paid {relation} {self.worse.story} ({self.bound})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Safety:
    """Whether a rubric is safe; ``str()`` gives one line per bound and, if one fails, one per gate.

    ``process`` and ``penalty`` are the lowest and highest sums of an episode's process payments and penalties, for any
    length, outcome and evidence, without the floor of a veto.
    """

    bounds: tuple[Bound, ...]
    process: Span
    penalty: Span
    examples: tuple[Example, ...] = ()
    gates: tuple[str, ...] = ()

    @property
    def safe(self) -> bool:
        """Whether all bounds hold."""
        return all(bound.holds for bound in self.bounds)

    @property
    def problems(self) -> tuple[str, ...]:
        """A line for each bound that fails, with the episodes that show it; empty for a safe rubric."""
        return tuple(bound.problem for bound in self.bounds if not bound.holds)

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
    better: ImaginedEpisode | None = None
    worse: ImaginedEpisode | None = None
    advice: str = ""


@dataclass(frozen=True, kw_only=True)
class _Rules:
    """Rewards, gates and every region of outcomes."""

    rewards: Sequence[Reward]
    gates: Sequence[Gate]
    regions: Sequence[Region]
    _known: dict[tuple[int, float, tuple[str, ...]], list[Ranges]] = field(default_factory=dict)

    def ranges(self, region: Region, n: float, gates: Sequence[Gate] | None = None) -> list[Ranges]:
        """The ranges of payments in each scene of a region, after the gates (by default all)."""
        applied = self.gates if gates is None else gates
        key = id(region), n, tuple(gate.name for gate in applied)
        if key not in self._known:
            self._known[key] = [self._narrowed(scene, n, applied) for scene in region.scenes]
        return self._known[key]

    def _narrowed(self, scene: Scene, n: float, gates: Sequence[Gate]) -> Ranges:
        ranges = Ranges(self.rewards, scene, n)
        for gate in gates:
            gate.bound(ranges, scene)
        return ranges

    @cached_property
    def entangled(self) -> bool:
        """Whether a gate or another component reads the evidence of an outcome, and so may differ within one region."""
        made_of = {name for reward in self.rewards if reward.kind == "outcome" for name in reward.reads}
        others = [reward.reads for reward in self.rewards if reward.kind != "outcome"]
        return any(made_of.intersection(reads) for reads in [*others, *(gate.reads for gate in self.gates)])

    def least(self, region: Region, n: float) -> tuple[float, Scene]:
        """The least that is paid besides the outcome, without a veto, and in which scene."""
        lows = [ranges.process()[0] + ranges.penalty()[0] for ranges in self.ranges(region, n)]
        place = min(range(len(lows)), key=lows.__getitem__)
        return lows[place], region.scenes[place]

    def most(self, region: Region, n: float) -> tuple[float, Scene]:
        """The most that is paid besides the outcome, and in which scene."""
        highs = [ranges.process()[1] + ranges.penalty()[1] for ranges in self.ranges(region, n)]
        place = max(range(len(highs)), key=highs.__getitem__)
        return highs[place], region.scenes[place]

    def extent(self, region: Region, gates: Sequence[Gate] | None = None) -> tuple[Span, Span]:
        """The range of process payments and of penalties in a region, whatever the length."""
        every = self.ranges(region, math.inf, gates)
        return _hull([ranges.process() for ranges in every]), _hull([ranges.penalty() for ranges in every])


def assess(rewards: Sequence[Reward], gates: Sequence[Gate]) -> Safety:
    """Compute I1–I3 for all episodes that the declared ranges allow.

    The work grows with 3^(components that gates compare with thresholds) and with the number of sums that the levels
    of the outcome components have.
    """
    rules = _Rules(rewards=rewards, gates=gates, regions=regions(rewards, gates))
    findings = [found for pair in product(rules.regions, repeat=2) if (found := _outranks(rules, *pair))]
    findings += [_beats_veto(rules, gate, floor) for gate in gates if (floor := gate.replaces()) is not None]
    findings += [_survives(rules, flip) for flip in flips(rewards, gates)]
    extents = [rules.extent(region) for region in rules.regions]
    process, penalty = _hull([process for process, _ in extents]), _hull([penalty for _, penalty in extents])
    endless, padding = _bounded(rules, process, penalty)
    bounds = (
        _bound("I1", findings, "no two outcomes lie on the same side of every gate, so nothing can overtake"),
        _bound("I2", findings, "no gate depends on the outcome, on a condition or on a forbidden act"),
        endless,
    )
    return Safety(
        bounds=bounds,
        process=process,
        penalty=penalty,
        examples=_examples(gates, findings, padding),
        gates=tuple(gate.name for gate in gates),
    )


# --- claims ----------------------------------------------------------------------------------------------------------


def _outranks(rules: _Rules, upper: Region, lower: Region) -> _Finding | None:
    """A better outcome in ``upper`` is paid more than any in ``lower``, whatever the rest; None if none is better."""
    spans = closest(upper.outcomes, lower.outcomes)
    if spans is None:
        return None
    (start, _), (_, end) = spans
    gap = start - end

    def lead(n: float) -> float:
        """By how much the better outcome is behind, or ahead, in all else."""
        return rules.least(upper, n)[0] - rules.most(lower, n)[0]

    def broken(n: float) -> bool:
        return gap + lead(n) <= TIE if gap > TIE else lead(n) < -TIE

    parting = tuple(g.name for g in rules.gates if rules.extent(upper, [g]) != rules.extent(lower, [g]))
    bound: Literal["I1", "I2"] = "I1" if rules.extent(upper) == rules.extent(lower) else "I2"
    least, most = rules.least(upper, math.inf)[0], rules.most(lower, math.inf)[0]
    if gap > TIE:
        sentence = f"at worst outcome {start:g} is paid {start + least:g}, outcome {end:g} at best {end + most:g}"
    else:
        sentence = f"however close two outcomes are, the better one is paid {least:+g} besides at worst, the other "
        sentence += f"{most:+g} at best"
    margin = max(gap, 0.0) + lead(math.inf)
    if not broken(math.inf):
        return _Finding(bound=bound, gates=parting, broken=False, margin=margin, sentence=sentence)
    n = _first(broken)
    one, other = (start, end) if gap > TIE else _outcome_pair(*spans, -lead(n) / 2)
    better = stage(rules.rewards, rules.gates, rules.least(upper, n)[1].at(one), n, best=False)
    worse = stage(rules.rewards, rules.gates, rules.most(lower, n)[1].at(other), n, best=True)
    if better.total - worse.total > TIE or better.outcome - worse.outcome <= TIE:
        return _unproven(bound, parting, margin, sentence)
    through = tuple(g.name for g in rules.gates if _lets_through(rules, g, better) or _lets_through(rules, g, worse))
    advice = "" if gap > TIE else _advice(rules.rewards)
    return _refuted(bound, parting if bound == "I2" else through, better, worse, advice)


def _advice(rewards: Sequence[Reward]) -> str:
    graded = " and ".join(f"'{r.name}'" for r in rewards if r.kind == "outcome" and r.attainable is None)
    return f"if {graded} cannot take every value in its range, declare those it can take: levels=(0, 1) for a yes or no"


def _outcome_pair(upper: Span, lower: Span, distance: float) -> Span:
    """An outcome of each of two spans that overlap or touch, about this far apart, as high as may be.

    Where they touch the two lie on either side, neither on the edge.
    """
    one = min(max(lower[1] + 2 * distance / 3, upper[0]), upper[1])
    return one, min(max(one - distance, lower[0]), lower[1])


def _beats_veto(rules: _Rules, gate: Gate, floor: float) -> _Finding:
    """An episode that keeps the rule is paid at least the floor."""

    def lawful(n: float) -> tuple[float, Scene]:
        found = [(region.outcomes[0][0], *rules.least(region, n)) for region in rules.regions]
        outcome, least, scene = min(found, key=lambda one: one[0] + one[1])
        return outcome + least, scene.at(outcome)

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
    """Meeting a condition pays at least as much as just missing it, all else equal. Tried, not proven.

    Where the outcome's own evidence decides about something else, it is tried with several outcomes, and with each of
    several outcome components as small as may be: the first one in the order of the rewards is.
    """
    orders = [rules.rewards, rules.rewards[::-1]] if rules.entangled else [rules.rewards]
    pairs = [
        stage_flip(rewards, rules.gates, flip, scene.at(outcome), best=best, strength=strength)
        for rewards in orders
        for region in rules.regions
        for outcome, scene in product(region.samples if rules.entangled else region.samples[:1], region.scenes)
        if flip.possible(scene)
        for best, strength in product((False, True), (1.0, 0.5, 0.001))
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


def _refuted(
    bound: Literal["I1", "I2"],
    gates: tuple[str, ...],
    better: ImaginedEpisode,
    worse: ImaginedEpisode,
    advice: str = "",
) -> _Finding:
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
        advice=advice,
    )


def _unproven(bound: Literal["I1", "I2"], gates: tuple[str, ...], margin: float, sentence: str) -> _Finding:
    words = f"not proven: as far as ranges tell, {sentence}; but no example was found"
    return _Finding(bound=bound, gates=gates, broken=True, margin=margin, sentence=words)


def _lets_through(rules: _Rules, gate: Gate, run: ImaginedEpisode) -> bool:
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
    return Bound(
        name=name,
        holds=not worst.broken,
        sentence=worst.sentence,
        better=worst.better,
        worse=worst.worse,
        advice=worst.advice,
    )


def _bounded(
    rules: _Rules, process: Span, penalty: Span
) -> tuple[Bound, tuple[ImaginedEpisode, ImaginedEpisode] | None]:
    """I3 and, if gains are endless, a short episode and one in which repetition is worth more than the outcome."""
    every = [ranges for region in rules.regions for ranges in rules.ranges(region, math.inf)]
    names = {name for ranges in every for name in ranges.endless()}
    names |= {r.name for r in rules.rewards if r.kind == "outcome" and not all(map(math.isfinite, r.span(math.inf)))}
    if not names:
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
    pair = _padding(rules)
    runs = {"better": pair[0], "worse": pair[1]} if pair else {}
    return Bound(name="I3", holds=False, sentence=sentence, **runs, advice=advice), pair


def _padding(rules: _Rules) -> tuple[ImaginedEpisode, ImaginedEpisode] | None:
    """Two episodes of one scene in which process can be paid without end, if there is one; the last one is taken."""
    farms = [
        (region, place)
        for region in rules.regions
        for place, ranges in enumerate(rules.ranges(region, math.inf))
        if ranges.process()[1] == math.inf
    ]
    if not farms:
        return None
    region, place = farms[-1]
    scene = region.scenes[place]
    lowest, highest = rules.regions[0].outcomes[0][0], rules.regions[-1].outcomes[-1][1]
    short = stage(rules.rewards, rules.gates, scene, 1, best=True)
    n = _first(lambda n: rules.ranges(region, n)[place].process()[1] - short.process > highest - lowest)
    long = stage(rules.rewards, rules.gates, scene, n, best=True)
    return (short, long) if long.total - short.total > TIE else None


def _examples(
    gates: Sequence[Gate], findings: Sequence[_Finding], padding: tuple[ImaginedEpisode, ImaginedEpisode] | None
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
