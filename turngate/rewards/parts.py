"""The parts of a rubric: rewards, which say what was earned, and gates (``gates/base.py``), which say how much of it is
paid.

Both are parts (``turngate.parts``), so a rubric can be written to JSON and read back. A new reward or gate is a
subclass with a ``type`` of its own; defining the class makes it loadable. Scoring works on ``Draft`` and ``Line``,
plain mutable objects that exist for one call, because environments score thousands of episodes a second.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from typing import Any, ClassVar, Literal, NoReturn, TypeAlias

import numpy as np

from turngate.errors import ConfigError, PartError
from turngate.part_calls import Unusable, check_result
from turngate.parts import Part
from turngate.types import SUCCESS_SLACK, Evidence, Record, RewardEvent

Kind: TypeAlias = Literal["outcome", "process", "penalty"]
Agg: TypeAlias = Literal["mean", "sum", "last", "min", "max"]
Span: TypeAlias = tuple[float, float]
Verdict: TypeAlias = tuple[int | None, Any]
Op: TypeAlias = Literal[">=", ">"]

SLACK = 1e-9
"""How far a value may be from a threshold and still count as equal to it, because averages are rounded."""


def reaches(value: float, at_least: float, op: Op = ">=") -> bool:
    """Whether ``value`` is at least the threshold (with ``op`` ">": above it), up to rounding."""
    return value > at_least + SLACK if op == ">" else value >= at_least - SLACK


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition: a component's overall verdict, before its weight, reaches a threshold. Not measured = not
    reached."""

    component: str
    at_least: float
    op: Op = ">="

    def is_met(self, score: float | None) -> bool:
        """Whether ``score`` reaches it."""
        return score is not None and reaches(score, self.at_least, self.op)

    def __str__(self) -> str:
        return f"{self.component} {self.op} {self.at_least:g}"


class Facts:
    """The evidence of one episode by name, restricted to the names that the rubric reads.

    ``readers``: each of those names → the components and gates that read it. ``trajectory``: the episode's id, if it
    has one. Both are for error messages. Raises ValueError for a value that is NaN or infinite, or holds such a number
    at any depth: what could not be measured is recorded as None, so every reader can rely on finite numbers.
    """

    __slots__ = ("by_name", "lost", "n_turns", "task_id", "trajectory")

    def __init__(self, record: Record, readers: Mapping[str, Sequence[str]], trajectory: str = "") -> None:
        self.task_id, self.n_turns, self.trajectory = record.task_id, record.n_turns, trajectory
        self.by_name: dict[str, list[Evidence]] = {name: [] for name in readers}
        self.lost: set[str] = set()
        """Names under which something could not be measured: facts of value None."""
        by_name, lost = self.by_name, self.lost
        for fact in record.evidence:
            name, value = fact.name, fact.value
            if name in by_name:
                if value is None:
                    lost.add(name)
                elif value is not True and value is not False and (odd := _not_finite(value)):
                    who = " and ".join(f"'{reader}'" for reader in readers[name])
                    raise ValueError(
                        f"evidence '{name}' of {self.owner}, {place(fact.turn)}, which {who} reads, {odd}; "
                        "record None for what could not be measured"
                    )
                by_name[name].append(fact)

    @property
    def owner(self) -> str:
        """The task and, if known, the trajectory, for error messages."""
        return f"task '{self.task_id}'" + (f", trajectory '{self.trajectory}'" if self.trajectory else "")

    def verdicts(self, name: str) -> list[Verdict]:
        """The (turn, value) pairs measured under ``name``. Facts with the value None are left out, never made zero."""
        return [(fact.turn, fact.value) for fact in self.by_name.get(name, ()) if fact.value is not None]

    def happened(self, name: str) -> bool | None:
        """Whether any fact of that name is true; None if none is and one of them could not be measured."""
        facts = self.by_name.get(name, ())
        if any(fact.value for fact in facts):
            return True
        return None if any(fact.value is None for fact in facts) else False


