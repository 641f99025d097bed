"""Endless errands at the desk of a small library: who brings a book back, borrows one or asks something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from turngate.envs.tooluse.engine.goals import AnswerGoal, Goal, StateGoal
from turngate.envs.tooluse.generated.lending import MOST_LOANS
from turngate.envs.tooluse.loaders.task_rows import ENV_ID
from turngate.envs.tooluse.task import ToolTask
from turngate.errors import UnknownName
from turngate.types import Action, Task, ToolCall, derive_seed

T = TypeVar("T")

FIRST = "Ada Ben Cleo Dan Eva Finn Gus Hana Ivo Jan Kim Lea".split()
LAST = {"train": "Ash Birch Cedar Elm Fir".split(), "heldout": "Maple Oak Pine Rowan Yew".split()}
KINDS = "Atlas Diary Garden History Letters Maps Songs Tales".split()
THINGS = {
    "train": "Rivers Storms Bees Clocks Islands".split(),
    "heldout": "Deserts Bridges Owls Lamps Harbours".split(),
}
N_MEMBERS, N_BOOKS, N_LOANS = 4, 8, 4
WORLD = {"type": "python", "module": "turngate.envs.tooluse.generated.lending"}


class LendingTasks:
    """See the module. A task of level 1 gives ids, from level 3 on names and titles have to be looked up."""

    splits: tuple[str, ...] = ("train", "heldout")

    def __init__(self, max_level: int = 3) -> None:
        self.max_level = max_level

    def size(self, split: str) -> None:
        """None: there is no end of tasks. Raises UnknownName."""
        if split not in self.splits:
            raise UnknownName("split", split, self.splits)

    def task(self, split: str, index: int) -> Task:
        """Task ``index``: a library, and an errand in it."""
        self.size(split)
        rng = np.random.default_rng(derive_seed("lending", split, index))
        level = 1 + int(rng.integers(self.max_level))
        desk = _Desk(split, rng)
        errands = (
            [desk.loan_errand, desk.return_errand]
            if level == 2
            else [_pick(rng, [desk.loan_errand, desk.return_errand, desk.question_errand])]
        )
        done = [errand(by_name=level == 3) for errand in errands]
        goals: list[Goal] = [goal for _, _, goal in done if goal is not None]
        asked = ToolTask(
            world=WORLD,
            state=desk.state,
            calls=tuple(call for _, calls, _ in done for call in calls),
            goals=tuple(goals) or (StateGoal(),),
        )
        prompt = " ".join(said for said, _, _ in done)
        name = f"lending-{self.max_level}" if self.max_level < 3 else "lending"
        task_id = f"{name}/{split}/{index}"
        return Task(id=task_id, env_id=ENV_ID, prompt=prompt, private=asked.private(), split=split)

    def achieved(self, task: Task, actions: Sequence[Action]) -> Task | None:
        """The errands whose end is the one of these actions, given by ids; None where nothing was lent or taken back
        in the end."""
        asked = ToolTask.of(task)
        state: Any = asked.state
        before: dict[str, str] = dict(state["loans"])
        after, members = dict(before), state["members"]
        for call in (call for action in actions for call in action.calls):
            _do(call, after, books=state["books"], members=members)
        moved = sorted(book for book in {*before, *after} if before.get(book) != after.get(book))
        back = [book for book in moved if book in before]
        out = [book for book in moved if book in after]
        if not moved:
            return None
        said = [f"Take back {book}." for book in back] + [f"Lend {book} to {after[book]}." for book in out]
        calls = [ToolCall(name="take_back", arguments={"book": book}) for book in back]
        calls += [ToolCall(name="lend", arguments={"book": book, "member": after[book]}) for book in out]
        private = replace(asked, calls=tuple(calls), goals=(StateGoal(),)).private()
        return replace(task, id=f"{task.id}/achieved", prompt=" ".join(said), private=private, hints=())

    def find(self, task_id: str) -> Task:
        """The task of an id made by ``task``."""
        name, _, place = task_id.partition("/")
        split, _, index = place.partition("/")
        if name.startswith("lending") and split in self.splits and index.isdigit():
            found = self.task(split, int(index))
            if found.id == task_id:
                return found
        raise UnknownName("task", task_id, [self.task(split, 0).id for split in self.splits])


class _Desk:
    """A library in its first state, and errands that fit it."""

    def __init__(self, split: str, rng: np.random.Generator) -> None:
        names = [f"{first} {last}" for first in FIRST for last in LAST[split]]
        titles = [f"{kind} of {thing}" for kind in KINDS for thing in THINGS[split]]
        members = {f"M{number}": name for number, name in enumerate(_some(rng, names, N_MEMBERS), 1)}
        books = {f"B{number}": title for number, title in enumerate(_some(rng, titles, N_BOOKS), 1)}
        out = sorted(_some(rng, list(books), N_LOANS))
        loans: dict[str, str] = {}
        for book in out:
            free = [one for one in members if list(loans.values()).count(one) < MOST_LOANS - 1]
            loans[book] = _pick(rng, free)
        self.state = {"members": members, "books": books, "loans": loans}
        self._rng, self._members, self._books, self._loans = rng, members, books, loans

    def loan_errand(self, *, by_name: bool) -> tuple[str, list[ToolCall], Goal | None]:
        """A member borrows an available book."""
        book = _pick(self._rng, [one for one in self._books if one not in self._loans])
        member = _pick(self._rng, list(self._members))
        looked = [*self._look("book", book), *self._look("member", member)] if by_name else []
        said = f"Lend {self._spoken('book', book, by_name)} to {self._spoken('member', member, by_name)}."
        return said, [*looked, ToolCall(name="lend", arguments={"book": book, "member": member})], None

    def return_errand(self, *, by_name: bool) -> tuple[str, list[ToolCall], Goal | None]:
        """A member brings a book back."""
        book = _pick(self._rng, list(self._loans))
        looked = self._look("book", book) if by_name else []
        said = f"Take back {self._spoken('book', book, by_name)}."
        return said, [*looked, ToolCall(name="take_back", arguments={"book": book})], None

    def question_errand(self, *, by_name: bool) -> tuple[str, list[ToolCall], Goal | None]:
        """A question which books a member has."""
        member = _pick(self._rng, sorted(set(self._loans.values())))
        looked = self._look("member", member) if by_name else []
        said = f"Answer the ids of the books that {self._spoken('member', member, by_name)} has."
        books = ", ".join(book for book, holder in self._loans.items() if holder == member)
        calls = [*looked, ToolCall(name="list_loans", arguments={"member": member})]
        return said, calls, AnswerGoal(answer=books, match="list")

    def _look(self, what: str, key: str) -> list[ToolCall]:
        if what == "book":
            return [ToolCall(name="find_book", arguments={"title": self._books[key]})]
        return [ToolCall(name="find_member", arguments={"name": self._members[key]})]

    def _spoken(self, what: str, key: str, by_name: bool) -> str:
        return (self._books if what == "book" else self._members)[key] if by_name else key


def _do(call: ToolCall, loans: dict[str, str], *, books: Mapping[str, str], members: Mapping[str, str]) -> None:
    """The changes of a call, as ``lending`` makes them; none where it is refused."""
    book, member = call.arguments.get("book"), call.arguments.get("member")
    if call.name == "take_back":
        loans.pop(str(book), None)
    able = book in books and member in members and book not in loans
    if call.name == "lend" and able and list(loans.values()).count(str(member)) < MOST_LOANS:
        loans[str(book)] = str(member)


def _pick(rng: np.random.Generator, items: Sequence[T]) -> T:
    return items[int(rng.integers(len(items)))]


def _some(rng: np.random.Generator, items: Sequence[str], count: int) -> list[str]:
    return [items[int(place)] for place in rng.permutation(len(items))[:count]]
