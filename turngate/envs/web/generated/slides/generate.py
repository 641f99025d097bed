"""Endless slides: each a function of the split, its number and the seed, in three levels."""

from __future__ import annotations

from collections.abc import Sequence

from turngate.envs.seeded_random import SeededRandom
from turngate.envs.web.generated.slides.brief import PRIVATE_KEY, SlideBrief
from turngate.envs.web.generated.slides.contents import GROUNDS, NAMES, PLACES, SUBJECTS, Subject
from turngate.errors import UnknownName
from turngate.types import Task

ENV_ID = "turngate/Web-v1"
LEVELS = (1, 2, 3)


class SlideTasks:
    """Tasks ``slides/SPLIT/LEVEL/NUMBER``, with the seed in the name where it is not 0. ``levels`` take turns."""

    splits: tuple[str, ...] = ("train", "heldout")
    tools: tuple[str, ...] = ("write", "answer")
    """The tools of ``turngate/Web-v1`` that there are for such a task."""

    def __init__(self, *, levels: Sequence[int] = LEVELS, seed: int = 0) -> None:
        self._levels, self._seed = tuple(dict.fromkeys(levels)), seed
        self._name = f"slides-{seed}" if seed else "slides"

    def size(self, split: str) -> None:
        """None: there is no end of tasks. Raises UnknownName."""
        if split not in self.splits:
            raise UnknownName("split", split, self.splits)

    def task(self, split: str, index: int) -> Task:
        """Task ``index`` of a split. Raises UnknownName."""
        self.size(split)
        return self._made(split, self._levels[index % len(self._levels)], index)

    def find(self, task_id: str) -> Task:
        """The task of an id made by ``task``. Raises UnknownName."""
        match task_id.split("/"):
            case [self._name, split, level, index] if split in self.splits and index.isdecimal() and level in "123":
                return self._made(split, int(level), int(index))
        raise UnknownName("task", task_id, [f"{self._name}/{split}/1/0" for split in self.splits])

    def _made(self, split: str, level: int, index: int) -> Task:
        brief = made_brief(split, level, SeededRandom("slides", self._seed, split, level, index))
        return Task(
            id=f"{self._name}/{split}/{level}/{index}",
            env_id=ENV_ID,
            prompt=brief.instruction(),
            private={PRIVATE_KEY: brief.model_dump_json()},
            split=split,
        )


def made_brief(split: str, level: int, rng: SeededRandom) -> SlideBrief:
    """A slide of a level. 1: title and three points. 2: four points, a table of two rows and columns, and the title
    the largest. 3: five points, a larger table, and colours."""
    subject, name = rng.pick(SUBJECTS[split]), rng.pick(NAMES[split])

    def filled(text: str) -> str:
        return text.format(
            name=name,
            year=rng.whole(2019, 2031),
            number=f"{rng.whole(1, 98)},{rng.whole(100, 999)}",
            share=rng.whole(3, 97),
            place=rng.pick(PLACES[split]),
        )

    background, title_colour = rng.pick(GROUNDS) if level == 3 else ("", "")
    return SlideBrief(
        title=filled(subject.title),
        facts=tuple(map(filled, rng.sample(subject.facts, level + 2))),
        table=_table(subject, level, rng) if level > 1 else (),
        background=background,
        title_colour=title_colour,
        title_largest=level > 1,
    )


def _table(subject: Subject, level: int, rng: SeededRandom) -> tuple[tuple[str, ...], ...]:
    heads = rng.sample(subject.heads, level)
    rows = rng.sample(subject.rows, 2 * level - 2)
    return ((subject.corner, *heads), *((row, *(str(rng.whole(10, 999)) for _ in heads)) for row in rows))
