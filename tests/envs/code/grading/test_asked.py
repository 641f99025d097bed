"""Asked tests: what they expect is taken out of their text, and compared outside with what the code gave.

1. For every value and every form of assertion, asking and comparing decides as the assertion does.
2. What is expected stands nowhere in the text that reaches the code: not in rows, ids, variables, messages, docstrings.
3. A test with an assertion that cannot be taken out keeps all of them.
4. An answer that is missing, surplus, given twice, malformed or too large is wrong, and never an exception.
"""

import json
import math
import re
from collections import Counter, OrderedDict, defaultdict, namedtuple
from enum import StrEnum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.envs.code.asking import asked_holds, record
from tests.helpers.every import for_every
from turngate.envs.code.grading.extracted_asserts import ask_module, holds
from turngate.envs.code.grading.folding import Approx, NotData, fold
from turngate.envs.code.grading.inside.turngate_asking import encoded
from turngate.envs.code.grading.returned import DEPTH, Claim, read_answers

HEAD = "from solution import f\n\n\n"
TEST = HEAD + "def test_it():\n    {}\n"
ATOMS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=5),
    st.binary(max_size=3), st.sampled_from([0, 1, 0.0, 1.0, -1, "", b"", True, False]),
)  # fmt: skip
KEYS = st.one_of(st.integers(-3, 3), st.text(max_size=2), st.booleans(), st.tuples(st.integers(0, 2)))
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(KEYS, inner, max_size=3),
        st.sets(KEYS, min_size=1, max_size=3),
    ),
    max_leaves=6,
)


def passes(source, function):
    """Whether the test passes as it stands."""
    import sys
    from types import ModuleType

    sys.modules["solution"] = module = ModuleType("solution")
    module.f = function
    try:
        space = {"__name__": "tests"}
        exec(compile(source, "tests", "exec"), space)
        space["test_it"]()
    except (Exception, pytest.fail.Exception):
        return False
    finally:
        del sys.modules["solution"]
    return True


@settings(max_examples=400, deadline=None)
@given(
    given=VALUES, expected=VALUES, same=st.booleans(), form=st.sampled_from(["f(1) == {}", "{} == f(1)", "f(1) != {}"])
)
def test_asking_decides_as_the_assertion_does(given, expected, same, form):
    given = expected if same else given
    source = TEST.format("assert " + form.format(repr(expected)))
    assert asked_holds(source, lambda _x: given) is passes(source, lambda _x: given)


FORMS = [
    "assert f(1) is None",
    "assert f(1) is not None",
    "assert f(1) is True",
    "assert f(1)",
    "assert not f(1)",
    "assert f(1) == [1, 2]",
    "assert f(1) in (1, 2, 'a')",
    "assert f(1) not in [1, 2]",
    "assert 1 in f(1)",
    "assert f(1) < 2",
    "assert 2 <= f(1)",
    "assert len(f(1)) == 2",
    "x = f(1)\n    assert x",
    "x = f(1)\n    assert x == 1, 'it is 1'",
    "expected = [1, 2]\n    assert f(1) == expected",
    "with pytest.raises(ValueError):\n        f(1)",
    "with pytest.raises((KeyError, ValueError), match='ba.$'):\n        f(1)",
    "assert f(1) == pytest.approx(1, abs=0.5)",
    "assert f(1) == pytest.approx([1.0, 2.0])",
    "assert f(1) == 2\n    assert f(2) == 2",
    "assert f(1) == 10 ** 3 // 7",
    "assert_equal([1, 2], f(1))",
    "expected = '-'.join(['a'])\n    assert f(1) == expected",
]  # fmt: skip
GIVEN = [
    None, True, False, 0, 1, 1.0, 1.4, 2, 142, math.nan, math.inf, "", "a", [], [1, 2], (1, 2), [1.0, 2.0000001],
    {1, 2},
    ValueError("bar"), ValueError("foo"), KeyError("bad"), UnicodeDecodeError("a", b"", 0, 1, "bad"), object(),
]  # fmt: skip


@for_every("form", FORMS)
def test_every_form_decides_as_it_stands(form):
    equal = "def assert_equal(expected, result):\n    assert expected == result\n\n\n"
    source = "import pytest\n" + equal + TEST.format(form)
    decided = Counter()
    for value in GIVEN:
        if "approx" in form and isinstance(value, set):
            continue  # pytest compares a set with a list, in whatever order it comes

        def function(_x, value=value):
            if isinstance(value, Exception):
                raise value
            return value

        truth = passes(source, function)
        assert asked_holds(source, function) is truth, value
        decided[truth] += 1
    assert set(decided) == {True, False}


class _Everything:
    def __eq__(self, other):
        return True

    def __bool__(self):
        return True

    __hash__ = None


