"""Bugs made on purpose: twenty operators on the text of Python functions, each the slip of a programmer.

    found = mutations(source)                     # every small change that the operators know, in a fixed order
    broken = apply(source, [found[7]])            # the source with that change, and nothing else changed

An operator reads the syntax tree and names a span of the text and what to put there (``expressions.py``,
``statements.py``). Only the code of functions is changed: no docstring, annotation, decorator, ``assert``,
message of an error, call of a logger, ``__repr__``, nor what stands under ``if TYPE_CHECKING`` or ``if __name__ == …``.

Like the procedural bugs of SWE-smith (https://arxiv.org/abs/2504.21798), but a file keeps its layout and comments.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from turngate.envs.code.generated.mutation import expressions, statements
from turngate.envs.code.generated.mutation.site import Operator, Site, Text, local_names
from turngate.errors import ConfigError

OPERATORS: Mapping[str, Operator] = {**expressions.OPERATORS, **statements.OPERATORS}
MAX_TOGETHER = 3
"""So many mutations can be applied at once."""

_SKIPPED_FUNCTIONS = frozenset({"__repr__", "__str__", "__getstate__", "__setstate__", "__reduce__", "__dir__"})
_SKIPPED_CALLS = frozenset(
    {"log", "logger", "logging", "_log", "_logger", "LOG", "LOGGER", "warnings", "warn", "print"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One change: the characters ``start`` to ``end`` of a source become ``replacement``."""

    operator: str
    start: int
    end: int
    replacement: str
    function: str
    """Qualified name of the function, as in ``Class.method`` and ``outer.<locals>.inner``."""
    line: int
    """From 1."""


def mutations(source: str) -> tuple[Mutation, ...]:
    """Every change that the operators know, ordered by place, then operator. Raises ConfigError: no Python."""
    text = Text(source)
    found: dict[tuple[int, int, str], Mutation] = {}
    try:
        for mutation in _in_block(_parse(source), (), text):
            if source[mutation.start : mutation.end] != mutation.replacement:
                found.setdefault((mutation.start, mutation.end, mutation.replacement), mutation)
    except RecursionError:
        raise ConfigError("the text is nested too deeply to be changed; leave it out") from None
    order = {name: number for number, name in enumerate(OPERATORS)}
    return tuple(sorted(found.values(), key=lambda item: (item.start, item.end, order[item.operator])))


def apply(source: str, chosen: Sequence[Mutation]) -> str:
    """The source with up to three changes.

    Raises ConfigError if there are none or more, if they overlap, or if the result is no Python or means the same.
    """
    if not 1 <= len(chosen) <= MAX_TOGETHER:
        raise ConfigError(f"{len(chosen)} mutations were given; apply 1 to {MAX_TOGETHER}")
    ordered = sorted(chosen, key=lambda item: (item.start, item.end))
    for before, after in pairwise(ordered):
        if after.start < before.end:
            raise ConfigError(f"the mutations of lines {before.line} and {after.line} overlap; choose others")
    result = source
    for mutation in reversed(ordered):
        result = result[: mutation.start] + mutation.replacement + result[mutation.end :]
    if ast.dump(_parse(result)) == ast.dump(_parse(source)):
        raise ConfigError(f"the mutation of line {ordered[0].line} changes nothing; choose another")
    return result


def _parse(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError) as error:  # ValueError: a NUL byte
        raise ConfigError(f"the text is no Python: {error}") from error


# --- where ------------------------------------------------------------------------------------------------------------


def _in_block(node: ast.AST, above: tuple[str, ...], text: Text) -> Iterator[Mutation]:
    """Of all functions below a module, a class or a block of one of them."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _in_function(child, above, text)
        elif isinstance(child, ast.ClassDef):
            yield from _in_block(child, (*above, child.name), text)
        elif isinstance(child, ast.stmt | ast.ExceptHandler) and not _is_for_others(child):
            yield from _in_block(child, above, text)


def _is_for_others(node: ast.AST) -> bool:
    """Whether it is a block for type checkers or for a call as a script."""
    if not isinstance(node, ast.If):
        return False
    names = {item.id for item in ast.walk(node.test) if isinstance(item, ast.Name)}
    attributes = {item.attr for item in ast.walk(node.test) if isinstance(item, ast.Attribute)}
    return "__name__" in names or "TYPE_CHECKING" in names | attributes


def _in_function(
    node: ast.FunctionDef | ast.AsyncFunctionDef, above: tuple[str, ...], text: Text
) -> Iterator[Mutation]:
    if node.name in _SKIPPED_FUNCTIONS:
        return
    name = ".".join((*above, node.name))
    names = local_names(node)
    yield from _at(node, Site(text=text, parents=(node,), names=names), name)
    for statement in node.body:
        yield from _below(statement, (node,), names, (*above, node.name), text)


def _below(
    node: ast.AST, parents: tuple[ast.AST, ...], names: Mapping[str, int], above: tuple[str, ...], text: Text
) -> Iterator[Mutation]:
    """Of a node in a function and of what lies below it."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from _in_function(node, (*above, "<locals>"), text)
    elif isinstance(node, ast.ClassDef):
        yield from _in_block(node, (*above, "<locals>", node.name), text)
    elif not _is_left_alone(node):
        yield from _at(node, Site(text=text, parents=parents, names=names), ".".join(above))
        for child in _children(node):
            yield from _below(child, (*parents, node), names, above, text)


def _at(node: ast.AST, site: Site, function: str) -> Iterator[Mutation]:
    for name, operator in OPERATORS.items():
        for start, end, replacement in operator(node, site):
            yield Mutation(
                operator=name,
                start=start,
                end=end,
                replacement=replacement,
                function=function,
                line=site.text.line(start),
            )


def _is_left_alone(node: ast.AST) -> bool:
    if isinstance(node, ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal):
        return True  # parts of a formatted text have no exact place before Python 3.12
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or _is_message(node.value)
    return _is_for_others(node)


def _is_message(node: ast.expr) -> bool:
    """Whether it is the call of a logger, of ``warnings`` or of ``print``."""
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    while isinstance(function, ast.Attribute):
        if function.attr in _SKIPPED_CALLS:
            return True
        function = function.value
    return isinstance(function, ast.Name) and function.id in _SKIPPED_CALLS


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """What of a node may be changed: not the annotation of a name, nor the message of an error."""
    if isinstance(node, ast.Raise):
        return iter(())
    if isinstance(node, ast.AnnAssign):
        return iter([node.value] if node.value is not None else [])
    if isinstance(node, ast.Lambda):
        return iter([node.body])
    return ast.iter_child_nodes(node)
