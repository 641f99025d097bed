"""The syntax trees of the package's modules, each parsed once."""

import ast
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    """The tree of a module, which nobody may change."""
    return ast.parse(path.read_text(encoding="utf-8"))
