"""Short answers: what is equal, what is nearly so, and what padding earns."""

import math
import re
import unicodedata
from collections import Counter
from functools import partial
from itertools import combinations, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.every import for_every
from tests.helpers.growth import SIZES, assert_linear
from turngate.errors import ConfigError
from turngate.rewards.outcome.answers import (
    Number,
    Overlap,
    exact_match,
    is_abstention,
    list_overlap,
    numeric_match,
    parse_number,
    set_overlap,
    token_f1,
)
from turngate.rewards.outcome.normal_form import normalize, one_form

words = st.sampled_from(["red", "green", "blue", "the", "Paris", "york", "new", "7"])
texts = st.lists(words, max_size=6).map(" ".join)
items = st.lists(words, max_size=6)
gold_items = st.lists(words, min_size=1, max_size=5, unique_by=normalize)


# --- text ------------------------------------------------------------------------------------------------------------


@for_every(
    "answer, gold, expected",
    [
        ("The Beatles!", ["beatles"], 1.0),
        ("New-York", ["new york", "NewYork"], 1.0),
        ("beatles band", ["beatles"], 0.0),
        ("", ["beatles"], 0.0),
        ("beatles", "The Beatles", 1.0),
    ],
)
def test_exact_match(answer, gold, expected):
    assert exact_match(answer, gold) == expected


@for_every(
    "answer, gold, expected",
    [
        ("the red car", "a red bus", 0.5),  # one word in common of two and two
        ("red red red", "red", 0.5),  # 2·1 / (3 + 1)
        ("paris in france", "paris", 0.5),
        ("yes indeed", "yes", 0.0),
        ("yes", "yes", 1.0),
        ("no", "no answer", 0.0),
        ("", "red", 0.0),
    ],
)
def test_token_f1(answer, gold, expected):
    assert token_f1(answer, gold) == pytest.approx(expected, abs=1e-5)


def test_the_best_alias_counts():
    assert token_f1("new york city", ["the big apple", "new york"]) == pytest.approx(0.8, abs=1e-5)


def test_a_gold_answer_that_normalises_to_nothing_is_only_matched_by_itself():
    assert exact_match("the", ["A"], faithful=True) == exact_match("!", ["A"], faithful=True) == 1.0
    assert exact_match("the", ["A"]) == exact_match("!", ["A"]) == 0.0
    assert exact_match("a", ["A"]) == token_f1("a", ["A"]) == 1.0


@for_every("score", [exact_match, token_f1])
def test_what_cannot_be_measured_is_none(score):
    assert score(None, ["gold"]) is None
    assert score("answer", []) is None


@settings(max_examples=60, deadline=None)
@given(texts, texts)
def test_f1_is_bounded_symmetric_and_full_only_for_equal_bags(mine, theirs):
    score = token_f1(mine, theirs)
    assert 0 <= score <= 1
    assert score == token_f1(theirs, mine)
    if exact_match(mine, theirs):
        assert score == 1


@settings(max_examples=60, deadline=None)
@given(texts, words)
def test_adding_words_to_a_right_answer_never_pays(gold, extra):
    assert token_f1(f"{gold} {extra}", gold) <= token_f1(gold, gold) == 1


@settings(max_examples=60, deadline=None)
@given(texts, gold_items, st.integers(2, 4))
def test_repeating_an_answer_never_pays_if_the_gold_repeats_nothing(answer, gold, times):
    gold = " ".join(gold)
    assert token_f1(" ".join([answer] * times), gold) <= token_f1(answer, gold) + 1e-12


ARTICLES = ("a", "an", "the")
ACCENT = unicodedata.normalize("NFD", "café")


@for_every(
    "one, other",
    [
        ("café", ACCENT),
        ("don't know", "don’t know"),
        ("12", "１２"),
        ("北京", "北京。"),
        ("Hello", "“Hello”"),
        ("Straße", "STRASSE"),
        ("−5", "-5."),
        ("(-5)", "“–5”"),
        ("5", "+5"),
        ("0.5", ".5"),
        ("12,500 km", "12500 km"),
        ("5%", "5 %"),
        ("2019–2020", "2019-2020"),
        ("**Oslo**", "_Oslo_"),
        ("U.S.", "us"),
        ("- 5", "−5"),
        ("e-mail", "email"),
        ("**New York**", "“New York”"),
        ("(New York)", "`New York`"),
        ("1\u200b2\u202c", "12"),  # invisible
        ("١٢٫٥٪", "12.5%"),
        ("「北京」、上海", "北京,上海"),
        ("5 kW", "5 kw"),
    ],
)
def test_what_is_the_same_is_equal_in_every_comparison(one, other):
    assert exact_match(one, other) == exact_match(other, one) == token_f1(one, other) == 1
    assert list_overlap([one], [[other]]).exact == set_overlap([other], [one]).exact == 1


