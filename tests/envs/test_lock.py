"""The toy, move by move, with the numbers worked out by hand."""

import asyncio
import itertools
from dataclasses import replace

import pytest

import turngate
from turngate.envs.leak import leaked_secret
from turngate.envs.lock import COLOURS, KEYS, LockEnv, LockSource, LockTasks, colours_of, key_of, lock_hints
from turngate.envs.pool.pool import EnvPool
from turngate.envs.pool.pools import maker
from turngate.errors import ConfigError, UnknownName
from turngate.types import Ending, Task

TASK = Task(id="lock/test/0", env_id="turngate/Lock-v1", prompt="Open.", private={"dials": (0, 1, 3)})
RIGHT = ["press a", "press b", "press d"]  # red, green, white


def play(actions, task=TASK):
    env = turngate.make("turngate/Lock-v1")
    first, _ = env.reset(seed=0, options={"task": task})
    return first, [env.step(action) for action in actions]


def test_the_right_keys_open_it_and_process_reward_is_paid():
    first, steps = play(RIGHT)
    assert first.text == "Open. red"
    assert [step[0].text for step in steps] == ["click green", "click white", "click"]
    assert [step[1] for step in steps] == pytest.approx([0.0, 0.0, 1.0 + 0.1])
    assert [(step[2], step[3]) for step in steps] == [(False, False), (False, False), (True, False)]
    assert steps[-1][4]["ending"] is Ending.FINISHED
    assert steps[-1][4]["score"].outcome == 1.0


def test_the_answer_is_the_keys_in_their_order():
    for actions, answer in ((RIGHT, "a b d"), (["???", "press b", "press"], "b"), (["???"] * 3, None)):
        *_, info = play(actions)[1][-1]
        assert [fact.value for fact in info["evidence"] if fact.name == "answer"] == [answer]


def test_one_wrong_key_pays_nothing_at_all():
    """Two right keys earn process reward, but its gate opens only with the lock."""
    _, steps = play(["press a", "press a", "press d"])
    assert [step[0].text for step in steps] == ["click green", "clunk white", "click"]
    assert sum(step[1] for step in steps) == 0.0
    score = steps[-1][4]["score"]
    assert (score.usable, score.outcome, score.total) == (True, 0.0, 0.0)
    assert sum(event.earned for event in score.ledger) == pytest.approx(0.1 * 2 / 3)


def test_what_cannot_be_read_counts_as_a_wrong_key():
    _, steps = play(["pres a", "press", "press d"])
    assert steps[0][0].text == "unknown tool 'pres'; did you mean press? green"
    assert [fact.value for fact in steps[0][4]["evidence"]] == [False, False]
    assert steps[1][0].text == "press needs KEY; write: press KEY white"


def test_exactly_one_of_all_key_sequences_opens_a_lock():
    opened = [
        keys for keys in itertools.product(KEYS, repeat=3) if play([f"press {key}" for key in keys])[1][-1][1] > 0
    ]
    assert opened == [("a", "b", "d")]


def test_state_keys_tell_apart_what_differs():
    first, steps = play(RIGHT)
    other_first, other_steps = play(["press b", "press b", "press d"])
    keys = [first.state_key, *(step[0].state_key for step in steps)]
    other_keys = [other_first.state_key, *(step[0].state_key for step in other_steps)]
    assert len(set(keys)) == 4
    assert keys[0] == other_keys[0]
    assert not set(keys[1:]) & set(other_keys[1:])


def test_tasks_are_a_function_of_split_and_number():
    tasks = LockTasks()
    assert tasks.task("train", 7) == LockTasks().task("train", 7)
    assert tasks.find("lock/heldout/12") == tasks.task("heldout", 12)
    shown = {colours_of(tasks.task("train", index)) for index in range(500)}
    assert len(shown) == len(COLOURS) ** 3  # every lock occurs
    assert tasks.size("heldout") is None


def test_the_legend():
    assert [key_of(colour) for colour in ("red", "green", "blue", "white")] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("bad", ["lock/train/x", "lock/test/1", "lock/train", "", "lock/train/-1"])
def test_an_unknown_task_is_refused(bad):
    with pytest.raises(UnknownName):
        LockTasks().find(bad)


def test_a_lock_of_more_dials_opens_when_all_keys_are_right():
    env = turngate.make("turngate/Lock-v1", tasks={"type": "lock", "dials": 5}, max_turns=6)
    task = env.tasks.task("train", 3)
    assert task.id == "lock-5/train/3"
    assert env.tasks.find(task.id) == task
    for keys, opened in ((env.oracle(task), 1.0), ([*env.oracle(task)[:4], "press x"], 0.0)):
        env.reset(seed=0, options={"task": task})
        ends = [env.step(key) for key in keys]
        assert [end[2] for end in ends] == [False] * 4 + [True]
        assert ends[-1][4]["score"].outcome == opened


def test_locks_of_other_sizes_are_other_tasks():
    with pytest.raises(UnknownName, match="lock-5/train/0"):
        LockTasks(5).find("lock/train/0")
    with pytest.raises(ConfigError, match="dials"):
        turngate.make("turngate/Lock-v1", tasks={"type": "lock", "dials": 0})


def test_a_limit_below_the_dials_is_refused():
    with pytest.raises(ConfigError, match="max_turns is 3, but the lock has 4 dials; use 4 or more"):
        turngate.make("turngate/Lock-v1", tasks={"type": "lock", "dials": 4})
    with pytest.raises(ConfigError, match="max_turns is 2, but the lock has 3 dials"):
        turngate.make("turngate/Lock-v1", max_turns=2)


def test_hints_go_from_useless_keys_to_the_keys_of_all_its_colours():
    env = turngate.make("turngate/Lock-v1")
    assert [env.hint(TASK, level) for level in range(5)] == [
        None,
        "No dial takes c.",
        "red takes a, green takes b.",
        "red takes a, green takes b, white takes d.",
        None,
    ]
    assert lock_hints(("blue", "blue")) == ("No dial takes a or b or d.", "blue takes c.")
    assert lock_hints(COLOURS)[0] == "Every key is needed."


@pytest.mark.parametrize("dials", list(itertools.product(range(4), repeat=3))[::5])
def test_no_hint_holds_the_keys_in_their_order(dials):
    env = turngate.make("turngate/Lock-v1")
    task = replace(TASK, private={"dials": dials})
    assert env.solutions(task) == (env.oracle(task),)
    assert env.secrets(task) == (" ".join(KEYS[dial] for dial in dials),)
    assert not any(leaked_secret(env.hint(task, level) or "", env.secrets(task)) for level in (1, 2, 3))


def test_a_lock_of_two_dials_is_played_in_two_turns_by_a_pool():
    """Its environments are handed their tasks, and have none of their own."""

    async def play():
        source = LockTasks(2)
        async with EnvPool(maker("turngate/Lock-v1", max_turns=2, tasks=LockSource(dials=2)), size=1) as pool:
            task = source.task("train", 0)
            async with pool.lease() as env:
                await env.reset(task, 0)
                for line in LockEnv().oracle(task):
                    *_, terminated, _, info = await env.step(line)
                return terminated, info["score"].outcome

    assert asyncio.run(play()) == (True, 1.0)
