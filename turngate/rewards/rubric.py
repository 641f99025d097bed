"""The rubric: rewards say what an episode earned, gates how much of it is paid, and settling sums it up per turn.

    record → earn → gates in declared order → settle → Score

All siblings of a group pass the gates together, so that a gate may compare them (``trust``). Everything here is a pure
function of recorded evidence, so a stored episode can be scored again without a model.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict

from turngate.errors import ConfigError
from turngate.rewards.gates.base import Gate
from turngate.rewards.missing import SiblingMeans
from turngate.rewards.parts import Draft, Facts, Line, Reward, Verdict, is_missing, without_missing
from turngate.rewards.safety.proof import Safety, assess
from turngate.types import SUCCESS_SLACK, Ending, Group, Record, RewardEvent, Score, ScoredGroup

FINISHED, AGENT_FAULT = Ending.FINISHED, Ending.AGENT_FAULT


class FromEvidence(Reward):
    """Earns the value of one named piece of evidence, a bool or a number from ``low`` to ``high``."""

    type: Literal["from_evidence"] = "from_evidence"
    evidence: str
    """Name of the evidence whose value is the verdict: a bool, or a number from ``low`` to ``high``."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The name of that evidence."""
        return (self.evidence,)

    def verdicts(self, facts: Facts) -> list[Verdict]:
        """The recorded values; None where it could not be measured."""
        return [(fact.turn, fact.value) for fact in facts.by_name.get(self.evidence, ())]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateAccount:
    """The effect of one gate over many episodes, counted over payments that no earlier gate had closed.

    ``raw``: what these payments earned. ``paid``: what was paid of it after all gates, with the floors of a veto.
    ``n_events``: how many payments there were; ``n_closed``: how many of them the gate closed; ``n_cut``: of how many
    it let a part through.
    """

    raw: float
    paid: float
    n_events: int
    n_closed: int
    n_cut: int

    @property
    def open_rate(self) -> float | None:
        """Share of payments that it did not close; None if none reached it."""
        return 1.0 - self.n_closed / self.n_events if self.n_events else None


