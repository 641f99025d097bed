"""Trajectories as flat arrays: weights, places, and what may carry credit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import models
from turngate.errors import ConfigError, ShapeError, UnknownName
from turngate.trainer.batch.pack import pack, pack_demonstrations, rows, split
from turngate.types import Batch, Source

AVERAGES = ("token", "sequence", "turn")
AGGREGATES = (*AVERAGES, "sum", 10)
C, P, G = Source.CONTEXT, Source.POLICY, Source.GUIDE


def batch_of(seed, n=5, aggregate="token"):
    rng = np.random.default_rng(seed)
    trajectories = models.random_trajectories(rng, n)
    advantage_N = rng.normal(size=sum(len(t.turns) for t in trajectories)).astype(np.float32)
    return trajectories, advantage_N, pack([models.scored(trajectories)], advantage_N, aggregate=aggregate)


def test_a_worked_batch():
    first = models.trajectory(
        [models.turn([10, 11], [12], logprobs=[-0.5]), models.turn([13], [14, 15], logprobs=[-0.25, -1])], name="a"
    )
    second = models.trajectory([models.turn([20], [21], logprobs=[-2])], name="b")
    batch = pack([models.scored([first, second])], np.array([1, -2, 3], np.float32))
    expected = Batch(
        ids_L=np.array([10, 11, 12, 13, 14, 15, 20, 21], np.int32),
        logprob_L=np.array([0, 0, -0.5, 0, -0.25, -1, 0, -2], np.float32),
        advantage_L=np.array([0, 0, 1, 0, -2, -2, 0, 3], np.float32),
        policy_weight_L=np.array([0, 0, 0.25, 0, 0.25, 0.25, 0, 0.25], np.float32),
        ce_weight_L=np.zeros(8, np.float32),
        position_L=np.array([0, 1, 2, 3, 4, 5, 0, 1], np.int32),
        segment_L=np.array([0, 0, 0, 0, 0, 0, 1, 1], np.int32),
        turn_L=np.array([0, 0, 0, 1, 1, 1, 0, 0], np.int32),
        origin_L=np.zeros(8, np.uint8),
    )
    for name in Batch.__dataclass_fields__:
        got, wanted = getattr(batch, name), getattr(expected, name)
        assert got.dtype == wanted.dtype, name
        np.testing.assert_array_equal(got, wanted, err_msg=name)


def weighted(sources, losses, aggregate):
    """The weighted sum of token losses over trajectories of one turn each (nested lists: several turns)."""
    trajectories = [
        models.trajectory([models.turn([1], range(n_said)) for n_said in turns], name=str(index))
        for index, turns in enumerate(sources)
    ]
    batch = pack([models.scored(trajectories)], np.zeros(sum(map(len, sources)), np.float32), aggregate=aggregate)
    return float(batch.policy_weight_L[batch.policy_weight_L > 0] @ np.array(losses, np.float32))


@pytest.mark.parametrize(
    ("aggregate", "expected"), [("token", 1.5), ("sequence", 2.0), ("turn", 2.0), ("sum", 3.0), (10, 0.3)]
)
def test_aggregates_of_two_sequences(aggregate, expected):
    assert weighted([[1], [3]], [3, 1, 1, 1], aggregate) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("aggregate", "expected"), [("token", 2.25), ("sequence", 2.5), ("turn", 2.75), ("sum", 4.5), (3, 1.5)]
)
def test_aggregates_where_turns_differ_in_length(aggregate, expected):
    losses = [4, 1, 1, 3]
    token = sum(losses) / 4
    sequence = ((4 + 1 + 1) / 3 + 3) / 2
    by_turn = ((4 + (1 + 1) / 2) / 2 + 3) / 2
    summed = ((4 + 1 + 1) + 3) / 2
    assert (token, sequence, by_turn, summed, summed / 3) == (2.25, 2.5, 2.75, 4.5, 1.5)
    assert weighted([[1, 2], [1]], losses, aggregate) == pytest.approx(expected)


@pytest.mark.parametrize(("aggregate", "loss"), [("token", -0.058926), ("sequence", -0.058926), ("turn", 0.0)])
def test_golden_numbers_of_gated_turn_credit(aggregate, loss):
    """Two siblings, o = [1, 0]: turns of 2 and 1, and of 1 and 2 tokens; A from stratified advantage gating."""
    siblings = [
        models.trajectory([models.turn([1], [5, 6]), models.turn([1], [7])], name="a"),
        models.trajectory([models.turn([1], [5]), models.turn([1], [6, 7])], name="b"),
    ]
    advantage_N = np.array([1.060660, 0.353553, -0.707107, -0.707107], np.float32)
    batch = pack([models.scored(siblings)], advantage_N, aggregate=aggregate)
    assert -float(batch.policy_weight_L @ batch.advantage_L) == pytest.approx(loss, abs=1e-6)


@given(seed=st.integers(0, 10_000), n=st.integers(1, 6), aggregate=st.sampled_from(AGGREGATES))
def test_weights_lie_on_policy_tokens_only(seed, n, aggregate):
    trajectories, _, batch = batch_of(seed, n, aggregate)
    source = np.concatenate([turn.source for t in trajectories for turn in t.turns])
    n_tokens = (source == P).sum()
    total = 1 if aggregate in AVERAGES else n_tokens / n / (10 if aggregate == 10 else 1)
    assert batch.policy_weight_L.sum() == pytest.approx(total, abs=1e-5)
    assert ((batch.policy_weight_L > 0) == (source == P)).all()
    assert (batch.advantage_L[source != P] == 0).all()
    np.testing.assert_array_equal(batch.ids_L, np.concatenate([t.ids() for t in trajectories]))
    assert batch.n_segments == n


def test_guide_tokens_are_read_but_carry_nothing():
    guided = models.trajectory([models.turn([1, 2], [3, 4, 5], source=[C, C, G, G, P])])
    batch = pack([models.scored([guided])], np.array([2.0], np.float32))
    np.testing.assert_array_equal(batch.policy_weight_L, [0, 0, 0, 0, 1])
    np.testing.assert_array_equal(batch.advantage_L, [0, 0, 0, 0, 2])
    assert pack_demonstrations([guided]).ce_weight_L.tolist() == [0, 0, 0, 0, 1]


def test_demonstrations_share_one_cross_entropy():
    trajectories, _, batch = batch_of(0)
    taught = pack_demonstrations(trajectories)
    assert not taught.policy_weight_L.any()
    np.testing.assert_allclose(taught.ce_weight_L, batch.policy_weight_L)
    np.testing.assert_array_equal(taught.ids_L, batch.ids_L)


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("place", [0, 2, 5])
def test_an_episode_without_turns_is_no_segment(place, aggregate):
    trajectories, advantage_N, plain = batch_of(3, aggregate=aggregate)
    trajectories.insert(place, models.trajectory([], name="turnless"))
    batch = pack([models.scored(trajectories)], advantage_N, aggregate=aggregate)
    for name in Batch.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(batch, name), getattr(plain, name), err_msg=name)
    assert (
        rows(trajectories).tolist()
        == np.repeat(
            np.arange(len(advantage_N)), [len(turn.source) for one in trajectories for turn in one.turns]
        ).tolist()
    )


def test_no_trajectories_are_an_empty_batch():
    batch = pack([], np.zeros(0, np.float32))
    assert (batch.n_tokens, batch.n_segments) == (0, 0)
    assert pack_demonstrations([]).n_tokens == 0


@pytest.mark.parametrize(
    ("advantage", "problem"),
    [
        ([1.0, 2.0], r"advantage_N has shape \(2,\), expected \(3,\)"),
        ([[1.0], [2.0], [3.0]], r"shape \(3, 1\)"),
        ([1.0, float("nan"), 2.0], "not finite at turn 1"),
        ([1.0, 2.0, float("inf")], "not finite at turn 2"),
    ],
)
def test_advantages_that_do_not_fit_are_refused(advantage, problem):
    group = models.scored([models.trajectory([models.turn([1], [2])] * 3)])
    with pytest.raises(ShapeError, match=problem):
        pack([group], np.array(advantage, np.float32))


def test_a_first_token_that_nothing_predicts_is_refused():
    with pytest.raises(ShapeError, match="'bare' has no context before its first turn"):
        pack_demonstrations([models.trajectory([models.turn([], [2])], name="bare")])


# --- cutting into optimizer steps ------------------------------------------------------------------------------------


@given(seed=st.integers(0, 1000), n=st.integers(1, 7), parts=st.integers(1, 5), aggregate=st.sampled_from(AGGREGATES))
def test_parts_hold_whole_segments_and_all_of_them(seed, n, parts, aggregate):
    trajectories, advantage_N, batch = batch_of(seed, n, aggregate)
    pieces = [piece for piece, _ in split(batch, {}, parts)]
    assert len(pieces) == min(parts, n)
    whole = sorted(t.ids().tobytes() for t in trajectories)
    assert whole == sorted(
        piece.ids_L[piece.segment_L == s].tobytes() for piece in pieces for s in range(piece.n_segments)
    )
    for piece in pieces:
        assert (np.diff(piece.segment_L) >= 0).all()
        assert ((piece.position_L == 0).sum()) == piece.n_segments
        trained = piece.policy_weight_L > 0
        assert set(piece.advantage_L[trained]) <= set(advantage_N)


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_parts_of_equal_size_average_to_the_batch(aggregate):
    """Weight by weight, so for any loss of the tokens; imitation keeps its share too."""
    trajectories, _, batch = batch_of(5, 6, aggregate)
    batch = replace(batch, ce_weight_L=batch.policy_weight_L * (batch.segment_L == 1))
    for parts in (2, 3, 6):
        for name in ("policy_weight_L", "ce_weight_L"):
            pieces = [getattr(piece, name) for piece, _ in split(batch, {}, parts)]
            whole = getattr(batch, name)
            expected = np.concatenate([whole[batch.segment_L % parts == part] for part in range(parts)])
            np.testing.assert_allclose(np.concatenate(pieces) / parts, expected, rtol=1e-6)
    assert len(trajectories) == 6


def test_sequences_and_turns_without_policy_tokens_do_not_count():
    silent = models.turn([1], [2, 3], source=[C, G, G])
    spoken = models.turn([1], [4, 5])
    group = models.scored([models.trajectory([silent, spoken], name="a"), models.trajectory([silent], name="b")])
    for aggregate, weight in (("token", 0.5), ("sequence", 0.5), ("turn", 0.5), ("sum", 1.0), (4, 0.25)):
        batch = pack([group], np.zeros(3, np.float32), aggregate=aggregate)
        assert batch.policy_weight_L[batch.policy_weight_L > 0].tolist() == [weight, weight]


def test_another_aggregate_is_refused():
    with pytest.raises(UnknownName, match="unknown aggregate 'tokens'; did you mean 'token'"):
        pack([], np.zeros(0, np.float32), aggregate="tokens")
    with pytest.raises(ConfigError, match="a token budget of at least 1, found 0"):
        pack([], np.zeros(0, np.float32), aggregate=0)


def test_one_part_is_the_batch_itself():
    _, _, batch = batch_of(3)
    assert list(split(batch, {}, 1)) == [(batch, {})]


def test_siblings_are_dealt_out_in_turn():
    trajectories, _, batch = batch_of(3, 4)
    (first, _), (second, _) = split(batch, {}, 2)
    np.testing.assert_array_equal(first.ids_L, np.concatenate([trajectories[0].ids(), trajectories[2].ids()]))
    np.testing.assert_array_equal(second.ids_L, np.concatenate([trajectories[1].ids(), trajectories[3].ids()]))
