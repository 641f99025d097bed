"""Endless tasks of a domain: the frame that they share. The requests are made up by the domain's own module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias, TypeVar

import numpy as np

from turngate.envs.tooluse.engine.python_world import rules_of, tools_module
from turngate.envs.tooluse.generated.domains.domain_world import SAY, DomainWorld
from turngate.envs.tooluse.generated.domains.served import ServedGoal
from turngate.envs.tooluse.generated.domains.talk import UserSheet
from turngate.envs.tooluse.loaders.task_rows import ENV_ID
from turngate.envs.tooluse.task import ToolTask
from turngate.errors import UnknownName
from turngate.types import Task, ToolCall, derive_seed

T = TypeVar("T")

FIRST = "ada ben cleo dan eva finn gus hana ivo jan kim lea".split()
LAST = {"train": "ash birch cedar elm fir".split(), "heldout": "maple oak pine rowan yew".split()}
KEPT_ERRANDS = 256
OUTCOMES = ("done", "refused", "handed over")
"""How a conversation ends, in the words of the last message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A user's wish, and its outcome. ``calls``: those after the agent has looked at the matter.

    ``rule``: the one by which it is refused. ``told``: facts that the user has to be told beside the outcome.
    """

    text: str
    outcome: str = "done"
    facts: Mapping[str, str] = field(default_factory=dict)
    calls: tuple[ToolCall, ...] = ()
    rule: str = ""
    told: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """A wish with all that it needs: the tables, the user, and how the user is served.

    ``identity``: topic → what the user says of themselves and of the matter, in the order in which one asks for it.
    ``found``: the calls that find and verify the user and look at the matter. ``early``: the topic that the user of
    level 2 speaks about at once. ``secret``: facts that must never be told. ``words``: as in ``UserSheet``.
    """

    wish: Wish
    state: Mapping[str, object]
    identity: Mapping[str, str]
    found: tuple[ToolCall, ...]
    early: str
    secret: tuple[str, ...] = ()
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def facts(self) -> Mapping[str, str]:
        """All that the user can be asked for."""
        return {**self.identity, **self.wish.facts}

    def opening_topics(self, level: int) -> tuple[str, ...]:
        """The topics that the user speaks about at once. 1: all; 2: one; 3: none."""
        return {1: tuple(self.facts), 2: (self.early,), 3: ()}[level]

    def opening(self, level: int) -> str:
        """The user's first message."""
        return " ".join([self.wish.text, *(self.facts[topic] for topic in self.opening_topics(level))])

    def calls(self, level: int) -> tuple[ToolCall, ...]:
        """The gold calls: a question for each open topic, then what finds the user, then what serves them."""
        open_ = [topic for topic in self.facts if topic not in self.opening_topics(level)]
        questions = (ToolCall(name=SAY.name, arguments={"text": f"What is your {topic}?"}) for topic in open_)
        return (*questions, *self.found, *self.wish.calls)

    def goal(self, rules: Iterable[str]) -> ServedGoal:
        """The goal."""
        wish = self.wish
        tells = (wish.outcome, *filter(None, (wish.rule,)), *wish.told)
        return ServedGoal(
            answer=" ".join(tells),
            tells=tells,
            never=(*(word for word in (*OUTCOMES, *rules) if word not in tells), f"not {wish.outcome}"),
            secret=self.secret,
        )

    def sheet(self) -> UserSheet:
        """The sheet of the user."""
        words = {topic: self.words[topic] for topic in self.facts if topic in self.words}
        return UserSheet(wish=self.wish.text, facts=self.facts, words=words)


ErrandMaker: TypeAlias = Callable[[str, np.random.Generator], Errand]
"""From split and random numbers to an errand."""


class DomainTasks:
    """Tasks ``NAME/SPLIT/NUMBER`` that ``maker`` makes up, of levels 1 to ``max_level``."""

    splits: tuple[str, ...] = ("train", "heldout")

    def __init__(self, world: DomainWorld, maker: ErrandMaker, *, name: str, max_level: int) -> None:
        self._maker, self._max_level = maker, max_level
        self._name = name if max_level == 3 else f"{name}-{max_level}"
        self._world = world.model_dump(mode="json")
        self._rules = rules_of(tools_module(world.module))

    def size(self, split: str) -> None:
        """None: there is no end of tasks. Raises UnknownName."""
        if split not in self.splits:
            raise UnknownName("split", split, self.splits)

    def task(self, split: str, index: int) -> Task:
        """Task ``index`` of a split."""
        self.size(split)
        return self._asked(split, index, *_drawn(self._maker, self._max_level, self._name, split, index))

    def _asked(self, split: str, index: int, level: int, errand: Errand) -> Task:
        asked = ToolTask(
            world=self._world,
            state={**deepcopy(errand.state), "user": errand.sheet().model_dump(mode="json")},
            calls=errand.calls(level),
            goals=(errand.goal(self._rules),),
        )
        id_ = f"{self._name}/{split}/{index}"
        prompt = self._prompt(errand.opening(level))
        return Task(id=id_, env_id=ENV_ID, prompt=prompt, private=asked.private(), split=split)

    def find(self, task_id: str) -> Task:
        """The task of an id made by ``task``."""
        name, _, place = task_id.partition("/")
        split, _, index = place.partition("/")
        if name == self._name and split in self.splits and index.isdecimal():
            found = _remembered(self._maker, self._max_level, self._name, split, int(index))
            return self._asked(split, int(index), *found)
        raise UnknownName("task", task_id, [f"{self._name}/{split}/0" for split in self.splits])

    def _prompt(self, opening: str) -> str:
        rules = "\n".join(f"- {rule}: {text}" for rule, text in self._rules.items())
        return (
            f"Serve a user by these rules:\n{rules}\nAsk with say. End with answer: done, refused and the rule's "
            f'name, or handed over; and with what the user asked for.\nThe user says: "{opening}"'
        )


def _drawn(maker: ErrandMaker, max_level: int, name: str, split: str, index: int) -> tuple[int, Errand]:
    """The level of a task and its errand, whose tables must not be changed."""
    rng = np.random.default_rng(derive_seed(name, split, index))
    return 1 + int(rng.integers(max_level)), maker(split, rng)


_remembered = lru_cache(maxsize=KEPT_ERRANDS)(_drawn)
"""For a task that is found by its id, as each reset does: drawing a number of a million is slow."""


def full_names(split: str, rng: np.random.Generator, count: int) -> list[str]:
    """Different ones of the people of a split."""
    return some(rng, people_of(split), count)


def people_of(split: str) -> list[str]:
    """The names of all people of a split. No family has members in two splits."""
    return [f"{first} {last}" for first in FIRST for last in LAST[split]]


def pick(rng: np.random.Generator, items: Sequence[T]) -> T:
    """One of ``items``."""
    return items[int(rng.integers(len(items)))]


def some(rng: np.random.Generator, items: Sequence[T], count: int) -> list[T]:
    """``count`` different ones of ``items``."""
    return [items[int(place)] for place in rng.permutation(len(items))[:count]]
