"""What ``test_fsdp.py`` runs with torchrun: two processes, of which the first compares an ``FsdpLearner`` with a
``TorchLearner`` of the same model, case by case, and writes what went wrong in each into a file.
"""

import gc
import json
import os
import signal
import sys
import traceback
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.helpers import models
from tests.trainer.torch.test_packing import batch_of, batch_with_turn_credit
from turngate.errors import ConfigError, StoreError, TurngateError
from turngate.run.stopping import Stopped, stopping_in_order
from turngate.trainer.learner import FsdpLearnerPart
from turngate.trainer.loss import ClipCov, EntropyBonus, PolicyLoss
from turngate.trainer.pack import pack_demonstrations
from turngate.trainer.torch.sharded import ShardLearner
from turngate.trainer.torch.team import current
from turngate.types import PLAIN, Sampling

LOSS = PolicyLoss(penalties=(EntropyBonus(coef=0.01),))
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def both(sampling=PLAIN, **settings):
    """The learner of two processes, and that of one."""
    part = FsdpLearnerPart(lr=1e-3, **settings)
    alone = {name: value for name, value in part.settings().items() if name in ("lr", "tokens_per_pass", "packing")}
    limits = {"temperature": sampling.temperature, "top_p": sampling.top_p}
    return part.open(models.model(), sampling=sampling), models.learner(**alone, **limits)


def gradient_of(team, number):
    """Called in every process: the whole gradient of a learner."""
    learner = team.held[number]
    assert isinstance(learner, ShardLearner)
    return [weight.grad.full_tensor() for weight in learner.model.parameters()]


def agree(ours, theirs, batch, loss=LOSS):
    """Metrics, gradients and the weights after an update are the same."""
    metrics, expected = ours.forward_backward(batch, loss), theirs.forward_backward(batch, loss)
    close(metrics, expected)
    found = current().call(gradient_of, [(ours._number,)] * 2)[0]
    wanted = [weight.grad for weight in theirs.model.parameters()]
    largest = max(float(one.abs().max()) for one in wanted)
    assert largest > 1e-3
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), atol=1e-5 * largest)
    close(ours.optim_step(), theirs.optim_step())
    same_weights(ours, theirs)


def close(metrics, expected):
    assert set(metrics) == set(expected), set(metrics) ^ set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-5, atol=1e-5, err_msg=name)


def same_weights(ours, theirs):
    found = ours.weights()
    for name, weight in theirs.weights().items():
        np.testing.assert_allclose(found[name].numpy(), weight.numpy(), atol=2e-5, err_msg=name)
    assert all(torch.equal(weight, found[name]) for name, weight in ours.model.named_parameters())


@case
def rows():
    _, batch = batch_of()
    agree(*both(packing="rows"), batch)


@case
def trees():
    _, batch = batch_of()
    agree(*both(packing="tree"), batch)


@case
def micro_batches_of_which_the_processes_have_different_numbers():
    _, batch = batch_of()
    agree(*both(tokens_per_pass=60), batch)
    few = pack_demonstrations(batch_of()[0][:3])
    agree(*both(tokens_per_pass=30, packing="rows"), few)


@case
def every_way_is_one_segment_at_a_time_in_one_process():
    _, batch = batch_with_turn_credit()
    ways = [("rows", 10_000), ("tree", 10_000), ("tree", 90)]
    for packing, limit in ways:
        ours, _ = both(packing=packing, tokens_per_pass=limit)
        agree(ours, models.learner(packing="rows", tokens_per_pass=1), batch)


@case
def a_batch_in_which_one_process_has_nothing_to_learn():
    _, batch = batch_of()
    half = batch.segment_L < 7
    masked = replace(batch, policy_weight_L=np.where(half, batch.policy_weight_L, 0).astype(np.float32))
    agree(*both(), masked)


@case
def one_trajectory_for_two_processes():
    agree(*both(), pack_demonstrations(batch_of()[0][:1]))


@case
def a_survey_sees_the_whole_batch():
    _, batch = batch_of()
    for packing in ("rows", "tree"):
        agree(*both(packing=packing), batch, PolicyLoss(objective=ClipCov()))


