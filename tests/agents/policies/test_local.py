"""The embedded engine against plain forward passes.

1. Greedy completions are those of ``model.generate``.
2. Recorded logprobs are those of one forward pass over the whole episode, in every turn, whatever else was in flight.
3. The same seeds give the same bits with order="fixed", however long environments take.
4. Nobody waits for anybody else's turn.
5. What breaks or is cancelled leaves nothing behind.
"""

import asyncio
import random
import threading
import time

import numpy as np
import pytest
import torch

from tests.helpers import models
from tests.helpers.rounding import PASS, assert_logprobs
from turngate.agents.rollout import TokenLimits
from turngate.errors import ConfigError, PolicyError
from turngate.types import EndedBy, Ending, Request, Sampling

PROMPTS = ["red", "press the key of each colour", "click green", "é <|end|> blue blue blue", "w"]


def request(ids, *, episode="e", turn=0, seed=0, max_tokens=6, temperature=1.0):
    ids = np.asarray(ids, np.int32)
    sampling = Sampling(temperature=temperature)
    return Request(
        episode=episode, task_id="t", ids=ids, turn=turn, seed=seed, max_tokens=max_tokens, sampling=sampling
    )


def complete(policy, *requests):
    """All at once, each on a slot of its own. Errors are returned."""

    async def one(order):
        async with policy.slot():
            try:
                return await policy.complete(order)
            finally:
                policy.release(order.episode)

    async def go():
        return await asyncio.gather(*map(one, requests), return_exceptions=True)

    return asyncio.run(asyncio.wait_for(go(), 60))


def is_idle(policy):
    pace = policy._pace
    return (pace.slots, pace.in_engine, policy._rows, policy._waiting, getattr(pace, "_away", [])) == (
        0,
        0,
        [],
        [],
        [],
    )


# --- 1: what is sampled ----------------------------------------------------------------------------------------------


def test_greedy_is_what_generate_says():
    source, chat = models.model(), models.chat()
    prompts = [chat.opening(text) for text in PROMPTS]
    orders = [request(ids, episode=str(i), temperature=0, max_tokens=12) for i, ids in enumerate(prompts)]
    for order, said in zip(orders, complete(models.local(source), *orders), strict=True):
        whole = source.generate(torch.as_tensor(order.ids, dtype=torch.long)[None], do_sample=False, max_new_tokens=12)
        np.testing.assert_array_equal(said.ids_K, whole[0, len(order.ids) :].numpy())
    assert len({tuple(order.ids) for order in orders}) == len(PROMPTS)


def test_frequencies_are_the_probabilities_at_the_temperature():
    source, ids, n = models.model(), models.chat().opening("red"), 512
    policy = models.local(source, concurrency=n)
    counts = np.zeros(len(models.tokenizer()))
    for turn in range(8):
        orders = [request(ids, episode=str(i), seed=turn * n + i, max_tokens=1, temperature=0.7) for i in range(n)]
        for said in complete(policy, *orders):
            counts[said.ids_K[0]] += 1
    with torch.no_grad():
        logits = source(torch.as_tensor(ids, dtype=torch.long)[None]).logits[0, -1]
    expected = torch.softmax(logits / 0.7, -1).numpy() * counts.sum()
    common = expected >= 5
    expected = np.append(expected[common], expected[~common].sum())
    counts = np.append(counts[common], counts[~common].sum())
    freedom = len(counts) - 1
    assert freedom > 20
    assert ((counts - expected) ** 2 / expected).sum() < freedom + 4 * np.sqrt(2 * freedom)


def test_a_turn_ends_by_its_own_or_by_its_budget():
    chat = models.chat()
    orders = [request(chat.opening("red"), episode=str(i), seed=i, max_tokens=5) for i in range(40)]
    ends = set()
    for said in complete(models.local(concurrency=40), *orders):
        ends.add(said.ended_by)
        stopped = said.ids_K[-1] == chat.eos_id
        assert said.ended_by is (EndedBy.STOP if stopped else EndedBy.LENGTH)
        assert stopped or len(said.ids_K) == 5
        assert chat.eos_id not in said.ids_K[:-1]
        assert said.text == chat.decode(said.ids_K)
        assert said.policy_version == 0
    assert ends == {EndedBy.STOP, EndedBy.LENGTH}


