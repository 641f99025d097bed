"""What a rubric is made of: rewards, which say what was earned, and gates, which say what of it is paid.

Both are frozen pydantic models told apart by ``type``, so a rubric survives a trip through JSON. A new reward or gate
is a subclass with its own ``type``; defining it makes it loadable. Scoring works on ``Draft``, plain mutable objects
that live for one call, because environments score thousands of episodes a second.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, NoReturn, Self, TypeAlias

from pydantic import BaseModel, ConfigDict

from turngate.errors import ConfigError, DuplicateName, UnknownName
from turngate.types import Evidence, Record, RewardEvent

Kind: TypeAlias = Literal["outcome", "process", "penalty"]
Agg: TypeAlias = Literal["mean", "sum", "last", "min", "max"]
Span: TypeAlias = tuple[float, float]
Verdict: TypeAlias = tuple[int | None, Any]


class Facts:
    """The evidence of one record by name, restricted to the names that the rubric reads."""

    __slots__ = ("by_name", "n_turns", "task_id")

    def __init__(self, record: Record, wanted: frozenset[str]) -> None:
        self.task_id, self.n_turns = record.task_id, record.n_turns
        self.by_name: dict[str, list[Evidence]] = {}
        for fact in record.evidence:
            if fact.name in wanted:
                self.by_name.setdefault(fact.name, []).append(fact)

    def verdicts(self, name: str) -> list[Verdict]:
        """What was measured under ``name``; facts with value None are left out, so missing never turns into zero."""
        return [(fact.turn, fact.value) for fact in self.by_name.get(name, ()) if fact.value is not None]

    def truth(self, fact: Evidence) -> bool:
        """Whether a measured fact is true in Python's sense. Raises ValueError for NaN, which would count as true."""
        if isinstance(fact.value, float) and math.isnan(fact.value):
            raise ValueError(f"evidence '{fact.name}' of task '{self.task_id}', {place(fact.turn)}, is NaN")
        return bool(fact.value)


class Line:
    """One reward event in the making. Gates change ``factor`` and ``gate`` through ``close`` and ``cut`` only."""

    __slots__ = ("factor", "gate", "kind", "name", "turn", "value", "weight")

    def __init__(self, name: str, kind: Kind, turn: int | None, value: float, weight: float) -> None:
        self.name = name
        self.kind = kind
        self.turn = turn
        self.value = value
        self.weight = weight
        self.factor = 1.0
        self.gate = ""

    @property
    def paid(self) -> float:
        """What counts so far."""
        return self.value * self.weight * self.factor

    def close(self, gate: str) -> None:
        """Pay nothing. The gate that closes first is the one remembered."""
        if self.factor:
            self.factor, self.gate = 0.0, gate

    def cut(self, gate: str, share: float) -> None:
        """Pay only ``share`` of what was still paid."""
        if self.factor:
            self.factor, self.gate = self.factor * share, gate

    def event(self) -> RewardEvent:
        """The line as it enters the ledger."""
        return RewardEvent(
            name=self.name,
            kind=self.kind,
            turn=self.turn,
            value=self.value,
            weight=self.weight,
            factor=self.factor,
            gate=self.gate,
        )


class Draft:
    """A ledger before settling. ``problem`` makes the episode unusable; ``floor`` is what the hardest veto paid."""

    __slots__ = ("facts", "floor", "lines", "outcome", "problem")

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.lines: list[Line] = []
        self.outcome = 0.0
        self.floor: float | None = None
        self.problem = ""


class Part(BaseModel):
    """A frozen piece of a rubric, loadable by its ``type``."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "part"
    type: str

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Make ``type`` known. Raises DuplicateName if another class has it."""
        kind = cls.model_fields["type"].default
        if not isinstance(kind, str):
            return
        holder = cls.types.get(kind, cls)
        if (holder.__module__, holder.__qualname__) != (cls.__module__, cls.__qualname__):
            raise DuplicateName(f"{cls.noun} type '{kind}' is taken by {holder.__module__}.{holder.__qualname__}")
        cls.types[kind] = cls

    @classmethod
    def load(cls, data: Any) -> Any:
        """The part that a mapping with a ``type`` describes; anything else is handed on. Raises UnknownName."""
        if not isinstance(data, dict):
            return data
        kind = data.get("type")
        if kind not in cls.types:
            raise UnknownName(f"{cls.noun} type", str(kind), cls.types)
        return cls.types[kind].model_validate(data)

    def model_copy(self, *, update: Any = None, deep: bool = False) -> Self:
        """A copy with changes, checked like a new one."""
        return type(self)(**{name: getattr(self, name) for name in type(self).model_fields} | dict(update or {}))


