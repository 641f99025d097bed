"""From hidden states to the log-probability and entropy of the tokens after them, without a matrix of tokens ×
vocabulary.

A large vocabulary makes the logits the largest tensor of a training step: 4 GB for 8,000 tokens and 128,000 entries,
several times over. So states go through the head a few at a time, and only numbers per token are kept. The backward
pass computes the logits of each chunk once more; what that costs is one further product with the head.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from turngate.agents.policies.forward import capped
from turngate.agents.policies.truncation import truncated_log_softmax
from turngate.trainer.learner import logits_at_once
from turngate.trainer.loss.entropy import entropy_of, nucleus_entropy
from turngate.trainer.loss.tokens import Needs
from turngate.types import Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """What the forward pass measures on the trained tokens: [S]; see ``Tokens``. ``logprob`` is −inf where top-p or
    top-k cuts the token off."""

    logprob: torch.Tensor
    entropy: torch.Tensor
    plain_logprob: torch.Tensor | None
    nucleus_entropy: torch.Tensor | None
    candidate_logprob: torch.Tensor | None

    @property
    def whole(self) -> torch.Tensor:
        """The log-probability without top-p and top-k."""
        return self.logprob if self.plain_logprob is None else self.plain_logprob

    def at(self, places: torch.Tensor) -> Predicted:
        """The same of some of the tokens, in this order."""
        return _predicted(*(None if column is None else column[places] for column in _columns(self)))


class TokenPredictor:
    """Measures tokens under the distribution ``sampling``; products with ``head`` are computed in bfloat16 if ``bf16``.

    ``most``: logits at once; None: as many as suit the device (``logits_at_once``). ``cap``: see ``logit_cap``.
    """

    def __init__(
        self,
        head: torch.nn.Module,
        sampling: Sampling,
        *,
        bf16: bool,
        cap: float | None = None,
        most: int | None = None,
    ) -> None:
        self.head, self.sampling, self._bf16, self._cap, self._most = head, sampling, bf16, cap, most

    def __call__(self, states: torch.Tensor, chosen: torch.Tensor, needs: Needs) -> Predicted:
        """Of the tokens ``chosen``, int64 [P], which follow ``states``, [P, width]."""
        weight: Any = self.head.weight
        n, vocabulary = len(states), weight.shape[0]
        most = self._most or logits_at_once(states.device.type)
        if n * vocabulary <= most:
            return _predicted(*self._measure(states, chosen, needs))
        at_once = max(1, most // vocabulary)
        plain = not (self._cap or self.sampling.truncates or needs.nucleus is not None or needs.candidates)
        if plain and type(self.head) is torch.nn.Linear:  # another head may compute its weights when it is called
            dtype = torch.bfloat16 if self._bf16 else weight.dtype
            found = fused_prediction(states, self.head, chosen, self.sampling.temperature, at_once=at_once, dtype=dtype)
            return _predicted(*found, None, None, None)
        parts = [
            checkpoint(self._measure, some, which, needs, use_reentrant=False)
            for some, which in _pieces(at_once, states, chosen)
        ]
        return _predicted(*(None if column[0] is None else torch.cat(column) for column in zip(*parts, strict=True)))

    def _measure(self, states: torch.Tensor, chosen: torch.Tensor, needs: Needs) -> tuple[torch.Tensor | None, ...]:
        """The columns of ``Predicted``, by way of all logits."""
        with torch.autocast(states.device.type, dtype=torch.bfloat16, enabled=self._bf16):
            logits = self.head(states)
        logits, at = capped(logits.float(), self._cap), chosen[:, None]
        temperature, cuts = self.sampling.temperature, self.sampling.truncates
        distribution = truncated_log_softmax(logits, temperature, self.sampling.top_p, self.sampling.top_k)
        return (
            distribution.gather(1, at)[:, 0],
            entropy_of(distribution) if cuts else -(distribution.exp() * distribution).sum(-1),
            torch.log_softmax(logits / temperature, dim=-1).gather(1, at)[:, 0] if cuts else None,
            None if needs.nucleus is None else nucleus_entropy(distribution, needs.nucleus),
            distribution.topk(needs.candidates, dim=-1).values if needs.candidates else None,
        )


def _columns(predicted: Predicted) -> list[torch.Tensor | None]:
    return [getattr(predicted, field.name) for field in fields(Predicted)]


def _pieces(at_once: int, *columns: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """The rows of all columns, ``at_once`` at a time."""
    for start in range(0, len(columns[0]), at_once):
        yield tuple(column[start : start + at_once] for column in columns)


def _predicted(*columns: torch.Tensor | None) -> Predicted:
    names: Sequence[str] = [field.name for field in fields(Predicted)]
    return Predicted(**dict(zip(names, columns, strict=True)))  # type: ignore[arg-type]


def fused_prediction(
    states: torch.Tensor,
    head: torch.nn.Linear,
    chosen: torch.Tensor,
    temperature: float,
    *,
    at_once: int,
    dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probability of the tokens ``chosen``, [P], and entropy, ``at_once`` tokens at a time; products with the head
    are computed in ``dtype``."""
    arguments = (states, head.weight, head.bias, chosen, temperature, at_once, dtype)
    logprob, entropy = _Fused.apply(*arguments)  # type: ignore[no-untyped-call]
    return logprob, entropy


