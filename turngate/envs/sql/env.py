"""``turngate/Sql-v1``: answer a question about a database by exploring it and submitting one query.

The agent looks at the schema, tries queries and submits one; the episode is won when the rows of that query equal those
of a hidden gold query. The database is a private, read-only copy, and the gold query runs on another copy that the
agent never touches, so no action of the agent can change the rows that its answer is compared with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from turngate.envs.base import ANSWER_CHARS, Outcome, TurnSpec
from turngate.envs.cache import Cache
from turngate.envs.sql.engine.compare import same_result
from turngate.envs.sql.engine.database import DEADLINE_S, Database, QueryResult, Row
from turngate.envs.sql.engine.gold_query import gold_rows
from turngate.envs.sql.engine.looked_up import Wanted, looked_up, needed_lookups
from turngate.envs.sql.engine.schema import Schema
from turngate.envs.sql.engine.skeleton import normalised, skeleton
from turngate.envs.sql.engine.text import clip, result_text, row_lines
from turngate.envs.sql.engine.ties import split
from turngate.envs.sql.facts import EVIDENCE, recorded_rows
from turngate.envs.sql.generated.lookup_oracle import looking_turns
from turngate.envs.sql.hints import LEVELS, sql_hint
from turngate.envs.sql.rubric import RUBRIC
from turngate.envs.sql.sources import GeneratedSql, SqlSource
from turngate.envs.sql.task import SqlTask
from turngate.envs.tasks import TasksLike, TaskSource, TaskSourcePart
from turngate.envs.tool_env import ToolEnv, ToolError
from turngate.errors import AgentFault, ConfigError, VerifierError
from turngate.tools.tool import tool
from turngate.types import JSON, Action, Evidence, Task, storable

GOAL = "Answer the question with a SQL query. One tool per turn"
COMMANDS = ": list_tables | describe TABLE | run_sql SQL | submit [SQL], default: your last query"


@dataclass(frozen=True, slots=True)
class Gold:
    """The rows of a gold query. ``ranks``: those of its ORDER BY, where rows tie; None: no two rows do."""

    rows: list[Row]
    ranks: list[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlState:
    """The state of an episode at one moment; for forks. The database is not in it, because it never changes."""

    task: Task
    turn: int
    shown: str
    described: frozenset[str]
    ran: frozenset[str]
    last: tuple[str, QueryResult, str] | None
    answer: tuple[str, QueryResult] | None
    gold: Gold | VerifierError | None
    wanted: tuple[Wanted, ...] | None


_golds: Cache[tuple[str, str], Gold] = Cache(room=1_000_000)  # weighed in cells


class SqlEnv(ToolEnv):
    """Questions about SQLite databases. Observations are plain text within ``max_rows`` rows and ``max_chars``.

    ``tasks``: see ``sources.py``; generated questions unless others are named. ``deadline_s`` bounds every query.
    Raises ConfigError for a setting that is out of range, and what ``TurnEnv`` raises.
    """

    turn_spec = TurnSpec(
        rubric=RUBRIC,
        max_turns=12,
        tasks=GeneratedSql(),
        deadline_s=DEADLINE_S,
        any_thread=True,
        fork="exact",
        side_effects="none",
        has_oracle=True,
        hint_levels=LEVELS,
        evidence=EVIDENCE,
    )
    common_facts = ("tool", "action_key")
    answers = ("gold query",)

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
        self._asked: SqlTask | None = None
        self._described: set[str] = set()
        self._ran: set[str] = set()
        self._last: tuple[str, QueryResult, str] | None = (
            None  # the last query that ran: its text, result and rendering
        )
        self._answer: tuple[str, QueryResult] | None = None
        self._gold: Gold | VerifierError | None = None
        self._wanted: tuple[Wanted, ...] | None = None  # the look-ups that the task needs; None: not read yet

    def open_tasks(self, part: TaskSourcePart) -> TaskSource:
        """Gold queries are bound like those of the agent."""
        return part.open(self._database.deadline_s) if isinstance(part, SqlSource) else part.open()

    def begin(self, task: Task) -> str:
        """Put a fresh copy of the task's database in place and ask the question."""
        self._asked = asked = SqlTask.of(task)
        self._database.load(asked.database, key=asked.key)
        self._database.schema()
        self._gold = self._gold_of(asked)
        self._described, self._ran = set(), set()
        self._last = self._answer = self._wanted = None
        return f"{GOAL}{'' if self.tool_format else COMMANDS}.\nQuestion: {task.prompt}"

    def act(self, action: Action) -> Outcome:
        """Carry out one tool call, and record what the agent wrote."""
        try:
            outcome = super().act(action)
        except MemoryError as error:
            raise AgentFault("a query needs more memory than there is") from error
        written = "" if action.cut_off else storable(action.text, ANSWER_CHARS)
        reply = Evidence(name="reply", value=written, turn=self.turn)
        return Outcome(observation=outcome.observation, evidence=(*outcome.evidence, reply), done=outcome.done)

    def state(self) -> str:
        """Database, tables seen, last result and last text."""
        last = self._last[2] if self._last else ""
        return "\x1f".join((self._database.key, *sorted(self._described), last, self.shown))

    def present(self, text: str) -> str:
        """Within ``max_chars``."""
        return clip(text, self._max_chars)

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
        yield Evidence(name="gold_query", value=self._present().gold, by="verifier")
        yield Evidence(name="rows", value=self._rows(), by="verifier")
        yield Evidence(name="gold_rows", value=recorded_rows(gold.rows), by="verifier")
        yield Evidence(name="ordered", value=self._ordered(), by="verifier")

    def answer(self) -> str | None:
        """The query that was submitted."""
        return None if self._answer is None else self._answer[0]

    def oracle(self, task: Task) -> Sequence[str]:
        """Look at the tables of the gold query, run it, submit it; where literals are hidden, look them up first."""
        asked = SqlTask.of(task)
        if asked.needs:
            return looking_turns(asked)
        looks = [f"describe {table}" for table in asked.tables]
        return ["list_tables", *looks, f"run_sql {asked.gold}", "submit"]

    def hint(self, task: Task, level: int) -> str | None:
        """1: tables; 2: how they are joined, and what has to be looked up; 3: clauses; 4: the query with a hole."""
        return sql_hint(task, level)

    def marks(self, task: Task) -> Mapping[str, str]:
        """The gold query, its skeleton (literals masked) and the database."""
        asked = SqlTask.of(task)
        return {"gold query": normalised(asked.gold), "query skeleton": skeleton(asked.gold), "database": asked.key}

    def save(self) -> SqlState:
        return SqlState(
            task=self.task,
            turn=self.turn,
            shown=self.shown,
            described=frozenset(self._described),
            ran=frozenset(self._ran),
            last=self._last,
            answer=self._answer,
            gold=self._gold,
            wanted=self._wanted,
        )

    def load(self, saved: object) -> None:
        """See ``TurnEnv.load``. The database is a fresh copy of the task's, unless a copy of it is here already."""
        assert isinstance(saved, SqlState)
        self._asked = asked = SqlTask.of(saved.task)
        if self._database.key != asked.key:
            self._database.load(asked.database, key=asked.key)
        self.turn, self.shown = saved.turn, saved.shown
        self._described, self._ran = set(saved.described), set(saved.ran)
        self._last, self._answer = saved.last, saved.answer
        self._gold, self._wanted = saved.gold, saved.wanted

    def close(self) -> None:
        """Release the database."""
        self._database.close()
        super().close()

    # --- tools --------------------------------------------------------------------------------------------------------

    @tool
    def list_tables(self) -> str:
        """List the tables and their numbers of rows."""
        return self._schema().listing

    @tool
    def describe(self, table: str) -> str:
        """Show the columns of a table."""
        schema = self._schema()
        found = schema.find(table.strip())
        if found is None:
            raise ToolError(
                f"no table '{table.strip()[:40]}'; tables: {', '.join(one.name for one in schema.tables.values())}"
            )
        self._described.add(found.name)
        return found.text

    @tool
    def run_sql(self, sql: str) -> str:
        """Run one SELECT and see the first rows."""
        result = self._query(sql.strip())
        text = result_text(result, max_rows=self._max_rows, max_chars=self._max_chars)
        if not result.error:
            self._last = sql.strip(), result, text
        if self._present().needs:
            self.record("looked_up", self._looked_up(sql, result))
        return text

    @tool
    def submit(self, sql: str = "") -> str:
        """Answer with a query, or with the last one that ran. Ends the episode."""
        if sql.strip():
            self._answer = sql.strip(), self._query(sql.strip())
        elif self._last is not None:
            self._answer = self._last[:2]
        else:
            raise ToolError("no query has run without error yet; run one or write: submit SQL")
        self.end()
        error = self._answer[1].error
        return f"submitted; error: {error}" if error else "submitted"

    def _schema(self) -> Schema:
        schema = self._database.schema()
        if schema.error:
            raise ToolError(schema.error)
        return schema

    def _query(self, sql: str) -> QueryResult:
        result = self._database.run(sql)
        text = " ".join(sql.split())
        self.record("executes", not result.error)
        self.record("repeated", text in self._ran)
        self._ran.add(text)
        if not result.error:
            self.record("empty", not result.rows)
        if result.refused:
            self.record("write_attempt", True)
        if result.timed_out:
            self.record("timed_out", True)
        return result

    def _looked_up(self, sql: str, result: QueryResult) -> bool:
        if self._wanted is None:
            asked, deadline_s = self._present(), self._database.deadline_s
            self._wanted = needed_lookups(asked.needs, asked.database, key=asked.key, deadline_s=deadline_s)
        n_shown = 0 if result.error else len(row_lines(result, max_rows=self._max_rows, max_chars=self._max_chars))
        return looked_up(self._wanted, sql, result, n_shown, self._database)

    # --- the outcome --------------------------------------------------------------------------------------------------

    def _present(self) -> SqlTask:
        assert self._asked is not None, "no episode has begun"
        return self._asked

    def _gold_of(self, asked: SqlTask) -> Gold | VerifierError:
        """The rows that the answer is compared with, read before the agent acts, so that it cannot interfere."""
        sql = asked.ranked or asked.gold
        key = (asked.key, sql)
        gold = _golds.get(key)
        if gold is None:
            try:
                rows = gold_rows(asked.database, sql, key=asked.key, deadline_s=self._database.deadline_s)
            except VerifierError as error:
                return error
            gold = Gold(*split(rows)) if asked.ranked else Gold(rows=rows)
            _golds.put(key, gold, weight=len(rows) * len(rows[0]))
        return gold

    def _matches(self, sql: str, result: QueryResult, gold: Gold) -> bool:
        if result.error or result.count not in (None, len(gold.rows)):
            return False
        if not result.complete:
            result = self._database.run(sql, keep=len(gold.rows) + 1, count=False)
        return result.complete and same_result(result.rows, gold.rows, ordered=self._ordered(), ranks=gold.ranks)

    def _rows(self) -> JSON:
        """The rows of the answer, for the record: False where there are none, None where they are too many."""
        if self._answer is None or self._answer[1].error:
            return False
        return recorded_rows(self._answer[1].rows) if self._answer[1].complete else None

    def _ordered(self) -> bool:
        return self._present().ordered