class Reward(Part):
    """A component: reads facts, earns. A subclass sets ``type`` and writes ``reads`` and ``verdicts``.

    Every verdict lies in [low, high] before ``weight``. ``per_turn=False`` earns one payment for the whole episode,
    ``agg`` of its verdicts. ``per_turn=True`` earns in the turns themselves and ``agg`` bounds the sum: "mean" gives
    each of n verdicts value / n, "last", "min" and "max" pay one verdict, and only "sum" grows with the length.
    """

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "reward"
    name: str
    kind: Kind = "process"
    weight: float = 1.0
    low: float = 0.0
    high: float = 1.0
    per_turn: bool = False
    agg: Agg = "mean"

    @property
    @abstractmethod
    def reads(self) -> tuple[str, ...]:
        """Names of the evidence that it needs."""

    @abstractmethod
    def verdicts(self, facts: Facts) -> list[Verdict]:
        """What was measured, as (turn or None, value). Empty = not measured, which is not zero."""

    def model_post_init(self, context: Any) -> None:
        """Raises ConfigError for ranges that cannot be."""
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

    def span(self, n_verdicts: float) -> Span:
        """Lowest and highest sum that ``n_verdicts`` verdicts can earn."""
        times = n_verdicts if self.agg == "sum" else 1.0
        low, high = sorted((self.weight * self.low, self.weight * self.high))
        return (low * times if low else 0.0), (high * times if high else 0.0)

    def earn(self, facts: Facts) -> list[Line]:
        """The lines of this component, in turn order. Raises ValueError naming component, task and turn."""
        verdicts = self.verdicts(facts)
        if not verdicts:
            return []
        if not self._validate(verdicts, facts):
            verdicts.sort(key=lambda verdict: facts.n_turns if verdict[0] is None else verdict[0])
        if not self.per_turn:
            value = _AGGREGATES[self.agg]([float(value) for _, value in verdicts])
            return [Line(self.name, self.kind, None, value, self.weight)]
        if self.agg in ("last", "min", "max"):
            verdicts = [_pick(verdicts, self.agg)]
        parts = len(verdicts) if self.agg == "mean" else 1
        return [Line(self.name, self.kind, turn, value / parts, self.weight) for turn, value in verdicts]

    def _validate(self, verdicts: Sequence[Verdict], facts: Facts) -> bool:
        """Whether the verdicts, which are all good, stand in turn order (those about the whole episode last)."""
        low, high, n_turns, before, ordered = self.low, self.high, facts.n_turns, 0, True
        for turn, value in verdicts:
            if not isinstance(value, (int, float)) or not low <= value <= high:
                self._reject(facts, turn, f"earned {value!r}; it must be a finite number in [{low:g}, {high:g}]")
            if turn is None:
                if self.per_turn:
                    self._reject(facts, turn, "is per turn, but its evidence names no turn")
                before = n_turns
            elif 0 <= turn < n_turns:
                ordered, before = ordered and turn >= before, turn
            else:
                self._reject(facts, turn, f"has evidence about a turn outside the episode's {n_turns}")
        return ordered

    def _reject(self, facts: Facts, turn: int | None, problem: str) -> NoReturn:
        raise ValueError(f"component '{self.name}' of task '{facts.task_id}', {place(turn)}: {problem}")


class Gate(Part):
    """Decides what of the earned is paid. A subclass sets ``type`` and writes ``name``, ``touches`` and ``apply``."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "gate"

    @property
    @abstractmethod
    def name(self) -> str:
        """What the ledger calls it; unique in a rubric."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the evidence that it needs."""
        return ()

    @abstractmethod
    def touches(self, name: str, kind: Kind) -> bool:
        """Whether it may ever change a payment of component ``name``."""

    @abstractmethod
    def apply(self, draft: Draft) -> None:
        """Close or cut lines."""

    def fit(self, rewards: Sequence[Reward]) -> None:
        """Raise ConfigError or UnknownName if it cannot work, or has no effect, beside these rewards."""

    def bound(self, process: Span, outcome: float) -> Span:
        """The range that a range of process payments (which holds 0) shrinks to when the outcome is ``outcome``."""
        return process

    def replaces(self) -> float | None:
        """The total that it pays instead of everything else, or None if it only closes and cuts."""
        return None


def place(turn: int | None) -> str:
    """A turn in words."""
    return "whole episode" if turn is None else f"turn {turn}"


def _pick(verdicts: Sequence[Verdict], agg: Agg) -> Verdict:
    if agg == "last":
        return verdicts[-1]
    choose: Callable[..., Verdict] = min if agg == "min" else max
    return choose(verdicts, key=lambda verdict: verdict[1])


_AGGREGATES: dict[Agg, Callable[[list[float]], float]] = {
    "mean": lambda values: sum(values) / len(values),
    "sum": sum,
    "last": lambda values: values[-1],
    "min": min,
    "max": max,
}
