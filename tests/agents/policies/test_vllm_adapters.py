"""Adapters that vLLM adds itself, against the learner that trains them, and against faults.

1. Log-probabilities are the learner's after every push, which is of the adapters alone.
2. Each way to miss a push is found.
3. Other weights below the adapters, weights without any and an engine that dies are no obstacle.
"""

import asyncio
import os
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.helpers import models, vllm_engines
from turngate.agents.engines.engine_process import EngineDied
from turngate.errors import ConfigError, MismatchError, PolicyError
from turngate.trainer.batch.pack import pack_demonstrations
from turngate.trainer.checks.canary import check_agreement
from turngate.trainer.learner import Lora
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.types import Request

pytestmark = [vllm_engines.needed, pytest.mark.component, pytest.mark.timeout(900)]
TOLERANCE = 1e-4
START_S = 600  # an engine may have to start meanwhile
PROMPT = np.arange(10, 110, dtype=np.int32)  # three whole blocks of the cache


def trained(updates=1, *, seed=0):
    """A learner whose adapters have changed the model."""
    learner = models.learner(vllm_engines.model(seed), lr=1e-1, lora=Lora(rank=3, alpha=6))
    for _ in range(updates):
        update(learner)
    return learner


def update(learner):
    learner.forward_backward(pack_demonstrations(models.play(models.local(vllm_engines.model()))), PolicyLoss())
    learner.optim_step()


@pytest.fixture(scope="module")
def runner():
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def engine(runner):
    """One engine for all tests of this module."""
    policy = vllm_engines.policy(vllm_engines.model(), adapters="apart")
    policy.expect(trained(0).weights)
    running = policy.running()
    runner.run(running.__aenter__())
    yield policy
    runner.run(running.__aexit__(None, None, None))


@pytest.fixture
def policy(engine, runner):
    """The engine without faults."""
    runner.run(plant(engine, ""))
    return engine


async def plant(policy, fault):
    await policy._ask("plant", fault=fault)


def push(runner, policy, learner, version):
    runner.run(policy.publish(learner.weights(), version))


@pytest.fixture
def asked(policy, monkeypatch):
    """What the engine is asked for, as it is."""
    found, ask = [], policy._ask

    async def noting(do, **more):
        found.append((do, more))
        return await ask(do, **more)

    monkeypatch.setattr(policy, "_ask", noting)
    return found


def spoken(runner, policy):
    """A turn after ``PROMPT``, as a batch that the learner can measure."""
    order = Request(episode="e", task_id="t", ids=PROMPT, turn=0, seed=0, max_tokens=8)

    async def one():
        async with policy.slot():
            return await policy.complete(order)

    said = runner.run(one())
    turn = replace(models.turn(PROMPT, said.ids_K), completion=said)
    return pack_demonstrations([models.trajectory([turn])])


def agree(runner, policy, learner):
    return check_agreement(spoken(runner, policy), learner, tolerance=TOLERANCE)


# --- 1: in step ------------------------------------------------------------------------------------------------------


def test_it_stays_in_step_with_a_learner_that_sends_its_adapters_alone(policy, runner, asked):
    learner = trained(0)
    for version in range(1, 6):
        update(learner)
        push(runner, policy, learner, version)
        agree(runner, policy, learner)
    wholes = [more["whole"] for do, more in asked if do == "publish"]
    assert wholes == [True, False, False, False, False], "the weights below another learner's adapters are sent once"
    assert policy.version == 5
    with pytest.raises(MismatchError, match="sampler and learner differ at turn 0"):
        agree(runner, policy, trained(0))  # which has the model without adapters


def test_episodes_of_many_turns_are_those_of_the_learner(policy, runner):
    learner = trained(2)
    push(runner, policy, learner, 1)
    played = models.play(policy, most_s=START_S, n_tasks=4, siblings=3)
    assert max(len(trajectory.turns) for trajectory in played) > 1
    check_agreement(pack_demonstrations(played), learner, tolerance=TOLERANCE)


# --- 2: faults -------------------------------------------------------------------------------------------------------


def test_a_skipped_push_is_found(policy, runner):
    learner = trained()
    push(runner, policy, learner, 1)
    runner.run(plant(policy, "skipped push"))
    update(learner)
    with pytest.raises(MismatchError, match="does not hold version 2 of the adapters: its checksum in float32 is"):
        push(runner, policy, learner, 2)


