"""Rewards that are computed from one episode's evidence: information gain, and costs of repetition, events and length.

Costs are penalties: verdicts in [0, 1] with a negative weight. Each is bounded, however long the episode is. It is
charged on the turn that caused it, so a later turn never changes what an earlier one cost.
"""

import json
import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

from turngate.errors import ConfigError
from turngate.rewards.parts import Agg, Facts, Kind, Reward, Span, Verdict, without_missing
from turngate.types import Evidence


class Charged(Reward):
    """Base class of costs that are charged per event; a subclass writes ``reads`` and ``amounts``.

    The first ``free`` events cost nothing, the next ``budget`` events cost weight / budget each, on the turn where they
    happened, and further ones cost nothing more. So an episode loses at most ``weight``.
    """

    kind: Kind = "penalty"
    weight: float = -0.1
    """Most that an episode loses, in units of reward; negative."""
    per_turn: bool = True
    """Whether each charge counts on the turn that caused it (true), or all of them at the end of the episode
    (false)."""
    agg: Agg = "sum"
    """Always "sum"; ``budget`` bounds it."""
    free: float = 0.0
    """How many events (or how much of an amount) per episode cost nothing. Raise it where a few are normal."""
    budget: float = 4.0
    """How many events after the free ones cost the whole ``weight`` together; further ones cost nothing more."""

    @abstractmethod
    def amounts(self, facts: Facts) -> Sequence[tuple[int | None, float | None]]:
        """How much happened, as (turn, amount); amount None: it could not be measured (turn None: in no turn)."""

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError for settings under which an episode could lose more than ``weight``."""
        super().model_post_init(context)
        if (self.low, self.high, self.agg) != (0.0, 1.0, "sum"):
            raise ConfigError(
                f"component '{self.name}' charges a budget; leave low=0, high=1 and agg='sum' as they are"
            )
        if not (0 <= self.free < math.inf and 0 < self.budget < math.inf):
            raise ConfigError(f"component '{self.name}' needs free ≥ 0 and budget > 0: {self.free}, {self.budget}")

    def span(self, n_verdicts: float) -> Span:
        """At most one whole budget, however many verdicts."""
        return min(self.weight, 0.0), max(self.weight, 0.0)

    def verdicts(self, facts: Facts) -> list[Verdict]:
        """The part of the budget that each turn uses up."""
        return self.judged(without_missing(self.readings(facts)), facts)

    def readings(self, facts: Facts) -> list[Verdict]:
        """The amounts: what a turn is charged depends on those of earlier turns."""
        return self.with_lost(list(self.amounts(facts)), facts)

    def judged(self, readings: list[Verdict], facts: Facts) -> list[Verdict]:
        """The part of the budget that each of these amounts uses up."""
        used, spent = 0.0, 0.0
        charges: list[Verdict] = []
        for turn, amount in sorted(readings, key=_place):
            used += amount
            total = min(max(used - self.free, 0.0), self.budget)
            charges.append((turn, (total - spent) / self.budget))
            spent = total
        return charges


class Repetition(Charged):
    """Charges each action that was taken before in the same episode.

    ``evidence`` holds a key for each action, equal for equal actions (any JSON; "" means no action and is never
    charged). With ``state``, which holds a key for the state of each turn, the state has to be equal too, so trying
    again after something changed costs nothing. A turn whose state was not measured is not charged. After an action or
    state of value None, an action that was not seen before may be a repetition, so it has no verdict.
    """

    type: Literal["repetition"] = "repetition"
    evidence: str = "action_key"
    """Name of the evidence that holds a key for each action, equal for equal actions."""
    state: str | None = None
    """Name of the evidence that holds a key for the state of each turn; then only the same action in the same state is
    a repetition. Leave it out to compare actions alone."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Action keys, and state keys if they matter."""
        return (self.evidence,) if self.state is None else (self.evidence, self.state)

    def amounts(self, facts: Facts) -> list[tuple[int | None, float | None]]:
        """1 for every repeated action; None for one of which it is not known."""
        states = {} if self.state is None else {turn: _key(value) for turn, value in facts.verdicts(self.state)}
        lost = {fact.turn for name in self.reads for fact in facts.by_name.get(name, ()) if fact.value is None}
        seen: set[tuple[str, str]] = set()
        found: list[tuple[int | None, float | None]] = []
        one_is_unknown = False
        keys = [(fact.turn, fact.value) for fact in facts.by_name.get(self.evidence, ())]
        for turn, value in sorted(keys, key=_place):
            if value is not None and value != "" and turn not in lost:
                counts = self.state is None or turn in states
                key = (_key(value), states.get(turn, ""))
                place, amount = _amount(self, facts, turn, counts and key in seen)
                found.append((place, None if one_is_unknown and counts and not amount else amount))
                if counts:
                    seen.add(key)
            elif value == "":
                found.append(_amount(self, facts, turn, False))
            else:
                found.append((turn, None))
                one_is_unknown = True
        return found

    def evidence_of(self, verdicts: Sequence[Verdict]) -> tuple[Evidence, ...]:
        """As many actions of one key as these charges take (in whole actions), all in one state."""
        charges = [(turn, round(amount)) for turn, amount in _uncharged(self, verdicts)]
        total, first = sum(amount for _, amount in charges), True
        facts: list[Evidence] = []
        for turn, amount in charges:
            keys = ["imagined"] * (amount + first) if total else [""]
            facts += [Evidence(name=self.evidence, value=key, turn=turn) for key in keys]
            if self.state is not None:
                facts.append(Evidence(name=self.state, value="imagined", turn=turn))
            first = False
        return tuple(facts)


