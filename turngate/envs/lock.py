"""``turngate/Lock-v1``: three dials, three turns, no dependencies. A toy that shows every part of an environment.

Each turn shows the colour of one dial, and the agent must press the key that belongs to the colour, which it has to
learn. The lock opens if all keys were right. A wrong key does not end the episode, so credit per turn matters. A lock
with more dials, ``tasks = {type = "lock", dials = 10}``, is a long task in which most turns of a failure are right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from turngate.envs.base import Outcome, TurnEnv, TurnSpec
from turngate.envs.glossary import meanings
from turngate.envs.tasks import TasksLike, TaskSourcePart
from turngate.errors import ConfigError, UnknownName
from turngate.rewards.gates.whole_kinds import CapProcess, NeedsOutcome
from turngate.rewards.rubric import FromEvidence, Rubric
from turngate.tools.tool import Parameter, Tool
from turngate.types import Action, Evidence, Observation, Task, derive_seed

COLOURS = ("red", "green", "blue", "white")
KEYS = ("a", "b", "c", "d")
N_DIALS = 3

RUBRIC = Rubric(
    rewards=(
        FromEvidence(name="opened", evidence="opened", kind="outcome", weight=1.0, levels=(0, 1)),
        FromEvidence(name="right_key", evidence="right_key", kind="process", weight=0.1, per_turn=True),
    ),
    gates=(NeedsOutcome(at_least=0.5), CapProcess(limit=0.3)),
)


class LockTasks:
    """Endless tasks with random colours. Each colour has the same key in all of them, so that a policy can learn it."""

    splits: tuple[str, ...] = ("train", "heldout")

    def __init__(self, dials: int = N_DIALS) -> None:
        self.dials = dials
        self._name = "lock" if dials == N_DIALS else f"lock-{dials}"

    def size(self, split: str) -> None:
        """None: there is no end of tasks. Raises UnknownName."""
        if split not in self.splits:
            raise UnknownName("split", split, self.splits)

    def task(self, split: str, index: int) -> Task:
        """Task ``index``: which colour each dial will show."""
        self.size(split)
        rng = np.random.default_rng(derive_seed(self._name, split, index))
        dials = tuple(int(i) for i in rng.integers(len(COLOURS), size=self.dials))
        return Task(
            id=f"{self._name}/{split}/{index}",
            env_id="turngate/Lock-v1",
            prompt="Open the lock: press the key of each colour.",
            private={"dials": dials},
            split=split,
        )

    def find(self, task_id: str) -> Task:
        """The task of an id made by ``task``."""
        match task_id.split("/"):
            case [self._name, split, index] if index.isdigit():
                return self.task(split, int(index))
        raise UnknownName("task", task_id, [f"{self._name}/train/0", f"{self._name}/heldout/0"])


class LockSource(TaskSourcePart):
    """Dials that show random colours."""

    type: Literal["lock"] = "lock"
    kind: ClassVar[str] = "locks"
    dials: int = Field(N_DIALS, ge=1)
    """Dials of each lock, so turns of each episode; more than 3 need a larger max_turns (env.kwargs)."""

    def open(self) -> LockTasks:
        return LockTasks(self.dials)


class LockEnv(TurnEnv):
    """Press the right key for each colour."""

    turn_spec = TurnSpec(
        tools=(Tool(name="press", description="Press a key.", parameters=(Parameter(name="key"),)),),
        rubric=RUBRIC,
        max_turns=N_DIALS,
        tasks=LockSource(),
        deadline_s=1.0,
        any_thread=True,
        fork="exact",
        has_oracle=True,
        hint_levels=3,
        evidence={
            **meanings("parsed"),
            "right_key": "whether the key of the turn was right",
            "opened": "whether the lock is open at the end",
        },
    )

    def __init__(self, *, tasks: TasksLike = None, split: str | None = None, max_turns: int | None = None) -> None:
        super().__init__(tasks=tasks, split=split, max_turns=max_turns)
        if isinstance(self.tasks, LockTasks) and self.max_turns < (dials := self.tasks.dials):
            raise ConfigError(f"max_turns is {self.max_turns}, but the lock has {dials} dials; use {dials} or more")
        self._colours: tuple[str, ...] = ()
        self._pressed: list[str] = []
        self._right: list[bool] = []

    def start(self, task: Task, rng: np.random.Generator) -> Observation:
        """Show the first dial."""
        self._colours, self._right, self._pressed = colours_of(task), [], []
        return Observation(text=f"{task.prompt} {self._colours[0]}", state_key=self._key())

    def act(self, action: Action) -> Outcome:
        """Press one key; the next dial appears whatever was pressed."""
        if action.parse_error:
            right, text = False, action.parse_error
        else:
            self._pressed.append(str(action.calls[0].arguments["key"]))
            right = self._pressed[-1] == key_of(self._colours[len(self._right)])
            text = "click" if right else "clunk"
        self._right.append(right)
        done = len(self._right) == len(self._colours)
        following = "" if done else f" {self._colours[len(self._right)]}"
        facts = (Evidence(name="right_key", value=right), Evidence(name="parsed", value=not action.parse_error))
        return Outcome(observation=Observation(text=text + following, state_key=self._key()), evidence=facts, done=done)

    def verify(self) -> Iterable[Evidence]:
        """The lock is open when all keys were right."""
        yield Evidence(name="opened", value=len(self._right) == len(self._colours) and all(self._right))

    def answer(self) -> str | None:
        """The keys in the order in which they were pressed."""
        return " ".join(self._pressed) or None

    def oracle(self, task: Task) -> Sequence[str]:
        """The right keys."""
        return [f"press {key_of(colour)}" for colour in colours_of(task)]

    def hint(self, task: Task, level: int) -> str | None:
        """1: keys that fit nowhere; 2: the keys of the first half of its colours; 3: the keys of all its colours."""
        levels = lock_hints(colours_of(task))
        return levels[level - 1] if 1 <= level <= len(levels) else None

    def secrets(self, task: Task) -> Sequence[str]:
        """The keys in the order of the dials."""
        return (" ".join(key_of(colour) for colour in colours_of(task)),)

    def save(self) -> object:
        """The colours, and the keys pressed so far."""
        return self._colours, tuple(self._pressed), tuple(self._right)

    def load(self, saved: object) -> None:
        assert isinstance(saved, tuple)
        self._colours, pressed, right = saved
        self._pressed, self._right = list(pressed), list(right)

    def _key(self) -> str:
        return "-".join([*self._colours[: len(self._right) + 1], *("01"[right] for right in self._right)])


def colours_of(task: Task) -> tuple[str, ...]:
    """The colour of each dial; ``private`` holds their numbers."""
    return tuple(COLOURS[dial] for dial in task.private["dials"])


def lock_hints(colours: Sequence[str]) -> tuple[str, ...]:
    """The hints for a lock whose dials show ``colours``, from least to most; fewer than three levels for a lock of a
    single colour."""
    shown = [colour for colour in COLOURS if colour in colours]
    useless = [key_of(colour) for colour in COLOURS if colour not in colours]
    takes = [f"{colour} takes {key_of(colour)}" for colour in shown]
    first = f"No dial takes {' or '.join(useless)}." if useless else "Every key is needed."
    levels = (first, f"{', '.join(takes[: (len(takes) + 1) // 2])}.", f"{', '.join(takes)}.")
    return tuple(dict.fromkeys(levels))


def key_of(colour: str) -> str:
    """The key that belongs to ``colour``."""
    return KEYS[COLOURS.index(colour)]
