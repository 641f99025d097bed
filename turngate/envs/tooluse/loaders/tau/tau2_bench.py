"""A checkout of tau2-bench (https://github.com/sierra-research/tau2-bench): its tables, its tools and its tasks.

Tables, policies and tasks are read as data. A domain's toolkit and the classes of its tables are imported: they are the
checkout's own code, and need its dependencies. Tasks in which the user acts with tools of their own, that begin in the
middle of a talk, or that a model has to judge are not played here; see ``why_not``.
"""

from __future__ import annotations

import datetime
import importlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError

from turngate.envs.tooluse.engine.schema_tool import schema_tool
from turngate.envs.tooluse.loaders.tau.checkout import imported, read_json, read_table, text_of
from turngate.envs.tooluse.loaders.tau.copy_on_write import Holder, Place, Tables
from turngate.envs.tooluse.loaders.tau.tau_world import KitCall, TauStart, TauWorld, Toolkit
from turngate.errors import ConfigError, DataError
from turngate.problems import of_row
from turngate.tools.tool import Tool

NOT_PLAYED = {
    "telecom": "its users act on a device with tools of their own",
    "telecom-workflow": "its users act on a device with tools of their own",
    "banking_knowledge": "its users act with tools of their own, and its documents need a retriever",
}
"""Domains whose tasks need more than this world has, and why."""
_ROWS = ConfigDict(extra="ignore", frozen=True)


class Tau2Action(BaseModel):
    """A gold call as the checkout writes it."""

    model_config = _ROWS
    name: str
    arguments: Mapping[str, object]
    requestor: Literal["assistant", "user"] = "assistant"
    compare_args: tuple[str, ...] | None = None


class SidedCall(KitCall):
    """A function of the agent's or of the user's toolkit."""

    env_type: Literal["assistant", "user"]


class Criteria(BaseModel):
    """The grading criteria of a task."""

    model_config = _ROWS
    actions: tuple[Tau2Action, ...] | None = None
    env_assertions: tuple[SidedCall, ...] | None = None
    communicate_info: tuple[str, ...] | None = None
    nl_assertions: tuple[str, ...] | None = None
    reward_basis: tuple[Literal["DB", "COMMUNICATE", "ENV_ASSERTION", "ACTION", "NL_ASSERTION"], ...] = (
        "DB",
        "COMMUNICATE",
    )


class FirstData(BaseModel):
    """Contents of tables beside the domain's."""

    model_config = _ROWS
    agent_data: Mapping[str, object] | None = None
    user_data: Mapping[str, object] | None = None


class FirstState(BaseModel):
    """How a task begins."""

    model_config = _ROWS
    initialization_data: FirstData | None = None
    initialization_actions: tuple[SidedCall, ...] | None = None
    message_history: tuple[Mapping[str, object], ...] | None = None


class UserScenario(BaseModel):
    """The instructions of the user."""

    model_config = _ROWS
    persona: str | None = None
    instructions: str | Mapping[str, str | None]

    @property
    def text(self) -> str:
        """All of it."""
        told = self.instructions if isinstance(self.instructions, Mapping) else {"": self.instructions}
        named = {"persona": self.persona, **told}
        titles = {name: f"{name.replace('_', ' ').capitalize()}: " if name else "" for name in named}
        return "\n".join(f"{titles[name]}{text}" for name, text in named.items() if text)


class Tau2Task(BaseModel):
    """A task as the checkout writes it."""

    model_config = _ROWS
    id: str
    user_scenario: UserScenario
    initial_state: FirstState | None = None
    evaluation_criteria: Criteria | None = None
    user_tools: tuple[str, ...] | None = None

    @property
    def start(self) -> TauStart:
        """How it begins."""
        first, criteria = self.initial_state or FirstState(), self.evaluation_criteria or Criteria()
        data = first.initialization_data
        return TauStart(
            instructions=self.user_scenario.text,
            data=data.agent_data if data else None,
            setup=first.initialization_actions or (),
            assertions=criteria.env_assertions or (),
        )


def why_not(task: Tau2Task) -> str:
    """Why a task cannot be played here; "" = it can."""
    first, criteria = task.initial_state or FirstState(), task.evaluation_criteria or Criteria()
    sides = [one.env_type for one in (*(first.initialization_actions or ()), *(criteria.env_assertions or ()))]
    sides += [one.requestor for one in criteria.actions or ()]
    if "user" in sides or task.user_tools or (first.initialization_data and first.initialization_data.user_data):
        return "its user acts with tools of their own"
    if first.message_history:
        return "it begins in the middle of a talk"
    if "NL_ASSERTION" in criteria.reward_basis and criteria.nl_assertions:
        return "its outcome is for a model to judge (NL_ASSERTION)"
    return ""


class Tau2World(TauWorld):
    """The tools and tables of one domain of a checkout of tau2-bench."""

    type: Literal["tau2"] = "tau2"
    folder: Path
    """The checkout: the folder that holds ``data/tau2`` and ``src/tau2``."""
    domain: str

    def toolkit(self) -> Toolkit:
        return Tau2Toolkit(self.folder, self.domain)


def home_of(folder: Path, domain: str) -> Path:
    """The folder of a domain's data. Raises DataError, and ConfigError for a domain that cannot be played here."""
    if domain in NOT_PLAYED:
        raise ConfigError(f"'{domain}' of tau2 cannot be played: {NOT_PLAYED[domain]}")
    home = folder / "data" / "tau2" / "domains" / domain
    if not (home / "tasks.json").is_file():
        known = sorted(path.parent.name for path in home.parent.glob("*/tasks.json"))
        raise DataError(home, f"is no domain of tau2; there are {', '.join(known) or 'none'}")
    return home


