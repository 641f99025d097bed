"""What ``test_fsdp.py`` runs with torchrun: two processes, of which the first compares an ``FsdpLearner`` with a
``TorchLearner`` of the same model, case by case, and writes what went wrong in each into a file.
"""

import asyncio
import gc
import json
import logging
import os
import shutil
import signal
import sys
import traceback
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.distributed.checkpoint import FileSystemWriter

from tests.helpers import models
from tests.helpers.rounding import GRADIENT, PASS, assert_logprobs
from tests.trainer.torch import test_critic
from tests.trainer.torch.test_packing import batch_of, batch_with_turn_credit, strange
from turngate.errors import ConfigError, StoreError, TurngateError
from turngate.run.process.signals import Stopped, stopping_in_order
from turngate.trainer.batch.pack import pack_demonstrations
from turngate.trainer.checkpoint import Checkpoints
from turngate.trainer.learner import Critic, FsdpLearnerPart
from turngate.trainer.loss.covariance import ClipCov
from turngate.trainer.loss.entropy import EntropyBonus
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.torch.sharded import ShardLearner
from turngate.trainer.torch.team import current
from turngate.types import PLAIN, Sampling

LOSS = PolicyLoss(penalties=(EntropyBonus(coef=0.01),))
LR = 1e-3
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def both(sampling=PLAIN, critic=None, **settings):
    """The learner of two processes, and that of one."""
    part = FsdpLearnerPart(lr=LR, **settings)
    alone = {name: value for name, value in part.settings().items() if name in ("lr", "tokens_per_pass", "packing")}
    limits = {"temperature": sampling.temperature, "top_p": sampling.top_p}
    ours = part.open(models.model(), sampling=sampling, critic=critic)
    return ours, models.learner(critic=critic, **alone, **limits)


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
        np.testing.assert_allclose(one.numpy(), other.numpy(), atol=GRADIENT * largest, rtol=0)
    close(ours.optim_step(), theirs.optim_step())
    same_weights(ours, theirs)


def close(metrics, expected):
    assert set(metrics) == set(expected), set(metrics) ^ set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(metrics[name], value, rtol=GRADIENT, atol=PASS, err_msg=name)


def same_weights(ours, theirs):
    """To a fiftieth of an update, but for a number in a hundred: AdamW moves each by its gradient's sign, and where
    that is zero but for rounding, the sign is anybody's."""
    found = ours.weights()
    assert list(found) == list(theirs.weights())
    for name, weight in theirs.weights().items():
        assert found.shape(name) == tuple(weight.shape)
        assert np.mean(np.abs(found[name].numpy() - weight.numpy()) > LR / 50) < 0.01, name


def bits_of(learner):
    return {name: weight.clone() for name, weight in learner.weights().items()}


def equal(some, others):
    return some.keys() == others.keys() and all(torch.equal(one, others[name]) for name, one in some.items())


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
            assert_logprobs(found, expected, PASS)
        assert_logprobs(ours.logprobs(batch, whole=True), theirs.logprobs(batch, whole=True), PASS)
        close(ours.forward_backward(batch, LOSS), theirs.forward_backward(batch, LOSS))


@case
def what_is_held_back_has_a_norm_of_its_own():
    _, batch = batch_of()
    ours, theirs = both()
    for one in (ours, theirs):
        one.forward_backward(batch, LOSS)
    assert ours.hold_gradient() == pytest.approx(theirs.hold_gradient(), rel=GRADIENT)
    for one in (ours, theirs):
        one.forward_backward(pack_demonstrations(batch_of(1)[0]), LOSS)
    assert ours.hold_gradient() == pytest.approx(theirs.hold_gradient(), rel=GRADIENT)
    ours.logprobs(batch)  # gathers weights that the update then changes
    close(ours.optim_step(), theirs.optim_step())
    np.testing.assert_allclose(ours.logprobs(batch), theirs.logprobs(batch), atol=1e-4)


@case
def trees_that_differ_from_rows_are_found_out_in_all_processes():
    _, batch = batch_of()
    said = []
    logging.getLogger("turngate.trainer.torch.packing").addFilter(lambda row: said.append(row.getMessage()))
    theirs = models.learner(strange("sinks"), packing="rows")
    agree(FsdpLearnerPart(lr=1e-3).open(strange("sinks")), theirs, batch)
    assert len(said) == 1
    assert "cannot learn from shared prefixes" in said[0]


