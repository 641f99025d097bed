"""Values of ``tasks`` for ``turngate/Sql-v1``: two kinds of generated questions, bundled ones, Spider, BIRD, yours.

Gold queries run when a split is first asked for; those that fail, are slow or return nothing are dropped and counted.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from turngate.envs.sql.engine.database import DEADLINE_S
from turngate.envs.tasks import BadPath, TaskList, TasksBySplit, TaskSource, TaskSourcePart


class SqlSource(TaskSourcePart):
    """A source of questions about databases."""

    kind: ClassVar[str] = "SQL"

    @abstractmethod
    def open(self, deadline_s: float = DEADLINE_S) -> TaskSource:
        """The tasks; a question whose gold query takes longer than ``deadline_s`` is dropped."""


class GeneratedSql(SqlSource):
    """Endless questions about generated databases. Splits: train, heldout (new texts), newfamily (new schemas)."""

    type: Literal["generated_sql"] = "generated_sql"
    families: tuple[str, ...] | None = None
    """Schemas of train and heldout; leave out for all but the held-out ones."""
    held_out_families: tuple[str, ...] | None = None
    """Schemas of newfamily, which the other splits never show."""
    shapes: tuple[str, ...] | None = None
    """Kinds of questions; leave out for all."""
    max_level: int = Field(4, ge=1)
    """Hardest questions: 1 one table, 2 groups and order, 3 joins, 4 nested queries."""
    databases: int = Field(64, ge=1)
    """Different databases of each schema in each split."""
    rows: int = Field(12, ge=8)
    """Rows of a typical table."""

    def open(self, deadline_s: float = DEADLINE_S) -> TaskSource:
        from turngate.envs.sql.generated.generate import SqlGenerator

        return SqlGenerator(**self.settings())


class LookupSql(SqlSource):
    """Endless questions whose literals have to be looked up in generated data. Splits: train, heldout, newfamily."""

    type: Literal["lookup_sql"] = "lookup_sql"
    families: tuple[str, ...] | None = None
    """Families that train and heldout ask about; leave out for all but the two of newfamily."""
    lookups: tuple[str, ...] | None = None
    """Kinds of look-ups: code, date, absence, rate; leave out for all."""
    max_level: int = Field(3, ge=1, le=3)
    """Hardest questions: 1 one look-up, 2 two, 3 three with a join and a date."""
    databases: int = Field(64, ge=1)
    """Different databases of each family in each split."""
    rows: int = Field(40, ge=20)
    """Rows of the table that is asked about."""

    def open(self, deadline_s: float = DEADLINE_S) -> TaskSource:
        from turngate.envs.sql.generated.lookup import LookupGenerator

        return LookupGenerator(**self.settings())


class ReferenceSql(SqlSource):
    """Forty questions, checked by hand, about a real database that ships with Python. Split: reference."""

    type: Literal["reference_sql"] = "reference_sql"

    def open(self, deadline_s: float = DEADLINE_S) -> TaskSource:
        from turngate.envs.sql.loaders.reference import reference_tasks

        return TaskList(reference_tasks())


class Spider(SqlSource):
    """Spider 1.0. Splits: train (train_spider.json) and dev (dev.json), whichever are there."""

    type: Literal["spider"] = "spider"
    folder: Path
    """Where the data set was unpacked."""

    def open(self, deadline_s: float = DEADLINE_S) -> TaskSource:
        from turngate.envs.sql.loaders.question_files import SPIDER_FILES, spider

        folder = self.folder_of("folder")
        return _by_split(folder, SPIDER_FILES, partial(spider, folder, deadline_s=deadline_s))


class Bird(SqlSource):
    """BIRD. Splits: train (train.json) and dev (dev.json), whichever are there; evidence is part of the question."""

    type: Literal["bird"] = "bird"
    folder: Path
    """Where the data set was unpacked."""

    def open(self, deadline_s: float = DEADLINE_S) -> TaskSource:
        from turngate.envs.sql.loaders.question_files import BIRD_FILES, bird

        folder = self.folder_of("folder")
        files = {split: questions for split, (questions, _databases) in BIRD_FILES.items()}
        return _by_split(folder, files, partial(bird, folder, deadline_s=deadline_s))


class Sqlite(SqlSource):
    """Your own questions about one SQLite file. Splits: train and, unless nothing is held out, heldout."""

    type: Literal["sqlite"] = "sqlite"
    database: Path
    """The SQLite file; it is only read."""
    questions: Path
    """JSON lines {"question": …, "sql": …}, optionally with "id" and "ordered"."""
    held_out: int = Field(5, ge=0)
    """Every n-th question is held out, chosen by its id (5: 20 %); 0 = none."""

    def open(self, deadline_s: float = DEADLINE_S) -> TaskSource:
        from turngate.envs.sql.loaders.question_files import jsonl

        database, questions = self.file_of("database"), self.file_of("questions")
        return jsonl(database, questions, held_out=self.held_out, deadline_s=deadline_s)


def _by_split(folder: Path, files: Mapping[str, str], read: Callable[[str], TaskList]) -> TaskSource:
    """Every split whose file of questions is in the folder, read when it is first asked for."""
    found = [split for split, name in files.items() if (folder / name).exists()]
    if not found:
        raise BadPath(f".folder: '{folder}' holds neither {' nor '.join(map(repr, files.values()))}")
    return TasksBySplit({split: partial(read, split) for split in found})
