"""The checksum of weights: blind to layout, not to a bit; and the memory in which weights are sent."""

import torch

from turngate.agents.engines.shared_weights import SharedModel, SharedWeights
from turngate.agents.engines.stored_tensors import tensors_in
from turngate.agents.engines.weight_sums import fingerprint
from turngate.agents.policies.base import AdaptedWeights


def weights(seed=0):
    rng = torch.Generator().manual_seed(seed)
    return {f"layer.{i}": torch.randn(6, 4, generator=rng) for i in range(4)}


def test_literal_values():
    assert fingerprint([torch.tensor([1.0, 0.0, -0.0])], torch.float32) == [1, 0x3F800000, 0x3F800000**2]
    assert fingerprint([torch.tensor([1.0, -1.0])], torch.bfloat16) == [
        2,
        2**64 - 0x100,
        (0x3F80**2 + 0x4080**2) % 2**64,
    ]


def test_it_does_not_see_how_weights_are_laid_out():
    one = list(weights().values())
    fused = torch.cat([one[2], one[0], torch.zeros(3, 4)])
    assert fingerprint([fused, one[3].T, one[1]], torch.float32) == fingerprint(one, torch.float32)


def test_it_sees_one_bit_and_another_precision():
    one, other = weights()["layer.0"], weights()["layer.0"]
    other.view(torch.int32)[2, 3] ^= 1
    assert fingerprint([one], torch.float32) != fingerprint([other], torch.float32)
    assert fingerprint([one], torch.float32) != fingerprint([one.bfloat16()], torch.float32)
    assert fingerprint([one], torch.bfloat16) == fingerprint([one.bfloat16()], torch.bfloat16)


def test_shared_weights_hold_what_was_written_last_in_their_precision():
    shared = SharedWeights(weights(), "bfloat16")
    assert shared.fingerprint == fingerprint(weights().values(), torch.bfloat16)
    shared.write(weights(seed=1))
    assert shared.fingerprint == fingerprint(weights(seed=1).values(), torch.bfloat16)
    assert [place["offset"] for place in shared.manifest] == [0, 64, 128, 192]
    shared.close()
    shared.close()


class Adapted(AdaptedWeights):
    """The weights above with the same matrix added to the first, as A and B."""

    def __init__(self, base, seed):
        rng = torch.Generator().manual_seed(seed)
        self._base, self._b = base, torch.randn(6, 2, generator=rng)

    base = property(lambda self: self._base)
    adapters = property(lambda self: {"layer.0.lora_A.weight": torch.ones(2, 4), "layer.0.lora_B.weight": self._b})

    def __getitem__(self, name):
        return self._base[name] + (self._b @ torch.ones(2, 4) if name == "layer.0" else 0)

    def __iter__(self):
        return iter(self._base)

    def __len__(self):
        return len(self._base)

    def shape(self, name):
        return tuple(self._base[name].shape)


def held(part):
    return {name: tensor.clone() for name, tensor in tensors_in(part._memory, part.manifest, part.dtype)}


def test_a_model_without_adapters_apart_gets_all_weights():
    shared, adapted = SharedModel(SharedWeights(weights(), "float32")), Adapted(weights(), seed=1)
    assert shared.write(adapted)
    assert torch.equal(held(shared.weights)["layer.0"], adapted["layer.0"])
    assert shared.fds == [shared.weights.fd]
    shared.close()


def test_apart_the_weights_below_the_adapters_are_written_once():
    shared, base = SharedModel(SharedWeights(weights(seed=3), "float32")), weights()
    shared.take_apart(Adapted(base, seed=1))
    assert len(shared.fds) == 2
    assert not shared.write(adapted := Adapted(base, seed=2)), "the adapters alone"
    assert all(torch.equal(one, base[name]) for name, one in held(shared.weights).items())
    assert all(torch.equal(one, adapted.adapters[name]) for name, one in held(shared.adapters).items())

    whole = weights(seed=5)
    assert shared.write(whole), "a model without adapters"
    assert all(torch.equal(one, whole[name]) for name, one in held(shared.weights).items())
    assert not any(one.any() for one in held(shared.adapters).values())

    assert shared.write(Adapted(base, seed=2)), "which was there before, but is not any more"
    assert all(torch.equal(one, base[name]) for name, one in held(shared.weights).items())
    shared.close()
