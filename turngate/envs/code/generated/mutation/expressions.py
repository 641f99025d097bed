"""Bugs in expressions: operators of ``mutate.py`` that change computed values."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from turngate.envs.code.generated.mutation.site import Operator, Replacement, Site

_OPPOSITE: Mapping[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", ">"),
    ast.Gt: (">", "<"),
    ast.LtE: ("<=", ">="),
    ast.GtE: (">=", "<="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
_EDGE: Mapping[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
}
_ARITHMETIC: Mapping[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.Mod: ("%", "//"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "|"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
_PAIRS = (
    "append extend, lower upper, startswith endswith, lstrip rstrip, find rfind, split rsplit, keys values, any all, "
    "min max, partition rpartition, add discard, ljust rjust, ceil floor, isdigit isalpha, union intersection"
)
_SIBLINGS: Mapping[str, str] = {
    one: other for pair in _PAIRS.split(", ") for one, other in (pair.split(), reversed(pair.split()))
} | {"strip": "rstrip", "popleft": "pop", "appendleft": "append", "items": "keys", "isinstance": "issubclass"}
_CONVERSIONS = frozenset("abs bool dict float frozenset int iter len list reversed set sorted str tuple".split())
_TIGHT = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant)  # binds tighter than every operator
_QUOTED = re.compile(r"""([bBuUrR]{0,2})(['"])([^'"\\\n]+)\2""")


def comparison(node: ast.AST, site: Site) -> Iterator[Replacement]:
    """``a == b`` → ``a != b``, and so with every comparison: its opposite."""
    yield from _compared(node, site, _OPPOSITE)


def boundary(node: ast.AST, site: Site) -> Iterator[Replacement]:
    """``a < b`` → ``a <= b``: right but for the edge."""
    yield from _compared(node, site, _EDGE)


def _compared(node: ast.AST, site: Site, table: Mapping[type[ast.cmpop], tuple[str, str]]) -> Iterator[Replacement]:
    if not isinstance(node, ast.Compare):
        return
    operands = [node.left, *node.comparators]
    for left, operator, right in zip(operands, node.ops, node.comparators, strict=False):
        if type(operator) in table:
            old, new = table[type(operator)]
            if span := site.text.between(left, right, old):
                yield Replacement(*span, new)


def operator(node: ast.AST, site: Site) -> Iterator[Replacement]:
    """``a + b`` → ``a - b``; ``a and b`` → ``a or b``. Not where the left side is a string: that always crashes."""
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC and not _is_text(node.left, node.right):
        old, new = _ARITHMETIC[type(node.op)]
        if span := site.text.between(node.left, node.right, old):
            yield Replacement(*span, new)
    elif isinstance(node, ast.BoolOp):
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in pairwise(node.values):
            if span := site.text.between(left, right, old):
                yield Replacement(*span, new)


def _is_text(*nodes: ast.expr) -> bool:
    return any(
        isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
        for node in nodes
    )


def negation(node: ast.AST, site: Site) -> Iterator[Replacement]:
    """``if not a`` → ``if a``, and the other way round; a comparison is left to ``comparison``."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield site.text.replace(node, site.text.of(node).removeprefix("not").lstrip(" "))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield site.text.replace(node, site.text.of(node).removeprefix("-").lstrip(" "))
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        if isinstance(node.test, ast.Compare | ast.Constant) or _is_not(node.test):
            return
        yield site.text.replace(node.test, f"not {_tight(node.test, site)}")


def _is_not(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _tight(node: ast.expr, site: Site) -> str:
    """The text of an expression, in brackets unless it binds tightly."""
    text = site.text.of(node)
    return text if isinstance(node, _TIGHT) else f"({text})"


def off_by_one(node: ast.AST, site: Site) -> Iterator[Replacement]:
    """A whole number, a bound of a slice or an argument of ``range`` becomes one more or one less."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        parent = site.parent
        if isinstance(parent, ast.BinOp) and _is_step(parent) and parent.right is node:
            return  # "n - 0" is no realistic bug
        show = hex if site.text.of(node).lower().startswith("0x") else str
        yield site.text.replace(node, show(node.value + 1))
        if node.value > 0:
            yield site.text.replace(node, show(node.value - 1))
    elif isinstance(node, ast.BinOp) and _is_step(node):
        yield site.text.replace(node, site.text.of(node.left))
    elif isinstance(node, ast.Slice):
        yield from _shifted([bound for bound in (node.lower, node.upper) if bound is not None], site)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        yield from _shifted(node.args[:2], site)


def _is_step(node: ast.BinOp) -> bool:
    one = isinstance(node.right, ast.Constant) and type(node.right.value) is int and node.right.value == 1
    return one and isinstance(node.op, ast.Add | ast.Sub) and not _is_text(node.left)


def _shifted(bounds: list[ast.expr], site: Site) -> Iterator[Replacement]:
    for bound in bounds:
        if isinstance(bound, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
            yield site.text.replace(bound, site.text.of(bound) + " - 1")
            yield site.text.replace(bound, site.text.of(bound) + " + 1")


def wrong_variable(node: ast.AST, site: Site) -> Iterator[Replacement]:
    """A local name becomes one of the next two local names that have a value there."""
    if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load) or node.id not in site.names:
        return
    if isinstance(site.parent, ast.Call) and site.parent.func is node:
        return  # a value that is no function: a crash at once
    known = [name for name, line in site.names.items() if line < node.lineno or name == node.id]
    position = known.index(node.id)
    for name in [*known[position + 1 :], *known[:position]][:2]:
        yield site.text.replace(node, name)


def swapped_arguments(node: ast.AST, site: Site) -> Iterator[Replacement]:
    """``f(a, b)`` → ``f(b, a)``, any two neighbours."""
    if not isinstance(node, ast.Call):
        return
    for left, right in pairwise(node.args):
        apart = (ast.Starred, ast.Yield, ast.YieldFrom)  # their place or their brackets matter
        if isinstance(left, apart) or isinstance(right, apart) or ast.dump(left) == ast.dump(right):
            continue
        text = site.text
        gap = text.source[text.end(left) : text.start(right)]
        yield Replacement(text.start(left), text.end(right), text.of(right) + gap + text.of(left))


def missing_argument(node: ast.AST, site: Site) -> Iterator[Replacement]:
    """``f(a, key=b)`` → ``f(a)``, any keyword."""
    if not isinstance(node, ast.Call):
        return
    given: list[ast.expr | ast.keyword] = [*node.args, *node.keywords]
    for before, keyword in pairwise(given):
        start, end = site.text.end(before), site.text.end(keyword)
        gap = site.text.source[start : site.text.start(keyword)]
        if isinstance(keyword, ast.keyword) and keyword.arg is not None and gap.strip() == ",":
            yield Replacement(start, end, "")


def wrong_method(node: ast.AST, site: Site) -> Iterator[Replacement]:
    """``a.lower()`` → ``a.upper()``, ``min(a)`` → ``max(a)``: a function that is easily taken for another."""
    if not isinstance(node, ast.Call):
        return
    function = node.func
    if isinstance(function, ast.Attribute) and function.attr in _SIBLINGS:
        end = site.text.end(function)
        yield Replacement(end - len(function.attr), end, _SIBLINGS[function.attr])
    elif isinstance(function, ast.Name) and function.id in ("min", "max", "any", "all"):
        yield site.text.replace(function, _SIBLINGS[function.id])


def wrong_constant(node: ast.AST, site: Site) -> Iterator[Replacement]:
    """True ↔ False; a text loses its last character; a fraction is doubled."""
    if not isinstance(node, ast.Constant):
        return
    if isinstance(node.value, bool):
        yield site.text.replace(node, str(not node.value))
    elif isinstance(node.value, float):
        yield site.text.replace(node, f"({node.value!r} * 2)" if node.value == 0 else repr(node.value * 2))
    elif match := _QUOTED.fullmatch(site.text.of(node)):
        prefix, quote, content = match.groups()
        yield site.text.replace(node, f"{prefix}{quote}{content[:-1]}{quote}")


def removed_condition(node: ast.AST, site: Site) -> Iterator[Replacement]:
    """``a and b`` → ``a``, or ``b``: one of several conditions is forgotten."""
    if not isinstance(node, ast.BoolOp):
        return
    text = site.text
    word = "and" if isinstance(node.op, ast.And) else "or"
    for number, (left, right) in enumerate(pairwise(node.values)):
        if text.source[text.end(left) : text.start(right)].split() != [word]:
            continue  # brackets or a comment between them
        yield Replacement(text.end(left), text.end(right), "")
        if number == 0:
            yield Replacement(text.start(left), text.start(right), "")


def removed_conversion(node: ast.AST, site: Site) -> Iterator[Replacement]:
    """``sorted(a)`` → ``a``, and so with other functions that change the form of one value."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in _CONVERSIONS:
        return
    if len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred | ast.GeneratorExp):
        yield site.text.replace(node, _tight(node.args[0], site))


OPERATORS: Mapping[str, Operator] = {
    function.__name__: function
    for function in (
        comparison,
        boundary,
        operator,
        negation,
        off_by_one,
        wrong_variable,
        swapped_arguments,
        missing_argument,
        wrong_method,
        wrong_constant,
        removed_condition,
        removed_conversion,
    )
}
