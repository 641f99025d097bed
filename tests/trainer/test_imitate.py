"""The warm start: every demonstration once per epoch, a schedule, and that it learns what it is shown."""

import asyncio
import math

import pytest

from tests.helpers import models
from turngate.agents.policies.scripted import ScriptedPolicy
from turngate.envs.lock import LockEnv
from turngate.trainer.imitate import imitate, nothing
from turngate.trainer.loss import PolicyLoss
from turngate.trainer.pack import pack_demonstrations
from turngate.trainer.torch.learner import TorchLearner


class Notes:
    """A learner that only writes down what it is given."""

    def __init__(self):
        self.batches, self.scales = [], []

    def forward_backward(self, batch, loss):
        self.batches.append([batch.ids_L[batch.segment_L == s].tolist() for s in range(batch.n_segments)])
        assert batch.ce_weight_L.sum() == pytest.approx(1)
        return {"loss/imitation": float(len(self.batches))}

    def optim_step(self, *, lr_scale):
        self.scales.append(lr_scale)
        return {"learner/lr": lr_scale}


def numbered(n):
    return [models.trajectory([models.turn([index], [index])], name=str(index)) for index in range(n)]


def run(n=10, *, epochs=3, episodes_per_batch=4, seed=0, after_pass=nothing):
    notes, reports = Notes(), []
    work = imitate(
        notes,
        PolicyLoss(),
        numbered(n),
        epochs=epochs,
        episodes_per_batch=episodes_per_batch,
        seed=seed,
        report=lambda *report: reports.append(report),
        after_pass=after_pass,
    )
    asyncio.run(work)
    return notes, reports


def test_every_epoch_shows_each_demonstration_once_in_another_order():
    notes, reports = run()
    assert [len(batch) for batch in notes.batches] == [4, 4, 2] * 3
    epochs = [[ids[0] for batch in notes.batches[3 * e : 3 * e + 3] for ids in batch] for e in range(3)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    assert [(step, total) for step, total, _ in reports] == [(step, 9) for step in range(1, 10)]
    assert reports[0][2] == {"loss/imitation": 1.0, "learner/lr": notes.scales[0]}


def test_the_order_comes_from_the_seed():
    assert run(seed=1)[0].batches == run(seed=1)[0].batches
    assert run(seed=1)[0].batches != run(seed=2)[0].batches


def test_the_learning_rate_rises_over_a_twentieth_and_falls_to_a_twentieth():
    scales = run(n=40, epochs=10, episodes_per_batch=4)[0].scales
    assert len(scales) == 100
    assert scales[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert scales[5:] == sorted(scales[5:], reverse=True)
    halfway = 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * 47 / 95))
    assert scales[52] == pytest.approx(halfway)
    assert 0.05 < scales[-1] < 0.051


def test_each_pass_is_told_with_its_mean_cross_entropy_before_the_next_begins():
    told = []

    async def after_pass(number, cross_entropy):
        await asyncio.sleep(0)
        told.append((number, cross_entropy))

    assert len(run(after_pass=after_pass)[0].batches) == 9
    assert told == [(1, 2.0), (2, 5.0), (3, 8.0)]


def test_it_learns_what_it_is_shown():
    chat = models.chat()
    oracle = ScriptedPolicy(lambda request: "press a" if request.turn else "press b", chat)
    shown = models.play(oracle, make_env=LockEnv, n_tasks=8, siblings=1)
    learner = TorchLearner(models.plain_model(), lr=1e-2)
    before = learner.forward_backward(pack_demonstrations(shown), PolicyLoss())["loss/imitation"]
    learner.optim_step(lr_scale=0.0)
    asyncio.run(imitate(learner, PolicyLoss(), shown, epochs=20, episodes_per_batch=4, seed=0))
    after = learner.forward_backward(pack_demonstrations(shown), PolicyLoss())["loss/imitation"]
    assert before > 2
    assert after < 0.05
    played = models.play(models.local(learner.model), make_env=LockEnv, n_tasks=3, siblings=1, temperature=0)
    assert [[turn.action.text for turn in t.turns] for t in played] == [["press b", "press a", "press a"]] * 3
