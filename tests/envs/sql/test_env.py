"""``turngate/Sql-v1`` turn by turn: what the agent reads, which evidence is measured, what is paid.

1. Observations are compact text within a budget; the question comes first, no schema and no answer.
2. Only ``submit`` ends the episode; without a query that ran it says so and goes on.
3. A bad call is an observation; one call per turn.
4. The outcome is measured on a copy that the agent never touched; a gold query that fails is never a zero.
5. Equal situations have equal state keys, others do not.
"""

from collections.abc import Callable
from typing import Any

import gymnasium
import pytest

import turngate.envs  # noqa: F401  registers the environments
from turngate.envs.sql.engine.database import QueryResult
from turngate.envs.sql.engine.text import CELL_CHARS, cell_text, clip, result_text
from turngate.envs.sql.env import COMMANDS, GOAL, SqlEnv
from turngate.envs.sql.facts import MOST_CELLS, recorded_rows
from turngate.envs.tasks import TaskList
from turngate.errors import ConfigError, UnknownName, VerifierError
from turngate.types import Action, Ending, Observation, Task, ToolCall

MakeTask = Callable[..., Task]
GOLD = "SELECT title FROM books WHERE price < 5"


def play(env: SqlEnv, task: Task, *actions: str | Action) -> tuple[list[Observation], dict[str, Any], float]:
    """Observations of all actions, the last info and the total reward."""
    first, _ = env.reset(options={"task": task})
    seen, total = [first], 0.0
    info: dict[str, Any] = {}
    for action in actions:
        observation, reward, terminated, truncated, info = env.step(action)
        seen.append(observation)
        total += reward
        assert (terminated, truncated) == (info["ending"] is Ending.FINISHED, info["ending"] is Ending.MAX_TURNS)
    return seen, info, total


def measured(info: dict[str, Any]) -> dict[str, Any]:
    return {fact.name: fact.value for fact in info["evidence"]}


@pytest.fixture
def env(make_task: MakeTask) -> SqlEnv:
    return SqlEnv(tasks=TaskList([make_task(GOLD)]), deadline_s=0.5)


# --- what the agent reads --------------------------------------------------------------------------------------------


def test_a_whole_episode_as_the_agent_sees_it(env: SqlEnv, make_task: MakeTask) -> None:
    task = make_task(GOLD)
    seen, info, total = play(env, task, "list_tables", "describe books", f"run_sql {GOLD}", "submit")
    assert [observation.text for observation in seen] == [
        f"{GOAL}{COMMANDS}.\nQuestion: Which books?",
        "authors(3 rows), books(4 rows), loans(3 rows), cheap(view)",
        "id INTEGER PRIMARY KEY, title TEXT, author_id INTEGER -> authors.id, price REAL",
        "title\nAsh\nDew\n(2 rows)",
        "submitted",
    ]
    found = measured(info)
    assert found | {"parsed": True, "tool": "submit", "answer": GOLD, "submitted": True, "correct": True} == found
    assert total == pytest.approx(1.1)
    assert [(event.name, event.paid) for event in info["ledger"]] == [("correct", 1.0), ("executes", 0.1)]


def test_the_instruction_is_short() -> None:
    assert len(f"{GOAL}{COMMANDS}.".split()) <= 30


def test_the_oracle_wins(env: SqlEnv, make_task: MakeTask) -> None:
    task = make_task(GOLD)
    actions = env.oracle(task)
    assert actions == ["list_tables", "describe books", f"run_sql {GOLD}", "submit"]
    assert play(env, task, *actions)[2] == pytest.approx(1.1)


def test_the_gold_query_is_nowhere_to_be_read_until_the_verifier_records_it(env: SqlEnv, make_task: MakeTask) -> None:
    task = make_task(GOLD)
    seen, info, _ = play(env, task, "list_tables", "describe books", "run_sql SELECT * FROM sqlite_stmt", "submit")
    assert all("price < 5" not in observation.text for observation in seen)
    unverified = [fact for fact in info["evidence"] if fact.name != "gold_query"]
    assert "price < 5" not in repr({**info, "evidence": unverified})
    assert [fact.by for fact in info["evidence"] if fact.name == "gold_query"] == ["verifier"]
    assert "price < 5" not in repr(task)


