"""Keeping up the policy's entropy: a bonus on all tokens, and SIREN, which holds uncertain tokens at a target."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from turngate.parts import when_used
from turngate.trainer.loss.base import Penalty, PenaltyOf
from turngate.trainer.loss.tokens import Memory, Needs, Tokens
from turngate.types import Metrics

if TYPE_CHECKING:
    import torch
else:
    torch = when_used("torch")

ANCHOR = "siren_anchor_nats"
ROUNDING = 1e-6  # cumulative probabilities within this of the bound still count as inside
FEWEST = 5  # a quantile of fewer tokens than this says nothing


def entropy_of(logprob: torch.Tensor) -> torch.Tensor:
    """``−Σ p·log p`` in nats over the last axis: [...]. Entries of probability 0 (−inf) add 0 and get no gradient."""
    finite = torch.where(logprob == -torch.inf, 0.0, logprob)
    return -(logprob.exp() * finite).sum(-1)


def nucleus_entropy(logprob: torch.Tensor, mass: float) -> torch.Tensor:
    """Entropy in nats of the likeliest tokens, renormalised, over the last axis: [...].

    Tokens are kept, likeliest first, while their cumulative probability is at most ``mass``; the first is always kept.
    So unlike in top-p sampling, the token that crosses the bound is left out. mass = 1 gives the whole entropy, and a
    first token with a probability above ``mass`` gives 0. Gradient flows through the kept tokens; which are kept is a
    constant.

    Source: SIREN, https://arxiv.org/abs/2509.25133.
    """
    ordered, order = logprob.detach().sort(dim=-1, descending=True, stable=True)
    inside = ordered.exp().cumsum(-1) <= mass + ROUNDING
    inside[..., 0] = True
    kept = torch.zeros_like(inside).scatter(-1, order, inside)
    return entropy_of(torch.log_softmax(logprob.masked_fill(~kept, -torch.inf), dim=-1))


def above_quantile(
    values: torch.Tensor, segment: torch.Tensor, counted: torch.Tensor, quantile: float, *, fewest: int = 0
) -> torch.Tensor:
    """bool[S]: counted tokens strictly above the ``quantile`` of their trajectory's counted tokens (interpolated).

    In a trajectory with fewer than ``fewest`` counted tokens all of them are chosen; if all values are equal, none is.
    """
    chosen = torch.zeros_like(counted)
    for one in sorted(set(segment[counted].tolist())):
        at = counted & (segment == one)
        few = int(at.sum()) < fewest
        chosen |= at if few else at & (values > torch.quantile(values[at], quantile))
    return chosen


class EntropyBonus(Penalty):
    """Entropy bonus: keeps sampling diverse by raising the entropy of every token.

    Adds ``−coef·Σ w·H`` to the loss, H the entropy of each policy token; a negative coefficient lowers entropy.
    """

    type: Literal["entropy"] = "entropy"
    coef: float
    """Strength of the bonus per nat of entropy, 1e-4 to 1e-2 in use; raise it if entropy collapses."""

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if self.coef == 0:
            raise ValueError("coef = 0 has no effect; leave the entropy bonus out")
        return self

    def __call__(self, tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
        """A scalar, and no metrics: every loss reports the entropy."""
        return -self.coef * (tokens.policy_weight * tokens.entropy).sum(), {}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Peaks:
    """The peak tokens of the whole batch: their places, and their mean entropy."""

    place: torch.Tensor
    entropy: float

    @property
    def count(self) -> int:
        return len(self.place)


class Siren(Penalty):
    """SIREN: holds the entropy of the most uncertain tokens at a target (https://arxiv.org/abs/2509.25133).

    Selective entropy regularisation adds ``coef·(H − anchor)²``. H is the mean nucleus entropy (see
    ``nucleus_entropy``) of the peak tokens of the batch: those strictly above the ``peak`` quantile of their trajectory
    (all tokens of a trajectory with fewer than five). Without ``anchor``, H of the first batch is taken and remembered
    with the learner's state, so that a resumed run keeps it. If the first policy has too little or
    too much entropy, so has the anchor. Defaults: coef
    0.005, nucleus 0.8, peak 0.8, the authors' code. Without any
    peak in the batch the penalty is 0.

    H is a mean over the batch, so ``survey`` fixes it; each pass adds its share of the penalty, with gradient
    ``2·coef·(H − anchor)·∇H``.
    """

    type: Literal["siren"] = "siren"
    coef: float = Field(0.005, gt=0)
    """Strength of the penalty on the squared distance from the anchor."""
    nucleus: float = Field(0.8, gt=0, le=1)
    """An entropy is computed over the likeliest tokens that together hold at most this much probability."""
    peak: float = Field(0.8, ge=0, lt=1)
    """Only tokens whose entropy lies above this quantile of their trajectory are held at the target."""
    anchor: float | None = None
    """Target entropy, in nats; leave it out to take that of the first batch."""

    @property
    def needs(self) -> Needs:
        """The nucleus entropy, and the whole batch."""
        return Needs(survey=True, nucleus=self.nucleus)

    def survey(self, tokens: Tokens, memory: Memory, seed: int) -> tuple[PenaltyOf, Memory]:
        """Find the peak tokens, and set the anchor."""
        peaks = self._find(tokens)
        anchor = self.anchor if self.anchor is not None else memory.get(ANCHOR)
        if anchor is None and peaks.count:
            anchor = peaks.entropy
            memory = {**memory, ANCHOR: anchor}
        return partial(self._pull, peaks=peaks, anchor=peaks.entropy if anchor is None else anchor), memory

    def __call__(self, tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
        """A scalar, with the peaks of the given tokens."""
        act, _ = self.survey(tokens, {}, 0)
        return act(tokens)

    def _pull(self, tokens: Tokens, *, peaks: _Peaks, anchor: float) -> tuple[torch.Tensor, Metrics]:
        """The share of these tokens: peaks here / peaks in the batch, with the gradient of the whole."""
        entropy = tokens.required("nucleus_entropy", "Siren")
        here = torch.isin(tokens.place, peaks.place)
        share = here.sum() / max(1, peaks.count)
        gap = peaks.entropy - anchor
        moving = (entropy - entropy.detach())[here].sum() / max(1, peaks.count)
        penalty = self.coef * (gap**2 * share + 2 * gap * moving)
        return penalty, {
            "entropy/siren_penalty": penalty.item(),
            "entropy/peaks_nats": peaks.entropy * float(share),
        }

    def _find(self, tokens: Tokens) -> _Peaks:
        entropy = tokens.required("nucleus_entropy", "Siren").detach()
        chosen = above_quantile(entropy, tokens.segment, tokens.counted, self.peak, fewest=FEWEST)
        place = tokens.place[chosen]
        return _Peaks(place=place, entropy=float(entropy[chosen].mean()) if len(place) else 0.0)
