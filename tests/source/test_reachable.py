"""Nothing public without a caller: every public function and class of turngate can be reached by a user.

A name is reached from the commands, the public list ``turngate.__all__``, the programs and names in README and docs,
examples and benchmarks, the programs in docstrings of modules, what pyproject.toml names, and the parts that a config
finds by their type. Tests do not count.
After a change, ``python -m tests.source.test_reachable`` prints what is not reached.
"""

import ast
import doctest
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.source.reachable import OBJECT, Node, Source
from tests.source.trees import tree_of

ROOT = Path(__file__).parents[2]
ASKED_INSIDE = ("begin", "ask", "save", "encoded", "plain", "Opaque", "as_builtin")
ALLOWED: dict[str, str] = {
    "turngate.parts:families": "for tests of whoever brings parts: which kinds of parts there are",
    **dict.fromkeys(
        (f"turngate.envs.code.grading.inside.turngate_asking:{name}" for name in ASKED_INSIDE),
        "the runners and asked tests load it by its place in the sandbox",
    ),
}
"""``module:name`` → why nobody has to call it."""


def documents(root: Path) -> list[str]:
    return [path.read_text(encoding="utf-8") for path in (*root.glob("*.md"), *root.glob("docs/*.md"))]


def roots(source: Source, root: Path, package: str) -> set[Node]:
    """What users and their configs can name."""
    found = source.exported(package)
    for folder in ("examples", "benchmarks"):
        for path in (root / folder).rglob("*.py"):
            found |= source.named_by(tree_of(path))
    for text in documents(root):
        found |= documented(source, text)
    for module in source.trees:
        found |= shown(source, module)
    found |= set(OBJECT.findall((root / "pyproject.toml").read_text(encoding="utf-8")))
    found |= {
        node for node, definition in source.definitions.items() if is_command(definition) or is_marked(definition)
    }
    found |= {(module, "ENTITIES") for module in source.trees}  # which the world of a domain looks for
    loaded = source.imported_with(f"{package}.config") | source.imported_with(package)
    for module in shipping(source):
        loaded |= source.imported_with(module)
    return found | {
        node for node, definition in source.definitions.items() if node[0] in loaded and is_part(definition)
    }


def shipping(source: Source) -> set[str]:
    """The modules that families of parts name in ``shipped_in``: modules, and packages of modules."""
    named = {
        ast.literal_eval(place)
        for tree in source.trees.values()
        for line in ast.walk(tree)
        if isinstance(line, ast.AnnAssign) and ast.unparse(line.target) == "shipped_in"
        for place in getattr(line.value, "elts", ())
    }
    return {module for module in source.trees if {module, module.rpartition(".")[0]} & named}


def shown(source: Source, module: str) -> set[Node]:
    """What the program in a module's docstring names, which stands in the module itself."""
    text = ast.get_docstring(source.trees[module]) or ""
    program = ast.parse("".join(example.source for example in doctest.DocTestParser().get_examples(text)))
    names = {node.id for node in ast.walk(program) if isinstance(node, ast.Name)}
    return source.named_by(program) | {(module, name) for name in names}


def documented(source: Source, text: str) -> set[Node]:
    """Names of programs in a page; paths in backticks, and names there that a package lists in ``__all__``."""
    found: set[Node] = set()
    for program in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        try:
            found |= source.named_by(ast.parse(program))
        except SyntaxError:
            continue
    listed = exports(source)
    for code in re.findall(r"`([^`\n]+)`", text):
        for path in re.findall(r"turngate(?:\.\w+)+", code):
            found.add(tuple(path.rsplit(".", 1)))  # type: ignore[arg-type]
        for name in re.findall(r"\w+", code):
            found |= {(package, name) for package, names in listed.items() if name in names}
    return found


@cache
def exports(source: Source) -> dict[str, set[str]]:
    """Package → the names in its ``__all__``."""
    found = {module: {name for _, name in source.exported(module)} for module in source.trees}
    return {module: names for module, names in found.items() if names}


def is_command(definition: ast.AST) -> bool:
    """Typer calls it, or pytest in a sandbox."""
    if getattr(definition, "name", "").startswith("pytest_"):
        return True
    return any(".command(" in ast.unparse(decorator) for decorator in getattr(definition, "decorator_list", ()))


