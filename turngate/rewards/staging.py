"""Imagined episodes at the extremes of what a rubric declares, staged as records and paid by its own gates.

``safety`` shows them as counter-examples. Every component gives the same verdict in every turn, which is enough: within
a scene the extremes lie at the ends of the ranges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from turngate.rewards.parts import SLACK, Condition, Draft, Facts, Gate, Reward, Verdict
from turngate.rewards.ranges import Scene, cells, weighted
from turngate.types import Ending, Evidence, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """An imagined episode. ``n_verdicts``: of each component with agg "sum"; ``paid``: by component.

    ``record`` earns it if every component reads its verdicts under the first name that it reads, as ``FromEvidence``
    does. Gates that compare siblings are taken where they pay most (``Gate.imagine``).
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
    """Something that a gate is there for, met and just missed: a condition on a component, or a fact."""

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
            found.append(Flip(gate=gate.name, what=_said(evidence, good), evidence=evidence, good=good))
        for condition in gate.conditions:
            if condition.component not in optional:
                continue
            steps = [cell for cell in cells(optional[condition.component], gates) if cell is not None]
            for below, above in pairwise(steps):
                if condition.met(above[0]) and not condition.met(below[0]):
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


def stage(rewards: Sequence[Reward], gates: Sequence[Gate], scene: Scene, n: int, *, best: bool) -> Run:
    """The episode of ``n`` turns that is paid most, or least, in a scene."""
    values = _outcomes(rewards, scene)
    for reward in rewards:
        if reward.kind != "outcome":
            values[reward.name] = _extreme(reward, scene, best)
    return _play(rewards, gates, scene, n, values, _helpful(rewards, gates, values, best))


def stage_veto(rewards: Sequence[Reward], gates: Sequence[Gate], scene: Scene, n: int, gate: Gate) -> Run:
    """An episode in which nothing happened but the act that ``gate`` forbids."""
    values = _outcomes(rewards, scene)
    values |= {reward.name: None for reward in rewards if reward.kind != "outcome"}
    return _play(rewards, gates, scene, n, values, dict.fromkeys(gate.reads, True), vetoed_by=gate.name)


def stage_flip(
    rewards: Sequence[Reward], gates: Sequence[Gate], flip: Flip, scene: Scene, *, best: bool
) -> tuple[Run, Run]:
    """An episode that meets the flip and the same that just misses it.

    What the flip can change earns most, or least; everything else earns as little as the scene allows.
    """
    touching = [gate for gate in gates if gate.name == flip.gate or flip.evidence in gate.reads]
    values = _outcomes(rewards, scene)
    for reward in rewards:
        if reward.kind == "outcome":
            continue
        if any(gate.touches(reward.name, reward.kind) for gate in touching):
            values[reward.name] = _extreme(reward, scene, best)
        else:
            cell = scene.cells.get(reward.name)
            values[reward.name] = None if cell is None else min(cell, key=abs)
    truths = {evidence: good for gate in gates for evidence, good in gate.openers if evidence not in gate.states}
    if flip.condition is not None:
        name = flip.condition.component
        met, missed = values | {name: flip.met}, values | {name: flip.missed}
        return _play(rewards, gates, scene, 1, met, truths), _play(rewards, gates, scene, 1, missed, truths)
    on, off = truths | {flip.evidence: True}, truths | {flip.evidence: False}
    earning = [r for r in rewards if r.kind != "outcome" and flip.evidence in r.reads]
    with_it = values | {reward.name: _least_true(reward) for reward in earning}
    without = values | {reward.name: None for reward in earning}
    runs = (
        _play(rewards, gates, scene, 1, with_it, on),
        _play(rewards, gates, scene, 1, without, off),
    )
    return runs if flip.good else runs[::-1]


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
    rewards: Sequence[Reward], gates: Sequence[Gate], values: Mapping[str, float | None], best: bool
) -> dict[str, bool]:
    """For each fact that opens payments, whether it should be true for the total to be extreme."""
    truths = dict[str, bool]()
    for gate in gates:
        hurts = False
        for reward in rewards:
            value = values[reward.name]
            if reward.kind != "outcome" and value is not None and gate.touches(reward.name, reward.kind):
                amount = reward.weight * value
                hurts |= amount < 0 if best else amount > 0
        for evidence, good in gate.openers:
            if evidence not in gate.states:
                truths[evidence] = good is not hurts and truths.get(evidence, True)
    return truths


