"""Dynamic sampling: a step plays further tasks for those whose groups were dropped, and its books balance."""

import asyncio

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import models
from turngate.agents.policies.scripted import ScriptedPolicy
from turngate.envs.lock import RUBRIC, LockEnv
from turngate.envs.pool.pool import EnvPool
from turngate.store.metrics import Clock
from turngate.trainer.credit.grpo import grpo
from turngate.trainer.curriculum.base import Supply
from turngate.trainer.curriculum.pass_rates import expected_draws, informative
from turngate.trainer.curriculum.task_order import InOrder
from turngate.trainer.filters.parts import keep
from turngate.trainer.guidance.base import NoGuide
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.refill import batch_size
from turngate.trainer.run import Run
from turngate.trainer.waves import play_waves

PER_STEP = 3


def number(task):
    return int(task.id.rpartition("/")[2])


def tasks_in_order(n):
    """``n`` tasks in batches, again and again."""
    everything = models.tasks(n)
    return Supply(
        in_order=lambda at: [everything[(PER_STEP * (at - 1) + i) % n] for i in range(PER_STEP)],
        pools=lambda most: [],
        per_step=PER_STEP,
        group_size=2,
        seed=0,
        refilled=True,
    )


def steps(passes, *, batches=10, n_tasks=60, n_steps=1):
    """The waves, the kept groups and the metrics of some steps, whose filter keeps tasks by their number."""

    async def go():
        async with EnvPool(LockEnv, size=8) as pool:
            curriculum = InOrder(tasks_in_order(n_tasks))
            run = Run(
                player=models.player(ScriptedPolicy(lambda request: "press a", models.chat(), concurrency=8)),
                worlds=pool,
                score=RUBRIC.score_group,
                guide=NoGuide(),
                credit=grpo,
                filters={"chosen": lambda group: passes(number(group.task))},
                learner=None,
                loss=PolicyLoss(),
                store=None,
                group_size=2,
                minibatches=1,
                aggregate="token",
                tolerance=1e-4,
                seed=0,
                curriculum=curriculum,
                batches=batches,
            )
            found = []
            for step in range(1, n_steps + 1):
                tasks = curriculum.pick(step)
                waves = await play_waves(run, tasks, step, Clock())
                kept, drops = keep(waves.groups, run.filters, most=len(tasks))
                found.append((waves, kept, drops | waves.metrics))
            return found

    return asyncio.run(asyncio.wait_for(go(), 60))


def ids(groups):
    return [number(group.task) for group in groups]


def test_further_tasks_take_the_place_of_dropped_ones():
    """Every second task stays: 0 and 2 of the first three; 2 more are played for the one that is missing."""
    ((waves, kept, metrics),) = steps(lambda n: n % 2 == 0)
    assert ids(waves.groups) == [0, 1, 2, 3, 4]
    assert ids(waves.played) == ids(waves.groups)
    assert ids(kept) == [0, 2, 4]
    assert (metrics["refill/batches"], metrics["refill/tasks"], metrics["refill/missing_tasks"]) == (2, 5, 0)


def test_what_is_left_over_is_dropped_as_surplus_and_the_next_step_goes_on_behind_it():
    first, second = steps(lambda n: n not in (1, 2), n_steps=2)
    assert ids(first[0].groups) == [0, 1, 2, 3, 4, 5]  # 2 are missing and a third stayed: 7.5, but at most a batch
    assert ids(first[1]) == [0, 3, 4]
    assert first[2]["drop/surplus_groups"] == 1
    assert first[2]["drop/surplus_trajectories"] == 2
    assert ids(second[0].groups) == [6, 7, 8]
    assert second[2]["refill/batches"] == 1


def test_a_full_step_plays_one_batch():
    ((waves, kept, metrics),) = steps(lambda n: True)
    assert ids(waves.groups) == ids(kept) == [0, 1, 2]
    assert metrics["refill/batches"] == 1


def test_without_refill_nothing_further_is_played_or_counted():
    ((waves, kept, metrics),) = steps(lambda n: n == 0, batches=1)
    assert (ids(waves.groups), ids(kept)) == ([0, 1, 2], [0])
    assert not any(name.startswith("refill/") for name in metrics)


def test_a_step_that_cannot_be_filled_is_trained_on_what_there_is():
    ((waves, kept, metrics),) = steps(lambda n: n == 7, batches=4)
    assert ids(waves.groups) == list(range(12))
    assert ids(kept) == [7]
    assert (metrics["refill/batches"], metrics["refill/missing_tasks"]) == (4, 2)
    ((waves, kept, metrics),) = steps(lambda n: False, n_tasks=4)
    assert ids(waves.groups) == [0, 1, 2, 3]  # there are no more
    assert (kept, metrics["refill/missing_tasks"]) == ([], 3)


@settings(max_examples=10, deadline=None)
@given(good=st.sets(st.integers(0, 29)), batches=st.integers(2, 5))
def test_played_is_kept_and_dropped_by_reason(good, batches):
    for waves, kept, metrics in steps(lambda n: n in good, batches=batches, n_tasks=30, n_steps=2):
        dropped = sum(value for name, value in metrics.items() if name.startswith("drop/") and name.endswith("_groups"))
        assert len(waves.groups) == len(kept) + dropped == metrics["refill/tasks"]
        assert len(set(ids(waves.groups))) == len(waves.groups) <= PER_STEP * batches
        assert len(kept) + metrics["refill/missing_tasks"] == PER_STEP
        assert ids(kept) == [n for n in ids(waves.groups) if n in good][:PER_STEP]


def test_how_many_are_played_next():
    assert batch_size(2, kept=8, played=10, most=16) == 4
    assert batch_size(12, kept=4, played=16, most=16) == 16
    assert batch_size(1, kept=0, played=16, most=16) == 16
    assert batch_size(4, kept=4, played=8, most=16) == 10


def test_the_expected_number_of_groups_is_that_of_drawing_them():
    """B4: 16 kept of groups of 8 at pass rate 0.1 cost 28.093 on average."""
    share = float(informative(0.1, 8))
    drawn = 16 + np.random.default_rng(0).negative_binomial(16, share, size=20_000)
    assert drawn.mean() == pytest.approx(expected_draws(16, share), rel=0.01)
    assert expected_draws(16, share) == pytest.approx(28.093, abs=1e-3)
