"""What both sides of ``benchmarks/trl.py`` share: the environments, the sizes, and the environments as TRL takes them.

TRL's trainer finds the tools of an environment by looking at the public methods of its class, and calls ``reset`` with
a row of the data set. The classes here hand each call to the environment of turngate behind them, already read: TRL
parses what the model wrote, so turngate's parser does no work on that side.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import turngate
from turngate.envs.base import TurnEnv
from turngate.types import JSON, Action, Ending, ToolCall

TOOL_FORMAT = "hermes"
"""The tool format of Qwen's chat template, which both sides use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """An environment with the sizes of its episodes. ``demonstrations`` and ``epochs`` are of the warm start, after
    which the model writes a call in nearly every turn."""

    env: dict[str, Any]
    turns: int
    turn_tokens: int
    demonstrations: int
    epochs: int
    tools: type[Tools]
    context: int = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes of a model of Qwen3's architecture. ``vocabulary`` of 0: as many as the tokenizer has."""

    layers: int
    width: int
    inner: int
    heads: int
    kv_heads: int
    head_width: int
    vocabulary: int
    tokenizer: int
    lr: float


class Tools:
    """One episode of an environment, as TRL plays it; a subclass has the tools as methods."""

    def __init__(self, env: TurnEnv) -> None:
        self._env = env
        self._over = False
        self._paid = 0.0

    def reset(self, task: str, **row: object) -> str:
        """Begin an episode; returns what the prompt ends with."""
        observation, _ = self._env.reset(seed=0, options={"task": task, "tool_format": TOOL_FORMAT})
        self._over, self._paid = False, 0.0
        return observation.text

    def _call(self, name: str, **arguments: object) -> str:
        if self._over:
            return "the episode is over"
        call = ToolCall(name=name, arguments=arguments)
        observation, reward, terminated, truncated, _ = self._env.step(Action(text="", calls=(call,)))
        self._paid += reward
        self._over = terminated or truncated
        return observation.text

    def _settle(self, calls: list[dict[str, Any]]) -> float:
        """The whole reward, after the calls of the last turn, which TRL generates and does not carry out."""
        for call in calls[:1]:
            tool = vars(type(self)).get(call["function"]["name"])
            with suppress(TypeError):  # arguments that do not fit, which TRL would show to the model
                if tool is not None:
                    tool(self, **call["function"]["arguments"])
        if not self._over:
            reward, _ = self._env.finish(Ending.MAX_TURNS)
            self._over, self._paid = True, self._paid + reward
        return self._paid


class LockTools(Tools):
    """The lock."""

    def press(self, key: str) -> str:
        """Press a key.

        Args:
            key: the key
        """
        return self._call("press", key=key)


class SqlTools(Tools):
    """Questions about databases."""

    def list_tables(self) -> str:
        """List the tables and their numbers of rows."""
        return self._call("list_tables")

    def describe(self, table: str) -> str:
        """Show the columns of a table.

        Args:
            table: the table
        """
        return self._call("describe", table=table)

    def run_sql(self, sql: str) -> str:
        """Run one SELECT and see the first rows.

        Args:
            sql: the query
        """
        return self._call("run_sql", sql=sql)

    def submit(self, sql: str = "") -> str:
        """Answer with a query, or with the last one that ran. Ends the episode.

        Args:
            sql: the query
        """
        return self._call("submit", sql=sql)


WORLDS = {
    "lock": World(
        env={"id": "turngate/Lock-v1"}, turns=3, turn_tokens=48, demonstrations=100, epochs=10, tools=LockTools
    ),
    "sql": World(
        env={
            "id": "turngate/Sql-v1",
            "kwargs": {"max_turns": 4, "max_rows": 3},
            "tasks": {
                "type": "generated_sql",
                "families": ["library", "shop", "school", "football"],
                "max_level": 1,
            },
        },
        turns=4,
        turn_tokens=96,
        demonstrations=200,
        epochs=12,
        tools=SqlTools,
    ),
}
SHAPES = {
    "tiny": Shape(
        layers=2, width=128, inner=384, heads=4, kv_heads=4, head_width=32, vocabulary=0, tokenizer=700, lr=3e-3
    ),
    "0.6b": Shape(
        layers=28, width=1024, inner=3072, heads=16, kv_heads=8, head_width=128, vocabulary=151_936, tokenizer=700,
        lr=3e-4,
    ),
}  # fmt: skip


def made(name: str) -> TurnEnv:
    """A new environment of that name."""
    world = WORLDS[name]
    settings = dict(world.env.get("kwargs", {}))
    if "tasks" in world.env:
        settings["tasks"] = world.env["tasks"]
    return turngate.make(world.env["id"], **settings)


def tools_of(name: str) -> Tools:
    """The same, as TRL takes it."""
    return WORLDS[name].tools(made(name))


def schemas(name: str) -> list[Mapping[str, JSON]]:
    """The tools of that environment, as chat templates take them."""
    env = made(name)
    found = [tool.schema for tool in env.turn_spec.tools]
    env.close()
    return found