def _not_finite(value: Any, where: str = "") -> str:
    """Which number in a value is not finite, and at which depth, in words; "" if all are."""
    if isinstance(value, (str, int)):
        return ""
    if isinstance(value, Real):
        return "" if math.isfinite(value) else f"is {value}" + (f" at {where}" if where else "")
    inner = value.items() if isinstance(value, Mapping) else enumerate(value if isinstance(value, Sequence) else ())
    return next((odd for key, item in inner if (odd := _not_finite(item, f"{where}[{key!r}]"))), "")


class Line:
    """One payment while gates act on it; later a ``RewardEvent``. Gates change it through ``close`` and ``cut``
    only."""

    __slots__ = ("factor", "gate", "kind", "name", "share", "turn", "value", "weight")

    def __init__(
        self, name: str, kind: Kind, turn: int | None, value: float, weight: float, share: float = 1.0
    ) -> None:
        self.name = name
        self.kind = kind
        self.turn = turn
        self.value = value
        self.weight = weight
        self.share = share
        self.factor = 1.0
        self.gate = ""

    @property
    def paid(self) -> float:
        """The payment after the gates that have acted so far."""
        return self.value * self.weight * self.share * self.factor

    def close(self, gate: str) -> None:
        """Pay nothing. The name of the gate that closes it first is kept."""
        if self.factor:
            self.factor, self.gate = 0.0, gate

    def cut(self, gate: str, share: float) -> None:
        """Pay only ``share`` of what was still paid."""
        if self.factor:
            self.factor, self.gate = self.factor * share, gate

    def event(self) -> RewardEvent:
        """Turn this object itself into a frozen ``RewardEvent`` for the ledger, without a copy, which saves time.

        Both classes have the same slots; if one had a field that the other lacks, Python would refuse.
        """
        self.__class__ = RewardEvent  # type: ignore[assignment]
        return self  # type: ignore[return-value]


class Draft:
    """The payments of one episode while gates act on them.

    ``lines``: the payments. ``outcome``: the outcome as earned, weights included. ``scores``: overall verdicts of the
    components that gates compare with thresholds. ``problem``: why the episode is unusable; "" if it is not. ``floor``:
    the lowest floor that a veto has paid. ``success``: whether the task is solved; None: not measured. ``readings``:
    what each component read (``Reward.readings``).
    """

    __slots__ = ("facts", "floor", "lines", "outcome", "problem", "readings", "scores", "success")

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.lines: list[Line] = []
        self.scores: dict[str, float] = {}
        self.readings: dict[str, list[Verdict]] = {}
        self.outcome = 0.0
        self.success: bool | None = True
        self.floor: float | None = None
        self.problem = ""


