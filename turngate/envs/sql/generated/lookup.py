"""Endless look-up tasks, derived by hash from split and number.

Training and the other splits are apart in what they ask and in what there is to look up: question texts, gold queries
and rows of look-up tables (a word of an area and its code, a currency and its rate) belong, each by its own hash, to
one side. So no database occurs on both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from turngate.envs.seeded_random import SeededRandom
from turngate.envs.sql.generated.generate import ENV_ID
from turngate.envs.sql.generated.lookup_content import LookupDatabase, build_lookup
from turngate.envs.sql.generated.lookup_questions import LOOKUP_KINDS, LookupKind, LookupQuestion, draft, unfair
from turngate.envs.sql.generated.lookup_words import LOOKUP_FAMILIES, UNSEEN_FAMILIES, held_back
from turngate.envs.sql.task import SqlTask
from turngate.errors import ConfigError, UnknownName
from turngate.types import Task

_DRAWS = 200  # of level and database
_DRAFTS = 40  # tried for each


class LookupGenerator:
    """Look-up tasks. The same settings, those of ``LookupSql``, give equal tasks everywhere.

    Raises UnknownName for a family or kind of look-up, ConfigError for settings that leave nothing to ask.
    """

    def __init__(
        self,
        *,
        families: Sequence[str] | None,
        lookups: Sequence[str] | None,
        max_level: int,
        databases: int,
        rows: int,
    ) -> None:
        default = tuple(name for name in LOOKUP_FAMILIES if name not in UNSEEN_FAMILIES)
        seen = default if families is None else tuple(families)
        if not seen:
            raise ConfigError(f"families is empty; name at least one of {', '.join(LOOKUP_FAMILIES)}")
        for name in seen:
            if name not in LOOKUP_FAMILIES:
                raise UnknownName("family", name, LOOKUP_FAMILIES)
        unseen = tuple(name for name in UNSEEN_FAMILIES if name not in seen)
        self._families = {"train": seen, "heldout": seen} | ({"newfamily": unseen} if unseen else {})
        self._kinds = _kinds(lookups, max_level)
        self._max_level, self._databases, self._rows = max_level, databases, rows
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
        level = SeededRandom("sql-lookup-level", split, index).whole(1, self._max_level)
        for draw in range(_DRAWS):
            rng = SeededRandom("sql-lookup-task", split, index, draw)
            number = rng.whole(0, self._databases - 1)
            database = build_lookup(rng.pick(self._families[split]), split, number, self._rows)
            for _ in range(_DRAFTS):
                question = draft(level, self._kinds, database, rng)
                if question and _belongs(question, split) and not unfair(question, database):
                    return _task(f"lookup/{split}/{index}", split, level, database, question)
        raise ConfigError(
            f"found no question for task {index} of split '{split}' with look-ups {list(self._kinds)}, level {level} "
            f"and {self._rows} rows; allow more look-ups or databases, or other rows"
        )

    def find(self, task_id: str) -> Task:
        """The task of an id made by ``task``. Raises UnknownName."""
        match task_id.split("/"):
            case ["lookup", split, index] if split in self.splits and index.isdecimal():
                return self.task(split, int(index))
        raise UnknownName("task", task_id, [f"lookup/{split}/0" for split in self.splits])


def _belongs(question: LookupQuestion, split: str) -> bool:
    """Whether text and query are of this split; families of newfamily are not asked about elsewhere."""
    if split == "newfamily":
        return True
    kept = split == "heldout"
    if held_back("text", question.text) != kept:
        return False
    return held_back("query", question.gold) == kept


def _task(task_id: str, split: str, level: int, database: LookupDatabase, question: LookupQuestion) -> Task:
    needs = [condition.need for condition in question.looked_up if condition.need]
    family = database.family
    return Task(
        id=task_id,
        env_id=ENV_ID,
        prompt=question.text,
        private=SqlTask(
            database=database.image,
            key=database.key,
            gold=question.gold,
            ordered=False,
            tables=(family.name, family.owners) if level == 3 else (family.name,),
            shape=question.answer,
            family=family.name,
            level=level,
            frame=question.frame,
            needs=tuple(asdict(need) for need in needs),
            near_misses=tuple(sql for _, sql in question.near_misses()),
        ).private(),
        split=split,
    )


def _kinds(lookups: Sequence[str] | None, max_level: int) -> tuple[LookupKind, ...]:
    for name in lookups or ():
        if name not in LOOKUP_KINDS:
            raise UnknownName("look-up", name, LOOKUP_KINDS)
    kinds = tuple(kind for kind in LOOKUP_KINDS if lookups is None or kind in lookups)
    if not kinds:
        raise ConfigError(f"lookups is empty; name at least one of {', '.join(LOOKUP_KINDS)}")
    if max_level == 2 and kinds == ("rate",):
        raise ConfigError(
            "max_level 2 needs two look-ups a question, and 'rate' allows one; add a kind, or lower max_level"
        )
    if max_level == 3 and not {"code", "date"} <= set(kinds):
        raise ConfigError(
            f"max_level 3 asks for codes and dates, and lookups are {list(kinds)}; add them, or lower max_level"
        )
    return kinds
