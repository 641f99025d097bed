"""Losses over whole episodes, in pairs or one by one: each sees an episode as a sum of log-probabilities.

``x`` of an episode is ``Σ_j γ^t(j) (log π − log π_ref)`` over its trained tokens j of turn t, without π_ref where a
loss has no reference; ``text`` is the mean of log π over them. A loss says what it costs by these numbers; where the
gradient of each token follows from that, ``Contrast`` does the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from turngate.parts import when_used
from turngate.trainer.loss.tokens import Loss, Memory, Needs, Tokens, gather
from turngate.types import Metrics

if TYPE_CHECKING:
    import torch
else:
    torch = when_used("torch")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSums:
    """What a loss sees of the B episodes of a batch: tensors [B], pairs side by side, the preferred one first.

    ``x_B`` and ``text_B`` carry gradient; ``value_B`` is what the row says of its episode (``AuxiliaryRow.value``).
    """

    x_B: torch.Tensor
    text_B: torch.Tensor
    value_B: torch.Tensor


class Contrast(ABC):
    """``Σ_u w_u·cost_u`` over the units of the batch: pairs of episodes, or single ones (``together``).

    Segments u·together … of the batch are a unit, all of whose trained tokens have the weight w_u as ``ce_weight``.
    Costs depend on whole episodes, so they are fixed, with their gradients, before the first pass (``survey``).
    """

    together: ClassVar[int] = 2
    against_reference: ClassVar[bool] = True
    gamma: float = 1.0
    """Discount per turn."""

    @property
    def needs(self) -> Needs:
        """All of the batch before any of it is learned from, and the reference if there is one."""
        return Needs(reference=self.against_reference, survey=True)

    @abstractmethod
    def costs(self, sums: EpisodeSums) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]:
        """The cost of each unit, [U], with gradient, and numbers to report as their mean over the units, [U] each."""

    def survey(self, tokens: Tokens, memory: Memory) -> tuple[Loss, Memory]:
        """The loss with what each episode costs fixed; ``tokens`` are all of the batch, detached."""
        trained = tokens.ce_weight != 0
        owner = tokens.segment[trained]
        n_episodes = int(tokens.segment.max()) + 1

        def per_episode(values: torch.Tensor) -> torch.Tensor:
            return values.new_zeros(n_episodes).index_add(0, owner, values[trained])

        n_B = per_episode(torch.ones_like(tokens.ce_weight)).clamp(min=1)
        gain = tokens.whole_logprob
        if self.against_reference:
            gain = gain - tokens.required("reference_logprob", "a preference")
        with torch.enable_grad():
            sums = EpisodeSums(
                x_B=per_episode(self.gamma**tokens.turn * gain).requires_grad_(),
                text_B=(per_episode(tokens.whole_logprob) / n_B).requires_grad_(),
                value_B=per_episode(tokens.advantage) / n_B,
            )
            cost_U, told = self.costs(sums)
            of_x, of_text = torch.autograd.grad(cost_U.sum(), (sums.x_B, sums.text_B), allow_unused=True)
        nothing = torch.zeros_like(n_B)
        fixed = _FixedContrast(
            together=self.together,
            gamma=self.gamma,
            cost_U=cost_U.detach(),
            told={name: value.detach() for name, value in told.items()},
            pull_B=nothing if of_x is None else of_x,
            text_B=nothing if of_text is None else of_text / n_B,
            n_U=n_B.reshape(-1, self.together).sum(1),
        )
        return fixed, memory

    def __call__(self, tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
        """See the class; ``tokens`` are taken for the whole batch."""
        fixed, _ = self.survey(gather([tokens]), {})
        return fixed(tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FixedContrast:
    """The loss on one pass: linear in log π, with the gradient of the whole and each token's share of its value."""

    together: int
    gamma: float
    cost_U: torch.Tensor
    told: Mapping[str, torch.Tensor]
    pull_B: torch.Tensor
    text_B: torch.Tensor
    n_U: torch.Tensor

    def __call__(self, tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
        unit = torch.div(tokens.segment, self.together, rounding_mode="floor")
        logprob, weight = tokens.whole_logprob, tokens.ce_weight
        slope = self.gamma**tokens.turn * self.pull_B[tokens.segment] + self.text_B[tokens.segment]
        share = 1 / self.n_U[unit]
        value = (weight * (share * self.cost_U[unit] + slope * (logprob - logprob.detach()))).sum()
        share = share * (weight != 0) / len(self.cost_U)
        return value, {name: float((share * told[unit]).sum()) for name, told in self.told.items()}


def _sides(values_B: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Those of the preferred episodes and of the others: [P] each."""
    return values_B[::2], values_B[1::2]


def _told_of_pairs(sums: EpisodeSums, margin_P: torch.Tensor) -> dict[str, torch.Tensor]:
    """The metrics of pairs. Watch both likelihoods: a loss of differences may lower them together."""
    win, lose = _sides(sums.text_B)
    win_x, lose_x = _sides(sums.x_B)
    preferred = (win_x > lose_x).to(margin_P.dtype)
    return {"margin": margin_P, "preferred_share": preferred, "winner_logprob": win, "loser_logprob": lose}


@dataclass(frozen=True, kw_only=True)
class Preference(Contrast):
    """DPO: ``−log σ(s₊ − s₋) + imitated·mean −log π(token of +)``, s = β·D, D = Σ (log π − log π_ref) of an episode.

    Direct preference optimisation, https://arxiv.org/abs/2305.18290, eq. 7, over the policy's tokens of all turns,
    their sum and not their mean. The gradient with respect to D₊ is ``−β·σ(−β·(D₊ − D₋))``, and the opposite for D₋. D₊
    = ½, D₋ = −½, β = 0.1: the cost is 0.644397, σ(−0.1) = 0.475021.

    ``score_decay``: adds so many times the mean of s² of both sides, as muCode does for its verifier
    (https://arxiv.org/abs/2502.20380 and its code, 1e-3); s = 1.2 and .4: .371101 + .0008.

    ``imitated``: weight of the cross-entropy on preferred episodes, which keeps both from becoming less likely
    together; 0 = none. Metrics are means over the pairs: ``margin``, β·(D₊ − D₋); ``preferred_share``, how many pairs
    have D₊ > D₋; ``winner_logprob`` and ``loser_logprob`` per token; ``winner_gain`` and ``loser_gain``, D of each.
    """

    beta: float
    imitated: float = 0.0
    score_decay: float = 0.0

    def costs(self, sums: EpisodeSums) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]:
        """See the class."""
        (win, lose), (text, _) = _sides(sums.x_B), _sides(sums.text_B)
        margin = self.beta * (win - lose)
        told = _told_of_pairs(sums, margin) | {"winner_gain": win, "loser_gain": lose}
        decay = self.score_decay * self.beta**2 * (win**2 + lose**2) / 2
        return torch.nn.functional.softplus(-margin) - self.imitated * text + decay, told


@dataclass(frozen=True, kw_only=True)
class Cpl(Contrast):
    """CPL: ``−log σ(A₊ − λ·A₋)`` with ``A = Σ_t γ^t·α·log π(a_t | s_t)``: the policy's own likelihood is the advantage.

    Contrastive preference learning, https://arxiv.org/abs/2310.13639, eq. 5, with the bias λ of its appendix; no
    reference. The turns are counted from where the sides are compared. log π of turns −.5, −.7, −.2 and −.6, −1.2, −.9,
    α .1: .630258; with λ = ½ .695650; with γ = .9 .638856. With λ = 1 the loss does not change if both sides become
    less likely alike; below 1 it does.
    """

    against_reference: ClassVar[bool] = False
    alpha: float
    bias: float = 1.0
    gamma: float = 1.0
    imitated: float = 0.0

    def costs(self, sums: EpisodeSums) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]:
        """See the class."""
        (win, lose), (text, _) = _sides(self.alpha * sums.x_B), _sides(sums.text_B)
        margin = win - self.bias * lose
        return torch.nn.functional.softplus(-margin) - self.imitated * text, _told_of_pairs(sums, margin)


@dataclass(frozen=True, kw_only=True)
class Prdp(Contrast):
    """PRDP: ``(β·(D₊ − D₋) − (R₊ − R₋))²``: the margin is to equal the difference of what both were paid.

    Proximal reward difference prediction, https://arxiv.org/abs/2402.08714, whose clipping of the ratio is not in it.
    D₊ − D₋ = 1, β = .1 and R₊ − R₋ = ½: .16. At 0 the policy is ∝ π_ref·exp(R/β). ``gap``: the mean R₊ − R₋.
    """

    beta: float

    def costs(self, sums: EpisodeSums) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]:
        """See the class."""
        (win, lose), (better, worse) = _sides(sums.x_B), _sides(sums.value_B)
        margin, gap = self.beta * (win - lose), better - worse
        return (margin - gap) ** 2, _told_of_pairs(sums, margin) | {"gap": gap}


@dataclass(frozen=True, kw_only=True)
class Kto(Contrast):
    """KTO: ``1 − σ(β·D − z)`` for what succeeded (``value`` 1), ``1 − σ(z − β·D)`` for what failed (``value`` 0).

    Kahneman-Tversky optimisation, https://arxiv.org/abs/2402.01306, eq. 8; needs no pairs. z, without gradient, is
    ``max(0, mean of β·D)`` over the batch: an estimate of β·KL(π ‖ π_ref) where the policy played the episodes, and a
    stand-in for it where it did not. The paper's estimate is from texts of other prompts, which agents' episodes are
    not. β·D = .2 and z = .05: .462570. Metrics: ``anchor``, z, and the mean log π per token and D of both kinds.
    """

    together: ClassVar[int] = 1
    beta: float

    def costs(self, sums: EpisodeSums) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]:
        """See the class."""
        anchor = (self.beta * sums.x_B).detach().mean().clamp(min=0)
        cost = kto_cost(self.beta * sums.x_B, anchor, sums.value_B)
        won = (sums.value_B > 0.5).to(cost.dtype)
        told = {"anchor": anchor.expand_as(cost)}
        for name, kind in (("winner", won), ("loser", 1 - won)):
            often = kind.mean().clamp(min=1e-9)
            told |= {f"{name}_logprob": kind / often * sums.text_B, f"{name}_gain": kind / often * sums.x_B}
        return cost, told


def kto_cost(gain_B: torch.Tensor, anchor: torch.Tensor, value_B: torch.Tensor) -> torch.Tensor:
    """``1 − σ(gain − anchor)`` where ``value`` is 1, ``1 − σ(anchor − gain)`` where it is 0: [B] (see ``Kto``)."""
    return torch.where(value_B > 0.5, torch.sigmoid(anchor - gain_B), torch.sigmoid(gain_B - anchor))
