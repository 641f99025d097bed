"""The operators of bugs: what each makes of a line, what none of them touches, and what always holds."""

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.every import for_every
from turngate.envs.code.generated.mutation.mutate import MAX_TOGETHER, OPERATORS, Mutation, apply, mutations
from turngate.errors import ConfigError


def lines_of(body: str, operator: str, *, head: str = "def f(a, b):") -> list[str]:
    """What the operator makes of the body of a function: each result as one text, without the head."""
    source = head + "\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    results = [apply(source, [item]) for item in mutations(source) if item.operator == operator]
    before = f"{head}\n"
    assert all(result.startswith("def f(") for result in results)
    return [
        "\n".join(line.removeprefix("    ") for line in result.removeprefix(before).rstrip("\n").split("\n"))
        for result in results
    ]


EXPECTED = [
    ("comparison", "return a == b", ["return a != b"]),
    ("comparison", "return a != b", ["return a == b"]),
    ("comparison", "return a < b > 1", ["return a > b > 1", "return a < b < 1"]),
    ("comparison", "return a <= b", ["return a >= b"]),
    ("comparison", "return a in b", ["return a not in b"]),
    ("comparison", "return a not  in b", ["return a in b"]),
    ("comparison", "return a is b", ["return a is not b"]),
    ("comparison", "return a is not b", ["return a is b"]),
    ("comparison", "return (a) == (b)", ["return (a) != (b)"]),
    ("boundary", "return a < b", ["return a <= b"]),
    ("boundary", "return a <= b", ["return a < b"]),
    ("boundary", "return a > b", ["return a >= b"]),
    ("boundary", "return a >= b", ["return a > b"]),
    ("boundary", "return a == b", []),
    ("operator", "return a + b", ["return a - b"]),
    ("operator", "return a - b * 2", ["return a + b * 2", "return a - b // 2"]),
    ("operator", "return a ** b", ["return a * b"]),
    ("operator", "return a and b", ["return a or b"]),
    ("operator", "return a or b or 1", ["return a and b or 1", "return a or b and 1"]),
    ("operator", "return 'x' % a", []),
    ("negation", "if not a:\n    b()", ["if a:\n    b()"]),
    ("negation", "if a:\n    b()", ["if not a:\n    b()"]),
    ("negation", "while a or b:\n    b()", ["while not (a or b):\n    b()"]),
    ("negation", "return -a", ["return a"]),
    ("off_by_one", "return a + 3", ["return a + 4", "return a + 2"]),
    ("off_by_one", "return 0", ["return 1"]),
    ("off_by_one", "return a - 1", ["return a"]),
    ("off_by_one", "return 0xff", ["return 0x100", "return 0xfe"]),
    ("off_by_one", "return a[b:]", ["return a[b - 1:]", "return a[b + 1:]"]),
    ("off_by_one", "g(range(a))", ["g(range(a - 1))", "g(range(a + 1))"]),
    ("off_by_one", "return True", []),
    ("wrong_variable", "return a", ["return b"]),
    ("wrong_variable", "return a()", []),
    ("wrong_variable", "c = 1\nreturn a", ["c = 1\nreturn b", "c = 1\nreturn c"]),
    ("wrong_variable", "return b\nc = 1", ["return a\nc = 1"]),
    ("missing_return", "return a.b", ["a.b"]),
    ("missing_return", "return None", []),
    ("missing_return", "return (\n    a\n)", ["(\n    a\n)"]),
    ("swapped_arguments", "g(a, b)", ["g(b, a)"]),
    ("swapped_arguments", "g(a,\n  b, *a)", ["g(b,\n  a, *a)"]),
    ("swapped_arguments", "g(a, a)", []),
    ("missing_argument", "g(a, key=b)", ["g(a)"]),
    ("missing_argument", "g(a, **b)", []),
    ("wrong_method", "return a.lower()", ["return a.upper()"]),
    ("wrong_method", "return max(a, b)", ["return min(a, b)"]),
    ("wrong_constant", "return True", ["return False"]),
    ("wrong_constant", "return 'yes'", ["return 'ye'"]),
    ("wrong_constant", "return b'yes'", ["return b'ye'"]),
    ("wrong_constant", "return 1.5", ["return 3.0"]),
    ("removed_condition", "return a and b", ["return b", "return a"]),
    ("removed_condition", "return (a) and (b)", []),
    ("removed_conversion", "return sorted(a)", ["return a"]),
    ("removed_conversion", "return list(a + b)[0]", ["return (a + b)[0]"]),
    (
        "exception",
        "try:\n    a()\nexcept ValueError:\n    b()",
        ["try:\n    a()\nexcept TypeError:\n    b()", "try:\n    a()\nexcept ValueError:\n    pass"],
    ),
    (
        "exception",
        "try:\n    a()\nexcept (KeyError, a.Error):\n    pass",
        ["try:\n    a()\nexcept KeyError:\n    pass", "try:\n    a()\nexcept a.Error:\n    pass"],
    ),
    ("exception", "raise KeyError('no', a + b)", ["pass", "raise IndexError('no', a + b)"]),
    ("loop", "for c in a:\n    break", ["for c in list(a)[1:]:\n    break", "for c in a:\n    continue"]),
    ("loop", "while a:\n    b()", ["if a:\n    b()"]),
    (
        "loop",
        "while a:\n    for c in [1]:\n        break",
        ["if a:\n    for c in [1]:\n        break", "while a:\n    for c in [1]:\n        continue"],
    ),
    ("loop", "while a:\n    continue", ["while a:\n    break"]),
    (
        "removed_branch",
        "if a:\n    b()\nelse:\n    b(1)  # why",
        [
            "if False:\n    b()\nelse:\n    b(1)  # why",
            "if True:\n    b()\nelse:\n    b(1)  # why",
            "if a:\n    pass\nelse:\n    b(1)  # why",
            "if a:\n    b()\nelse:\n    pass  # why",
        ],
    ),
    ("removed_branch", "return a if b else 1", ["return a", "return 1"]),
    ("augmented_assignment", "a += b", ["a -= b", "a = b"]),
    ("augmented_assignment", "a //= b", ["a *= b", "a = b"]),
    ("removed_call", "a.append(b)", ["pass"]),
    ("removed_assignment", "a.b = 1", ["pass"]),
    ("removed_assignment", "a += b", ["pass"]),
    ("removed_assignment", "c = 1", []),
]


