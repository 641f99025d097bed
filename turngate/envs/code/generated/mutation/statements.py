"""Bugs in statements: operators of ``mutate.py`` that change effects and their order."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from turngate.envs.code.generated.mutation.site import Operator, Replacement, Site

_OTHER_ERROR: Mapping[str, str] = {
    "ValueError": "TypeError",
    "TypeError": "ValueError",
    "KeyError": "IndexError",
    "IndexError": "KeyError",
    "AttributeError": "TypeError",
    "StopIteration": "ValueError",
    "RuntimeError": "ValueError",
    "NotImplementedError": "RuntimeError",
    "OverflowError": "ValueError",
    "ZeroDivisionError": "ValueError",
    "UnicodeDecodeError": "KeyError",
    "LookupError": "TypeError",
    "OSError": "KeyError",
    "ImportError": "ValueError",
    "Exception": "ValueError",
}
_AUGMENTED: Mapping[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+=", "-="),
    ast.Sub: ("-=", "+="),
    ast.Mult: ("*=", "+="),
    ast.FloorDiv: ("//=", "*="),
    ast.Div: ("/=", "*="),
    ast.Mod: ("%=", "//="),
    ast.BitAnd: ("&=", "|="),
    ast.BitOr: ("|=", "&="),
    ast.LShift: ("<<=", ">>="),
    ast.RShift: (">>=", "<<="),
}


def missing_return(node: ast.AST, site: Site) -> Iterator[Replacement]:
    """``return a`` → ``a``: the result is computed and lost."""
    if not isinstance(node, ast.Return) or node.value is None:
        return
    if isinstance(node.value, ast.Constant) and node.value.value is None:
        return
    start = site.text.start(node)
    match = re.compile(r"return[ \t]*(?!\\)").match(site.text.source, start)
    if match is not None:
        yield Replacement(start, match.end(), "")


def exception(node: ast.AST, site: Site) -> Iterator[Replacement]:
    """Another exception is caught or raised; a handler does nothing; an error is not raised."""
    if isinstance(node, ast.ExceptHandler):
        if isinstance(node.type, ast.Tuple):
            for kind in node.type.elts:
                yield site.text.replace(node.type, site.text.of(kind))
        elif isinstance(node.type, ast.Name) and node.type.id in _OTHER_ERROR:
            yield site.text.replace(node.type, _OTHER_ERROR[node.type.id])
        yield from _emptied(node.body, site)
    elif isinstance(node, ast.Raise) and node.exc is not None:
        kind = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        if isinstance(kind, ast.Name) and kind.id in _OTHER_ERROR:
            yield site.text.replace(kind, _OTHER_ERROR[kind.id])
        yield site.text.replace(node, "pass")


def _emptied(body: Sequence[ast.stmt], site: Site) -> Iterator[Replacement]:
    """A block becomes ``pass``."""
    if all(isinstance(statement, ast.Pass) for statement in body):
        return
    yield Replacement(site.text.start(body[0]), site.text.end(body[-1]), "pass")


def default_argument(node: ast.AST, site: Site) -> Iterator[Replacement]:
    """The default of a parameter changes."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    for default in [*node.args.defaults, *node.args.kw_defaults]:
        if default is None:
            continue
        value = default.value if isinstance(default, ast.Constant) else ...
        if isinstance(value, bool):
            yield site.text.replace(default, str(not value))
        elif isinstance(value, int):
            yield site.text.replace(default, str(value + 1))
        elif isinstance(value, str) or value is None:
            yield site.text.replace(default, "0" if value is None else "''" if value else "' '")
        elif isinstance(default, ast.Name | ast.Attribute):
            yield site.text.replace(default, "None")


def loop(node: ast.AST, site: Site) -> Iterator[Replacement]:
    """``break`` ↔ ``continue``; a loop leaves out its first element, or goes round only once."""
    if isinstance(node, ast.Break | ast.Continue):
        yield site.text.replace(node, "continue" if isinstance(node, ast.Break) else "break")
    elif isinstance(node, ast.For | ast.comprehension):
        if isinstance(node.iter, ast.Name | ast.Attribute | ast.Call) and not getattr(node, "is_async", 0):
            yield site.text.replace(node.iter, f"list({site.text.of(node.iter)})[1:]")
    elif isinstance(node, ast.While) and not _leaves(node.body):
        start = site.text.start(node)
        yield Replacement(start, start + len("while"), "if")


def _leaves(body: Sequence[ast.AST]) -> bool:
    """Whether a block has a ``break`` or ``continue`` for the loop around it."""
    for node in body:
        if isinstance(node, ast.Break | ast.Continue):
            return True
        inner = isinstance(node, ast.For | ast.AsyncFor | ast.While | ast.FunctionDef | ast.ClassDef)
        below = node.orelse if inner and hasattr(node, "orelse") else [] if inner else [*ast.iter_child_nodes(node)]
        if _leaves(below):
            return True
    return False


def removed_branch(node: ast.AST, site: Site) -> Iterator[Replacement]:
    """A condition becomes constant, or a branch does nothing."""
    if isinstance(node, ast.If):
        if not isinstance(node.test, ast.Constant):
            yield site.text.replace(node.test, "False")
            yield site.text.replace(node.test, "True")
        yield from _emptied(node.body, site)
        if node.orelse and not (isinstance(node.orelse[0], ast.If) and _is_elif(node.orelse[0], site)):
            yield from _emptied(node.orelse, site)
    elif isinstance(node, ast.IfExp):
        for branch in (node.body, node.orelse):
            loose = isinstance(branch, ast.IfExp | ast.Lambda | ast.Yield | ast.YieldFrom | ast.NamedExpr)
            yield site.text.replace(node, f"({site.text.of(branch)})" if loose else site.text.of(branch))


def _is_elif(node: ast.If, site: Site) -> bool:
    return site.text.source.startswith("elif", site.text.start(node))


def augmented_assignment(node: ast.AST, site: Site) -> Iterator[Replacement]:
    """``a += b`` → ``a -= b`` or ``a = b``."""
    if isinstance(node, ast.AugAssign) and type(node.op) in _AUGMENTED:
        old, new = _AUGMENTED[type(node.op)]
        if span := site.text.between(node.target, node.value, old):
            yield Replacement(*span, new)
            yield Replacement(*span, "=")


def removed_call(node: ast.AST, site: Site) -> Iterator[Replacement]:
    """A call that is a statement is gone: something is not appended, not closed, not updated."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield site.text.replace(node, "pass")


def removed_assignment(node: ast.AST, site: Site) -> Iterator[Replacement]:
    """``self.a = b`` or ``a[b] = c`` or ``a += b`` is gone. (A plain name without a value would crash at once.)"""
    stored = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute | ast.Subscript)
    if isinstance(node, ast.stmt) and (stored or isinstance(node, ast.AugAssign)):
        yield site.text.replace(node, "pass")


OPERATORS: Mapping[str, Operator] = {
    function.__name__: function
    for function in (
        missing_return,
        exception,
        default_argument,
        loop,
        removed_branch,
        augmented_assignment,
        removed_call,
        removed_assignment,
    )
}
