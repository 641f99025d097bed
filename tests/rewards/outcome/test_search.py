"""Search: what was new, what was repeated, what was cited."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from turngate.errors import ConfigError, ShapeError
from turngate.rewards.outcome.answers import Overlap
from turngate.rewards.outcome.search import (
    KEY_WEIGHT,
    citation_overlap,
    evidence_reward,
    redundancy,
    retrieval_gain,
    retrieval_relevance,
    search_steps,
    stepsearch_answer,
    tfidf_similarity,
)

similarities = hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=5), elements=st.floats(0, 1))


# --- StepSearch ------------------------------------------------------------------------------------------------------


def test_the_published_steps():
    gain = retrieval_gain([[0.5, 0.2], [0.3, 0.6]])
    again = redundancy([["d1", "d2"], ["d1", "d3"]])
    np.testing.assert_allclose(gain, [0.35, 0.2], atol=1e-5)
    np.testing.assert_allclose(again, [0.0, 0.5], atol=1e-5)
    np.testing.assert_allclose(search_steps(gain, again, faithful=True), [0.35, -0.3], atol=1e-5)
    np.testing.assert_allclose(search_steps(gain, again), [0.35, 0.1], atol=1e-5)


def test_a_repetition_within_a_round_counts():
    np.testing.assert_allclose(redundancy([["d1", "d1"], [], ["d1"]]), [0.5, 0.0, 1.0])


def test_one_repeated_document_makes_searching_worse_than_not_searching_only_as_published():
    gain, again = retrieval_gain([[0.5], [0.6]]), redundancy([["d1"], ["d1", "d2"]])
    assert search_steps(gain, again, faithful=True).sum() < search_steps(gain[:1], again[:1], faithful=True).sum()
    assert search_steps(gain, again).sum() > search_steps(gain[:1], again[:1]).sum()


def test_unmeasured_similarities_take_no_part():
    gain = retrieval_gain([[math.nan, 0.4], [0.6, math.nan], [math.nan, math.nan], [0.7, 0.5]])
    np.testing.assert_allclose(gain, [0.4, 0.6, math.nan, 0.1])
    assert np.isnan(retrieval_gain(np.zeros((2, 0)))).all()
    assert np.isnan(search_steps(gain, np.zeros(4))).tolist() == [False, False, True, False]


@settings(max_examples=60, deadline=None)
@given(similarities)
def test_gains_telescope_so_no_number_of_rounds_earns_more_than_all_there_is(similarity):
    gain = retrieval_gain(similarity)
    assert (gain >= 0).all()
    assert gain.sum() == pytest.approx(similarity.max(axis=0).mean())
    twice = retrieval_gain(np.vstack([similarity, similarity]))
    assert twice.sum() == pytest.approx(gain.sum())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 4), max_size=4), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_redundancy_is_bounded_counts_each_document_once_and_ignores_order_in_a_round(rounds, random):
    share = redundancy(rounds)
    assert ((share >= 0) & (share <= 1)).all()
    new = sum(len(documents) * (1 - s) for documents, s in zip(rounds, share, strict=True))
    assert new == pytest.approx(len({document for documents in rounds for document in documents}))
    for documents in rounds:
        random.shuffle(documents)
    np.testing.assert_allclose(redundancy(rounds), share)


def test_tfidf():
    same = tfidf_similarity(["The cat sat.", "dogs bark", ""], ["the cat sat", "cats"])
    np.testing.assert_allclose(same[:, 0], [1.0, 0.0, 0.0], atol=1e-5)
    np.testing.assert_allclose(same[:, 1], [0.0, 0.0, 0.0], atol=1e-5)
    idf = math.log(3 / 2) + 1  # of a word in one of two texts; a shared word has ln(3/3) + 1 = 1
    assert tfidf_similarity(["a b"], ["a c"])[0, 0] == pytest.approx(1 / (1 + idf**2), abs=1e-5)
    assert tfidf_similarity([], ["a"]).shape == (0, 1)


def test_the_outcome_and_its_format_gate():
    assert KEY_WEIGHT == 0.618
    assert stepsearch_answer(0.5, 0.8) == pytest.approx(0.5 + KEY_WEIGHT * 0.8, abs=1e-5)
    assert stepsearch_answer(1.0, 1.0, well_formed=False) == -1.0
    assert stepsearch_answer(None, 1.0) is None


@pytest.mark.parametrize("bad", [[0.5, 0.2], [[1.2]], [[-0.1]]])
def test_similarities_that_cannot_be(bad):
    with pytest.raises(ShapeError, match="similarity_TG"):
        retrieval_gain(bad)


def test_steps_need_as_many_gains_as_repetitions():
    with pytest.raises(ShapeError, match="must be equal and flat"):
        search_steps([0.1], [0.1, 0.2])


# --- R3-RAG ----------------------------------------------------------------------------------------------------------


def test_relevance():
    assert retrieval_relevance(0.7, 3) == retrieval_relevance(0.7, 3, faithful=True) == 0.7
    assert retrieval_relevance(None, 3) is retrieval_relevance(None, 0, faithful=True) is None
    assert retrieval_relevance(0.4, 0, faithful=True) == 0.4
    assert retrieval_relevance(0.9, 0, weighted=0.6, faithful=True) == 0.6
    assert retrieval_relevance(0.9, 0, weighted=0.0, faithful=True) == 0.0


def test_a_fooled_judge_pays_for_retrieving_nothing_only_as_published():
    assert retrieval_relevance(0.9, 0, weighted=0.9, faithful=True) == 0.9
    assert retrieval_relevance(0.9, 0) == retrieval_relevance(None, 0) == 0.0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"n_documents": -1}, "n_documents"),
        ({"judged": 1.5}, "judged"),
        ({"n_documents": 0, "faithful": True}, "weighted"),
    ],
)
def test_relevance_that_cannot_be(arguments, problem):
    with pytest.raises(ShapeError, match=problem):
        retrieval_relevance(**{"judged": 0.9, "n_documents": 1} | arguments)


# --- LongRLVR --------------------------------------------------------------------------------------------------------

HALF = Overlap(precision=0.5, recall=1.0)


def test_the_published_evidence_reward():
    assert HALF.f_beta(2.0) == pytest.approx(0.833333, abs=1e-5)
    assert evidence_reward(1.0, HALF, faithful=True) == pytest.approx(1.833333, abs=1e-5)
    assert evidence_reward(0.0, HALF, faithful=True) == pytest.approx(0.083333, abs=1e-5)
    assert evidence_reward(1.0, HALF) == pytest.approx(1.666667, abs=1e-5)


def test_citations():
    assert citation_overlap(["c1", "c2"], ["c1"]) == HALF
    assert citation_overlap(["c1", "c1"], ["c1"]) == HALF
    assert citation_overlap([], ["c1"]) == citation_overlap(None, ["c1"]) == Overlap(precision=0.0, recall=0.0)
    assert citation_overlap(["c1"], []) is None
    assert evidence_reward(1.0, citation_overlap(None, ["c1"])) == 1.0


def test_citing_everything_pays_as_much_as_precise_citations_only_as_published():
    gold = range(2)
    everything, precise = citation_overlap(range(10), gold), citation_overlap([0], gold)
    assert evidence_reward(1.0, everything, faithful=True) == pytest.approx(
        evidence_reward(1.0, precise, faithful=True)
    )
    assert evidence_reward(1.0, everything) < evidence_reward(1.0, precise) - 0.3


def test_missing_sides_and_settings():
    assert evidence_reward(None, HALF) is evidence_reward(1.0, None) is None
    for setting in ({"ungated": 1.0}, {"ungated": -0.1}, {"beta": 0.0}):
        with pytest.raises(ConfigError, match="must lie in"):
            evidence_reward(1.0, HALF, **setting)


ids = st.lists(st.integers(0, 5), max_size=6)


@settings(max_examples=60, deadline=None)
@given(ids, ids, ids.filter(bool))
def test_every_right_answer_is_above_every_wrong_one_and_padding_citations_never_pays(a, b, gold):
    right, wrong = evidence_reward(1.0, citation_overlap(a, gold)), evidence_reward(0.0, citation_overlap(b, gold))
    assert 0 <= wrong < right <= 2 + 1e-12
    exact = sorted(set(gold))
    padded = evidence_reward(1.0, citation_overlap(exact + a, gold))
    assert padded <= evidence_reward(1.0, citation_overlap(exact, gold)) == pytest.approx(2.0)
    assert (padded == pytest.approx(2.0)) == (not a)