class Rubric(BaseModel):
    """How episodes are scored: the rewards that they can earn, and the gates that decide what is paid.

    Raises at construction: ConfigError for two parts of one name, no outcome component or a gate without effect;
    UnknownName (with the closest name) for a gate on an unknown component or an unknown ``type``.

    When to set ``book_last``: with a gate on the outcome, a later action changes what an earlier turn is paid. Credit
    rules that sum payments from a turn on (``returns``, ``turn_gae``, corrected ``mt_grpo``) then leave out this part
    of what the later action was worth: 32 % of the gradient in docs/credit_lab.md. With ``book_last`` such payments
    stand on the last turn, so every turn gets credit for them; all other payments stay on their turns. The ledger, the
    total and the process verdicts per turn are the same.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    rewards: tuple[Reward, ...]
    """The components: what an episode can earn. At least one of kind outcome."""
    gates: tuple[Gate, ...] = ()
    """Conditions for the payment of rewards, applied in this order. Without gates everything earned is paid."""
    book_last: bool = False
    """Whether payments that a gate on the outcome decides about count on the last turn instead of their own. Set it for
    credit rules that sum payments from a turn on (returns, turn_gae, corrected mt_grpo)."""
    success: float | str | None = None
    """When a task counts as solved, in evaluations, metrics, guides, curricula and filters: a number, the least outcome
    (in units of reward); or the name of the evidence that is true in a solved episode. Leave it out for the best
    verdict of every outcome component; of "rlcr", "brier" and "cited_answer" for a right answer."""

    def model_post_init(self, context: object) -> None:
        """Check the parts against each other."""
        names = Counter([reward.name for reward in self.rewards] + [gate.name for gate in self.gates])
        twice = sorted(name for name, count in names.items() if count > 1)
        if twice:
            raise ConfigError(f"the rubric has two parts named '{twice[0]}'; names must be unique")
        if all(reward.kind != "outcome" for reward in self.rewards):
            known = [reward.name for reward in self.rewards]
            raise ConfigError(f"the rubric has no outcome component, only {known}; add one with kind='outcome'")
        for gate in self.gates:
            gate.fit(self.rewards)
        if self.book_last and not self._late:
            raise ConfigError(
                "book_last has no effect: no gate on the outcome decides about a payment per turn; leave it out"
            )
        self._check_success()

    def _check_success(self) -> None:
        """Raise ConfigError for a success that no outcome can be, or that every one is."""
        outcomes = [reward for reward in self.rewards if reward.kind == "outcome"]
        for reward in outcomes:
            if reward.best is not None and not reward.low <= reward.best <= reward.high:
                raise ConfigError(
                    f"outcome '{reward.name}' can never be a success: that takes a verdict of {reward.best:g}, and it "
                    f"has low={reward.low:g} and high={reward.high:g}; widen them"
                )
        if self.success is None or isinstance(self.success, str):
            return
        least = sum(min(reward.weight * reward.low, reward.weight * reward.high) for reward in outcomes)
        most = sum(math.inf if reward.best is None else reward.weight * reward.best for reward in outcomes)
        if not least < self.success <= most + SUCCESS_SLACK:
            names = " and ".join(f"'{reward.name}'" for reward in outcomes)
            problem = "is always reached" if self.success <= least else "can never be reached"
            raise ConfigError(
                f"success = {self.success:g} {problem}: outcome {names} earns {least:g} to {most:g}; choose a number "
                "above the first, up to the second"
            )

    def model_copy(self, *, update: Mapping[str, object] | None = None, deep: bool = False) -> Self:
        """A copy with changes, checked like a new rubric."""
        own = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self)(**(own | dict(update or {})))

    @cached_property
    def readers(self) -> Mapping[str, tuple[str, ...]]:
        """Name of each piece of evidence that is read → the components and gates that read it."""
        found: dict[str, tuple[str, ...]] = {}
        parts = [(reward.name, reward.reads) for reward in self.rewards]
        parts += [(gate.name, gate.reads) for gate in self.gates]
        parts += [("success", (self.success,))] if isinstance(self.success, str) else []
        for reader, reads in parts:
            for name in reads:
                found[name] = (*found.get(name, ()), reader)
        return found

    def unfed(self, recorded: Collection[str]) -> dict[str, tuple[str, ...]]:
        """The components and gates that never do anything where only the evidence ``recorded`` is ever recorded.

        Name of each → the evidence that it lacks; of a component with several ``sources`` that of the nearest one.
        """
        missing = {
            reward.name: min(
                (tuple(name for name in source if name not in recorded) for source in reward.sources), key=len
            )
            for reward in self.rewards
        }
        if isinstance(self.success, str) and self.success not in recorded:
            missing["success"] = (self.success,)
        missing |= {gate.name: tuple(name for name in gate.reads if name not in recorded) for gate in self.gates}
        return {reader: names for reader, names in missing.items() if names}

    @cached_property
    def occasional(self) -> frozenset[str]:
        """Evidence that only gates read and that is recorded only if something happens: a whole run may lack it."""
        rewards = {name for reward in self.rewards for name in reward.reads}
        rewards |= {self.success} if isinstance(self.success, str) else set()
        often = rewards.union(*(set(gate.reads) - set(gate.occasional) for gate in self.gates))
        return frozenset(self.readers) - often

    @cached_property
    def _late(self) -> frozenset[str]:
        """Components paid per turn whose payments are decided at the end, if those are booked there."""
        late = [gate for gate in self.gates if gate.late]
        return frozenset(
            reward.name
            for reward in self.rewards
            if self.book_last and reward.per_turn and any(gate.touches(reward.name, reward.kind) for gate in late)
        )

    @cached_property
    def _compared(self) -> frozenset[str]:
        """Components whose overall verdict some gate looks up."""
        return frozenset(name for gate in self.gates for name in gate.compares)

    @cached_property
    def _certain(self) -> tuple[Reward, ...]:
        """Components whose payments only ever grow by events, out of every gate's reach."""
        return tuple(
            reward
            for reward in self.rewards
            if reward.per_turn
            and reward.agg == "sum"
            and not any(gate.touches(reward.name, reward.kind) for gate in self.gates)
        )

    def score(self, record: Record) -> Score:
        """Score a finished episode.

        Payments for the whole episode count on the last turn; an episode without turns has an empty ``reward_T``, and
        its payments stand in the ledger only. The score is unusable, and ``problem`` says why, if the ending is an
        error, if an outcome component has no verdict, or if a gate lacks evidence that it needs. Raises ValueError for
        evidence that is NaN or infinite at any depth, and for a verdict outside its component's range, naming the
        component or gate, task, trajectory and turn.

        An episode that the agent broke gets the worst score, whatever its evidence says: the worst verdict of every
        outcome and penalty, and nothing for the process.
        """
        draft = self._earn(record)
        if isinstance(draft, Score):
            return draft
        for gate in self.gates:
            gate.apply(draft)
        return _finish(record, draft, self._late)

    def _earn(self, record: Record, trajectory: str = "") -> Draft | Score:
        """The earnings before any gate, or the score of an unusable episode."""
        if record.ending is not FINISHED and not record.ending.usable:  # the common case costs no property
            return _unusable(record, f"the episode ended by {record.ending.value}")
        if record.ending is AGENT_FAULT:
            return _worst(record, self.rewards)
        draft = Draft(Facts(record, self.readers, trajectory))
        for reward in self.rewards:
            try:
                readings = reward.readings(draft.facts)
                earned = self._add(draft, reward, readings)
            except (TypeError, AttributeError, ValueError):
                reward.refuse_form(draft.facts)
                raise
            if reward.kind == "outcome":
                if not earned:
                    names = ", ".join(f"'{name}'" for name in reward.reads)
                    return _unusable(record, f"outcome '{reward.name}' is not measured: evidence {names} is missing")
                if self.success is None:
                    solved = reward.solved(draft.facts, reward.overall(earned))
                    draft.success = None if solved is None or draft.success is None else solved and draft.success
            draft.readings[reward.name] = readings
        if self.success is not None:
            draft.success = self._solved(draft, self.success)
        return draft if draft.success is not None else _unusable(record, "whether it is a success was not measured")

    def _solved(self, draft: Draft, success: float | str) -> bool | None:
        """Whether the outcome reaches the number, or the fact of that name holds; None: not measured."""
        if not isinstance(success, str):
            return draft.outcome >= success - SUCCESS_SLACK
        found = draft.facts.verdicts(success)
        return bool(found[-1][1] >= 1.0 - SUCCESS_SLACK) if found else None

    def _add(self, draft: Draft, reward: Reward, readings: list[Verdict]) -> list[Line]:
        """Put into the draft what a component earns by its readings."""
        earned = reward.lines(reward.judged(without_missing(readings), draft.facts), draft.facts)
        if reward.kind == "outcome":
            draft.outcome += sum([line.paid for line in earned])
        if earned and reward.name in self._compared:
            draft.scores[reward.name] = reward.overall(earned)
        draft.lines += earned
        return earned

    def certain(self, record: Record) -> float:
        """The part of an unfinished episode's reward that nothing later can take back: sums that no gate touches."""
        if not self._certain:
            return 0.0
        facts = Facts(record, self.readers)
        return sum(line.paid for reward in self._certain for line in reward.earn(facts))

    def score_records(
        self,
        records: Sequence[Record],
        step: int = 0,
        names: Sequence[str] | None = None,
        cohorts: Sequence[object] | None = None,
    ) -> tuple[Score, ...]:
        """Score the episodes of one group together, for gates that compare siblings and for verdicts that are missing.

        ``step``: the training step, for gates that are annealed. ``names``: ids of the trajectories, for error
        messages. ``cohorts``: who is compared with whom (``Trajectory.cohort``); left out, all with each other.
        Unusable siblings are left out of every comparison. Without gates that compare siblings and without missing
        verdicts, the scores are those of ``score``. Raises what ``score`` raises.
        """
        ids = [""] * len(records) if names is None else names
        drafts = [self._earn(record, name) for record, name in zip(records, ids, strict=True)]
        self._gate([draft for draft in drafts if isinstance(draft, Draft)], step)
        scores = [_finish(record, draft, self._late) for record, draft in zip(records, drafts, strict=True)]
        if any(score.missing for score in scores):
            self._fill(drafts, scores, [None] * len(records) if cohorts is None else cohorts, step)
        return tuple(scores)

    def _gate(self, drafts: Sequence[Draft], step: int) -> None:
        for gate in self.gates:
            gate.apply_group(drafts, step)
            drafts = [draft for draft in drafts if not draft.problem]

    def _fill(self, drafts: Sequence[Draft | Score], scores: list[Score], cohorts: Sequence[object], step: int) -> None:
        """Give each score that lacks verdicts the one by which its episode is compared (``Score.filled``).

        The rubric is applied once more, gates and all, with the siblings' mean in the place of missing readings.
        """
        of_cohort: dict[object, list[Draft]] = {}
        for draft, cohort in zip(drafts, cohorts, strict=True):
            if isinstance(draft, Draft) and not draft.problem:
                of_cohort.setdefault(cohort, []).append(draft)
        had = {
            cohort: {
                reward.name: SiblingMeans([draft.readings[reward.name] for draft in some]) for reward in self.rewards
            }
            for cohort, some in of_cohort.items()
        }
        again: dict[int, Draft] = {}
        filled: list[int] = []
        for row, (draft, cohort) in enumerate(zip(drafts, cohorts, strict=True)):
            if isinstance(draft, Draft):
                again[row], is_filled = self._earn_filled(draft, had.get(cohort, {}))
                filled += [row] * is_filled
        self._gate(list(again.values()), step)
        for row in filled:
            scores[row] = replace(scores[row], filled=_settle(again[row], self._late))

    def _earn_filled(self, before: Draft, had: Mapping[str, SiblingMeans]) -> tuple[Draft, bool]:
        """The earnings before any gate, with the siblings' means in place of missing readings; whether any are
        missing."""
        draft, any_filled = Draft(before.facts), False
        draft.readings, draft.success = before.readings, before.success
        for reward in self.rewards:
            readings = before.readings[reward.name]
            if reward.kind != "outcome" and reward.name in had and is_missing(readings):
                readings, filled = had[reward.name].fill(
                    readings, per_turn=reward.per_turn, n_turns=draft.facts.n_turns
                )
                any_filled |= filled
            self._add(draft, reward, readings)
        return draft, any_filled

    def score_group(self, group: Group, step: int = 0) -> ScoredGroup:
        """Score the trajectories of a group together, as ``score_records`` does. Errors name the trajectory."""
        played = group.trajectories
        scores = self.score_records(
            [one.record() for one in played], step, [one.id for one in played], [one.cohort for one in played]
        )
        return ScoredGroup(task=group.task, trajectories=played, scores=scores)

    def account(self, scores: Iterable[Score]) -> dict[str, GateAccount]:
        """The effect of each gate on these scores, by its name. Unusable scores have empty ledgers and add nothing."""
        events = [event for score in scores for event in score.ledger]
        order = {gate.name: position for position, gate in enumerate(self.gates)}
        return {gate.name: _account(gate, order, events) for gate in self.gates}

    def check(self) -> Safety:
        """Prove, from the declared ranges, that process rewards cannot outrank the outcome. See ``safety.assess``."""
        return assess(self.rewards, self.gates)


