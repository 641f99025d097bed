"""Asked tests: tests without their expected values, which so never reach the code under test.

``assert f(3) == 4`` becomes ``ask(17, lambda: f(3))``: the value is handed over, and 4 is compared with it outside of
the sandbox (``answers.py``). Rows of ``parametrize`` lose the column that is expected, and get ids that do not tell it.
A test function is asked if all of its assertions can be; the others keep their expected values inside (``pair.py``).
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from turngate.envs.code.grading.claims import Saying, column_names, foreign_names, saying, tells_nothing
from turngate.envs.code.grading.folding import NotData, fold
from turngate.envs.code.grading.returned import Answers, Claim

ASKS = frozenset({"fail", "raises", "warns", "approx"})
_ROW = re.compile(r"[\[-]ask(\d+)(?=[\]-])")
_Def: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPlace:
    """A place where a value is handed over: its number, and the claim there, for each row if there are rows."""

    number: int
    claims: tuple[Claim, ...]
    in_rows: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedModule:
    """A test module in asked form."""

    text: str
    functions: Mapping[str, tuple[AskedPlace, ...]]
    """``name`` or ``Class::name`` of each function that is asked → its sites, each of which is passed once."""


def ask_module(source: str, only: Collection[str] | None = None, first: int = 0) -> AskedModule | None:
    """The module with its tests in asked form, those of ``only`` if given; None if there are none.

    Sites are numbered from ``first``. Raises SyntaxError or ValueError for a text that does not parse.
    """
    module = _Module(ast.parse(source))
    chosen = {test.name: test for test in _tests(module) if only is None or test.name in only}
    while lost := [test.name for test in chosen.values() if not _is_separable(test, list(chosen.values()), module)]:
        for name in lost:
            del chosen[name]
    if not chosen:
        return None
    functions, number = {}, first
    for test in chosen.values():
        functions[test.name] = tuple(_sites(test, number))
        number += len(test.sayings)
    _rewrite(module, list(chosen.values()), first)
    return AskedModule(text=ast.unparse(ast.fix_missing_locations(module.tree)) + "\n", functions=functions)


def holds(sites: Collection[AskedPlace], test: str, answers: Answers) -> bool:
    """Whether a test, by its id inside, gave at each of its sites one answer that fulfils the claim, and no other."""
    given = answers.get(test, {})
    if given.keys() != {site.number for site in sites}:
        return False
    rows = _ROW.findall(test)
    row = int(rows[0]) if len(rows) == 1 else -1
    for site in sites:
        place = row if site.in_rows else 0
        if len(given[site.number]) != 1 or not 0 <= place < len(site.claims):
            return False
        if not site.claims[place].holds(given[site.number][0]):
            return False
    return True


# --- reading ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Parametrized:
    """A decorator ``parametrize``: its names, and its rows as expressions, one for each name."""

    decorator: ast.Call
    names: list[str]
    rows: list[list[ast.expr]]
    calls: list[ast.Call | None]
    """For each row the call of ``pytest.param`` that it stands in, if any."""
    constant: str
    """The name of the module that holds the rows; "" if they stand in the decorator."""


@dataclass(slots=True)
class _Test:
    name: str
    node: ast.FunctionDef
    sayings: list[tuple[ast.stmt, Saying]] = field(default_factory=list)
    table: _Parametrized | None = None
    """The one with columns that are expected."""
    taken: set[str] = field(default_factory=set)
    """Names whose values are taken out: of columns, of variables, of the module."""
    variables: dict[str, ast.Assign] = field(default_factory=dict)
    """Those that are assigned once, and data."""
    constants: dict[str, Any] = field(default_factory=dict)
    """Its variables, and the names of the module that it can see."""


class _Module:
    """Facts about a whole module."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.foreign = foreign_names(tree)
        nodes = list(ast.walk(tree))
        self.loads = Counter(node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
        stores = Counter(node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load))
        stores.update(node.arg for node in nodes if isinstance(node, ast.arg))
        self.constants: dict[str, Any] = {}
        self.assigned: dict[str, list[ast.Assign]] = {}
        for statement in tree.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.assigned.setdefault(name, []).append(statement)
                    try:
                        self.constants[name] = fold(value, self.constants)
                    except NotData:
                        self.constants.pop(name, None)
        for name in [name for name in self.constants if stores[name] != len(self.assigned[name])]:
            del self.constants[name]
        functions = [node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        self.asserting = {node.name for node in functions if any(map(_is_assertion, ast.walk(node)))}
        while more := {node.name for node in functions if any(map(self.asserts, ast.walk(node)))} - self.asserting:
            self.asserting |= more

    def asserts(self, node: ast.AST) -> bool:
        """Whether a node calls a function of the module that asserts something."""
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                return name in self.asserting
        return False


def _tests(module: _Module) -> Iterator[_Test]:
    """The tests all of whose assertions can be asked."""
    found = Counter[str]()
    tests: list[_Test] = []
    for prefix, body in _bodies(module):
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found[prefix + node.name] += 1
                if isinstance(node, ast.FunctionDef) and node.name.startswith("test") and not module.loads[node.name]:
                    test = _read(prefix + node.name, node, module)
                    tests += [test] if test else []
    yield from (test for test in tests if found[test.name] == 1)


def _bodies(module: _Module) -> Iterator[tuple[str, list[ast.stmt]]]:
    """The module, and those of its classes from which no other could inherit tests."""
    yield "", module.tree.body
    for node in module.tree.body:
        if isinstance(node, ast.ClassDef) and not module.loads[node.name]:
            yield f"{node.name}::", node.body


def _read(name: str, node: ast.FunctionDef, module: _Module) -> _Test | None:
    test = _Test(name, node)
    tables = [table for item in node.decorator_list if (table := _table(item, module))]
    stored = Counter(_stored(node))
    arguments = {item.arg for item in (*node.args.args, *node.args.kwonlyargs)}
    constants = dict(module.constants)
    for statement in node.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if stored[target] == 1:
                try:
                    constants[target] = fold(value, constants)
                    test.variables[target] = statement
                except NotData:
                    constants.pop(target, None)
    for local in (*(target for target in stored if target not in test.variables), *arguments):
        constants.pop(local, None)
    test.constants = constants
    known_here = {*stored, *arguments}
    for statement in _straight(node.body):
        if (said := saying(statement)) is None:
            continue
        chosen = _choose(said, tables, constants)
        if chosen is None or tells_nothing(chosen[0], module.foreign, known_here):
            return None
        said, table = chosen
        if table is not None:
            if test.table not in (None, table):
                return None
            test.table = table
        test.sayings.append((statement, said))
    if not test.sayings or _asserts_more(test, module):
        return None
    return test if _take(test, module) else None


def _choose(
    said: Saying, tables: list[_Parametrized], constants: Mapping[str, Any]
) -> tuple[Saying, _Parametrized | None] | None:
    """The claim in the reading whose expected value is data, and the table that its rows come from."""
    sides = [side for side in (said, said.swapped) if side]
    for side in sides:
        needed = {node.id for node in ast.walk(side.known) if isinstance(node, ast.Name)}
        sources = [table for table in tables if needed & set(table.names)]
        if len(sources) > 1 or (len(sides) > 1 and _is_data(side.value, tables)):
            continue
        try:
            for names in _environments(sources[0] if sources else None, needed, constants):
                fold(side.known, names)
        except NotData:
            continue
        return side, (sources[0] if sources else None)
    return None


def _is_data(value: ast.expr, tables: list[_Parametrized]) -> bool:
    """Whether the value under test is data too: then there is nothing to ask."""
    if isinstance(value, ast.Name):
        return any(value.id in table.names for table in tables)
    try:
        fold(value, {})
    except NotData:
        return False
    return True


def _environments(
    table: _Parametrized | None, needed: set[str], constants: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """The names that an expression can use: once, or for each row. Raises NotData."""
    if table is None:
        yield dict(constants)
        return
    for row in table.rows:
        cells = {name: cell for name, cell in zip(table.names, row, strict=True) if name in needed}
        yield dict(constants) | {name: fold(cell, constants) for name, cell in cells.items()}


def _take(test: _Test, module: _Module) -> bool:
    """Find the names whose values are only expected. False if one is used for something else too, except as an argument
    of the code (``f(x) == x``) or as a tolerance."""
    columns = set(test.table.names) if test.table else set()
    uses = Counter(_loads(ast.Module(body=test.node.body, type_ignores=[])))
    known = Counter(name for _, said in test.sayings for name in _loads(said.known))
    for name in known.keys() & (columns | test.constants.keys()):
        if uses[name] == known[name]:
            test.taken.add(name)
        elif not all(_is_given(name, said) for _, said in test.sayings):
            return False
    if test.table and test.table.constant:
        test.taken.add(test.table.constant)
        return all(_is_literal(cell) for row in test.table.rows for cell in row)
    return True


def _is_given(name: str, said: Saying) -> bool:
    """Whether a name that a claim expects is an argument of the code there, or a tolerance."""
    tolerances = [name for word in _words(said.known) for name in _loads(word)]
    return list(_loads(said.known)).count(name) == tolerances.count(name) or name in _loads(said.value)


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def _words(node: ast.expr) -> Iterator[ast.expr]:
    """The tolerances of ``approx``."""
    if isinstance(node, ast.Call):
        yield from (word.value for word in node.keywords)
        yield from node.args[1:]


def _loads(node: ast.AST) -> Iterator[str]:
    return (item.id for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Load))


def _stored(node: ast.FunctionDef) -> Iterator[str]:
    return (item.id for item in ast.walk(node) if isinstance(item, ast.Name) and not isinstance(item.ctx, ast.Load))


def _straight(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that are executed once, those of ``with`` included."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.With) and saying(statement) is None:
            yield from _straight(statement.body)


def _is_assertion(node: ast.AST) -> bool:
    match node:
        case ast.Assert():
            return True
        case ast.Call(func=ast.Attribute(attr=name)):
            return name.startswith("assert") or name in ASKS - {"approx"}
    return False


def _asserts_more(test: _Test, module: _Module) -> bool:
    """Whether a test asserts something beside its claims, or leaves it to a function that does."""
    covered = {id(node) for statement, _ in test.sayings for node in ast.walk(statement)}
    values = {id(node) for _, said in test.sayings for node in ast.walk(said.value)}
    for node in (node for statement in test.node.body for node in ast.walk(statement)):
        if id(node) not in covered and _is_assertion(node):
            return True
        if (id(node) not in covered or id(node) in values) and module.asserts(node):
            return True
    return False


def _table(decorator: ast.expr, module: _Module) -> _Parametrized | None:
    match decorator:
        case ast.Call(func=ast.Attribute(attr="parametrize"), args=[names, values], keywords=more):
            if any(word.arg not in ("ids", "scope") for word in more):
                return None
            columns, constant = column_names(names), ""
            if isinstance(values, ast.Name) and isinstance(module.constants.get(values.id), (list, tuple)):
                constant = values.id
                values = ast.parse(repr(list(module.constants[constant])), mode="eval").body
            if not isinstance(values, (ast.List, ast.Tuple)) or not columns:
                return None
            table = _Parametrized(decorator, columns, [], [], constant)
            for row in values.elts:
                cells = _cells(row, len(columns))
                if len(cells) != len(columns):
                    return None
                table.rows.append(cells)
                table.calls.append(row if isinstance(row, ast.Call) and cells is row.args else None)
            return table
    return None


def _cells(row: ast.expr, count: int) -> list[ast.expr]:
    match row:
        case ast.Call(func=ast.Attribute(attr="param") | ast.Name(id="param"), args=args):
            return args
        case _ if count == 1:
            return [row]
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return items
    return []


def _is_separable(test: _Test, chosen: list[_Test], module: _Module) -> bool:
    """Whether only the asked tests use the parts that it takes out of the module."""
    for name in test.taken & module.constants.keys():
        if name in test.variables or (test.table and name in test.table.names):
            continue
        uses = sum(list(_loads(assign.value)).count(name) for assign in module.assigned[name])
        for other in chosen:
            uses += sum(list(_loads(said.known)).count(name) for _, said in other.sayings)
            uses += bool(other.table and other.table.constant == name)
        if uses != module.loads[name]:
            return False
    return True


# --- writing ----------------------------------------------------------------------------------------------------------


def _sites(test: _Test, first: int) -> Iterator[AskedPlace]:
    for number, (_, said) in enumerate(test.sayings, first):
        needed = set(_loads(said.known))
        in_rows = test.table is not None and not needed.isdisjoint(test.table.names)
        names = _environments(test.table if in_rows else None, needed, test.constants)
        claims = tuple(_claim(said, fold(said.known, each)) for each in names)
        yield AskedPlace(number=number, claims=claims, in_rows=in_rows)


def _claim(said: Saying, known: Any) -> Claim:
    known = frozenset(known) if said.verb == "raises" else known
    return Claim(verb=said.verb, known=known, pattern=said.pattern)


def _rewrite(module: _Module, tests: list[_Test], first: int) -> None:
    """Change the tree of the module."""
    replaced: dict[int, ast.stmt] = {}
    for test in tests:
        for number, (statement, said) in enumerate(test.sayings, first):
            replaced[id(statement)] = _asking(number, said.value)
        first += len(test.sayings)
        for name in test.taken:
            if name in test.variables:
                test.variables[name].value = ast.Constant(None)
            elif not (test.table and name in test.table.names):
                for assign in module.assigned[name]:
                    assign.value = ast.Constant(None)
        if test.table:
            _empty(test.table, test.taken)
        if ast.get_docstring(test.node) is not None:
            test.node.body = test.node.body[1:]
    _Replacing(replaced).visit(module.tree)
    start = next((place for place, node in enumerate(module.tree.body) if not _is_head(node)), 0)
    module.tree.body.insert(start, ast.parse("from turngate_asking import ask as turngate_ask").body[0])


def _asking(number: int, value: ast.expr) -> ast.stmt:
    (statement,) = ast.parse(f"turngate_ask({number}, lambda: None)").body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    given = statement.value.args[1]
    assert isinstance(given, ast.Lambda)
    given.body = value
    return statement


def _empty(table: _Parametrized, taken: Collection[str]) -> None:
    """Take the values of columns out of a decorator; its ids tell nothing but the number of the row."""
    rows: list[ast.expr] = []
    for cells, call in zip(table.rows, table.calls, strict=True):
        left = [ast.Constant(None) if name in taken else cell for name, cell in zip(table.names, cells, strict=True)]
        if call is not None:
            marks = [word for word in call.keywords if word.arg != "id"]
            rows.append(ast.Call(call.func, left, marks))
        else:
            rows.append(left[0] if len(left) == 1 else ast.Tuple(left, ast.Load()))
    ids = ast.List([ast.Constant(f"ask{number}") for number in range(len(rows))], ast.Load())
    kept = [word for word in table.decorator.keywords if word.arg != "ids"]
    table.decorator.args[1] = ast.List(rows, ast.Load())
    table.decorator.keywords = [*kept, ast.keyword("ids", ids)]


class _Replacing(ast.NodeTransformer):
    def __init__(self, replaced: Mapping[int, ast.stmt]) -> None:
        self._replaced = replaced

    def visit(self, node: ast.AST) -> Any:
        return self._replaced.get(id(node)) or super().visit(node)


def _is_head(node: ast.stmt) -> bool:
    """The docstring of a module, and imports from ``__future__``, which must stay first."""
    is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__")