@for_every(
    "different",
    [
        ["5", "-5", "5%", "$5", "€5", "-$5"],
        ["1.5", "15", "1/5", "1:5", "1-5", "1^5", "1*5", "1,5", "1.50"],
        ["10", "1.0", "1,0", "-10", "10²", "102"],
        ["5", "5!", "~5", "5‰", "§5", "5'", '5"', "#5", "√5", "±5"],
        ["5 3", "5 - 3", "5 · 3", "5 + 3", "5-3", "53"],
        ["1e5", "1e-5", "15"],
        ["½", "-½", "1/2", "12"],
        ["∞", "-∞"],
        ["(1, 2)", "[1, 2]", "(1, 2]", "1 2", "12"],
        ["C", "C++", "C#", "C+", "C*"],
        ["O", "O+", "O-"],
        ["CO3-", "CO3", "CO3--"],
        ["vitamin", "vitamin A", "vitamin a b", "vitamin b"],
        ["a or b", "or b"],
        ["x=5", "x<5", "x5"],
        ["x", "-x", "x'", "!x", "x!", "*x", "x²", "x2"],
        ["x-1", "x1", "x+1", "x-y", "xy", "x:y", "x/y"],
        ["f(x)", "f'(x)", "fx"],
        ["NET", ".NET"],
        ["v", "-v", "--v"],
        ["etc", "/etc", "./etc", "../etc", "~/etc"],
        ["example.com", "examplecom"],
        ["5 MW", "5 mW"],
        ["5 Mb", "5 MB"],
    ],
)
def test_what_means_something_else_stays_different(different):
    assert len({normalize(text) for text in different}) == len(different)
    assert not any(exact_match(one, other) for one, other in permutations(different, 2))


SIGNS = st.text(st.sampled_from("aAbxX15.,-+−*_~'\"“”()[]#%$/!?:; \u200béß５２²½∞"), max_size=14)


@settings(max_examples=400, deadline=None)
@given(st.text(max_size=20) | SIGNS)
def test_the_normal_form_has_itself_as_normal_form_and_depends_on_no_spelling_of_a_letter(text):
    form = normalize(text)
    assert normalize(form) == form
    assert {normalize(unicodedata.normalize(kind, text)) for kind in ("NFC", "NFD")} == {form}


@settings(max_examples=400, deadline=None)
@given(st.text(max_size=20) | SIGNS)
def test_no_letter_digit_or_symbol_is_thrown_away_but_articles_and_plus(text):
    def kept(shown):
        return [sign for sign in shown.casefold() if unicodedata.category(sign)[0] in "LNS" and sign not in "+~|`"]

    articles = [word for word in re.findall(r"[^\W_]+", one_form(text).casefold()) if word in ARTICLES]
    assert Counter(kept(one_form(text))) - Counter(kept(normalize(text))) <= Counter("".join(articles))


WHOLE = st.integers(0, 10**5).map(str)
EXPRESSION = st.tuples(
    st.sampled_from(["", "-"]),
    st.sampled_from(["", "$", "€"]),
    WHOLE,
    st.sampled_from(["", ".5", ".05", ":30", "/7", "e-5", "e5"]),
    st.sampled_from(["", "%", "!", "'", " km", " MW", " mW", "²", " - 3", " + 3"]),
)
AROUND = st.sampled_from(["{}", "**{}**", "“{}”", "({})", " {}. ", "the {}", "`{}`", "\u200b{}", "_{}_,"])


@settings(max_examples=400, deadline=None)
@given(EXPRESSION, EXPRESSION, AROUND, AROUND)
def test_expressions_are_equal_only_to_themselves_whatever_is_around_them(one, other, before, behind):
    texts = [before.format("".join(one).replace("-", "−")), behind.format("".join(other))]
    assert (normalize(texts[0]) == normalize(texts[1])) == (one == other)
    assert normalize(before.format("".join(one))) == normalize("".join(one))


