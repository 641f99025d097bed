"""vLLM in a process of its own against plain forward passes, and against faults.

1. Ids and log-probabilities are those of the model, in every turn, at every setting of the sampler.
2. The same requests give the same bits; prefixes are computed once, over turns and siblings.
3. After a push the engine holds the new weights, and each way to miss that is found.
4. What breaks or is cancelled leaves nothing behind; an engine that dies is replaced.
"""

import asyncio
import logging
import os
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.helpers import models, vllm_engines
from turngate.agents.engines.engine_process import EngineDied
from turngate.agents.scheduler import AsReady, FixedOrder
from turngate.errors import ConfigError, MismatchError, OutOfRoom, PolicyError
from turngate.trainer.batch.pack import pack, pack_demonstrations
from turngate.trainer.checks.canary import check_agreement, longest, probe
from turngate.trainer.learner import Lora
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.types import EndedBy, Ending, Request, Sampling

pytestmark = [vllm_engines.needed, pytest.mark.component, pytest.mark.timeout(900)]
TOLERANCE = 1e-4
START_S = 600  # an engine may have to start meanwhile
PROMPT = list(range(10, 110))  # three whole blocks of the cache


@pytest.fixture(scope="module")
def runner():
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def engine(runner):
    """One engine for all tests of this module, at work since before the first."""
    policy = vllm_engines.policy(vllm_engines.model())
    running = policy.running()
    runner.run(running.__aenter__())
    yield policy
    runner.run(running.__aexit__(None, None, None))


@pytest.fixture
def policy(engine, runner):
    """The engine with the weights of ``vllm_engines.model()``, an empty cache and no faults."""
    engine._pace, engine._waits = FixedOrder(), True
    if engine._engine is not None:
        runner.run(plant(engine, ""))
    push(runner, engine, vllm_engines.model(), 0)
    return engine


async def plant(policy, fault):
    await policy._ask("plant", fault=fault)


def push(runner, policy, source, version):
    runner.run(policy.publish(dict(source.named_parameters()), version))


def request(ids, *, seed=0, max_tokens=6, episode="e", **sampling):
    ids = np.asarray(ids, np.int32)
    return Request(
        episode=episode, task_id="t", ids=ids, turn=0, seed=seed, max_tokens=max_tokens, sampling=Sampling(**sampling)
    )


async def complete(policy, *requests):
    async def one(order):
        async with policy.slot():
            return await policy.complete(order)

    return await asyncio.gather(*map(one, requests), return_exceptions=True)


def spoken(runner, policy, **sampling):
    """A probe over the two longest of some recorded episodes."""
    played = longest(models.play(models.local(vllm_engines.model()), n_tasks=4, siblings=1), 2)
    return runner.run(probe(models.player(policy, **sampling), played, seed=0))


def is_idle(policy):
    pace = policy._pace
    return (pace.slots, pace.in_engine, policy._waiting, policy._at_work) == (0, 0, [], {})


# --- 1: what is sampled ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.6}, {"temperature": 1.3, "top_p": 0.8, "top_k": 30}])
@pytest.mark.parametrize("pace", [FixedOrder, AsReady])
def test_logprobs_of_every_turn_are_those_of_the_learner(policy, pace, sampling):
    policy._pace, policy._waits = pace(), pace is FixedOrder
    played = models.play(policy, most_s=START_S, n_tasks=6, siblings=3, **sampling)
    assert {len(trajectory.turns) for trajectory in played} == {1, 2, 3}
    batch = pack([models.scored(played)], np.zeros(sum(len(t.turns) for t in played), np.float32))
    learner = models.learner(vllm_engines.model(), **sampling)
    truncates = "top_p" in sampling
    metrics = check_agreement(batch, learner, tolerance=TOLERANCE, truncates=truncates)
    assert 0 <= metrics["canary/max_logprob_difference"] < TOLERANCE
    assert is_idle(policy)


def test_greedy_is_what_generate_says(policy, runner):
    source, chat = vllm_engines.model(), models.chat()
    orders = [request(chat.opening(text), temperature=0, max_tokens=12) for text in models.TEXTS[:8]]
    for order, said in zip(orders, runner.run(complete(policy, *orders)), strict=True):
        ids = torch.as_tensor(order.ids, dtype=torch.long)[None]
        whole = source.generate(ids, do_sample=False, max_new_tokens=12)
        np.testing.assert_array_equal(said.ids_K, whole[0, len(order.ids) :].numpy())


