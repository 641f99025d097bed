"""Gates: what stands between a reward that was earned and one that is paid.

Gates act in the order in which the rubric declares them. They never change what was earned: they set ``factor`` and
leave their name in ``gate``, so every closed payment stays visible in the ledger.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from turngate.errors import ConfigError, UnknownName
from turngate.rewards.parts import Draft, Gate, Kind, Line, Reward, Span


class Veto(Gate):
    """A forbidden act (true evidence, any turn) costs everything: the episode pays ``floor`` and nothing else.

    The floor is a penalty event with the gate's name. Of several vetoes the lowest floor counts, so breaking a second
    rule never softens the first. Absent evidence means that it did not happen; evidence None means that nobody knows,
    and makes the episode unusable.
    """

    type: Literal["veto"] = "veto"
    evidence: str
    floor: float = -1.0

    def model_post_init(self, context: Any) -> None:
        """Raises ConfigError for a floor that would reward the act."""
        if not (math.isfinite(self.floor) and self.floor <= 0):
            raise ConfigError(f"{self.name} has floor={self.floor}; it must be a finite number of at most 0")

    @property
    def name(self) -> str:
        """For instance ``veto(wrote)``."""
        return f"veto({self.evidence})"

    @property
    def reads(self) -> tuple[str, ...]:
        """The evidence of the act."""
        return (self.evidence,)

    def touches(self, name: str, kind: Kind) -> bool:
        """Everything."""
        return True

    def apply(self, draft: Draft) -> None:
        """Close all lines and add the floor, if the act happened."""
        facts = draft.facts.by_name.get(self.evidence, ())
        if not any([draft.facts.truth(fact) for fact in facts]):
            if any(fact.value is None for fact in facts):
                draft.problem = f"evidence '{self.evidence}' of {self.name} could not be measured"
            return
        if draft.floor is not None and draft.floor <= self.floor:
            return
        name = self.name
        for line in draft.lines:
            line.close(name)
        draft.lines.append(Line(name, "penalty", None, self.floor, 1.0))
        draft.floor = self.floor

    def replaces(self) -> float:
        """The floor."""
        return self.floor


class Requires(Gate):
    """A payment of component ``on`` needs true evidence of the same turn (of the whole episode, for episode payments).

    If the evidence was recorded several times about that turn, all of it must be true. Missing evidence keeps the
    payment closed.
    """

    type: Literal["requires"] = "requires"
    evidence: str
    on: str

    @property
    def name(self) -> str:
        """For instance ``requires(parsed, on=executes)``."""
        return f"requires({self.evidence}, on={self.on})"

    @property
    def reads(self) -> tuple[str, ...]:
        """The evidence that opens."""
        return (self.evidence,)

    def touches(self, name: str, kind: Kind) -> bool:
        """The component ``on``."""
        return name == self.on

    def fit(self, rewards: Sequence[Reward]) -> None:
        """Raises UnknownName if there is no component ``on``."""
        names = [reward.name for reward in rewards]
        if self.on not in names:
            raise UnknownName("component", self.on, names, hint=f"in {self.name}")

    def apply(self, draft: Draft) -> None:
        """Close the lines of ``on`` at turns without true evidence."""
        verdict: dict[int | None, bool] = {}
        for fact in draft.facts.by_name.get(self.evidence, ()):
            verdict[fact.turn] = draft.facts.truth(fact) and verdict.get(fact.turn, True)
        name = self.name
        for line in draft.lines:
            if line.name == self.on and not verdict.get(line.turn, False):
                line.close(name)


class NeedsOutcome(Gate):
    """Process payments, good and bad, count only in episodes whose earned outcome reaches ``at_least``."""

    type: Literal["needs_outcome"] = "needs_outcome"
    at_least: float

    @property
    def name(self) -> str:
        """For instance ``needs_outcome(0.5)``."""
        return f"needs_outcome({self.at_least})"

    def touches(self, name: str, kind: Kind) -> bool:
        """Process components."""
        return kind == "process"

    def fit(self, rewards: Sequence[Reward]) -> None:
        """Raises ConfigError for a threshold that no outcome reaches, or that every outcome reaches."""
        spans = [reward.span(math.inf) for reward in rewards if reward.kind == "outcome"]
        low, high = sum(low for low, _ in spans), sum(high for _, high in spans)
        if not low < self.at_least <= high:
            effect = "never opens" if self.at_least > high else "never closes"
            raise ConfigError(
                f"{self.name} {effect}: the weighted outcome lies in [{low:g}, {high:g}]; choose at_least inside it"
            )

    def apply(self, draft: Draft) -> None:
        """Close all process lines below the threshold."""
        if draft.outcome < self.at_least:
            name = self.name
            for line in draft.lines:
                if line.kind == "process":
                    line.close(name)

    def bound(self, process: Span, outcome: float) -> Span:
        """Nothing below the threshold."""
        return process if outcome >= self.at_least else (0.0, 0.0)


class CapProcess(Gate):
    """Process payments that are still open are scaled down: gains to a sum of ``limit``, losses to −``limit``."""

    type: Literal["cap_process"] = "cap_process"
    limit: float

    def model_post_init(self, context: Any) -> None:
        """Raises ConfigError for a limit that is no bound."""
        if not (math.isfinite(self.limit) and self.limit >= 0):
            raise ConfigError(f"{self.name} has limit={self.limit}; it must be a finite number of at least 0")

    @property
    def name(self) -> str:
        """For instance ``cap_process(0.4)``."""
        return f"cap_process({self.limit})"

    def touches(self, name: str, kind: Kind) -> bool:
        """Process components."""
        return kind == "process"

    def apply(self, draft: Draft) -> None:
        """Scale gains and losses, each on its own."""
        paid = [(line, line.paid) for line in draft.lines if line.kind == "process"]
        gains = sum([amount for _, amount in paid if amount > 0])
        losses = -sum([amount for _, amount in paid if amount < 0])
        if gains <= self.limit and losses <= self.limit:
            return
        name = self.name
        for line, amount in paid:
            total = gains if amount > 0 else losses
            if amount and total > self.limit:
                line.cut(name, self.limit / total)

    def bound(self, process: Span, outcome: float) -> Span:
        """Within ± the limit."""
        return max(process[0], -self.limit), min(process[1], self.limit)


def veto(evidence: str, floor: float = -1.0) -> Veto:
    """A forbidden act costs everything: ``veto("wrote", floor=-1.0)``."""
    return Veto(evidence=evidence, floor=floor)


def requires(evidence: str, *, on: str) -> Requires:
    """Component ``on`` is paid only with true evidence: ``requires("parsed", on="executes")``."""
    return Requires(evidence=evidence, on=on)


def needs_outcome(at_least: float) -> NeedsOutcome:
    """Process counts only from this outcome on: ``needs_outcome(0.5)``."""
    return NeedsOutcome(at_least=at_least)


def cap_process(limit: float) -> CapProcess:
    """Process gains and losses sum to at most ``limit``: ``cap_process(0.4)``."""
    return CapProcess(limit=limit)
