"""The policy of the golden episodes: it solves a task, or errs in ways that show what an environment says to that.

The first of three siblings follows the oracle. The second begins with nonsense and calls every tool with arguments that
do not fit before it does so. The third never makes the oracle's last call, and repeats the one before until it is cut.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import ClassVar, Literal

import numpy as np
from pydantic import BaseModel

import turngate
from turngate.agents.chat import TextChat
from turngate.agents.policies.base import Policy
from turngate.agents.policies.parts import PolicyPart
from turngate.agents.rollout import Player
from turngate.types import Completion, EndedBy, Request

ENDING = ("answer", "submit", "bash")
"""Tools that are not tried with nonsense: they end an episode, or print what the machine makes of it."""


class GoldenEnv(BaseModel):
    """How an environment is opened whose oracle is followed."""

    id: str
    options: dict[str, object] = {}


class GoldenScript(PolicyPart):
    """See this module. ``envs`` are those of the run, by their names."""

    type: Literal["golden"] = "golden"
    trainable: ClassVar[bool] = False
    envs: dict[str, GoldenEnv]

    def open(self, model, chat):
        raise NotImplementedError

    def served(self) -> Player:
        return Player(Script(self.lines), TextChat(), self.limits())

    @property
    def lines(self) -> Callable[[str, int], tuple[str, ...]]:
        """The lines of an episode by its task and its number among the siblings."""

        @cache
        def opened(label: str) -> turngate.TurnEnv:
            return turngate.make(self.envs[label].id, **self.envs[label].options)

        @cache
        def lines(task_id: str, sibling: int) -> tuple[str, ...]:
            label, colon, own_id = task_id.partition(":")
            env = opened(label if colon else next(iter(self.envs)))
            right = tuple(env.oracle(env.tasks.find(own_id if colon else task_id)))
            tools = [tool.name for tool in env.turn_spec.tools if tool.name not in ENDING]
            wrong = ("???", "", *(f"{name} no-such-thing 7" for name in tools))
            return (right, (*wrong, *right), right[:-1] or ("???",))[sibling]

        return lines


class Script(Policy):
    """Says the lines of an episode, and the last one again where there are no more."""

    name, concurrency = "golden", 1

    def __init__(self, lines: Callable[[str, int], tuple[str, ...]]) -> None:
        self._lines = lines

    async def complete(self, request: Request) -> Completion:
        (sibling,) = re.findall(r"#(\d+)@", request.episode)
        lines = self._lines(request.task_id, int(sibling) % 3)
        return Completion(
            ids_K=np.zeros(0, np.int32),
            logprobs_K=np.zeros(0, np.float32),
            ended_by=EndedBy.STOP,
            policy_version=0,
            text=lines[min(request.turn, len(lines) - 1)],
        )
