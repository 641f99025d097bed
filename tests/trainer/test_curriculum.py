"""Which tasks a step trains on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.envs.lock import LockTasks
from turngate.envs.tasks import TaskList
from turngate.errors import ConfigError
from turngate.trainer.curriculum.task_order import TaskStream
from turngate.types import Task


def listed(n):
    return TaskList([Task(id=str(index), env_id="e", prompt="") for index in range(n)])


def ids(stream, step):
    return [task.id for task in stream.at(step)]


def test_an_endless_source_gives_each_task_once():
    stream = TaskStream(LockTasks(), "train", per_step=3, seed=0, first=10)
    assert ids(stream, 1) == ["lock/train/10", "lock/train/11", "lock/train/12"]
    assert ids(stream, 2) == ["lock/train/13", "lock/train/14", "lock/train/15"]
    assert ids(stream, 101) == ["lock/train/310", "lock/train/311", "lock/train/312"]


@given(size=st.integers(1, 12), per_step=st.integers(1, 12), seed=st.integers(0, 5))
def test_a_finite_source_is_shuffled_anew_each_epoch_and_a_step_never_repeats_a_task(size, per_step, seed):
    if per_step > size:
        with pytest.raises(ConfigError, match=f"'train' holds {size} tasks, fewer than tasks_per_step = {per_step}"):
            TaskStream(listed(size), "train", per_step=per_step, seed=seed)
        return
    stream = TaskStream(listed(size), "train", per_step=per_step, seed=seed)
    per_epoch = size // per_step
    for epoch in range(3):
        seen = [i for step in range(per_epoch) for i in ids(stream, epoch * per_epoch + step + 1)]
        assert len(seen) == len(set(seen)) == per_epoch * per_step


def test_epochs_and_seeds_differ_and_steps_do_not_depend_on_what_was_asked_before():
    stream = TaskStream(listed(20), "train", per_step=10, seed=0)
    epochs = [ids(stream, 1) + ids(stream, 2), ids(stream, 3) + ids(stream, 4)]
    assert epochs[0] != epochs[1]
    assert ids(TaskStream(listed(20), "train", per_step=10, seed=0), 4) == epochs[1][10:]
    assert ids(TaskStream(listed(20), "train", per_step=10, seed=1), 1) != epochs[0][:10]


@given(blocks=st.integers(1, 6), per_step=st.integers(1, 6), together=st.integers(1, 3), step=st.integers(1, 20))
def test_neighbours_stay_together(blocks, per_step, together, step):
    per_step = min(per_step, blocks)
    stream = TaskStream(listed(blocks * together), "train", per_step=per_step * together, seed=1, together=together)
    numbers = [int(task.id) for task in stream.at(step)]
    assert len(set(numbers)) == per_step * together
    for start in range(0, len(numbers), together):
        assert numbers[start] % together == 0
        assert numbers[start : start + together] == list(range(numbers[start], numbers[start] + together))


def test_numbers_that_do_not_go_together_are_refused():
    with pytest.raises(ConfigError, match=r"tasks_per_step is 3, which is not a multiple of env\.together = 2"):
        TaskStream(listed(4), "train", per_step=3, seed=0, together=2)
    with pytest.raises(ConfigError, match="the size of split 'train' is 5"):
        TaskStream(listed(5), "train", per_step=2, seed=0, together=2)
    endless = TaskStream(LockTasks(), "train", per_step=2, seed=0, first=5, together=2)
    assert ids(endless, 1) == ["lock/train/6", "lock/train/7"]
