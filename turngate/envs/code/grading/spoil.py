"""Spoilt tests: the first control run of a verdict. Who passes a test that was spoilt does not pass by honest code.

Code under test runs in the process that tests it, so it can patch the test runner, swallow failed assertions, forge the
report, or return objects that are equal to everything. All of these make tests pass whatever they assert. So tests that
decide are run a second time, in another sandbox, with their assertions turned into ones that no honest code fulfils:
``assert f(x) == 3`` becomes "f(x) or 3 equals an object that nothing knows". Where a test compares nothing with ``==``,
failing is added to its end. Whoever passes the first run but not by what the code computes passes this one too.

It does not see code that looks up what the test expects; altered tests (``alter.py``) do.
"""

from __future__ import annotations

import ast
from typing import Any

from turngate.types import derive_seed

EQUALITY_METHODS = frozenset({"assertEqual", "assertEquals", "assertListEqual", "assertDictEqual", "assertTupleEqual"})


def spoil(source: str, path: str) -> str:
    """The text of a test module with every test spoilt. Raises SyntaxError for a text that does not parse."""
    tree = ast.parse(source)
    stranger = f"_{derive_seed('stranger', path, source):x}"
    spoilt = _Spoiler(stranger).visit(tree)
    start = next((place for place, node in enumerate(spoilt.body) if not _is_head(node)), len(spoilt.body))
    spoilt.body.insert(start, ast.parse(f"{stranger} = object()").body[0])
    return ast.unparse(ast.fix_missing_locations(spoilt)) + "\n"


def _is_head(node: ast.stmt) -> bool:
    """The docstring of a module, and imports from ``__future__``, which must stay first."""
    is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


class _Spoiler(ast.NodeTransformer):
    def __init__(self, stranger: str) -> None:
        self._stranger = stranger

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        return self._spoil(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> Any:
        return self._spoil(node)

    def _spoil(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        if not node.name.startswith("test"):
            return node
        estranger = _Estranger(self._stranger)
        node.body = [estranger.visit(statement) for statement in node.body]
        if not estranger.found:
            never = ast.parse(f"assert {self._stranger} is None").body
            node.body = [ast.Try(body=node.body, handlers=[], orelse=[], finalbody=never)]
        return node


class _Estranger(ast.NodeTransformer):
    """Turns equality of two values into equality of either with an object that nothing else is equal to."""

    def __init__(self, stranger: str) -> None:
        self._stranger, self.found = stranger, False

    def visit_Assert(self, node: ast.Assert) -> ast.Assert:
        if isinstance(node.test, ast.Compare) and len(node.test.ops) == 1 and isinstance(node.test.ops[0], ast.Eq):
            node.test = self._estrange(node.test.left, node.test.comparators[0])
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        is_method = isinstance(node.func, ast.Attribute) and node.func.attr in EQUALITY_METHODS
        if is_method and len(node.args) >= 2:
            assert isinstance(node.func, ast.Attribute)
            node.func.attr, node.keywords = "assertTrue", []
            node.args = [self._estrange(node.args[0], node.args[1])]
        return node

    def _estrange(self, *values: ast.expr) -> ast.expr:
        self.found = True
        stranger = ast.Name(self._stranger, ast.Load())
        return ast.BoolOp(ast.Or(), [ast.Compare(value, [ast.Eq()], [stranger]) for value in values])
