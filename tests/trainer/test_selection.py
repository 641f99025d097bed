"""Filters that drop single trajectories, against their worked numbers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import models
from turngate.errors import ConfigError, ShapeError
from turngate.rewards import FromEvidence, Rubric, needs_outcome
from turngate.trainer.batch.table import tabulate
from turngate.trainer.credit.grpo import grpo
from turngate.trainer.filters.sibling_rules import dcpo, prof, without_copies, without_void
from turngate.types import Evidence, Group, Guidance, ScoredGroup, Source

RUBRIC = Rubric(
    rewards=(
        FromEvidence(name="won", evidence="won", kind="outcome"),
        FromEvidence(name="step", evidence="step", per_turn=True, weight=0.1),
        FromEvidence(name="style", evidence="style", weight=0.1),
    ),
    gates=(needs_outcome(0.5),),
)


def played(won: Sequence[float], steps: Sequence[Sequence[float]], tokens: Sequence[int] | None = None) -> ScoredGroup:
    """Siblings through a rubric whose gate closes the process of failures."""
    lengths = [len(row) for row in steps] if tokens is None else tokens
    trajectories = []
    for index, (outcome, row, length) in enumerate(zip(won, steps, lengths, strict=True)):
        turns = [models.turn([1], [5]) for _ in row[:-1]] + [models.turn([1], [5] * (length - len(row) + 1))]
        facts = [Evidence(name="step", value=value, turn=turn) for turn, value in enumerate(row)]
        facts += [Evidence(name="won", value=outcome), Evidence(name="style", value=1.0)]
        trajectories.append(replace(models.trajectory(turns, name=str(index)), evidence=tuple(facts)))
    return RUBRIC.score_group(Group(task=trajectories[0].task, trajectories=tuple(trajectories)))


def kept(group: ScoredGroup, stays_B: Any) -> ScoredGroup:
    rows = np.flatnonzero(stays_B)
    return replace(
        group,
        trajectories=tuple(group.trajectories[row] for row in rows),
        scores=tuple(group.scores[row] for row in rows),
    )


def with_hints(group: ScoredGroup, levels: Sequence[int]) -> ScoredGroup:
    """Those of level 0 are not helped."""
    helped = [
        replace(one, guidance=Guidance(kind="hint", level=level, text="h", source="task") if level else None)
        for one, level in zip(group.trajectories, levels, strict=True)
    ]
    return replace(group, trajectories=tuple(helped))


# --- PROF ------------------------------------------------------------------------------------------------------------

CONSISTENT = [0.9, 0.8, 0.6, 0.4, 0.3, 0.7, 0.3, 0.2]


def test_prof_worked_numbers():
    """Five successes and three failures, four stay: .9 and .8, .3 and .2; gates do not hide the failures' steps."""
    group = played([1] * 5 + [0] * 3, [[value, value] for value in CONSISTENT])
    stays = prof(group, components=["step"])
    assert np.flatnonzero(stays).tolist() == [0, 1, 6, 7]
    assert np.flatnonzero(prof(group)).tolist() == [0, 1, 6, 7]  # the constant style is in every mean
    credit = grpo(tabulate([kept(group, stays)]))
    assert (credit[:4] > 0).all()
    assert (credit[4:] < 0).all()


def test_prof_takes_a_charge_for_what_it_is():
    """The same steps as charges of a negative weight: the most charged success goes first."""
    group = played([1, 1, 0, 0], [[0.9, 0.9], [0.1, 0.1], [0.5, 0.5], [0.6, 0.6]])
    charged = [
        replace(score, ledger=tuple(replace(event, weight=-event.weight) for event in score.ledger))
        for score in group.scores
    ]
    assert np.flatnonzero(prof(group, n_keep=2, components=["step"])).tolist() == [0, 2]
    assert np.flatnonzero(prof(replace(group, scores=tuple(charged)), n_keep=2, components=["step"])).tolist() == [1, 3]


def test_prof_minds_the_number_of_steps():
    group = played([1, 1, 0, 0], [[0.9], [0.1, 0.1], [0.5, 0.5], [0.6, 0.6]])
    assert np.flatnonzero(prof(group, n_keep=2, components=["step"])).tolist() == [1, 2]
    assert np.flatnonzero(prof(group, n_keep=2, components=["step"], min_turns=1)).tolist() == [0, 2]


def test_prof_cuts_guided_and_unguided_apart():
    group = with_hints(played([1] * 5 + [0] * 3, [[value, value] for value in CONSISTENT]), [0, 1] * 4)
    assert np.bincount([0, 1] * 4, weights=prof(group, n_keep=2)).tolist() == [2, 2]


def test_prof_draws_failures_by_seed_in_mode_correct():
    group = played([1] * 4 + [0] * 4, [[value, value] for value in CONSISTENT])
    drawn = [prof(group, mode="correct", seed=seed) for seed in range(20)]
    assert all(stays[:4].tolist() == [True, True, False, False] and stays[4:].sum() == 2 for stays in drawn)
    assert len({tuple(stays) for stays in drawn}) > 3
    np.testing.assert_array_equal(drawn[3], prof(group, mode="correct", seed=3))


def test_prof_refuses_what_it_cannot_judge():
    group = played([1, 0], [[1.0], [0.0]])
    with pytest.raises(ConfigError, match="n_keep is 0"):
        prof(group, n_keep=0)
    broken = replace(group, scores=(replace(group.scores[0], outcome=None), group.scores[1]))
    with pytest.raises(ShapeError, match="trajectory '0' has no outcome"):
        prof(broken)