@case
def two_learners_of_one_model_share_it_and_one_of_a_twin_does_not():
    _, batch = batch_of()
    gc.collect()  # learners of other cases, in tracebacks and the like
    ours, theirs = both()
    cool = Sampling(temperature=0.5)
    other = FsdpLearnerPart().open(ours.model, sampling=cool)
    start = FsdpLearnerPart().measuring_start(ours, ours.model, sampling=cool)
    before = other.logprobs(batch)
    for one in (ours, theirs):
        one.forward_backward(batch, LOSS)
        one.optim_step()
    expected = models.learner(theirs.model, temperature=0.5).logprobs(batch)
    np.testing.assert_allclose(other.logprobs(batch), expected, atol=1e-5)
    np.testing.assert_array_equal(start.logprobs(batch), before)
    assert not np.allclose(other.logprobs(batch), before)
    held = current().call(held_here, [()] * 2)
    del other, start  # with the twin
    assert current().call(held_here, [()] * 2) == [number - 3 for number in held]


@case
def no_process_has_the_whole_model_and_what_is_published_comes_in_one_weight_at_a_time():
    _, batch = batch_of()
    ours, _ = both()
    policy = models.local()
    assert all(weight.is_meta for weight in ours.model.parameters())
    ours.forward_backward(batch, LOSS)
    ours.optim_step()
    asyncio.run(policy.publish(ours.weights(), 1))
    published = dict(policy._model.named_parameters())
    assert equal(dict(ours.weights()), published)
    wanted = [-(-len(weight) // 2) * weight[:1].numel() for weight in published.values()]
    assert current().call(sizes_here, [(ours._place,)] * 2) == [wanted, wanted]

    stopping = iter(ours.weights().items())
    next(stopping)
    ours.logprobs(batch)  # nobody waits for the rest


def sizes_here(team, place):
    """How many numbers of each weight a process has."""
    return [weight.to_local().numel() for weight in team.held[place].parameters()]


def held_here(team):
    return len(team.held)


CRITICS = {
    "apart": Critic(lr_factor=5.0, epochs=3, clip=0.2),
    "shared": Critic(shared=True, coef=0.5),
    "warming up": Critic(warmup=1, epochs=2, lr_factor=5.0),
}


@case
def critics():
    played, batch = batch_of()
    before_N, _ = test_critic.boundaries(played)
    wanted_L = np.zeros(batch.n_tokens, bool)
    wanted_L[before_N] = True
    few = test_critic.returns_of(played)
    few["value_weight_L"] = np.where(batch.segment_L == 0, few["value_weight_L"], 0)  # the second process has none
    for name, critic in CRITICS.items():
        ours, theirs = both(critic=critic, tokens_per_pass=200)
        for returns in (test_critic.returns_of(played), few, {}, test_critic.returns_of(played, seed=2)):
            close(*(one.forward_backward(batch, LOSS, measured=returns) for one in (ours, theirs)))
            close(ours.optim_step(), theirs.optim_step())
        found, expected = (one.values(batch, wanted_L) for one in (ours, theirs))
        assert np.abs(expected).max() > 1e-3, name
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=name)
        same_weights(ours, theirs)
        heads = current().call(head_here, [(ours._number,)] * 2)
        np.testing.assert_array_equal(heads[0], heads[1])


def head_here(team, number):
    """The critic's head of a process."""
    return torch.cat([weight.detach().flatten() for weight in team.held[number]._value_head.parameters()]).numpy()


@case
def both_go_on_from_what_either_saved():
    """Bit for bit in as many processes, to rounding in another number."""
    played, batch = batch_of()
    returns = test_critic.returns_of(played)
    for critic in (None, CRITICS["apart"]):
        folder = Path(sys.argv[2]).parent / ("critic" if critic else "none")
        ours, theirs = both(critic=critic)
        for one, name in ((ours, "two"), (theirs, "one")):
            one.forward_backward(batch, LOSS, measured=returns if critic else {})
            one.optim_step()
            Checkpoints(folder / name).save(1, one)
        files = {path.name for path in (folder / "two" / "step=000001" / "state").iterdir()}
        assert files == {".metadata", "__0_0.distcp", "__1_0.distcp"}
        agains = {}
        for name in ("one", "two"):
            again, alone = both(critic=critic)
            for one in (again, alone):
                Checkpoints(folder / name).load(1, one)
            agains[name] = again, alone
        assert equal(bits_of(agains["two"][0]), bits_of(ours))
        assert equal(bits_of(agains["two"][1]), bits_of(ours))
        assert equal(bits_of(agains["one"][0]), bits_of(theirs))
        for one in (ours, theirs, *agains["one"], *agains["two"]):
            one.forward_backward(batch_of(1)[1], LOSS)
            one.optim_step()
        assert equal(bits_of(agains["two"][0]), bits_of(ours))
        assert equal(bits_of(agains["one"][1]), bits_of(theirs))
        same_weights(agains["two"][0], agains["two"][1])
        same_weights(agains["one"][0], agains["one"][1])
        if critic:
            heads = [current().call(head_here, [(one._number,)] * 2)[1] for one in (ours, agains["two"][0])]
            np.testing.assert_array_equal(*heads)


@case
def a_checkpoint_that_lacks_a_process_is_passed_over():
    ours, _ = both()
    for name, spoil, told in (
        ("gone", lambda path: path.unlink(), "state/__1_0.distcp is missing"),
        (
            "short",
            lambda path: os.truncate(path, path.stat().st_size - 8),
            "state/__1_0.distcp is not what was written",
        ),
    ):
        checkpoints = Checkpoints(Path(sys.argv[2]).parent / name)
        checkpoints.save(1, ours)
        checkpoints.save(2, ours)
        spoil(checkpoints.path_of(2) / "state" / "__1_0.distcp")
        assert checkpoints.set_damaged_aside() == {2: told}
        checkpoints.load(checkpoints.last(), ours)
    torn = checkpoints.path_of(1)
    torn.rename(torn.with_name("writing-3"))  # as a process leaves it that is killed before the last file is there
    assert checkpoints.last() is None


@case
def the_state_of_another_model_or_critic_is_refused():
    folder = Path(sys.argv[2]).parent / "refused"
    folder.mkdir()
    ours, theirs = both()
    ours.save(folder / "two.pt")
    other = FsdpLearnerPart().open(
        models.tiny.random_model(models.tokenizer(), layers=1, width=32, heads=2, context=64, seed=0)
    )
    with pytest.raises(StoreError, match="another model"):
        other.load(folder / "two.pt")
    with pytest.raises(StoreError, match="was saved without a critic, this learner has one"):
        FsdpLearnerPart().open(models.model(), critic=Critic()).load(folder / "two.pt")
    shutil.rmtree(folder / "two")
    with pytest.raises(StoreError, match=r"two', with the tensors of '.*two.pt', is missing"):
        theirs.load(folder / "two.pt")


@case
def what_is_refused():
    ours, _ = both()
    _, batch = batch_of()
    with pytest.raises(ConfigError, match="cannot be sent"):
        ours.forward_backward(batch, lambda tokens: (tokens.logprob.sum(), {}))
    with pytest.raises(ConfigError, match="has no critic"):
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
    """Called in every process: the second one dies as soon as it has begun to write its part of a checkpoint."""
    with pids.open("a") as file:
        file.write(f"{os.getpid()}\n")

    def write_data(self, plan, planner):
        (self.path / "__1_0.distcp").write_bytes(b"begun")
        os.kill(os.getpid(), signal.SIGKILL)

    if team.place.rank == 1:
        FileSystemWriter.write_data = write_data


def die_while_saving(pids):
    checkpoints, (ours, _) = Checkpoints(pids.parent / "checkpoints"), both()
    checkpoints.save(1, ours)
    current().call(dying, [(pids,)] * 2)
    checkpoints.save(2, ours)


def main(how, path):
    torch.use_deterministic_algorithms(True)
    with FsdpLearnerPart(timeout_s=60).started() as works:
        if works and how == "compare":
            compare(path)
        elif works:
            die_while_saving(path)


if __name__ == "__main__":
    with stopping_in_order():
        try:
            main(sys.argv[1], Path(sys.argv[2]))
        except TurngateError as error:
            sys.exit(f"{type(error).__name__}: {error}")
        except Stopped as stop:
            sys.exit(str(stop))
