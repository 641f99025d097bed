"""Hints of SQL tasks: each level says more, and none holds the gold query."""

import pytest

import turngate
from turngate.envs.leak import leaked_secret
from turngate.envs.sql.hints import clauses_of, sql_hint, with_hole
from turngate.envs.sql.task import SqlTask
from turngate.types import Task

JOINED = "SELECT a.x, count(*) FROM a JOIN b ON a.b_id = b.id WHERE b.y = 'on me' GROUP BY a.x ORDER BY a.x LIMIT 3"


def test_the_levels_of_a_join():
    asked = SqlTask(database=b"", key="k", gold=JOINED, ordered=False, tables=("a", "b"))
    task = Task(id="t", env_id="e", prompt="?", private=asked.private())
    levels = [sql_hint(task, level) for level in range(6)]
    assert levels == [
        None,
        "Tables: a, b.",
        "Tables: a, b. Join: a.b_id = b.id.",
        "Tables: a, b. Join: a.b_id = b.id. Clauses: "
        "SELECT … FROM … JOIN … ON … WHERE … GROUP BY … ORDER BY … LIMIT ….",
        "Tables: a, b. Query: SELECT a.x, count(*) FROM a JOIN b ON a.b_id = b.id WHERE … GROUP BY a.x ORDER BY a.x "
        "LIMIT 3",
        None,
    ]


@pytest.mark.parametrize(
    ("sql", "clauses", "hole"),
    [
        ("select n from t;", "SELECT … FROM …", "select … from t"),
        ("SELECT DISTINCT n FROM t", "SELECT DISTINCT … FROM …", "SELECT … FROM t"),
        (
            "SELECT n FROM t WHERE x = (SELECT max(x) FROM t)",
            "SELECT … FROM … WHERE … (SELECT … FROM …)",
            "SELECT n FROM t WHERE …",
        ),
        (
            "SELECT n FROM t WHERE x < 1 UNION ALL SELECT m FROM u ORDER  BY 1",
            "SELECT … FROM … WHERE … UNION ALL SELECT … FROM … ORDER BY …",
            "SELECT n FROM t WHERE … UNION ALL SELECT m FROM u ORDER  BY 1",
        ),
        ("SELECT \"from\" FROM t WHERE n = 'where'", "SELECT … FROM … WHERE …", 'SELECT "from" FROM t WHERE …'),
    ],
)
def test_clauses_and_hole_of_any_query(sql, clauses, hole):
    assert clauses_of(sql) == clauses
    assert with_hole(sql) == hole


@pytest.mark.parametrize("tasks", [None, {"type": "lookup_sql"}])
def test_no_level_of_a_generated_task_holds_its_query(tasks):
    with turngate.make("turngate/Sql-v1", tasks=tasks) as env:
        for index in range(20):
            task = env.tasks.task("train", index)
            texts = [env.hint(task, level) for level in range(1, 5)]
            assert len(set(texts)) == 4
            assert [leaked_secret(text, env.secrets(task), task.prompt) for text in texts] == [""] * 4
            assert all(table in texts[0] for table in task.private["tables"])


def test_a_look_up_task_says_what_to_look_up_and_not_what_it_finds():
    with turngate.make("turngate/Sql-v1", tasks={"type": "lookup_sql"}) as env:
        task = env.tasks.task("train", 0)
        columns = [need["column"] for need in task.private["needs"]]
        assert f"Look up: {', '.join(columns)}." in env.hint(task, 2)
        assert env.hint(task, 4).endswith(task.private["frame"].format(*["…"] * len(columns)))


@pytest.mark.parametrize("tasks", [None, {"type": "lookup_sql"}])
def test_the_whole_of_a_solution_gives_a_task_away_and_its_first_steps_do_not(tasks):
    with turngate.make("turngate/Sql-v1", tasks=tasks) as env:
        for index in range(10):
            task = env.tasks.task("train", index)
            (solution,) = env.solutions(task)
            assert leaked_secret("\n".join(solution), env.secrets(task), task.prompt)
            assert not leaked_secret("\n".join(solution[:2]), env.secrets(task), task.prompt)
