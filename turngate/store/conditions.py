"""Conditions on recorded episodes, as ``--where`` takes them: ``paid >= 0.5``, ``turns <= 4``, ``success == true``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from turngate.errors import ConfigError, UnknownName
from turngate.types import Score, Trajectory

Measure = Callable[[Trajectory, Score], float | None]

_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_FORM = re.compile(r"\s*([\w./ -]+?)\s*(==|!=|<=|>=|<|>)\s*(\S+)\s*")
MEASURES: Mapping[str, Measure] = {
    "success": lambda one, score: float(bool(score.success)),
    "outcome": lambda one, score: score.outcome,
    "paid": lambda one, score: score.total,
    "turns": lambda one, score: float(len(one.turns)),
    "tokens": lambda one, score: float(sum(len(turn.completion.ids_K) for turn in one.turns)),
    "guided": lambda one, score: float(one.guidance is not None),
}
"""Names that every episode has. Others are components: the payment of one in the episode."""


@dataclass(slots=True)
class EpisodeCondition:
    """A comparison of one number of an episode. ``met``: whether any episode had the number that it names."""

    name: str
    compare: Callable[[float, float], bool]
    bound: float
    seen: set[str]

    def __call__(self, trajectory: Trajectory, score: Score) -> bool:
        """Whether it holds; it does not where there is no such number."""
        self.seen.update(event.name for event in score.ledger)
        value = self._value(trajectory, score)
        return value is not None and self.compare(value, self.bound)

    def _value(self, trajectory: Trajectory, score: Score) -> float | None:
        if self.name in MEASURES:
            return MEASURES[self.name](trajectory, score)
        paid = [event.paid for event in score.ledger if event.name == self.name]
        return sum(paid) if paid else None

    def check(self) -> None:
        """Raise UnknownName for a component that paid no episode, after all were looked at."""
        if self.name not in MEASURES and self.name not in self.seen:
            raise UnknownName("name in --where", self.name, [*MEASURES, *self.seen])


def condition(text: str) -> EpisodeCondition:
    """The condition that a text means. Raises ConfigError."""
    found = _FORM.fullmatch(text)
    value = {"true": 1.0, "false": 0.0}.get(found[3].lower()) if found else None
    if found and value is None:
        try:
            value = float(found[3])
        except ValueError:
            value = None
    if found is None or value is None:
        raise ConfigError(
            f"--where '{text}' is no condition; write a name, a comparison and a number, such as 'paid >= 0.5'. Names: "
            f"{', '.join(MEASURES)}, and every component of the rubric"
        )
    return EpisodeCondition(name=found[1], compare=_COMPARISONS[found[2]], bound=value, seen=set())
