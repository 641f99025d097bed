"""What is remembered of a step, against numbers worked out by hand and a plain loop."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.scores import episode, event, group, turn
from turngate.rewards.monitors.step_facts import Learned, Opened, measure
from turngate.types import Guidance


def test_means_are_over_usable_episodes():
    facts = measure(
        7,
        [
            group(
                episode("a", outcome=1.0, events=[event("p", 0.5)], turns=[turn(ids=[1, 2])]),
                episode("b", outcome=0.0, turns=[turn(ids=[3]), turn(parse_error="?"), turn()]),
                episode("broken", outcome=1.0, turns=9, usable=False),
            )
        ],
        Learned(kl_nats=0.25),
    )
    assert facts is not None
    assert (facts.step, facts.episodes, facts.outcome, facts.paid, facts.process) == (7, 2, 0.5, 0.75, 0.5)
    assert (facts.turns, facts.tokens, facts.parsed, facts.learner.kl_nats) == (2.0, 1.5, 0.75, 0.25)
    assert facts.longest == ("b", "a")


def test_a_step_without_usable_episodes_has_no_facts():
    assert measure(1, []) is None
    assert measure(1, [group(episode(usable=False))]) is None


def test_what_is_not_measured_is_none():
    facts = measure(1, [group(episode(outcome=1.0))])
    assert facts is not None
    assert (facts.process, facts.auc, facts.spread, facts.overlap, facts.open_groups, facts.guided) == (None,) * 6
    assert facts.learner == Learned()
    assert facts.opened == {}


def test_open_payments_are_counted_per_process_component_and_the_busiest_gate_is_named():
    cut = event("p", 1.0, factor=0.5, gate="cap")
    shut = [event("p", 1.0, turn=0, factor=0.0, gate=gate) for gate in ("needs", "needs", "veto")]
    fine = event("veto(w)", -1.0, kind="penalty")
    facts = measure(1, [group(episode("a", events=[cut, event("q", 0.1)]), episode("b", events=[*shut, fine]))])
    assert facts is not None
    assert facts.opened == {"p": Opened(n_open=1, n=4, gate="needs"), "q": Opened(n_open=1, n=1)}
    assert facts.closed == ("b",)


def test_spread_is_within_groups():
    """Paid 0 and 1: 0.5; paid 5 and 5: 0; the single one has no spread."""
    groups = [
        group(episode(outcome=0.0), episode(outcome=1.0)),
        group(episode(outcome=5.0), episode(outcome=5.0)),
        group(episode()),
    ]
    facts = measure(1, groups)
    assert facts is not None
    assert facts.spread == 0.25


def test_overlap_is_the_share_of_common_4_grams_of_neighbours():
    """1234|2345 against 1234: 1 of 2; 1234 against 9999: 0. Siblings of fewer than four tokens are left out."""
    said = ([1, 2, 3, 4, 5], [1, 2, 3, 4], [9, 9], [9, 9, 9, 9])
    facts = measure(1, [group(*(episode(turns=[turn(ids=ids)]) for ids in said))])
    assert facts is not None
    assert facts.overlap == 0.25


def test_overlap_counts_4_grams_across_turns_and_never_across_siblings():
    rows = [[[1, 2], [3, 4]], [[1, 2, 3, 4]], [[9], [9], [9]]]
    facts = measure(1, [group(*(episode(turns=[turn(ids=ids) for ids in said]) for said in rows))])
    assert facts.overlap == 1.0


SAID = st.lists(st.lists(st.integers(0, 2), max_size=9), min_size=2, max_size=5)


@given(st.lists(SAID, min_size=1, max_size=3))
@settings(max_examples=50)
def test_overlap_is_that_of_a_plain_loop(groups):
    shares = []
    for said in groups:
        grams = [{tuple(ids[at : at + 4]) for at in range(len(ids) - 3)} for ids in said]
        grams = [found for found in grams if found]
        shares += [len(a & b) / len(a | b) for a, b in pairwise(grams)]
    facts = measure(1, [group(*(episode(turns=[turn(ids=ids)]) for ids in said)) for said in groups])
    assert facts.overlap == (pytest.approx(sum(shares) / len(shares)) if shares else None)


def test_open_groups_need_two_episodes_with_an_open_payment():
    """Of three groups with process payments one has two open episodes; the group without payments does not count."""
    shut, free = event("p", 1.0, factor=0.0, gate="g"), event("p", 0.0)
    groups = [
        group(*(episode(events=[shut, free]) for _ in range(2)), episode(events=[shut])),
        group(episode(events=[free]), episode(events=[shut])),
        group(episode(events=[shut])),
        group(episode(), episode()),
    ]
    assert measure(1, groups).open_groups == pytest.approx(1 / 3)


def test_guided_and_unguided_outcomes_are_apart():
    helped = Guidance(kind="hint", level=1, text="x", source="task")
    (a, won), (b, lost), (c, half) = episode("a", outcome=1.0), episode("b", outcome=0.0), episode("c", outcome=0.5)
    facts = measure(1, [group((replace(a, guidance=helped), won), (b, lost), (c, half))])
    assert (facts.guided, facts.unguided, facts.outcome) == (1.0, 0.25, 0.5)


def test_auc_of_process_for_outcome():
    """Successes 0.5, 0.2 against failures 0.2, 0.1: (2 + 1.5) of 4 pairs; an episode without verdict says nothing."""
    rows = [(1.0, 0.5), (1.0, 0.2), (0.0, 0.2), (0.0, 0.1)]
    episodes = [episode(outcome=o, events=[event("p", p)]) for o, p in rows]
    facts = measure(1, [group(*episodes, episode(outcome=0.0))])
    assert facts is not None
    assert facts.auc == pytest.approx(0.875)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), min_size=1, max_size=12))
@settings(max_examples=50)
def test_auc_is_that_of_all_pairs(rows):
    facts = measure(1, [group(*(episode(outcome=float(won), events=[event("p", p)]) for won, p in rows))])
    pairs = [(a > b) + (a == b) / 2 for won, a in rows if won for lost, b in rows if not lost]
    assert facts is not None
    assert facts.auc == (pytest.approx(sum(pairs) / len(pairs)) if pairs else None)
