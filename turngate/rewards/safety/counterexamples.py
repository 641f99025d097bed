"""Imagined episodes at the extremes of what a rubric allows, which ``safety`` shows as counter-examples.

They are made as records of evidence and paid by the rubric's own gates. Every component gives the verdicts of
``Reward.imagined``, in general the same in every turn. That is enough, because within a scene the extremes lie at the
ends of the ranges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from turngate.rewards.gates.base import Gate
from turngate.rewards.parts import SLACK, Condition, Draft, Facts, Line, Reward, Verdict
from turngate.rewards.safety.ranges import Scene
from turngate.rewards.safety.regions import cells, outcome_spans, weighted_values
from turngate.types import Ending, Evidence, Record

Truth: TypeAlias = bool | frozenset[int | None]
"""Whether a fact is true of every turn and of the episode (True), of none (False), or of all but these turns (a
set)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImaginedEpisode:
    """An imagined episode. ``n_verdicts``: of each component with agg "sum"; ``paid``: by component.

    ``record`` earns it, except by a component that reads its evidence in a way of its own and does not say so in
    ``Reward.evidence_of``. Gates that compare siblings are taken where they pay most (``Gate.imagine``).
    """

    outcome: float
    process: float
    penalty: float
    total: float
    n_verdicts: int
    record: Record
    paid: Mapping[str, float]
    story: str
    vetoed_by: str = ""

    def __str__(self) -> str:
        if self.vetoed_by:
            return f"an episode closed by {self.vetoed_by} ({self.total:g})"
        parts = f"outcome {self.outcome:g}, process {self.process:+g}, penalties {self.penalty:+g}"
        return f"an episode with {parts} ({self.total:g} in all, {self.n_verdicts} verdicts)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """A condition of a gate that an episode can meet or just miss: a threshold of a component, or a fact."""

    gate: str
    what: str
    condition: Condition | None = None
    met: float = 0.0
    missed: float = 0.0
    evidence: str = ""
    good: bool = True

    def possible(self, scene: Scene) -> bool:
        """Whether ``scene`` is on the side where the flip is met, so that each pair is staged once."""
        if self.condition is not None:
            cell = scene.cells[self.condition.component]
            return cell is not None and cell[0] == self.met
        return True


def flips(rewards: Sequence[Reward], gates: Sequence[Gate]) -> list[Flip]:
    """Every condition on a process or penalty component and every fact that a gate acts on."""
    found = []
    optional = {reward.name: reward for reward in rewards if reward.kind != "outcome"}
    for gate in gates:
        for evidence, good in gate.openers:
            found.append(Flip(gate=gate.name, what=_in_words(evidence, good), evidence=evidence, good=good))
        for condition in gate.conditions:
            if condition.component not in optional:
                continue
            steps = [cell for cell in cells(optional[condition.component], gates) if cell is not None]
            for below, above in pairwise(steps):
                if condition.is_met(above[0]) and not condition.is_met(below[0]):
                    found.append(
                        Flip(
                            gate=gate.name,
                            what=str(condition),
                            condition=condition,
                            met=above[0],
                            missed=below[1],
                        )
                    )
    return found


def stage(rewards: Sequence[Reward], gates: Sequence[Gate], scene: Scene, n: int, *, best: bool) -> ImaginedEpisode:
    """The episode with ``n`` verdicts per turn that is paid most, or least, in a scene."""
    values = _outcomes(rewards, scene)
    for reward in rewards:
        if reward.kind != "outcome":
            values[reward.name] = _extreme(reward, scene, best)
    ways = {reward.name: _imagined(reward, values[reward.name], n) for reward in rewards}
    runs = []
    for way in range(max(map(len, ways.values()))):
        verdicts = {name: found[min(way, len(found) - 1)] for name, found in ways.items()}
        truths = _helpful(rewards, gates, verdicts, best)
        runs.append(_play(rewards, gates, scene, n, verdicts, truths))
    return (max if best else min)(runs, key=lambda run: run.total)


def stage_veto(rewards: Sequence[Reward], gates: Sequence[Gate], scene: Scene, n: int, gate: Gate) -> ImaginedEpisode:
    """An episode in which nothing happened but the act that ``gate`` forbids."""
    values = _outcomes(rewards, scene)
    verdicts = {reward.name: _imagined(reward, values.get(reward.name), n)[0] for reward in rewards}
    return _play(rewards, gates, scene, n, verdicts, dict.fromkeys(gate.reads, True), vetoed_by=gate.name)


def stage_flip(
    rewards: Sequence[Reward], gates: Sequence[Gate], flip: Flip, scene: Scene, *, best: bool, strength: float
) -> tuple[ImaginedEpisode, ImaginedEpisode]:
    """An episode that meets the flip and the same that just misses it.

    Components that the flip can change earn most, or least, times ``strength``: a limit may hide a large difference.
    Everything else earns as little as the scene and the facts that other gates want allow.
    """
    touching = [gate for gate in gates if gate.name == flip.gate or flip.evidence in gate.reads]
    values = _outcomes(rewards, scene)
    for reward in rewards:
        if reward.kind == "outcome":
            continue
        cell = scene.cells.get(reward.name)
        if any(gate.touches(reward.name, reward.kind) for gate in touching):
            value = _extreme(reward, scene, best)
            low, high = cell or (reward.low, reward.high)
            values[reward.name] = None if value is None else min(max(value * strength, low), high)
        else:
            values[reward.name] = None if cell is None else min(cell, key=abs)
    truths: dict[str, Truth] = {e: good for gate in gates for e, good in gate.openers if e not in gate.states}
    for reward in rewards:
        if any(truths.get(name) for name in reward.reads) and values[reward.name] is None:
            values[reward.name] = _least_true(reward)
    if flip.condition is not None:
        name = flip.condition.component
        return _twins(
            rewards, gates, scene, (values | {name: flip.met}, truths), (values | {name: flip.missed}, truths)
        )
    earning = [r for r in rewards if r.kind != "outcome" and flip.evidence in r.reads]
    with_it = values | {reward.name: _least_true(reward) for reward in earning}
    without = values | {reward.name: None for reward in earning}
    on, off = truths | {flip.evidence: True}, truths | {flip.evidence: False}
    runs = _twins(rewards, gates, scene, (with_it, on), (without, off))
    return runs if flip.good else runs[::-1]


Values: TypeAlias = Mapping[str, float | None]


def _twins(
    rewards: Sequence[Reward],
    gates: Sequence[Gate],
    scene: Scene,
    one: tuple[Values, Mapping[str, Truth]],
    other: tuple[Values, Mapping[str, Truth]],
) -> tuple[ImaginedEpisode, ImaginedEpisode]:
    first, second = (
        _play(rewards, gates, scene, 1, {r.name: _imagined(r, values[r.name], 1)[0] for r in rewards}, truths)
        for values, truths in (one, other)
    )
    return first, second


def _imagined(reward: Reward, value: float | None, n: int) -> list[list[Verdict]]:
    return [[]] if value is None else reward.imagined(value, n)


def _least_true(reward: Reward) -> float:
    """The smallest verdict that is true in Python's sense, for facts from which a component earns."""
    if reward.low > 0:
        return reward.low
    return min(reward.high, SLACK) if reward.high > 0 else max(reward.low, -SLACK)


