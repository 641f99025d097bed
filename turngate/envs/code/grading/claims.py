"""The claims of a test's statements: which value is asked for, and the condition on it."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from turngate.envs.code.grading.returned import Verb

EQUALITY_METHODS = frozenset(
    "assertEqual assertEquals assertListEqual assertDictEqual assertTupleEqual assertSetEqual assertSequenceEqual "
    "assertMultiLineEqual assertCountEqual".split()
)
EQUALITY_FUNCTIONS = frozenset("assert_equal assert_equals assert_eq assertEqual assertEquals eq_".split())
"""Functions by which suites without unittest say that two values are equal."""
_ORDERED: dict[type, tuple[Verb, Verb]] = {
    ast.Eq: ("==", "=="),
    ast.NotEq: ("!=", "!="),
    ast.Lt: ("<", ">"),
    ast.LtE: ("<=", ">="),
    ast.Gt: (">", "<"),
    ast.GtE: (">=", "<="),
    ast.In: ("in", "has"),
    ast.NotIn: ("not in", "has not"),
}
"""Operator → the claim about its left side, and about its right one."""
_MAX_REPEATS = 1
"""Quantifiers in a pattern: with more, a hostile text could keep the search busy."""


@dataclass(frozen=True, slots=True)
class Saying:
    """A claim as it stands in a test."""

    verb: Verb
    value: ast.expr
    """The value from the code under test."""
    known: ast.expr
    """The expected value; a name of an exception for ``raises``."""
    swapped: Saying | None = None
    """The same claim read from the other side, where either could be the expected value."""
    pattern: str = ""


def saying(statement: ast.stmt) -> Saying | None:
    """The one claim that a statement makes; None if it makes none, or one that cannot be asked."""
    match statement:
        case ast.Assert(test=test):
            return _of_truth(test, True)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(), attr=name), args=args, keywords=more)):
            return _of_method(name, args, {item.arg: item.value for item in more})
        case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=[one, other], keywords=[])):
            return _either("==", "==", one, other) if name in EQUALITY_FUNCTIONS else None
        case ast.With(items=[ast.withitem(context_expr=ast.Call() as call, optional_vars=None)], body=[inner]):
            return _of_raises(call, inner)
    return None


def _of_truth(test: ast.expr, expected: bool) -> Saying | None:
    match test:
        case ast.Compare(
            left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=value) as right]
        ):
            if expected and (value is None or isinstance(value, bool)):
                return Saying("is" if isinstance(op, ast.Is) else "is not", left, right)
            return None
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _ORDERED and expected:
            return _either(*_ORDERED[type(op)], left, right)
        case ast.UnaryOp(op=ast.Not(), operand=inner) if expected:
            return _of_truth(inner, False)
        case ast.Name() | ast.Call():
            return Saying("true", test, ast.Constant(expected))
    return None


def _either(verb: Verb, turned: Verb, left: ast.expr, right: ast.expr) -> Saying:
    return Saying(verb, left, right, Saying(turned, right, left))


def _of_method(name: str, args: list[ast.expr], more: dict[str | None, ast.expr]) -> Saying | None:
    more.pop("msg", None)
    match name, args:
        case "assertCountEqual", _:
            return None
        case "assertNotEqual", [one, other, *_] if not more:
            return _either("!=", "!=", one, other)
        case "assertIn", [one, other, *_] if not more:
            return _either("in", "has", one, other)
        case "assertNotIn", [one, other, *_] if not more:
            return _either("not in", "has not", one, other)
        case (("assertTrue" | "assertFalse"), [one, *_]) if not more:
            return _of_truth(one, name == "assertTrue")
        case "assertIsNone", [one, *_] if not more:
            return Saying("is", one, ast.Constant(None))
        case "assertAlmostEqual", [one, other, *rest] if len(rest) < 2 and len(more) < 2:
            return _almost(one, other, rest, more)
        case "assertRaises", [wanted, called, *rest] if not any(key is None for key in more):
            call = ast.Call(called, rest, [ast.keyword(key, value) for key, value in more.items()])
            return _raising(wanted, call, "")
        case _, [one, other, *_] if name in EQUALITY_METHODS and not more:
            return _either("==", "==", one, other)
    return None


def _almost(one: ast.expr, other: ast.expr, rest: list[ast.expr], more: dict[str | None, ast.expr]) -> Saying | None:
    """``assertAlmostEqual`` as ``approx`` with an absolute tolerance."""
    places = rest[0] if rest else more.pop("places", ast.Constant(7))
    delta = more.pop("delta", None)
    if more or (delta is None and not (isinstance(places, ast.Constant) and isinstance(places.value, int))):
        return None
    if delta is None:
        assert isinstance(places, ast.Constant)
        assert isinstance(places.value, int)
        delta = ast.Constant(0.5 * 10.0**-places.value)

    def near(known: ast.expr) -> ast.expr:
        words = [ast.keyword("abs", delta)]
        return ast.Call(ast.Attribute(ast.Name("pytest", ast.Load()), "approx", ast.Load()), [known], words)

    return Saying("==", one, near(other), Saying("==", other, near(one)))


def _of_raises(call: ast.Call, inner: ast.stmt) -> Saying | None:
    pattern = ""
    match call.func:
        case ast.Attribute(value=ast.Name(), attr="raises" | "assertRaises") if len(call.args) == 1:
            pass
        case _:
            return None
    for word in call.keywords:
        if word.arg != "match" or not (isinstance(word.value, ast.Constant) and isinstance(word.value.value, str)):
            return None
        pattern = word.value.value
    match inner:
        case ast.Expr(value=value) | ast.Assign(targets=[ast.Name()], value=value):
            return _raising(call.args[0], value, pattern)
    return None


def _raising(wanted: ast.expr, value: ast.expr, pattern: str) -> Saying | None:
    if sum(pattern.count(mark) for mark in "*+{") > _MAX_REPEATS:
        return None
    names = [ast.Constant(item.id if isinstance(item, ast.Name) else item.attr) for item in _exceptions(wanted)]
    return Saying("raises", value, ast.Tuple([*names], ast.Load()), pattern=pattern) if names else None


def _exceptions(wanted: ast.expr) -> Iterator[ast.Name | ast.Attribute]:
    for item in wanted.elts if isinstance(wanted, ast.Tuple) else [wanted]:
        if isinstance(item, (ast.Name, ast.Attribute)):
            yield item


def tells_nothing(said: Saying, foreign: Collection[str], local: Collection[str]) -> bool:
    """Whether the value itself compares something, so the expected value would stay in it: ``isclose(f(2), 1.41)``.

    A truth value has to come from a call of an imported name (``foreign``) or of a variable, with plain arguments.
    """
    for node in ast.walk(said.value):
        if isinstance(node, (ast.Compare, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)):
            return True
    match said.value:
        case _ if said.verb != "true":
            return False
        case ast.Name(id=name):
            return name not in local
        case ast.Call(func=func, args=args, keywords=words):
            root: ast.expr = func
            while isinstance(root, (ast.Attribute, ast.Subscript)):
                root = root.value
            if isinstance(root, ast.Call):  # a method of the result of a call of a foreign name
                root = root.func
            given = [*args, *(word.value for word in words)]
            plain = not any(isinstance(node, (ast.Call, ast.comprehension)) for arg in given for node in ast.walk(arg))
            return not (plain and isinstance(root, ast.Name) and root.id in {*foreign, *local})
    return True


def foreign_names(tree: ast.Module) -> frozenset[str]:
    """Names that a module imports from elsewhere than the standard library and the runner."""
    ours = sys.stdlib_module_names | {"pytest", "numpy", "hypothesis"}
    found = set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found |= {item.asname or item.name.partition(".")[0] for item in names if _root(item.name) not in ours}
            case ast.ImportFrom(module=module, names=names, level=level) if level or _root(module or "") not in ours:
                found |= {item.asname or item.name for item in names}
    return frozenset(found) - frozenset(dir(builtins))


def _root(module: str) -> str:
    return module.partition(".")[0]


def column_names(node: ast.expr) -> list[str]:
    """The names that the first argument of ``parametrize`` gives, as one text or as a list; none if it is neither."""
    match node:
        case ast.Constant(value=str(text)):
            return [name.strip() for name in text.split(",") if name.strip()]
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [str(item.value) for item in items if isinstance(item, ast.Constant)]
    return []
