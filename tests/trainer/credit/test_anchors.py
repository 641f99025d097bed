"""Joining similar states."""

import difflib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError, ShapeError
from turngate.trainer.credit.anchors import join_similar
from turngate.trainer.credit.gigpo import gigpo

ROOM = "You are in the kitchen . On the table in front of you there is a bowl , a knife and an apple"


def test_texts_within_the_threshold_are_one_anchor():
    texts = [ROOM, ROOM + "!", "You are in the cellar .", "", ROOM, ROOM.replace("an apple", "onion soup")]
    anchor_N = join_similar(texts, [0] * 6)
    assert anchor_N.dtype == np.int64
    assert anchor_N[0] == anchor_N[1] == anchor_N[4]
    assert anchor_N[3] == -1
    assert len({*anchor_N[[0, 2, 5]].tolist()}) == 3


def test_cohorts_have_their_own_anchors():
    anchor_N = join_similar([ROOM, ROOM, ROOM], [7, 7, 3])
    assert anchor_N[0] == anchor_N[1] != anchor_N[2]


def test_the_shortest_text_is_the_anchor():
    """Of three lengths only neighbours are close: the middle one joins the short one, the long one stays alone."""
    chains = [[" ".join(f"{name}{i}" for i in range(count)) for count in (9, 6, 4)] for name in "abcdefghij"]
    cohorts = [cohort for cohort, chain in enumerate(chains) for _ in chain]
    anchor_N = join_similar([text for chain in chains for text in chain], cohorts, threshold=0.8).reshape(10, 3)
    assert (anchor_N[:, 1] == anchor_N[:, 2]).all()
    assert (anchor_N[:, 0] != anchor_N[:, 1]).all()


def test_the_threshold_is_inclusive():
    """'abcd' and 'abcx' match in six of eight characters: 0.75."""
    pair, both = ["abcd", "abcx"], [0, 0]
    assert len(set(join_similar(pair, both, threshold=0.75, unit="characters").tolist())) == 1
    assert len(set(join_similar(pair, both, threshold=0.76, unit="characters").tolist())) == 2


def test_frequent_characters_of_long_texts_count():
    """difflib's shortcut for 200 characters and more would call these two unlike."""
    one = "ab" * 150
    two = "c" + one[1:]
    assert difflib.SequenceMatcher(None, one, two).ratio() < 0.95
    assert len(set(join_similar([one, two], [0, 0], unit="characters").tolist())) == 1


def test_words_compare_words():
    """Nine of ten words are equal, but only 18 of 31 characters."""
    one = "a b c d e f g h i jjjjjjjjjjjjj"
    two = "a b c d e f g h i kkkkkkkkkkkkk"
    assert len(set(join_similar([one, two], [0, 0], threshold=0.9).tolist())) == 1
    assert len(set(join_similar([one, two], [0, 0], threshold=0.9, unit="characters").tolist())) == 2


TEXTS = st.lists(st.tuples(st.text("ab", max_size=6), st.integers(0, 1)), max_size=8)


@given(TEXTS, st.integers(0, 2**32), st.sampled_from([0.5, 0.8, 1.0]))
@settings(max_examples=40)
def test_the_order_of_texts_does_not_matter(pairs: list[tuple[str, int]], seed: int, threshold: float):
    anchor_N = join_similar(
        [text for text, _ in pairs], [cohort for _, cohort in pairs], threshold=threshold, unit="characters"
    )
    order = np.random.default_rng(seed).permutation(len(pairs))
    moved = [pairs[i] for i in order]
    moved_N = join_similar(
        [text for text, _ in moved], [cohort for _, cohort in moved], threshold=threshold, unit="characters"
    )
    same = anchor_N[order][:, None] == anchor_N[order][None, :]
    np.testing.assert_array_equal(moved_N[:, None] == moved_N[None, :], same)


@given(TEXTS)
@settings(max_examples=40)
def test_at_a_threshold_of_one_only_equal_texts_join(pairs: list[tuple[str, int]]):
    anchor_N = join_similar(
        [text for text, _ in pairs], [cohort for _, cohort in pairs], threshold=1.0, unit="characters"
    )
    for (text, cohort), anchor in zip(pairs, anchor_N.tolist(), strict=True):
        assert (anchor == -1) == (text == "")
        same = [other == (text, cohort) and text != "" for other in pairs]
        assert [bool(text) and found == anchor for found in anchor_N.tolist()] == same


@pytest.mark.parametrize("options", [{"threshold": 0.0}, {"threshold": 1.1}, {"unit": "lines"}])
def test_settings_out_of_range_are_refused(options: dict[str, Any]):
    with pytest.raises(ConfigError, match="join_similar"):
        join_similar(["a"], [0], **options)


def test_a_cohort_per_text_is_needed():
    with pytest.raises(ShapeError, match="2 texts but 1 cohorts"):
        join_similar(["a", "b"], [0])


def test_gigpo_groups_by_the_joined_states(table_of: Any):
    """The worked example of exact states, with texts that differ in one character."""
    texts = [ROOM + "0", "cellar", "attic", ROOM + "1", "garden", "cellar"]
    similar_N = join_similar(texts, [0] * 6)
    table = table_of([[0, 0, 1], [0, 0, 0]], similar_N=similar_N)
    advantage_N = gigpo(table, anchors="similar")
    np.testing.assert_allclose(advantage_N, [0.95125, 0.975, 0.5, -0.95125, -0.5, -0.975], atol=1e-6)
    assert gigpo(table).tolist() == [0.5] * 3 + [-0.5] * 3