def test_a_turn_ends_by_its_own_or_by_its_budget(policy, runner):
    chat = models.chat()
    orders = [request(chat.opening(text), seed=2**64 - 1 - i, max_tokens=5) for i, text in enumerate(models.TEXTS * 3)]
    said = runner.run(complete(policy, *orders))
    assert {one.ended_by for one in said} == {EndedBy.STOP, EndedBy.LENGTH}
    for one in said:
        stopped = one.ids_K[-1] == chat.eos_id
        assert one.ended_by is (EndedBy.STOP if stopped else EndedBy.LENGTH)
        assert stopped or len(one.ids_K) == 5
        assert chat.eos_id not in one.ids_K[:-1]
        assert (one.text, one.policy_version) == (chat.decode(one.ids_K), 0)


def test_prompts_that_exceed_a_step_of_the_engine_wait_for_the_next(policy, runner):
    prompts = [[10 + number, *PROMPT] for number in range(5)]
    seeds = range(5)
    together = runner.run(complete(policy, *[request(ids, seed=s) for ids, s in zip(prompts, seeds, strict=True)]))
    for ids, said in zip(prompts, together, strict=True):
        naive = models.naive_logprobs(vllm_engines.model(), np.concatenate([ids, said.ids_K]))
        np.testing.assert_allclose(said.logprobs_K, naive[len(ids) :], atol=TOLERANCE)


def test_a_turn_that_does_not_fit_is_out_of_room(policy, runner):
    room = policy._settings.context
    assert room == 256
    fits, too_long = request([5] * (room - 6)), request([5] * (room - 5))
    said, problem = runner.run(complete(policy, fits, too_long))
    assert len(said.ids_K) >= 1
    assert isinstance(problem, OutOfRoom)
    assert "has 251 tokens before it and may have 6, more than the engine's 256; raise policy.context" in str(problem)


def test_heads_that_its_attention_cannot_do_are_refused(policy, runner):
    with pytest.raises(EngineDied, match=r"no attention for heads of width 16; it has \[32, 64"):
        runner.run(policy._ask("heads", size=16))


# --- 2: the same bits, and the cache ---------------------------------------------------------------------------------


def test_the_same_seeds_give_the_same_bits(policy, runner):
    first = models.play(policy, most_s=START_S, n_tasks=5, siblings=4)
    push(runner, policy, vllm_engines.model(), 0)  # empties the cache
    assert models.play(policy, most_s=START_S, n_tasks=5, siblings=4) == first
    push(runner, policy, vllm_engines.model(), 0)
    assert models.play(policy, most_s=START_S, n_tasks=5, siblings=4, seed=2) != first


def test_prefixes_are_computed_once_over_siblings_and_turns(policy, runner, monkeypatch):
    cached, finish = [], policy._finish
    monkeypatch.setattr(policy, "_finish", lambda done: cached.append(done["cached"]) or finish(done))
    runner.run(complete(policy, *[request(PROMPT, seed=seed) for seed in range(3)]))
    assert sorted(cached) == [0, 96, 96]  # in one step: whole blocks of 32
    runner.run(complete(policy, request([*PROMPT, *range(200, 240)])))
    assert cached[-1] == 96
    push(runner, policy, vllm_engines.model(), 0)
    runner.run(complete(policy, request(PROMPT)))
    assert cached[-1] == 0


# --- 3: weights ------------------------------------------------------------------------------------------------------


def test_it_stays_in_step_with_a_learner_over_updates(policy, runner):
    learner = models.learner(vllm_engines.model(), lr=1e-2)
    batch = pack_demonstrations(models.play(models.local(vllm_engines.model()), n_tasks=2))
    worst = []
    for version in range(1, 9):
        learner.forward_backward(batch, PolicyLoss())
        learner.optim_step()
        runner.run(policy.publish(learner.weights(), version))
        found = check_agreement(spoken(runner, policy), learner, tolerance=TOLERANCE)
        worst.append(found["canary/max_logprob_difference"])
    assert policy.version == 8
    assert max(worst) < TOLERANCE
    assert {one.policy_version for one in runner.run(complete(policy, request([5, 6, 7])))} == {8}


