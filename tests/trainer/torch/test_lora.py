"""Adapters: what is trained, what the sampler gets, what is saved, and that grouping tokens changes nothing.

1. Only adapters are trained; the model's own weights keep their bits.
2. What is published has the names and shapes that the sampler knows, and is the same model as the learner's.
3. Without its adapters the learner is the model that it began from, without a second one in memory.
4. A checkpoint holds adapters alone, and belongs to one base model.
"""

import copy

import numpy as np
import pytest
import torch
from peft import PeftModel

from tests.helpers import models
from tests.helpers.rounding import GRADIENT, PASS, assert_alike, assert_logprobs, tolerance
from tests.trainer.torch import test_packing as trees
from turngate.agents import tiny
from turngate.errors import ConfigError, MismatchError, StoreError
from turngate.trainer.checks.canary import check_agreement
from turngate.trainer.learner import Critic, Lora
from turngate.trainer.torch.lora import write_adapter
from turngate.trainer.torch.shards import read_state
from turngate.types import PLAIN

LORA = Lora(rank=4, alpha=8)
MERGED = tolerance(depth=3, terms=4)  # a product of the rank, its factor, a sum


def adapted(seed=0, **settings):
    """A learner whose adapters are not zero any more."""
    taught = models.learner(models.model(seed), lora=LORA, lr=1e-2, **settings)
    return updated(taught, [0, 1])


def updated(taught, seeds):
    for seed in seeds:
        taught.forward_backward(trees.batch_of(seed)[1], trees.LOSS)
        taught.optim_step()
    return taught


def gradient(taught):
    return torch.cat([one.grad.flatten() for one in taught.model.parameters() if one.grad is not None]).numpy()


def published(taught):
    """A model of the sampler's kind that was given the published weights."""
    sampler = models.model()
    with torch.no_grad():
        for name, weight in sampler.named_parameters():
            weight.copy_(taught.weights()[name])
    return sampler


def test_only_adapters_are_trained():
    plain, taught = dict(models.model().named_parameters()), adapted()
    own = dict(taught.model.named_parameters())
    trained = {name for name, weight in own.items() if weight.requires_grad}
    assert trained == {name for name in own if ".lora_" in name}
    assert len(trained) == 2 * 7 * 2  # A and B of seven layers in each of two blocks
    kept = {name.replace(".base_layer", ""): weight for name, weight in own.items() if name not in trained}
    assert all(torch.equal(kept[name], weight) for name, weight in plain.items())


def test_training_begins_at_the_model_itself():
    _, batch = trees.batch_of()
    fresh = models.learner(lora=LORA)
    np.testing.assert_array_equal(fresh.logprobs(batch), models.learner().logprobs(batch))


def test_what_is_published_is_the_learners_model():
    _, batch = trees.batch_of()
    taught = adapted()
    assert list(taught.weights()) == [name for name, _ in models.model().named_parameters()]
    got = models.learner(published(taught)).logprobs(batch)
    assert_logprobs(got, taught.logprobs(batch), PASS)
    assert np.abs(got - models.learner().logprobs(batch)).max() > 0.1


def test_base_and_adapters_apart_are_what_is_published_together():
    taught = adapted()
    weights = taught.weights()
    base, adapters = weights.base, weights.adapters
    assert base is taught.weights().base, "by this it is seen that only adapters have changed"
    assert all(torch.equal(base[name], weight) for name, weight in models.model().named_parameters())
    together = dict(base)
    for name in [name for name in adapters if name.endswith(".lora_A.weight")]:
        layer = name.removesuffix(".lora_A.weight")
        change = adapters[f"{layer}.lora_B.weight"] @ adapters[name]
        assert change.abs().max() > 1e-3
        together[f"{layer}.weight"] = together[f"{layer}.weight"] + change
    assert len(adapters) == 2 * 7 * 2
    for name, weight in weights.items():
        assert_alike(weight, together[name], MERGED)


def test_a_merged_weight_is_the_formula():
    taught = adapted()
    own = {name: weight.detach() for name, weight in taught.model.named_parameters()}
    at = "model.layers.1.mlp.down_proj"
    delta = own[f"{at}.lora_B.default.weight"] @ own[f"{at}.lora_A.default.weight"]
    expected = own[f"{at}.base_layer.weight"] + 8 / 4 * delta
    assert_alike(taught.weights()[f"{at}.weight"], expected, MERGED)


def test_a_sampler_that_ignores_the_adapters_is_caught():
    taught = adapted()
    for sampler, fails in ((published(taught), False), (models.model(), True)):
        played = models.play(models.local(sampler), n_tasks=1, siblings=2)
        batch = trees.pack([models.scored(played)], np.zeros(sum(len(one.turns) for one in played), np.float32))
        if fails:
            with pytest.raises(MismatchError, match="differ at turn 0"):
                check_agreement(batch, taught, tolerance=1e-4)
        else:
            check_agreement(batch, taught, tolerance=1e-4)