@pytest.mark.parametrize(
    ("action", "text"),
    [
        ("describe nowhere", "error: no table 'nowhere'; tables: authors, books, loans, cheap"),
        ("describe cheap", "title TEXT"),
        ("run_sql SELECT x FROM books", "error: no such column: x"),
        ("run_sql DELETE FROM books", "error: the database is read-only; only SELECT is allowed"),
        ("run_sql SELECT id, price FROM books WHERE id = 3", "id | price\n3 | NULL\n(1 row)"),
        ("run_sql SELECT 1 AS a WHERE 0", "a\n(0 rows)"),
        ("fly", "error: unknown tool 'fly'; tools: list_tables | describe TABLE | run_sql SQL | submit [SQL]"),
        ("run_sql", "error: run_sql needs SQL; write: run_sql SQL"),
        ("", "error: empty; tools: list_tables | describe TABLE | run_sql SQL | submit [SQL]"),
        ("submit", "error: no query has run without error yet; run one or write: submit SQL"),
    ],
)
def test_observations(env: SqlEnv, make_task: MakeTask, action: str, text: str) -> None:
    seen, info, _ = play(env, make_task(GOLD), action)
    assert seen[1].text == text
    assert info["ending"] is None


def result(n_rows: int, count: int | None, width: int = 1) -> QueryResult:
    rows = [("x" * width, i) for i in range(n_rows)]
    return QueryResult(columns=("name", "n"), rows=rows, count=count, complete=count == n_rows)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (result(2, 2), "name | n\nx | 0\nx | 1\n(2 rows)"),
        (result(3, 3), "name | n\nx | 0\nx | 1\n(3 rows, 2 shown)"),
        (result(3, 90_000), "name | n\nx | 0\nx | 1\n(90000 rows, 2 shown)"),
        (result(3, None), "name | n\nx | 0\nx | 1\n(more than 3 rows, 2 shown)"),
        (result(1, 1), "name | n\nx | 0\n(1 row)"),
        (result(0, 0), "name | n\n(0 rows)"),
        (QueryResult(error="no such table: x"), "error: no such table: x"),
        (result(2, 2, width=90), "name | n\n" + "x" * 59 + "… | 0\n(2 rows, 1 shown)"),
        (QueryResult(columns=("c" * 200,), rows=[(1,)], count=1, complete=True), "c" * 81 + "…\n(1 row, 0 shown)"),
    ],
)
def test_results_keep_the_head_and_the_true_count(shown: QueryResult, text: str) -> None:
    assert result_text(shown, max_rows=2, max_chars=100) == text


@pytest.mark.parametrize("max_chars", [80, 100, 300])
def test_results_stay_within_the_budget(max_chars: int) -> None:
    for width in (1, 20, 70):
        for n_rows in (0, 1, 5, 40):
            for count in (n_rows, 10**6, None):
                text = result_text(result(n_rows, count, width), max_rows=30, max_chars=max_chars)
                assert len(text) <= max_chars


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, "NULL"),
        (1.5, "1.5"),
        (b"\x00\xff", "x'00ff'"),
        (b"a" * 17, f"x'{'61' * 16}…'"),
        ("two\nlines\tand\x00more", "two lines and\x00more"),
        ("é" * 61, "é" * (CELL_CHARS - 1) + "…"),
    ],
)
def test_cells(cell: object, text: str) -> None:
    assert cell_text(cell) == text


def test_clip() -> None:
    assert [clip("abc", 3), clip("abcd", 3)] == ["abc", "ab…"]


