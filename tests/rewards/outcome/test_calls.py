"""Tool calls: the published numbers, what was cheap in them, and that it no longer pays."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.every import for_every
from turngate.errors import ShapeError
from turngate.rewards.outcome.calls import call_quality, ftrl_answer, ftrl_calls, same_value, toolrl
from turngate.types import ToolCall


def call(name="search", **arguments):
    return ToolCall(name=name, arguments=arguments)


GOLD = [call(q="cats", k=3)]

calls = st.lists(
    st.builds(
        lambda name, arguments: ToolCall(name=name, arguments=arguments),
        st.sampled_from(["search", "open"]),
        st.dictionaries(st.sampled_from(["q", "k"]), st.sampled_from([1, 2, "x"]), max_size=2),
    ),
    max_size=4,
)


# --- ToolRL ----------------------------------------------------------------------------------------------------------


@for_every(
    "predicted, expected",
    [
        ([call(q="cats", k=5)], 2.5),  # S = 1 + 1 + 1 of 4
        (GOLD, 4.0),
        ([*GOLD, call("open")], 1.0 + 2.25),
        ([*GOLD, *(call("open", n=i) for i in range(10))], 1.0 + 1.636364),
        ([], 1.0 - 3.0),
    ],
)
def test_the_published_toolrl(predicted, expected):
    assert toolrl(predicted, GOLD, faithful=True) == pytest.approx(expected, abs=1e-5)


def test_the_published_extremes_and_special_cases():
    assert toolrl(GOLD, GOLD, malformed=1, faithful=True) == 1.0 - 3.0
    assert toolrl(GOLD, GOLD, well_formed=False, faithful=True) == 3.0
    assert toolrl([call("open")], [], faithful=True) == toolrl([], [], faithful=True) == 1.0


@for_every(
    "predicted, malformed, quality",
    [
        (GOLD, 0, 1.0),
        ([call(q="cats", k="3.0")], 0, 1.0),
        ([call(q="cats", k=5)], 0, (1 + 1 + 1 / 2) / 3),
        ([call(q="cats")], 0, (1 + 1 / 2 + 1 / 2) / 3),
        ([*GOLD, call("open")], 0, 0.5),
        (GOLD, 1, 0.5),
        ([call("open", q="cats", k=3)], 0, 0.0),
        ([], 0, 0.0),
    ],
)
def test_call_quality(predicted, malformed, quality):
    assert call_quality(predicted, GOLD, malformed=malformed) == pytest.approx(quality, abs=1e-5)
    assert toolrl(predicted, GOLD, malformed=malformed) == pytest.approx(1 + 6 * quality - 3, abs=1e-5)


def test_spare_calls_are_cheap_as_published_and_dear_here():
    spam = [*GOLD, *(call("open", n=i) for i in range(10))]
    none = toolrl([], GOLD, faithful=True)
    assert toolrl(spam, GOLD, faithful=True) - none > 0.75 * (toolrl(GOLD, GOLD, faithful=True) - none)
    assert toolrl(spam, GOLD) - toolrl([], GOLD) < 0.1 * (toolrl(GOLD, GOLD) - toolrl([], GOLD))


def test_guessing_many_calls_pays_more_than_one_guess_only_as_published():
    guesses = [call(f"tool{i}") for i in range(4)]
    gold = [call("tool2")]
    single = sum(toolrl([guess], gold, faithful=True) for guess in guesses) / 4
    assert toolrl(guesses, gold, faithful=True) > single + 1
    single = sum(toolrl([guess], gold) for guess in guesses) / 4
    assert toolrl(guesses, gold) == pytest.approx(single)


def test_calls_where_none_is_needed_are_free_only_as_published():
    assert toolrl([call("open")] * 5, [], faithful=True) == toolrl([], [], faithful=True)
    assert toolrl([], []) == 4.0
    assert toolrl([call("open")], []) == -2.0


def test_the_order_of_the_gold_changes_only_the_published_form():
    gold = [call(q=1, k=1), call(q=1, k=2)]
    predicted = [call(q=1, k=2), call(q=9, k=1)]
    orders = [list(order) for order in permutations(gold)]
    assert len({toolrl(predicted, order, faithful=True) for order in orders}) == 2
    assert len({toolrl(predicted, order) for order in orders}) == 1


def test_a_missing_gold_is_none_and_a_negative_count_an_error():
    assert toolrl(GOLD, None) is toolrl(GOLD, None, faithful=True) is None
    with pytest.raises(ShapeError, match="malformed is -1"):
        toolrl(GOLD, GOLD, malformed=-1)


@settings(max_examples=60, deadline=None)
@given(calls, calls, st.randoms(use_true_random=False))
def test_quality_is_bounded_free_of_order_and_full_only_for_the_same_calls(predicted, gold, random):
    quality = call_quality(predicted, gold)
    assert 0 <= quality <= 1 + 1e-12
    shuffled = list(predicted)
    random.shuffle(shuffled)
    assert call_quality(shuffled, gold) == pytest.approx(quality)
    same = sorted(map(repr, predicted)) == sorted(map(repr, [*gold]))
    assert not same or quality == pytest.approx(1.0)
    assert -3 <= toolrl(predicted, gold) <= 4 + 1e-12


@settings(max_examples=60, deadline=None)
@given(calls, calls)
def test_adding_calls_to_the_exact_list_never_pays(gold, extra):
    assert call_quality(gold + extra, gold) <= call_quality(gold, gold) + 1e-12
    if extra:
        assert call_quality(gold + extra, gold) < 1


@settings(max_examples=60, deadline=None)
@given(calls.filter(bool), calls.filter(lambda gold: len(gold) == 1))
def test_several_guesses_never_pay_more_than_the_mean_of_single_ones(guesses, gold):
    single = sum(call_quality([guess], gold) for guess in guesses) / len(guesses)
    assert call_quality(guesses, gold) <= single + 1e-12


@for_every(
    "mine, theirs, equal",
    [
        (5, 5.0, True),
        ("5", 5, True),
        (" Rome ", "rome", True),
        (True, 1, False),
        (True, "true", True),
        (None, None, True),
        (None, "none", False),
        ([1, "2"], [1.0, 2], True),
        ([1, 2], [2, 1], False),
        ({"a": "1"}, {"a": 1}, True),
        ({"a": 1}, {"b": 1}, False),
        ("12345678901234567890", "12345678901234567891", False),
        (0.1, "0.1", True),
        (float("nan"), 1, False),
        ("café", "cafe\u0301", True),
        (["Straße"], ["STRASSE"], True),
        ("don't", "don’t", True),
        ("１２", 12, True),
        ("٣", "3", True),
        ("−5", -5, True),
        ("a–b", "a-b", True),
        ("Ro\u200bme", "Rome", True),
        ("\u212b", "å", True),
        ("10²", "102", False),
        ("½", "12", False),
        ("1,5", "15", False),
        ("10、20", "1020", False),
        ("x-y", "xy", False),
        ("résumé", "resume", False),
        ("C++", "C", False),
        ("the who", "who", False),
        ("“true”", True, False),
        ({"café": {"naïve": 1}}, {"cafe\u0301": {"nai\u0308ve": 1}}, True),
        ({"x–y": 1}, {"x-y": 1}, True),
        ({"Name": 1}, {"name": 1}, False),
        ({"x–y": 1, "x-y": 2}, {"x-y": 1}, False),
        ({"x–y": 1, "x-y": 2}, {"x-y": 1, "x–y": 2}, False),
    ],
)
def test_values(mine, theirs, equal):
    assert same_value(mine, theirs) is same_value(theirs, mine) is equal


# --- FTRL ------------------------------------------------------------------------------------------------------------


@for_every("solved, n, expected", [(2, 3, 1.0), (1, 2, 0.666667), (2, 2, 1.333333), (0, 4, 0.0)])
def test_the_published_ftrl(solved, n, expected):
    assert ftrl_calls(n, solved, faithful=True) == pytest.approx(expected, abs=1e-5)


@for_every(
    "solved, n, solvable, expected",
    [(1, 2, None, 2 / 3), (2, 2, None, 1.0), (2, 3, None, 0.8), (2, 1, None, 1.0), (1, 1, 3, 0.5), (0, 2, None, 0.0)],
)
def test_the_bounded_ftrl(solved, n, solvable, expected):
    assert ftrl_calls(n, solved, solvable=solvable) == pytest.approx(expected, abs=1e-5)


def test_a_spare_call_beside_parallel_answers_is_free_only_as_published():
    assert ftrl_calls(3, 2, faithful=True) == ftrl_calls(1, 1, faithful=True) == 1.0
    assert ftrl_calls(3, 2) < ftrl_calls(2, 2)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(0, 9), st.integers(0, 9))
def test_ftrl_is_bounded_and_a_spare_call_never_pays(n, solved, more):
    score = ftrl_calls(n, solved, solvable=solved + more)
    assert 0 <= score <= 1
    assert ftrl_calls(n + 1, solved, solvable=solved + more) <= score


@for_every(
    "text, unsolved, stray, expected",
    [
        ("Paris", 1, False, 0.5),
        ("Paris", 0, False, 1.0),
        ("Rome", 0, False, 0.5),
        ("Rome", 2, False, 0.0),
        (" ", 0, False, -0.5),
        ("Paris </tool>", 0, True, -0.3),
    ],
)
@for_every("faithful", [True, False])
def test_ftrl_answers(text, unsolved, stray, expected, faithful):
    assert ftrl_answer(text, ["Paris"], unsolved, stray_tags=stray, faithful=faithful) == pytest.approx(expected)


def test_a_list_of_candidates_is_right_only_as_published():
    candidates = "Rome, Paris or Berlin"
    assert ftrl_answer(candidates, "Paris", 1, faithful=True) == 0.5
    assert ftrl_answer(candidates, "Paris", 1) == 0.0


def test_missing_and_impossible_ftrl():
    assert ftrl_answer(None, "Paris", 0) is ftrl_answer("Paris", [], 0) is None
    with pytest.raises(ShapeError, match="unsolved is -1"):
        ftrl_answer("Paris", "Paris", -1)
    for counts in ((0, 0, None), (1, -1, None), (1, 2, 1)):
        with pytest.raises(ShapeError, match="solved ≤ solvable"):
            ftrl_calls(counts[0], counts[1], solvable=counts[2])
