"""The checksum of weights: blind to layout, not to a bit."""

import torch

from turngate.agents.engines.shared_weights import SharedWeights
from turngate.agents.engines.weight_sums import fingerprint


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
