"""BFCL's 800 multi-turn tasks in one process: the oracle, an agent that only talks, and one that calls at random.

    python -m benchmarks.bfcl

needs the wheel (pip install --no-deps bfcl-eval). Prints a table: who plays, episodes that are paid, turns of the user
that were served, seconds of one processor and of the clock.
"""

import json
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import turngate
from turngate.envs.tooluse.env import ToolUseEnv
from turngate.tools.tool import Parameter
from turngate.types import Task

Agent = Callable[[ToolUseEnv, Task, Callable[[], str]], Iterator[str]]


def oracle(env: ToolUseEnv, task: Task, seen: Callable[[], str]) -> Iterator[str]:
    yield from env.oracle(task)


def talks(env: ToolUseEnv, task: Task, seen: Callable[[], str]) -> Iterator[str]:
    while True:
        yield "That is done."


def at_random(env: ToolUseEnv, task: Task, seen: Callable[[], str]) -> Iterator[str]:
    """Three calls of any functions, their texts words of what was seen last, in seven of ten turns."""
    rng = random.Random(task.id)
    while True:
        words = seen().split() or ["a"]
        calls = []
        for _ in range(3):
            tool = rng.choice(env.turn_spec.tools)
            given = {one.name: _value(one, rng, words) for one in tool.parameters if one.required}
            calls.append(f"<tool_call>{json.dumps({'name': tool.name, 'arguments': given})}</tool_call>")
        yield "\n".join(calls) if rng.random() < 0.7 else "That is done."


def _value(parameter: Parameter, rng: random.Random, words: list[str]) -> object:
    made: dict[object, Callable[[], object]] = {
        str: lambda: rng.choice(words),
        int: lambda: rng.randint(0, 9),
        float: lambda: rng.uniform(0, 9),
    }
    if parameter.annotation in made:
        return made[parameter.annotation]()
    others: dict[object, object] = {list[str]: [rng.choice(words)], list[float]: [rng.uniform(0, 9)], bool: True}
    return others.get(parameter.annotation, {})


def play(env: Any, agent: Agent) -> tuple[int, int, int, int]:
    """How many episodes are paid, how many turns of users are served, of how many, and how many turns were played."""
    paid = served = asked = turns = 0
    for number in range(env.tasks.size("train")):
        task = env.tasks.task("train", number)
        text = [env.reset(options={"task": task})[0].text]
        for line in agent(env, task, partial(text.__getitem__, -1)):
            observation, _, terminated, truncated, info = env.step(line)
            text[-1], turns = observation.text, turns + 1
            of_turn = [fact.value for fact in info["evidence"] if fact.name == "turn_served"]
            served, asked = served + sum(of_turn), asked + len(of_turn)
            if terminated or truncated:
                break
        paid += info["score"].outcome == 1.0
    return paid, served, asked, turns


def main() -> None:
    with turngate.make("turngate/ToolUse-v1", tasks={"type": "bfcl", "held_out": 0}) as env:
        print("| agent | paid, of 800 | turns served | turns played | s, processor | s, clock |")
        print("|---|---|---|---|---|---|")
        for name, agent in (("oracle", oracle), ("talks", talks), ("at random", at_random)):
            clock, processor = time.perf_counter(), time.process_time()
            paid, served, asked, turns = play(env, agent)
            took = f"{time.process_time() - processor:.1f} | {time.perf_counter() - clock:.1f}"
            print(f"| {name} | {paid} | {served} of {asked} | {turns} | {took} |")


if __name__ == "__main__":
    main()