class _Liar(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


@for_every("value", [_Everything(), _Liar(3), type("L", (list,), {"__eq__": lambda *_: True})()])
@for_every("expected", ["4", "[4]", "None", "pytest.approx(4)"])
def test_what_is_equal_to_everything_equals_nothing(value, expected):
    source = "import pytest\n" + TEST.format(f"assert f(1) == {expected}")
    assert passes(source, lambda _x: value) or isinstance(value, list) or "approx" in expected
    assert asked_holds(source, lambda _x: value) is False


class _Color(StrEnum):
    RED = "red"


@for_every(
    "value, expected",
    [
        (namedtuple("P", "x y")(1, 2), "(1, 2)"),
        (defaultdict(list, {1: [2]}), "{1: [2]}"),
        (OrderedDict([(1, 2), (0, 3)]), "{0: 3, 1: 2}"),
        (Counter("aab"), "{'a': 2, 'b': 1}"),
        (_Color.RED, "'red'"),
        (type("I", (int,), {})(7), "7"),
        (frozenset({1}), "{1}"),
        (bytearray(b"x"), "b'x'"),
        (1 + 2j, "1 + 2j"),
        (10**400, "10 ** 400"),
        ("\ud800", r"'\ud800'"),
    ],
)
def test_kinds_that_compare_as_a_builtin_are_handed_over(value, expected):
    assert asked_holds(TEST.format(f"assert f(1) == {expected}"), lambda _x: value) is True


def test_what_is_too_large_or_too_deep_is_not_handed_over():
    deep = []
    for _ in range(DEPTH + 5):
        deep = [deep]
    endless = []
    endless.append(endless)
    for value in ([0] * 30_000, "x" * (2 << 20), deep, endless):
        assert encoded(value) == ["o", True]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_approx_is_that_of_pytest(data):
    number = st.one_of(st.floats(-10, 10), st.integers(-10, 10), st.just(math.inf), st.just(math.nan))
    expected = data.draw(st.one_of(number, st.lists(number, max_size=2), st.dictionaries(st.integers(0, 2), number)))
    value = data.draw(st.one_of(number, st.just(expected), st.lists(number, max_size=2)))
    words = data.draw(st.fixed_dictionaries({}, optional={"rel": st.floats(0, 1), "abs": st.floats(0, 5)}))
    assert Approx(known=expected, **words).fits(value) is (value == pytest.approx(expected, **words))


# --- what is taken out ------------------------------------------------------------------------------------------------

SUITE = '''"""Tests."""

import unittest

import pytest
from solution import f

TABLE = [([1, 2], 424201), ([3], 424202)]
TABLE = [[inp, (out,)] for inp, out in TABLE]
INPUT = [5, 6]


@pytest.mark.parametrize("given, expected", TABLE)
def test_table(given, expected):
    """It is 424203."""
    assert f(*given) == expected, "424204"


@pytest.mark.parametrize(
    ("x", "y"), [(1, 424205), pytest.param(2, 424206, id="424206", marks=pytest.mark.slow)], ids=["424205", "b"]
)
@pytest.mark.parametrize("z", [1, 2])
def test_rows(x, y, z):
    assert f(x, z) == pytest.approx(y, abs=x)


class TestCase(unittest.TestCase):
    def test_method(self):
        expected = 424207  # 424207
        self.assertEqual(f(1), expected, "424208")
        self.assertAlmostEqual(f(2), 4242.09, places=3)
        with self.subTest("424210"):
            self.assertIn(f(3), (424211, 0))


def test_same():
    assert f(INPUT) == INPUT
'''


def test_what_is_expected_stands_nowhere():
    module = ask_module(SUITE)
    assert set(module.functions) == {"test_table", "test_rows", "TestCase::test_method", "test_same"}
    assert re.findall(r"4242\.?[0-9]+", module.text) == ["424210"]  # the name of a part of a test
    assert "assert" not in module.text.replace("assertEqual", "")
    assert "INPUT = [5, 6]" in module.text  # what the code is given
    assert "ids=['ask0', 'ask1']" in module.text
    (site,) = module.functions["test_table"]
    assert [claim.known for claim in site.claims] == [(424201,), (424202,)]


def test_rows_are_told_by_their_number_alone():
    module = ask_module(SUITE)
    (site,) = module.functions["test_rows"]
    right = read_answers(record("t[1-ask1]", site.number, ["v", ["i", f"{424207:x}"]]).encode())
    assert holds([site], "t[1-ask1]", right)  # within 2 of 424206
    for name in ("t[1-ask0]", "t[1]", "t", "t[ask1-ask1]", "t[ask7]"):
        assert not holds([site], name, {name: right["t[1-ask1]"]})


KEPT = [
    "for x in (1, 2):\n        assert f(x) == 3",
    "if f(1):\n        assert f(1) == 3",
    "assert f(1) == f(2)",
    "assert f(1) == g(2)",
    "assert f(1) == 3 or f(1) == 4",
    "assert isclose(f(1), 3.5)",
    "assert all(x == 1 for x in f(1))",
    "assert (f(1) == 3) is True",
    "assert helper(f(1), 3)",
    "check(f(1), 3)\n    assert f(1) == 3",
    "assert f(1) == 3\n    with pytest.raises(ValueError):\n        x = 1\n        f(2)",
    "with pytest.raises(ValueError) as info:\n        f(1)",
    "with pytest.raises(ValueError, match='(a*)*(b*)*c'):\n        f(1)",
    "assert (y := f(1)) == 3",
    "x = 3\n    if x:\n        print(x)\n    assert f(1) == x",
    "pytest.fail('no')\n    assert f(1) == 3",
    "f(1)",
]  # fmt: skip


@for_every("body", KEPT)
def test_what_cannot_be_taken_out_stays(body):
    source = f"import pytest\nfrom math import isclose\n{HEAD}def check(a, b):\n    assert a == b\n\n\n"
    source += "def helper(a, b):\n    return a == b\n\n\ndef test_it():\n    " + body + "\n"
    assert ask_module(source) is None


def test_tests_that_others_could_inherit_or_call_stay():
    base = "class TestA:\n    def test_it(self):\n        assert f(1) == 3\n"
    assert ask_module(HEAD + base) is not None
    assert ask_module(HEAD + base + "\n\nclass TestB(TestA):\n    pass\n") is None
    assert ask_module(TEST.format("assert f(1) == 3") + "\n\ntest_b = test_it\n") is None
    twice = "def test_it():\n    assert f(1) == 3\n"
    assert ask_module(HEAD + twice + twice) is None


def test_rows_that_somebody_else_needs_stay():
    other = "\n\ndef test_other():\n    print(TABLE)\n    assert f(2) == 7\n"
    assert set(ask_module(SUITE + other).functions) == {
        "test_rows", "TestCase::test_method", "test_same", "test_other",
    }  # fmt: skip
    assert set(ask_module(SUITE, only={"test_same"}).functions) == {"test_same"}


@for_every(
    "text",
    [
        "__import__('os')",
        "f(1)",
        "x",
        "[i for i in x]",
        "9 ** 9 ** 9",
        "'a' * 10 ** 9",
        "...",
        "'-'.join(['a', 1])",
        "'-'.join(f(1))",
        "('-' * 2**19).join('a' * 9)",
    ],
)
def test_code_is_no_data(text):
    import ast

    with pytest.raises(NotData):
        fold(ast.parse(text, mode="eval").body, {})


# --- answers ----------------------------------------------------------------------------------------------------------

RIGHT = ["v", ["i", "3"]]
BAD = [
    b"",
    b"{}",
    b"[1, 2, 3]",
    b"\xff\xfe",
    b"[" * 100_000,
    b"null\n",
    record("t", 0, RIGHT).encode() + b"\n[",
    "\n".join([record("t", 0, RIGHT)] * 2).encode(),
    "\n".join([record("t", 0, RIGHT), record("t", 1, RIGHT)]).encode(),
    record("t", 1, RIGHT).encode(),
    record("other", 0, RIGHT).encode(),
    record("t", True, RIGHT).encode(),
    record(["t"], 0, RIGHT).encode(),
    None,
]
WRONG = [
    None, 3, [], ["v"], ["v", ["i", "4"]], ["v", ["i", 3]], ["v", ["z", "3"]], ["v", [["i"], "3"]], ["v", ["o", True]],
    ["v", ["i", "3"], 1], ["e", ["ValueError"], ""], ["v", ["d", [1]]], ["v", ["d", [[["l", []], ["n"]]]]],
    ["v", ["S", [["l", []]]]], ["v", ["y", "zz"]], ["v", ["f", "x"]], ["v", ["c", "1"]], ["v", ["s", 3]], ["v", {}],
    ["v", ["i", "9" * 5000]], ["v", ["l", [["n"]] * 30_000]],
]  # fmt: skip


@for_every("content", BAD)
def test_files_that_are_not_as_written_hold_no_answer(content):
    sites = ask_module(TEST.format("assert f(1) == 3")).functions["test_it"]
    assert holds(sites, "t", read_answers(record("t", 0, RIGHT).encode()))
    assert not holds(sites, "t", read_answers(content))


@for_every("answer", WRONG)
@for_every("verb", ["==", "<", "in", "has", "is", "true", "raises"])
def test_answers_that_are_not_as_written_are_wrong(answer, verb):
    known = {"in": (3,), "is": None, "true": False, "raises": frozenset({"KeyError"}), "<": 1}.get(verb, 3)
    answer = json.loads(json.dumps(answer))
    falsy = verb == "true" and answer in (["v", ["d", []]],)
    assert Claim(verb=verb, known=known).holds(answer) is falsy or (verb == "has" and answer == ["v", ["i", "4"]])
