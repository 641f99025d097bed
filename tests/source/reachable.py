"""What of a package can be reached from outside of it, by reading its source: nothing is imported.

Nodes are the top-level names of every module: functions, classes, constants, imported names. A node leads to whatever
the source of its definition names; names that are local to a function lead nowhere. What runs when a module is imported
belongs to the module, which is always reached.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.source.trees import tree_of

Node = tuple[str, str]
"""Module and name; "" is what the module does when it is imported."""
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
OBJECT = re.compile(r"([a-z_]\w*(?:\.\w+)+):(\w+)")


class Source:
    """The modules of a package, or of scripts beside it, as nodes and what they lead to."""

    def __init__(self, folder: Path, package: str) -> None:
        self.package = package
        files = {_module(path, folder): path for path in sorted((folder / package).rglob("*.py"))}
        self.trees = {name: tree_of(path) for name, path in files.items()}
        self.definitions: dict[Node, Definition] = {}
        self.leads: defaultdict[Node, set[Node]] = defaultdict(set)
        self._loads: dict[str, list[str]] = {}
        for module, tree in self.trees.items():
            self._read(module, tree)

    def public(self) -> Iterator[Node]:
        """Functions and classes whose name, and module, does not begin with an underscore."""
        for module, name in self.definitions:
            if not any(part.startswith("_") for part in (*module.split("."), name)):
                yield module, name

    def reached(self, roots: Iterable[Node]) -> set[Node]:
        """Everything that the roots and the imports of modules lead to."""
        seen: set[Node] = set()
        waiting = [*roots, *((module, "") for module in self.trees)]
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting += self.leads.get(node, ())
        return seen

    def named_by(self, tree: ast.Module) -> set[Node]:
        """What a program that is no part of the package names of it."""
        return {node for target in self._references("", [tree], _imports(tree)) for node in self._of(*target)}

    def exported(self, module: str) -> set[Node]:
        """The names in ``__all__`` of a module."""
        found = [
            node.value
            for node in self.trees[module].body
            if isinstance(node, ast.Assign) and _target(node) == "__all__"
        ]
        return {(module, name) for value in found for name in ast.literal_eval(value)}

    def imported_with(self, module: str) -> set[str]:
        """The modules that are loaded when ``module`` is, and those that its constants list by name."""
        seen, waiting = set(), [module]
        while waiting:
            name = waiting.pop()
            if name in self.trees and name not in seen:
                seen.add(name)
                waiting += self._loaded_by(name)
        return seen

    def _loaded_by(self, module: str) -> list[str]:
        """What may be modules among the names that ``module`` imports at once, or lists; read once."""
        if (known := self._loads.get(module)) is not None:
            return known
        tree = self.trees[module]
        imported = [target for targets in _imports(tree, late=False).values() for target in targets]
        names = [name for at, what in imported for name in (at, f"{at}.{what}")]
        self._loads[module] = [module.rpartition(".")[0], *names, *_listed(tree)]
        return self._loads[module]

    def _read(self, module: str, tree: ast.Module) -> None:
        imports = _imports(tree)
        for alias, targets in imports.items():
            self.leads[module, alias] |= targets
        for statement in tree.body:
            if isinstance(statement, Definition):
                name = statement.name
                self.definitions[module, name] = statement
            else:
                name = _target(statement)
            inside = {
                (at, what)
                for at, what in self._references(module, [statement], imports)
                if (at, what) != (module, name)
            }
            self.leads[module, name] |= inside

    def _references(self, module: str, nodes: Iterable[ast.AST], imports: dict[str, set[Node]]) -> Iterator[Node]:
        """What the source below some nodes names, as far as it is not local."""
        for node, local in _below(nodes, frozenset()):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in local:
                yield module, node.id
                yield from imports.get(node.id, ())
            elif isinstance(node, ast.Attribute):
                yield from self._attribute(node, local, imports)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from OBJECT.findall(node.value)
                if re.search(rf"(from|import) {self.package}\b", node.value):
                    yield from self.named_by(_program(node.value))

    def _attribute(self, node: ast.Attribute, local: frozenset[str], imports: dict[str, set[Node]]) -> Iterator[Node]:
        steps = ast.unparse(node).split(".")
        for at, what in imports.get(steps[0], ()) if steps[0] not in local else ():
            path = [*at.split("."), *([what] if what else []), *steps[1:]]
            for cut in range(len(path) - 1, 0, -1):
                if (found := ".".join(path[:cut])) in self.trees:
                    yield found, path[cut]
                    break

    def _of(self, at: str, what: str) -> set[Node]:
        return {(at, what)} if at in self.trees else set()


def _listed(tree: ast.Module) -> list[str]:
    """Texts in a module's constants, some of which may name modules that it imports when they are needed."""
    constants = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None]
    parts = [part for node in constants for part in ast.walk(node.value)]
    return [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def _program(text: str) -> ast.Module:
    """A program that is written as text, for another process; nothing if it is none."""
    try:
        return ast.parse(text)
    except SyntaxError:
        return ast.Module(body=[], type_ignores=[])


def _module(path: Path, folder: Path) -> str:
    return ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")


def _target(statement: ast.stmt) -> str:
    """The name that a statement gives a value; "" for one that does something."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    simple = isinstance(statement, ast.Assign | ast.AnnAssign) and len(targets) == 1
    return targets[0].id if simple and isinstance(targets[0], ast.Name) else ""


def _imports(tree: ast.AST, *, late: bool = True) -> dict[str, set[Node]]:
    """Name → what it stands for, imported anywhere in a module; ``late``: also in functions and for type checkers."""
    found: defaultdict[str, set[Node]] = defaultdict(set)
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                found[alias.asname or alias.name].add((node.module, alias.name))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.split(".")[0]].add(
                    (alias.name if alias.asname else alias.name.split(".")[0], "")
                )
                found[f"import {alias.name}"].add((alias.name, ""))
        elif isinstance(node, ast.Assign) and (module := _when_used(node.value)):
            found[_target(node)].add((module, ""))
        elif late or (
            not isinstance(node, FUNCTIONS)
            and not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
        ):
            waiting += ast.iter_child_nodes(node)
    return found


def _when_used(value: ast.expr) -> str:
    """The module that ``when_used("module")`` imports at its first use; "" for any other value."""
    called = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "when_used"
    first = value.args[0] if isinstance(value, ast.Call) and called else None
    return str(first.value) if isinstance(first, ast.Constant) else ""


def _below(nodes: Iterable[ast.AST], local: frozenset[str]) -> Iterator[tuple[ast.AST, frozenset[str]]]:
    """Every node with the names that are local where it stands, docstrings left out."""
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        inner = local | _bound(node) if isinstance(node, (*FUNCTIONS, *COMPREHENSIONS)) else local
        yield node, inner
        yield from _below(ast.iter_child_nodes(node), inner)


def _bound(scope: ast.AST) -> frozenset[str]:
    """Arguments and variables of a function or a comprehension; those of functions in it are their own."""
    names: set[str] = set()
    waiting = [*ast.iter_child_nodes(scope)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        if isinstance(node, Definition):
            names.add(node.name)
        elif not isinstance(node, ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return frozenset(names)