def policy_of(folder: Path, domain: str) -> str:
    """The rules that the agent is told."""
    return text_of(home_of(folder, domain) / "policy.md").strip()


def tasks_of(folder: Path, domain: str) -> dict[str, list[Tau2Task]]:
    """The tasks of each split: test and train, where a file names them, else base. Raises DataError."""
    home = home_of(folder, domain)
    file, splits = home / "tasks.json", home / "split_tasks.json"
    rows = read_json(file)
    if not isinstance(rows, list):
        raise DataError(file, "holds no list of tasks")
    of_split = read_table(splits) if splits.is_file() else {}
    found: dict[str, list[Tau2Task]] = {}
    for number, row in enumerate(rows):
        try:
            task = Tau2Task.model_validate(row)
        except ValidationError as error:
            problem, field = of_row(error)
            raise DataError(file, f"task {number}: {problem}", field=field) from error
        split = next((name for name in ("test", "train") if task.id in _ids(of_split.get(name))), "base")
        found.setdefault(split, []).append(task)
    return found


def _ids(listed: object) -> list[object]:
    return listed if isinstance(listed, list) else []


class _ModelTables:
    """See ``Holder``: the object of a checkout that holds the tables of a domain."""

    def __init__(self, db: BaseModel) -> None:
        self.db = db

    def table(self, name: str) -> object:
        return getattr(self.db, name)

    def put(self, name: str, table: object) -> None:
        setattr(self.db, name, table)

    def plain(self) -> Mapping[str, object]:
        return self.db.model_dump(mode="json")


@cache
def _first(home: Path, model: type[BaseModel]) -> Tables:
    """The first tables of a domain, which all its worlds share."""
    file = next((file for file in (home / "db.json", home / "db.toml") if file.is_file()), home / "db.json")
    data = read_table(file)
    try:
        return Tables(lambda: _ModelTables(model.model_validate(data)))
    except ValidationError as error:
        problem, field = of_row(error)
        raise DataError(file, problem, field=field) from error


class Tau2Toolkit:
    """The tools of a domain of tau2; see ``Toolkit``."""

    ends_with: frozenset[str] = frozenset()
    reads_count = False

    def __init__(self, folder: Path, domain: str) -> None:
        home, name = home_of(folder, domain), f"tau2.domains.{domain}.tools"
        _silence()
        kind = _toolkit_class(imported(folder / "src", name, bare=("tau2",)), name)
        self.tables = _first(home.resolve(), get_type_hints(kind)["db"])
        held = self.tables.make()
        assert isinstance(held, _ModelTables)
        self._held, self._kit, self._touched = held, kind(held.db), False
        self.tools: tuple[Tool, ...] = tuple(
            schema_tool(
                name,
                (about := one.openai_schema["function"])["description"],
                about["parameters"],
                read_only=not self._kit.tool_mutates_state(name),
            )
            for name, one in self._kit.get_tools().items()
        )

    @property
    def holder(self) -> Holder:
        return _ModelTables(self._kit.db) if self._kit.db is not self._held.db else self._held

    def begin(self, start: TauStart, rows: Mapping[Place, object] = MappingProxyType({})) -> None:
        """See ``Toolkit.begin``. Raises ConfigError for tables and calls that the checkout refuses."""
        self._kit.db = self._held.db
        if self._touched or rows:
            self.tables.restore(self._held, rows)
        self._touched = bool(rows or start.setup)
        try:
            if start.data is not None:
                self._kit.update_db(dict(start.data))
            for one in start.setup:
                getattr(self._kit, one.func_name)(**one.arguments)
        except Exception as error:  # third-party code
            raise ConfigError(f"the task's first state cannot be brought about: {error}") from error

    def call(self, name: str, arguments: Mapping[str, object]) -> str:
        self._touched = True
        return _as_text(self._kit.use_tool(name, **arguments))

    def holds(self, assertion: KitCall) -> bool:
        """See ``Toolkit.holds``. One that raises does not hold."""
        try:
            found = getattr(self._kit, assertion.func_name)(**assertion.arguments)
        except Exception:  # for a state of the agent's that the assertion cannot handle
            return False
        return bool(found) == assertion.assert_value


def _silence() -> None:
    """Keep tau2 from printing the rows that its tools read, which it does by the package loguru."""
    try:
        importlib.import_module("loguru").logger.disable("tau2")
    except ImportError:  # the import of the toolkit says so, if it needs the package
        return


def _toolkit_class(module: ModuleType, name: str) -> Any:
    """The one class of tools that a module defines. Raises ConfigError."""
    own = [thing for thing in vars(module).values() if isinstance(thing, type) and thing.__module__ == name]
    kits = [thing for thing in own if hasattr(thing, "use_tool") and "db" in get_type_hints(thing)]
    if len(kits) != 1:
        raise ConfigError(f"'{name}' defines {len(kits)} toolkits with tables; it must be one")
    return kits[0]


def _as_text(result: object) -> str:
    """A result as the agent reads it: text as it is, all else as JSON."""
    return result if isinstance(result, str) else json.dumps(_plain(result), default=str)


def _plain(result: object) -> object:
    if isinstance(result, BaseModel):
        return result.model_dump()
    if isinstance(result, list | tuple):
        return [_plain(item) for item in result]
    if isinstance(result, dict):
        return {key: _plain(item) for key, item in result.items()}
    if isinstance(result, datetime.date):
        return result.isoformat()
    return str(result) if isinstance(result, bool | int | float) else result