# --- 2: the cache ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["fixed", "ready"])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_logprobs_of_every_turn_are_those_of_a_plain_forward_pass(order, temperature):
    source = models.model()
    policy = models.local(source, concurrency=5, order=order)
    played = models.play(policy, n_tasks=6, siblings=4, temperature=temperature)
    assert {len(trajectory.turns) for trajectory in played} == {1, 2, 3}
    for trajectory in played:
        naive = models.naive_logprobs(source, trajectory.ids(), temperature)
        end = 0
        for turn in trajectory.turns:
            start = end + len(turn.context_ids)
            end = start + len(turn.completion.ids_K)
            assert_logprobs(turn.completion.logprobs_K, naive[start:end], PASS)
    assert is_idle(policy)


def test_siblings_share_the_prefill_of_their_prompt(monkeypatch):
    policy = models.local(concurrency=6)
    fed = []
    monkeypatch.setattr(policy, "_forward", lambda feeds, go_on=policy._forward: fed.append(len(feeds)) or go_on(feeds))
    played = models.play(policy, n_tasks=2, siblings=3, make_env=models.LockEnv)
    assert fed[0] == 2
    assert len({trajectory.turns[0].completion.ids_K.tobytes() for trajectory in played[:3]}) > 1


def test_long_prompts_are_fed_in_several_passes(monkeypatch):
    monkeypatch.setattr("turngate.agents.policies.local.PREFILL_TOKENS", 20)
    source, chat = models.model(), models.chat()
    orders = [request(chat.opening(text), episode=text) for text in PROMPTS]
    for order, said in zip(orders, complete(models.local(source), *orders), strict=True):
        naive = models.naive_logprobs(source, np.concatenate([order.ids, said.ids_K]))
        assert_logprobs(said.logprobs_K, naive[len(order.ids) :], PASS)


def test_the_cache_grows_in_the_middle_of_an_episode():
    source = models.model()
    policy = models.local(source, concurrency=1)
    rng = np.random.default_rng(0)
    ids = rng.integers(3, 300, size=200)

    async def go():
        nonlocal ids
        async with policy.slot():
            for turn in range(3):
                order = request(ids, turn=turn, seed=turn)
                said = await policy.complete(order)
                naive = models.naive_logprobs(source, np.concatenate([ids, said.ids_K]))
                assert_logprobs(said.logprobs_K, naive[len(ids) :], PASS)
                ids = np.concatenate([ids, said.ids_K, rng.integers(3, 300, size=100)])
            policy.release("e")

    asyncio.run(asyncio.wait_for(go(), 60))
    assert len(ids) > 480


def test_a_context_that_changed_is_fed_again_from_where_it_changed():
    source, chat = models.model(), models.chat()
    policy = models.local(source, concurrency=1)
    first = chat.opening("press the key of each colour")
    other = first.copy()
    other[3] += 1
    contexts = [first, other, other, other[:5], np.concatenate([other, first])]

    async def go():
        async with policy.slot():
            for seed, ids in enumerate(contexts):
                said = await policy.complete(request(ids, seed=seed))
                naive = models.naive_logprobs(source, np.concatenate([ids, said.ids_K]))
                assert_logprobs(said.logprobs_K, naive[len(ids) :], PASS)
            policy.release("e")

    asyncio.run(asyncio.wait_for(go(), 60))


# --- 3: reproducible -------------------------------------------------------------------------------------------------


def slow_lock(seed):
    """An environment whose every step takes another, random time."""
    rng = random.Random(seed)

    class Slow(models.ShortLock):
        def act(self, action):
            time.sleep(rng.random() * 0.004)
            return super().act(action)

    return Slow


def test_fixed_order_gives_the_same_bits_however_long_environments_take():
    runs = [
        models.play(models.local(concurrency=5), make_env=make_env, n_tasks=5, siblings=4)
        for make_env in (models.ShortLock, slow_lock(1), slow_lock(2))
    ]
    for one, other in ((runs[0], runs[1]), (runs[1], runs[2])):
        assert one == other  # ids, logprobs bit for bit, texts, evidence
    assert models.play(models.local(concurrency=5), n_tasks=5, siblings=4, seed=2) != runs[0]