def _extreme(reward: Reward, scene: Scene, best: bool) -> float | None:
    """The verdict that is paid most or least; None, no verdict, where that is better or worse than any."""
    if reward.name in scene.cells:
        cell = scene.cells[reward.name]
        if cell is None:
            return None
        return (max if best else min)(cell, key=lambda value: reward.weight * value)
    ends = (reward.low, reward.high)
    value = (max if best else min)(ends, key=lambda value: reward.weight * value)
    amount = reward.weight * value
    return value if (amount > 0 if best else amount < 0) else None


def _helpful(
    rewards: Sequence[Reward], gates: Sequence[Gate], verdicts: Mapping[str, Sequence[Verdict]], best: bool
) -> dict[str, Truth]:
    """For each fact that opens payments, where it should be true for the total to be extreme."""
    worth = dict[str, Counter[int | None]]()
    for gate in gates:
        touched = [r for r in rewards if r.kind != "outcome" and gate.touches(r.name, r.kind)]
        for evidence, good in gate.openers:
            if evidence not in gate.states:
                turns = worth.setdefault(evidence, Counter())
                for reward in touched:
                    own = verdicts[reward.name]
                    for turn, value in own:
                        amount = reward.weight * value / (len(own) if reward.agg == "mean" else 1)
                        turns[turn] += amount if good is best else -amount
    truths = dict[str, Truth]()
    for evidence, turns in worth.items():
        hurts = frozenset(turn for turn, amount in turns.items() if amount < 0)
        truths[evidence] = True if not hurts else hurts if len(hurts) < len(turns) else False
    return truths


