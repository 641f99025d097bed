"""The leak guard: the sheet's number, the fast subsequence against a slow one, and what counts as holding an answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.envs.leak import common, leak_score, leaked_secret, secrets_of
from turngate.tools.tool import Parameter, Tool

WORDS = st.lists(st.sampled_from("abcd"), max_size=12)
TOOLS = (
    Tool(name="look", description="Look."),
    Tool(name="answer", description="Answer.", parameters=(Parameter(name="text"),)),
)


def slow(one, other):
    if not one or not other:
        return 0
    if one[-1] == other[-1]:
        return slow(one[:-1], other[:-1]) + 1
    return max(slow(one[:-1], other), slow(one, other[:-1]))


@given(one=WORDS.map(lambda words: words[:6]), other=WORDS.map(lambda words: words[:6]))
def test_the_common_subsequence_against_the_definition(one, other):
    assert common(one, other) == slow(one, other)


@given(one=WORDS, other=WORDS, more=WORDS)
def test_common_is_symmetric_bounded_and_never_falls_with_more_words(one, other, more):
    assert common(one, other) == common(other, one) <= min(len(one), len(other))
    assert common(one, other) <= common(one, other + more)
    assert common(one, one) == len(one)


def test_the_number_of_the_sheet():
    """A19: hint "open drawer 2", action "open drawer 2": ratio 1."""
    assert leak_score(["open drawer 2"], "open drawer 2") == 1.0
    assert leak_score(["look", "open the drawer 3"], "open drawer 2") == pytest.approx(2 / 3)
    assert leak_score(["look"], "open drawer 2") == 0.0
    assert leak_score([], "open drawer 2") == leak_score(["open drawer 2"], "") == 0.0


@pytest.mark.parametrize("action", ["as the hint says", "As told: press a", "by guidance press b", "as suggested, a"])
def test_speaking_of_the_hint_is_a_leak(action):
    assert leak_score([action], "it is warm") == 1.0
    assert leak_score(["a hintless mint"], "it is warm") == 0.0


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("the answer is 42.", "42"),
        ("run  SELECT name\nfrom T;", "select NAME from t"),
        ("@@ -1 +1 @@\n+    return a + b\n+    # end", "return a + b\n    # end"),
    ],
)
def test_a_text_that_holds_a_secret(text, secret):
    assert leaked_secret(text, ["nothing", secret]) == secret
    assert leaked_secret(text, [secret], known=f"You know that it is {secret}") == ""


@pytest.mark.parametrize(
    "text",
    [
        "_42 apples_", "42 appless", "**42** **apples**", "`42` apples", "42-apples", "42_apples", "42apples",
        "4 2 a p p l e s", "42, apples", "42\u200bapples", "\uff14\uff12 apples", "42 ápples",
        "42\n- apples", "<b>42</b> apples",
        "\\text{42 apples}", '"42" "apples"', "42...apples", "in 2019 42 apples", "*42 APPLES*", "42 a\u00adpples",
        "\u0664\u0662 apples",
    ],
)  # fmt: skip
def test_no_markup_hides_a_secret(text):
    assert leaked_secret(f"The answer: {text} in all", ["42 apples"]) == "42 apples"


@pytest.mark.parametrize("text", ["_no_", "**7**", "(no)", "<i>7</i>", "7."])
def test_a_short_secret_is_found_as_whole_words_in_any_markup(text):
    assert leaked_secret(text, ["no", "7"])


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("nothing is known", "no"),
        ("17 or 7.5", "7"),
        ("the cost are different", "stared"),
        ("142 apples, and 42 pears", "42 apples"),
        ("1420000 or 420000.5", "420000"),
        ("return a - b", "return a + b"),
        ("return rows[1]", "return rows[1:]"),
        ("a b c", "abc"),
    ],
)
def test_what_only_resembles_a_secret_is_no_leak(text, secret):
    assert leaked_secret(text, [secret]) == ""


def test_a_long_text_that_almost_holds_a_secret_again_and_again_is_read_quickly():
    """A pattern that tries every beginning with every gap would take hours."""
    assert leaked_secret("a " * 10_000, ["a " * 2_000 + "b"]) == ""
    assert leaked_secret("4" + "- " * 40_000, ["42 apples"]) == ""


@pytest.mark.parametrize("text", ["between 142 and 420", "it is 42.5", "x42", "4 2", ""])
def test_parts_of_other_words_are_no_leak(text):
    assert leaked_secret(text, ["42", "", " "]) == ""


def test_secrets_are_answers_by_name_and_what_the_last_call_of_a_solution_says():
    private = {"answer": 42, "gold": ["one", ("two", True)], "rows": "never", "target": None}
    assert secrets_of(private, [["look", "answer forty two", "look"]], TOOLS) == ("42", "one", "two", "forty two")
    assert secrets_of({}, [["look"], ["say a", "say b"]], TOOLS) == ()
    assert secrets_of({}, [["say a", "say b"]], ()) == ("say b",)