@for_every("operator, body, expected", EXPECTED)
def test_what_an_operator_makes_of_a_line(operator, body, expected):
    assert sorted(lines_of(body, operator)) == sorted(expected)


def test_defaults_of_parameters_change():
    source = "def f(a, b=1, c=True, d=None, e='x', g='', *, h=len):\n    return a\n"
    heads = [apply(source, [item]).split("\n")[0] for item in mutations(source) if item.operator == "default_argument"]
    assert heads == [
        "def f(a, b=2, c=True, d=None, e='x', g='', *, h=len):",
        "def f(a, b=1, c=False, d=None, e='x', g='', *, h=len):",
        "def f(a, b=1, c=True, d=0, e='x', g='', *, h=len):",
        "def f(a, b=1, c=True, d=None, e='', g='', *, h=len):",
        "def f(a, b=1, c=True, d=None, e='x', g=' ', *, h=len):",
        "def f(a, b=1, c=True, d=None, e='x', g='', *, h=None):",
    ]


def test_every_operator_is_shown_above():
    assert {operator for operator, _body, expected in EXPECTED if expected} | {"default_argument"} == set(OPERATORS)
    assert len(OPERATORS) == 20


UNTOUCHED = '''\
"""A module with 1 < 2."""
from typing import TYPE_CHECKING

LIMIT = 3 + 4
if TYPE_CHECKING:
    def hidden(a): return a + 1
if __name__ == "__main__":
    def script(a): return a + 1


@decorated(1 + 2)
def f(a: "list[1 + 2]", b: int) -> "1 < 2":
    """A text with 1 < 2."""
    assert a < b, "1 + 2"
    logger.info("a < b %s", a + b)
    warnings.warn("x" * 3)
    name: "1 + 2"
    raise Unknown(f"{a + b} is 1 < 2")


class C:
    size = 1 + 2

    def __repr__(self):
        return "C" * 3
'''


def test_what_is_no_code_of_a_function_stays():
    assert [(item.operator, item.replacement) for item in mutations(UNTOUCHED)] == [("exception", "pass")]


def test_where_a_change_is():
    source = "class A:\n    class B:\n        def f(self, a):\n            def g(b):\n                return b - a\n"
    (found,) = [item for item in mutations(source) if item.operator == "operator"]
    assert found == Mutation(
        operator="operator",
        start=source.index("-"),
        end=source.index("-") + 1,
        replacement="+",
        function="A.B.f.<locals>.g",
        line=5,
    )
    names = {"source": source}
    exec(source, names)  # the name is the one that the interpreter knows the function by
    assert names["A"].B.f.__code__.co_consts[1].co_qualname == "A.B.f.<locals>.g"


@for_every("end", ["\n", "\r\n", "\r"])
def test_columns_are_bytes_and_line_ends_stay(end):
    source = end.join(["# é", "def f(é, a):", "\tx = 'ü→𝄞' + é; return é  <  a  # ü", ""])
    (found,) = [item for item in mutations(source) if item.operator == "boundary"]
    assert (found.line, source[found.start : found.end]) == (3, "<")
    assert apply(source, [found]) == source.replace("  <  ", "  <=  ")