# --- DCPO ------------------------------------------------------------------------------------------------------------

PAID, TOKENS = [1, 1, 1, 0.8, 0.5, 0.5, 0.2, 0], [300, 200, 250, 400, 100, 500, 300, 350]


def paying(paid: Sequence[float], tokens: Sequence[int]) -> ScoredGroup:
    group = played([0] * len(paid), [[0.0]] * len(paid), tokens)
    score = group.scores[0]
    pays = [
        replace(score, ledger=(replace(score.ledger[0], value=float(one)),), reward_T=np.array([one], np.float32))
        for one in paid
    ]
    return replace(group, scores=tuple(pays))


def test_dcpo_worked_numbers():
    """Rows 1, 2, 5 and 7 stay; z = .783349, .783349, −.261116, −1.305582."""
    group = paying(PAID, TOKENS)
    stays = dcpo(group)
    assert np.flatnonzero(stays).tolist() == [1, 2, 5, 7]
    np.testing.assert_array_equal(dcpo(group, n_keep=4), stays)
    credit = grpo(tabulate([kept(group, stays)]), eps=0.0)
    np.testing.assert_allclose(credit, [0.783349, 0.783349, -0.261116, -1.305582], atol=1e-5)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), min_size=1, max_size=9), st.integers(1, 10))
@settings(max_examples=40, deadline=None)
def test_dcpo_keeps_as_many_as_asked_whatever_the_order(rows: list[tuple[int, int]], n_keep: int):
    group = paying([paid for paid, _ in rows], [length for _, length in rows])
    assert dcpo(group, n_keep=n_keep).sum() == min(n_keep, len(rows))
    assert dcpo(group).sum() == (len(rows) + 1) // 2
    turned = paying([paid for paid, _ in rows[::-1]], [length for _, length in rows[::-1]])
    chosen = sorted(row for row, stays in zip(rows, dcpo(group), strict=True) if stays)
    assert chosen == sorted(row for row, stays in zip(rows[::-1], dcpo(turned), strict=True) if stays)


def test_dcpo_cuts_guided_and_unguided_apart_and_keeps_somebody():
    group = with_hints(paying(PAID, TOKENS), [0, 1] * 4)
    assert np.bincount([0, 1] * 4, weights=dcpo(group)).tolist() == [2, 2]
    with pytest.raises(ConfigError, match="dcpo: n_keep is 0"):
        dcpo(group, n_keep=0)


# --- void turns ------------------------------------------------------------------------------------------------------


def test_a_trajectory_with_a_void_turn_is_dropped():
    group = played([1, 0, 0, 1], [[0.0, 0.0]] * 4)
    facts = [
        (Evidence(name="void_turn", value=False, turn=0),),
        (),
        (Evidence(name="void_turn", value=False, turn=0), Evidence(name="void_turn", value=True, turn=1)),
        (Evidence(name="void_turn", value=None, turn=0), Evidence(name="other", value=True, turn=1)),
    ]
    told = [replace(one, evidence=one.evidence + own) for one, own in zip(group.trajectories, facts, strict=True)]
    group = replace(group, trajectories=tuple(told))
    assert without_void(group, evidence="void_turn").tolist() == [True, True, False, True]
    assert without_void(group, evidence="other").tolist() == [True, True, True, False]


def test_without_a_fact_a_turn_is_void_that_could_not_be_read():
    group = played([1, 0], [[0.0, 0.0]] * 2)
    first, last = group.trajectories[1].turns
    unread = replace(last, action=replace(last.action, parse_error="no call"))
    void = replace(group.trajectories[1], turns=(first, unread))
    assert without_void(replace(group, trajectories=(group.trajectories[0], void))).tolist() == [True, False]


# --- copied hints ----------------------------------------------------------------------------------------------------


def test_a_success_that_copies_a_hint_which_is_taken_out_is_dropped():
    """A19: hint and action are both "open drawer 2", so the score is 1; a pointer may be copied."""
    base = played([1, 1, 1, 0, 1, 1], [[0.0]] * 6)
    said = ["open drawer 2", "open drawer 2", "as the hint says", "open drawer 2", "look around", "open drawer 2"]
    kinds = ["hint", "pointer", "hint", "hint", "hint", "kept"]
    rows = [
        replace(
            one,
            turns=tuple(replace(turn, action=replace(turn.action, text=text)) for turn in one.turns),
            guidance=Guidance(kind=kind, level=1, text="open drawer 2", source="env", strip_for_train=kind != "kept"),
        )
        for one, text, kind in zip(base.trajectories, said, kinds, strict=True)
    ]
    group = replace(base, trajectories=tuple(rows))
    assert without_copies(group).tolist() == [False, True, False, True, True, True]
    assert without_copies(base).all()


def test_turns_of_a_guide_are_no_copies():
    base = played([1], [[0.0]])
    (one,) = base.trajectories
    (turn,) = one.turns
    forced = replace(turn, action=replace(turn.action, text="go on"), source=np.full_like(turn.source, Source.GUIDE))
    hint = Guidance(kind="hint", level=1, text="go on", source="env", strip_for_train=True)
    own = turn.source.copy()
    own[: len(turn.context_ids)] = Source.GUIDE  # the hint itself is marked so in the context
    for turns, stays in (((forced,), True), ((forced, replace(forced, source=own)), False)):
        group = replace(base, trajectories=(replace(one, turns=turns, guidance=hint),))
        assert without_copies(group).tolist() == [stays]