def test_adapters_are_pushed_merged_and_a_push_without_them_is_found(policy, runner):
    learner = models.learner(vllm_engines.model(), lr=1e-1, lora=Lora(rank=2))
    learner.forward_backward(pack_demonstrations(models.play(models.local(vllm_engines.model()))), PolicyLoss())
    learner.optim_step()
    runner.run(policy.publish(learner.weights(), 1))
    check_agreement(spoken(runner, policy), learner, tolerance=TOLERANCE)
    push(runner, policy, vllm_engines.model(), 2)  # as if the adapters were ignored: they are all that was trained
    with pytest.raises(MismatchError, match="sampler and learner differ at turn 0"):
        check_agreement(spoken(runner, policy), learner, tolerance=TOLERANCE)


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ("skipped push", "the engine does not hold version 1 of the weights: its checksum in float32 is"),
        ("wrong version", "the engine has weights of version 7, not 1"),
    ],
)
def test_a_push_that_is_lost_is_found(policy, runner, fault, problem):
    runner.run(plant(policy, fault))
    with pytest.raises(MismatchError, match=problem):
        push(runner, policy, vllm_engines.model(seed=1), 1)


def test_a_cache_of_old_weights_is_found_by_the_canary(policy, runner):
    other = vllm_engines.model(seed=1)

    def spoken_of_it():
        (said,) = runner.run(complete(policy, request(PROMPT)))
        turn = replace(models.turn(PROMPT, said.ids_K), completion=said)
        return pack_demonstrations([models.trajectory([turn])])

    check_agreement(spoken_of_it(), models.learner(vllm_engines.model()), tolerance=TOLERANCE)
    runner.run(plant(policy, "stale cache"))
    push(runner, policy, other, 1)
    with pytest.raises(MismatchError, match="sampler and learner differ at turn 0"):
        check_agreement(spoken_of_it(), models.learner(other), tolerance=TOLERANCE)
    runner.run(plant(policy, ""))
    push(runner, policy, other, 2)
    check_agreement(spoken_of_it(), models.learner(other), tolerance=TOLERANCE)


def test_one_changed_bit_is_found(policy, runner, monkeypatch):
    other = vllm_engines.model(seed=1)
    monkeypatch.setattr(
        policy._model.weights, "write", lambda weights, write=policy._model.weights.write: (write(weights), flip())
    )

    def flip():
        view = policy._model.weights._view("model.layers.1.mlp.down_proj.weight").view(torch.int32)
        view[3, 5] ^= 1

    with pytest.raises(MismatchError, match="the engine does not hold version 1"):
        push(runner, policy, other, 1)


def test_weights_of_another_model_are_refused(policy, runner):
    weights = dict(vllm_engines.model().named_parameters())
    last = list(weights)[-1]
    with pytest.raises(PolicyError, match=f"\\['{last}x'\\] differ"):
        runner.run(policy.publish({**weights, f"{last}x": weights[last]}, 1))
    with pytest.raises(PolicyError, match=f"'{last}' has shape \\(1,\\), there it has \\(64,\\)"):
        runner.run(policy.publish({**weights, last: torch.zeros(1)}, 1))


def test_an_engine_of_another_precision_is_found_when_it_starts(runner):
    slipped = vllm_engines.policy(vllm_engines.model())
    arguments = {**slipped._settings.arguments, "dtype": "bfloat16"}
    slipped._settings = replace(slipped._settings, arguments=arguments)

    async def start():
        async with slipped.running():
            pass

    with pytest.raises(MismatchError, match="does not hold version 0 of the weights"):
        runner.run(start())


# --- 4: what breaks --------------------------------------------------------------------------------------------------


def test_nothing_is_published_while_a_turn_is_in_flight(policy, runner):
    weights = dict(vllm_engines.model().named_parameters())

    async def go():
        policy._pace, policy._waits = AsReady(), False
        async with policy.slot():
            turn = asyncio.ensure_future(policy.complete(request([5, 6], max_tokens=60)))
            await asyncio.sleep(0)
            with pytest.raises(PolicyError, match="cannot publish version 1 while 1 turns are in flight"):
                await policy.publish(weights, 1)
            await turn

    runner.run(go())


