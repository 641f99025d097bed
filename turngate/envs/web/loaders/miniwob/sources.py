"""Tasks of MiniWoB pages: a page and a seed are a task.

How train and heldout are kept apart:

* A page with many problems: by the task's id, as for other sources. Two seeds hardly ever give the same problem.
* A page with few problems (``FEW``, fewer than 190 among the first 200 seeds, layout ignored): one seed stands for each
  problem, so that no problem is in both splits.
* A page with one problem differs only in its layout or in its hidden parts (``ONE``): both splits ask the same, at
  other places. Nothing else is possible.
* A page with two halves (``pages.TWO_HALVES``): heldout is its other half, with other questions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import ClassVar, Literal

from pydantic import Field

from turngate.envs.tasks import TaskList, TaskSourcePart, split_of
from turngate.envs.web.loaders.miniwob.few_problems import FEW
from turngate.envs.web.loaders.miniwob.known_pages import all_pages, page_of
from turngate.types import Task, derive_seed

ENV_ID = "turngate/Web-v1"
PRIVATE_KEY = "miniwob"
ONE = frozenset(page for page, seeds in FEW.items() if len(seeds) == 1)
"""Pages with one problem only."""


class MiniwobSource(TaskSourcePart):
    """Pages of MiniWoB++, with seeds. Splits: train and, unless nothing is held out, heldout (other problems)."""

    type: Literal["miniwob"] = "miniwob"
    kind: ClassVar[str] = "web tasks"
    pages: tuple[str, ...] | None = None
    """Names of pages, as "click-test"; leave out for all that an oracle plays."""
    seeds: int = Field(50, ge=1)
    """Tasks of each page. A page with fewer problems, such as the fifty names of enter-text, has as many as it has
    problems."""
    held_out: int = Field(5, ge=0)
    """Every n-th task is held out, at least one of each page that has several (5: 20 %); 0 = none."""

    def open(self) -> TaskList:
        """The tasks, one of each page in turn, so that the first tasks of a split are of all pages.

        Raises UnknownName for a page that does not exist, MissingExtra without wheel.
        """
        names = (
            self.pages if self.pages is not None else [name for name, page in all_pages().items() if page.has_oracle]
        )
        pages = [list(tasks_of(name, self.seeds, self.held_out)) for name in dict.fromkeys(names)]
        return TaskList(task for split in ("train", "heldout") for task in _in_turn(pages, split))


def _in_turn(pages: Sequence[Sequence[Task]], split: str) -> Iterator[Task]:
    """The first task of each page, then the second of each, and so on."""
    columns = ([task for task in page if task.split == split] for page in pages)
    return (task for row in zip_longest(*columns) for task in row if task is not None)


def tasks_of(page: str, seeds: int, held_out: int) -> Iterator[Task]:
    """The tasks of a page. Raises UnknownName for a page that does not exist."""
    facts = page_of(page)
    few = FEW.get(page, ())
    numbers: Sequence[int] = few[:seeds] if len(few) > 1 else range(seeds)
    held = set(_held_out(page, numbers, held_out) if len(few) > 1 else ())
    for seed in numbers:
        task_id = f"miniwob/{page}/{seed}"
        split = ("heldout" if seed in held else "train") if len(few) > 1 else split_of(task_id, held_out)
        mode = "test" if facts.two_halves and split == "heldout" else ""
        yield Task(
            id=task_id,
            env_id=ENV_ID,
            prompt="Do what the page asks.",
            private={PRIVATE_KEY: json.dumps([page, seed, mode])},
            split=split,
        )


def _held_out(page: str, seeds: Sequence[int], one_in: int) -> Sequence[int]:
    """Every ``one_in``-th of a few seeds, by hash, and at least one."""
    if not one_in or len(seeds) < 2:
        return ()
    order = sorted(seeds, key=lambda seed: derive_seed("split", f"miniwob/{page}/{seed}"))
    return order[: max(1, len(seeds) // one_in)]
