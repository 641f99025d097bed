"""Names of the package: a class name means one thing, and of two modules at most one knows the name of the other."""

import ast
from collections import defaultdict
from pathlib import Path

from tests.source.trees import tree_of

PACKAGE = Path(__file__).parents[2] / "turngate"
ROLES = {
    "base": "the contract of a room",
    "parts": "the parts of a room that a config names",
    "answers": "what a user's part of a room answers, read before it is used",
    "scenario": "a web task as it is played: what all have in common, and each kind of them",
    "settings": "settings that several parts of a room share",
    "env": "an environment",
    "task": "what an environment knows of a task besides its question",
    "sources": "where an environment's tasks come from",
    "generate": "tasks that are made up",
    "hints": "help for a task: of one environment, and the command that prints it",
    "rubric": "what pays an environment, and the class of it",
    "components": "rewards that a rubric is made of",
    "facts": "evidence: what an environment records, what examiners read",
    "tournament": "siblings ranked in few matches: the mathematics, and the examiner",
    "probing": "questions about a recorded turn: how they are put, and the examiner",
    "learner": "who holds the weights: the protocol, and the one of torch",
    "warm_start": "the warm start: how it is made, and how it is reported",
    "local": "what runs here, on this machine",
    "openai": "what speaks with a server of OpenAI's chat completions",
    "plan": "a command, and the plan of a guide",
    **dict.fromkeys(("credit", "show", "tasks"), "a command, and the module that does its work"),
}
"""Names that modules of several rooms may bear, because they have the same role in each."""


PARTICIPLES = frozenset(
    """alone apart asked beside bound changed checked chosen cleaned closed completed counted cut dismissed
    drawn ended filled found given handed heard held hired joined kept known learned left lent loaded made
    marked measured merged met named numbered opened ordered parsed played put said seen sent settled shown
    solved sought spoken spread started stopped stored taken told tried typed unfolded wanted weighed written""".split()
)
"""Words that say neither what a function does nor what it returns."""


def test_no_function_of_a_module_is_called_by_a_bare_participle():
    found = [
        f"{path.relative_to(PACKAGE).as_posix()}:{node.lineno} {node.name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in tree_of(path).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in PARTICIPLES
    ]
    assert found == []


METHODS = frozenset("alone apart asked beside held lent met said seen taken told".split())
"""Those of them that no method bears either. The others are also adjectives ("solved") or verbs ("put")."""


def test_no_method_is_called_by_a_participle_that_says_nothing():
    found = [
        f"{path.relative_to(PACKAGE).as_posix()}:{node.lineno} {owner.name}.{node.name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for owner in ast.walk(tree_of(path))
        if isinstance(owner, ast.ClassDef)
        for node in owner.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in METHODS
    ]
    assert found == []


def test_a_class_name_means_one_thing():
    homes = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(path.relative_to(PACKAGE).as_posix())
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_a_module_name_means_one_thing():
    homes = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name != "__init__.py":
            homes[path.stem].append(path.relative_to(PACKAGE).as_posix())
    assert {name for name, where in homes.items() if len(where) > 1} == set(ROLES)


def test_no_two_modules_import_each_other():
    """Nor in a function, nor for a type checker: what both need belongs into a module below them."""
    imports = _imports()
    circles = [
        f"{one}:{line} imports {other}, which imports it in line {imports[other][one]}"
        for one, imported in imports.items()
        for other, line in imported.items()
        if one < other and one in imports[other]
    ]
    assert circles == []


def _imports():
    """Module → module of the package that it imports, and in which line first."""
    files = {_module(path): path for path in sorted(PACKAGE.rglob("*.py"))}
    found = {name: {} for name in files}
    for name, path in files.items():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Import):
                wanted = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{path}:{node.lineno}: write the whole path of the module"
                paths = [f"{node.module}.{alias.name}" for alias in node.names]
                wanted = [path if path in files else node.module for path in paths]
            else:
                continue
            for other in wanted:
                if other in files:
                    found[name].setdefault(other, node.lineno)
    return found


def _module(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