class EventCost(Charged):
    """Charges events that one piece of evidence reports per turn, as true or false or as an amount.

    For instance queries that took too long: ``EventCost(name="slow", evidence="timed_out")``; or too many tool
    calls: ``EventCost(name="spam", evidence="n_calls", free=8, budget=8)``.
    """

    type: Literal["event_cost"] = "event_cost"
    evidence: str
    """Name of the evidence that reports the events: true or false, or an amount, for each turn."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The name of that evidence."""
        return (self.evidence,)

    def amounts(self, facts: Facts) -> list[tuple[int, float]]:
        """The amounts measured under that name."""
        return [_amount(self, facts, turn, value) for turn, value in facts.verdicts(self.evidence)]

    def evidence_of(self, verdicts: Sequence[Verdict]) -> tuple[Evidence, ...]:
        """The amounts that use up these charges."""
        amounts = _uncharged(self, verdicts)
        return tuple(Evidence(name=self.evidence, value=amount, turn=turn) for turn, amount in amounts)


class LengthCost(Reward):
    """Charges long episodes: nothing up to length ``start``, the whole weight from ``limit`` on, in proportion between.

    The verdict is ``clip((L − start) / (limit − start), 0, 1)``, charged once, on the last turn. ``L`` is the number of
    turns, or the sum of ``evidence`` over the turns (the policy's tokens or calls; tool output is not its doing).

    ``only_if`` names evidence that must reach ``at_least`` for length to cost anything, usually the outcome's. Then a
    failure costs nothing, so giving up early gains nothing. If that evidence or a part of the length was not measured,
    neither is the cost.
    Without ``only_if`` this is DAPO's soft overlong punishment with ``start = limit − buffer``
    (https://arxiv.org/abs/2503.14476), under which failing early is cheaper than failing late.
    """

    type: Literal["length_cost"] = "length_cost"
    kind: Kind = "penalty"
    weight: float = -0.1
    """Loss of an episode of ``limit`` or more, in units of reward; negative."""
    start: float
    """Longest episode that costs nothing; in turns, or in the unit of ``evidence``."""
    limit: float
    """Length from which on the whole ``weight`` is lost; in turns, or in the unit of ``evidence``."""
    evidence: str | None = None
    """Name of the evidence that is summed over the turns to measure length, for instance tokens or calls; leave it out
    to count turns."""
    only_if: str | None = None
    """Name of the evidence that must reach ``at_least`` for length to cost anything, usually that of the outcome; leave
    it out to charge failures too."""
    at_least: float = 0.5
    """Value that the evidence of ``only_if`` must reach."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Lengths and the condition, where given."""
        return tuple(name for name in (self.evidence, self.only_if) if name is not None)

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError unless 0 ≤ start < limit."""
        super().model_post_init(context)
        if not 0 <= self.start < self.limit < math.inf:
            raise ConfigError(f"component '{self.name}' needs 0 ≤ start < limit, found {self.start} and {self.limit}")

    def verdicts(self, facts: Facts) -> list[Verdict]:
        """One verdict on the episode."""
        if self.only_if is not None:
            outcomes = facts.verdicts(self.only_if)
            for turn, value in outcomes:
                if not isinstance(value, (int, float)):
                    self._reject(facts, turn, f"read {value!r}; '{self.only_if}' must be a bool or a number")
            if not outcomes or max(value for _, value in outcomes) < self.at_least:
                return [(None, 0.0)] if outcomes else []
        length = float(facts.n_turns)
        if self.evidence is not None:
            measured = facts.verdicts(self.evidence)
            if not measured or self.evidence in facts.lost:
                return []
            length = sum(_amount(self, facts, turn, value)[1] for turn, value in measured)
        return [(None, min(max((length - self.start) / (self.limit - self.start), 0.0), 1.0))]

    def turns_of(self, verdicts: Sequence[Verdict]) -> int:
        """As many as cost so much, if turns are counted."""
        if self.evidence is not None:
            return super().turns_of(verdicts)
        return max((math.ceil(self.start + value * (self.limit - self.start)) for _, value in verdicts), default=0)

    def evidence_of(self, verdicts: Sequence[Verdict]) -> tuple[Evidence, ...]:
        """The length that costs as much; nothing if turns are counted, because evidence does not make them."""
        if self.evidence is None:
            return ()
        lengths = [self.start + value * (self.limit - self.start) for _, value in verdicts]
        return tuple(Evidence(name=self.evidence, value=length, turn=0) for length in lengths)


class InformationGain(Reward):
    """IGPO: pays each turn for what it adds to the policy's probability of the right answer (its *belief*).

    ``evidence`` holds the mean log-probability (nats per token) of the gold answer after each turn, ``start`` the one
    before the first turn, recorded for the whole episode. The last turn earns nothing here, because the outcome pays
    there. The gains of an episode sum to its last belief minus its first, so it earns between −weight and weight,
    however long it is. The gain of a turn that was not measured counts with the next one.

    This bound needs every turn. A gate that closes single turns (``requires``) may close just those in which the belief
    fell; then an agent whose belief rises and falls for 2n turns is paid n times the weight, and ``Rubric.check``
    reports it (I3). A ``budget`` after such a gate bounds it again. Gates that close or cut the whole component do no
    harm.
    """

    type: Literal["information_gain"] = "information_gain"
    low: float = -1.0
    """Always −1, the gain of a turn in which the probability of the answer falls from 1 to 0."""
    per_turn: bool = True
    """Whether each gain counts on its turn (true), or all of them at the end of the episode (false)."""
    agg: Agg = "sum"
    """Always "sum": the gain from the first to the last measurement."""
    evidence: str = "gold_logprob"
    """Name of the evidence that holds the log-probability of the right answer after each turn, in nats per token."""
    start: str = "gold_logprob_start"
    """Name of the evidence that holds the same log-probability before the first turn."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Log-probabilities after the turns and before the first one."""
        return (self.evidence, self.start)

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError for settings under which the gains would not sum to last belief minus first."""
        super().model_post_init(context)
        if (self.low, self.high, self.agg) != (-1.0, 1.0, "sum"):
            raise ConfigError(
                f"component '{self.name}' sums gains of −1 to 1; leave low=-1, high=1 and agg='sum' as is"
            )

    def span(self, n_verdicts: float) -> Span:
        """Beliefs lie in [0, 1], so all gains together lie in [−1, 1]."""
        return -abs(self.weight), abs(self.weight)

    def part_span(self, n_verdicts: float) -> Span:
        """A belief can rise to 1 in every second turn, and a gate may drop the turns between in which it falls."""
        times = n_verdicts if math.isinf(n_verdicts) else (n_verdicts + 1) // 2
        return -abs(self.weight) * times, abs(self.weight) * times

    def imagined(self, value: float, n: int) -> list[list[Verdict]]:
        """One step all the way; and one back after each step forth, so that a gate has something to drop."""
        swings: list[Verdict] = [(turn, -value if turn % 2 else value) for turn in range(n - 1 + n % 2)]
        return [[(0, value)], swings]

    def turns_of(self, verdicts: Sequence[Verdict]) -> int:
        """One more, because the last turn earns nothing."""
        return super().turns_of(verdicts) + 1

    def evidence_of(self, verdicts: Sequence[Verdict]) -> tuple[Evidence, ...]:
        """Beliefs that move by so much, up from almost 0 or down from 1."""
        if not verdicts:
            return ()
        belief = 0.0 if verdicts[0][1] > 0 else 1.0
        facts = [Evidence(name=self.start, value=_log(belief))]
        for turn, value in verdicts:
            belief = min(max(belief + value, 0.0), 1.0)
            facts.append(Evidence(name=self.evidence, value=_log(belief), turn=turn))
        return tuple(facts)

    def verdicts(self, facts: Facts) -> list[Verdict]:
        """Gains of the turns before the last."""
        return self.judged(without_missing(self.readings(facts)), facts)

    def readings(self, facts: Facts) -> list[Verdict]:
        """The beliefs: that before the first turn as of turn −1, then those after the turns before the last."""
        beliefs: list[Verdict] = [(-1, fact.value) for fact in facts.by_name.get(self.start, ())]
        for fact in facts.by_name.get(self.evidence, ()):
            turn, value = fact.turn, fact.value
            if turn is None:
                if value is None:  # nothing of it could be measured
                    return [(None, None)]
                self._reject(facts, turn, "is about turns, but its evidence names none")
            if turn < facts.n_turns - 1:
                beliefs.append((turn, value))
        return beliefs

    def judged(self, readings: list[Verdict], facts: Facts) -> list[Verdict]:
        """The gains between these beliefs."""
        gains: list[Verdict] = []
        before: float | None = None
        beliefs = [(turn, value) for turn, value in readings if turn is not None and turn < facts.n_turns - 1]
        for turn, value in sorted(beliefs):
            if not isinstance(value, (int, float)) or not value <= 0:
                self._reject(facts, None if turn < 0 else turn, f"read {value!r}; a log-probability is at most 0")
            if before is not None:
                gains.append((turn, math.exp(value) - before))
            before = math.exp(value)
        return gains


def _amount(reward: Reward, facts: Facts, turn: int | None, value: Any) -> tuple[int, float]:
    """One measured amount of a turn, checked."""
    if turn is None:
        reward._reject(facts, turn, "is about turns, but its evidence names none")
    if not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        reward._reject(facts, turn, f"read {value!r}; an amount is a bool or a finite number ≥ 0")
    return turn, float(value)


def _uncharged(cost: Charged, verdicts: Sequence[Verdict]) -> list[tuple[int | None, float]]:
    """Amounts that would be charged as ``verdicts``: the free ones come before the first charge."""
    free, amounts = cost.free, list[tuple[int | None, float]]()
    for turn, value in verdicts:
        amounts.append((turn, value * cost.budget + (free if value > 0 else 0.0)))
        free = 0.0 if value > 0 else free
    return amounts


def _log(belief: float) -> float:
    return math.log(belief) if belief > 0 else -745.0  # the lowest float64 whose exponential is not 0


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _place(verdict: Verdict) -> int:
    return -1 if verdict[0] is None else verdict[0]
