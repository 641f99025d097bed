"""What docstrings may leave out, and what they may not say.

A method that fills in what a class above it, or a protocol, declares needs no docstring: the declaration says what it
does. Every other public method of a public class has one, and none says only where to look.

Words that make a sentence a riddle are out: a mechanism has a name, so neither somebody nor whoever does its work.
"""

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.source.trees import tree_of

PACKAGE = Path(__file__).parents[2] / "turngate"
OF_PYTHON = {"do_POST", "find_class", "handle_data", "handle_endtag", "handle_starttag", "subprocess_exec", "visit"}
"""Methods that classes of the standard library declare."""
POINTER = re.compile(r"See ``[^`]*``\.?")
RULES_OF_A_DESK = {"envs/tooluse/generated/lending.py"}
"""Modules with docstrings that agents read as rules about people."""
RIDDLES = re.compile(r"(?<![`\"])\b(?:whoever|nobody|somebody|put by|others now)\b", re.IGNORECASE)


def classes(tree: ast.Module | ast.ClassDef) -> Iterator[ast.ClassDef]:
    """Public classes, also in one another, but not in functions."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node
            yield from classes(node)


def methods() -> Iterator[tuple[str, str, str | None]]:
    """(place, name, docstring) of every public method."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for owner in classes(tree_of(path)):
            for node in owner.body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                    yield f"{path.relative_to(PACKAGE)}:{node.lineno}", node.name, ast.get_docstring(node)


def test_a_public_method_says_what_it_does_unless_another_declares_it():
    found = list(methods())
    declared = {name for _, name, text in found if text}
    assert len(found) > 1000
    assert [f"{place} {name}" for place, name, text in found if not text and name not in declared | OF_PYTHON] == []


def test_no_docstring_only_points_elsewhere():
    pointers = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text in prose(path)
        if POINTER.fullmatch(text)
    ]
    assert pointers == []


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of each docstring, of each text below a field and of each comment."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, " ".join(node.value.value.split())
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def test_no_docstring_or_comment_is_a_riddle():
    files = [
        path for path in sorted(PACKAGE.rglob("*.py")) if path.relative_to(PACKAGE).as_posix() not in RULES_OF_A_DESK
    ]
    assert len(files) > 800
    found = [(path, line, RIDDLES.findall(text)) for path in files for line, text in prose(path)]
    assert [f"{path.relative_to(PACKAGE)}:{line} {words}" for path, line, words in found if words] == []
