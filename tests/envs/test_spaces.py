"""Environments stepped several at a time by gymnasium's own vectorisation."""

import gymnasium
import pytest

import turngate
from turngate.envs.lock import colours_of, key_of
from turngate.envs.spaces import Texts
from turngate.types import Action, Observation

MODES = ("sync", "async")
SQL = {"tasks": {"type": "generated_sql", "families": ["shop"], "max_level": 1}}


@pytest.mark.parametrize("mode", MODES)
def test_locks_are_stepped_through_two_episodes_each(mode):
    """Each its own episode, right keys in one and wrong ones in the other, and on into the next episode."""
    envs = gymnasium.make_vec("turngate/Lock-v1", num_envs=2, vectorization_mode=mode)
    try:
        tasks, colours = turngate.make("turngate/Lock-v1").tasks, []
        first, info = envs.reset(seed=3)
        assert [type(observation) for observation in first] == [Observation, Observation]
        for _ in range(2):
            colours = [colours_of(tasks.find(name)) for name in info["task_id"]]
            for turn in range(3):
                right = key_of(colours[0][turn])
                wrong = next(key for key in "abcd" if key != key_of(colours[1][turn]))
                seen, reward, terminated, truncated, info = envs.step([f"press {right}", f"press {wrong}"])
                assert [observation.text.split()[0] for observation in seen] == ["click", "clunk"]
                assert terminated.tolist() == [turn == 2] * 2
                assert truncated.tolist() == [False] * 2
            assert reward.tolist() == pytest.approx([1.1, 0.0])
            seen, *_, info = envs.step(["ignored", "ignored"])  # gymnasium resets after the end
            assert all(observation.text.startswith("Open the lock") for observation in seen)
        assert first[0].text.startswith("Open the lock")  # what was handed over does not change later
    finally:
        envs.close()


@pytest.mark.parametrize("mode", MODES)
def test_databases_are_queried(mode):
    envs = gymnasium.make_vec("turngate/Sql-v1", num_envs=2, vectorization_mode=mode, **SQL)
    try:
        envs.reset(seed=0)
        seen, *_ = envs.step(["run_sql SELECT 1", "run_sql SELECT 22"])
        assert [observation.text.splitlines()[1] for observation in seen] == ["1", "22"]
        assert envs.action_space.contains(envs.action_space.sample())
    finally:
        envs.close()


def test_an_observation_too_large_for_shared_memory_says_what_to_set():
    from gymnasium.vector.utils import create_shared_memory, write_to_shared_memory

    space = Texts(Observation, [Observation(text="")])
    memory = create_shared_memory(space, n=2)
    large = Observation(text="", images=(b"x" * 2_000_000,))
    with pytest.raises(ValueError, match=r"pass vector_kwargs=\{'shared_memory': False\}"):
        write_to_shared_memory(space, 1, large, memory)


def test_spaces_of_the_same_kind_are_equal():
    one = Texts(Action, ["press a"])
    assert one == Texts(Action, ["press a"], seed=4)
    assert hash(one) == hash(Texts(Action, ["press a"]))
    assert one != Texts(Action, ["press b"])
    assert one != Texts(Observation, ["press a"])
    assert one != "press a"
