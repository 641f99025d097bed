"""Environments with BFCL's tasks, and small ways to play in them."""

import json

import turngate


def make(**settings):
    return turngate.make("turngate/ToolUse-v1", tasks={"type": "bfcl", "held_out": 0} | settings)


def hermes(name, /, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def play(env, task_id, lines):
    """The observations, the facts of each turn, and the score; what is left of the episode is talk."""
    env.reset(options={"task": f"multi_turn_{task_id}"})
    seen, facts, over = [], [], False
    for line in [*lines, *["That is all."] * 200]:
        observation, _, terminated, truncated, info = env.step(line)
        seen.append(observation.text)
        facts.append({fact.name: fact.value for fact in info["evidence"]})
        if terminated or truncated:
            over = True
            break
    assert over
    return seen, facts, info["score"]


def oracle(env, task_id):
    return list(env.oracle(env.tasks.find(f"multi_turn_{task_id}")))
