"""A search at random for episodes that contradict what ``Rubric.check`` says about a rubric."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.rewards.shipped import FORMULAS
from turngate.errors import ConfigError
from turngate.rewards import (
    BestSoFar,
    BottomLine,
    Budget,
    CapProcess,
    Conditional,
    EventCost,
    FromEvidence,
    Gate,
    Hierarchical,
    InformationGain,
    LengthCost,
    NeedsOutcome,
    Once,
    Repetition,
    Requires,
    Reward,
    Rubric,
    Safety,
    Soft,
    SuccessOnly,
    Trust,
    UnitTests,
    Veto,
)
from turngate.types import Ending, Evidence, Record, Score

TIE = 1e-6
FACTS = ("ok", "answered", "malformed", "wrote")
ENDINGS = [ending for ending in Ending if ending.usable and ending is not Ending.AGENT_FAULT]
"""Of episodes that were played: one that the agent broke is paid the worst, whatever gates say."""
EXACT = 1e-9
"""What a test may give for rounding."""

# --- rubrics ---------------------------------------------------------------------------------------------------------


def outcomes(rng: np.random.Generator) -> list[Reward]:
    """One outcome, or two: yes or no, a ladder, a share of tests, or any value."""
    kinds: list[dict[str, Any]] = [
        {"levels": (0, 1)},
        {"levels": (0, 1)},
        {"levels": (0, 0.5, 1)},
        {"levels": (-1, -0.5, 0, 1), "low": -1.0},
        {},
        {"low": -1.0},
    ]

    def one(name: str, weight: float) -> Reward:
        if rng.random() < 0.2:
            return UnitTests(name=name, evidence=f"{name}_tests", weight=weight, soft=bool(rng.integers(2)))
        return FromEvidence(name=name, evidence=name, kind="outcome", weight=weight, **kinds[rng.integers(len(kinds))])

    weights = [1.0] if rng.random() < 0.75 else [0.5, 0.5] if rng.random() < 0.5 else [0.7, 0.3]
    return [one(name, weight) for name, weight in zip(("won", "won2"), weights, strict=False)]


def reward(kind: str, name: str, rng: np.random.Generator) -> Reward:
    """A process or penalty component of a type, with settings at random."""
    weight = float(rng.choice([0.02, 0.1, 0.3, 0.9]))
    if kind == "from_evidence":
        low, high = [(0.0, 1.0), (-1.0, 1.0), (-1.0, 0.0), (0.25, 1.0), (-0.5, 2.0)][rng.integers(5)]
        weight *= rng.choice([1, 1, -1])
        is_penalty = max(weight * low, weight * high) <= 0 and rng.random() < 0.5
        return FromEvidence(
            name=name,
            evidence=name,
            kind="penalty" if is_penalty else "process",
            weight=weight,
            low=low,
            high=high,
            per_turn=bool(rng.integers(4)),
            agg=str(rng.choice(["mean", "mean", "sum", "last", "min", "max"])),  # type: ignore[arg-type]
        )
    if kind == "information_gain":
        settings = {"evidence": f"{name}_logprob", "start": f"{name}_logprob_start"}
        return InformationGain(name=name, weight=weight * rng.choice([1, 1, -1]), **settings)
    if kind == "event_cost":
        return EventCost(name=name, evidence=f"{name}_amount", weight=-weight, free=float(rng.integers(2)), budget=3)
    if kind == "repetition":
        state = f"{name}_state" if rng.random() < 0.3 else None
        return Repetition(name=name, evidence=f"{name}_key", weight=-weight, budget=2, state=state)
    if kind == "formula":
        made = FORMULAS[rng.integers(len(FORMULAS))]
        agg = str(rng.choice(["mean", "sum", "last", "min", "max"]))
        return made(name=name, kind="process", weight=weight * rng.choice([1, 1, -1]), agg=agg)
    measured: dict[str, Any] = [{}, {"only_if": "won"}, {"evidence": f"{name}_amount"}][rng.integers(3)]
    return LengthCost(name=name, weight=-weight, start=2, limit=6, **measured)


REWARDS = ("from_evidence", "formula", "event_cost", "repetition", "length_cost", "information_gain")


def gate(kind: str, on: str, others: Sequence[str], rng: np.random.Generator) -> Gate:
    """A gate of a type that acts on ``on``, with settings at random."""
    at_least = float(rng.choice([-0.5, 0.0, 0.3, 0.5, 1.0]))
    limit = float(rng.choice([0.05, 0.2, 0.5]))
    above = str(rng.choice(["won", "won", *(name for name in others if name != on)]))
    a, b, c, d = np.sort(rng.choice([0.0, 0.25, 0.5, 1.0], 4)).tolist() if rng.random() < 0.7 else rng.random(4)
    made: dict[str, Any] = {
        "veto": lambda: Veto(evidence="wrote", floor=float(rng.choice([-2.0, -1.0, -0.3]))),
        "requires": lambda: Requires(evidence=str(rng.choice(["ok", "ok", "won", *others])), on=on),
        "needs_outcome": lambda: NeedsOutcome(at_least=at_least),
        "success_only": lambda: SuccessOnly(at_least=1.0, on=(on,) if rng.random() < 0.5 else ()),
        "cap_process": lambda: CapProcess(limit=limit),
        "once": lambda: Once(on=on),
        "budget": lambda: Budget(on=on, limit=limit),
        "best_so_far": lambda: BestSoFar(on=on, start=float(rng.choice([0.0, 0.25]))),
        "hierarchical": lambda: Hierarchical(
            levels=((above,), (on,)), at_least=(at_least,), op=">" if rng.random() < 0.3 else ">="
        ),
        "conditional": lambda: Conditional(given=above, at_least=at_least, pays=(on,)),
        "bottom_line": lambda: BottomLine(constraints={above: at_least}, goals=(on,)),
        "soft": lambda: Soft(
            on=on,
            at_least=at_least,
            answered="answered",
            malformed="malformed",
            broken=a,
            unanswered=b,
            wrong=c,
            right=d,
        ),
        "trust": lambda: Trust(on=on, open_from=float(rng.choice([0.0, 0.2, 0.5]))),
    }
    made_gate: Gate = made[kind]()
    return made_gate


def rubric(rewards: Sequence[Reward], gates: Sequence[Gate]) -> Rubric | None:
    """The rubric, without the gates that it would refuse; None if that leaves none of them."""
    kept: list[Gate] = []
    for found in gates:
        try:
            Rubric(rewards=tuple(rewards), gates=(*kept, found))
        except (ConfigError, ValueError):
            continue
        kept.append(found)
    return Rubric(rewards=tuple(rewards), gates=tuple(kept)) if kept or not gates else None


def mixtures(rng: np.random.Generator, kinds: Sequence[str]) -> Iterator[Rubric]:
    """Small rubrics at random, endlessly: up to three components behind up to four gates of these types."""
    while True:
        names = ("a", "b", "c")[: rng.integers(1, 4)]
        rewards = outcomes(rng) + [reward(str(rng.choice(REWARDS)), name, rng) for name in names]
        drawn = [str(kind) for kind in rng.choice(kinds, rng.integers(0, 5))]
        gates = [gate(kind, str(rng.choice(names)), names, rng) for kind in drawn]
        found = rubric(rewards, gates)
        if found is not None:
            yield found


# --- episodes --------------------------------------------------------------------------------------------------------


def records(asked: Rubric, n: int, rng: np.random.Generator) -> list[Record]:
    """Episodes at random, most of them at the ends of what is declared; facts come and go with the verdicts."""
    return [record(asked, rng) for _ in range(n)]


def record(asked: Rubric, rng: np.random.Generator) -> Record:
    """One of them."""
    n_turns = int(rng.choice([1, 2, 3, 5, 9, 40], p=[0.1, 0.15, 0.2, 0.25, 0.2, 0.1]))
    facts: list[Evidence] = []
    for part in asked.rewards:
        facts += _outcome(part, rng) if part.kind == "outcome" else _process(part, n_turns, rng)
    for name in set(FACTS) & set(asked.readers):
        facts += _truths(name, facts, n_turns, rng)
    rng.shuffle(facts)  # type: ignore[arg-type]
    ending = ENDINGS[rng.integers(len(ENDINGS))]
    return Record(task_id="t", n_turns=n_turns, ending=ending, evidence=tuple(facts))


def _outcome(part: Reward, rng: np.random.Generator) -> list[Evidence]:
    values = part.attainable or (part.low, part.high, *rng.uniform(part.low, part.high, 3), *np.linspace(-1, 1, 9))
    value = float(rng.choice([v for v in values if part.low <= v <= part.high]))
    if rng.random() < 0.03:
        return [Evidence(name=part.reads[0], value=None)]
    return list(part.evidence_of([(None, value)]))


def _process(part: Reward, n_turns: int, rng: np.random.Generator) -> list[Evidence]:
    if rng.random() < 0.15:
        return []
    if part.type in ("event_cost", "length_cost"):
        amounts = rng.choice([0, 1, 2], n_turns, p=rng.dirichlet([1, 1, 1])).tolist()
        return [Evidence(name=f"{part.name}_amount", value=amount, turn=turn) for turn, amount in enumerate(amounts)]
    if part.type == "repetition":
        keys = rng.choice(["", "x", "y"], n_turns).tolist()
        states = [Evidence(name=f"{part.name}_state", value=str(rng.integers(2)), turn=t) for t in range(n_turns)]
        return [Evidence(name=f"{part.name}_key", value=key, turn=turn) for turn, key in enumerate(keys)] + states
    if part.type == "information_gain":
        beliefs = _pattern(0.02, 0.98, n_turns + 1, rng)
        logs = [None if belief is None else float(np.log(belief)) for belief in beliefs]
        after = [Evidence(name=part.reads[0], value=log, turn=turn) for turn, log in enumerate(logs[1:])]
        return [Evidence(name=part.reads[1], value=logs[0]), *after]
    turns = range(n_turns) if part.per_turn or rng.random() < 0.5 else [None]
    values = _pattern(part.low, part.high, len(turns), rng)
    return [Evidence(name=part.reads[0], value=value, turn=turn) for turn, value in zip(turns, values, strict=True)]


def _pattern(low: float, high: float, n: int, rng: np.random.Generator) -> list[float | None]:
    """Values in [low, high], some of them missing: at an end throughout, to and fro, or anything."""
    place = np.arange(n)
    ways = [np.full(n, low), np.full(n, high), np.where(place % 2, low, high), np.where(place % 2, high, low)]
    ways += [rng.choice([low, high], n), rng.uniform(low, high, n)]
    values = ways[rng.integers(len(ways))].tolist()
    missing = rng.random(n) < (0.3 if rng.random() < 0.2 else 0.0)
    return [None if gone else value for value, gone in zip(values, missing.tolist(), strict=True)]


def _truths(name: str, facts: Sequence[Evidence], n_turns: int, rng: np.random.Generator) -> list[Evidence]:
    """True nowhere, everywhere, at random or where some verdict rose or fell against the turn before."""
    turns = [*range(n_turns), None]
    way = str(rng.choice(["never", "always", "no", "any", "rose", "rose", "fell"]))
    if way == "never" or (name == "wrote" and rng.random() < 0.7):
        return []
    if way in ("always", "no"):
        return [Evidence(name=name, value=way == "always", turn=turn) for turn in turns]
    if way == "any":
        return [Evidence(name=name, value=bool(rng.integers(2)), turn=turn) for turn in turns]
    watched = str(rng.choice([fact.name for fact in facts]))
    values = {f.turn: f.value for f in facts if f.name == watched and isinstance(f.value, (int, float))}
    start = next((f.value for f in facts if f.name == f"{watched}_start" and f.value is not None), 0.0)
    rose = {turn: value > values.get(turn - 1, start) for turn, value in values.items() if turn is not None}
    return [Evidence(name=name, value=rose.get(turn, True) is (way == "rose"), turn=turn) for turn in turns]


# --- contradictions --------------------------------------------------------------------------------------------------


def contradictions(asked: Rubric, safety: Safety, played: Sequence[Record], step: int = 0) -> list[str]:
    """What ``safety`` says of the rubric and these episodes, as siblings, do not confirm."""
    scored = [score for score in asked.score_records(played, step) if score.usable]
    floors = {gate.name for gate in asked.gates if gate.replaces() is not None}
    vetoed = [score for score in scored if any(event.name in floors for event in score.ledger)]
    lawful = [score for score in scored if score not in vetoed]
    found = [problem for score in lawful for problem in _beyond(score, safety)]
    if safety["I1"].holds and safety["I2"].holds:
        found += _overtaken(lawful)
        worst = min((score.total for score in lawful), default=0.0)
        found += [f"a veto pays {s.total}, keeping the rule {worst}" for s in vetoed if s.total > worst + TIE + EXACT]
    if safety["I2"].holds:
        found += [*_hindered(asked, played, step), *_missed(asked, played, step)]
    return found


def _beyond(score: Score, safety: Safety) -> Iterator[str]:
    for kind, (low, high) in (("process", safety.process), ("penalty", safety.penalty)):
        paid = sum(event.paid for event in score.ledger if event.kind == kind)
        if not low - EXACT <= paid <= high + EXACT:
            yield f"{kind} pays {paid}, outside [{low}, {high}]: {_shown(score)}"


def _overtaken(scores: Sequence[Score]) -> Iterator[str]:
    best: Score | None = None
    ranked = sorted(scores, key=lambda score: score.outcome or 0.0)
    behind = 0
    for score in ranked:
        while (ranked[behind].outcome or 0.0) < (score.outcome or 0.0) - TIE:
            best = ranked[behind] if best is None or ranked[behind].total > best.total else best
            behind += 1
        if best is not None and score.total <= best.total - EXACT:
            yield f"outcome {score.outcome} is paid {_shown(score)}, outcome {best.outcome} {_shown(best)}"


def _hindered(asked: Rubric, played: Sequence[Record], step: int) -> Iterator[str]:
    """A fact that opens payments, true throughout, pays no less than false throughout."""
    earning = {name for reward in asked.rewards for name in reward.reads}
    for one in asked.gates:
        for name, good in one.openers:
            if name in earning or any(other.type == "trust" for other in asked.gates):
                continue
            with_it, without = ([_with(record, name, value) for record in played] for value in (good, not good))
            pairs = zip(asked.score_records(with_it, step), asked.score_records(without, step), strict=True)
            for met, missed in pairs:
                if met.usable and missed.usable and met.total < missed.total - TIE - EXACT:
                    yield f"with {name}={good} {_shown(met)}, without {_shown(missed)}"


def _missed(asked: Rubric, played: Sequence[Record], step: int) -> Iterator[str]:
    """A condition on a component with one verdict, met exactly, pays no less than missed by a hair."""
    known = {reward.name: reward for reward in asked.rewards if reward.type == "from_evidence"}
    hair = 3e-9
    for need in [condition for one in asked.gates for condition in one.conditions]:
        part = known.get(need.component)
        low, high = (need.at_least, need.at_least + hair) if need.op == ">" else (need.at_least - hair, need.at_least)
        if part is None or part.kind == "outcome" or not part.low <= low < high <= part.high:
            continue
        turn = 0 if part.per_turn else None
        pairs = []
        for value in (high, low):
            fact = Evidence(name=part.reads[0], value=value, turn=turn)
            changed = [_without(record, part.reads[0]) for record in played]
            pairs.append([replace(record, evidence=(*record.evidence, fact)) for record in changed])
        for met, missed in zip(*(asked.score_records(group, step) for group in pairs), strict=True):
            if met.usable and missed.usable and met.total < missed.total - TIE - EXACT:
                yield f"with {need} {_shown(met)}, without {_shown(missed)}"


def _without(record: Record, name: str) -> Record:
    return replace(record, evidence=tuple(fact for fact in record.evidence if fact.name != name))


def _with(record: Record, name: str, value: bool) -> Record:
    facts = [Evidence(name=name, value=value, turn=turn) for turn in (*range(record.n_turns), None)]
    return replace(record, evidence=(*_without(record, name).evidence, *facts))


def _shown(score: Score) -> str:
    events = ", ".join(f"{e.name}@{e.turn}={e.value:g}·{e.weight:g}·{e.factor:g}" for e in score.ledger[:12])
    return f"{score.total:g} ({events})"
