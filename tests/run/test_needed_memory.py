"""The estimate of ``turngate doctor`` beside what torch's allocator hands out."""

import numpy as np
import pytest
import torch

from tests.helpers import architectures, models
from tests.helpers.live_memory import bytes_of
from turngate.agents import tiny
from turngate.agents.policies.kv_cache import SlotCache
from turngate.run.doctor.needed_memory import (
    LEARNER_PASS,
    SAMPLER_PASS,
    MemoryUse,
    activations,
    adapter_weights,
    capacity,
    most_at_once,
    needed_memory,
    size_of,
)
from turngate.trainer.learner import Lora, logits_at_once
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.torch.learner import TorchLearner
from turngate.types import Batch

ROWS, LENGTH = 8, 96
TOKENS = ROWS * LENGTH
WITHIN = 0.15
"""Stated in the module, for dense models."""
ROUGH = 0.5


def use(**changes):
    settings = {"trained": 1, "copies": 0, "learner_bytes": 4, "sampler_bytes": 4, "concurrency": 3, "caches": 1}
    settings |= {"context": LENGTH, "pass_tokens": TOKENS, "said": TOKENS - ROWS, "logits": logits_at_once("cpu")}
    return MemoryUse(**settings | changes)


def batch():
    """Rows of which everything but the first token was written by the policy."""
    place, row = np.tile(np.arange(LENGTH, dtype=np.int32), ROWS), np.repeat(np.arange(ROWS, dtype=np.int32), LENGTH)
    zeros = np.zeros(TOKENS, np.float32)
    return Batch(
        ids_L=np.random.default_rng(0).integers(0, 290, TOKENS).astype(np.int32),
        logprob_L=zeros - 5,
        advantage_L=zeros + 1,
        policy_weight_L=np.where(place > 0, 1 / TOKENS, 0).astype(np.float32),
        ce_weight_L=zeros,
        position_L=place,
        segment_L=row,
        turn_L=row,
        origin_L=np.zeros(TOKENS, np.uint8),
    )


def measured(source, dtype="float32"):
    """Bytes of the pass beyond gradients, of the gradients, and of the optimizer."""
    learner = TorchLearner(source, lr=1e-3, packing="rows", tokens_per_pass=TOKENS, dtype=dtype)
    most, gradients = bytes_of(lambda: learner.forward_backward(batch(), PolicyLoss()))
    _, after = bytes_of(learner.optim_step)
    return most - gradients, gradients, after + gradients


def wide(layers, width):
    return tiny.random_model(models.tokenizer(), layers=layers, width=width, heads=4, context=256, seed=0)


@pytest.mark.parametrize(("layers", "width"), [(2, 32), (4, 32), (3, 96)])
@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("bfloat16", 2)])
def test_a_dense_model_is_estimated_within_the_stated_share(layers, width, dtype, size):
    source = wide(layers, width)
    estimate = needed_memory(size_of(source), use(learner_bytes=size))
    in_pass, gradients, optimizer = measured(source, dtype)
    assert estimate["gradients"] == gradients
    assert estimate["optimizer"] == pytest.approx(optimizer, rel=0.01)  # beside it, a count for each weight
    assert estimate["weights"] == sum(weight.numel() * 4 for weight in source.parameters())
    assert in_pass == pytest.approx(estimate[LEARNER_PASS], rel=WITHIN)


@pytest.mark.parametrize("name", [name for name in architectures.SHAPES if name != "deepseek_v2"])
def test_other_architectures_are_estimated_roughly(name):
    source = architectures.model(name)
    in_pass, _, _ = measured(source)
    assert in_pass == pytest.approx(needed_memory(size_of(source), use())[LEARNER_PASS], rel=ROUGH)


@pytest.mark.parametrize("name", architectures.SHAPES)
def test_the_cache_is_what_the_engine_reserves(name):
    config = architectures.made(name).config
    cache = SlotCache(config, 3, device=torch.device("meta"), dtype=torch.bfloat16)
    cache.reserve(700)
    reserved = sum(store.numel() * 2 for store in cache._stores)
    size = size_of(architectures.made(name))
    assert needed_memory(size, use(sampler_bytes=2, context=700))["key-value cache"] == reserved
    assert cache.capacity + 1 == capacity(700)


def test_copies_and_caches_are_counted():
    size = size_of(wide(2, 32))
    plain, more = needed_memory(size, use()), needed_memory(size, use(copies=2, trained=2, caches=2))
    whole = 4 * size.weights
    assert [more[key] - plain[key] for key in ("weights", "gradients", "optimizer")] == [3 * whole, whole, 2 * whole]
    assert more["key-value cache"] == 2 * plain["key-value cache"]
    assert most_at_once(plain) == sum(plain.values()) - plain[SAMPLER_PASS] < sum(plain.values())
    frozen = needed_memory(size, use(trained=0, learner_bytes=2))
    assert (frozen["gradients"], frozen["optimizer"], frozen["weights"]) == (0, 0, whole)
    assert activations(size, use(pass_tokens=2 * TOKENS)) == pytest.approx(2 * activations(size, use()), rel=1e-6)


def test_adapters_need_gradients_and_moments_of_their_own_alone():
    source, lora = wide(3, 96), Lora(rank=4)
    estimate = needed_memory(size_of(source), use(adapters=adapter_weights(source, lora)))
    learner = TorchLearner(source, lr=1e-3, packing="rows", tokens_per_pass=TOKENS, dtype="float32", lora=lora)
    _, gradients = bytes_of(lambda: learner.forward_backward(batch(), PolicyLoss()))
    assert estimate["gradients"] == gradients
    assert estimate["weights"] == sum(weight.numel() * 4 for weight in source.parameters())


def test_recomputed_activations_need_less():
    size = size_of(wide(4, 96))
    assert activations(size, use(recomputes=True)) < 0.5 * activations(size, use())