def test_a_form_feed_ends_no_line():
    source = "def g():\n    pass\n\x0c\ndef f(a, b):\n    return a  <  b\n"
    (found,) = [item for item in mutations(source) if item.operator == "boundary"]
    assert apply(source, [found]) == source.replace("  <  ", "  <=  ")


def test_three_changes_at_once_and_what_is_refused():
    source = "def f(a, b):\n    if a < b:\n        return a + 1\n    return b * 2\n"
    found = {(item.operator, item.line): item for item in mutations(source)}
    three = [found["operator", 4], found["boundary", 2], found["operator", 3]]
    assert apply(source, three) == "def f(a, b):\n    if a <= b:\n        return a - 1\n    return b // 2\n"
    with pytest.raises(ConfigError, match=f"4 mutations were given; apply 1 to {MAX_TOGETHER}"):
        apply(source, [*three, found["missing_return", 4]])
    with pytest.raises(ConfigError, match="0 mutations were given"):
        apply(source, [])
    with pytest.raises(ConfigError, match="lines 2 and 2 overlap"):
        apply(source, [found["boundary", 2], found["comparison", 2]])
    same = Mutation(
        operator="x", start=source.index("1"), end=source.index("1") + 1, replacement="0x1", function="f", line=3
    )
    with pytest.raises(ConfigError, match="the mutation of line 3 changes nothing"):
        apply(source, [same])


@for_every("source", ["def f(:\n", "def f():\n  return '\0'\n", "x = " + "(" * 300 + ")" * 300])
def test_what_is_no_python_is_refused(source):
    with pytest.raises(ConfigError, match="no Python"):
        mutations(source)


def test_a_text_that_is_nested_too_deeply_is_refused():
    with pytest.raises(ConfigError, match=r"nested too deeply|no Python"):
        mutations("def f(a):\n    return " + "a + " * 2500 + "a\n")


NAMES = st.sampled_from(["a", "b", "ö", "total"])
VALUES = st.deferred(
    lambda: (
        NAMES
        | st.integers(0, 20).map(str)
        | st.sampled_from(["'x'", "True", "a[1:b]", "len(b)", "(yield)", "[ö for ö in a if ö]", "(lambda: a)"])
        | st.tuples(VALUES, st.sampled_from("+ - * // % and or < <= == in is".split()), VALUES).map(
            lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
        )
        | st.tuples(VALUES, VALUES).map(lambda parts: f"max({parts[0]}, {parts[1]}, key=None)")
        | VALUES.map(lambda text: f"(not {text})")
        | st.tuples(VALUES, VALUES, VALUES).map(lambda parts: f"({parts[0]} if {parts[1]} else {parts[2]})")
    )
)
STATEMENTS = st.deferred(
    lambda: (
        VALUES.map(lambda text: [f"return {text}"])
        | st.tuples(NAMES, st.sampled_from(["=", "+=", "-="]), VALUES).map(lambda parts: [" ".join(parts)])
        | st.just(["a.append(1)  # «note»"])
        | st.just(["raise ValueError('ü')"])
        | st.tuples(VALUES, BLOCKS, BLOCKS).map(lambda p: [f"if {p[0]}:", *p[1], "else:  # otherwise", *p[2]])
        | st.tuples(NAMES, VALUES, BLOCKS).map(lambda p: [f"for {p[0]} in {p[1]}:", *p[2], "    continue"])
        | st.tuples(BLOCKS, BLOCKS).map(lambda p: ["try:", *p[0], "except (KeyError, TypeError):", *p[1]])
    )
)
BLOCKS = st.lists(STATEMENTS, min_size=1, max_size=3).map(
    lambda parts: [f"    {line}" for part in parts for line in part]
)


@settings(max_examples=40, deadline=None)
@given(BLOCKS, st.data())
def test_every_change_parses_differs_and_touches_its_span_only(block, data):
    source = "\n".join(["def f(a, b, *, total=1):", *block, ""])
    found = mutations(source)
    assert found == mutations(source)
    assert list(found) == sorted(found, key=lambda item: (item.start, item.end))
    assert {item.function for item in found} == {"f"}
    for item in data.draw(st.lists(st.sampled_from(found), max_size=4, unique=True)):
        result = apply(source, [item])
        assert ast.dump(ast.parse(result)) != ast.dump(ast.parse(source))
        assert result == source[: item.start] + item.replacement + source[item.end :]
        assert item.line == source[: item.start].count("\n") + 1