class Reward(Part):
    """A component of a rubric: turns recorded evidence into verdicts, and verdicts into payments.

    A subclass sets ``type`` and writes ``reads`` and ``verdicts``.

    Every verdict lies in [low, high] before ``weight``. With ``per_turn=False`` the component pays once for the whole
    episode: the ``agg`` (mean, last …) of its verdicts. With ``per_turn=True`` it pays in the turns that the verdicts
    are about, and ``agg`` decides how much: "mean" pays each of n verdicts at weight / n, "last", "min" and "max" pay
    one verdict, "sum" pays every verdict in full and so grows with the length of the episode.
    """

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "reward"
    shipped_in: ClassVar[tuple[str, ...]] = ("turngate.rewards", "turngate.rewards.outcome")
    name: str
    """Name of the component in ledger, metrics and gates; unique in a rubric."""
    kind: Kind = "process"
    """outcome: whether the task was solved; process: how the agent worked on the way; penalty: a cost, which never pays
    more than 0. Gates and credit rules tell the three apart."""
    weight: float = 1.0
    """Pay for a verdict of 1, in units of reward; raise it to make the component count more. Negative for a penalty."""
    low: float = 0.0
    """Lowest verdict that there can be, before the weight; the evidence must never lie below it."""
    high: float = 1.0
    """Highest verdict that there can be, before the weight; the evidence must never lie above it."""
    per_turn: bool = False
    """true: pays in the turns that the evidence is about, so that credit can tell them apart; false: pays once, at the
    end of the episode."""
    agg: Agg = "mean"
    """How the verdicts of an episode are combined: their mean, their sum, the last, the lowest or the highest. Only a
    sum grows with the number of verdicts, so it needs a gate that bounds it."""
    levels: tuple[float, ...] | None = None
    """The values that an outcome can take, from ``low`` to ``high`` in rising order: (0, 1) for a yes or no. None: any
    value from ``low`` to ``high``. ``Rubric.check`` needs the gaps between levels; any other verdict is an error."""

    @property
    @abstractmethod
    def reads(self) -> tuple[str, ...]:
        """Names of the evidence that it needs."""

    @property
    def sources(self) -> tuple[tuple[str, ...], ...]:
        """Sets of evidence, each of which is enough for a verdict: a run has to record one of them in full.

        By default there is one, all that it reads. Override it for a component that can do without a part of that.
        """
        return (self.reads,)

    @abstractmethod
    def verdicts(self, facts: Facts) -> list[Verdict]:
        """The verdicts as (turn, value); turn None: the whole episode.

        Value None: the verdict was due but could not be obtained, which is not zero. An empty list means the same for a
        component that is ``always_due``; for others it means that there was nothing to judge.
        """

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError for an empty or infinite range, a penalty that could pay, and levels that do not fit."""
        if not self.low < self.high:
            raise ConfigError(
                f"component '{self.name}' has low={self.low} and high={self.high}; low must be below high"
            )
        ends = (self.weight * self.low, self.weight * self.high)
        if not all(map(math.isfinite, (self.low, self.high, self.weight, *ends))):
            raise ConfigError(
                f"component '{self.name}' needs finite low, high and weight, found {self.weight} × {ends}"
            )
        if self.kind == "penalty" and max(ends) > 0:
            raise ConfigError(f"penalty '{self.name}' can pay up to {max(ends):g}; give it a negative weight")
        if self.levels is not None:
            self._fit_levels(self.levels)

    def _fit_levels(self, levels: tuple[float, ...]) -> None:
        """Raises ConfigError for levels of anything but an outcome with one verdict, and for those out of order."""
        if self.kind != "outcome" or self.agg == "sum" or (self.per_turn and self.agg == "mean"):
            raise ConfigError(
                f"component '{self.name}' has levels={levels}; they are for an outcome with one verdict "
                "(not a sum, and not a mean paid per turn)"
            )
        rising = all(below < above for below, above in pairwise(levels))
        if not rising or (levels[:1], levels[-1:]) != ((self.low,), (self.high,)):
            raise ConfigError(
                f"component '{self.name}' has levels={levels}; they must rise from low={self.low:g} to "
                f"high={self.high:g}, each once"
            )

    @property
    def attainable(self) -> tuple[float, ...] | None:
        """The overall verdicts that an outcome can have, lowest first; None = any in [low, high]."""
        return self.levels

    @property
    def always_due(self) -> bool:
        """Whether every episode is due a verdict: a process component that pays once for the episode and is no sum.

        In an episode of a component that is paid per turn, of a sum and of a penalty there may be nothing to judge.
        There a verdict was due where evidence that the component reads has the value None.
        """
        return self.kind == "process" and not self.per_turn and self.agg != "sum"

    def span(self, n_verdicts: float) -> Span:
        """Lowest and highest sum that ``n_verdicts`` verdicts can earn."""
        times = n_verdicts if self.agg == "sum" else 1.0
        low, high = sorted((self.weight * self.low, self.weight * self.high))
        return (low * times if low else 0.0), (high * times if high else 0.0)

    def part_span(self, n_verdicts: float) -> Span:
        """Lowest and highest sum of any part of the payments of ``n_verdicts`` verdicts: a gate may close the
        others."""
        low, high = self.span(n_verdicts)
        return min(low, 0.0), max(high, 0.0)

    def earn(self, facts: Facts) -> list[Line]:
        """The payments of this component before any gate, in turn order.

        Each holds the verdict as measured and the whole weight; where n verdicts share one payment, the ``share`` of
        each is 1/n. Raises PartError, which names component, task, trajectory and turn, for a verdict out of range.
        """
        return self.lines(self.judged(without_missing(self.readings(facts)), facts), facts)

    def readings(self, facts: Facts) -> list[Verdict]:
        """The values that its payments are computed from, as (turn, value); None for one that was due but missing.

        (None, None) alone: nothing could be obtained. These are the verdicts, unless a component makes verdicts of
        several readings; siblings' readings stand in for those that are None when episodes are compared
        (``rewards.missing``).
        """
        return self.with_lost(self.verdicts(facts), facts)

    def judged(self, readings: list[Verdict], facts: Facts) -> list[Verdict]:
        """The verdicts that these readings, none of them None, lead to."""
        return readings

    def with_lost(self, found: list[Verdict], facts: Facts) -> list[Verdict]:
        """``found``, and (turn, None) for each turn about which only evidence of value None was recorded."""
        if not found and self.always_due:
            return [(None, None)]
        if facts.lost.isdisjoint(self.reads):
            return found
        had = {turn for turn, _ in found}
        lost = {fact.turn for name in self.reads for fact in facts.by_name.get(name, ()) if fact.value is None}
        if not found and (None in lost or not self.per_turn):
            return [(None, None)]
        turns = sorted(turn for turn in lost - had if turn is not None)
        return found if None in had else found + [(turn, None) for turn in turns]

    def lines(self, verdicts: list[Verdict], facts: Facts) -> list[Line]:
        """The payments that these verdicts earn in the episode of ``facts``."""
        if not verdicts:
            return []
        if not self._validate(verdicts, facts):
            verdicts.sort(key=lambda verdict: facts.n_turns if verdict[0] is None else verdict[0])
        name, kind, weight, agg = self.name, self.kind, self.weight, self.agg
        if not self.per_turn:
            values = [float(value) for _, value in verdicts]
            verdicts = [(None, _AGGREGATES[agg](values) if len(values) > 1 else values[0])]
        elif agg not in ("mean", "sum"):
            verdicts = [_pick(verdicts, agg)]
        if self.levels is not None:
            self._on_a_level(verdicts[0], self.levels, facts)
        share = 1.0 / len(verdicts) if agg == "mean" and self.per_turn else 1.0
        return [Line(name, kind, turn, float(value), weight, share) for turn, value in verdicts]

    def _on_a_level(self, verdict: Verdict, levels: tuple[float, ...], facts: Facts) -> None:
        turn, value = verdict
        if all(abs(value - level) > SLACK for level in levels):
            listed = ", ".join(f"{level:g}" for level in levels)
            self._reject(facts, turn, f"earned {value!r}; its levels are {listed}")

    def overall(self, lines: Sequence[Line]) -> float:
        """The verdict on the whole episode before the weight, from this component's lines, at least one."""
        total = math.fsum([line.value for line in lines])
        return total / len(lines) if self.agg == "mean" else total

    @property
    def best(self) -> float | None:
        """The overall verdict with which an outcome is a success: the best there is. None: a sum, which has no best."""
        if self.agg == "sum" and self.per_turn:
            return None
        ends = self.attainable or (self.low, self.high)
        return ends[-1] if self.weight >= 0 else ends[0]

    def solved(self, facts: Facts, overall: float) -> bool | None:
        """Whether the task is solved in an episode with this overall verdict; None: not measured. For outcomes.

        By default, whether the verdict is the ``best``; of a sum, whether it earns 1. Override it where a success can
        have a lesser verdict.
        """
        if self.best is None:
            return overall * self.weight >= 1.0 - SUCCESS_SLACK
        short = self.best - overall if self.weight >= 0 else overall - self.best
        return short <= SUCCESS_SLACK

    def evidence_of(self, verdicts: Sequence[Verdict]) -> tuple[Evidence, ...]:
        """Evidence that earns these verdicts, for the counter-examples of ``Rubric.check``.

        By default it is recorded under the first name that the component reads; override it if that is not enough.
        """
        return tuple(Evidence(name=self.reads[0], value=value, turn=turn) for turn, value in verdicts)

    def imagined(self, value: float, n: int) -> list[list[Verdict]]:
        """Ways to earn most in ``n`` turns if ``value`` is the best verdict, for the counter-examples of
        ``Rubric.check``.

        By default it is the same verdict in every turn. Override it for a component whose verdicts depend on each
        other, so that a gate that closes some of them changes what the rest earns.
        """
        turns = range(n) if self.kind != "outcome" or self.agg != "sum" else range(1)
        if self.per_turn:
            return [[(turn, value) for turn in turns]]
        return [[(None, value) for _ in (turns if self.agg == "sum" else range(1))]]

    def turns_of(self, verdicts: Sequence[Verdict]) -> int:
        """How many turns an episode needs to earn these verdicts, for the counter-examples of ``Rubric.check``."""
        return max((turn + 1 for turn, _ in verdicts if turn is not None), default=0)

    def _validate(self, verdicts: Sequence[Verdict], facts: Facts) -> bool:
        """Check every verdict; whether they are in turn order, those about the whole episode last."""
        low, high, per_turn, n_turns, before, ordered = self.low, self.high, self.per_turn, facts.n_turns, 0, True
        for turn, value in verdicts:
            if not isinstance(value, _NUMBERS) or not low <= float(value) <= high:
                self._reject(facts, turn, f"earned {value!r}; it must be a finite number in [{low:g}, {high:g}]")
            if turn is None:
                if per_turn:
                    self._reject(facts, turn, "is per turn, but its evidence names no turn")
                before = n_turns
            elif 0 <= turn < n_turns:
                if turn < before:
                    ordered = False
                before = turn
            else:
                self._reject(facts, turn, f"has evidence about a turn outside the episode's {n_turns}")
        return ordered

    def refuse_form(self, facts: Facts) -> None:
        """Raise PartError if ``verdicts`` returns anything but a list of pairs."""
        found: object = self.verdicts(facts)
        check_result(self.noun, self.verdicts, found, take=_pairs, must=_PAIRS)

    def _reject(self, facts: Facts, turn: int | None, problem: str) -> NoReturn:
        own = f" ({self.type})" if ":" in self.type else ""
        raise PartError(f"component '{self.name}'{own} of {facts.owner}, {place(turn)}: {problem}")


