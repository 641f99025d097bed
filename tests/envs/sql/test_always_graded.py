"""No action takes an episode out of the mean: whatever an agent does ends in an observation or in a failure.

1. Huge, endless and hungry actions are observations.
2. What the answer is compared with is found before the agent acts, so nothing that it does can get in the way.
3. Where an action leaves no memory, the episode is a failure with a reason.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from turngate.envs.sql.engine.database import Database, QueryResult
from turngate.envs.sql.env import SqlEnv
from turngate.envs.tasks import TaskList
from turngate.types import Action, Ending, Task, ToolCall

MakeTask = Callable[..., Task]
GOLD = "SELECT title FROM books"
COUNTING = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
ACTIONS = [
    "run_sql SELECT '" + "x" * 300_000 + "'",
    "describe " + "x" * 300_000,
    "x" * 2_000_000,
    "run_sql \ud800",
    "run_sql SELECT 1\0",
    f"run_sql {COUNTING} SELECT sum(x) FROM c",
    f"run_sql {COUNTING} SELECT x, hex(zeroblob(20000)) AS z FROM c ORDER BY z",
    "run_sql SELECT " + "(" * 9_000 + "1",
    "run_sql ATTACH '/dev/full' AS p",
    "run_sql SELECT interrupt()",
    Action(text="x", calls=(ToolCall(name="run_sql", arguments={"sql": "SELECT 1" * 100_000}),)),
    Action(text="x", calls=(ToolCall(name="describe", arguments={"table": ["a"] * 1000}),)),
]


@pytest.mark.parametrize("ends", ["submit", "finish"])
def test_no_action_voids_an_episode(make_task: MakeTask, ends: str) -> None:
    task = make_task(GOLD)
    env = SqlEnv(tasks=TaskList([task]), deadline_s=0.3, max_turns=99)
    for action in ACTIONS:
        env.reset(options={"task": task})
        observation, *_, info = env.step(action)
        assert observation.text.startswith("error: ")
        assert info["ending"] is None
        if ends == "submit" and isinstance(action, str):
            *_, info = env.step(action.replace("run_sql", "submit"))
        if info["ending"] is None:
            info = env.finish(Ending.TOKEN_BUDGET)[1]
        assert (info["score"].usable, info["score"].outcome) == (True, 0.0)
    env.close()


def test_the_gold_rows_are_known_before_the_agent_acts(make_task: MakeTask, library: bytes, tmp_path: Path) -> None:
    file = tmp_path / "x.sqlite"
    file.write_bytes(library)
    gold = "SELECT title FROM books WHERE id < 3"
    task = make_task(gold, database=str(file))
    env = SqlEnv(tasks=TaskList([task]))
    env.reset(options={"task": task})
    env.step("run_sql SELECT 1")
    file.unlink()
    *_, info = env.step(f"submit {gold}")
    assert info["score"].outcome == 1.0
    env.close()


def test_an_action_that_leaves_no_memory_is_a_failure(make_task: MakeTask, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Database, sql: str, **settings: object) -> QueryResult:
        raise MemoryError

    task = make_task("SELECT id FROM books")
    env = SqlEnv(tasks=TaskList([task]))
    env.reset(options={"task": task})
    monkeypatch.setattr(Database, "run", full)
    *_, terminated, _, info = env.step("run_sql SELECT 1")
    assert (terminated, info["ending"]) == (True, Ending.AGENT_FAULT)
    assert info["evidence"][-1].value == "a query needs more memory than there is"
    assert (info["score"].usable, info["score"].outcome) == (True, 0.0)
