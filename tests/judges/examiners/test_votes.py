"""Votes on answers, from episodes to facts to scores."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.judges.examiners.episodes import examined, group, task, values
from turngate.judges.examiners.majority import Majority
from turngate.judges.examiners.paraphrase_votes import ParaphraseVotes
from turngate.rewards.rubric import FromEvidence, Rubric
from turngate.types import Evidence, Group

RUBRIC = Rubric(rewards=(FromEvidence(name="agrees", evidence="agrees", kind="outcome"),))


def answered(*answers, name="t", **options):
    """Siblings with these answers, which they all came to in other words; None = none."""
    of = group(*[f"so it is {at}" for at, _ in enumerate(answers)], name=name, **options)
    ones = [
        replace(one, evidence=(Evidence(name="answer", value=answer),))
        for one, answer in zip(of.trajectories, answers, strict=True)
    ]
    return Group(task=of.task, trajectories=tuple(ones))


def scores(examined_group):
    return [score.total if score.usable else None for score in RUBRIC.score_group(examined_group).scores]


def test_votes_of_the_worked_example():
    (after,), metrics = examined([Majority()], [answered("7", "7", "5", None)])
    rewards = scores(after)
    assert rewards == [1, 1, 0, None]
    known = [reward for reward in rewards if reward is not None]
    z = (np.array(known) - np.mean(known)) / np.std(known, ddof=1)
    np.testing.assert_allclose(z, [0.577350, 0.577350, -1.154701], atol=1e-6)
    assert after.trajectories[0].evidence[1:] == (
        Evidence(name="agrees", value=1.0, by="verifier"),
        Evidence(name="agrees_votes", value={"of": 4, "votes": [2, 1]}, by="verifier"),
    )
    assert metrics["examine/agrees/missing_share"] == 0.25


def test_no_answer_can_count_as_another_one():
    (after,), _ = examined([Majority(no_answer="wrong")], [answered("7", "7", "5", None, " ")])
    assert scores(after) == [1, 1, 0, 0, 0]


def test_a_group_without_a_majority_is_left_out():
    groups, metrics = examined([Majority()], [answered("7", "5", None, name="a"), answered("1", "1", name="b")])
    assert [scores(one) for one in groups] == [[None] * 3, [1, 1]]
    assert metrics["examine/agrees/missing_share"] == pytest.approx(3 / 5)
    assert metrics["examine/agrees/failed"] == 0


def test_how_answers_are_compared():
    group = answered(" The Seine.", "seine", "Rhone")
    assert values(examined([Majority()], [group])[0], "agrees") == [[[None]] * 3]
    assert values(examined([Majority(compare="words")], [group])[0], "agrees") == [[[1], [1], [0]]]


def test_a_vote_on_another_fact():
    states = [{"rows": 2}, {"rows": 2}, {"rows": 3}, None]
    of = task()
    members = [
        group("x", evidence=[Evidence(name="state", value=state)], answer=...).trajectories[0] for state in states
    ]
    members = [replace(one, id=f"t#{at}") for at, one in enumerate(members)]
    (after,), _ = examined([Majority(evidence="state")], [Group(task=of, trajectories=tuple(members))])
    assert values([after], "agrees") == [[[1], [1], [0], [None]]]


def pair(name_a="sum~a", name_b="sum~b", **private):
    return (
        answered("5", "5", "7", name=name_a, private=private),
        answered("7", "7", "5", name=name_b, private=private),
    )


@pytest.mark.parametrize("groups", [pair(), pair("x", "y", pair=17)])
def test_paraphrase_votes_of_the_worked_example(groups):
    after, _ = examined([ParaphraseVotes()], [*groups, answered("1", "1", name="other~a")])
    assert [scores(one) for one in after[:2]] == [[0, 0, 1], [0, 0, 1]]
    assert scores(after[2]) == [None, None]  # its other wording is not there


@pytest.mark.parametrize(
    "groups",
    [
        pair("x", "y"),  # nothing says that they belong together
        (*pair(), answered("5", name="sum~c")),  # three wordings
        (answered("5", "5", name="sum~a"), answered("5", "5", name="sum~a")),  # twice the same
        (answered("5", name="sum~a"), answered("5", name="sum~b", env="test/Other-v1")),
        (answered("5", name="sum~a"), answered(None, name="sum~b")),  # no answer on the other side
    ],
)
def test_without_one_other_wording_there_is_no_vote(groups):
    after, metrics = examined([ParaphraseVotes()], groups)
    assert scores(after[0]) == [None] * len(groups[0].trajectories)
    assert metrics["examine/agrees/failed"] == 0


answer_lists = st.lists(st.sampled_from(["5", "7", "9", None]), min_size=1, max_size=6)


@given(one=answer_lists, two=answer_lists)
def test_paraphrase_votes_mirror_and_never_pay_for_agreeing_with_oneself(one, two):
    first, second = answered(*one, name="q~a"), answered(*two, name="q~b")
    after, _ = examined([ParaphraseVotes()], [first, second])
    mirrored, _ = examined([ParaphraseVotes()], [second, first])
    assert list(map(scores, after)) == list(map(scores, mirrored[::-1]))
    for mine, theirs, siblings in ((one, two, after[0]), (two, one, after[1])):
        for answer, reward in zip(mine, scores(siblings), strict=True):
            assert reward is None or not reward or answer in theirs
