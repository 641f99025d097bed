"""Every gate's account against a replay of the gates one by one, and what siblings can tell of each other's order."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.rewards import (
    BestSoFar,
    BottomLine,
    Budget,
    Conditional,
    FromEvidence,
    Gate,
    GateAccount,
    Hierarchical,
    Once,
    Rubric,
    Soft,
    SuccessOnly,
    Trust,
    cap_process,
    needs_outcome,
    requires,
    veto,
)
from turngate.types import Ending, Evidence, Record, Score

REWARDS = (
    FromEvidence(name="won", evidence="won", kind="outcome"),
    FromEvidence(name="acts", evidence="acts", per_turn=True, agg="sum", weight=0.2, low=-1.0),
    FromEvidence(name="mean", evidence="mean", per_turn=True, weight=0.4),
    FromEvidence(name="whole", evidence="whole", weight=0.5),
    FromEvidence(name="slow", evidence="slow", kind="penalty", weight=-0.3),
)
GATES: tuple[Gate, ...] = (
    veto("wrote", -0.5),
    requires("ok", on="acts"),
    needs_outcome(0.5),
    SuccessOnly(on=("slow",)),
    Once(on="acts"),
    Budget(on="mean", limit=0.25),
    BestSoFar(on="acts"),
    Hierarchical(levels=(("won",), ("whole",), ("mean",)), at_least=(0.5, 0.5)),
    Conditional(given="mean", at_least=0.5, pays=("slow",)),
    BottomLine(constraints={"whole": 0.25}, goals=("acts",)),
    Soft(on="whole", at_least=1.0, answered="answered", malformed="odd", wrong=0.5, unanswered=0.0, broken=0.25),
    Trust(on="mean", open_from=0.0),
    cap_process(0.3),
)
SHARES = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])


@st.composite
def records(draw: st.DrawFn) -> Record:
    n_turns = draw(st.integers(1, 4))
    facts = [Evidence(name="won", value=draw(st.sampled_from([None, 0.0, 0.25, 0.5, 1.0])))]
    facts += [Evidence(name=name, value=draw(st.none() | SHARES)) for name in ("whole", "slow")]
    for turn in range(n_turns):
        facts.append(Evidence(name="acts", value=draw(st.none() | st.sampled_from([-1.0, 0.0, 0.5, 1.0])), turn=turn))
        facts.append(Evidence(name="mean", value=draw(st.none() | SHARES), turn=turn))
        facts.append(Evidence(name="ok", value=draw(st.booleans()), turn=turn))
    facts += [Evidence(name="wrote", value=True)] * (draw(st.integers(0, 5)) == 0)
    facts += [Evidence(name=name, value=draw(st.booleans())) for name in ("answered", "odd")]
    return Record(task_id="t", n_turns=n_turns, ending=Ending.FINISHED, evidence=tuple(facts))


def replayed(gates: tuple[Gate, ...], group: list[Record]) -> dict[str, GateAccount]:
    """The gates in front of each gate decide what reaches it, the gates up to it what it closed or cut."""

    def ledgers(n: int) -> list[tuple[Any, ...]]:
        return [score.ledger for score in Rubric(rewards=REWARDS, gates=gates[:n]).score_records(group)]

    names = {gate.name for gate in gates}
    final = ledgers(len(gates))
    found = {}
    for place, gate in enumerate(gates):
        raw = paid = 0.0
        n_events = n_closed = n_cut = 0
        for before, after, end in zip(ledgers(place), ledgers(place + 1), final, strict=True):
            parts = [[event for event in ledger if event.name not in names] for ledger in (before, after, end)]
            paid += sum(event.paid for event in end if event.name == gate.name)
            for reached, left, last in zip(*parts, strict=True):
                if reached.factor and gate.touches(reached.name, reached.kind):
                    n_events += 1
                    raw, paid = raw + reached.earned, paid + last.paid
                    n_closed += left.factor == 0.0
                    n_cut += left.gate == gate.name and last.gate == gate.name and left.factor > 0.0
        found[gate.name] = GateAccount(raw=raw, paid=paid, n_events=n_events, n_closed=n_closed, n_cut=n_cut)
    return found


@given(st.permutations(GATES), st.integers(0, 5), st.lists(records(), min_size=1, max_size=5))
@settings(max_examples=60)
def test_the_accounts_are_those_of_a_replay(order: list[Gate], n: int, group: list[Record]):
    """``n_cut`` counts a line for the gate that cut it last. A line without value is closed like any other."""
    gates = tuple(order[:n])
    rubric = Rubric(rewards=REWARDS, gates=gates)
    usable = [record for record in group if Rubric(rewards=REWARDS).score(record).usable]
    account = rubric.account(rubric.score_records(usable))
    for name, expected in replayed(gates, usable).items():
        found = account[name]
        assert (found.n_events, found.n_closed, found.n_cut) == (expected.n_events, expected.n_closed, expected.n_cut)
        assert (found.raw, found.paid) == pytest.approx((expected.raw, expected.paid))
        assert found.open_rate is None or 0.0 <= found.open_rate <= 1.0


@given(st.permutations(GATES), st.integers(0, 6), st.lists(records(), min_size=1, max_size=6), st.integers(0, 2**32))
@settings(max_examples=60)
def test_the_order_of_siblings_does_not_matter(order: list[Gate], n: int, group: list[Record], seed: int):
    rubric = Rubric(rewards=REWARDS, gates=tuple(order[:n]))

    def view(score: Score) -> Any:
        return score.usable, score.outcome, [(e.name, e.turn, e.gate, pytest.approx(e.paid)) for e in score.ledger]

    shuffle = np.random.default_rng(seed).permutation(len(group))
    scores = rubric.score_records(group, step=3)
    shuffled = rubric.score_records([group[place] for place in shuffle], step=3)
    assert [view(score) for score in shuffled] == [view(scores[place]) for place in shuffle]


def test_every_shipped_gate_is_here():
    shipped = {kind for kind, part in Gate.catalogue().items() if part.__module__.startswith("turngate.")}
    assert {gate.type for gate in GATES} == shipped
