"""An update whose loss or gradient is not finite changes nothing and is counted; three in a row are an error.

1. Weights, moments and what the loss remembers keep their bits; the accumulated gradient is dropped.
2. A finite update in between begins the count again, and a checkpoint keeps it.
3. Memory that runs out is reported with the settings that need less of it.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.helpers import models
from tests.trainer.torch.test_learner import LOSS, batch_of
from turngate.errors import NotFiniteError, OutOfMemory
from turngate.trainer.learner import Critic, Lora
from turngate.trainer.loss.entropy import Siren
from turngate.trainer.loss.policy_loss import PolicyLoss


def broken(number=0):
    """A batch with one advantage that is not a number."""
    batch = batch_of(seed=number)
    batch.advantage_L[np.flatnonzero(batch.policy_weight_L)[0]] = np.nan
    return batch


def weights(taught):
    return {name: weight.clone() for name, weight in taught.weights().items()}


def stepped(taught, batch):
    return taught.forward_backward(batch, LOSS) | taught.optim_step()


def test_a_loss_that_is_not_finite_skips_the_update_and_all_that_was_accumulated():
    taught, plain = models.learner(), models.learner()
    for one in (taught, plain):
        assert stepped(one, batch_of())["learner/skipped_updates"] == 0
    before = weights(taught)
    taught.forward_backward(batch_of(seed=1), LOSS)
    metrics = stepped(taught, broken())
    assert metrics["learner/skipped_updates"] == 1
    assert np.isnan(metrics["loss/policy"])
    assert all(torch.equal(weight, before[name]) for name, weight in taught.weights().items())
    for one in (taught, plain):
        stepped(one, batch_of(seed=2))
    assert all(torch.equal(weight, plain.weights()[name]) for name, weight in taught.weights().items())


def test_a_gradient_that_is_not_finite_does_so_too():
    taught = models.learner()
    taught.forward_backward(batch_of(), LOSS)
    next(taught.model.parameters()).grad[0] = float("inf")
    before = weights(taught)
    assert taught.optim_step()["learner/skipped_updates"] == 1
    assert all(torch.equal(weight, before[name]) for name, weight in taught.weights().items())
    assert all(weight.grad is None for weight in taught.model.parameters())


def test_what_a_loss_remembers_is_kept():
    siren, taught = PolicyLoss(penalties=(Siren(),)), models.learner()
    taught.forward_backward(broken(), siren)
    assert not taught._memory
    taught.optim_step()
    taught.forward_backward(batch_of(), siren)
    assert taught._memory


def test_the_third_in_a_row_is_an_error_that_names_settings(tmp_path):
    taught = models.learner()
    for number in (0, 1):
        stepped(taught, broken(number))
    stepped(taught, batch_of())  # begins the count again
    for number in (0, 1):
        stepped(taught, broken(number))
    taught.save(tmp_path / "state.pt")
    other = models.learner()
    other.load(tmp_path / "state.pt")
    for one in (taught, other):
        with pytest.raises(NotFiniteError, match=r"^3 updates in a row .* the loss is nan; lower learner\.lr, .*dtype"):
            stepped(one, broken())


def test_a_critics_gradient_counts():
    taught, batch = models.learner(critic=Critic()), batch_of()
    columns = {name: np.zeros(batch.n_tokens, np.float32) for name in ("return_L", "old_value_L", "value_weight_L")}
    columns["value_weight_L"][-1], columns["return_L"][-1] = 1, 1e30  # its square is too large for float32
    taught.forward_backward(batch, PolicyLoss(), measured=columns)
    before = weights(taught)
    assert taught.optim_step()["learner/skipped_updates"] == 1
    assert all(torch.equal(weight, before[name]) for name, weight in taught.weights().items())


class Hungry(PolicyLoss):
    """Asks for more memory than any machine has."""

    def __call__(self, tokens):
        value, metrics = super().__call__(tokens)
        return value + torch.empty(2**60)[0], metrics


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({}, ("checkpoint_activations = true", "learner.lora = {}", 'optimizer = "adamw_8bit"')),
        ({"checkpoint_activations": True, "lora": Lora(), "optimizer": "adamw_8bit"}, ()),
    ],
)
def test_memory_that_runs_out_is_reported_with_settings_that_are_not_in_use(settings, named):
    taught = models.learner(tokens_per_pass=300, **settings)
    with pytest.raises(OutOfMemory, match=r"lower learner\.tokens_per_pass, which is 300") as found:
        taught.forward_backward(batch_of(), Hungry())
    others = ("checkpoint_activations", "lora", "adamw_8bit")
    assert [one for one in others if one in str(found.value)] == [one for one in others if any(one in n for n in named)]


def test_other_errors_are_left_as_they_are():
    batch = batch_of()
    with pytest.raises(IndexError):
        models.learner().forward_backward(replace(batch, ids_L=batch.ids_L + 10_000), LOSS)
