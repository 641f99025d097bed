"""Real questions about real databases: Spider, BIRD and files of one's own, as tasks of ``turngate/Sql-v1``.

A malformed row is a DataError and nothing is loaded. A row that is well formed but cannot be graded, because its gold
query fails, takes too long, is too large, returns nothing, or something else when rows are stored in another order, is
dropped, counted and listed in ``dropped``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from turngate.envs.sql.engine.compare import is_ordered, same_result
from turngate.envs.sql.engine.database import DEADLINE_S, Database, Row, content_key
from turngate.envs.sql.engine.gold_query import gold_rows
from turngate.envs.sql.engine.ties import ranked, split
from turngate.envs.sql.task import SqlTask
from turngate.envs.tasks import Dropped, TaskList, split_of, warn_of
from turngate.errors import DataError, UnknownName, VerifierError
from turngate.jsonl import read_json, read_rows
from turngate.problems import of_row
from turngate.types import Task

ENV_ID = "turngate/Sql-v1"
_DRAWS = re.compile(r"\brandom(blob)?\s*\(", re.IGNORECASE)
"""Functions whose result differs from call to call, and may be equal twice by chance."""
SPIDER_FILES = {"train": "train_spider.json", "dev": "dev.json"}
BIRD_FILES = {"train": ("train.json", "train_databases"), "dev": ("dev.json", "dev_databases")}


class _QuestionRow(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class _SpiderRow(_QuestionRow):
    db_id: str = Field(min_length=1)
    question: str = Field(min_length=1)
    query: str = Field(min_length=1)


class _BirdRow(_QuestionRow):
    db_id: str = Field(min_length=1)
    question: str = Field(min_length=1)
    sql: str = Field(min_length=1, alias="SQL")
    evidence: str = ""
    question_id: int | None = None


class _OwnRow(_QuestionRow):
    question: str = Field(min_length=1)
    sql: str = Field(min_length=1)
    id: str | None = None
    ordered: bool | None = None


_AnyRow = TypeVar("_AnyRow", bound=_QuestionRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """A row of any source. ``ordered`` None: look at the query."""

    id: str
    text: str
    sql: str
    database: Path
    split: str
    ordered: bool | None = None
    line: int | None = None


def spider(folder: str | Path, split: str = "dev", *, deadline_s: float = DEADLINE_S) -> TaskList:
    """Spider 1.0 as unpacked: ``train_spider.json`` or ``dev.json`` and ``database/DB/DB.sqlite``.

    A gold query that takes longer than ``deadline_s`` is dropped; give the environment the same. Raises UnknownName,
    DataError, and MissingExtra without sqlglot.
    """
    if split not in SPIDER_FILES:
        raise UnknownName("split of Spider", split, SPIDER_FILES)
    path = Path(folder) / SPIDER_FILES[split]
    questions = []
    for number, row in enumerate(_read_list(path, _SpiderRow)):
        file = _database_file(Path(folder) / "database", row.db_id, path, number)
        name = f"spider/{split}/{number}"
        questions.append(_Question(id=name, text=row.question, sql=row.query, database=file, split=split))
    return _load(path, questions, deadline_s)


def bird(folder: str | Path, split: str = "dev", *, deadline_s: float = DEADLINE_S) -> TaskList:
    """BIRD as unpacked: ``dev.json`` and ``dev_databases/DB/DB.sqlite``, the same for train.

    The evidence of a row is part of its question. Raises like ``spider``.
    """
    if split not in BIRD_FILES:
        raise UnknownName("split of BIRD", split, BIRD_FILES)
    name, databases = BIRD_FILES[split]
    path = Path(folder) / name
    questions = []
    for number, row in enumerate(_read_list(path, _BirdRow)):
        file = _database_file(Path(folder) / databases, row.db_id, path, number)
        text = f"{row.question}\nEvidence: {row.evidence}" if row.evidence.strip() else row.question
        label = f"bird/{split}/{number if row.question_id is None else row.question_id}"
        questions.append(_Question(id=label, text=text, sql=row.sql, database=file, split=split))
    return _load(path, questions, deadline_s)


def jsonl(
    database: str | Path, questions: str | Path, *, held_out: int = 0, deadline_s: float = DEADLINE_S
) -> TaskList:
    """Questions about one SQLite file: lines of ``{"question": …, "sql": …}``, optionally with ``id`` and ``ordered``.

    Without ``ordered``, order counts if the query ends in ORDER BY (this needs sqlglot). One in ``held_out`` goes to
    the split "heldout", by its id, the others to "train". Raises like ``spider``.
    """
    path, file = Path(questions), Path(database)
    if not file.is_file():
        raise DataError(file, "there is no such database file")
    asked = []
    for line, row in _read_lines(path):
        name = row.id or f"{path.stem}/{line}"
        split = split_of(name, held_out)
        asked.append(
            _Question(
                id=name, text=row.question, sql=row.sql, database=file, split=split, ordered=row.ordered, line=line
            )
        )
    if not asked:
        raise DataError(path, "holds no questions; write one JSON object a line")
    return _load(path, asked, deadline_s)


# --- files to rows ---------------------------------------------------------------------------------------------------


def _read_list(path: Path, kind: type[_AnyRow]) -> list[_AnyRow]:
    """Rows of a JSON list; a bad one is named by its number in the list, from 0."""
    data = read_json(path)
    if not isinstance(data, list):
        raise DataError(path, "must be a list of questions, [{…}, …]")
    return [_row(kind, item, path, f"record {number}: ", None) for number, item in enumerate(data)]


def _read_lines(path: Path) -> Iterator[tuple[int, _OwnRow]]:
    for line, data in read_rows(path):
        yield line, _row(_OwnRow, data, path, "", line)


def _row(kind: type[_AnyRow], data: Any, path: Path, where: str, line: int | None) -> _AnyRow:
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        problem, field = of_row(error)
        raise DataError(path, where + problem, line=line, field=field) from error


def _database_file(root: Path, name: str, path: Path, number: int) -> Path:
    """``root/NAME/NAME.sqlite``; a name that is a path could lead anywhere, and is refused."""
    if Path(name).name != name or name in (".", ".."):
        raise DataError(path, f"record {number}: '{name}' is not the name of a database", field="db_id")
    file = root / name / f"{name}.sqlite"
    if not file.is_file():
        raise DataError(path, f"record {number}: there is no database file '{file}'", field="db_id")
    return file


# --- rows to tasks ---------------------------------------------------------------------------------------------------


def _load(path: Path, questions: Sequence[_Question], deadline_s: float) -> TaskList:
    """``path``: the file of the questions."""
    if not questions:
        raise DataError(path, "holds no questions")
    seen: dict[str, _Question] = {}
    for question in questions:
        before = seen.setdefault(question.id, question)
        if before is not question:
            earlier = "" if before.line is None else f", first in line {before.line}"
            raise DataError(path, f"the id '{question.id}' is used twice{earlier}", line=question.line, field="id")
    tasks: list[Task] = []
    dropped: list[Dropped] = []
    for item in _tasks(questions, deadline_s):
        (tasks if isinstance(item, Task) else dropped).append(item)  # type: ignore[arg-type]
    warn_of(dropped, len(questions), "questions that cannot be graded")
    return TaskList(tasks, dropped)


def _tasks(questions: Iterable[_Question], deadline_s: float) -> Iterator[Task | Dropped]:
    keys: dict[Path, str] = {}
    for question in questions:
        source = str(question.database)
        key = keys.get(question.database) or keys.setdefault(question.database, content_key(source))
        run = partial(gold_rows, source, key=key, deadline_s=deadline_s)
        try:
            rows = run(question.sql)
            ordered = is_ordered(question.sql) if question.ordered is None else question.ordered
            tied = _ranked_if_tied(question.sql, rows, run, ordered=ordered)
            _refuse_luck(
                question.sql,
                rows,
                run(question.sql, backwards=True),
                ordered=question.ordered is None and ordered and not tied,
            )
        except (VerifierError, ValueError) as error:
            yield Dropped(id=question.id, line=question.line, reason=str(error))
            continue
        database = Database.open(source, key=key, deadline_s=deadline_s)
        tables = database.tables_read(question.sql)
        database.close()
        asked = SqlTask(database=source, key=key, gold=question.sql, ordered=ordered, tables=tables, ranked=tied)
        yield Task(
            id=question.id,
            env_id=ENV_ID,
            prompt=question.text,
            private=asked.private(),
            split=question.split,
        )


def _refuse_luck(sql: str, rows: list[Row], again: list[Row], *, ordered: bool) -> None:
    """Raise ValueError where a gold query gave other rows when it was run once more with rows stored the other way
    round, or, if ``ordered``, the same rows in another order."""
    if _DRAWS.search(sql) or not same_result(again, rows, ordered=False):
        raise ValueError(
            "the gold query gives other rows when it is run once more with rows stored the other way round, so which "
            "are right is a matter of luck; leave random() out, and LIMIT and group_concat without an order"
        )
    if ordered and not same_result(again, rows, ordered=True):
        raise ValueError(
            "the gold query gives its rows in another order when they are stored the other way round; order by more "
            "columns"
        )


def _ranked_if_tied(sql: str, rows: list[Row], run: Callable[[str], list[Row]], *, ordered: bool) -> str:
    """The gold query with the ranks of its rows, if some of them tie in its ORDER BY; "" if none do.

    Raises ValueError where its LIMIT cuts through such rows: which of them are the answer then depends on chance.
    """
    if not ordered and "limit" not in sql.lower():
        return ""
    form = ranked(sql)
    if form is None:
        return ""
    try:
        cut = form.end is not None and form.is_cut(run(form.whole))
        plain, ranks = split(run(form.sql))
    except VerifierError:  # the query runs, its ranked form does not: it is too large or too slow, and order is exact
        return ""
    if cut:
        raise ValueError(
            "the result of the gold query depends on how rows are stored: its LIMIT cuts through rows that tie in "
            "ORDER BY; order by more columns, or leave LIMIT out"
        )
    same = Counter(zip(ranks, plain, strict=True)) == Counter(zip(ranks, rows, strict=False))
    tied = form.orders and len(plain) == len(rows) and same and len(set(ranks)) < len(ranks)
    return form.sql if tied and ordered else ""
