"""Gradient checkpointing: layers are computed twice, with the same attention, and the gradient has the same bits."""

import pytest
import torch

from tests.helpers import models
from tests.trainer.torch import test_packing as trees
from turngate.errors import ConfigError


def learned(**settings):
    """A learner after one gradient, and how often its first layer attended."""
    taught, calls = models.learner(**settings), []
    taught.model.base_model.layers[0].self_attn.register_forward_hook(lambda *arguments: calls.append(1))
    taught.forward_backward(trees.batch_of()[1], trees.LOSS)
    return taught, len(calls)


@pytest.mark.parametrize("packing", ["rows", "tree"])
def test_the_gradient_is_the_same_and_layers_are_computed_twice(packing):
    plain, once = learned(packing=packing)
    thrifty, twice = learned(packing=packing, checkpoint_activations=True)
    assert twice == once + 1
    for ours, theirs in zip(thrifty.model.parameters(), plain.model.parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad)


def test_measuring_computes_them_once():
    taught = models.learner(checkpoint_activations=True)
    _, batch = trees.batch_of()
    assert taught.logprobs(batch).tolist() == models.learner().logprobs(batch).tolist()


@pytest.mark.parametrize("checkpoint", [False, True])
def test_dropout_is_off_in_training_too(checkpoint):
    """With it, a policy would differ from itself, as the sampler and a reference have it, before its first update."""
    model, (_, batch) = models.model(), trees.batch_of()
    for module in model.modules():
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.5
    taught, plain = models.learner(model, checkpoint_activations=checkpoint), models.learner()
    for one in (taught, plain):
        one.logprobs(batch)  # measuring leaves the model as it was
        one.forward_backward(batch, trees.LOSS)
    for ours, theirs in zip(taught.model.parameters(), plain.model.parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad)


def test_a_model_that_cannot_do_it_is_refused():
    model = models.model()
    model.supports_gradient_checkpointing = False
    with pytest.raises(ConfigError, match=r"checkpoint_activations does not fit the model: Qwen3ForCausalLM"):
        models.learner(model, checkpoint_activations=True)