def test_a_long_schema_is_cut(make_image: Callable[[str], bytes], make_task: MakeTask) -> None:
    image = make_image("".join(f"CREATE TABLE table_number_{i} (x);" for i in range(100)))
    env = SqlEnv(tasks=TaskList([make_task("SELECT 1", database=image)]), max_chars=90)
    seen, _, _ = play(env, make_task("SELECT 1", database=image), "list_tables", "describe x")
    assert [len(observation.text) for observation in seen[1:]] == [90, 90]
    assert seen[1].text.endswith("…")


# --- evidence --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actions", "evidence"),
    [
        (["list_tables"], {"parsed": True, "tool": "list_tables"}),
        (["describe nowhere"], {"parsed": True, "tool": "describe"}),
        (["fly"], {"parsed": False}),
        (
            ["run_sql SELECT 1"],
            {"parsed": True, "tool": "run_sql", "executes": True, "repeated": False, "empty": False},
        ),
        (
            ["run_sql SELECT 1 WHERE 0"],
            {"parsed": True, "tool": "run_sql", "executes": True, "repeated": False, "empty": True},
        ),
        (["run_sql SELECT x"], {"parsed": True, "tool": "run_sql", "executes": False, "repeated": False}),
        (
            ["run_sql SELECT x", "run_sql SELECT   x"],
            {"parsed": True, "tool": "run_sql", "executes": False, "repeated": True},
        ),
        (
            ["run_sql DROP TABLE books"],
            {"parsed": True, "tool": "run_sql", "executes": False, "repeated": False, "write_attempt": True},
        ),
        (
            ["run_sql WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c) SELECT max(x) FROM c"],
            {"parsed": True, "tool": "run_sql", "executes": False, "repeated": False, "timed_out": True},
        ),
        (["submit"], {"parsed": True, "tool": "submit"}),
        (
            [f"submit {GOLD}"],
            {
                **{"parsed": True, "tool": "submit", "executes": True, "repeated": False, "empty": False},
                **{"answer": GOLD, "submitted": True, "correct": True},
            },
        ),
        (
            ["submit SELECT x"],
            {
                "parsed": True,
                "tool": "submit",
                "executes": False,
                "repeated": False,
                "answer": "SELECT x",
                "submitted": True,
                "correct": False,
            },
        ),
    ],
)
def test_evidence(env: SqlEnv, make_task: MakeTask, actions: list[str], evidence: dict[str, Any]) -> None:
    _, info, _ = play(env, make_task(GOLD), *actions)
    found = measured(info)
    compared = ("reply", "action_key", "gold_query", "rows", "gold_rows", "ordered")
    beside = {name: found.pop(name) for name in compared if name in found}
    assert found == evidence
    assert beside["reply"] == actions[-1]
    assert ("action_key" in beside) == ("tool" in evidence)
    if "correct" in evidence:
        rows = beside["gold_rows"] if evidence["correct"] else False
        assert (beside["gold_query"], beside["rows"], beside["ordered"]) == (GOLD, rows, False)
        assert beside["gold_rows"]
    about_turns = {fact.turn for fact in info["evidence"] if fact.by == "env" and fact.name != "answer"}
    assert about_turns == {len(actions) - 1}
    assert {fact.turn for fact in info["evidence"] if fact.by == "verifier"} <= {None}


def test_rows_are_recorded_as_json_and_only_so_many() -> None:
    rows = [(1, "é", None, b"\x01\xff", float("inf"), 0.5)]
    assert recorded_rows(rows) == [[1, "é", None, "x'01ff'", "inf", 0.5]]
    assert recorded_rows([(0,)] * MOST_CELLS) == [[0]] * MOST_CELLS
    assert recorded_rows([(0,)] * (MOST_CELLS + 1)) is None


def test_one_call_per_turn(env: SqlEnv, make_task: MakeTask) -> None:
    call = '<tool_call>{"name": "list_tables", "arguments": {}}</tool_call>'
    seen, info, _ = play(env, make_task(GOLD), call + call)
    assert seen[1].text == "error: 2 tool calls in one turn, none was carried out; write exactly one"
    assert measured(info) == {"parsed": False, "reply": call + call}
    assert play(env, make_task(GOLD), call)[0][1].text.startswith("authors(3 rows)")


