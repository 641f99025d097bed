"""One distribution for sampler and learner: what is kept, what the ratio is, and whose gradient it has."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.agents.policies.truncation import truncated_log_softmax, truncated_logits
from turngate.errors import ConfigError

torch.set_num_threads(1)
WORKED = [0.3, 0.05, 0.5, 0.15]


def logits_of(*probabilities):
    return torch.tensor(np.log(probabilities), dtype=torch.float64)


def kept(logits, **truncation):
    return truncated_log_softmax(logits, **truncation).exp().tolist()


@pytest.mark.parametrize(
    ("truncation", "expected"),
    [
        ({}, WORKED),
        ({"top_p": 0.79}, [0.375, 0, 0.625, 0]),
        ({"top_p": 0.81}, [0.3 / 0.95, 0, 0.5 / 0.95, 0.15 / 0.95]),  # the one that crosses the bound is kept
        ({"top_p": 0.4}, [0, 0, 1, 0]),
        ({"top_p": 1e-9}, [0, 0, 1, 0]),
        ({"top_k": 2}, [0.375, 0, 0.625, 0]),
        ({"top_k": 9}, WORKED),
        ({"top_k": 2, "top_p": 0.63}, [0.375, 0, 0.625, 0]),  # top-p counts inside top-k
        ({"top_k": 2, "top_p": 0.62}, [0, 0, 1, 0]),
        ({"top_k": 3, "top_p": 0.53}, [0.375, 0, 0.625, 0]),
    ],
)
def test_worked_numbers(truncation, expected):
    assert kept(logits_of(*WORKED), **truncation) == pytest.approx(expected, abs=1e-9)


def test_temperature_comes_first():
    cold = np.array(WORKED) ** 2 / (np.array(WORKED) ** 2).sum()
    assert kept(logits_of(*WORKED), temperature=0.5) == pytest.approx(cold)
    assert cold[2] > 0.6
    assert kept(logits_of(*WORKED), temperature=0.5, top_p=0.6) == [0, 0, 1, 0]
    assert kept(logits_of(*WORKED), top_p=0.6) == pytest.approx([0.375, 0, 0.625, 0])


def test_each_row_may_have_its_own_temperature():
    rows = logits_of(*WORKED).repeat(2, 1)
    both = truncated_log_softmax(rows, torch.tensor([[0.5], [2.0]], dtype=torch.float64), 0.7)
    for row, temperature in zip(both, (0.5, 2.0), strict=True):
        torch.testing.assert_close(row, truncated_log_softmax(rows[0], temperature, 0.7))


def test_equals_of_the_smallest_kept_are_kept():
    assert kept(logits_of(0.4, 0.2, 0.2, 0.2), top_k=2) == pytest.approx([0.4, 0.2, 0.2, 0.2])
    assert kept(logits_of(0.25, 0.25, 0.25, 0.25), top_p=0.3) == pytest.approx([0.25] * 4)


def test_nothing_truncated_is_the_plain_softmax_bit_for_bit():
    logits = torch.randn(5, 300, generator=torch.Generator().manual_seed(0))
    assert torch.equal(truncated_log_softmax(logits, 0.7), torch.log_softmax(logits / 0.7, dim=-1))
    assert torch.equal(truncated_logits(logits, 1.0), logits)


def loop(p, top_p, top_k):
    """What vLLM and transformers keep, token by token."""
    order = sorted(range(len(p)), key=lambda i: -p[i])[: top_k or len(p)]
    total, mass, chosen = sum(p[i] for i in order), 0.0, []
    for i in order:
        if chosen and mass / total >= top_p:
            break
        chosen.append(i)
        mass += p[i]
    return [p[i] / mass if i in chosen else 0.0 for i in range(len(p))]


@given(seed=st.integers(0, 10_000), top_p=st.floats(0.05, 1.0), top_k=st.integers(0, 9))
@settings(max_examples=60)
def test_the_kept_set_is_that_of_a_loop(seed, top_p, top_k):
    p = np.random.default_rng(seed).dirichlet(np.ones(8))
    assert kept(logits_of(*p), top_p=top_p, top_k=top_k) == pytest.approx(loop(p.tolist(), top_p, top_k), abs=1e-9)


@given(seed=st.integers(0, 10_000), top_p=st.floats(0.05, 1.0), top_k=st.integers(0, 9), temperature=st.floats(0.3, 2))
@settings(max_examples=30)
def test_it_is_a_distribution_and_does_not_depend_on_the_order_of_the_vocabulary(seed, top_p, top_k, temperature):
    rng = np.random.default_rng(seed)
    logits, order = torch.tensor(rng.normal(size=(3, 8)) * 3), torch.tensor(rng.permutation(8))
    logprob = truncated_log_softmax(logits, temperature, top_p, top_k)
    torch.testing.assert_close(logprob.exp().sum(-1), torch.ones(3, dtype=torch.float64))
    torch.testing.assert_close(truncated_log_softmax(logits[:, order], temperature, top_p, top_k), logprob[:, order])
    assert ((logprob > -torch.inf).sum(-1) >= 1).all()


def test_the_ratio_of_sampler_and_learner_is_exactly_one_on_policy_and_the_kept_mass_without_the_learners_part():
    """Both sides by one function: every ratio is 1. A learner over the whole vocabulary: every ratio is S."""
    logits = torch.randn(4, 50, generator=torch.Generator().manual_seed(1)) * 2
    sampler = truncated_log_softmax(logits, 0.9, 0.8, 20)
    drawn = torch.multinomial(sampler.exp(), 30, replacement=True, generator=torch.Generator().manual_seed(2))
    learner = truncated_log_softmax(logits.clone().requires_grad_(), 0.9, 0.8, 20).gather(1, drawn)
    assert torch.equal((learner - sampler.gather(1, drawn)).exp(), torch.ones(4, 30))
    whole = torch.log_softmax(logits / 0.9, -1)
    mass = (whole.exp() * (sampler > -torch.inf)).sum(-1, keepdim=True)
    ratio = (whole.gather(1, drawn) - sampler.gather(1, drawn)).exp()
    torch.testing.assert_close(ratio, mass.expand(-1, 30))
    assert (mass < 0.95).all()


def test_the_gradient_is_that_of_the_truncated_policy():
    """∇log(π(a)/S) over the kept tokens, and none through the others."""
    logits = logits_of(*WORKED).requires_grad_()
    logprob = truncated_log_softmax(logits, top_p=0.7)
    (slope,) = torch.autograd.grad(logprob[0], logits)
    assert slope.tolist() == pytest.approx([1 - 0.375, 0, -0.625, 0])
    free = logits.detach().clone().requires_grad_()
    p = torch.softmax(free, -1)
    (expected,) = torch.autograd.grad((p[0] / (p[0] + p[2])).log(), free)
    torch.testing.assert_close(slope, expected)


def test_a_token_outside_has_probability_zero_and_gets_no_gradient():
    logits = logits_of(*WORKED).requires_grad_()
    outside = truncated_log_softmax(logits, top_p=0.7)[1]
    assert outside == -math.inf
    assert outside.exp() == 0
    (slope,) = torch.autograd.grad(torch.where(outside > -torch.inf, outside, 0.0), logits)
    assert not slope.any()


@pytest.mark.parametrize(
    ("truncation", "problem"),
    [
        ({"top_p": 0.0}, "0 < top_p ≤ 1 and top_k ≥ 0, found top_p=0.0, top_k=0"),
        ({"top_p": 1.5}, "found top_p=1.5"),
        ({"top_k": -1}, "found top_p=1.0, top_k=-1"),
        ({"temperature": 0.0}, "temperature > 0, found 0.0"),
    ],
)
def test_settings_out_of_range_are_refused(truncation, problem):
    with pytest.raises(ConfigError, match=problem):
        truncated_log_softmax(logits_of(*WORKED), **truncation)