# --- 4: no barrier ---------------------------------------------------------------------------------------------------


def test_the_others_decode_while_one_environment_is_busy(monkeypatch):
    gate, busy, steps = threading.Event(), threading.Event(), []

    class Stuck(models.LockEnv):
        def act(self, action):
            if self._episode.task.id == "lock/train/0" and not self._right:
                busy.set()
                assert gate.wait(30), "the others made no progress"
            return super().act(action)

    policy = models.local(concurrency=4, order="ready")

    def step(decode=policy._step):
        if busy.is_set() and not gate.is_set():
            steps.append(sum(row.job is not None for row in policy._rows))
            if len(steps) == 12:
                gate.set()
        decode()

    monkeypatch.setattr(policy, "_step", step)
    played = models.play(policy, make_env=Stuck, n_tasks=8, siblings=1)
    assert [trajectory.ending for trajectory in played] == [Ending.FINISHED] * 8
    assert sum(n > 0 for n in steps) >= 10


# --- 5: what breaks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["fixed", "ready"])
def test_a_forward_pass_that_fails_ends_its_turns_and_nobody_hangs(order, monkeypatch):
    policy = models.local(concurrency=4, order=order)
    calls = []

    def forward(*args, go_on=policy._forward):
        calls.append(args)
        if len(calls) == 6:
            raise RuntimeError("no kernel")
        return go_on(*args)

    monkeypatch.setattr(policy, "_forward", forward)
    played = models.play(policy, n_tasks=6, siblings=2)
    broken = [trajectory for trajectory in played if trajectory.ending is Ending.POLICY_ERROR]
    assert 1 <= len(broken) <= 4
    assert "failed: RuntimeError('no kernel')" in broken[0].error
    assert all(trajectory.ending is Ending.FINISHED for trajectory in played if trajectory not in broken)
    assert is_idle(policy)


def test_more_episodes_than_lanes_is_a_typed_error_and_leaves_nothing_behind():
    policy = models.local(concurrency=2)
    ids = models.chat().opening("red")

    async def in_one_slot():
        async with policy.slot():
            return await asyncio.gather(
                *(policy.complete(request(ids, episode=name)) for name in "abc"), return_exceptions=True
            )

    done = asyncio.run(asyncio.wait_for(in_one_slot(), 60))
    for name in "abc":
        policy.release(name)
    assert all(isinstance(error, PolicyError) for error in done)
    assert "more than 2 episodes at once" in str(done[2])
    assert is_idle(policy)
    (said,) = complete(policy, request(ids))
    assert len(said.ids_K)


@pytest.mark.parametrize("order", ["fixed", "ready"])
def test_whoever_wants_a_lane_that_another_holds_waits_for_it(order):
    """Two calls with five slots each, on a policy that has two: nothing fails, and each says what it says alone."""
    ids = models.chat().opening("red")
    orders = [request(ids, episode=name, seed=seed) for seed, name in enumerate("abcdefghij")]
    policy = models.local(concurrency=2, order=order)
    done = complete(policy, *orders)
    alone = [complete(models.local(concurrency=2, order=order), one)[0] for one in orders]
    assert [said.ids_K.tolist() for said in done] == [said.ids_K.tolist() for said in alone]
    assert is_idle(policy)


def test_without_a_lane_nothing_would_answer():
    with pytest.raises(RuntimeError, match="no slot is open"):
        asyncio.run(models.local().complete(request([1, 2])))


