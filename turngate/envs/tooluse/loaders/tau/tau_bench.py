"""A checkout of tau-bench (https://github.com/sierra-research/tau-bench): its tables, its tools and its tasks.

Tables and rules are read as JSON and text, tasks as Python literals without running their files. Only the tools are
imported: they are the checkout's own code.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from turngate.envs.tooluse.engine.schema_tool import schema_tool
from turngate.envs.tooluse.loaders.tau.checkout import imported, read_json, text_of
from turngate.envs.tooluse.loaders.tau.copy_on_write import Holder, Place, Tables
from turngate.envs.tooluse.loaders.tau.tau_world import KitCall, TauStart, TauWorld, Toolkit
from turngate.errors import ConfigError, DataError
from turngate.problems import of_row
from turngate.tools.tool import Tool

SPLITS = ("test", "train", "dev")
TRANSFER = "transfer_to_human_agents"
_OURS = {"kwargs": "arguments"}
_LOOKING = ("get_", "find_", "list_", "search_")
_LOOKING_TOO = ("calculate", "think", TRANSFER)


class BenchAction(BaseModel):
    """A gold call. ``arguments``: the ``kwargs`` of the checkout."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    name: str
    arguments: Mapping[str, object] = {}


class BenchTask(BaseModel):
    """A task as the checkout writes it."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    instruction: str
    actions: tuple[BenchAction, ...] = ()
    outputs: tuple[str, ...] = ()


class TauBenchWorld(TauWorld):
    """The tools and tables of one domain of a checkout of tau-bench."""

    type: Literal["tau_bench"] = "tau_bench"
    folder: Path
    """The checkout: the folder that holds ``tau_bench``."""
    domain: str

    def toolkit(self) -> Toolkit:
        return BenchToolkit(self.folder, self.domain)


def home_of(folder: Path, domain: str) -> Path:
    """The folder of a domain. Raises DataError."""
    home = folder / "tau_bench" / "envs" / domain
    if not (home / "tools").is_dir():
        known = sorted(path.parent.name for path in home.parent.glob("*/tools"))
        raise DataError(home, f"is no domain of tau-bench; there are {', '.join(known) or 'none'}")
    return home


def policy_of(folder: Path, domain: str) -> str:
    """The rules that the agent is told."""
    return text_of(home_of(folder, domain) / "wiki.md").strip()


def tasks_of(folder: Path, domain: str) -> dict[str, list[BenchTask]]:
    """The tasks of each split whose file is there. Raises DataError."""
    home = home_of(folder, domain)
    files = {split: home / f"tasks_{split}.py" for split in SPLITS}
    found = {split: list(_read_tasks(file)) for split, file in files.items() if file.is_file()}
    if not any(found.values()):
        raise DataError(home, f"holds no tasks; there is no {', '.join(file.name for file in files.values())}")
    return found


def _read_tasks(file: Path) -> Iterator[BenchTask]:
    """The tasks of the longest list in a file, evaluated as literals; nothing of the file is run."""
    try:
        tree = ast.parse(text_of(file), str(file))
    except SyntaxError as error:
        raise DataError(file, f"is not Python: {error.msg}", line=error.lineno) from None
    lists = [node.value for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.value, ast.List)]
    for item in max((one.elts for one in lists), key=len, default=[]):
        try:
            yield BenchTask.model_validate(_literal(item))
        except ValidationError as error:
            problem, field = of_row(error)
            raise DataError(file, problem, line=item.lineno, field=field) from error
        except ValueError as error:
            raise DataError(file, f"a task is no literal: {error}", line=item.lineno) from None


def _literal(node: ast.expr) -> Any:
    """The value of a literal in which calls with keywords, such as Task(…), are tables. Raises ValueError."""
    if isinstance(node, ast.Call) and not node.args:
        return {_OURS.get(str(one.arg), str(one.arg)): _literal(one.value) for one in node.keywords}
    if isinstance(node, ast.List):
        return [_literal(item) for item in node.elts]
    return ast.literal_eval(node)


class _DictTables:
    """See ``Holder``: a dict of tables."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def table(self, name: str) -> object:
        return self.data[name]

    def put(self, name: str, table: object) -> None:
        self.data[name] = table

    def plain(self) -> Mapping[str, object]:
        return self.data


@cache
def _texts(home: Path) -> dict[str, str]:
    """Table → the text of its file, read once."""
    return {file.stem: text_of(file) for file in sorted((home / "data").glob("*.json"))}


@cache
def _first(home: Path) -> Tables:
    """The first tables of a domain, which all its worlds share."""
    for file in sorted((home / "data").glob("*.json")):
        read_json(file)  # says which file is broken, and where
    if not _texts(home):
        raise DataError(home / "data", "holds no tables (*.json)")
    return Tables(lambda: _DictTables({name: json.loads(text) for name, text in _texts(home).items()}))


class BenchToolkit:
    """The tools of a domain of tau-bench; see ``Toolkit``."""

    ends_with = frozenset({TRANSFER})
    reads_count = True

    def __init__(self, folder: Path, domain: str) -> None:
        home = home_of(folder, domain)
        packages = ("tau_bench", "tau_bench.envs", f"tau_bench.envs.{domain}")
        module = imported(folder, f"{packages[-1]}.tools", bare=packages)
        self._classes: dict[str, Any] = {}
        tools = []
        for one in getattr(module, "ALL_TOOLS", ()):
            about = one.get_info()["function"]
            looks = about["name"].startswith(_LOOKING) or about["name"] in _LOOKING_TOO
            tools.append(schema_tool(about["name"], about["description"], about["parameters"], read_only=looks))
            self._classes[about["name"]] = one
        if not tools:
            raise DataError(home / "tools", "defines no ALL_TOOLS")
        self.tools: tuple[Tool, ...] = tuple(tools)
        self.tables = _first(home.resolve())
        self._held, self._touched = self.tables.make(), False

    @property
    def holder(self) -> Holder:
        return self._held

    def begin(self, start: TauStart, rows: Mapping[Place, object] = MappingProxyType({})) -> None:
        """See ``Toolkit.begin``. Raises ConfigError for a start that tau-bench has not."""
        if start.data is not None or start.setup or start.assertions:
            raise ConfigError("tasks of tau-bench all begin with the same tables, and have no assertions")
        if self._touched or rows:
            self.tables.restore(self._held, rows)
        self._touched = bool(rows)

    def call(self, name: str, arguments: Mapping[str, object]) -> str:
        self._touched = True
        return str(self._classes[name].invoke(data=self._held.plain(), **arguments))

    def holds(self, assertion: KitCall) -> bool:
        """False: there are none."""
        return False
