"""Errands at the desk of a library: the oracle solves them all, whoever acts at random or not at all solves none."""

import numpy as np
import pytest

import turngate
from turngate.envs.tooluse.generated.lending_tasks import FIRST, LAST, THINGS
from turngate.errors import UnknownName
from turngate.types import Ending

N = 150


@pytest.fixture(scope="module")
def desk():
    with turngate.make("turngate/ToolUse-v1") as env:
        yield env


def outcome(env, task, actions):
    env.reset(seed=0, options={"task": task})
    for action in actions:
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            return info["score"].outcome
    return env.finish(Ending.TIME_BUDGET)[1]["score"].outcome


@pytest.mark.parametrize("split", ["train", "heldout"])
def test_the_oracle_solves_every_task(desk, split):
    for number in range(N):
        task = desk.tasks.task(split, number)
        assert outcome(desk, task, desk.oracle(task)) == 1.0, task


def test_nobody_solves_one_by_chance(desk):
    rng = np.random.default_rng(0)
    won = idle = 0
    for number in range(N):
        task = desk.tasks.task("train", number)
        members, books = list(task.private["state"]["members"]), list(task.private["state"]["books"])
        book, member = (names[int(rng.integers(len(names)))] for names in (books, members))
        plays = (f"lend {book} {member}", f"take_back {book}", f"list_loans {member}", f"find_book {book}")
        acts = [plays[int(rng.integers(len(plays)))] for _ in range(3)]
        won += outcome(desk, task, [*acts, f"answer {book}"]) == 1.0
        idle += outcome(desk, task, ["answer"]) == 1.0
    assert idle == 0
    assert won <= 0.06 * N


def test_tasks_are_the_same_again_and_found_by_their_ids(desk):
    assert desk.tasks.find("lending/heldout/7") == desk.tasks.task("heldout", 7)
    assert len({desk.tasks.task("train", number).prompt for number in range(N)}) > N / 2
    for wrong in ("lending/train/x", "lending/dev/1", "lending-2/train/1", "lending/train/01", "x"):
        with pytest.raises(UnknownName):
            desk.tasks.find(wrong)


def test_held_out_names_are_apart():
    assert not set(LAST["train"]) & set(LAST["heldout"])
    assert not set(THINGS["train"]) & set(THINGS["heldout"])
    assert len(set(FIRST)) == len(FIRST)


def test_the_hardest_level_can_be_lowered():
    with turngate.make("turngate/ToolUse-v1", tasks={"type": "lending", "max_level": 1}) as env:
        for number in range(20):
            task = env.tasks.task("train", number)
            assert task.id == f"lending-1/train/{number}"
            assert len(env.oracle(task)) == 2