def test_one_changed_bit_is_found(policy, runner, monkeypatch):
    learner = trained()
    push(runner, policy, learner, 1)
    adapters = policy._model.adapters
    name = "model.layers.1.mlp.down_proj.lora_B.weight"

    def write(weights, write=adapters.write):
        write(weights)
        adapters._view(name).view(torch.int32)[3, 1] ^= 1

    monkeypatch.setattr(adapters, "write", write)
    with pytest.raises(MismatchError, match="does not hold version 2 of the adapters"):
        push(runner, policy, learner, 2)


def test_adapters_that_requests_do_not_name_are_found_by_the_canary(policy, runner):
    learner = trained()
    push(runner, policy, learner, 1)
    runner.run(plant(policy, "ignored adapters"))
    with pytest.raises(MismatchError, match="sampler and learner differ at turn 0"):
        agree(runner, policy, learner)


def test_a_cache_of_earlier_adapters_is_not_used_and_would_be_found(policy, runner):
    learner = trained()
    push(runner, policy, learner, 1)
    agree(runner, policy, learner)
    update(learner)
    runner.run(plant(policy, "stale cache"))  # not emptied, but each push has a number of its own
    push(runner, policy, learner, 2)
    agree(runner, policy, learner)
    runner.run(plant(policy, "stale cache of one number"))
    for version in (3, 4):
        update(learner)
        push(runner, policy, learner, version)
        if version == 3:
            spoken(runner, policy)
    with pytest.raises(MismatchError, match="sampler and learner differ at turn 0"):
        agree(runner, policy, learner)


def test_layers_that_the_engine_does_not_adapt_are_refused(policy, runner):
    runner.run(policy._ask("unserved", layers=["model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj"]))
    problem = (
        r"vLLM cannot add adapters to 'model.layers.0.mlp.gate' \(1 such layers\); leave it out of learner.lora.targets"
    )
    with pytest.raises(EngineDied, match=problem):
        runner.run(policy._ask("unserved", layers=["model.layers.0.self_attn.q_proj", "model.layers.0.mlp.gate"]))


def test_a_learner_without_adapters_is_refused_before_the_engine_starts():
    policy = vllm_engines.policy(vllm_engines.model(), adapters="apart")
    with pytest.raises(ConfigError, match=r'policy\.adapters = "apart" has no effect without adapters'):
        policy.expect(models.learner().weights)


def test_adapters_that_were_not_expected_are_not_merged_in_silence(runner):
    policy = vllm_engines.policy(vllm_engines.model(), adapters="apart")
    with pytest.raises(PolicyError, match=r"was not prepared; call policy.expect\(learner.weights\) first"):
        push(runner, policy, trained(0), 1)


# --- 3: other weights, and death ------------------------------------------------------------------------------------


def test_weights_without_adapters_are_taken_whole_and_others_after_them(policy, runner):
    learner = trained()
    push(runner, policy, learner, 1)
    whole = models.learner(vllm_engines.model(seed=1))
    push(runner, policy, whole, 2)
    agree(runner, policy, whole)
    push(runner, policy, learner, 3)
    agree(runner, policy, learner)


def test_an_engine_that_slept_without_its_weights_has_those_of_the_push_that_woke_it(
    policy, runner, asked, monkeypatch
):
    learner = trained()
    push(runner, policy, learner, 1)
    update(learner)
    monkeypatch.setattr(policy, "_settings", replace(policy._settings, sleep=2))
    monkeypatch.setattr(policy, "_is_asleep", True)  # on a CPU it does not sleep, and loads what it is told to
    push(runner, policy, learner, 2)
    assert [do for do, _ in asked] == ["publish", "wake", "publish"]
    assert not policy._is_asleep
    monkeypatch.undo()
    agree(runner, policy, learner)


def test_an_engine_that_dies_gets_the_adapters_again(policy, runner, asked):
    learner = trained()
    push(runner, policy, learner, 1)
    before = policy._engine.pid
    os.kill(before, signal.SIGKILL)
    agree(runner, policy, learner)
    assert policy._engine.pid != before
    assert [do for do, _ in asked] == ["publish", "step", "start", *["step"] * (len(asked) - 3)]
    update(learner)
    push(runner, policy, learner, 2)
    agree(runner, policy, learner)
