"""Keeping the policy's entropy: a bonus, the entropy of the nucleus, and SIREN's pull towards an anchor."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch

from turngate.errors import ConfigError
from turngate.trainer.loss.tokens import Memory, Needs, Tokens
from turngate.types import Metrics

ANCHOR = "siren_anchor_nats"
ROUNDING = 1e-6  # cumulative probabilities within this of the bound still count as inside
FEWEST = 5  # trajectories with fewer tokens than this have no quantile worth the name


def entropy_of(logprob: torch.Tensor) -> torch.Tensor:
    """``−Σ p·log p`` in nats over the last axis: [...]. Impossible entries (−inf) count nothing and get no gradient."""
    finite = torch.where(logprob == -torch.inf, 0.0, logprob)
    return -(logprob.exp() * finite).sum(-1)


def nucleus_entropy(logprob: torch.Tensor, mass: float) -> torch.Tensor:
    """Entropy in nats of the likeliest tokens, renormalised, over the last axis: [...].

    Kept are tokens, likeliest first, while their cumulative probability is at most ``mass``, and always the first. So
    unlike in top-p sampling, the token that crosses the bound is left out. mass = 1 is the whole entropy, and a first
    token above ``mass`` gives 0. Gradient flows through the kept tokens; which are kept is a constant.

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

    A trajectory with fewer than ``fewest`` counted tokens has all of them chosen. Equal values: none is above.
    """
    chosen = torch.zeros_like(counted)
    for one in sorted(set(segment[counted].tolist())):
        at = counted & (segment == one)
        few = int(at.sum()) < fewest
        chosen |= at if few else at & (values > torch.quantile(values[at], quantile))
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class EntropyBonus:
    """``−coef·Σ w·H``: raises the entropy H of every policy token alike. Raises ConfigError for coef = 0."""

    coef: float
    needs: ClassVar[Needs] = Needs()

    def __post_init__(self) -> None:
        if self.coef == 0:
            raise ConfigError("an entropy bonus with coef=0 has no effect; leave it out")

    def __call__(self, tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
        """A scalar; the entropy is reported with every loss."""
        return -self.coef * (tokens.policy_weight * tokens.entropy).sum(), {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Peaks:
    """What the whole batch says: which places are peaks, how many, and their mean entropy."""

    place: torch.Tensor
    entropy: float

    @property
    def count(self) -> int:
        return len(self.place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Siren:
    """Selective entropy regularisation (https://arxiv.org/abs/2509.25133): ``coef·(H − anchor)²``.

    H is the mean nucleus entropy (see ``nucleus_entropy``) of the peak tokens of the batch: those strictly above the
    ``peak`` quantile of their trajectory (all tokens of a trajectory with fewer than five). ``anchor`` in nats; None
    takes H of the first batch and remembers it with the learner's state, so that a resumed run keeps it. A bad first
    policy makes a bad anchor. Defaults: coef 0.005, nucleus 0.8, peak 0.8, the authors' code. No peak in the batch: 0.

    H belongs to a batch, so ``survey`` fixes it before; called without, ``tokens`` are taken for the batch. Then each
    pass adds its share, with gradient ``2·coef·(H − anchor)·∇H``. Raises ConfigError for settings out of range.
    """

    coef: float = 0.005
    nucleus: float = 0.8
    peak: float = 0.8
    anchor: float | None = None
    _peaks: _Peaks | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.coef <= 0 or not 0 < self.nucleus <= 1 or not 0 <= self.peak < 1:
            raise ConfigError(
                f"Siren needs coef > 0, 0 < nucleus ≤ 1 and 0 ≤ peak < 1, found coef={self.coef}, "
                f"nucleus={self.nucleus}, peak={self.peak}"
            )

    @property
    def needs(self) -> Needs:
        """The nucleus entropy, and a look at the whole batch."""
        return Needs(survey=True, nucleus=self.nucleus)

    def survey(self, tokens: Tokens, memory: Memory) -> tuple[Siren, Memory]:
        """Fix peaks and anchor."""
        peaks = self._find(tokens)
        anchor = self.anchor if self.anchor is not None else memory.get(ANCHOR)
        if anchor is None and peaks.count:
            anchor = peaks.entropy
            memory = {**memory, ANCHOR: anchor}
        return replace(self, anchor=anchor, _peaks=peaks), memory

    def __call__(self, tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
        """The share of these tokens: peaks here / peaks in the batch, with the gradient of the whole."""
        peaks = self._peaks or self._find(tokens)
        entropy = tokens.required("nucleus_entropy", "Siren")
        here = torch.isin(tokens.place, peaks.place)
        share = here.sum() / max(1, peaks.count)
        gap = peaks.entropy - (peaks.entropy if self.anchor is None else self.anchor)
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
