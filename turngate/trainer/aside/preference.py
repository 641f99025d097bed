"""DPO's loss over pairs of episodes: the preferred one is to gain more over a frozen reference than the rejected one.

Source: direct preference optimisation, https://arxiv.org/abs/2305.18290, eq. 7, over the policy's tokens of all turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from turngate.parts import when_used
from turngate.trainer.loss.tokens import Loss, Memory, Needs, Tokens, gather
from turngate.types import Metrics

if TYPE_CHECKING:
    import torch
else:
    torch = when_used("torch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """``Σ_p w_p·(−log σ(β·(D₊ − D₋)) + imitated·mean −log π(token of +))``, D = Σ (log π − log π_ref) of an episode.

    Segments 2p and 2p + 1 of the batch are the preferred and the rejected episode of pair p; both have the weight w_p
    as ``ce_weight`` on each trained token. Of an episode D is the sum over its tokens, not their mean. The gradient
    with respect to D₊ is ``−w_p·β·σ(−β·(D₊ − D₋))``, and the opposite for D₋. D₊ = ½, D₋ = −½, β = 0.1: the loss is
    0.644397, σ(−0.1) = 0.475021.

    ``imitated``: weight of the cross-entropy on preferred episodes, which keeps both from becoming less likely
    together; 0 = none. Metrics: ``margin``, the mean of β·(D₊ − D₋), and ``preferred_share``, the share of pairs in
    which it is above 0.
    """

    beta: float
    imitated: float = 0.0

    @property
    def needs(self) -> Needs:
        """The reference, and both episodes of each pair before either is learned from."""
        return Needs(reference=True, survey=True)

    def survey(self, tokens: Tokens, memory: Memory) -> tuple[Loss, Memory]:
        """The loss with the margin of every pair fixed; ``tokens`` are all of the batch, detached."""
        pair, sign = _pairs(tokens)
        trained = (tokens.ce_weight != 0).to(tokens.ce_weight.dtype)
        n_pairs = int(pair.max()) + 1

        def per_pair(values: torch.Tensor) -> torch.Tensor:
            return values.new_zeros(n_pairs).index_add(0, pair, values)

        gain = plain_logprob(tokens) - tokens.required("reference_logprob", "a preference")
        margin = self.beta * per_pair(trained * sign * gain)
        n_preferred = per_pair(trained * (sign > 0))
        imitated = self.imitated / n_preferred.clamp(min=1)
        fixed = _Margins(beta=self.beta, margin=margin, n_tokens=per_pair(trained).clamp(min=1), imitated=imitated)
        return fixed, memory

    def __call__(self, tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
        """See the class; ``tokens`` are taken for the whole batch."""
        fixed, _ = self.survey(gather([tokens]), {})
        return fixed(tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Margins:
    """The loss on one pass: linear in log π, with the gradient of the whole and each token's share of its value."""

    beta: float
    margin: torch.Tensor
    n_tokens: torch.Tensor
    imitated: torch.Tensor

    def __call__(self, tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
        pair, sign = _pairs(tokens)
        logprob, weight = plain_logprob(tokens), tokens.ce_weight
        pull = self.beta * torch.sigmoid(-self.margin)[pair] * sign
        share = 1 / self.n_tokens[pair]
        value = torch.nn.functional.softplus(-self.margin)[pair] * share - pull * (logprob - logprob.detach())
        text = -self.imitated[pair] * (sign > 0) * logprob
        share = share * (weight != 0) / len(self.margin)
        metrics = {
            "margin": float((share * self.margin[pair]).sum()),
            "preferred_share": float((share * (self.margin > 0)[pair]).sum()),
        }
        return (weight * (value + text)).sum(), metrics


def _pairs(tokens: Tokens) -> tuple[torch.Tensor, torch.Tensor]:
    """The pair of each token, int64[S], and +1 in its preferred episode, −1 in the rejected one, [S]."""
    pair = torch.div(tokens.segment, 2, rounding_mode="floor")
    return pair, (1 - 2 * (tokens.segment % 2)).to(tokens.ce_weight.dtype)


def plain_logprob(tokens: Tokens) -> torch.Tensor:
    """log π of each token over the whole vocabulary, as asides are measured."""
    return tokens.logprob if tokens.plain_logprob is None else tokens.plain_logprob