def test_actions_built_by_hand_cannot_break_it(env: SqlEnv, make_task: MakeTask) -> None:
    strange = [
        Action(text="", calls=()),
        Action(text="", calls=(ToolCall(name="fly", arguments={}),)),
        Action(text="", calls=(ToolCall(name="describe", arguments={}),)),
        Action(text="", calls=(ToolCall(name="run_sql", arguments={"sql": "\ud800"}),)),
    ]
    seen, info, _ = play(env, make_task(GOLD), *strange)
    assert all(observation.text.startswith("error: ") for observation in seen[1:])
    assert info["ending"] is None


def test_without_a_submission_there_is_no_answer(env: SqlEnv, make_task: MakeTask) -> None:
    play(env, make_task(GOLD), f"run_sql {GOLD}")
    _, info = env.finish(Ending.TOKEN_BUDGET)
    assert measured(info)["answer"] is None


# --- ending and outcome ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actions", "correct", "total"),
    [
        ([f"run_sql {GOLD}", "run_sql SELECT nope", "submit"], True, 1.05),  # the last query that ran counts
        ([f"run_sql {GOLD}", "run_sql SELECT 1", "submit"], False, 0.0),
        ([f"submit {GOLD} -- with a remark"], True, 1.1),
        (["submit SELECT title FROM books WHERE id IN (4, 1)"], True, 1.1),
        (["submit SELECT title, 1 FROM books WHERE price < 5"], False, 0.0),
        (["submit nonsense"], False, 0.0),
        (["run_sql DELETE FROM books", f"submit {GOLD}"], True, -1.0),  # vetoed
    ],
)
def test_outcomes(env: SqlEnv, make_task: MakeTask, actions: list[str], correct: bool, total: float) -> None:
    _, info, paid = play(env, make_task(GOLD), *actions)
    assert info["ending"] is Ending.FINISHED
    assert measured(info)["correct"] is correct
    assert paid == pytest.approx(total)


def test_order_matters_if_the_task_says_so(env: SqlEnv, make_task: MakeTask) -> None:
    gold = "SELECT title FROM books ORDER BY title"
    for ordered, expected in ((True, False), (False, True)):
        _, info, _ = play(env, make_task(gold, ordered=ordered), f"submit {gold} DESC")
        assert measured(info)["correct"] is expected


def test_without_submission_nothing_is_right(make_task: MakeTask) -> None:
    env = SqlEnv(tasks=TaskList([make_task(GOLD)]), max_turns=2)
    _, info, total = play(env, make_task(GOLD), "list_tables", f"run_sql {GOLD}")
    assert info["ending"] is Ending.MAX_TURNS
    assert (measured(info)["submitted"], measured(info)["correct"], total) == (False, False, 0.0)


@pytest.mark.parametrize(
    ("gold", "problem"),
    [
        ("SELECT nope FROM books", "fails: no such column"),
        ("SELECT 1 WHERE 0", "no rows"),
        ("DELETE FROM books", "fails"),
        ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c) SELECT max(x) FROM c", "stopped after"),
        ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 100001) SELECT x FROM c", "100000 rows"),
    ],
)
@pytest.mark.parametrize("answer", ["submit SELECT 1", "list_tables"])
def test_a_gold_query_that_fails_is_never_a_zero(make_task: MakeTask, gold: str, problem: str, answer: str) -> None:
    env = SqlEnv(tasks=TaskList([make_task(gold)]), max_turns=1, deadline_s=0.5)
    env.reset(options={"task": make_task(gold)})
    with pytest.raises(VerifierError, match=problem):
        env.step(answer)