def test_a_normal_form_is_made_in_time_proportional_to_the_text():
    for piece in ("'a ", '"a ', "*a ", "(a ", "[a", "((", "'a'", "_a", "~a ", "a.", "- ", "1,000", "a,", "`"):
        texts = [piece * (size // len(piece)) for size in (6_000, 6_000 * SIZES)]
        assert_linear(*(partial(normalize, text) for text in texts), piece)


@settings(max_examples=200, deadline=None)
@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6), st.integers(0, 3))
def test_numbers_are_equal_only_to_themselves(one, other, places):
    texts = [f"{number / 10**places:.{places}f}" for number in (one, other)]
    assert (normalize(texts[0]) == normalize(texts[1])) == (float(texts[0]) == float(texts[1]) and texts[0] == texts[1])
    assert normalize(f"{one:,}") == normalize(str(one)) == normalize(f" ({one}). ")


# --- numbers ---------------------------------------------------------------------------------------------------------


@for_every(
    "text, expected",
    [
        ("12", Number(value=12.0)),
        (" -1,234,567.5 ", Number(value=-1234567.5)),
        ("12.5%", Number(value=12.5, percent=True)),
        ("12.5 percent", Number(value=12.5, percent=True)),
        ("$1,000", Number(value=1000.0, unit="$")),
        ("1e3 km", Number(value=1000.0, unit="km")),
        (".5", Number(value=0.5)),
        ("5.", Number(value=5.0)),
        ("１２", Number(value=12.0)),
        ("12 million", Number(value=12e6)),
        ("12k", Number(value=12e3)),
        ("12 k", Number(value=12.0, unit="k")),
        ("1.5B USD", Number(value=1.5e9, unit="usd")),
        ("$3 hundred thousand", Number(value=3e5, unit="$")),
        ("12 dozen", Number(value=144.0)),
    ],
)
def test_one_number_is_read(text, expected):
    assert parse_number(text) == expected


@for_every("text", ["", "twelve", "1 2", "1, 2", "3/4", "12,34", "1.2.3", "1e999", "nan", "inf", "12 or 13"])
def test_anything_else_is_no_number(text):
    assert parse_number(text) is None


@for_every(
    "answer, gold, expected",
    [
        ("1,000", 1000, 1.0),
        ("12.5%", 0.125, 1.0),
        ("12.5%", "0.125", 1.0),
        ("12.5%", "12.5 %", 1.0),
        ("12.5", 0.125, 0.0),
        ("1000.0005", 1000, 1.0),
        ("1000.5", 1000, 0.0),
        ("5 km", "5 km", 1.0),
        ("5 km", "5 miles", 0.0),
        ("12 million", 12, 0.0),
        ("12k", 12, 0.0),
        ("12 dozen", "12", 0.0),
        ("12 lakh", 12, 0.0),
        ("6 pairs", "12", 1.0),
        ("$12m", "$12", 0.0),
        ("$12m", "12,000,000", 1.0),
        ("12²", 12, 0.0),
        ("12½", 12, 0.0),
        ("12 squared", 12, 0.0),
        ("12 tenths", 12, 0.0),
        ("12 minus", 12, 0.0),
        ("12 k", 12, 0.0),
        ("300 K", "300 K", 1.0),
        ("12 ppm", 12, 0.0),
        ("5 MW", "5 mW", 0.0),
        ("5 KW", "5 kW", 1.0),
        ("5\u200b", 5, 1.0),
        ("12 million", "12,000,000", 1.0),
        ("5", "5 km", 1.0),
        ("0", 0, 1.0),
        ("I think 5", 5, 0.0),
        ("4 5 6", 5, 0.0),
        ("1e308", 5, 0.0),
    ],
)
def test_numeric_match(answer, gold, expected):
    assert numeric_match(answer, gold) == expected


def test_percent_signs_can_be_ignored_and_tolerances_set():
    assert numeric_match("12.5%", 12.5, percent="ignore") == 1.0
    assert numeric_match("3.1", math.pi, relative=0.02) == 1.0
    assert numeric_match("0.1", 0, relative=0.02) == 0.0
    assert numeric_match("0.1", 0, absolute=0.2) == 1.0
    assert numeric_match("190", 100, relative=0.5) == 0.0  # 90 is within half of 190, but not of 100


def test_a_missing_answer_or_a_gold_that_is_no_number_is_none():
    assert numeric_match(None, 5) is None
    assert numeric_match("5", "five") is None
    assert numeric_match("5", math.nan) is None


@for_every("setting", [{"relative": -1.0}, {"absolute": math.inf}])
def test_tolerances_that_cannot_be(setting):
    with pytest.raises(ConfigError, match="must be finite and at least 0"):
        numeric_match("5", 5, **setting)


