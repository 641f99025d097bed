"""Tests, patches, diagnostics and the way there."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from turngate.errors import ConfigError, ShapeError
from turngate.rewards.outcome.code import (
    all_tests_pass,
    changed_lines,
    diagnostics_reward,
    difficulty_weights,
    fraction_of_tests,
    localisation,
    pass_rates,
    patch_similarity,
    weighted_tests,
)

FIX, KEEP = ["f1", "f2", "f3", "f4"], ["k1"]
HALF_FIXED = {"f1": True, "f2": True, "f3": False, "f4": False, "k1": True}


# --- tests -----------------------------------------------------------------------------------------------------------


def test_the_published_outcomes():
    assert fraction_of_tests(HALF_FIXED, FIX, KEEP) == pytest.approx(0.5, abs=1e-5)
    assert fraction_of_tests(HALF_FIXED | {"k1": False}, FIX, KEEP) == 0.0
    assert all_tests_pass(HALF_FIXED, FIX, KEEP) == 0.0
    assert all_tests_pass(dict.fromkeys([*FIX, *KEEP], True), FIX, KEEP) == 1.0


@pytest.mark.parametrize(
    ("results", "hard", "soft"),
    [
        ({"f1": True}, 0.0, 0.0),  # k1 did not run: a deleted test is a failed one
        ({"f1": True, "k1": None}, None, None),
        ({"f1": None, "k1": True}, None, None),
        ({"f1": False, "k1": None}, 0.0, None),
        ({"f1": None, "k1": False}, 0.0, 0.0),
        ({"k1": True}, 0.0, 0.0),
    ],
)
def test_missing_is_neither_passed_nor_failed(results, hard, soft):
    assert all_tests_pass(results, ["f1"], KEEP) == hard
    assert fraction_of_tests(results, ["f1"], KEEP) == soft


def test_no_tests_measure_nothing():
    assert all_tests_pass({}, []) is fraction_of_tests({}, []) is None


def test_edited_tests_pay_only_as_published():
    passed = dict.fromkeys([*FIX, *KEEP], True)
    assert fraction_of_tests(passed, FIX, KEEP, tests_untouched=False, faithful=True) == 1.0
    assert fraction_of_tests(passed, FIX, KEEP, tests_untouched=False) == 0.0
    assert fraction_of_tests(passed, FIX, KEEP, tests_untouched=None) is None


verdicts = st.dictionaries(st.sampled_from([*FIX, *KEEP, "other"]), st.sampled_from([True, False, None]))


@settings(max_examples=60, deadline=None)
@given(verdicts, st.permutations(FIX))
def test_hard_and_soft_agree_and_the_order_of_tests_is_free(results, order):
    hard, soft = all_tests_pass(results, FIX, KEEP), fraction_of_tests(results, FIX, KEEP)
    assert (hard, soft) == (all_tests_pass(results, order, KEEP), fraction_of_tests(results, order, KEEP))
    assert soft is None or 0 <= soft <= 1
    assert (hard == 1) == (soft == 1)
    assert fraction_of_tests(results | {"other": True, "more": True}, FIX, KEEP) == soft


MATRIX = [[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 0, 0]]


def test_pass_rates():
    assert pass_rates(MATRIX).tolist() == [1, 0.5, 0.25]
    np.testing.assert_array_equal(pass_rates([[1, math.nan, math.nan], [0, 1, math.nan]]), [0.5, 1, math.nan])
    assert pass_rates(np.zeros((2, 0))).tolist() == []


def test_difficulty_weights():
    np.testing.assert_allclose(difficulty_weights([1, 0.5, 0.25]), [0, 0.4, 0.6], atol=1e-12)
    np.testing.assert_allclose(difficulty_weights([1, 0.5, 0.25], floor=0.25), [1 / 6, 2 / 6, 3 / 6])
    np.testing.assert_allclose(difficulty_weights([math.nan, 0.5]), [0, 1])
    np.testing.assert_allclose(difficulty_weights([0.5, 0.5]), [0.5, 0.5])


def test_where_everybody_passes_everything_nothing_has_a_weight():
    assert difficulty_weights([1, 1]) is difficulty_weights([]) is difficulty_weights([math.nan]) is None
    np.testing.assert_allclose(difficulty_weights([1, 1], floor=0.1), [0.5, 0.5])


def test_weighted_tests():
    scores = [weighted_tests(row, [0, 0.4, 0.6]) for row in MATRIX]
    np.testing.assert_allclose(scores, [1, 0.4, 0, 0], atol=1e-12)
    assert weighted_tests([math.nan, 1], [0, 1]) == 1.0  # what weighs nothing need not be known
    assert weighted_tests([1, math.nan], [0.5, 0.5]) is weighted_tests([], []) is None


@settings(max_examples=60, deadline=None)
@given(
    hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=5), elements=st.sampled_from([0.0, 1.0]))
)
def test_weights_follow_difficulty_and_only_a_whole_solution_has_all_of_them(passed):
    rate, weight = pass_rates(passed), difficulty_weights(pass_rates(passed))
    if weight is None:
        assert passed.all()
        return
    assert weight.sum() == pytest.approx(1.0)
    assert weight[rate == 1].sum() == 0
    assert (np.sign(np.subtract.outer(rate, rate)) == -np.sign(np.subtract.outer(weight, weight))).all()
    for row in passed:
        score = weighted_tests(row, weight)
        assert score == pytest.approx(1.0) if row[weight > 0].all() else 0 <= score < 1


@pytest.mark.parametrize(
    ("run", "error", "problem"),
    [
        (lambda: pass_rates([[0.5]]), ShapeError, "1, 0 and NaN"),
        (lambda: pass_rates([1, 0]), ShapeError, "1, 0 and NaN"),
        (lambda: difficulty_weights([1.5]), ShapeError, r"\[1\.5\] must be flat, and its values between 0 and 1"),
        (lambda: difficulty_weights([[1]]), ShapeError, "must be flat"),
        (lambda: difficulty_weights([1], floor=1.5), ConfigError, r"floor=1\.5"),
        (lambda: weighted_tests([1], [1, 2]), ShapeError, "equal and flat"),
        (lambda: weighted_tests([1], [-1]), ShapeError, "at least 0"),
        (lambda: weighted_tests([1], [math.nan]), ShapeError, "finite"),
        (lambda: weighted_tests([2], [1]), ShapeError, "must be 1, 0 or NaN"),
    ],
)
def test_tests_that_cannot_be(run, error, problem):
    with pytest.raises(error, match=problem):
        run()


# --- patches ---------------------------------------------------------------------------------------------------------

DIFF = "--- a/m.py\n+++ b/m.py\n@@ -1,3 +1,3 @@\n import os\n-x = 1\n+x = 2\n print(x)\n"


def test_the_published_similarity():
    assert patch_similarity({"m": "abc"}, {"m": "abd"}, faithful=True) == pytest.approx(0.666667, abs=1e-5)
    assert patch_similarity({"m": "abc"}, {"m": "abd", "n": "x"}, faithful=True) == pytest.approx(0.333333, abs=1e-5)
    assert patch_similarity({}, {}, faithful=True) == 1.0
    assert patch_similarity(None, {"m": "abc"}, faithful=True) == -1.0


def test_only_changed_lines_are_compared():
    assert changed_lines(DIFF) == "-x = 1\n+x = 2"
    assert changed_lines("--- old comment\n+new") == "--- old comment\n+new"
    assert patch_similarity({"m.py": DIFF}, {"m.py": DIFF}) == 1.0
    assert patch_similarity({"m.py": DIFF.replace(" import os\n", "")}, {"m.py": DIFF}) == 1.0


def test_copying_context_pays_only_as_published():
    gold = {"m.py": "@@ -1,9 +1,9 @@\n" + " context line\n" * 8 + "-x = 1\n+x = 2\n"}
    copied = {"m.py": "@@ -1,9 +1,9 @@\n" + " context line\n" * 8}
    assert patch_similarity(copied, gold, faithful=True) > 0.9
    assert patch_similarity(copied, gold) == 0.0


def test_patches_that_say_nothing():
    assert patch_similarity(None, {"m.py": DIFF}) == -1.0
    assert patch_similarity({}, {"m.py": DIFF}) == 0.0
    assert patch_similarity({"m.py": DIFF}, {}) is None


def test_long_diffs_are_compared_by_lines_and_endless_ones_not_at_all():
    gold = {"m": "\n".join(f"+line {i}" for i in range(10))}
    half = {"m": "\n".join(f"+line {i}" for i in range(5))}
    assert patch_similarity(half, gold, max_chars=50) == pytest.approx(2 * 5 / 15, abs=1e-5)
    assert patch_similarity({"m": gold["m"] + "\n+" + "x" * 2000}, gold, max_chars=50) == 0.0


diffs = st.sampled_from(["+x", "-x\n+y", "+x\n+z"])
patches = st.dictionaries(st.sampled_from("ab"), diffs, max_size=2)
gold_patches = st.dictionaries(st.sampled_from("ab"), diffs, min_size=1, max_size=2)


@settings(max_examples=60, deadline=None)
@given(patches, gold_patches)
def test_similarity_is_bounded_and_more_files_or_lines_never_beat_the_gold(mine, gold):
    assert 0 <= patch_similarity(mine, gold) <= 1 == patch_similarity(gold, gold)
    assert patch_similarity(gold | {"extra": "+x"}, gold) < 1
    assert patch_similarity({name: diff + "\n+more" for name, diff in gold.items()}, gold) < 1


# --- diagnostics -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "safe", "confidence", "expected"),
    [(5, 2, True, 0.94, 1.894), (1, 0, True, 0.72, 0.872), (3, 3, False, 0.62, -0.038)],
)
def test_the_published_diagnostics_reward(before, after, safe, confidence, expected):
    score = diagnostics_reward(before, after, safe=safe, confidence=confidence, faithful=True)
    assert score == pytest.approx(expected, abs=1e-5)
    fixed = diagnostics_reward(before, after, safe=safe, confidence=confidence)
    assert fixed == pytest.approx(expected - 0.4, abs=1e-5)


def test_safe_turns_without_effect_pay_only_as_published():
    idle = {"safe": True, "confidence": 1.0}
    assert sum(diagnostics_reward(4, 4, **idle, faithful=True) for _ in range(10)) == pytest.approx(4.0)
    assert sum(diagnostics_reward(4, 4, **idle) for _ in range(10)) == 0.0


def test_unknown_diagnostics_and_confidence_out_of_range():
    assert diagnostics_reward(None, 1, safe=True, confidence=1.0) is None
    with pytest.raises(ShapeError, match="confidence is nan"):
        diagnostics_reward(1, 1, safe=True, confidence=math.nan)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=2, max_size=8), st.floats(0, 1))
def test_an_episode_earns_at_most_what_was_cleared(levels, confidence):
    turns = [diagnostics_reward(before, after, safe=True, confidence=confidence) for before, after in pairwise(levels)]
    assert sum(turns) <= 0.5 * (levels[0] - levels[-1]) + 1e-9


# --- on the way ------------------------------------------------------------------------------------------------------


def test_opening_every_file_pays_only_as_recall():
    gold, everything, careful = ["a", "b"], "abcdefgh", ["a", "c"]
    assert localisation(everything, gold, faithful=True) == 1.0 > localisation(careful, gold, faithful=True) == 0.5
    assert localisation(everything, gold) == 0.25 < localisation(careful, gold) == pytest.approx(1 / 3)
    assert localisation(["a"], []) is None
