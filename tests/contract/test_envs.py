"""One contract, every registered environment."""

import pickle

import gymnasium
import pytest

import turngate
from turngate.envs.check.check_env import check_env
from turngate.types import Action, Ending, Evidence, Observation

IDS = sorted(id for id in turngate.registered() if not id.startswith("test/"))  # of helpers of other tests


@pytest.fixture(scope="module", params=IDS)
def env(request):
    env = turngate.make(request.param)
    yield env
    env.close()


@pytest.mark.parametrize("id", IDS)
def test_the_checker_finds_nothing(id):
    episodes = 1 if id == "turngate/Web-v1" else 3  # each rule plays them, and a browser takes a second for one
    assert [str(finding) for finding in check_env(id, episodes=episodes)] == []


def test_the_registry_gives_what_gymnasium_gives(env):
    theirs = gymnasium.make(env.spec.id)
    assert type(theirs) is type(env)
    assert theirs.reset(seed=11)[0] == env.reset(seed=11)[0]
    theirs.close()


def test_a_seeded_episode_by_the_oracle_succeeds_in_every_split(env):
    for split in env.tasks.splits:
        if env.tasks.size(split) == 0:
            continue
        task = env.tasks.task(split, 0)
        env.reset(seed=1, options={"task": task})
        rewards = []
        for action in env.oracle(task):
            observation, reward, terminated, truncated, info = env.step(action)
            rewards.append(reward)
        assert (terminated, truncated, info["ending"]) == (True, False, Ending.FINISHED)
        assert info["score"].outcome == pytest.approx(1.0)
        assert sum(rewards) == pytest.approx(info["score"].total, abs=1e-5)
        assert isinstance(observation, Observation)


def test_a_task_can_be_chosen_by_object_or_id_and_the_seed_then_changes_nothing(env):
    task = env.tasks.task(env.split, 0)
    by_object, info = env.reset(seed=1, options={"task": task})
    by_id, _ = env.reset(seed=2, options={"task": task.id})
    assert by_object == by_id
    assert info["task_id"] == task.id
    assert task.env_id == env.spec.id


def test_an_action_may_be_text_or_parsed(env):
    for action in ("", Action(text="", parse_error="nothing was written")):
        env.reset(seed=3)
        observation, _, _, _, info = env.step(action)
        assert observation.text
        assert info["action"].text == ""
        assert info["action"].parse_error


def test_an_agent_that_gives_up_is_still_measured(env):
    env.reset(seed=4)
    _, info = env.finish(Ending.TOKEN_BUDGET)
    assert info["ending"] is Ending.TOKEN_BUDGET
    assert info["score"].usable, info["score"].problem
    assert info["score"].outcome is not None
    assert info["evidence"][0] == Evidence(name="answer", value=None)
    assert all(isinstance(fact, Evidence) and fact.by == "verifier" for fact in info["evidence"][1:])


def test_everything_that_crosses_a_process_can(env):
    observation, info = env.reset(seed=5)
    step = env.step("???")
    env.reset(seed=5)
    end = env.finish(Ending.TIME_BUDGET)
    for thing in (env.tasks.task(env.split, 0), observation, info, step, end):
        copy = pickle.loads(pickle.dumps(thing))
        assert repr(copy) == repr(thing)


def test_spaces_hold_what_is_exchanged(env):
    observation, _ = env.reset(seed=6)
    assert observation in env.observation_space
    assert env.action_space.sample() in env.action_space
    assert "any text\nat all" in env.action_space
    assert 3 not in env.action_space