@settings(max_examples=60, deadline=None)
@given(st.floats(-1e9, 1e9, allow_nan=False), st.floats(-1e9, 1e9, allow_nan=False))
def test_a_list_of_two_numbers_never_matches(a, b):
    assert numeric_match(f"{a!r}, {b!r}", a) == 0.0
    assert numeric_match(f"{a!r}", a) == 1.0


# --- sets and lists --------------------------------------------------------------------------------------------------


@for_every(
    "answer, gold, precision, recall",
    [
        (["red", "blue"], ["Blue", "red"], 1.0, 1.0),
        (["red", "red", "blue"], ["red", "blue"], 1.0, 1.0),
        (["red", "green"], ["red", "blue"], 0.5, 0.5),
        (["usa", "united states"], [["USA", "United States"], "france"], 0.5, 0.5),
        ([], ["red"], 0.0, 0.0),
    ],
)
def test_sets(answer, gold, precision, recall):
    assert set_overlap(answer, gold) == Overlap(precision=precision, recall=recall)


def test_aliases_that_several_items_share_are_assigned_as_well_as_possible():
    gold = [["springfield", "springfield ohio"], ["springfield", "springfield illinois"]]
    assert set_overlap(["springfield", "springfield ohio"], gold).exact == 1.0


def test_lists_count_repetitions_and_can_count_order():
    assert list_overlap(["a1", "a1"], ["a1", "a1", "b2"]) == Overlap(precision=1.0, recall=2 / 3)
    assert list_overlap(["a1", "a1"], ["a1"]) == Overlap(precision=0.5, recall=1.0)
    assert list_overlap(["b2", "a1"], ["a1", "b2"]).exact == 1.0
    assert list_overlap(["b2", "a1"], ["a1", "b2"], ordered=True).recall == 0.5
    assert list_overlap(["a1", "x", "b2", "c3"], ["a1", "b2", "c3"], ordered=True) == Overlap(
        precision=0.75, recall=1.0
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from("xyz"), max_size=5), st.lists(st.sampled_from("xyz"), min_size=1, max_size=5))
def test_order_counts_the_longest_common_subsequence(mine, theirs):
    def subsequences(items):
        return {chosen for size in range(len(items) + 1) for chosen in combinations(items, size)}

    longest = max(map(len, subsequences(mine) & subsequences(theirs)))
    assert list_overlap(mine, theirs, ordered=True).recall * len(theirs) == pytest.approx(longest)


def test_scores_of_an_overlap():
    half = Overlap(precision=0.5, recall=1.0)
    assert half.f1 == pytest.approx(0.666667, abs=1e-5)
    assert half.f_beta(2.0) == pytest.approx(0.833333, abs=1e-5)
    assert (half.exact, Overlap(precision=0.0, recall=0.0).f1) == (0.0, 0.0)


def test_no_answer_and_no_gold_are_none():
    assert set_overlap(None, ["red"]) is list_overlap(["red"], []) is None


@settings(max_examples=60, deadline=None)
@given(items, gold_items, st.randoms(use_true_random=False))
def test_sets_are_bounded_and_free_of_order_and_repetition(answer, gold, random):
    overlap = set_overlap(answer, gold)
    assert 0 <= overlap.precision <= 1
    assert 0 <= overlap.recall <= 1
    shuffled = answer * 2
    random.shuffle(shuffled)
    assert set_overlap(shuffled, gold) == overlap


@settings(max_examples=60, deadline=None)
@given(items, gold_items)
def test_a_superset_never_beats_the_exact_set_and_repeating_a_list_never_pays(extra, gold):
    exact, wider = set_overlap(gold, gold), set_overlap(gold + extra, gold)
    assert exact.exact == exact.f1 == 1
    assert wider.f1 <= exact.f1
    assert (wider.f1 < 1) == bool({normalize(item) for item in extra} - {normalize(item) for item in gold})
    assert list_overlap(gold * 2, gold).f1 < list_overlap(gold, gold).f1


# --- answers withheld ------------------------------------------------------------------------------------------------


def test_an_answer_that_also_answers_does_not_abstain():
    assert is_abstention("I don't know.")
    assert is_abstention("")
    assert not is_abstention("I don't know, perhaps Paris")


@for_every(
    "answer, gold, f1",
    [("北京", "北京市", 0.8), ("東京", "京都", 0.5), ("北京 city", "city", 0.5), ("北京", "上海", 0)],
)
def test_letters_are_the_words_of_scripts_without_spaces(answer, gold, f1):
    assert token_f1(answer, gold) == pytest.approx(f1)
    assert token_f1(answer, gold, faithful=True) in (0, pytest.approx(2 / 3))