def test_without_adapters_it_is_the_model_that_it_began_from():
    _, batch = trees.batch_of()
    taught = adapted()
    base, plain = taught.without_adapters(PLAIN), models.learner()
    before = taught.logprobs(batch)
    np.testing.assert_array_equal(base.logprobs(batch), plain.logprobs(batch))
    np.testing.assert_array_equal(base.entropies(batch), plain.entropies(batch))
    np.testing.assert_array_equal(taught.logprobs(batch), before)
    assert updated(taught, [2]).logprobs(batch).tolist() != before.tolist()


@pytest.mark.parametrize("critic", [None, Critic(shared=True)])
def test_grouping_and_trees_leave_the_gradient_unchanged(critic):
    trajectories, batch = trees.batch_of()
    whole = models.learner(lora=LORA, lr=1e-2, packing="rows", critic=critic)
    measured = {} if critic is None else trees.returns_of(trajectories, batch)
    others = [{"packing": "rows", "tokens_per_pass": 1}, {"packing": "rows", "tokens_per_pass": 60}]
    others += [{"packing": "tree"}, {"packing": "tree", "tokens_per_pass": 60}, {"checkpoint_activations": True}]
    for settings in others:
        other = models.learner(lora=LORA, lr=1e-2, critic=critic, **settings)
        for taught in (whole, other):
            taught.model.zero_grad()
            thin = [weight for name, weight in taught.model.named_parameters() if ".lora_B." in name]
            for weight in [*thin, *([] if critic is None else [taught._value_head.weight])]:  # none is zero
                weight.data = torch.sin(torch.arange(weight.numel()).view_as(weight).float()) / 10
            taught.forward_backward(batch, trees.LOSS, measured=measured)
        assert np.abs(gradient(whole)).max() > 1e-3
        assert_alike(gradient(other), gradient(whole), GRADIENT)


def test_a_checkpoint_holds_adapters_alone_and_goes_on_bit_for_bit(tmp_path):
    taught, other = adapted(), models.learner(lora=LORA, lr=1e-2)
    taught.save(tmp_path / "state.pt")
    names = read_state(tmp_path / "state.pt", torch.device("cpu"))["adapters"].keys()
    assert names == {name for name, weight in taught.model.named_parameters() if weight.requires_grad}
    updated(taught, [2, 3])
    other.load(tmp_path / "state.pt")
    updated(other, [2, 3])
    assert all(torch.equal(other.weights()[name], weight) for name, weight in taught.weights().items())


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    adapted().save(tmp_path / "adapters.pt")
    models.learner().save(tmp_path / "whole.pt")
    with pytest.raises(StoreError, match="holds adapters of another model than the one that was loaded"):
        models.learner(models.model(1), lora=LORA).load(tmp_path / "adapters.pt")
    with pytest.raises(StoreError, match="names or shapes differ"):
        models.learner(lora=Lora(rank=2)).load(tmp_path / "adapters.pt")
    with pytest.raises(StoreError, match=r"holds adapters; set learner\.lora"):
        models.learner().load(tmp_path / "adapters.pt")
    with pytest.raises(StoreError, match=r"was saved without adapters; leave out learner\.lora"):
        models.learner(lora=LORA).load(tmp_path / "whole.pt")


def test_layers_are_chosen_by_name():
    taught = models.learner(lora=Lora(rank=2, targets=("q_proj", "v_proj")))
    layers = {name.split(".")[-4] for name, weight in taught.model.named_parameters() if weight.requires_grad}
    assert layers == {"q_proj", "v_proj"}


@pytest.mark.parametrize(
    ("targets", "problem"),
    [
        (("v_proj", "q_porj"), r"layer in learner\.lora\.targets 'q_porj'; did you mean .*'q_proj'"),
        (("lm_head",), "'lm_head' in learner.lora.targets is the head or the embedding"),
        (("q_norm",), r"learner\.lora\.targets \['q_norm'\] does not fit the model: Target module Qwen3RMSNorm"),
    ],
)
def test_layers_that_are_not_there_or_cannot_be_adapted_are_refused(targets, problem):
    with pytest.raises(ConfigError, match=problem):
        models.learner(lora=Lora(targets=targets))


def test_a_written_adapter_is_read_by_peft(tmp_path):
    _, batch = trees.batch_of()
    taught = adapted()
    tiny.save(models.model(), models.tokenizer(), tmp_path / "base")
    write_adapter(taught.model, tmp_path / "adapter", base=str(tmp_path / "base"))
    base, _ = tiny.load(str(tmp_path / "base"))
    merged = PeftModel.from_pretrained(base, tmp_path / "adapter").merge_and_unload()
    for weight in merged.parameters():
        weight.requires_grad_()
    assert_logprobs(models.learner(merged).logprobs(batch), taught.logprobs(batch), PASS)


def test_what_is_published_is_saved_as_a_plain_model(tmp_path):
    taught = adapted()
    tiny.save(taught.model, models.tokenizer(), tmp_path / "model", taught.weights())
    loaded, _ = tiny.load(str(tmp_path / "model"))
    assert all(torch.equal(weight, taught.weights()[name]) for name, weight in loaded.named_parameters())
    assert copy.deepcopy(loaded.config).tie_word_embeddings
