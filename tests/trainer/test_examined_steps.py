"""Examiners inside a training step and an evaluation: when they begin, what they feed, what a missing fact costs."""

import asyncio
from typing import ClassVar

import numpy as np
import pytest

from tests.helpers import examine_kit, models
from turngate.agents.policies.local import LocalPolicy
from turngate.envs.lock import LockEnv
from turngate.envs.pool.pool import EnvPool
from turngate.errors import RunError
from turngate.judges.examiners.base import Examiner, Scope
from turngate.judges.examiners.examining import Examining
from turngate.rewards import FromEvidence, Rubric
from turngate.trainer.credit.rloo import rloo
from turngate.trainer.evaluation.evaluate import evaluate
from turngate.trainer.filters.parts import varied
from turngate.trainer.guidance.base import NoGuide
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.run import Run
from turngate.trainer.step import train_step
from turngate.types import Evidence

LOG: list[str] = []
LETTERS = Rubric(rewards=(FromEvidence(name="letters", evidence="letters", kind="outcome"),))


class Telling(LockEnv):
    """Says when an episode ends."""

    def verify(self):
        LOG.append("ended")
        return super().verify()


class Letters(Examiner):
    """How much was said, from 0 to 1; a fact that only it knows."""

    type: str = "letters_of_test"
    scope: ClassVar[Scope] = "group"
    silent: bool = False

    @property
    def writes(self):
        return ("letters",)

    async def examine(self, groups, context):
        LOG.append("examined")
        return [[(self._fact(trajectory),) for trajectory in group.trajectories] for group in groups]

    def _fact(self, trajectory):
        said = sum(len(turn.completion.text) for turn in trajectory.turns)
        return Evidence(name="letters", value=None if self.silent else min(1.0, said / 50), by="judge")


class Recorder:
    def __init__(self):
        self.written = []

    def write(self, step, scored):
        self.written.append(scored)

    def write_credit(self, step, found):
        pass


def run_with(examiner, *, guide=None, evaluated=False):
    """One step of training with the examiner, or an evaluation: the run and what came of it."""
    LOG.clear()
    policy = LocalPolicy(models.model(), models.chat(), concurrency=4)

    async def go():
        async with EnvPool(Telling, size=4) as pool:
            player = models.player(policy, temperature=0.9)
            context = examine_kit.context(policy)
            async with Examining([examiner], context) as examining:
                if evaluated:
                    return await evaluate(
                        player,
                        pool,
                        LETTERS.score_group,
                        models.tasks(2),
                        split="train",
                        samples=2,
                        seed=0,
                        examining=examining,
                        reads=LETTERS.readers,
                    )
                run = Run(
                    player=player,
                    worlds=pool,
                    score=LETTERS.score_group,
                    guide=guide or NoGuide(),
                    credit=rloo,
                    filters={"varied": varied},
                    learner=models.learner(temperature=0.9),
                    loss=PolicyLoss(),
                    store=Recorder(),
                    group_size=4,
                    minibatches=1,
                    aggregate="token",
                    tolerance=1e-4,
                    seed=0,
                    examining=examining,
                )
                return run, await train_step(run, models.tasks(4), 1)

    return asyncio.run(asyncio.wait_for(go(), 60))


def test_an_examiner_of_groups_begins_while_others_are_still_played():
    run_with(Letters())
    assert LOG.count("examined") == 4
    assert LOG.count("ended") == 16
    assert "ended" in LOG[LOG.index("examined") :]


def test_what_it_found_is_scored_trained_on_and_stored():
    run, metrics = run_with(Letters())
    (groups,) = run.store.written
    trajectories = [trajectory for group in groups for trajectory in group.trajectories]
    found = [fact.value for one in trajectories for fact in one.evidence if fact.name == "letters"]
    assert len(found) == 16
    assert metrics["train/outcome"] == pytest.approx(np.mean(found))
    assert metrics["policy/version"] == 1
    assert metrics["examine/letters/failed"] == 0


def test_a_step_in_which_no_fact_could_be_had_is_told_and_the_run_goes_on(caplog: pytest.LogCaptureFixture):
    run, metrics = run_with(Letters(silent=True))
    assert metrics["train/unusable_share"] == 1
    assert metrics["drop/unusable_trajectories"] == 16
    assert "train/outcome" not in metrics
    assert "policy/version" not in metrics
    assert "none of 16 episodes of this step can be scored" in caplog.text
    assert len(run.store.written[0]) == 4


def test_without_examiners_it_ends_the_run():
    policy = LocalPolicy(models.model(), models.chat(), concurrency=4)

    async def go():
        async with EnvPool(Telling, size=4) as pool, Examining([], examine_kit.context(policy)) as examining:
            run = Run(
                player=models.player(policy),
                worlds=pool,
                score=LETTERS.score_group,
                guide=NoGuide(),
                credit=rloo,
                filters={},
                learner=models.learner(),
                loss=PolicyLoss(),
                store=Recorder(),
                group_size=2,
                minibatches=1,
                aggregate="token",
                tolerance=1e-4,
                seed=0,
                examining=examining,
            )
            await train_step(run, models.tasks(1), 1)

    with pytest.raises(RunError, match="none of 2 episodes of this step can be used"):
        asyncio.run(asyncio.wait_for(go(), 60))


def test_an_evaluation_asks_the_examiners_that_its_rubric_reads():
    result, groups = run_with(Letters(), evaluated=True)
    assert result.unusable == 0
    assert len(result.success_B) == 4
    assert LOG.count("examined") == 2
    assert all(score.usable for group in groups for score in group.scores)