_PAIRS = "a list of pairs (turn, verdict); turn None is the whole episode, verdict None one that could not be had"


def _pairs(found: object) -> None:
    if not isinstance(found, list) or not all(isinstance(one, tuple) and len(one) == 2 for one in found):
        raise Unusable


def is_missing(readings: Sequence[Verdict]) -> bool:
    """Whether any of the readings was due but could not be obtained."""
    return any([value is None for _, value in readings])


def without_missing(readings: list[Verdict]) -> list[Verdict]:
    """The readings that could be obtained; the same list if all could."""
    return [reading for reading in readings if reading[1] is not None] if is_missing(readings) else readings


def place(turn: int | None) -> str:
    """A turn in words."""
    return "whole episode" if turn is None else f"turn {turn}"


def _pick(verdicts: Sequence[Verdict], agg: Agg) -> Verdict:
    if agg == "last":
        return verdicts[-1]
    choose: Callable[..., Verdict] = min if agg == "min" else max
    return choose(verdicts, key=lambda verdict: verdict[1])


_NUMBERS = (int, float, Real, np.bool_)  # most are of the first two, which are looked for first

_AGGREGATES: dict[Agg, Callable[[list[float]], float]] = {
    "mean": lambda values: sum(values) / len(values),
    "sum": sum,
    "last": lambda values: values[-1],
    "min": min,
    "max": max,
}
