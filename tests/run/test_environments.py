"""The environments of a run: tasks in shares, each paid by its own rubric, unsafe rubrics refused."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import models
from turngate.agents.policies.scripted import ScriptedPolicy, by_task
from turngate.agents.rollout import Player, TokenLimits, play_groups
from turngate.config.run_config import parse
from turngate.config.sections import EnvSection
from turngate.envs.lock import RUBRIC
from turngate.errors import ConfigError, UnknownName
from turngate.rewards import FromEvidence, Rubric
from turngate.run.environments import Environments
from turngate.trainer.curriculum.task_order import shares
from turngate.types import Evidence, Group

LOCK = "turngate/Lock-v1"
TWO = (EnvSection(id=LOCK, name="one", weight=3.0), EnvSection(id=LOCK, name="two", split="heldout"))
UNSAFE = Rubric(
    rewards=(
        FromEvidence(name="opened", evidence="opened", kind="outcome", weight=1.0),
        FromEvidence(name="key", evidence="right_key", kind="process", weight=2.0, per_turn=True),
    )
)


def test_one_environment_keeps_the_ids_of_its_tasks():
    with Environments((EnvSection(id=LOCK),)) as environments:
        (task,) = environments.heldout(LOCK, "heldout", 1)
        assert (task.id, task.env_id) == ("lock/heldout/0", LOCK)
        assert environments.find("lock/train/3").id == "lock/train/3"


def test_several_environments_share_each_step_by_weight_and_their_tasks_say_whose_they_are():
    with Environments(TWO) as environments:
        tasks_at = environments.stream(per_step=8, seed=0, first={"one": 5})
        for step in range(1, 6):
            tasks = tasks_at(step)
            assert [task.env_id for task in tasks] == ["one"] * 6 + ["two"] * 2
            assert len({task.id for task in tasks}) == 8
            assert tasks == tasks_at(step)
        assert tasks_at(1)[0].id == "one:lock/train/5"
        assert tasks_at(1)[6].id == "two:lock/heldout/0"
        assert environments.find("two:lock/train/1").env_id == "two"
        with pytest.raises(UnknownName, match="did you mean 'two'"):
            environments.find("twoo:lock/train/1")
        assert environments.split(10) == {"one": 7, "two": 3} or environments.split(10) == {"one": 8, "two": 2}


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_tasks_are_played_in_the_environment_that_they_name_in_threads_or_processes(isolation):
    """Two environments from a config, one with an own source; their ids differ, and every oracle wins in its own."""
    data = {
        "model": "some-model",
        "env": [
            {"id": LOCK, "name": "locks", "isolation": isolation},
            {"id": "turngate/Sql-v1", "tasks": {"type": "generated_sql", "families": ["shop"], "max_level": 1}},
        ],
    }
    with Environments(parse(data).env) as environments:
        tasks = [task for label, _ in environments for task in environments.heldout(label, "train", 3)]
        lines = {task.id: environments.of(task).oracle(task) for task in tasks}
        policy = ScriptedPolicy(by_task(lines), models.chat(), concurrency=3)

        async def go():
            async with environments.worlds(policy.concurrency) as worlds:
                player = Player(policy, models.chat(), TokenLimits(turn_tokens=400, context=20_000))
                return await play_groups(player, worlds, tasks, [[None]] * len(tasks), seed=0)

        groups = asyncio.run(asyncio.wait_for(go(), 60))
        assert [group.task.env_id for group in groups] == ["locks"] * 3 + ["turngate/Sql-v1"] * 3
        assert {environments.score(group).scores[0].outcome for group in groups} == {1.0}


def test_each_group_is_paid_by_the_rubric_of_its_environment():
    own = Rubric(rewards=(FromEvidence(name="keys", evidence="right_key", kind="outcome", agg="mean"),))
    sections = (EnvSection(id=LOCK, name="one"), EnvSection(id=LOCK, name="two", rubric=own))
    with Environments(sections) as environments:
        assert environments.rubrics == {"one": RUBRIC, "two": own}


def test_demonstrations_are_judged_without_the_runs_rubric_which_may_wait_for_an_examiner():
    judged = Rubric(rewards=(FromEvidence(name="standing", evidence="standing", kind="outcome"),))
    facts = (
        *(Evidence(name="right_key", value=True, turn=turn) for turn in range(3)),
        Evidence(name="opened", value=True),
    )
    shown = replace(models.trajectory([models.turn([1], [2])] * 3), evidence=facts)
    with Environments((EnvSection(id=LOCK, rubric=judged),)) as environments:
        (task,) = environments.heldout(LOCK, "heldout", 1)
        group = Group(task=task, trajectories=(replace(shown, task=task),))
        assert not environments.score(group).scores[0].usable
        assert environments.score_demonstration(group, {"standing"}).scores[0].outcome == 1
        assert not environments.score_demonstration(group, {"other"}).scores[0].usable


def test_an_unsafe_rubric_is_refused_with_the_episode_that_shows_it_unless_it_is_allowed():
    with pytest.raises(ConfigError, match=rf"the rubric of '{LOCK}' is unsafe: .+; repair it, or set env.allow_unsafe"):
        Environments((EnvSection(id=LOCK, rubric=UNSAFE),))
    with Environments((EnvSection(id=LOCK, rubric=UNSAFE, allow_unsafe=True),)) as environments:
        assert environments.unsafe[LOCK]
    with pytest.raises(ConfigError, match=r"env\.allow_unsafe has no effect: the rubric of '.*' is safe"):
        Environments((EnvSection(id=LOCK, allow_unsafe=True),))


@given(
    weights=st.lists(st.floats(0.05, 20), min_size=1, max_size=6),
    n=st.integers(1, 40),
    seed=st.integers(0, 9),
    step=st.integers(0, 99),
)
def test_shares_are_whole_and_next_to_what_the_weights_say(weights: list[float], n: int, seed: int, step: int):
    counts = np.array(shares(weights, n, seed=seed, step=step))
    exact = n * np.array(weights) / sum(weights)
    assert counts.sum() == n
    assert (counts >= np.floor(exact - 1e-6)).all()
    assert (counts <= np.ceil(exact + 1e-6)).all()


def test_shares_are_right_on_average():
    counts = np.mean([shares([1, 2, 4], 5, seed=1, step=step) for step in range(1, 2001)], axis=0)
    np.testing.assert_allclose(counts, np.array([1, 2, 4]) * 5 / 7, atol=0.05)
