"""Episodes of a domain, played by agents that are functions of the task."""

import turngate
from turngate.types import Ending

ID = "turngate/ToolUse-v1"


def domain(name, **settings):
    return turngate.make(ID, tasks={"type": name} | settings)


def facts_of(env, task, actions):
    """The facts and the reward of one episode."""
    env.reset(seed=0, options={"task": task})
    facts, terminated, truncated, info = {}, False, False, {}
    for action in actions:
        _, _, terminated, truncated, info = env.step(action)
        facts |= {fact.name: fact.value for fact in info["evidence"]}
        if terminated or truncated:
            break
    if not (terminated or truncated):
        _, info = env.finish(Ending.TIME_BUDGET)
        facts |= {fact.name: fact.value for fact in info["evidence"]}
    return facts, info["score"].total


def tasks_of(env, count, split="train"):
    return [env.tasks.task(split, index) for index in range(count)]


def goal_of(task):
    return task.private["goals"][0]


def outcome_of(task):
    return next(word for word in ("done", "refused", "handed over") if goal_of(task).answer.startswith(word))
