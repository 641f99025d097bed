"""What ``check_env`` writes in an agent's place: texts without a call, odd arguments, numbers that grow.

Otherwise an agent could make episodes that it would lose unusable, by the texts that it writes. Each episode is
therefore played to its end, where the verifier and the rubric read what the agent left behind.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from turngate.envs.base import TurnEnv
from turngate.envs.check.plays import Plays
from turngate.envs.tool_env import ToolEnv
from turngate.foreign import described, is_own
from turngate.tools.read import parse
from turngate.tools.tool import Tool
from turngate.types import FAULT, JSON, Action, Ending, ToolCall

GARBAGE = (
    "", "???", "blah " * 2000, "no_such_tool x", "\x00\x1b[2J\x07\ufffd\n\r\t", "<tool_call>{", "<think>",
    '<tool_call>{"name": "\\ud800", "arguments": {"\\u0000": "\\udfff"}}</tool_call>',
    f"<tool_call>{'[' * 9999}</tool_call>",
)  # fmt: skip
VALUES = (
    "9" * 4000,
    "9" * 5000,
    "-1",
    "1e999",
    "NaN",
    "null",
    "[]",
    '{"a": [1, {}]}',
    "true",
    "'",
    "../../x",
    "é\u202e",
)
"""Texts that mean something to a reader without the parser of tool calls."""
ODD = (("???", 0), ("'\"({`$", -1), ("../../x", 10**12), ("a " * 2000, -(10**12)))
"""A text and a number, for each argument of those types."""
LARGEST = 10**100 - 1
"""Largest whole number that a call may hold (see ``tools.arguments``)."""
ODD_VALUES: dict[str, tuple[JSON, ...]] = {
    "string": ("???", " ", "'\"({`$", "9" * 5000, "\u202e"),
    "integer": (0, -1, LARGEST),
    "number": (0, -1, 1e308, LARGEST),
    "array": ([], [None], [[[{}]]]),
    "object": ({}, {"": None}, {"a": {"b": []}}),
}
"""Type in a JSON schema → values that fit it and are seldom expected."""
MOST_CALLS = 12
"""Most of the oracle's calls that are tried with another argument."""
TIMES = 64
"""How often the same call with the largest number is made: enough to exceed the longest number that Python writes as
text."""


def answers_garbage(plays: Plays) -> Iterator[str]:
    """Every text of an agent is answered; evidence says that it could not be read, unless it is speech to a user."""
    env, seeds = plays.env, plays.seeds
    for action in GARBAGE:
        shown = repr(action[:20]) + ("…" if len(action) > 20 else "")
        try:
            env.reset(seed=seeds[0])
            info = env.step(action)[4]
        except Exception as error:
            yield f"the action {shown} raised {error!r}; it must be answered with an observation"
            continue
        read = info.get("action")
        if isinstance(read, Action) and not read.calls and read.parse_error is None:
            continue  # speech to a user, who accepts any text
        facts = [fact for fact in info.get("evidence", ()) if getattr(fact, "name", "") == "parsed"]
        if [bool(fact.value) for fact in facts] != [False]:
            yield f"the action {shown} needs Evidence(name='parsed', value=False), got {facts}"
    for text in VALUES if _is_calm(plays) else ():
        if problem := _problem(env, seeds[0], [text]):
            yield f"the action {text[:20]!r} {problem}"


def survives_arguments(plays: Plays) -> Iterator[str]:
    """Calls with odd arguments of the right types are answered, and the state that they leave can be measured."""
    env, seeds = plays.env, plays.seeds
    if not _is_calm(plays):
        return
    for tool in env.turn_spec.tools:
        told = [_odd_arguments(tool, text, number) for text, number in ODD]
        for place, arguments in enumerate(told):
            if arguments in told[:place]:  # a tool that takes no text and no number
                continue
            call = ToolCall(name=tool.name, arguments=arguments)
            if problem := _problem(env, seeds[0], [_written(call)]):
                yield f"the call {_shown(call)} {problem}; where a tool cannot do what it is asked, raise ToolError"
                break
    yield from _near_the_oracle(env, seeds)


