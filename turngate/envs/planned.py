"""``turngate/Planned-v1``: another environment, in whose episodes the agent first writes a plan.

PilotRL's roles in one episode: the policy plans in its first turn and then carries the plan out, with the plan in its
context. So the plan is a turn like any other, with credit of its own, also in evaluation. ``stage`` says which turns
are learned from: those that follow the plan (1), the plan (2), or all (3). Source: PilotRL (AdaPlan),
https://arxiv.org/abs/2508.00344, reconstructed from its abstract.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from turngate.envs.base import Outcome, TurnEnv
from turngate.envs.registry import make
from turngate.envs.tasks import TasksLike, TaskSource
from turngate.errors import AgentFault, ConfigError
from turngate.rewards.rubric import FromEvidence, Rubric
from turngate.types import ANSWER, FAULT, Action, Ending, Evidence, Info, Observation, Task

PLAN = "plan"
"""Name of the evidence that holds the text of the plan; None for one that cannot be used."""
OF_PLANS = {PLAN: "the text of the plan; null: it is none", "planned": "whether the turn holds a plan"}
Stage: TypeAlias = Literal[1, 2, 3]
"""Which turns are trained: those that follow the plan (1), the plan (2), or both (3)."""
ENV_ID = "turngate/Planned-v1"
MOST_LINES = 8
"""Most lines of a plan; a longer one is bloat, and does not count as one."""
ASK = f"First write a plan of at most {MOST_LINES} lines and do nothing else. You carry it out afterwards."
GO = "Carry out the plan."


class PlannedTasks:
    """The tasks of an environment, as those of ``turngate/Planned-v1``."""

    def __init__(self, tasks: TaskSource) -> None:
        self._tasks = tasks
        self.splits = tasks.splits

    def size(self, split: str) -> int | None:
        return self._tasks.size(split)

    def task(self, split: str, index: int) -> Task:
        return replace(self._tasks.task(split, index), env_id=ENV_ID)

    def find(self, task_id: str) -> Task:
        return replace(self._tasks.find(task_id), env_id=ENV_ID)


class PlannedEnv(TurnEnv):
    """The environment ``env``, made with ``kwargs`` and ``tasks``, after a turn in which the agent writes a plan.

    The plan is recorded as the evidence "plan" (its text, or null for one that cannot be used) and "planned" (whether
    it can), which the rubric pays with 0.05 as a process reward, under the gates of the environment's own rubric.

    Left out of the paper: the judge that scores plans in stage 2. Here a plan is paid for being usable, and by the
    outcome of what follows it.

    Raises ConfigError for an environment whose rubric has no gate, because the plan would be paid for failures too.
    """

    def __init__(
        self,
        *,
        env: str = "turngate/Lock-v1",
        stage: Stage = 3,
        kwargs: Mapping[str, object] | None = None,
        tasks: TasksLike = None,
        split: str | None = None,
        max_turns: int | None = None,
    ) -> None:
        if stage not in get_args(Stage):
            raise ConfigError(f"stage is {stage!r}; choose 1 (learn to follow plans), 2 (to plan) or 3 (both)")
        if max_turns is not None and max_turns < 2:
            raise ConfigError(f"max_turns is {max_turns}; the plan takes one turn, so it must be at least 2")
        most = None if max_turns is None else max_turns - 1
        given = {"tasks": tasks, "split": split, "max_turns": most}
        more = {name: value for name, value in given.items() if value is not None}
        self._inner, self._stage = make(env, **dict(kwargs or {}), **more), stage
        spec = self._inner.turn_spec
        planned = PlannedTasks(self._inner.tasks)
        self.turn_spec = replace(
            spec,
            rubric=_rubric(spec.rubric, env),
            max_turns=self._inner.max_turns + 1,
            tasks=planned,
            evidence=None if spec.evidence is None else {**spec.evidence, **OF_PLANS},
        )
        super().__init__(tasks=planned, split=split)
        self._opening: Observation | None = None  # the environment's, until the plan is written
        self._answer: str | None = None
        self._measured: tuple[Evidence, ...] | None = None  # of the whole episode, once the environment has ended it

    def start(self, task: Task, rng: np.random.Generator) -> Observation:
        """The environment's first observation, and the request for a plan."""
        seed, options = int(rng.integers(2**31)), {"task": task, "tool_format": self.tool_format}
        self._opening, _ = self._inner.reset(seed=seed, options=options)
        self._answer = self._measured = None
        return replace(self._opening, text=f"{self._opening.text}\n{ASK}")

    def act(self, action: Action) -> Outcome:
        """Take the plan; after it, act in the environment."""
        if self._opening is not None:
            return self._planned(action)
        seen, _, terminated, truncated, info = self._inner.step(action)
        facts = self._shifted(info)
        if terminated or truncated:
            self._measured = tuple(fact for fact in facts if fact.turn is None)
        of_turns = tuple(fact for fact in facts if fact.turn is not None)
        return Outcome(observation=seen, evidence=of_turns, done=terminated, learned=self._stage in (1, 3))

    def verify(self) -> Iterable[Evidence]:
        """The environment's measurements of the whole episode."""
        return self._shifted(self._inner.finish(Ending.MAX_TURNS)[1]) if self._measured is None else self._measured

    def answer(self) -> str | None:
        """The environment's; None where it was cut short."""
        return self._answer

    def oracle(self, task: Task) -> Sequence[str]:
        """A plan that names the tools in their order, and the environment's own solution."""
        actions = list(self._inner.oracle(task))
        return [_plan_of(actions), *actions]

    def solutions(self, task: Task) -> Sequence[Sequence[str]]:
        """The environment's, each with its plan."""
        return [[_plan_of(actions), *actions] for actions in self._inner.solutions(task)]

    def hint(self, task: Task, level: int) -> str | None:
        """The environment's."""
        return self._inner.hint(task, level)

    def secrets(self, task: Task) -> Sequence[str]:
        """The environment's."""
        return self._inner.secrets(task)

    def save(self) -> object:
        """The state of the environment, and whether the plan is written."""
        return self._inner.snapshot(), self._opening

    def load(self, saved: object) -> None:
        assert isinstance(saved, tuple)
        snapshot, self._opening = saved
        self._answer = self._measured = None
        self._inner.restore(snapshot)

    def close(self) -> None:
        """Close the environment."""
        self._inner.close()

    def _read(self, action: Action | str) -> Action:
        """A plan is not read for tool calls; a text that is no plan has a parse error."""
        if self._opening is None or not isinstance(action, str):
            return super()._read(action)
        readable = 1 <= len(_lines(action)) <= MOST_LINES
        return Action(text=action, parse_error=None if readable else f"a plan has 1 to {MOST_LINES} lines")

    def _planned(self, action: Action) -> Outcome:
        assert self._opening is not None
        lines = _lines(action.text)
        is_plan = 1 <= len(lines) <= MOST_LINES and not action.cut_off
        facts = (
            Evidence(name=PLAN, value="\n".join(lines) if is_plan else None),
            Evidence(name="planned", value=is_plan),
            Evidence(name="parsed", value=is_plan),
        )
        seen, self._opening = self._opening, None
        told = f"error: {action.parse_error}\n{GO}" if action.cut_off else GO
        shown = replace(seen, text=f"{told} {seen.text}", state_key=f"{seen.state_key} after a plan")
        return Outcome(observation=shown, evidence=facts, learned=self._stage in (2, 3))

    def _shifted(self, info: Info) -> tuple[Evidence, ...]:
        """The environment's evidence, with turns counted from the plan on. Raises AgentFault where the agent broke
        it."""
        found = []
        for fact in info["evidence"]:
            if fact.name == FAULT and info["ending"] is Ending.AGENT_FAULT:
                raise AgentFault(str(fact.value))
            if fact.name == ANSWER:
                self._answer = None if fact.value is None else str(fact.value)
            else:
                found.append(fact if fact.turn is None else replace(fact, turn=fact.turn + 1))
        return tuple(found)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _plan_of(actions: Sequence[str]) -> str:
    """A simple plan: the tools in their order, repeated calls of one tool in a row once."""
    tools = [action.split(maxsplit=1)[0] for action in actions if action.split()]
    kept = [tool for place, tool in enumerate(tools) if place == 0 or tools[place - 1] != tool]
    return "\n".join(kept[:MOST_LINES])


def _rubric(rubric: object, env: str) -> Rubric:
    if not isinstance(rubric, Rubric) or not rubric.gates:
        raise ConfigError(
            f"the rubric of '{env}' has no gate, so a plan would be paid where the task was not solved; name one whose "
            "gates need the outcome"
        )
    paid = FromEvidence(name="planned", evidence="planned", kind="process", weight=0.05, per_turn=True)
    return rubric.model_copy(update={"rewards": (*rubric.rewards, paid)})
