"""States that go through the head a few at a time give the numbers and gradients of all at once."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Qwen3Config, Qwen3ForCausalLM

from tests.helpers import models
from tests.helpers.rounding import GRADIENT, assert_alike, tolerance
from tests.trainer.torch import test_packing as trees
from turngate.trainer.learner import logits_at_once
from turngate.trainer.loss.tokens import Needs
from turngate.trainer.torch.prediction import TokenPredictor, fused_prediction
from turngate.types import Sampling

LOGITS = logits_at_once("cpu")
ONE_PRODUCT = tolerance(depth=6, terms=500)
"""A product, its softmax over at most 500 entries, what is read of them, and back."""
COLUMNS = ("logprob", "entropy", "plain_logprob", "nucleus_entropy", "candidate_logprob")


def made(seed, n, width, vocabulary, bias=False):
    """States, a head, and tokens."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        head = torch.nn.Linear(width, vocabulary, bias=bias)
        states = torch.randn(n, width, requires_grad=True)
        return states, head, torch.randint(vocabulary, (n,))


def brute(states, head, chosen, temperature):
    """Log-probability and entropy of each token, one after the other."""
    logprobs, entropies = [], []
    for state, token in zip(states, chosen, strict=True):
        distribution = torch.log_softmax(head(state) / temperature, -1)
        logprobs.append(distribution[token])
        entropies.append(-(distribution.exp() * distribution).sum())
    return torch.stack(logprobs), torch.stack(entropies)


def gradients(outcome, states, head, seed):
    """Of a random mixture of the columns."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        mixed = sum((torch.randn_like(column) * column).sum() for column in outcome)
    return torch.autograd.grad(mixed, [states, *head.parameters()])


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**31),
    n=st.integers(1, 9),
    width=st.integers(1, 6),
    vocabulary=st.integers(2, 40),
    at_once=st.integers(1, 10),
    temperature=st.sampled_from([1.0, 0.6, 1.7]),
    bias=st.booleans(),
)
def test_the_fused_gradient_is_that_of_one_token_at_a_time(seed, n, width, vocabulary, at_once, temperature, bias):
    states, head, chosen = made(seed, n, width, vocabulary, bias)
    expected = brute(states, head, chosen, temperature)
    got = fused_prediction(states, head, chosen, temperature, at_once=at_once, dtype=torch.float32)
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=ONE_PRODUCT, rtol=ONE_PRODUCT)
    for ours, theirs in zip(gradients(got, states, head, seed), gradients(expected, states, head, seed), strict=True):
        torch.testing.assert_close(ours, theirs, atol=ONE_PRODUCT, rtol=ONE_PRODUCT)


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.7, top_p=0.8), Sampling(top_k=5)], ids=repr)
@pytest.mark.parametrize("needs", [Needs(), Needs(nucleus=0.8, candidates=3)], ids=repr)
def test_every_column_and_its_gradient_are_the_same_in_pieces(sampling, needs):
    states, head, chosen = made(0, 23, 8, 50)
    found = []
    for most in (LOGITS, 4 * 50):
        said = TokenPredictor(head, sampling, bf16=False, most=most)(states, chosen, needs)
        columns = [getattr(said, name) for name in COLUMNS]
        inside = torch.isfinite(said.logprob)
        real = [one[inside] for one in columns if one is not None]
        real = [torch.where(torch.isfinite(one), one, 0) for one in real]  # candidates that top-k cuts off
        found.append((columns, real, gradients(real, states, head, 1)))
    (whole, real, slopes), (parts, in_pieces, slopes_in_pieces) = found
    assert [one is None for one in whole] == [one is None for one in parts]
    assert len(real) == 2 + sampling.truncates + 2 * (needs.nucleus is not None)
    torch.testing.assert_close(in_pieces, real, atol=ONE_PRODUCT, rtol=ONE_PRODUCT)
    torch.testing.assert_close(slopes_in_pieces, slopes, atol=ONE_PRODUCT, rtol=ONE_PRODUCT)


def test_in_bfloat16_both_round_alike():
    states, head, chosen = made(0, 40, 64, 500)
    whole, parts = (TokenPredictor(head, Sampling(), bf16=True, most=most) for most in (LOGITS, 500 * 7))
    outcomes = [(one(states, chosen, Needs()).logprob, one(states, chosen, Needs()).entropy) for one in (whole, parts)]
    torch.testing.assert_close(outcomes[1], outcomes[0], atol=ONE_PRODUCT, rtol=ONE_PRODUCT)
    slopes = [gradients(outcome, states, head, 1) for outcome in outcomes]
    for ours, theirs in zip(slopes[1], slopes[0], strict=True):
        assert (ours - theirs).norm() < 0.01 * theirs.norm()


def test_a_large_vocabulary_never_has_a_matrix_of_tokens_and_entries():
    """A real learner, whose batch has more logits than may exist at once; the largest tensor is measured."""
    vocabulary = 151_936
    config = Qwen3Config(**{**trees.SMALL, "vocab_size": vocabulary, "tie_word_embeddings": True})
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Qwen3ForCausalLM(config)
    _, batch = trees.batch_of(tasks=2)
    n = int((batch.policy_weight_L > 0).sum())
    assert n * vocabulary > 1.1 * LOGITS
    taught, largest = models.learner(model, packing="rows"), Largest()
    with largest:
        taught.forward_backward(batch, trees.LOSS)
    assert vocabulary * config.hidden_size <= largest.numel <= LOGITS
    got = taught.model.get_input_embeddings().weight.grad.clone()
    taught.model.zero_grad()
    taught._passes._predictor._most = n * vocabulary  # all at once
    with largest:
        taught.forward_backward(batch, trees.LOSS)
    assert largest.numel > LOGITS
    whole = taught.model.get_input_embeddings().weight.grad
    assert_alike(got.numpy(), whole.numpy(), GRADIENT)


class Largest(torch.utils._python_dispatch.TorchDispatchMode):
    """The number of values of the largest tensor that any operation returned."""

    numel = 0

    def __torch_dispatch__(self, function, types, arguments=(), settings=None):
        result = function(*arguments, **(settings or {}))
        for one in result if isinstance(result, tuple | list) else [result]:
            if isinstance(one, torch.Tensor):
                self.numel = max(self.numel, one.numel())
        return result