def test_a_cancelled_turn_is_aborted_in_the_engine(policy, runner):
    async def go():
        policy._pace, policy._waits = AsReady(), False
        async with policy.slot():
            turn = asyncio.ensure_future(policy.complete(request([5, 6], max_tokens=200)))
            while not policy._at_work:
                await asyncio.sleep(0)
            turn.cancel()
            with pytest.raises(asyncio.CancelledError):
                await turn

    runner.run(go())
    assert is_idle(policy)
    push(runner, policy, vllm_engines.model(), 1)  # refused by the engine while a request runs


def killing(policy, turn):
    """Kill the engine when so many turns are finished."""
    done, finish = [], policy._finish

    def count(answer):
        finish(answer)
        done.append(answer)
        if len(done) == turn:
            os.kill(policy._engine.pid, signal.SIGKILL)

    return count


def test_an_engine_that_dies_is_replaced_and_its_turns_are_sent_again(policy, runner, monkeypatch, caplog):
    whole = models.play(policy, most_s=START_S, n_tasks=5, siblings=4)
    push(runner, policy, vllm_engines.model(), 0)
    monkeypatch.setattr(policy, "_finish", killing(policy, 12))
    before = policy._engine.pid
    with caplog.at_level(logging.WARNING):
        played = models.play(policy, most_s=START_S, n_tasks=5, siblings=4)
    assert policy._engine.pid != before
    assert "the engine's process ended by SIGKILL during 'step'" in caplog.text
    assert "it is started again when it is needed" in caplog.text
    assert [t.ending for t in played] == [Ending.FINISHED] * 20
    for one, other in zip(played, whole, strict=True):
        np.testing.assert_array_equal(one.ids(), other.ids())
        for turn, same in zip(one.turns, other.turns, strict=True):
            np.testing.assert_allclose(turn.completion.logprobs_K, same.completion.logprobs_K, atol=1e-5)


def test_turns_in_which_it_dies_too_often_end_their_episodes(policy, runner, monkeypatch):
    patient = policy._settings
    monkeypatch.setattr(policy, "_settings", replace(patient, restarts=0, stall_s=1.0))
    runner.run(plant(policy, "hangs"))

    def end(error, end=policy._end_engine):
        policy._settings = replace(patient, restarts=0)  # the next engine has the time that it needs
        end(error)

    monkeypatch.setattr(policy, "_end_engine", end)
    played = models.play(policy, most_s=START_S, n_tasks=5, siblings=2)
    broken = [trajectory for trajectory in played if trajectory.ending is Ending.POLICY_ERROR]
    assert len(broken) == policy.concurrency
    assert "failed: the engine did not answer 'step' within 1 s" in broken[0].error
    assert {t.ending for t in played if t not in broken} == {Ending.FINISHED}


def test_it_is_gone_when_it_is_closed(runner, policy):
    pid, folder = policy._engine.pid, policy._engine._folder
    assert os.path.exists(f"/proc/{pid}")
    assert os.path.exists(folder)
    policy._end_engine(EngineDied("closed by a test"))
    assert not os.path.exists(f"/proc/{pid}")
    assert not os.path.exists(folder)
    assert not [name for name in os.listdir("/proc") if name.isdigit() and group_of(name) == pid]


def group_of(process):
    try:
        return os.getpgid(int(process))
    except ProcessLookupError:
        return 0


def test_it_cannot_be_used_before_it_runs(runner):
    unopened = vllm_engines.policy(vllm_engines.model())

    async def go():
        async with unopened.slot():
            pass

    with pytest.raises(RuntimeError, match=r"use 'async with policy.running\(\)'"):
        runner.run(go())


def test_an_engine_that_cannot_start_says_why(runner):
    broken = vllm_engines.policy(vllm_engines.model())
    broken._settings = replace(broken._settings, server="tests.helpers.no_such_module:serve")

    async def go():
        async with broken.running():
            pass

    with pytest.raises(ConfigError, match=r"cannot be started: .*No module named 'tests.helpers.no_such_module'"):
        runner.run(go())
