"""Policies that say what they were told to."""

import asyncio

import numpy as np
import pytest

from tests.helpers import models
from turngate.agents.policies.scripted import ScriptedPolicy, by_task
from turngate.errors import PolicyError
from turngate.types import EndedBy, Request


def request(task_id="lock/0", turn=0):
    ids = np.array([1, 2], np.int32)
    return Request(episode="e", task_id=task_id, ids=ids, turn=turn, seed=0, max_tokens=4)


def complete(policy, order):
    return asyncio.run(policy.complete(order))


def test_the_text_becomes_a_sure_turn():
    policy = ScriptedPolicy(lambda order: f"press {order.turn}", models.chat())
    said = complete(policy, request(turn=2))
    assert said.text == "press 2"
    np.testing.assert_array_equal(said.ids_K, models.chat().encode_turn("press 2"))
    np.testing.assert_array_equal(said.logprobs_K, np.zeros(len(said.ids_K), np.float32))
    assert (said.ended_by, said.policy_version) == (EndedBy.SCRIPT, 0)


def test_a_script_by_task_reads_the_line_of_the_turn():
    policy = ScriptedPolicy(by_task({"lock/0": ["press a", "press b"], "lock/1": ["press c"]}), models.chat())
    assert [complete(policy, request("lock/0", turn)).text for turn in (0, 1)] == ["press a", "press b"]
    assert complete(policy, request("lock/1")).text == "press c"


@pytest.mark.parametrize(("task_id", "turn"), [("lock/1", 1), ("lock/9", 0)])
def test_a_missing_line_is_a_policy_error(task_id, turn):
    policy = ScriptedPolicy(by_task({"lock/1": ["press c"]}), models.chat())
    with pytest.raises(PolicyError, match=f"the script of task '{task_id}' has no line for turn {turn}"):
        complete(policy, request(task_id, turn))


def test_it_has_no_weights_to_publish_to():
    policy = ScriptedPolicy(by_task({}), models.chat())
    with pytest.raises(TypeError, match="ScriptedPolicy has no weights"):
        asyncio.run(policy.publish({}, 1))
