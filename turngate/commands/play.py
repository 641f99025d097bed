"""``turngate play``: an environment at the keyboard."""

from __future__ import annotations

from rich.console import Console

from turngate.envs.base import TurnEnv
from turngate.envs.registry import make
from turngate.errors import ConfigError


def play_by_hand(console: Console, env_id: str, *, split: str, index: int, oracle: bool) -> None:
    """Play one task: a person writes the actions, or with ``oracle`` the environment's own solution does."""
    with make(env_id) as env:
        _play(env, console, split=split, index=index, oracle=oracle)


def _play(env: TurnEnv, console: Console, *, split: str, index: int, oracle: bool) -> None:
    size = env.tasks.size(split)
    if size is not None and index >= size:
        raise ConfigError(f"split '{split}' holds {size} tasks; --index goes from 0 to {size - 1}")
    task = env.tasks.task(split, index)
    lines = iter(env.oracle(task)) if oracle else None
    observation, _ = env.reset(seed=0, options={"task": task})
    console.print(f"[{task.id}] {observation.text}", markup=False, highlight=False)
    for tool in env.turn_spec.tools:
        console.print(f"  {tool.usage:<24} {tool.description}", markup=False, highlight=False)
    total = 0.0
    while True:
        action = next(lines, "") if lines is not None else _ask(console)
        if not action:
            console.print("stopped")
            break
        if lines is not None:
            console.print(f"> {action}", markup=False, highlight=False)
        observation, reward, terminated, truncated, info = env.step(action)
        total += reward
        console.print(observation.text, markup=False, highlight=False)
        if terminated or truncated:
            score = info["score"]
            assert score is not None  # ``step`` always gives the score of an episode that has ended
            outcome = "unknown" if score.outcome is None else f"{score.outcome:g}"
            console.print(f"{info['ending']}: outcome {outcome}, paid {total:.3f}", highlight=False)
            break


def _ask(console: Console) -> str:
    try:
        return console.input("> ", markup=False)
    except EOFError:
        return ""
