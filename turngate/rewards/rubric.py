"""The rubric: rewards say what was earned, gates what is paid, settling puts it on turns.

    record → earn → gates in declared order → settle → Score

Everything here is a pure function of recorded evidence, so a stored episode can be scored again without a model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, SerializeAsAny

from turngate.errors import ConfigError
from turngate.rewards.parts import Draft, Facts, Gate, Reward, Verdict
from turngate.rewards.safety import Safety, assess
from turngate.types import Group, Record, RewardEvent, Score, ScoredGroup


class FromEvidence(Reward):
    """Earns the value of one named piece of evidence, a bool or a number in [low, high]."""

    type: Literal["from_evidence"] = "from_evidence"
    evidence: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The one name."""
        return (self.evidence,)

    def verdicts(self, facts: Facts) -> list[Verdict]:
        """What was measured under that name."""
        return facts.verdicts(self.evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateAccount:
    """What one gate did over many episodes, counted in payments that reached it (not closed by an earlier gate).

    ``raw`` was earned, ``paid`` is what was left in the end, a veto's floor included; ``n_cut`` counts part payments.
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
    """Rewards and gates of a task family.

    Raises at construction: ConfigError for two parts of one name, no outcome component or a gate without effect;
    UnknownName (with the closest name) for a gate on an unknown component or an unknown ``type``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    rewards: tuple[Annotated[SerializeAsAny[Reward], BeforeValidator(Reward.load)], ...]
    gates: tuple[Annotated[SerializeAsAny[Gate], BeforeValidator(Gate.load)], ...] = ()

    def model_post_init(self, context: Any) -> None:
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

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with changes, checked like a new rubric."""
        return type(self)(**{"rewards": self.rewards, "gates": self.gates, **(update or {})})

    @cached_property
    def _reads(self) -> frozenset[str]:
        rewards = {name for reward in self.rewards for name in reward.reads}
        return frozenset(rewards.union(*(gate.reads for gate in self.gates)))

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
        """Settle a finished record.

        Payments without a turn land on the last turn; an episode without turns has an empty ``reward_T`` and its
        payments stand in the ledger only. The score is unusable, with ``problem`` saying why, if the ending is, if an
        outcome component has no verdict or if a gate lacks evidence that it cannot do without. Raises ValueError for
        evidence that is no finite number within its component's range, naming component, task and turn.
        """
        if not record.ending.usable:
            return _unusable(record, f"the episode ended by {record.ending.value}")
        draft = Draft(Facts(record, self._reads))
        for reward in self.rewards:
            earned = reward.earn(draft.facts)
            if reward.kind == "outcome":
                if not earned:
                    names = ", ".join(f"'{name}'" for name in reward.reads)
                    return _unusable(record, f"outcome '{reward.name}' is not measured: evidence {names} is missing")
                draft.outcome += sum([line.paid for line in earned])
            draft.lines += earned
        for gate in self.gates:
            gate.apply(draft)
        return _unusable(record, draft.problem) if draft.problem else _settle(draft)

    def certain(self, record: Record) -> float:
        """What no later event can take back in an unfinished record: per-turn sums that no gate touches."""
        if not self._certain:
            return 0.0
        facts = Facts(record, self._reads)
        return sum(line.paid for reward in self._certain for line in reward.earn(facts))

    def score_group(self, group: Group) -> ScoredGroup:
        """Score every trajectory of a group."""
        scores = tuple(self.score(trajectory.record()) for trajectory in group.trajectories)
        return ScoredGroup(task=group.task, trajectories=group.trajectories, scores=scores)

    def account(self, scores: Iterable[Score]) -> dict[str, GateAccount]:
        """Per gate: earned, paid, closed and cut. Unusable scores have empty ledgers and add nothing."""
        events = [event for score in scores for event in score.ledger]
        order = {gate.name: position for position, gate in enumerate(self.gates)}
        return {gate.name: _account(gate, order, events) for gate in self.gates}

    def check(self, levels: Sequence[float] | None = None) -> Safety:
        """Whether process rewards can outrank the outcome, over all declared ranges. See ``safety.assess``."""
        return assess(self.rewards, self.gates, levels)


def _settle(draft: Draft) -> Score:
    n_turns = draft.facts.n_turns
    reward_T = [0.0] * n_turns
    if n_turns:
        for line in draft.lines:
            reward_T[n_turns - 1 if line.turn is None else line.turn] += line.paid
    return Score(
        ledger=tuple([line.event() for line in draft.lines]),
        reward_T=np.array(reward_T, np.float32),
        outcome=draft.outcome,
        usable=True,
    )


def _unusable(record: Record, problem: str) -> Score:
    return Score(ledger=(), reward_T=np.zeros(record.n_turns, np.float32), outcome=None, usable=False, problem=problem)


def _account(gate: Gate, order: Mapping[str, int], events: Sequence[RewardEvent]) -> GateAccount:
    raw = paid = 0.0
    n_events = n_closed = n_cut = 0
    place = order[gate.name]
    for event in events:
        if event.name == gate.name:  # the floor of a veto: paid by it, earned by nobody
            paid += event.paid
        if event.name in order or not gate.touches(event.name, event.kind):
            continue
        if event.factor == 0.0 and order[event.gate] < place:
            continue
        raw, paid, n_events = raw + event.earned, paid + event.paid, n_events + 1
        n_closed += event.gate == gate.name and event.factor == 0.0
        n_cut += event.gate == gate.name and event.factor != 0.0
    return GateAccount(raw=raw, paid=paid, n_events=n_events, n_closed=n_closed, n_cut=n_cut)
