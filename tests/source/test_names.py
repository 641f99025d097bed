"""Names of the package: a class name means one thing, and so does a module name outside of the rooms' common roles."""

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "turngate"


def test_a_class_name_means_one_thing():
    homes = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(path.relative_to(PACKAGE).as_posix())
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}
