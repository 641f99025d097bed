"""Endless questions about made-up worlds and about linked rows of a database, derived by hash from split and number.

The splits are apart: worlds of ``heldout`` come from other seeds, and their names occur in no training world; of a
database, what one split asks for is no answer in the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from turngate.envs.search.generated.graphs import Graph, Route, routes
from turngate.envs.search.generated.linked_rows import linked_rows
from turngate.envs.search.generated.made_up import MOST_NUMBERED, LinkedDocuments, LinkName, world
from turngate.envs.search.retrieval_facts import bears_answer
from turngate.envs.search.task import SearchTask
from turngate.envs.seeded_random import SeededRandom
from turngate.envs.tasks import split_of
from turngate.envs.word_names import Naming
from turngate.errors import ConfigError, UnknownName
from turngate.rewards.outcome.normal_form import normalize
from turngate.types import JSON, Task

ENV_ID = "turngate/Search-v1"
_WORLDS = 20  # tried for one question
_DRAWS = 50  # of the number of links, in a database


class SearchGenerator:
    """Questions of 1 to ``max_hops`` links. The same settings give equal tasks everywhere.

    ``unanswerable``: share of questions whose answer the documents leave out. Raises ConfigError for settings under
    which no question is found.
    """

    splits: tuple[str, ...] = ("train", "heldout")

    def __init__(
        self,
        *,
        max_hops: int,
        min_hops: int,
        unanswerable: float,
        worlds: int,
        size: int,
        chunk_chars: int,
        naming: Naming = "made",
        links: tuple[LinkName, ...] = (),
    ) -> None:
        if min_hops > max_hops:
            raise ConfigError(f"min_hops is {min_hops} and max_hops {max_hops}; min_hops can be at most max_hops")
        if naming == "words" and size > MOST_NUMBERED:
            raise ConfigError(f'size is {size}; with naming = "words" it can be at most {MOST_NUMBERED}')
        self._hops, self._unanswerable = (min_hops, max_hops), unanswerable
        self._worlds, self._size, self._chunk_chars, self._naming = worlds, size, chunk_chars, naming
        self._links = links

    def size(self, split: str) -> None:
        """Endless. Raises UnknownName."""
        if split not in self.splits:
            raise UnknownName("split", split, self.splits)

    def task(self, split: str, index: int) -> Task:
        """Task ``index`` of ``split``. Raises UnknownName, IndexError, ConfigError."""
        self.size(split)
        if index < 0:
            raise IndexError(f"task number {index} of split '{split}'; numbers start at 0")
        rng = SeededRandom("search-task", split, index)
        answered = rng.uniform() >= self._unanswerable
        hops = rng.whole(*self._hops)
        for _ in range(_WORLDS):
            number = rng.whole(0, self._worlds - 1)
            made = world(split, number, self._size, self._naming, self._links)
            for route in fair_routes(made, rng, hops, answered=answered):
                table: Mapping[str, JSON] = {
                    "type": "generated",
                    "split": split,
                    "world": number,
                    "size": self._size,
                    "naming": self._naming,
                    "links": list(self._links),
                    "chunk_chars": self._chunk_chars,
                }
                return task_of(f"search/{split}/{index}", split, made.graph, route, table)
        raise ConfigError(
            f"found no question of {hops} links in {_WORLDS} worlds of {self._size} documents; raise size, or name "
            "more kinds of links"
        )

    def find(self, task_id: str) -> Task:
        """The task of an id made by ``task``. Raises UnknownName."""
        match task_id.split("/"):
            case ["search", split, index] if split in self.splits and index.isdecimal():
                return self.task(split, int(index))
        raise UnknownName("task", task_id, [f"search/{split}/0" for split in self.splits])


class LinkedGenerator:
    """Questions along the links of one database. Splits by the answer: what training asks for, ``heldout`` never does.

    ``held_out``: one answer in so many is held out; 0 = none. Raises ConfigError for settings under which no question
    is found.
    """

    def __init__(
        self, path: Path, *, max_hops: int, min_hops: int, unanswerable: float, held_out: int, table: Mapping[str, JSON]
    ) -> None:
        if min_hops > max_hops:
            raise ConfigError(f"min_hops is {min_hops} and max_hops {max_hops}; min_hops can be at most max_hops")
        self._path, self._made, self._table = path, linked_rows(path), table
        self._hops, self._unanswerable, self._held_out = (min_hops, max_hops), unanswerable, held_out
        self.splits: tuple[str, ...] = ("train", "heldout") if held_out else ("train",)

    def size(self, split: str) -> None:
        """Endless; in a small database the same questions come again. Raises UnknownName."""
        if split not in self.splits:
            raise UnknownName("split", split, self.splits)

    def task(self, split: str, index: int) -> Task:
        """Task ``index`` of ``split``. Raises UnknownName, IndexError, ConfigError."""
        self.size(split)
        if index < 0:
            raise IndexError(f"task number {index} of split '{split}'; numbers start at 0")
        rng = SeededRandom("linked-task", split, index)
        answered = rng.uniform() >= self._unanswerable
        for _ in range(_DRAWS):
            hops = rng.whole(*self._hops)
            for route in fair_routes(self._made, rng, hops, answered=answered):
                asked = route.answer.name if route.answer else f"{route.documents[-1].id} {route.links[-1]}"
                if split_of(normalize(asked, faithful=True), self._held_out) == split:
                    return task_of(f"linked/{split}/{index}", split, self._made.graph, route, self._table)
        raise ConfigError(
            f"found no fair question of {self._hops[0]} to {self._hops[1]} links for split '{split}' in "
            f"'{self._path}'; its foreign keys and columns give too few"
        )

    def find(self, task_id: str) -> Task:
        """The task of an id made by ``task``. Raises UnknownName."""
        match task_id.split("/"):
            case ["linked", split, index] if split in self.splits and index.isdecimal():
                return self.task(split, int(index))
        raise UnknownName("task", task_id, [f"linked/{split}/0" for split in self.splits])


def fair_routes(made: LinkedDocuments, rng: SeededRandom, hops: int, *, answered: bool) -> Iterator[Route]:
    """The routes of ``graphs.routes`` whose answer no document before the last one on the way mentions."""
    return (route for route in routes(made.graph, rng, hops, answered=answered) if not _told_early(made, route))


def _told_early(made: LinkedDocuments, route: Route) -> bool:
    """Whether a document before the last one on the way mentions the answer."""
    texts = [made.texts[node.id] for node in route.documents[:-1]]
    return route.answer is not None and bears_answer(texts, [route.answer.name])


def task_of(task_id: str, split: str, graph: Graph, route: Route, corpus: Mapping[str, JSON]) -> Task:
    """The task of a route through a graph whose documents are those of ``corpus``."""
    documents = [node.id for node in route.documents]
    return Task(
        id=task_id,
        env_id=ENV_ID,
        prompt=route.wording(graph),
        private=SearchTask(
            corpus=dict(corpus),
            gold=[route.answer.name] if route.answer else [],
            documents=documents,
            path=documents,
            titles=[node.name for node in route.documents],
            links=list(route.links),
        ).private(),
        split=split,
    )