def is_marked(definition: ast.AST) -> bool:
    """A tool or a policy, which its world finds by its mark, or a function that is a part."""
    marks = [ast.unparse(decorator).partition("(")[0] for decorator in getattr(definition, "decorator_list", ())]
    return bool({"tool", "policy", "rule", "FilterPart.define"} & set(marks))


def is_part(definition: ast.AST) -> bool:
    """A class with ``type: Literal["name"] = "name"``."""
    return isinstance(definition, ast.ClassDef) and any(
        isinstance(line, ast.AnnAssign)
        and ast.unparse(line.target) == "type"
        and "Literal" in ast.unparse(line.annotation)
        for line in definition.body
    )


source_of = cache(Source)


def not_reached(root: Path = ROOT, package: str = "turngate") -> list[str]:
    source = source_of(root, package)
    reached = source.reached(roots(source, root, package))
    return sorted(f"{module}:{name}" for module, name in source.public() if (module, name) not in reached)


def test_every_public_name_is_reached() -> None:
    found = set(not_reached())
    assert found - set(ALLOWED) == set(), "nothing reaches these: join them, make them private or remove them"
    assert set(ALLOWED) <= found, "these are reached or gone: take them out of ALLOWED"


# --- that the reading is right ---------------------------------------------------------------------------------------

PACKAGE = {
    "house/__init__.py": "from house.rooms import kitchen\n__all__ = ['kitchen']\n",
    "house/config.py": "import house.parts\n",
    "house/rooms.py": """
from house import tools
from house.tools import spoon as ladle

LAMPS = {"desk": lambda: desk_lamp()}

def kitchen(pan):
    def stir():
        return ladle()
    return tools.knife(stir), pan

def pan(): ...
def attic(): return attic() and cellar()
def cellar(): return attic()
def desk_lamp(): ...
def _secret(): return drawer()
def drawer(): ...
async def shown(): ...
""",
    "house/tools.py": """
def spoon(): ...
def fork(): ...
class Knife:
    edge: "int"
def knife() -> Knife: ...
if True:
    fork
""",
    "house/cli.py": """
@app.command("x")
def go():
    from house.late import go
    go()
""",
    "house/late.py": """
PROGRAM = "from house.late import served; served()"

def go():
    "house.late:NoMore"
    return "house.late:Named", [ran for ran in ()], ran_too, PROGRAM

def ran(): ...
def ran_too(): ...
def served(): ...
class Named: ...
class NoMore: ...
""",
    "house/parts.py": """
from typing import Literal

class Door:
    type: Literal["door"] = "door"
    def open(self):
        return hinge()

def hinge(): ...
""",
    "house/lost.py": """
from typing import Literal

class Window:
    type: Literal["window"] = "window"
""",
    "house/taught.py": '''"""How to use it:

>>> teach("it")
"""
def teach(it): ...
def hide(it): ...
''',
    "house/slow.py": "def worked(): ...\ndef idle(): ...\n",
    "house/late_use.py": """
from house.parts import when_used

slow = when_used("house.slow")
slow.worked()
""",
    "house/_own.py": "def whatever(): ...\n",
    "examples/use.py": "import house.rooms as rooms\nrooms.LAMPS\n",
    "README.md": "```python\nimport house.rooms\nhouse.rooms.shown()\n```\n",
    "pyproject.toml": "",
}


def test_what_is_reached_in_a_small_package(tmp_path: Path) -> None:
    for name, text in PACKAGE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    assert not_reached(tmp_path, "house") == [
        "house.late:NoMore",
        "house.late:ran",
        "house.lost:Window",
        "house.rooms:attic",
        "house.rooms:cellar",
        "house.rooms:drawer",
        "house.rooms:pan",
        "house.slow:idle",
        "house.taught:hide",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`turngate.envs.pool.pool.EnvPool(2)`", {("turngate.envs.pool.pool", "EnvPool")}),
        ("write `TaskList(tasks)`", {("turngate", "TaskList")}),
        ("```python\nfrom turngate import make\nmake('x')\n```", {("turngate", "make")}),
        ("make a wish", set()),
        ("```\nno program\n```", set()),
    ],
)
def test_what_a_page_names(text: str, expected: set[Node]) -> None:
    assert documented(source_of(ROOT, "turngate"), text) == expected


if __name__ == "__main__":
    sys.stdout.write("\n".join(not_reached()) + "\n")