def survives_growth(plays: Plays) -> Iterator[str]:
    """The same call with the largest number, again and again, can be answered and measured."""
    env, seeds = plays.env, plays.seeds
    most = env.calls_per_turn if isinstance(env, ToolEnv) else 1
    for tool in env.turn_spec.tools if _is_calm(plays) else ():
        arguments = _odd_arguments(tool, "x", LARGEST)
        if LARGEST not in arguments.values():
            continue
        call = ToolCall(name=tool.name, arguments=arguments)
        if problem := _problem(env, seeds[0], [_written(call) * most] * -(-TIMES // most), faults=True):
            yield (
                f"the call {_shown(call)}, made again and again, {problem}; numbers grow until Python cannot write "
                "them down: refuse what is out of range with ToolError"
            )


def _near_the_oracle(env: TurnEnv, seeds: Sequence[int]) -> Iterator[str]:
    """The oracle's calls with one other argument, so that odd values meet states that earlier calls have made."""
    if not env.turn_spec.has_oracle:
        return
    tried = set[tuple[str, str]]()
    for seed in seeds:
        _, info = env.reset(seed=seed)
        plan = list(env.oracle(env.tasks.find(info["task_id"])))
        for place, action in enumerate(plan):
            for call in parse(action, env.turn_spec.tools).calls:
                for name in call.arguments:
                    if (call.name, name) not in tried and len(tried) < MOST_CALLS:
                        tried.add((call.name, name))
                        yield from _with_other_values(env, seed, plan[:place], call, name)


def _with_other_values(env: TurnEnv, seed: int, before: list[str], call: ToolCall, name: str) -> Iterator[str]:
    tool = next(tool for tool in env.turn_spec.tools if tool.name == call.name)
    for value in ODD_VALUES.get(str(_schemas(tool).get(name, {}).get("type")), ()):
        other = ToolCall(name=call.name, arguments={**call.arguments, name: value})
        if problem := _problem(env, seed, [*before, _written(other)]):
            yield f"the call {_shown(other)} {problem}; where a tool cannot do what it is asked, raise ToolError"
            return


def _is_calm(plays: Plays) -> bool:
    """Whether episodes without odd words can be measured; errors that occur in any episode are for other rules."""
    if not plays.calm:
        env, seed = plays.env, plays.seeds[0]
        _, info = env.reset(seed=seed)
        usual = env.oracle(env.tasks.find(info["task_id"])) if env.turn_spec.has_oracle else ()
        episodes: tuple[Sequence[str], ...] = (usual, (), ["???"] * env.max_turns)
        plays.calm.append(not any(_problem(env, seed, actions) for actions in episodes))
    return plays.calm[0]


def _problem(env: TurnEnv, seed: int, actions: Sequence[str], *, faults: bool = False) -> str:
    """What goes wrong in an episode with these actions, measured at its end; "" = nothing.

    ``faults``: whether an end as the agent's fault counts, which costs the agent the episode but not its score.
    """
    done = "raised"
    try:
        _, info = env.reset(seed=seed)
        score, over = None, False
        for action in actions:
            *_, terminated, truncated, info = env.step(action)
            score, over = info.get("score"), terminated or truncated
            if over:
                break
        if not over:
            done = "leaves behind what cannot be measured:"
            info = env.finish(Ending.MAX_TURNS)[1]
            score = info.get("score")
    except BaseException as error:
        if not is_own(error):
            raise
        return f"{done} {error!r}" if isinstance(error, Exception) else f"{done} {described(error)}"
    if faults and info.get("ending") is Ending.AGENT_FAULT:
        why = next((fact.value for fact in info["evidence"] if fact.name == FAULT), "")
        return f"ends the episode as the agent's fault ({why})"
    ending = info.get("ending")
    if not isinstance(ending, Ending) or ending.usable:  # evidence that is still missing comes from an examiner
        return ""
    return f"leads to an episode that cannot be scored: {getattr(score, 'problem', '')}"


def _written(call: ToolCall) -> str:
    return f"<tool_call>{json.dumps({'name': call.name, 'arguments': dict(call.arguments)})}</tool_call>"


def _shown(call: ToolCall) -> str:
    return json.dumps({"name": call.name, "arguments": dict(call.arguments)})[:80]


def _schemas(tool: Tool) -> dict[str, dict[str, JSON]]:
    function: Any = tool.schema["function"]
    found: dict[str, dict[str, JSON]] = function["parameters"].get("properties", {})
    return found


def _odd_arguments(tool: Tool, text: str, number: int) -> dict[str, object]:
    """Arguments of the types that the tool takes; any that is neither text, number nor one of a list is left out."""
    fitting: dict[object, object] = {"string": text, "integer": number, "number": number}
    found: dict[str, object] = {}
    for name, schema in _schemas(tool).items():
        listed = schema.get("enum")
        if isinstance(listed, list):
            found[name] = listed[0]
        elif schema.get("type") in fitting:
            found[name] = fitting[schema["type"]]
    return found
