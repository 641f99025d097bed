"""Optimizers with less memory against torch's AdamW.

1. Eight bits: codes keep the precision that the class promises, and training ends where AdamW ends, to a few percent.
2. Offloaded: the same bits as AdamW, which is handed copies.
3. Both go on from a saved state bit for bit.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import models
from tests.trainer.torch.test_learner import LOSS, batch_of
from turngate.trainer.torch import optimizers
from turngate.trainer.torch.optimizers import BLOCK, SMALL, AdamW8bit, Offloaded, optimizer_of

LR, BETAS = 1e-2, (0.9, 0.95)


def made(seed=0, n=SMALL + 100):
    """A large and a small parameter, and the same targets of both for any optimizer."""
    generator = torch.Generator().manual_seed(seed)
    targets = [torch.randn(n, generator=generator) * torch.logspace(-3, 1, n), torch.randn(7, generator=generator)]
    return [torch.nn.Parameter(torch.zeros_like(target)) for target in targets], targets, generator


def groups(parameters, weight_decay=0.01):
    return [{"params": parameters, "weight_decay": weight_decay}]


def descend(optimizer, parameters, targets, generator, steps):
    """Noisy gradients of ½ (w − target)²; returns the distance to the targets after each step."""
    apart = []
    for _ in range(steps):
        for parameter, target in zip(parameters, targets, strict=True):
            noise = torch.randn(target.shape, generator=generator) * 0.1 * target.abs()
            parameter.grad = parameter.detach() - target + noise
        optimizer.step()
        optimizer.zero_grad()
        apart.append(sum(float((p.detach() - t).square().sum()) for p, t in zip(parameters, targets, strict=True)))
    return apart


def named(name, parameters, offload=False):
    return optimizer_of(name, groups(parameters), lr=LR, betas=BETAS, offload=offload)


def test_eight_bits_end_where_adamw_ends(monkeypatch):
    monkeypatch.setattr(optimizers, "PIECE", 8 * BLOCK)  # several pieces, the last one cut
    ends = {}
    for name in ("adamw", "adamw_8bit"):
        parameters, targets, generator = made()
        distances = descend(named(name, parameters), parameters, targets, generator, 300)
        ends[name] = distances, torch.cat([one.detach() for one in parameters])
    (plain, exact), (short, coarse) = ends.values()
    assert plain[-1] < 0.9 * plain[0]
    assert short == pytest.approx(plain, rel=0.02)
    assert (coarse - exact).norm() < 0.05 * exact.norm()
    assert torch.equal(coarse[-7:], exact[-7:]) or torch.allclose(coarse[-7:], exact[-7:], rtol=1e-5)  # small: exact


def test_moments_of_large_parameters_take_two_bytes_per_weight():
    parameters, targets, generator = made(n=64 * BLOCK)
    optimizer = named("adamw_8bit", parameters)
    descend(optimizer, parameters, targets, generator, 1)
    state = [one for one in optimizer.state[parameters[0]].values() if isinstance(one, torch.Tensor)]
    assert sum(one.numel() * one.element_size() for one in state) == 64 * BLOCK * 2 + 64 * 8


@settings(max_examples=50)
@given(seed=st.integers(0, 2**31), spread=st.floats(0, 6), scale=st.sampled_from([1e-12, 1e-3, 1.0, 1e6]))
def test_codes_keep_their_relative_precision_over_four_decades(seed, spread, scale):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(4 * BLOCK, generator=generator) * 10 ** (-spread * torch.rand(4 * BLOCK, generator=generator))
    values[:3] = 0
    m, v = values * scale, (values * scale).square()
    m_code, v_code = torch.zeros(4 * BLOCK, dtype=torch.int8), torch.zeros(4 * BLOCK, dtype=torch.uint8)
    m_again = optimizers.m_decoded(m_code, optimizers.encode_m(m, m_code))
    v_again = optimizers.v_decoded(v_code, optimizers.encode_v(v, v_code))
    assert (m_again[:3] == 0).all()
    assert (v_again[:3] == 0).all()
    largest = m.view(-1, BLOCK).abs().amax(1).repeat_interleave(BLOCK)
    seen = m.abs() > 1.1e-4 * largest
    torch.testing.assert_close(m_again[seen], m[seen], rtol=0.038, atol=0)
    torch.testing.assert_close(v_again.sqrt()[seen], v.sqrt()[seen], rtol=0.019, atol=1e-19)
    assert (v_again.sqrt() >= v.sqrt() * 0.98).all()  # never much too small, so no update is much too large


def test_offloaded_is_adamw_bit_for_bit():
    found = []
    for offload in (False, True):
        parameters, targets, generator = made()
        optimizer = named("adamw", parameters, offload)
        optimizer.param_groups[0]["lr"] = 3e-3  # as the learner sets it at each step
        descend(optimizer, parameters, targets, generator, 5)
        found.append([one.detach() for one in parameters])
        assert all(one.grad is None for one in parameters)
    assert isinstance(optimizer, Offloaded)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(*found, strict=True))


@pytest.mark.parametrize("settings", [{"optimizer": "adamw_8bit"}, {"offload": True}], ids=str)
def test_a_learner_goes_on_from_a_checkpoint_bit_for_bit(settings, tmp_path):
    taught, other = models.learner(**settings), models.learner(models.model(1), **settings)
    for seed in (0, 1):
        taught.forward_backward(batch_of(seed=seed), LOSS)
        taught.optim_step()
    taught.save(tmp_path / "state.pt")
    other.load(tmp_path / "state.pt")
    for one in (taught, other):
        for seed in (2, 3):
            one.forward_backward(batch_of(seed=seed), LOSS)
            assert one.optim_step()["learner/skipped_updates"] == 0
    assert all(torch.equal(weight, taught.weights()[name]) for name, weight in other.weights().items())
    if isinstance(other._optimizer, AdamW8bit):
        codes = {s["m_code"].dtype for s in other._optimizer.state.values() if "m_code" in s}
        assert codes == {torch.int8}
