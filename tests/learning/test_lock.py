"""Reinforcement learning finds the keys of the lock; the same training on somebody else's credit does not.

The warm start teaches the form of an action and to look at the colour, but not the keys: it shows the right key in
three of eight turns, and as often a wrong one, always the same for a colour. So about one episode in 19 opens the lock
at first, and only the outcome says which.
"""

import asyncio
import copy
from functools import partial

import pytest

from tests.helpers import models
from turngate.agents.policies.local import LocalPolicy
from turngate.agents.policies.scripted import ScriptedPolicy
from turngate.agents.rollout import TokenLimits
from turngate.envs.lock import KEYS, RUBRIC, LockEnv, LockTasks
from turngate.envs.pool.pool import EnvPool
from turngate.trainer.ahead import training_of
from turngate.trainer.credit.control import shuffle_between_trajectories
from turngate.trainer.credit.grpo import grpo
from turngate.trainer.credit.turn_gae import turn_gae, value_targets
from turngate.trainer.evaluation.evaluate import evaluate
from turngate.trainer.filters.parts import varied
from turngate.trainer.guidance.base import NoGuide
from turngate.trainer.imitate import Imitation, imitate
from turngate.trainer.learner import Critic
from turngate.trainer.loss.corrections import Truncated
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.run import Run
from turngate.trainer.signals.base import Signals
from turngate.trainer.signals.values import Values
from turngate.trainer.torch.learner import TorchLearner
from turngate.types import derive_seed

STEPS, TASKS, SIBLINGS = 16, 16, 8
SHIFTS = (0, 0, 0, 1, 1, 1, 2, 3)  # how far the shown key is from the right one
LIMITS = TokenLimits(turn_tokens=4, context=100)


def tasks(first, n, split="train"):
    return [LockTasks().task(split, first + index) for index in range(n)]


def ignorant(request):
    right = LockEnv().oracle(LockTasks().find(request.task_id))[request.turn].removeprefix("press ")
    shift = SHIFTS[derive_seed("shown", request.task_id, request.turn) % len(SHIFTS)]
    return f"press {KEYS[(KEYS.index(right) + shift) % len(KEYS)]}"


@pytest.fixture(scope="module")
def start():
    """A model after the warm start."""
    policy = ScriptedPolicy(ignorant, models.chat(), concurrency=8)
    shown = models.play(policy, make_env=LockEnv, n_tasks=200, siblings=1)
    model = models.plain_model()
    learner = TorchLearner(model, lr=1e-2)
    imitate(Imitation(learner, PolicyLoss(), shown, episodes_per_batch=16, seed=0), epochs=6)
    return model


class Forget:
    def write(self, step, scored):
        pass

    def write_credit(self, step, found):
        pass


class InBlocks:
    """The curriculum: other tasks in each step, whatever the results."""

    stateful = False

    def pick(self, step):
        return tasks(1000 + step * TASKS, TASKS)

    def observe(self, groups):
        pass

    def metrics(self):
        return {}


def success_after(model, steps, credit, seed=0, critic=None, ahead=0):
    """Success on held-out tasks after ``steps`` updates; ``model`` is not touched. A critic sees every group."""
    learner = TorchLearner(copy.deepcopy(model), lr=3e-3, critic=critic)
    values = (Values(learner=learner, targets=partial(value_targets, lam=1.0)),) if critic else ()
    player = models.player(LocalPolicy(copy.deepcopy(model), models.chat(), concurrency=64), limits=LIMITS)

    async def go():
        async with EnvPool(LockEnv, size=64) as pool:
            run = Run(
                player=player,
                worlds=pool,
                score=RUBRIC.score_group,
                guide=NoGuide(),
                credit=credit,
                filters={} if critic else {"varied": varied},
                learner=learner,
                loss=PolicyLoss(correction=(Truncated(),), decoupled=True) if ahead else PolicyLoss(),
                store=Forget(),
                group_size=SIBLINGS,
                minibatches=1,
                aggregate="token",
                tolerance=1e-4,
                seed=seed,
                signals=Signals(sources=values),
                curriculum=InBlocks(),
            )
            training = training_of(run, ahead=ahead, last=steps)
            ages = [(await training.step(step)).get("policy/age", 0) for step in range(1, steps + 1)]
            assert max(ages, default=0) == ahead
            heldout = tasks(0, 100, "heldout")
            return await evaluate(player, pool, run.score, heldout, split="heldout", samples=1, seed=1)

    result, _ = asyncio.run(asyncio.wait_for(go(), 280))
    assert result.unusable == 0
    return result.rate


@pytest.mark.learning
def test_at_first_the_keys_are_not_known(start):
    assert success_after(start, 0, grpo) < 0.1


@pytest.mark.learning
def test_reinforcement_learning_finds_the_keys(start):
    assert success_after(start, STEPS, grpo) >= 0.8


@pytest.mark.learning
def test_rollouts_ahead_of_the_learner_find_them_too(start):
    assert success_after(start, STEPS, grpo, ahead=1) >= 0.8


@pytest.mark.learning
def test_a_critic_finds_them_too(start):
    """Credit by GAE over turns, with values that are learned along the way; ``rloo`` reaches 0.94."""
    assert success_after(start, STEPS, turn_gae, critic=Critic(lr_factor=3.0, epochs=10)) >= 0.8


@pytest.mark.learning
def test_credit_of_other_trajectories_does_not(start):
    calls = iter(range(STEPS))

    def somebody_elses(table):
        return shuffle_between_trajectories(table, grpo(table), next(calls))

    assert success_after(start, STEPS, somebody_elses) < 0.5
