"""Endless SQL tasks, derived by hash from split and number.

The splits are apart in two ways: their databases come from different seed paths, and every question text belongs,
by its own hash, either to training or to the held-out split. ``newfamily`` shows databases of families that the other
splits never use.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from turngate.envs.seeded_random import SeededRandom
from turngate.envs.sql.generated.content import BuiltDatabase, build
from turngate.envs.sql.generated.families import FAMILIES, HELD_OUT
from turngate.envs.sql.generated.questions import Misfit, Pick, QuestionDraft, Shape, flaw, wording
from turngate.envs.sql.generated.shapes import SHAPES
from turngate.envs.sql.task import SqlTask
from turngate.errors import ConfigError, UnknownName
from turngate.types import Task

ENV_ID = "turngate/Sql-v1"
HELD_OUT_SHARE = 4  # one question text in so many is held out

_DRAWS = 60  # of family and shape
_DATABASES = 4  # tried for each draw
_DRAFTS = 16  # tried for each database


class SqlGenerator:
    """Tasks about generated databases. The same settings, those of ``GeneratedSql``, give equal tasks everywhere.

    Raises UnknownName for a family or shape, ConfigError for settings that leave nothing to ask.
    """

    def __init__(
        self,
        *,
        families: Sequence[str] | None,
        held_out_families: Sequence[str] | None,
        shapes: Sequence[str] | None,
        max_level: int,
        databases: int,
        rows: int,
    ) -> None:
        seen, unseen = _divide(families, held_out_families)
        self._families = {"train": seen, "heldout": seen} | ({"newfamily": unseen} if unseen else {})
        self._shapes = _choose(shapes, max_level)
        self._databases, self._rows = databases, rows
        self.splits = tuple(self._families)

    def size(self, split: str) -> None:
        """Endless. Raises UnknownName."""
        if split not in self._families:
            raise UnknownName("split", split, self.splits)

    def task(self, split: str, index: int) -> Task:
        """Task ``index`` of ``split``. Raises UnknownName, IndexError, and ConfigError if nothing can be asked."""
        self.size(split)
        if index < 0:
            raise IndexError(f"task number {index} of split '{split}'; numbers start at 0")
        for draw in range(_DRAWS):
            rng = SeededRandom("sql-task", split, index, draw)
            family = FAMILIES[rng.pick(self._families[split])]
            fitting = [shape for shape in self._shapes if shape.fits(family)]
            if not fitting:
                continue
            shape = rng.pick(fitting)
            for _ in range(_DATABASES):
                database = build(family.name, split, rng.whole(0, self._databases - 1), self._rows)
                for _ in range(_DRAFTS):
                    if asked := _ask(shape, Pick(rng=rng, database=database), split):
                        return _task(f"sql/{split}/{index}", split, database, shape, *asked)
        raise ConfigError(
            f"found no question for task {index} of split '{split}' with shapes {[s.name for s in self._shapes][:5]} "
            f"and {self._rows} rows; allow more shapes or families, or other rows"
        )

    def find(self, task_id: str) -> Task:
        """The task of an id made by ``task``. Raises UnknownName."""
        match task_id.split("/"):
            case ["sql", split, index] if split in self.splits and index.isdecimal():
                return self.task(split, int(index))
        raise UnknownName("task", task_id, [f"sql/{split}/0" for split in self.splits])


def held_out(question: str) -> bool:
    """Whether a question text belongs to the held-out split and never to training."""
    return hashlib.blake2b(question.encode(), digest_size=4).digest()[0] % HELD_OUT_SHARE == 0


def _ask(shape: Shape, pick: Pick, split: str) -> tuple[str, QuestionDraft] | None:
    """A question text and its draft, or None if these choices give no fair question of this split."""
    try:
        draft = shape.build(pick)
    except Misfit:
        return None
    question = wording(pick.rng.pick(shape.templates), draft.words)
    if split != "newfamily" and held_out(question) != (split == "heldout"):
        return None
    return None if flaw(draft, pick.database) else (question, draft)


def _task(task_id: str, split: str, database: BuiltDatabase, shape: Shape, question: str, draft: QuestionDraft) -> Task:
    return Task(
        id=task_id,
        env_id=ENV_ID,
        prompt=question,
        private=SqlTask(
            database=database.image,
            key=database.key,
            gold=draft.query.sql,
            ordered=draft.query.ordered,
            tables=draft.query.tables,
            shape=shape.name,
            family=database.family.name,
            level=shape.level,
        ).private(),
        split=split,
    )


def _divide(families: Sequence[str] | None, held_out_families: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Families of train and heldout, and those of newfamily."""
    for name in (*(families or ()), *(held_out_families or ())):
        if name not in FAMILIES:
            raise UnknownName("family", name, FAMILIES)
    unseen = [name for name in HELD_OUT if name not in (families or ())]
    if held_out_families is not None:
        unseen = _unique(held_out_families)
    seen = [name for name in FAMILIES if name not in unseen] if families is None else _unique(families)
    if both := [name for name in seen if name in unseen]:
        raise ConfigError(f"families {both} are both used and held out; take them from one of the two lists")
    if not seen:
        raise ConfigError("no family is left for train and heldout; name at least one")
    return seen, unseen


def _choose(shapes: Sequence[str] | None, max_level: int) -> list[Shape]:
    for name in shapes or ():
        if name not in SHAPES:
            raise UnknownName("shape", name, SHAPES)
    names = list(SHAPES) if shapes is None else _unique(shapes)
    chosen = [SHAPES[name] for name in names if SHAPES[name].level <= max_level]
    if not chosen:
        raise ConfigError(f"none of the shapes {names} has a level of at most {max_level}; raise max_level")
    return chosen


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