def _outcomes(rewards: Sequence[Reward], scene: Scene) -> dict[str, float | None]:
    """Verdicts of the outcome components, within their cells, that add up to the outcome of the scene."""
    outcomes = [reward for reward in rewards if reward.kind == "outcome"]
    values, left = dict[str, float | None](), scene.outcome
    for place, reward in enumerate(outcomes, start=1):
        cell = scene.cells.get(reward.name) or (reward.low, reward.high)
        rest = outcome_spans(outcomes[place:], scene.cells)
        amount = next(
            max(low, left - most)
            for low, high in weighted_values(reward, cell)
            for least, most in rest
            if max(low, left - most) <= min(high, left - least) + SLACK
        )
        left -= amount
        value = min(max(amount / reward.weight if reward.weight else cell[0], cell[0]), cell[1])
        levels = reward.attainable or (value,)
        values[reward.name] = min(levels, key=lambda level: abs(level - value))
    return values


def _play(
    rewards: Sequence[Reward],
    gates: Sequence[Gate],
    scene: Scene,
    n: int,
    verdicts: Mapping[str, list[Verdict]],
    truths: Mapping[str, Truth],
    vetoed_by: str = "",
) -> ImaginedEpisode:
    facts: dict[str, Truth] = {state: state in scene.facts for gate in gates for state in gate.states}
    facts.update(truths)
    record = _record(rewards, verdicts, facts, n)
    draft = Draft(Facts(record, {fact.name: () for fact in record.evidence}))
    for reward in rewards:
        lines = _earned(reward, verdicts[reward.name], draft.facts)
        draft.lines += lines
        if lines:
            draft.scores[reward.name] = reward.overall(lines)
        if reward.kind == "outcome":
            draft.outcome += sum(line.paid for line in lines)
    for gate in gates:
        gate.imagine(draft)
    paid = dict[str, float]()
    kinds = {"outcome": 0.0, "process": 0.0, "penalty": 0.0}
    for line in draft.lines:
        paid[line.name] = paid.get(line.name, 0.0) + line.paid
        kinds[line.kind] += line.paid
    return ImaginedEpisode(
        outcome=draft.outcome,
        process=kinds["process"],
        penalty=kinds["penalty"],
        total=sum(kinds.values()),
        n_verdicts=n,
        record=record,
        paid=paid,
        story=_story(rewards, verdicts, facts, sum(kinds.values())),
        vetoed_by=vetoed_by,
    )


def _earned(reward: Reward, verdicts: list[Verdict], facts: Facts) -> list[Line]:
    """Earnings of the record, or of the verdicts where a component cannot read the evidence that was guessed."""
    try:
        lines = reward.earn(facts)
    except ValueError:
        lines = []
    return lines or reward.lines(verdicts, facts)


def _record(
    rewards: Sequence[Reward], verdicts: Mapping[str, list[Verdict]], facts: Mapping[str, Truth], n: int
) -> Record:
    """Facts that a component earns from are left to the component."""
    n_turns = max(n, *(reward.turns_of(verdicts[reward.name]) for reward in rewards))
    evidence = [fact for reward in rewards for fact in reward.evidence_of(verdicts[reward.name])]
    earning = {name for reward in rewards for name in reward.reads}
    for name, truth in facts.items():
        if name not in earning and truth is not False:
            turns = [turn for turn in (*range(n_turns), None) if truth is True or turn not in truth]
            evidence += [Evidence(name=name, value=True, turn=turn) for turn in turns]
    return Record(task_id="imagined", n_turns=n_turns, ending=Ending.FINISHED, evidence=tuple(evidence))


def _story(
    rewards: Sequence[Reward],
    verdicts: Mapping[str, Sequence[Verdict]],
    facts: Mapping[str, Truth],
    total: float,
) -> str:
    """The episode in a line: verdicts and facts."""
    words = []
    for reward in rewards:
        values = [value for _, value in verdicts[reward.name]]
        if values:
            shown = " and ".join(f"{value:.10g}" for value in dict.fromkeys(values))
            often = f" ×{len(values)}" if len(values) > 1 and reward.agg == "sum" and reward.kind != "outcome" else ""
            words.append(f"{reward.name}={shown}{often}")
    for name, truth in facts.items():
        words.append(_in_words(name, truth) if isinstance(truth, bool) else f"'{name}' but in {len(truth)} turns")
    return f"[{', '.join(words)}] = {total:g}"


def _in_words(evidence: str, truth: bool) -> str:
    return f"'{evidence}'" if truth else f"no '{evidence}'"
