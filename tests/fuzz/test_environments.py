"""Whatever an agent writes in an environment, its episode goes on, ends, and has a score.

1. Nothing void: no text of the agent raises, and the episode can be measured.
2. What is recorded can be stored: JSON without NaN, UTF-8.
"""

import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import turngate
from tests.fuzz import counting_tools
from tests.fuzz.budget import examples
from tests.fuzz.texts import action_texts, json_texts
from turngate.envs.base import TurnEnv
from turngate.tools.read import parse
from turngate.types import Ending

CALLS = [{"name": "cancel", "arguments": {"order": "A1"}}, {"name": "multiply", "arguments": {"times": 2}}]
COUNTED = [
    {"id": "state", "prompt": "Cancel A1, double n.", "gold": CALLS, "goal": {"type": "state"}},
    {
        "id": "check",
        "prompt": "Cancel A1.",
        "gold": CALLS[:1],
        "goal": {"type": "state", "check": f"{counting_tools.__name__}:is_cancelled", "free": ["n", "share", "log"]},
    },
    {
        "id": "more",
        "prompt": "Scale, note, remove.",
        "gold": [
            {"name": "scale", "arguments": {"by": 1.5}},
            {"name": "note", "arguments": {"what": ["a", 1]}},
            {"name": "remove", "arguments": {"order": "A1"}},
        ],
        "goal": [{"type": "calls", "spare": 9}, {"type": "answer", "answer": "3", "match": "number"}],
    },
]
SHIPPED: dict[str, tuple[int, Callable[[Any], TurnEnv]]] = {
    "lock": (60, lambda _: turngate.make("turngate/Lock-v1")),
    "sql": (60, lambda _: turngate.make("turngate/Sql-v1")),
    "sql_lookup": (40, lambda _: turngate.make("turngate/Sql-v1", tasks="lookup_sql")),
    "code": (25, lambda _: turngate.make("turngate/CodeRepair-v1", deadline_s=5.0)),
    "search": (60, lambda _: turngate.make("turngate/Search-v1")),
    "lending": (60, lambda _: turngate.make("turngate/ToolUse-v1")),
    "retail": (40, lambda _: turngate.make("turngate/ToolUse-v1", tasks="retail")),
    "travel": (40, lambda _: turngate.make("turngate/ToolUse-v1", tasks="travel")),
    "helpdesk": (40, lambda _: turngate.make("turngate/ToolUse-v1", tasks="helpdesk")),
    "own_tools": (80, lambda folder: _counting(folder)),
    "router": (60, lambda _: turngate.make("turngate/Router-v1")),
    "planned": (30, lambda _: turngate.make("turngate/Planned-v1", env="turngate/Sql-v1")),
}

EIGHT_TIMES = '<tool_call>{"name": "multiply", "arguments": {"times": %s}}</tool_call>' % ("9" * 99) * 8
FOUND = {"own_tools": [(seed, [EIGHT_TIMES] * 8) for seed in range(3)]}
"""Episodes that were void once: a number of the state grew until Python could not write it down."""


def _counting(folder) -> TurnEnv:
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in COUNTED))
    tasks = {"type": "tool_tasks", "file": str(folder / "tasks.jsonl"), "held_out": 0}
    return turngate.make("turngate/ToolUse-v1", tools=counting_tools.__name__, tasks=tasks)


@pytest.fixture(scope="module", params=SHIPPED)
def opened(request, tmp_path_factory) -> Iterator[tuple[str, TurnEnv]]:
    env = SHIPPED[request.param][1](tmp_path_factory.mktemp("tools"))
    yield request.param, env
    env.close()


def near_gold(env: TurnEnv, plan: list[str]) -> st.SearchStrategy[str]:
    """A call of the environment's own solution in which one argument has an odd value."""
    calls = [call for action in plan for call in parse(action, env.turn_spec.tools).calls if call.arguments]
    if not calls:
        return st.sampled_from(plan)

    @st.composite
    def one(draw: st.DrawFn) -> str:
        call = draw(st.sampled_from(calls))
        odd = draw(st.sampled_from(sorted(call.arguments)))
        values = {name: json.dumps(value) for name, value in call.arguments.items()} | {odd: draw(json_texts(3))}
        table = ", ".join(f"{json.dumps(name)}: {value}" for name, value in values.items())
        text = f'<tool_call>{{"name": "{call.name}", "arguments": {{{table}}}}}</tool_call>'
        return text * draw(st.sampled_from([1, 1, 1, 2, 8]))

    return one()


@st.composite
def episodes(draw: st.DrawFn, env: TurnEnv) -> tuple[int, list[str]]:
    """A seed and what the agent writes, some of it as the environment's own solution has it."""
    seed = draw(st.integers(0, 3))
    _, info = env.reset(seed=seed)
    plan = list(env.oracle(env.tasks.find(info["task_id"])))
    tools = env.turn_spec.tools
    names = [tool.name for tool in tools] or ["answer"]
    arguments = [parameter.name for tool in tools for parameter in tool.parameters]
    odd = st.one_of(near_gold(env, plan), near_gold(env, plan), action_texts(names, arguments))
    wanted = draw(st.integers(0, len(plan)))
    return seed, [*plan[:wanted], *draw(st.lists(odd, max_size=4)), *draw(st.sampled_from([[], plan[wanted:]]))]


def assert_scored(env: TurnEnv, seed: int, actions: list[str]) -> None:
    """Play these actions; the episode ends by itself or is cut short, and has a score and facts that can be stored."""
    env.reset(seed=seed)
    facts, info, over = [], {}, False
    for action in actions:
        seen, reward, terminated, truncated, info = env.step(action)
        assert seen.text.strip()
        assert math.isfinite(reward)
        facts += info["evidence"]
        if over := terminated or truncated:
            break
    if not over:
        _, info = env.finish(Ending.TOKEN_BUDGET)
        facts += info["evidence"]
    assert info["score"].usable, info["score"].problem
    assert math.isfinite(info["score"].total)
    json.dumps([[fact.name, fact.value] for fact in facts], allow_nan=False, ensure_ascii=False).encode()


@pytest.mark.timeout(1200)
def test_no_text_of_an_agent_voids_an_episode(opened):
    name, env = opened

    @examples(SHIPPED[name][0])
    @given(played=episodes(env))
    def play(played):
        assert_scored(env, *played)

    for played in FOUND.get(name, ()):
        play = example(played=played)(play)
    play()