@case
def measurements_and_what_truncation_cuts_off():
    _, batch = batch_of()
    for sampling in (Sampling(temperature=0.7), Sampling(temperature=0.7, top_p=0.9)):
        ours, theirs = both(sampling)
        for measure in ("logprobs", "entropies"):
            found, expected = (getattr(one, measure)(batch) for one in (ours, theirs))
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(ours.logprobs(batch, whole=True), theirs.logprobs(batch, whole=True), atol=1e-5)
        close(ours.forward_backward(batch, LOSS), theirs.forward_backward(batch, LOSS))


@case
def what_is_held_back_has_a_norm_of_its_own():
    _, batch = batch_of()
    ours, theirs = both()
    for one in (ours, theirs):
        one.forward_backward(batch, LOSS)
    assert abs(ours.hold_gradient() - theirs.hold_gradient()) < 1e-5
    for one in (ours, theirs):
        one.forward_backward(pack_demonstrations(batch_of(1)[0]), LOSS)
    assert abs(ours.hold_gradient() - theirs.hold_gradient()) < 1e-4
    ours.logprobs(batch)  # gathers weights that the update then changes
    close(ours.optim_step(), theirs.optim_step())
    np.testing.assert_allclose(ours.logprobs(batch), theirs.logprobs(batch), atol=1e-4)


@case
def two_learners_of_one_model_share_it():
    _, batch = batch_of()
    gc.collect()  # learners of other cases, in tracebacks and the like
    ours, _ = both()
    other = FsdpLearnerPart().open(ours.model, sampling=Sampling(temperature=0.5))
    before = other.logprobs(batch)
    ours.forward_backward(batch, LOSS)
    ours.optim_step()
    assert not np.allclose(other.logprobs(batch), before)
    ours.weights()
    held = current().call(held_here, [()] * 2)
    expected = models.learner(ours.model, temperature=0.5).logprobs(batch)
    np.testing.assert_allclose(other.logprobs(batch), expected, atol=1e-5)
    del other
    assert current().call(held_here, [()] * 2) == [number - 1 for number in held]


def held_here(team):
    return len(team.held)


@case
def a_file_is_that_of_one_process_and_goes_on_in_both():
    _, batch = batch_of()
    folder = Path(sys.argv[2]).parent
    ours, theirs = both()
    agree(ours, theirs, batch)
    for one, name in ((ours, "two.pt"), (theirs, "one.pt")):
        one.save(folder / name)
    for name in ("one.pt", "two.pt"):
        again, alone = both()
        again.load(folder / name)
        alone.load(folder / name)
        agree(again, alone, batch_of(1)[1])
    other = FsdpLearnerPart().open(
        models.tiny.random_model(models.tokenizer(), layers=1, width=32, heads=2, context=64, seed=0)
    )
    with pytest.raises(StoreError, match="another model"):
        other.load(folder / "two.pt")


@case
def what_is_refused():
    ours, _ = both()
    _, batch = batch_of()
    with pytest.raises(ConfigError, match="cannot be sent"):
        ours.forward_backward(batch, lambda tokens: (tokens.logprob.sum(), {}))
    with pytest.raises(ConfigError, match="no critic"):
        ours.values(batch, np.zeros(batch.n_tokens, bool))
    ours.logprobs(batch)  # goes on


def compare(results):
    """Every case in turn, and what went wrong in it."""
    found = {}
    for name, function in CASES.items():
        try:
            function()
            found[name] = ""
        except Exception:
            found[name] = traceback.format_exc()
    results.write_text(json.dumps(found))


# --- errors -----------------------------------------------------------------------------------------------------------


def dying(team, pids):
    """Called in every process: the second one dies, and the first one waits for it."""
    with pids.open("a") as file:
        file.write(f"{os.getpid()}\n")
    team.most(0)
    if team.place.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    team.most(0)


def main(how, path):
    torch.use_deterministic_algorithms(True)
    with FsdpLearnerPart(timeout_s=60).started() as works:
        if works and how == "compare":
            compare(path)
        elif works:
            current().call(dying, [(path,)] * 2)


if __name__ == "__main__":
    with stopping_in_order():
        try:
            main(sys.argv[1], Path(sys.argv[2]))
        except TurngateError as error:
            sys.exit(f"{type(error).__name__}: {error}")
        except Stopped as stop:
            sys.exit(str(stop))
