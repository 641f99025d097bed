"""A question without documents: one tool, an oracle, no hint; and the next episode has its documents again."""

import pytest

import turngate
from turngate.envs.search.loaders.closed_book import closed_book, is_closed_book, is_search
from turngate.types import Task


@pytest.fixture
def env():
    with turngate.make("turngate/Search-v1") as env:
        yield env


def begun(env, task):
    observation, info = env.reset(seed=0, options={"task": task})
    return observation.text, [one["function"]["name"] for one in info["tools"]]


def test_only_the_answer_is_left(env):
    task = env.tasks.task("train", 0)
    assert not is_closed_book(task)
    text, tools = begun(env, closed_book(task))
    assert text == f"Answer the question from what you know: answer TEXT.\nQuestion: {task.prompt}"
    assert tools == ["answer"]
    seen, *_, info = env.step(f"open {task.private['documents'][0]}")
    assert seen.text.startswith("error: ")
    assert {fact.name: fact.value for fact in info["evidence"]} == {"parsed": False}
    *_, info = env.step(f"answer {task.private['gold'][0]}")
    assert {fact.name: fact.value for fact in info["evidence"]}["closed_book"] is True
    assert info["score"].outcome == 1.0
    assert begun(env, task)[1] == ["search", "open", "cite", "answer"]


def test_its_oracle_answers_and_its_hints_name_no_documents(env):
    task = closed_book(env.tasks.task("train", 1))
    assert env.oracle(task) == [f"answer {task.private['gold'][0]}"]
    assert [env.hint(task, level) for level in (1, 2, 3)] == [None] * 3
    assert env.hint(env.tasks.task("train", 1), 1)


def test_a_fork_has_the_same_tools(env):
    task = env.tasks.task("train", 0)
    begun(env, closed_book(task))
    kept = env.snapshot()
    begun(env, task)
    env.restore(kept)
    assert env.step("search x")[0].text.startswith("error: ")


def test_tasks_of_other_environments_have_no_documents_to_withhold(env):
    assert is_search(env.tasks.task("train", 0))
    assert not is_search(Task(id="t", env_id="turngate/Lock-v1", prompt="Open it."))
