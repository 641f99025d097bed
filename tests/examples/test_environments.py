"""The environments of ``examples/environments``: contract, oracle, typed arguments, several calls in a turn."""

import pytest

import turngate
from examples.environments import blackjack, service, tables


@pytest.mark.parametrize("module", [blackjack, service, tables])
def test_the_check_finds_nothing(module):
    found = [finding.rule for finding in turngate.check_env(module.ID)]
    assert found == (["solvable"] if module is blackjack else [])  # no oracle wins every hand


@pytest.mark.parametrize("module", [service, tables])
def test_the_oracle_solves_every_task(module):
    env = turngate.make(module.ID)
    for split in ("train", "heldout"):
        for number in range(env.tasks.size(split)):
            task = env.tasks.task(split, number)
            env.reset(options={"task": task})
            for line in env.oracle(task):
                *_, info = env.step(line)
            assert info["score"].outcome == 1.0
    env.close()


def test_a_hand_of_blackjack():
    env = turngate.make(blackjack.ID)
    observation, _ = env.reset(options={"task": "train/0"})
    assert observation.text.startswith("Play a hand of blackjack. You have ")
    observation, reward, terminated, _, info = env.step("stand")
    assert terminated
    assert observation.text.endswith("The hand is over.")
    assert reward == info["score"].outcome
    assert reward in (-1.0, 0.0, 1.0)
    env.close()


def test_a_model_of_a_change_is_checked_field_by_field():
    env = turngate.make(service.ID)
    env.reset(options={"task": "train/0"})
    told = env.step('patch 100 {"amount": 100}')[0].text
    assert told.startswith(
        "error: argument 'change.amount' of patch should be less than or equal to 99, not 100; write:"
    )
    assert env.step("get 7")[0].text == "error: 404: there is no order 7; orders: 100, 101, 102, 103"
    calls = '<tool_call>{"name": "get", "arguments": {"order": 100}}</tool_call>' * 2
    assert env.step(calls)[0].text.count("200: ") == 2
    env.close()


def test_a_process_reward_for_coming_closer_is_paid_only_when_the_goal_is_reached():
    env = turngate.make(service.ID)
    env.reset(options={"task": "train/0"})
    oracle = env.oracle(env.task)
    for actions, paid in ((oracle, 1.1), ([*oracle[:-1], "delete 103", "finish"], 0.0)):
        env.reset(options={"task": "train/0"})
        closer, total = [], 0.0
        for line in actions:
            _, reward, _, _, info = env.step(line)
            total += reward
            closer += [fact.value for fact in info["evidence"] if fact.name == "closer"]
        assert closer[:3] == [False, True, True]
        assert total == pytest.approx(paid)
    env.close()


def test_a_number_is_a_number_and_a_word_a_word():
    env = turngate.make(tables.ID)
    env.reset(options={"task": "train/0"})
    assert env.step("keep city Nowhere")[0].text == "0 rows are left"
    assert env.step("keep year Oslo")[0].text == "error: year holds numbers, not 'Oslo'"
    assert env.step("total sold sum")[0].text == "error: no rows are left"
    assert "argument 'number' of answer should be a valid number" in env.step("answer many")[0].text
    env.close()
