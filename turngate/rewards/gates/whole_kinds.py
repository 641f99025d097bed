"""Gates decide how much of an earned reward is paid.

A payment is *open* if some of it is paid, *closed* if nothing is, and *cut* if a part is. Gates act in the order in
which the rubric declares them. They never change what was earned: they lower the ``factor`` of a payment, which begins
at 1, and leave their name in ``gate``, so every closed payment stays visible in the ledger. A gate decides by evidence,
the outcome or overall verdicts as they were measured, never by what other gates let through. So their order matters
only for gates that count amounts: ``once``, ``budget``, ``best_so_far`` and ``cap_process`` count payments that are
still open when they act.

This module holds the gates for a whole kind of reward; ``limits`` those that limit one component, ``ladders`` those
that make one component wait for another, ``shares`` those that pay a part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from turngate.errors import ConfigError, UnknownName
from turngate.rewards.gates.base import Gate
from turngate.rewards.parts import SLACK, Draft, Kind, Line, Reward, place, reaches
from turngate.rewards.safety.ranges import Ranges, Scene


def find(rewards: Sequence[Reward], name: str, gate: Gate) -> Reward:
    """The component of that name. Raises UnknownName, with the closest names, if there is none."""
    for reward in rewards:
        if reward.name == name:
            return reward
    raise UnknownName("component", name, [reward.name for reward in rewards], hint=f"in {gate.name}")


def find_cuttable(rewards: Sequence[Reward], name: str, gate: Gate) -> Reward:
    """Like ``find``, but raises ConfigError for an outcome component, because no gate may change what outcomes pay."""
    reward = find(rewards, name, gate)
    if reward.kind == "outcome":
        raise ConfigError(f"{gate.name} would cut the outcome '{name}'; name a process or penalty component")
    return reward


def outcome_span(rewards: Sequence[Reward]) -> tuple[float, float]:
    """Lowest and highest sum that the outcome components can earn, weights included."""
    spans = [reward.span(math.inf) for reward in rewards if reward.kind == "outcome"]
    return sum(low for low, _ in spans), sum(high for _, high in spans)


class Veto(Gate):
    """A forbidden act costs everything: if ``evidence`` is true in any turn, the episode pays ``floor`` and nothing
    else.

    The floor is a penalty in the ledger with the gate's name. If several vetoes apply, the lowest floor counts, so
    breaking a second rule is never an advantage. Missing evidence means that the act did not happen. Evidence with the
    value None means that it could not be measured, and makes the episode unusable.
    """

    type: Literal["veto"] = "veto"
    evidence: str
    """Name of the evidence of the forbidden act; true in any turn closes everything."""
    floor: float = -1.0
    """Total pay of such an episode; it should lie below that of an honest failure."""

    def model_post_init(self, context: object) -> None:
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

    @property
    def occasional(self) -> tuple[str, ...]:
        """The evidence of the act, which in most runs never happens."""
        return (self.evidence,)

    def touches(self, name: str, kind: Kind) -> bool:
        """True for every component, because a veto closes all payments."""
        return True

    def apply(self, draft: Draft) -> None:
        """Close all lines and add the floor, if the act happened."""
        happened = draft.facts.happened(self.evidence)
        if not happened:
            if happened is None:
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
        """The floor: a veto pays it instead of everything else."""
        return self.floor


class Requires(Gate):
    """Component ``on`` is paid in a turn only if ``evidence`` about the same turn is true.

    A payment for the whole episode needs evidence about the whole episode. If the evidence was recorded several times
    about a turn, all of it must be true. Where there is none, nothing is paid. Evidence with the value None means that
    it could not be measured, and makes the episode unusable if a payment hangs on it.
    """

    type: Literal["requires"] = "requires"
    evidence: str
    """Name of the evidence that must be true in the same turn."""
    on: str
    """Name of the component that is paid under this condition."""

    @property
    def name(self) -> str:
        """For instance ``requires(parsed, on=executes)``."""
        return f"requires({self.evidence}, on={self.on})"

    @property
    def reads(self) -> tuple[str, ...]:
        """The evidence that opens the gate."""
        return (self.evidence,)

    @property
    def openers(self) -> tuple[tuple[str, bool], ...]:
        """The evidence, which is better true."""
        return ((self.evidence, True),)

    def touches(self, name: str, kind: Kind) -> bool:
        """True for the component ``on``."""
        return name == self.on

    def fit(self, rewards: Sequence[Reward]) -> None:
        """Raises UnknownName if there is no component ``on``, ConfigError if it is an outcome."""
        find_cuttable(rewards, self.on, self)

    def apply(self, draft: Draft) -> None:
        """Close the lines of ``on`` at turns without true evidence."""
        true: set[int | None] = set()
        false: set[int | None] = set()
        unknown: set[int | None] = set()
        for fact in draft.facts.by_name.get(self.evidence, ()):
            (unknown if fact.value is None else true if fact.value else false).add(fact.turn)
        opened, unknown, on, name = true - false - unknown, unknown - false, self.on, self.name
        for line in draft.lines:
            if line.name == on and line.turn not in opened:
                if line.turn in unknown and line.paid:
                    draft.problem = f"evidence '{self.evidence}' of {name}, {place(line.turn)}, could not be measured"
                    return
                line.close(name)

    def bound(self, ranges: Ranges, scene: Scene) -> None:
        """Any payment of the component may be closed."""
        for name in ranges.of(self):
            ranges.may_close(name)


class _OutcomeGate(Gate):
    """Closes the payments that it touches in every episode whose earned outcome is below ``at_least``."""

    at_least: float

    @property
    def thresholds(self) -> tuple[float, ...]:
        """``at_least``."""
        return (self.at_least,)

    @property
    def late(self) -> bool:
        """True: it decides by the outcome."""
        return True

    def apply(self, draft: Draft) -> None:
        """Close what it touches below the threshold."""
        if not reaches(draft.outcome, self.at_least):
            name = self.name
            for line in draft.lines:
                if self.touches(line.name, line.kind):
                    line.close(name)

    def bound(self, ranges: Ranges, scene: Scene) -> None:
        """Nothing is paid below the threshold."""
        if not reaches(scene.outcome, self.at_least):
            for name in ranges.of(self):
                ranges.close(name)


class NeedsOutcome(_OutcomeGate):
    """Process payments, gains and losses, are paid only in episodes whose earned outcome reaches ``at_least``."""

    type: Literal["needs_outcome"] = "needs_outcome"
    at_least: float
    """Lowest outcome, weights included, at which process is paid. Lower it if the policy rarely gets there."""

    @property
    def name(self) -> str:
        """For instance ``needs_outcome(0.5)``."""
        return f"needs_outcome({self.at_least})"

    def touches(self, name: str, kind: Kind) -> bool:
        """True for process components."""
        return kind == "process"

    def fit(self, rewards: Sequence[Reward]) -> None:
        """Raises ConfigError for a threshold that no outcome reaches, or that every outcome reaches."""
        low, high = outcome_span(rewards)
        if not low < self.at_least <= high:
            effect = "never opens" if self.at_least > high else "never closes"
            raise ConfigError(
                f"{self.name} {effect}: the weighted outcome lies in [{low:g}, {high:g}]; choose at_least inside it"
            )


class SuccessOnly(_OutcomeGate):
    """Components ``on`` are paid only in full successes: episodes with the highest outcome that the rubric has.

    R = outcome + 1[outcome = best]·Σ on. This is the condition of Posterior-GRPO (https://arxiv.org/abs/2508.05170),
    where a reward for reasoning counts only if all tests pass. Without ``on`` it acts on every process component, like
    ``needs_outcome`` with the highest outcome. A penalty named in ``on``, say for length, is charged to successes only.
    """

    type: Literal["success_only"] = "success_only"
    at_least: float = 1.0
    """The highest outcome of the rubric, weights included. It is stated here so that the gate can be read by itself."""
    on: tuple[str, ...] = ()
    """Names of the components that are paid in full successes only; leave it out for all process components."""

    @property
    def name(self) -> str:
        """For instance ``success_only(1.0, on=length)``."""
        return f"success_only({', '.join([str(self.at_least), *(f'on={name}' for name in self.on)])})"

    def touches(self, name: str, kind: Kind) -> bool:
        """The components ``on``, or all process components."""
        return name in self.on if self.on else kind == "process"

    def fit(self, rewards: Sequence[Reward]) -> None:
        """Raises UnknownName for an unknown component, ConfigError if ``at_least`` is not the highest outcome."""
        for name in self.on:
            find_cuttable(rewards, name, self)
        low, high = outcome_span(rewards)
        if abs(self.at_least - high) > SLACK or not low < high:
            raise ConfigError(
                f"{self.name} must name full success: the weighted outcome reaches at most {high:g}; "
                f"write success_only({high:g}), or needs_outcome({self.at_least:g}) for part of it"
            )


class CapProcess(Gate):
    """Process payments of an episode are scaled down so that gains sum to at most ``limit`` and losses to at least
    −``limit``."""

    type: Literal["cap_process"] = "cap_process"
    limit: float
    """Most that the process gains of an episode may sum to, in units of reward; losses stop at its negative. Keep it
    below the difference between two outcomes, so that process never outranks the outcome."""

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError for a limit that is negative or not finite."""
        needs_limit(self.limit, self)

    @property
    def name(self) -> str:
        """For instance ``cap_process(0.4)``."""
        return f"cap_process({self.limit})"

    def touches(self, name: str, kind: Kind) -> bool:
        """True for process components."""
        return kind == "process"

    def apply(self, draft: Draft) -> None:
        """Scale gains and losses, each on its own."""
        gains = losses = 0.0
        for line in draft.lines:
            if line.kind == "process":
                amount = line.value * line.weight * line.share * line.factor
                if amount > 0:
                    gains += amount
                else:
                    losses -= amount
        if gains <= self.limit and losses <= self.limit:
            return
        name = self.name
        for line in draft.lines:
            if line.kind == "process" and (amount := line.paid):
                total = gains if amount > 0 else losses
                if total > self.limit:
                    line.cut(name, self.limit / total)

    def bound(self, ranges: Ranges, scene: Scene) -> None:
        """Gains and losses each lie within ± the limit."""
        ranges.cap(self.limit)


def needs_limit(limit: float, gate: Gate) -> None:
    """Raises ConfigError for a limit that is negative or not finite."""
    if not (math.isfinite(limit) and limit >= 0):
        raise ConfigError(f"{gate.name} has limit={limit}; it must be a finite number of at least 0")


def veto(evidence: str, floor: float = -1.0) -> Veto:
    """A ``Veto``: the forbidden act costs everything, for instance ``veto("wrote", floor=-1.0)``."""
    return Veto(evidence=evidence, floor=floor)


def requires(evidence: str, *, on: str) -> Requires:
    """A ``Requires``: ``on`` is paid only with true evidence, for instance ``requires("parsed", on="executes")``."""
    return Requires(evidence=evidence, on=on)


def needs_outcome(at_least: float) -> NeedsOutcome:
    """A ``NeedsOutcome``: process is paid only from this outcome on, for instance ``needs_outcome(0.5)``."""
    return NeedsOutcome(at_least=at_least)


def cap_process(limit: float) -> CapProcess:
    """A ``CapProcess``: process gains and losses sum to at most ``limit``, for instance ``cap_process(0.4)``."""
    return CapProcess(limit=limit)
