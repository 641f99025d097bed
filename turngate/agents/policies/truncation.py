"""The distribution that is sampled from: temperature, then top-k, then top-p, renormalised. One function for both.

A sampler that truncates draws from π/S on a kept set of mass S. A learner that computes π over the whole vocabulary is
off by the factor S in every importance ratio, although no weight has changed (seen in several trainers: with top_p =
0.8 the mean ratio on-policy is about 0.9). Sampler and learner therefore both call ``truncated_log_softmax``.
"""

from __future__ import annotations

import torch

from turngate.errors import ConfigError


def truncated_log_softmax(
    logits: torch.Tensor, temperature: float | torch.Tensor = 1.0, top_p: float = 1.0, top_k: int = 0
) -> torch.Tensor:
    """Log-probabilities of the truncated distribution over the last axis: [..., V], −inf outside the kept set.

    ``logits / temperature``; the ``top_k`` largest (0 = all); of these, renormalised, the likeliest whose predecessors
    hold less than ``top_p`` (1 = all), so the one that crosses the bound is kept, and the first always; renormalised
    again. This is the order of vLLM and transformers. Entries equal to the smallest kept one are kept too, so the
    result does not depend on the order of the vocabulary. ``temperature`` may be a tensor that broadcasts against
    ``logits[..., :1]``, for requests that differ.

    Gradient flows through the kept logits; the set itself is piecewise constant, so that is the exact gradient of the
    truncated policy. With top_p = 1 and top_k = 0 it is ``log_softmax(logits / temperature)``, bit for bit.

    A token outside the learner's set, sampled before the policy moved, has probability 0 there: its importance ratio is
    0, and so is its gradient. ``TorchLearner`` gives it weight 0 and reports the share of such tokens. Rounding can
    move a token across the bound between two forward passes of the same weights; the kept masses then differ by that
    token.

    Raises ConfigError unless 0 < top_p ≤ 1, top_k ≥ 0 and temperature > 0.
    """
    return torch.log_softmax(truncated_logits(logits, temperature, top_p, top_k), dim=-1)


def truncated_logits(
    logits: torch.Tensor, temperature: float | torch.Tensor = 1.0, top_p: float = 1.0, top_k: int = 0
) -> torch.Tensor:
    """``logits / temperature`` with −inf outside the kept set of ``truncated_log_softmax``: [..., V].

    Its softmax is the sampling distribution. Settings and errors are those of ``truncated_log_softmax``.
    """
    if not 0 < top_p <= 1 or top_k < 0:
        raise ConfigError(f"truncation needs 0 < top_p ≤ 1 and top_k ≥ 0, found top_p={top_p}, top_k={top_k}")
    if not isinstance(temperature, torch.Tensor) and temperature <= 0:
        raise ConfigError(f"truncation needs temperature > 0, found {temperature}")
    scaled = logits / temperature
    if top_p < 1 or top_k:
        scaled = scaled.masked_fill(scaled < _smallest_kept(scaled.detach(), top_p, top_k), -torch.inf)
    return scaled


def _smallest_kept(scaled: torch.Tensor, top_p: float, top_k: int) -> torch.Tensor:
    """[..., 1]: the smallest logit of the kept set."""
    n_largest = min(top_k, scaled.shape[-1]) if top_k else scaled.shape[-1]
    largest = scaled.topk(n_largest, dim=-1).values
    if top_p == 1:
        return largest[..., -1:]
    probability = torch.softmax(largest.double(), dim=-1)
    before = torch.nn.functional.pad(probability.cumsum(-1)[..., :-1], (1, 0))
    n_kept = (before < top_p).sum(-1, keepdim=True).clamp(min=1)
    return largest.gather(-1, n_kept - 1)
