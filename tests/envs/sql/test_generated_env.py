"""The environment on the tasks that ship with it: every one can be won, and by nothing less than an answer."""

import pytest

from turngate.envs.sql.env import SqlEnv


def play(env: SqlEnv, *, split: str, index: int, answer: str | None = None) -> tuple[float, list[str]]:
    """Total reward of the oracle, or of submitting ``answer``, and everything that the agent read before its query."""
    task = env.tasks.task(split, index)
    observation, _ = env.reset(options={"task": task})
    total, read = 0.0, [observation.text]
    for action in env.oracle(task) if answer is None else ["list_tables", f"submit {answer}"]:
        observation, reward, *_ = env.step(action)
        total += reward
        if not action.startswith(("run_sql", "submit")):
            read.append(observation.text)
    return total, read


@pytest.mark.parametrize("split", ["train", "heldout", "newfamily"])
def test_generated_tasks_can_be_won(split: str) -> None:
    env = SqlEnv(split=split)
    for index in range(60):
        total, read = play(env, split=split, index=index)
        assert total == pytest.approx(1.1), index
        assert env.tasks.task(split, index).private["gold"] not in "\n".join(read)
    env.close()


def test_reference_tasks_can_be_won() -> None:
    env = SqlEnv(tasks="reference_sql")
    size = env.tasks.size(env.split)
    assert size is not None
    for index in range(size):
        assert play(env, split=env.split, index=index)[0] == pytest.approx(1.1), index
    env.close()


@pytest.mark.parametrize("answer", ["SELECT 1 WHERE 0", "SELECT 1", "SELECT NULL", "SELECT 0", "SELECT 'a'"])
def test_a_constant_rarely_wins(answer: str) -> None:
    """A constant can only be right by luck: where the true answer is that very number."""
    env = SqlEnv(split="heldout")
    won = sum(play(env, split="heldout", index=index, answer=answer)[0] > 0 for index in range(60))
    assert won <= (0 if "WHERE 0" in answer or "NULL" in answer else 5)
    env.close()


def test_the_seed_picks_the_task() -> None:
    env = SqlEnv()
    texts = []
    for seed in (3, 3, 4):
        observation, info = env.reset(seed=seed)
        texts.append((observation, info["task_id"]))
    assert texts[0] == texts[1] != texts[2]
    env.close()
