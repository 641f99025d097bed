"""The loss of a batch: an objective, corrections, penalties and cross-entropy over flat tokens, in torch.

Every loss is a weighted sum over tokens, whose weights already contain the normalisation. So the losses of
micro-batches add up to the loss of the batch, however it was cut, and so do metrics. What depends on the whole batch (a
selection, an anchor) is fixed beforehand by ``survey``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

from turngate.errors import ConfigError
from turngate.parts import when_used
from turngate.trainer.batch.contexts import Origin
from turngate.trainer.loss.answers import (
    Needing,
    gain_of_tokens,
    needs_of_part,
    surveyed_objective,
    surveyed_penalty,
    surveyed_shaping,
    term_of_tokens,
    value_of_tokens,
)
from turngate.trainer.loss.base import Correction, Gain, GainOf, Objective, Penalty, PenaltyOf, ShapedOf, Shaping
from turngate.trainer.loss.corrections import mean_weight, offpolicy_metrics, weight_of
from turngate.trainer.loss.objectives import Clipped
from turngate.trainer.loss.shaping import Shaped
from turngate.trainer.loss.tokens import MAX_LOG_RATIO, Loss, Memory, Needs, Tokens, gather
from turngate.types import Metrics

if TYPE_CHECKING:
    import torch
else:
    torch = when_used("torch")


BY_POLICY = (Origin.OWN, Origin.HINTED, Origin.REPLAYED)
"""Origins of the tokens that a policy wrote, this one or an earlier one: those that penalties are about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLoss:
    """``−Σ w·c·objective + penalties − Σ ce_weight·log π_plain``.

    w is ``policy_weight``. c is the product of the corrections, without gradient (1 if there are none); ``normalize``
    divides c by its mean over the batch's policy tokens. With ``decoupled``, the ratio of the objective is taken to a
    snapshot from before the first update (π_old), and the corrections account for π_old against the sampler (μ):
    decoupled PPO (Hilton et al. 2021, https://arxiv.org/abs/2110.00641; AReaL, https://arxiv.org/abs/2505.24298).
    Otherwise the sampler stands for π_old. What the parts draw at random derives from ``seed``.

    Rejected tokens still count in the normalisation: rejection makes the update smaller and does not give the other
    tokens more weight, unless ``normalize`` is set. If all are rejected, the policy loss is 0.

    Tokens that the policy wrote under a hint which learning leaves out, and an expert's, have a shaping of their own,
    ``guided`` and ``experts``, in place of objective and corrections; an expert's are in no penalty either. Tokens of
    replayed episodes have one, ``replayed``, if it is set; else they are learned like fresh ones.

    Raises ConfigError for a combination that would count a ratio twice or have no effect.
    """

    objective: Objective = field(default_factory=Clipped)
    correction: tuple[Correction, ...] = ()
    normalize: bool = False
    penalties: tuple[Penalty, ...] = ()
    decoupled: bool = False
    seed: int = 0
    guided: Shaping = field(default_factory=Shaped)
    experts: Shaping | None = None
    replayed: Shaping | None = None

    def __post_init__(self) -> None:
        if self.objective.uses_ratio and not self.decoupled:
            for correction in self.correction:
                if correction.weighs:
                    raise ConfigError(
                        f"correction '{correction.type}' weighs by the ratio to the sampler, which objective "
                        f"'{self.objective.type}' already carries, so it would count twice; set decoupled = true, or "
                        "keep only rejections"
                    )
        if self.decoupled and not self.objective.uses_ratio and not self.correction:
            raise ConfigError(
                f"decoupled without a correction has no effect: objective '{self.objective.type}' uses no ratio"
            )
        if self.normalize and not self.correction:
            raise ConfigError("normalize has no effect without a correction; leave it out, or add a correction")
        types = [penalty.type for penalty in self.penalties]
        for kind in types:
            if types.count(kind) > 1:  # each would overwrite the memory of the other
                raise ConfigError(f"penalty '{kind}' is listed {types.count(kind)} times; list it once")

    @property
    def needs(self) -> Needs:
        """What all parts need together. Raises ConfigError if the needs of two of them exclude each other."""
        whole = Needs(proximal=self.decoupled, survey=self.normalize)
        parts: list[Needing] = [self.objective, *self.penalties, *self._shapings.values()]
        found = reduce(Needs.__or__, map(needs_of_part, parts), whole)
        return replace(found, unsampled=not self.reads_sampler)

    @property
    def reads_sampler(self) -> bool:
        """Whether the policy's own tokens are compared with the sampler's log-probabilities."""
        own = self.objective.uses_ratio and not self.decoupled
        return own or bool(self.correction or self.penalties) or self.replayed is not None

    @property
    def _own_snapshot(self) -> bool:
        """Whether objective and corrections use the snapshot; not where only a shaping or a penalty asked for it."""
        others: list[Shaping | Penalty] = [*self._shapings.values(), *self.penalties]
        return self.decoupled or not any(needs_of_part(part).proximal for part in others)

    @property
    def _shapings(self) -> Mapping[Origin, Shaping]:
        optional = {Origin.EXPERT: self.experts, Origin.REPLAYED: self.replayed}
        return {Origin.HINTED: self.guided} | {origin: one for origin, one in optional.items() if one is not None}

    @property
    def _own(self) -> tuple[Origin, ...]:
        """Whose tokens objective and corrections are for."""
        return (Origin.OWN, Origin.REPLAYED) if self.replayed is None else (Origin.OWN,)

    def survey(self, tokens: Tokens, memory: Memory) -> tuple[Loss, Memory]:
        """This loss with everything fixed that depends on the whole batch, whose ``tokens`` are given, detached."""
        own = own_of(tokens, *self._own, snapshot=self._own_snapshot)
        gain_of, memory = surveyed_objective(self.objective, own, memory, self.seed)
        penalties: list[tuple[Penalty, PenaltyOf]] = []
        for penalty in self.penalties:
            act, memory = surveyed_penalty(penalty, tokens.only(*BY_POLICY), memory, self.seed)
            penalties.append((penalty, act))
        fixed = _Fixed(
            objective=(self.objective, gain_of),
            correction=self.correction,
            mean=mean_weight(self.correction, own) if self.normalize else 1.0,
            penalties=tuple(penalties),
            own=self._own,
            snapshot=self._own_snapshot,
            shapings={
                origin: (shaping, surveyed_shaping(shaping, tokens.only(origin)))
                for origin, shaping in self._shapings.items()
            },
        )
        return fixed, memory

    def __call__(self, tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
        """The loss and its diagnostics; ``policy/…`` are averages weighted as the policy loss is.

        ``kl_to_sampler`` estimates KL(sampler ‖ policy) by r − 1 − log r, whose mean over sampled tokens is exact.
        A part that needs a survey takes ``tokens`` for the whole batch.
        """
        fixed, _ = self.survey(gather([tokens]) if self.needs.survey else tokens, {})
        return fixed(tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fixed:
    """A policy loss after ``survey``: nothing in it depends any more on how the batch is cut. Each part comes with the
    function that replaces it."""

    objective: tuple[Objective, GainOf]
    correction: tuple[Correction, ...]
    mean: float
    penalties: tuple[tuple[Penalty, PenaltyOf], ...]
    own: tuple[Origin, ...]
    snapshot: bool
    shapings: Mapping[Origin, tuple[Shaping, ShapedOf]]

    def __call__(self, tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
        own = own_of(tokens, *self.own, snapshot=self.snapshot)
        gain, weight, metrics = gain_of_tokens(*self.objective, own), own.policy_weight, Metrics()
        if self.correction:
            corrected = weight_of(self.correction, own) / (self.mean or 1.0)
            weight, metrics = weight * corrected, offpolicy_metrics(own, corrected)
        shaped, found = self._shaped(tokens)
        policy = shaped - (weight * gain.value).sum()
        imitation = -(tokens.ce_weight * tokens.whole_logprob).sum()
        total, metrics = policy + imitation, metrics | found
        for part, act in self.penalties:
            added, found = term_of_tokens(part, act, tokens.only(*BY_POLICY))
            total, metrics = total + added, metrics | found
        return total, metrics | _diagnostics(own, gain, policy, imitation)

    def _shaped(self, tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
        """The loss of tokens that have a shaping, and for each kind that was met its part of it and its share."""
        total, metrics = torch.zeros_like(tokens.policy_weight).sum(), Metrics()
        for origin, shaping in self.shapings.items():
            meant = tokens.only(origin)
            if not meant.counted.any():
                continue
            loss = -(meant.policy_weight * value_of_tokens(*shaping, meant)).sum()
            name = origin.name.lower()
            metrics[f"loss/{name}"] = loss.item()
            metrics[f"policy/{name}_share"] = float(meant.policy_weight.sum()) / tokens.total
            total = total + loss
        return total, metrics


def own_of(tokens: Tokens, *own_origins: Origin, snapshot: bool) -> Tokens:
    """What objective and corrections see: credit on tokens of these origins, and the snapshot if they use it."""
    own = tokens.only(*own_origins)
    return own if snapshot else replace(own, proximal_logprob=None)


def _diagnostics(tokens: Tokens, gain: Gain, policy: torch.Tensor, imitation: torch.Tensor) -> Metrics:
    with torch.no_grad():
        share = tokens.policy_weight / tokens.total
        metrics = {
            "loss/policy": policy.item(),
            "loss/imitation": imitation.item(),
            "policy/entropy_nats": (share * tokens.entropy).sum().item(),
            "policy/clipped_share": (share * gain.limited).sum().item(),
        }
        if tokens.sampled_logprob[tokens.counted].isfinite().all():  # recorded episodes may lack them
            to_sampler = (tokens.logprob - tokens.sampled_logprob).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
            metrics["policy/kl_to_sampler_nats"] = (share * (torch.expm1(to_sampler) - to_sampler)).sum().item()
        return metrics
