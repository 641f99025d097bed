"""Speed of tool calls in one process, on one thread, as ratios to a bare call of the same Python function:

    python -m benchmarks.tool_calls --seconds 1

One call of ``find_member`` of the library desk per turn, written as JSON (``<tool_call>``), at each of these depths:

* ``bare``: the function itself, with its arguments as they are;
* ``typed tool``: text → call → checked arguments → function (``parse`` and ``convert_arguments``);
* ``environment``: ``step`` of ``turngate/ToolUse-v1``: also policies, state hash, evidence and the observation.

    python -m benchmarks.tool_calls --gem VENV/bin/python --against FOLDER

also runs the loop of ``gem-llm`` (installed in the environment of that Python) around the same function, and that of a
local checkout of tau-bench around its own ``get_order_details``, each in a process of its own. Their calls are handed
over as they take them: gem gets the text and reads its JSON, tau-bench gets an ``Action`` that is already read. Neither
checks arguments or records anything per call. All are played in turn, and the best of the rounds counts, which other
work on the machine slowed least.

    python -m benchmarks.tool_calls --profile

prints where a step of the environment spends its time. Prints JSON else.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import turngate
from turngate.envs.base import TurnEnv
from turngate.envs.tooluse.generated import lending
from turngate.tools.arguments import convert_arguments
from turngate.tools.read import find, parse
from turngate.types import Task

CALLS = 10
"""Calls of an episode: gem and tau-bench have limits as low as that."""
LOOPS = Path(__file__).with_name("tool_call_loops.py")


def best(play: Callable[[], object], seconds: float) -> float:
    """Calls per second of ``play``, which makes ``CALLS`` of them, in its best run."""
    times = list[float]()
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(times) < 20:
        start = time.perf_counter()
        play()
        times.append(time.perf_counter() - start)
    return CALLS / min(times)


def text_of(name: str) -> str:
    """The call as a model writes it."""
    return f"<tool_call>{json.dumps({'name': 'find_member', 'arguments': {'name': name}})}</tool_call>"


def bare(state: dict[str, dict[str, str]], name: str) -> None:
    """The function, with nothing around it."""
    for _ in range(CALLS):
        lending.find_member(name, state)


def tools_alone(env: TurnEnv, state: dict[str, dict[str, str]], name: str) -> None:
    """Text to call to typed arguments to result."""
    text, tools = text_of(name), env.turn_spec.tools
    for _ in range(CALLS):
        call = parse(text, tools).calls[0]
        tool = find(call.name, tools)
        assert tool is not None
        arguments, _ = convert_arguments(tool, call.arguments)
        lending.find_member(**arguments, state=state)  # type: ignore[arg-type]  # one name, which is text


def steps(env: TurnEnv, text: str) -> None:
    """The steps of one episode that was begun."""
    for _ in range(CALLS):
        env.step(text)


def stepped(env: TurnEnv, task: Task, text: str, seconds: float) -> float:
    """Calls per second through ``step`` in the best episode; resets are not in the time."""
    times = list[float]()
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(times) < 20:
        env.reset(seed=0, options={"task": task})
        start = time.perf_counter()
        steps(env, text)
        times.append(time.perf_counter() - start)
    return CALLS / min(times)


def other(python: str, kind: str, folder: str, data: str, seconds: float) -> float:
    """Calls per second of somebody else's loop, in a process of its own."""
    command = [python, str(LOOPS), kind, folder, data, str(CALLS), str(seconds)]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=300)
    return float(done.stdout.split()[-1])


def measured(gem: str, against: str, seconds: float, rounds: int) -> dict[str, float]:
    """Calls per second of each, the best of the rounds, in which they take turns."""
    with turngate.make("turngate/ToolUse-v1") as env:
        task = env.tasks.task("train", 0)
        state = dict(task.private["state"])
        name = next(iter(state["members"].values()))
        told = json.dumps({"members": state["members"], "name": name, "text": text_of(name)})
        plays: dict[str, Callable[[], float]] = {
            "bare": partial(best, partial(bare, state, name), seconds),
            "typed tool": partial(best, partial(tools_alone, env, state, name), seconds),
            "environment": partial(stepped, env, task, text_of(name), seconds),
        }
        if gem:
            plays["gem"] = partial(other, gem, "gem", "", told, seconds)
        if against:
            plays["bare, tau-bench's function"] = partial(other, sys.executable, "tau-bare", against, "{}", seconds)
            plays["tau-bench"] = partial(other, sys.executable, "tau", against, "{}", seconds)
        found = dict.fromkeys(plays, 0.0)
        for _ in range(rounds):
            for key, play in plays.items():
                found[key] = max(found[key], play())
    return found


def profile(seconds: float) -> None:
    """Print the functions in which the steps of the environment spend most time."""
    with turngate.make("turngate/ToolUse-v1") as env:
        task = env.tasks.task("train", 0)
        text = text_of(next(iter(task.private["state"]["members"].values())))
        profiler, until = cProfile.Profile(), time.perf_counter() + seconds
        while time.perf_counter() < until:
            env.reset(seed=0, options={"task": task})
            profiler.runcall(steps, env, text)
        pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="how long to play each, a round")
    parser.add_argument("--rounds", type=int, default=5, help="how often they take turns")
    parser.add_argument("--gem", default="", help="a Python in whose environment gem-llm is installed")
    parser.add_argument("--against", default="", help="a local checkout of tau-bench")
    parser.add_argument("--profile", action="store_true", help="say where a step spends its time instead")
    asked = parser.parse_args()
    if asked.profile:
        profile(asked.seconds)
        return
    rates = measured(asked.gem, asked.against, asked.seconds, asked.rounds)
    each = {
        name: {"calls_per_second": round(rate), "microseconds": round(1e6 / rate, 2)} for name, rate in rates.items()
    }
    slower = {f"{name} / bare": round(rates["bare"] / rate, 1) for name, rate in rates.items() if name != "bare"}
    faster = {
        f"environment against {name}": round(rates["environment"] / rates[name], 2)
        for name in ("gem", "tau-bench")
        if name in rates
    }
    print(json.dumps({"calls": each, "times": slower, "speed": faster}, indent=2))


if __name__ == "__main__":
    main()
