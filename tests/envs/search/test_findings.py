"""What a turn brought to light, and what answers are worth, by worked numbers."""

import pytest

from turngate.envs.search.engine.passages import Passage
from turngate.envs.search.retrieval_facts import (
    Sought,
    bears_answer,
    gold_among,
    key_score,
    looked_at,
    near_answer,
    query_novelty,
    right,
    truthful,
    walked,
)


def sought(*answers):
    return Sought(answers=answers, gold=("a", "b#1"), path=("a", "b", "c"), between=("B", "C"))


def passage(name):
    return Passage(id=name, document=name.partition("#")[0], title="", text="")


def test_gold_can_name_documents_or_passages():
    assert gold_among([passage("a#7"), passage("b#0"), passage("x#0")], sought()) == {"a"}
    assert gold_among([passage("b#1")], sought()) == {"b#1"}


@pytest.mark.parametrize(("seen", "n"), [("", 0), ("a", 1), ("bc", 0), ("ac", 1), ("abc", 3)])
def test_the_way_has_no_gaps(seen, n):
    assert walked(set(seen), ("a", "b", "c")) == n


def test_novelty_of_a_query():
    assert query_novelty({"a", "b"}, []) == 1.0
    assert query_novelty({"a", "b"}, [{"a", "b"}, {"c"}]) == 0.0
    assert query_novelty({"a", "b"}, [{"b", "c"}]) == pytest.approx(2 / 3)
    assert query_novelty(set(), [set()]) == 0.0


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [("It was Oslo.", "oslo", True), ("Nobody knows", "no", False), ("in 1812", "1", False), ("", "x", False)],
)
def test_an_answer_stands_as_whole_words(text, answer, expected):
    assert bears_answer([text], [answer]) is expected


def test_an_answer_on_the_way():
    """1, .4, .16 along the path: the answer itself, one hop away, two."""
    assert near_answer("c", ("B", "C")) == pytest.approx(0.4)
    assert near_answer("The B.", ("B", "C")) == pytest.approx(0.16)
    assert near_answer("B and C", ("B", "C")) == near_answer("", ("B", "C")) == near_answer("A", ()) == 0.0


@pytest.mark.parametrize(
    ("answers", "answer", "looked", "is_right", "worth"),
    [
        (("Oslo",), "oslo.", False, True, 1.0),
        (("Oslo",), "Oslo or Bergen", True, False, -1.0),
        (("Oslo",), "unknown", True, False, 0.0),
        (("Oslo",), None, True, False, 0.0),
        (("Oslo",), "", True, False, 0.0),
        ((), "unknown", True, True, 1.0),
        ((), "unknown", False, False, 0.0),
        ((), "", True, False, 0.0),
        ((), None, True, False, 0.0),
        ((), "Oslo", True, False, -1.0),
        ((), "unknown, or Oslo", True, False, -1.0),
    ],
)
def test_the_table_of_answers(answers, answer, looked, is_right, worth):
    assert right(answer, sought(*answers), looked=looked) is is_right
    assert truthful(answer, sought(*answers), looked=looked) == worth


def test_the_key_score_is_the_mean_over_titles_of_the_best_f1_of_a_query():
    assert key_score([], [["a", "b"]]) == 0.0
    assert key_score([{"a", "b"}], [["a", "b"]]) == 1.0
    assert key_score([{"a"}, {"c", "d", "e"}], [["a", "b"], ["c"]]) == pytest.approx((2 / 3 + 2 / 4) / 2)
    assert key_score([{"a"}], [[]]) == 0.0


@pytest.mark.parametrize(
    ("shown", "earlier", "query", "found"),
    [
        ("a", "", "anna kell", ["a"]),
        ("a", "", "kell", []),  # of two words that title and question share, both
        ("a", "", "the river of a town", []),
        ("a", "", None, ["a"]),  # opened by its id
        ("ab", "", "anna kell", ["a"]),  # the second one by a later turn
        ("b", "a", "born", ["b"]),
        ("c", "a", "born", []),
        ("x", "abc", "anna kell", []),
    ],
)
def test_a_document_was_looked_at_if_it_was_searched_for_in_its_turn(shown, earlier, query, found):
    passages = [Passage(id=f"{name}#0", document=name, title="Anna Kell", text="") for name in shown]
    words, question = None if query is None else query.split(), "the river of the town where anna kell was born".split()
    assert looked_at(passages, earlier, sought(), question=question, query=words) == found