@pytest.mark.parametrize("order", ["fixed", "ready"])
@pytest.mark.parametrize("n_steps", [1, 2, 5, 11, 23])
def test_cancelling_leaves_the_policy_as_new(order, n_steps, monkeypatch):
    policy = models.local(concurrency=4, order=order)
    tasks = []

    with monkeypatch.context() as patch:

        def step(decode=policy._step, count=[n_steps]):  # noqa: B006 (counts down)
            count[0] -= 1
            if count[0] == 0:
                tasks[0].cancel()
            decode()

        patch.setattr(policy, "_step", step)

        async def go():
            async with models.EnvPool(slow_lock(0), size=4) as pool:
                plans, todo = [[None] * 3] * 4, models.tasks(4)
                play = models.play_groups(models.player(policy), pool, todo, plans, seed=1)
                tasks.append(asyncio.create_task(play))
                await asyncio.wait(tasks)

        asyncio.run(asyncio.wait_for(go(), 60))
    assert tasks[0].cancelled()
    assert is_idle(policy)
    asyncio.run(policy.publish(dict(models.model().named_parameters()), 0))
    again, fresh = models.play(policy, n_tasks=3), models.play(models.local(concurrency=4, order=order), n_tasks=3)
    if order == "fixed":
        assert again == fresh
    assert [trajectory.ending for trajectory in again] == [Ending.FINISHED] * 9


def test_an_error_of_the_caller_comes_out_as_itself():
    class Misused(models.LockEnv):
        def reset(self, *, seed=None, options=None):
            if options["task"].id == "lock/train/2":
                raise ConfigError("no such colour")
            return super().reset(seed=seed, options=options)

    policy = models.local(concurrency=3)
    with pytest.raises(ConfigError, match="no such colour") as caught:
        models.play(policy, make_env=Misused)
    assert caught.value.__cause__ is None
    assert is_idle(policy)


# --- weights ---------------------------------------------------------------------------------------------------------


def test_publishing_changes_what_is_sampled_and_the_version():
    policy, other = models.local(models.model(0)), models.model(9)
    order = request(models.chat().opening("red"), max_tokens=6)
    (before,) = complete(policy, order)
    asyncio.run(policy.publish(dict(other.named_parameters()), 7))
    (after,) = complete(policy, order)
    naive = models.naive_logprobs(other, np.concatenate([order.ids, after.ids_K]))
    assert_logprobs(after.logprobs_K, naive[len(order.ids) :], PASS)
    assert before != after
    assert (before.policy_version, after.policy_version) == (0, 7)


def test_publishing_copies():
    policy, other = models.local(models.model(0)), models.model(9)
    asyncio.run(policy.publish(dict(other.named_parameters()), 1))
    order = request(models.chat().opening("red"))
    (before,) = complete(policy, order)
    with torch.no_grad():
        for weight in other.parameters():
            weight.zero_()
    assert complete(policy, order) == [before]


def test_weights_of_another_model_are_refused_and_nothing_is_copied():
    policy = models.local()
    order = request(models.chat().opening("red"))
    (before,) = complete(policy, order)
    weights = {name: torch.zeros_like(weight) for name, weight in models.model().named_parameters()}
    last = list(weights)[-1]
    with pytest.raises(PolicyError, match=f"'{last}x'"):
        asyncio.run(policy.publish({**weights, f"{last}x": weights[last]}, 1))
    with pytest.raises(PolicyError, match=f"'{last}' has shape \\(1,\\), the model has \\(32,\\)"):
        asyncio.run(policy.publish({**weights, last: torch.zeros(1)}, 1))
    assert complete(policy, order) == [before]
    assert policy.version == 0


def test_weights_are_refused_while_episodes_are_in_flight():
    policy = models.local()
    weights = dict(models.model().named_parameters())

    async def go():
        async with policy.slot():
            await policy.complete(request(models.chat().opening("red")))
            with pytest.raises(PolicyError, match="while 1 episodes are in flight"):
                await policy.publish(weights, 1)
            policy.release("e")
            await policy.publish(weights, 1)

    asyncio.run(asyncio.wait_for(go(), 60))
    assert policy.version == 1


def test_releasing_twice_or_an_unknown_episode_does_nothing():
    policy = models.local()
    policy.release("never seen")
    assert is_idle(policy)


def test_a_limit_of_one_token_works():
    played = models.play(models.local(), limits=TokenLimits(turn_tokens=1, context=200))
    assert {len(turn.completion.ids_K) for trajectory in played for turn in trajectory.turns} == {1}
