"""The warm start: every demonstration once per pass, schedules, and that it learns what it is shown."""

import asyncio
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import models
from turngate.agents.policies.scripted import ScriptedPolicy
from turngate.envs.lock import LockEnv
from turngate.trainer.batch.pack import pack_demonstrations
from turngate.trainer.imitate import Imitation, converge, decay_passes, imitate
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.torch.learner import TorchLearner


class Notes:
    """A learner that only writes down what it is given; its weights are the number of its updates."""

    def __init__(self):
        self.batches, self.scales, self.weights, self.saved = [], [], 0, {}

    def forward_backward(self, batch, loss):
        self.batches.append([batch.ids_L[batch.segment_L == s].tolist() for s in range(batch.n_segments)])
        assert batch.ce_weight_L.sum() == pytest.approx(1)
        return {"loss/imitation": float(len(self.batches))}

    def optim_step(self, *, lr_scale):
        self.scales.append(lr_scale)
        self.weights += 1
        return {"learner/lr": lr_scale}

    def save(self, path):
        self.saved[path] = self.weights

    def load(self, path):
        self.weights = self.saved[path]


def numbered(n):
    return [models.trajectory([models.turn([index], [index])], name=str(index)) for index in range(n)]


def passes_of(n, *, episodes_per_batch=4, seed=0, report=lambda *report: None):
    return Imitation(
        Notes(), PolicyLoss(), numbered(n), episodes_per_batch=episodes_per_batch, seed=seed, report=report
    )


def run(n=10, *, epochs=3, **settings):
    reports = []
    passes = passes_of(n, report=lambda *report: reports.append(report), **settings)
    imitate(passes, epochs=epochs)
    return passes.learner, reports


def test_every_pass_shows_each_demonstration_once_in_another_order():
    notes, reports = run()
    assert [len(batch) for batch in notes.batches] == [4, 4, 2] * 3
    epochs = [[ids[0] for batch in notes.batches[3 * e : 3 * e + 3] for ids in batch] for e in range(3)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    assert [step for step, _ in reports] == list(range(1, 10))
    assert reports[0][1] == {"loss/imitation": 1.0, "learner/lr": notes.scales[0]}


def test_the_order_comes_from_the_seed():
    assert run(seed=1)[0].batches == run(seed=1)[0].batches
    assert run(seed=1)[0].batches != run(seed=2)[0].batches


def test_with_given_passes_the_learning_rate_rises_over_a_twentieth_and_falls_to_a_twentieth():
    scales = run(n=40, epochs=10, episodes_per_batch=4)[0].scales
    assert len(scales) == 100
    assert scales[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert scales[5:] == sorted(scales[5:], reverse=True)
    halfway = 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * 47 / 95))
    assert scales[52] == pytest.approx(halfway)
    assert 0.05 < scales[-1] < 0.051


# --- until validation stops improving --------------------------------------------------------------------------------


def converged(rates, *, most=100, patience=3, every=1):
    """Imitation of two updates whose validation gives ``rates`` in turn, and the last of them for ever after.

    Returns whether they converged, what validation was told, and the learner.
    """
    passes, told, left = passes_of(8), [], list(rates)

    async def validate(number, cross_entropy, phase):
        await asyncio.sleep(0)
        told.append((number, phase, passes.learner.weights))
        return left.pop(0) if len(left) > 1 else left[0]

    work = converge(passes, most=most, patience=patience, every=every, validate=validate, checkpoint=Path("best"))
    return asyncio.run(work), told, passes.learner


def test_it_goes_on_until_nothing_improves_and_lowers_the_learning_rate_from_the_best_pass():
    """Best after pass 10 (20 updates); passes 11 to 13 are no better, and 2 passes of falling rate follow pass 10."""
    found, told, notes = converged([*(n / 20 for n in range(1, 11)), 0.5, 0.4, 0.5, 0.9, 0.9])
    assert found
    constant = [(n, "constant", 2 * n) for n in range(1, 14)]
    assert told == [*constant, (11, "decay", 22), (12, "decay", 24)], "weights go back to those of the best pass"
    assert notes.scales == [0.5, 1.0, *[1.0] * 24, 1.0, 0.75, 0.5, 0.25]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.integers(1, 4), st.integers(0, 30))
def test_what_is_tried_does_not_depend_on_how_many_passes_are_allowed(rates, patience, more):
    """The law that a schedule which ends at the last allowed pass breaks."""
    enough = len(rates) + patience + 1
    found, told, notes = converged(rates, most=enough, patience=patience)
    assert found
    again, told_again, notes_again = converged(rates, most=enough + more, patience=patience)
    assert (again, told_again, notes_again.scales) == (found, told, notes.scales)


def test_where_passes_run_out_while_validation_improves_it_says_so():
    found, told, _ = converged([0.1, 0.2, 0.3, 0.4], most=4)
    assert not found
    assert [(number, phase) for number, phase, _ in told][-2:] == [(4, "constant"), (5, "decay")]


def test_passes_between_validations_count_as_passes_without_improvement():
    found, told, _ = converged([0.5, 0.5], patience=4, every=2)
    assert found
    assert [number for number, phase, _ in told if phase == "constant"] == [2, 4, 6]


@pytest.mark.parametrize(("best", "expected"), [(1, 1), (2, 1), (10, 2), (60, 12)])
def test_the_learning_rate_falls_over_a_fifth_of_the_passes(best, expected):
    assert decay_passes(best) == expected


def test_it_learns_what_it_is_shown():
    chat = models.chat()
    oracle = ScriptedPolicy(lambda request: "press a" if request.turn else "press b", chat)
    shown = models.play(oracle, make_env=LockEnv, n_tasks=8, siblings=1)
    learner = TorchLearner(models.plain_model(), lr=1e-2)
    before = learner.forward_backward(pack_demonstrations(shown), PolicyLoss())["loss/imitation"]
    learner.optim_step(lr_scale=0.0)
    imitate(Imitation(learner, PolicyLoss(), shown, episodes_per_batch=4, seed=0), epochs=20)
    after = learner.forward_backward(pack_demonstrations(shown), PolicyLoss())["loss/imitation"]
    assert before > 2
    assert after < 0.05
    played = models.play(models.local(learner.model), make_env=LockEnv, n_tasks=3, siblings=1, temperature=0)
    assert [[turn.action.text for turn in t.turns] for t in played] == [["press b", "press a", "press a"]] * 3