class _Fused(torch.autograd.Function):
    """The two columns of ``fused_prediction`` and their gradients.

    With z = (W h + b) / T and p = softmax(z):

        log p_c = z_c − logsumexp z          ∂/∂z_v = 1[v = c] − p_v
        H = logsumexp z − Σ p_v z_v          ∂/∂z_v = −p_v (log p_v + H)
    """

    @staticmethod
    def forward(
        ctx: Any,
        states: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        chosen: torch.Tensor,
        temperature: float,
        at_once: int,
        dtype: torch.dtype,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See the class; ``dtype`` is that of the product with ``weight``."""
        narrow = weight.to(dtype)
        logprobs, entropies, totals = [], [], []
        for some, which in _pieces(at_once, states, chosen):
            scaled = _scaled(some, narrow, bias, temperature)
            total = torch.logsumexp(scaled, -1, keepdim=True)
            logprobs.append((scaled.gather(1, which[:, None]) - total)[:, 0])
            distribution = scaled.sub_(total)
            entropies.append(-torch.linalg.vecdot(distribution.exp(), distribution))
            totals.append(total)
        ctx.save_for_backward(states, weight, bias, chosen, torch.cat(totals), torch.cat(entropies))
        ctx.settings = temperature, at_once, dtype
        return torch.cat(logprobs), torch.cat(entropies)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """The gradients of ``states``, ``weight`` and ``bias``, each only if it is asked for."""
        states, weight, bias, chosen, totals, entropies = ctx.saved_tensors
        temperature, at_once, dtype = ctx.settings
        narrow = weight.to(dtype)
        wants_states, wants_weight, wants_bias = ctx.needs_input_grad[:3]
        of_states = torch.empty_like(states) if wants_states else None
        of_weight = torch.zeros_like(weight) if wants_weight else None
        of_bias = torch.zeros_like(bias) if wants_bias else None
        for start in range(0, len(states), at_once):
            at = slice(start, start + at_once)
            slope = _scaled(states[at], narrow, bias, temperature).sub_(totals[at])
            of_logprob, of_entropy = (gradient[at, None] for gradient in gradients)
            probability = slope.exp()
            slope.add_(entropies[at, None]).mul_(of_entropy).add_(of_logprob).mul_(probability).neg_()
            slope.scatter_add_(1, chosen[at, None], of_logprob)
            slope = slope.div_(temperature).to(dtype)
            if of_states is not None:
                of_states[at] = slope @ narrow
            if of_weight is not None:
                of_weight += slope.t() @ states[at].to(dtype)
            if of_bias is not None:
                of_bias += slope.sum(0)
        return of_states, of_weight, of_bias, None, None, None, None


def _scaled(states: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, temperature: float) -> torch.Tensor:
    """The logits divided by the temperature, float32."""
    logits = F.linear(states.to(weight.dtype), weight, None if bias is None else bias.to(weight.dtype))
    return logits.float().div_(temperature)
