"""The episodes that the rules of ``check_env`` look at."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from turngate.envs.base import TurnEnv
from turngate.types import Info, Observation, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedStep:
    """What ``step`` returned, and how long it took, in seconds."""

    observation: Observation
    reward: float
    terminated: bool
    truncated: bool
    info: Info
    elapsed_s: float


@dataclass(slots=True, kw_only=True)
class TriedEpisode:
    """One episode as it went. ``steps`` is empty when no action was given."""

    observation: Observation
    info: Info
    actions: tuple[str, ...]
    steps: list[TimedStep] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether the last step ended the episode."""
        return bool(self.steps) and (self.steps[-1].terminated or self.steps[-1].truncated)

    @property
    def observations(self) -> list[Observation]:
        """That of the reset, and that of each step."""
        return [self.observation, *(step.observation for step in self.steps)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plays:
    """An environment and the seeds that it is tried with. An episode that several rules look at is played once.

    The plan of a task is what its oracle does, or one call of each tool.
    """

    env: TurnEnv
    seeds: Sequence[int]
    calm: list[bool] = field(default_factory=list, init=False)
    """Whether episodes without odd words can be measured, once a rule has found that out (``texts.py``)."""
    _kept: dict[tuple[str, int], TriedEpisode] = field(default_factory=dict, init=False)

    def first(self, seed: int) -> TriedEpisode:
        """The plan."""
        return self._once("first", seed, None)

    def again(self, seed: int) -> TriedEpisode:
        """The plan, played for the second time."""
        return self._once("again", seed, None)

    def whole(self, seed: int) -> TriedEpisode:
        """An episode that is sure to end: the plan, then unusable actions until the turn limit."""
        first = self.first(seed)
        if first.is_over:
            return first
        rest = ("???",) * max(0, self.env.max_turns + 1 - len(first.actions))
        return self._once("whole", seed, first.actions + rest)

    def new(self, seed: int, actions: Iterable[str] | None = None) -> TriedEpisode:
        """Reset and act until the episode or the actions end. Without actions: the plan."""
        observation, info = self.env.reset(seed=seed)
        chosen = tuple(self.plan(self.task(info)) if actions is None else actions)
        played = TriedEpisode(observation=observation, info=info, actions=chosen)
        for action in chosen:
            played.steps.append(self.step(action))
            if played.is_over:
                break
        return played

    def step(self, action: str) -> TimedStep:
        """The next step of the episode that is being played."""
        start_s = time.perf_counter()
        reply, reward, terminated, truncated, info = self.env.step(action)
        return TimedStep(
            observation=reply,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            info=info,
            elapsed_s=time.perf_counter() - start_s,
        )

    def plan(self, task: Task) -> Sequence[str]:
        """What the oracle of the task does, or one call of each tool."""
        if self.env.turn_spec.has_oracle:
            return self.env.oracle(task)
        return [tool.usage for tool in self.env.turn_spec.tools] or ["hello"]

    def task(self, info: Info) -> Task:
        """The task that is being played, from what ``reset`` returned."""
        return self.env.tasks.find(info["task_id"])

    def _once(self, kind: str, seed: int, actions: Iterable[str] | None) -> TriedEpisode:
        if (played := self._kept.get((kind, seed))) is None:
            played = self._kept[kind, seed] = self.new(seed, actions)
        return played
