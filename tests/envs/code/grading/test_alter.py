"""Altered tests: what is expected is replaced by something near it, and nothing else of the text is.

1. Whatever is drawn, the text differs in the place of what is expected only, parses, and honest code fails it.
2. Tests that the agent saw as they stand, and those that hold nothing to alter, are left alone.
3. Other draws give other values, so that no rule recognises an altered one.
"""

import ast
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.envs.code.grading.altered_tests import alter, alterable
from turngate.envs.code.grading.nearby import other_literal

MODULE = "def helper():\n    assert f(1) == 2\n\n\nclass TestA:\n    def test_é(self):\n        {}\n"
NAME = "TestA::test_é"
LINES = [
    ("assert f(1) == ", "2", ""),
    ("assert ", "-3", " == f(1)"),
    ("assert f(1) == ", "'é'", ", 'why'"),
    ("assert f(1) == ", "[[], {1: b'x'}]", ""),
    ("assert f(1) == ", "{1: (b'x',)}", ""),
    ("assert f(1) == ", "{}", ""),
    ("assert f(1) == ", "None", ""),
    ("assert f(1) is ", "False", ""),
    ("assert f(1) is ", "None", ""),
    ("assert f(1) == ", "pytest.approx(1e9)", ""),
    ("assert f(1) == ", "1e400", ""),
    ("assert f(1) == (\n            ", "'a'\n            'b'", ")"),
    ("assert f(1) == [\n            ", "'é', 'b',  # )\n            'c'", "]"),
    ("assert ", "f(1)", ""),
    ("assert ", "not f(1)", ""),
    ("self.assertEqual(f(1), ", "[1, 2, 3]", ")"),
    ("self.assertTrue(", "f(1)", ", 'why')"),
    ("self.", "assertIsNone", "(f(1))"),
    ("é = 1; assert f(é) == ", "0", ""),
    ("with pytest.raises(", "LookupError", "):\n            f()"),
    ("expected = ", "[1, 2]", "\n        assert f() == expected"),
    ("for x, y in [(1, ", "2", ")]:\n            assert f(x) == y"),
    ("assert f(1) == ", "[a, b]", ""),
    ("self.assertEqual(f(1), ", "(g(1), h(2), b)", ")"),
    ("a = A(1); b = A(2); assert f(a) == ", "b", ""),
    ("a = A(1); b = A(2); assert f(a) is ", "b", ""),
    ("assert_equal(", "'a'", ", f(1))"),
    ("expected = ", "'|'.join(['é', 'b'])", "\n        result = f(1)\n        assert_equal(expected, result)"),
]  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_what_a_test_expects_is_replaced_and_nothing_else(line):
    before, _expected, after = line
    text = MODULE.replace("{}", "".join(line), 1)
    assert alterable(text, "") == {NAME}
    start, end = MODULE.split("{}", 1)
    for seed in range(30):
        changed = alter(text, {NAME}, Random(seed))
        ast.parse(changed)
        assert changed.startswith(start + before)
        assert changed.endswith(after + end)
        assert changed != text
    assert alter(text, set(), Random(0)) == text


KEPT = [
    "f(1)",
    "assert f(1) == 1 == g(1)",
    "assert f(1) or g(1)",
    "x = [1, 2]",
    # with another operator honest code fails, but so does code that returns the other side, or what is equal to all
    "assert f(1) == g(1)",
    "assert f(1) is g",
    "assert f(1) not in g",
    "assert f(1) < g",
    "self.assertEqual(f(1), g(1))",
    "a = A(1); b = B(2); assert f(a) == b",
]


@pytest.mark.parametrize("line", KEPT)
def test_where_nothing_is_expected_nothing_is_altered(line):
    text = MODULE.replace("{}", line, 1)
    assert alterable(text, "") == frozenset()
    assert alter(text, {NAME}, Random(0)) == text


def test_tests_that_the_agent_saw_cannot_be_altered():
    shown = "@mark\ndef test_a():\n    assert f(1) == 2\n"
    text = shown + "\n\ndef test_b():\n    assert f(2) == 3\n"
    assert alterable(text, "import f\n\n\n" + shown) == {"test_b"}
    assert alterable(text, text) == frozenset()
    assert alterable(text, shown.replace("2", "3")) == {"test_a", "test_b"}


def test_each_test_is_altered_alone():
    text = "def test_a():\n    assert f(1) == 2\n\n\ndef test_b():\n    assert f(2) == 3\n"
    changed = alter(text, {"test_b"}, Random(0))
    assert changed.startswith(text.partition("== 3")[0])
    assert changed != text


ROWS = """DATA = [(1, 2), (3, 4)]


@pytest.mark.parametrize("x, {name}", {rows})
def test_f(x, {name}):
    assert f(x) == {name}
"""


@pytest.mark.parametrize("name", ["expected", "y"])
@pytest.mark.parametrize("rows", ["DATA", "[(1, 2), pytest.param(3, 4, id='a')]"])
def test_rows_are_altered_each(name, rows):
    text = ROWS.format(name=name, rows=rows)
    changed = alter(text, {"test_f"}, Random(0))
    assert [old == new for old, new in zip(text.splitlines(), changed.splitlines(), strict=True)].count(False) == 1
    assert "(1, 2)" not in changed.replace("DATA = [(1, 2), (3, 4)]", "" if rows != "DATA" else "(1, 2)")


PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.binary(max_size=4), st.just(()), st.just([]),
    st.floats(allow_nan=False, allow_infinity=False),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(value=PLAIN, seed=st.integers(0, 2**32))
def test_another_literal_is_another_value(value, seed):
    other = ast.literal_eval(other_literal(repr(value), Random(seed)))
    assert other != value or value is None  # None is replaced by something that is no None
    assert value is not None or other is not None


@settings(max_examples=200, deadline=None)
@given(value=st.floats(-1e6, 1e6), slack=st.floats(0, 10), seed=st.integers(0, 2**32))
def test_a_number_moves_beyond_its_tolerance(value, slack, seed):
    for number in (value, int(value)):
        other = ast.literal_eval(other_literal(repr(number), Random(seed), slack))
        assert abs(other - number) > slack
        assert abs(other - number) > slack * abs(number)


def test_draws_differ():
    text = MODULE.replace("{}", "assert f(1) == 1234", 1)
    assert len({alter(text, {NAME}, Random(seed)) for seed in range(50)}) > 10