def test_a_damaged_database_speaks_in_observations(make_task: MakeTask) -> None:
    task = make_task(GOLD, database=b"no database" * 500)
    env = SqlEnv(tasks=TaskList([task]))
    seen, _, _ = play(env, task, "list_tables", "describe books", "run_sql SELECT 1 FROM books")
    assert {observation.text for observation in seen[1:]} == {"error: file is not a database"}
    with pytest.raises(VerifierError, match="not a database"):
        env.step("submit SELECT 1")


def test_a_long_answer_is_compared_whole(make_task: MakeTask, env: SqlEnv) -> None:
    """More rows than a result keeps: the query runs again, up to one row more than the gold result has."""
    count = "WITH RECURSIVE c(x) AS (SELECT {a} UNION ALL SELECT x + 1 FROM c LIMIT {n}) SELECT x FROM c"
    gold = count.format(a=1, n=20_000)
    for query, expected in ((gold, True), (count.format(a=0, n=20_000), False), (count.format(a=1, n=20_001), False)):
        _, info, _ = play(env, make_task(gold), f"run_sql {query}", "submit")
        assert measured(info)["correct"] is expected


# --- state -----------------------------------------------------------------------------------------------------------


def test_state_keys(env: SqlEnv, make_task: MakeTask, make_image: Callable[[str], bytes]) -> None:
    task = make_task(GOLD)

    def key(*actions: str) -> str:
        return play(env, task, *actions)[0][-1].state_key

    assert key() == key()
    assert play(env, make_task("SELECT 1"), "list_tables")[0][1].state_key == key("list_tables")
    assert key("describe books", "describe authors", "list_tables") == key(
        "describe authors", "describe books", "list_tables"
    )
    assert key("run_sql SELECT 7 AS a") == key("run_sql SELECT 8 - 1 AS a")
    different = [
        key(),
        key("list_tables"),
        key("describe books"),
        key("describe books", "list_tables"),
        key("run_sql SELECT 7"),
        key("run_sql SELECT 7", "list_tables"),
        key("run_sql SELECT x"),
    ]
    assert len(set(different)) == len(different)
    other = make_task(GOLD, database=make_image("CREATE TABLE books (x)"))
    assert play(env, other)[0][0].state_key not in different


def test_nothing_is_carried_into_the_next_episode(env: SqlEnv, make_task: MakeTask) -> None:
    task = make_task(GOLD)
    first, _, _ = play(env, task, "describe books", f"run_sql {GOLD}", "submit")
    seen, info, _ = play(env, task, "submit")
    assert seen[0] == first[0]
    assert info["ending"] is None
    again, info, _ = play(env, task, "describe books", f"run_sql {GOLD}", "submit")
    assert again == first
    assert measured(info)["correct"] is True


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", [{"deadline_s": 0.0}, {"max_rows": 0}, {"max_chars": 10}, {"max_turns": 0}])
def test_settings_out_of_range_are_refused(make_task: MakeTask, setting: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(setting))):
        SqlEnv(tasks=TaskList([make_task(GOLD)]), **setting)


def test_unknown_tasks_and_splits(make_task: MakeTask) -> None:
    with pytest.raises(ConfigError, match="unknown task source type 'generate_sql'; did you mean 'generated_sql'"):
        SqlEnv(tasks="generate_sql")
    with pytest.raises(ConfigError, match=r"unknown key 'tasks\.families'; known: type"):
        SqlEnv(tasks={"type": "reference_sql", "families": ["library"]})
    with pytest.raises(UnknownName, match="split"):
        SqlEnv(tasks=TaskList([make_task(GOLD)]), split="dev")


def test_made_by_name(make_task: MakeTask) -> None:
    env = gymnasium.make("turngate/Sql-v1", tasks=TaskList([make_task(GOLD)]))
    assert isinstance(env.unwrapped, SqlEnv)
    env.close()


def test_a_closed_environment_can_start_again(env: SqlEnv, make_task: MakeTask) -> None:
    play(env, make_task(GOLD), "run_sql SELECT 1")
    env.close()
    env.close()
    assert play(env, make_task(GOLD), f"submit {GOLD}")[2] == pytest.approx(1.1)