def _finish(record: Record, draft: Draft | Score, late: frozenset[str]) -> Score:
    if isinstance(draft, Score):
        return draft
    return _unusable(record, draft.problem) if draft.problem else _settle(draft, late)


def _settle(draft: Draft, late: frozenset[str]) -> Score:
    """Payments on their turns; those without a turn and those of components in ``late`` on the last one."""
    n_turns = draft.facts.n_turns
    reward_T = [0.0] * n_turns
    if n_turns:
        last = n_turns - 1
        for line in draft.lines:
            turn = line.turn
            place = last if turn is None or line.name in late else turn
            reward_T[place] += line.value * line.weight * line.share * line.factor
    return Score(
        ledger=tuple([line.event() for line in draft.lines]),
        reward_T=np.array(reward_T, np.float32),
        outcome=draft.outcome,
        usable=True,
        success=draft.success,
        missing=tuple([name for name, readings in draft.readings.items() if is_missing(readings)]),
    )


def _worst(record: Record, rewards: Sequence[Reward]) -> Score:
    """The score of an episode that the agent broke: every outcome and penalty at its worst, on the last turn."""
    ledger = tuple(
        RewardEvent(
            name=reward.name,
            kind=reward.kind,
            turn=None,
            value=reward.low if reward.weight >= 0 else reward.high,
            weight=reward.weight,
        )
        for reward in rewards
        if reward.kind != "process"
    )
    reward_T = np.zeros(record.n_turns, np.float32)
    if record.n_turns:
        reward_T[-1] = sum(event.paid for event in ledger)
    outcome = sum(event.earned for event in ledger if event.kind == "outcome")
    return Score(ledger=ledger, reward_T=reward_T, outcome=outcome, usable=True, success=False)


def _unusable(record: Record, problem: str) -> Score:
    return Score(ledger=(), reward_T=np.zeros(record.n_turns, np.float32), outcome=None, usable=False, problem=problem)


def _account(gate: Gate, order: Mapping[str, int], events: Sequence[RewardEvent]) -> GateAccount:
    raw = paid = 0.0
    n_events = n_closed = n_cut = 0
    place = order[gate.name]
    for event in events:
        if event.name == gate.name:  # the floor of a veto: paid by it, earned by no reward
            paid += event.paid
        if event.name in order or not gate.touches(event.name, event.kind):
            continue
        if event.factor == 0.0 and order[event.gate] < place:
            continue
        raw, paid, n_events = raw + event.earned, paid + event.paid, n_events + 1
        n_closed += event.gate == gate.name and event.factor == 0.0
        n_cut += event.gate == gate.name and event.factor != 0.0
    return GateAccount(raw=raw, paid=paid, n_events=n_events, n_closed=n_closed, n_cut=n_cut)
