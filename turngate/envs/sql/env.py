"""``turngate/Sql-v1``: answer a question about a database by exploring it and submitting one query.

The agent looks at the schema, tries queries and submits one; the episode is won when the rows of that query equal
those of a hidden gold query. The database is a private, read-only copy, and the gold query runs on another copy that
the agent never touches, so nothing that an agent does can change what its answer is compared with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from turngate.envs.base import Outcome, TurnEnv, TurnSpec
from turngate.envs.cache import Cache
from turngate.envs.sql.compare import same_result
from turngate.envs.sql.database import Database, Result, Row
from turngate.envs.sql.rubric import RUBRIC
from turngate.envs.sql.sources import DEADLINE_S, GeneratedSql, SqlSource
from turngate.envs.sql.text import clip, result_text
from turngate.envs.sql.ties import split
from turngate.envs.tasks import TasksLike, TaskSource, TaskSourcePart
from turngate.envs.tools import Parameter, Tool, one_call
from turngate.errors import AgentFault, ConfigError, VerifierError
from turngate.types import Action, Evidence, Observation, Task

TOOLS = (
    Tool(name="list_tables", description="List the tables and their numbers of rows."),
    Tool(name="describe", description="Show the columns of a table.", parameters=(Parameter(name="table"),)),
    Tool(name="run_sql", description="Run one SELECT and see the first rows.", parameters=(Parameter(name="sql"),)),
    Tool(
        name="submit",
        description="Answer with a query, or with the last one that ran. Ends the episode.",
        parameters=(Parameter(name="sql", required=False),),
    ),
)
INSTRUCTION = (
    "Answer the question with a SQL query. One tool per turn: "
    "list_tables | describe TABLE | run_sql SQL | submit [SQL], default: your last query."
)
GOLD_ROWS = 100_000  # a larger gold result cannot be compared


@dataclass(frozen=True, slots=True)
class Gold:
    """The rows of a gold query. ``ranks``: those of its ORDER BY, where rows tie; None: no two rows do."""

    rows: list[Row]
    ranks: list[int] | None = None


_golds: Cache[tuple[str, str], Gold] = Cache(room=1_000_000)  # weighed in cells


class SqlEnv(TurnEnv):
    """Questions about SQLite databases. Observations are plain text within ``max_rows`` rows and ``max_chars``.

    ``tasks``: see ``sources.py``; generated questions unless others are named. ``deadline_s`` bounds every query.
    Raises ConfigError for a setting that is out of range, and what ``TurnEnv`` raises.
    """

    turn_spec = TurnSpec(
        tools=TOOLS,
        rubric=RUBRIC,
        max_turns=12,
        tasks=GeneratedSql(),
        deadline_s=DEADLINE_S,
        fork="replay",
        side_effects="none",
        has_oracle=True,
    )

    def __init__(
        self,
        *,
        tasks: TasksLike = None,
        split: str | None = None,
        max_turns: int | None = None,
        deadline_s: float = DEADLINE_S,
        max_rows: int = 10,
        max_chars: int = 600,
    ) -> None:
        for name, value, least in (
            ("deadline_s", deadline_s, 0.01),
            ("max_rows", max_rows, 1),
            ("max_chars", max_chars, 80),
        ):
            if value < least:
                raise ConfigError(f"{name} is {value}; it must be at least {least}")
        self._database = Database(deadline_s=deadline_s)
        super().__init__(tasks=tasks, split=split, max_turns=max_turns)
        self._max_rows, self._max_chars = max_rows, max_chars
        self._handlers: Mapping[str, Callable[[str], Outcome]] = {
            "list_tables": self._list_tables,
            "describe": self._describe,
            "run_sql": self._run_sql,
            "submit": self._submit,
        }
        self._task: Task | None = None
        self._turn = 0
        self._described: set[str] = set()
        self._ran: set[str] = set()
        self._last: tuple[str, Result, str] | None = None  # the last query that ran: its text, result and rendering
        self._answer: tuple[str, Result] | None = None
        self._gold: Gold | VerifierError | None = None

    def open_tasks(self, part: TaskSourcePart) -> TaskSource:
        """Gold queries are bound like those of the agent."""
        return part.open(self._database.deadline_s) if isinstance(part, SqlSource) else part.open()

    def start(self, task: Task, rng: np.random.Generator) -> Observation:
        """Put a fresh copy of the task's database in place and ask the question."""
        self._database.load(task.private["database"], key=task.private["key"])
        self._database.schema()
        self._gold = self._gold_of(task.private)
        self._task, self._turn = task, -1
        self._described, self._ran = set(), set()
        self._last = self._answer = None
        return self._observe(f"{INSTRUCTION}\nQuestion: {task.prompt}", shown="")

    def act(self, action: Action) -> Outcome:
        """Carry out one tool call."""
        self._turn += 1
        call = one_call(action, TOOLS)
        if isinstance(call, str):
            return self._misread(call)
        argument = next((str(value) for value in call.arguments.values()), "").strip()
        try:
            return self._handlers[call.name](argument)
        except MemoryError as error:
            raise AgentFault(f"{call.name} needs more memory than there is") from error

    def verify(self) -> Iterable[Evidence]:
        """Compare the rows of the submitted query with those of the gold query."""
        gold = self._gold
        if isinstance(gold, VerifierError):
            raise gold
        assert gold is not None
        try:
            correct = self._answer is not None and self._matches(*self._answer, gold)
        except MemoryError as error:
            raise AgentFault("comparing the answer needs more memory than there is") from error
        yield Evidence(name="submitted", value=self._answer is not None, by="verifier")
        yield Evidence(name="correct", value=correct, by="verifier")

    def answer(self) -> str | None:
        """The query that was submitted."""
        return None if self._answer is None else self._answer[0]

    def oracle(self, task: Task) -> Sequence[str]:
        """Look at the tables of the gold query, run it, submit it."""
        looks = [f"describe {table}" for table in task.private.get("tables", ())]
        return ["list_tables", *looks, f"run_sql {task.private['gold']}", "submit"]

    def close(self) -> None:
        """Give the database back."""
        self._database.close()
        super().close()

    # --- tools --------------------------------------------------------------------------------------------------------

    def _list_tables(self, _argument: str) -> Outcome:
        schema = self._database.schema()
        text = f"error: {schema.error}" if schema.error else schema.listing
        return Outcome(observation=self._observe(text), evidence=self._facts("list_tables"))

    def _describe(self, name: str) -> Outcome:
        schema = self._database.schema()
        table = schema.find(name)
        if table is not None:
            self._described.add(table.name)
            text = table.text
        elif schema.error:
            text = f"error: {schema.error}"
        else:
            text = f"error: no table '{name[:40]}'; tables: {', '.join(table.name for table in schema.tables.values())}"
        return Outcome(observation=self._observe(text), evidence=self._facts("describe"))

    def _run_sql(self, sql: str) -> Outcome:
        result, facts = self._query("run_sql", sql)
        text = result_text(result, max_rows=self._max_rows, max_chars=self._max_chars)
        if not result.error:
            self._last = sql, result, text
        return Outcome(observation=self._observe(text), evidence=facts)

    def _submit(self, sql: str) -> Outcome:
        if not sql:
            facts = self._facts("submit")
            if self._last is None:
                text = "error: no query has run without error yet; run one or write: submit SQL"
                return Outcome(observation=self._observe(text), evidence=facts)
            self._answer = self._last[:2]
            return Outcome(observation=self._observe("submitted"), evidence=facts, done=True)
        result, measured = self._query("submit", sql)
        self._answer = sql, result
        text = f"submitted; error: {result.error}" if result.error else "submitted"
        return Outcome(observation=self._observe(text), evidence=measured, done=True)

    def _query(self, tool: str, sql: str) -> tuple[Result, tuple[Evidence, ...]]:
        result = self._database.run(sql)
        text = " ".join(sql.split())
        facts: list[Evidence] = [
            *self._facts(tool),
            _fact("executes", not result.error, self._turn),
            _fact("repeated", text in self._ran, self._turn),
        ]
        self._ran.add(text)
        if not result.error:
            facts.append(_fact("empty", not result.rows, self._turn))
        if result.refused:
            facts.append(_fact("write_attempt", True, self._turn))
        if result.timed_out:
            facts.append(_fact("timed_out", True, self._turn))
        return result, tuple(facts)

    def _misread(self, problem: str) -> Outcome:
        facts = (_fact("parsed", False, self._turn),)
        return Outcome(observation=self._observe(f"error: {problem}"), evidence=facts)

    def _facts(self, tool: str) -> tuple[Evidence, Evidence]:
        return _fact("parsed", True, self._turn), _fact("tool", tool, self._turn)

    def _observe(self, text: str, shown: str | None = None) -> Observation:
        """The observation, and as its state: database, tables seen, last result and last text (or ``shown``)."""
        text = clip(text, self._max_chars) if shown is None else text
        last = self._last[2] if self._last else ""
        state = "\x1f".join((self._database.key, *sorted(self._described), last, text if shown is None else shown))
        return Observation(
            text=text, state_key=hashlib.blake2b(state.encode(errors="replace"), digest_size=8).hexdigest()
        )

    # --- the outcome --------------------------------------------------------------------------------------------------

    def _gold_of(self, private: Mapping[str, Any]) -> Gold | VerifierError:
        """What the answer is compared with, found before the agent acts: nothing that it does can get in the way."""
        ranked = private.get("ranked")
        sql = private["gold"] if ranked is None else ranked
        key = (private["key"], sql)
        gold = _golds.get(key)
        if gold is None:
            try:
                rows = gold_rows(private["database"], sql, key=private["key"], deadline_s=self._database.deadline_s)
            except VerifierError as error:
                return error
            gold = Gold(rows=rows) if ranked is None else Gold(*split(rows))
            _golds.put(key, gold, weight=len(rows) * len(rows[0]))
        return gold

    def _matches(self, sql: str, result: Result, gold: Gold) -> bool:
        if result.error or result.count not in (None, len(gold.rows)):
            return False
        if not result.complete:
            result = self._database.run(sql, keep=len(gold.rows) + 1, count=False)
        return result.complete and same_result(result.rows, gold.rows, ordered=self._ordered(), ranks=gold.ranks)

    def _ordered(self) -> bool:
        return self._task is not None and bool(self._task.private["ordered"])


def gold_rows(source: bytes | str, sql: str, *, key: str, deadline_s: float) -> list[Row]:
    """The rows of a gold query, run on a copy of its own. Raises VerifierError if it fails, is empty or too large."""
    database = Database.open(source, key=key, deadline_s=deadline_s)
    try:
        result = database.run(sql, keep=GOLD_ROWS, count=False)
    finally:
        database.close()
    if result.error:
        raise VerifierError(f"the gold query fails: {result.error}")
    if not result.rows:
        raise VerifierError("the gold query returns no rows, so there is nothing to compare with")
    if not result.complete:
        raise VerifierError(f"the gold query returns more than can be compared ({GOLD_ROWS} rows)")
    return list(result.rows)


@lru_cache(maxsize=4096)
def _fact(name: str, value: bool | str, turn: int) -> Evidence:
    return Evidence(name=name, value=value, turn=turn)