def _outcomes(rewards: Sequence[Reward], scene: Scene) -> dict[str, float | None]:
    """Verdicts of the outcome components, within their cells, that add up to the outcome of the scene."""
    outcomes = [reward for reward in rewards if reward.kind == "outcome"]
    spans = {reward.name: weighted(reward, scene.cells.get(reward.name)) for reward in outcomes}
    left = scene.outcome - sum(low for low, _ in spans.values())
    values = dict[str, float | None]()
    for reward in outcomes:
        low, high = spans[reward.name]
        more = min(max(left, 0.0), high - low)
        left -= more
        value = (low + more) / reward.weight if reward.weight else reward.low
        cell = scene.cells.get(reward.name) or (reward.low, reward.high)
        values[reward.name] = min(max(value, cell[0]), cell[1])
    return values


def _play(
    rewards: Sequence[Reward],
    gates: Sequence[Gate],
    scene: Scene,
    n: int,
    values: Mapping[str, float | None],
    truths: Mapping[str, bool],
    vetoed_by: str = "",
) -> Run:
    verdicts = {reward.name: _verdicts(reward, values[reward.name], n) for reward in rewards}
    facts = {state: state in scene.facts for gate in gates for state in gate.states} | dict(truths)
    record = _record(rewards, verdicts, [name for name, value in facts.items() if value], n)
    draft = Draft(Facts(record, {fact.name: () for fact in record.evidence}))
    for reward in rewards:
        lines = reward.lines(verdicts[reward.name], draft.facts)
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
    return Run(
        outcome=scene.outcome,
        process=kinds["process"],
        penalty=kinds["penalty"],
        total=sum(kinds.values()),
        n_verdicts=n,
        record=record,
        paid=paid,
        story=_story(rewards, values, facts, n, sum(kinds.values())),
        vetoed_by=vetoed_by,
    )


def _verdicts(reward: Reward, value: float | None, n: int) -> list[Verdict]:
    if value is None:
        return []
    turns = range(n) if reward.kind != "outcome" or reward.agg != "sum" else range(1)
    if reward.per_turn:
        return [(turn, value) for turn in turns]
    return [(None, value) for _ in (turns if reward.agg == "sum" else range(1))]


def _record(rewards: Sequence[Reward], verdicts: Mapping[str, list[Verdict]], facts: Sequence[str], n: int) -> Record:
    """Facts that a component earns from are left to the component."""
    evidence = [fact for reward in rewards for fact in reward.evidence_of(verdicts[reward.name])]
    earning = {name for reward in rewards for name in reward.reads}
    turns = (*range(n), None)
    evidence += [Evidence(name=name, value=True, turn=t) for name in facts if name not in earning for t in turns]
    return Record(task_id="imagined", n_turns=n, ending=Ending.FINISHED, evidence=tuple(evidence))


def _story(
    rewards: Sequence[Reward], values: Mapping[str, float | None], facts: Mapping[str, bool], n: int, total: float
) -> str:
    """What happens, in a line: verdicts and facts."""
    words = []
    for reward in rewards:
        value = values[reward.name]
        if value is not None:
            often = f" ×{n}" if n > 1 and reward.agg == "sum" and reward.kind != "outcome" else ""
            words.append(f"{reward.name}={value:.10g}{often}")
    words += [_said(name, truth) for name, truth in facts.items()]
    return f"[{', '.join(words)}] = {total:g}"


def _said(evidence: str, truth: bool) -> str:
    return f"'{evidence}'" if truth else f"no '{evidence}'"
