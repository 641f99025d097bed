"""The data that a loss is computed from: the trained tokens of one pass, and what a loss may need beyond them.

The learner makes ``Tokens``; objectives, corrections and penalties are computed from them. A pass always holds whole
segments, so sums over a turn or a trajectory are complete in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, cast, runtime_checkable

from turngate.errors import ConfigError, ShapeError
from turngate.parts import when_used
from turngate.trainer.batch.contexts import Origin
from turngate.types import Metrics

if TYPE_CHECKING:
    import torch
else:
    torch = when_used("torch")

MAX_LOG_RATIO = 20.0  # exp(20) is far outside any trust region and still finite in float32

Unit: TypeAlias = Literal["token", "turn", "sequence"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a loss needs from the forward pass and from the caller; ``|`` joins the needs of two.

    * ``proximal``, ``reference``: log-probabilities under a snapshot from before the first update, and under a frozen
      reference model;
    * ``survey``: the whole batch, before its gradient is computed;
    * ``nucleus``: the entropy over the likeliest tokens that hold this much probability;
    * ``candidates``: the log-probabilities of this many likeliest tokens;
    * ``thoughts``: which tokens are the thought before an action;
    * ``unsampled``: nothing is compared with the sampler, so tokens may lack its log-probabilities.
    """

    proximal: bool = False
    reference: bool = False
    survey: bool = False
    nucleus: float | None = None
    candidates: int = 0
    thoughts: bool = False
    unsampled: bool = False

    def __or__(self, other: Needs) -> Needs:
        if None not in (self.nucleus, other.nucleus) and self.nucleus != other.nucleus:
            raise ConfigError(f"two parts of one loss need nucleus {self.nucleus} and {other.nucleus}; set them equal")
        return Needs(
            proximal=self.proximal or other.proximal,
            reference=self.reference or other.reference,
            survey=self.survey or other.survey,
            nucleus=other.nucleus if self.nucleus is None else self.nucleus,
            candidates=max(self.candidates, other.candidates),
            thoughts=self.thoughts or other.thoughts,
            unsampled=self.unsampled and other.unsampled,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tokens:
    """The trained tokens of one pass; tensors of shape [S] unless said otherwise.

    ``logprob``, ``entropy``, ``plain_logprob``, ``nucleus_entropy`` and ``candidate_logprob`` carry gradient.

    ===================== ============================================================================================
    ``logprob``           under the distribution that the sampler draws from: its temperature, top-p and top-k; of an
                          expert's tokens, which no sampler drew, without top-p and top-k
    ``entropy``           of that distribution, in nats
    ``sampled_logprob``   the sampler's own (μ)
    ``advantage``         credit of the token's turn
    ``policy_weight``     normalisation of the policy loss; 0 = carries no credit and counts in no ratio
    ``ce_weight``         normalisation of cross-entropy
    ``segment``           int64, which trajectory of the batch
    ``turn``              int64, which turn of that trajectory
    ``place``             int64, index of the token in the batch
    ``plain_logprob``     without top-p and top-k; None = the same as ``logprob`` (see ``whole_logprob``)
    ``proximal_logprob``  a snapshot's, from before the first update (π_old); None = the sampler stands for it
    ``reference_logprob`` a frozen reference model's, without top-p and top-k: compare ``whole_logprob`` with it
    ``nucleus_entropy``   over the likeliest tokens only (see ``Needs.nucleus``)
    ``candidate_logprob`` [S, K] of the K likeliest tokens, likeliest first
    ``thought``           1 for tokens of the thought before an action, 0 for the others
    ``origin``            uint8, ``contexts.Origin``: who wrote it, in which context; None = all by the policy itself
    ``total``             Σ policy_weight over the whole batch: what makes averages of sums
    ===================== ============================================================================================
    """

    logprob: torch.Tensor
    entropy: torch.Tensor
    sampled_logprob: torch.Tensor
    advantage: torch.Tensor
    policy_weight: torch.Tensor
    ce_weight: torch.Tensor
    segment: torch.Tensor
    turn: torch.Tensor
    place: torch.Tensor
    plain_logprob: torch.Tensor | None = None
    proximal_logprob: torch.Tensor | None = None
    reference_logprob: torch.Tensor | None = None
    nucleus_entropy: torch.Tensor | None = None
    candidate_logprob: torch.Tensor | None = None
    thought: torch.Tensor | None = None
    origin: torch.Tensor | None = None
    total: float = 1.0

    @property
    def old_logprob(self) -> torch.Tensor:
        """Log-probability in the denominator of the objectives' ratio: the snapshot's if there is one, else the
        sampler's."""
        return self.sampled_logprob if self.proximal_logprob is None else self.proximal_logprob

    @property
    def whole_logprob(self) -> torch.Tensor:
        """log π_θ over the whole vocabulary, at the sampler's temperature: the value that is compared with a reference
        or a teacher, and that cross-entropy raises. [S]."""
        return self.logprob if self.plain_logprob is None else self.plain_logprob

    @property
    def counted(self) -> torch.Tensor:
        """bool[S]: tokens that carry policy credit. No other token enters a ratio, a mean or a quantile."""
        return self.policy_weight != 0

    def only(self, *origins: int) -> Tokens:
        """The same tokens, of which only those of these origins carry policy credit."""
        if self.origin is None:
            return self if Origin.OWN in origins else replace(self, policy_weight=torch.zeros_like(self.policy_weight))
        meant = torch.isin(self.origin, self.origin.new_tensor(origins))
        return replace(self, policy_weight=torch.where(meant, self.policy_weight, 0))

    def log_ratio(self) -> torch.Tensor:
        """log π_θ/π_old of each token, at most ±20; carries gradient inside."""
        return (self.logprob - self.old_logprob).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)

    def required(self, name: str, asked_by: str) -> torch.Tensor:
        """The optional column ``name``. Raises ShapeError, naming who asked, when it was not measured."""
        column: torch.Tensor | None = getattr(self, name)
        if column is None:
            raise ShapeError(f"{asked_by} needs '{name}', which was not measured for this batch")
        return column


def gather(parts: Sequence[Tokens]) -> Tokens:
    """Joins several passes of one batch, detached and in the order of the batch."""
    order = torch.cat([part.place for part in parts]).argsort()
    columns: dict[str, torch.Tensor | None] = {}
    for field in fields(Tokens):
        values = [getattr(part, field.name) for part in parts]
        if field.name != "total":
            columns[field.name] = None if values[0] is None else torch.cat(values).detach()[order]
    return Tokens(**columns, total=parts[0].total)  # type: ignore[arg-type]


def owners(tokens: Tokens, unit: Unit) -> torch.Tensor:
    """Which token, turn or trajectory each token belongs to, as dense numbers: int64[S]."""
    if unit == "token":
        return torch.arange(len(tokens.segment), device=tokens.segment.device)
    if not len(tokens.segment):
        return tokens.segment
    key = tokens.segment if unit == "sequence" else tokens.segment * (tokens.turn.max() + 1) + tokens.turn
    _, owner = key.unique(return_inverse=True)  # type: ignore[no-untyped-call]
    return cast(torch.Tensor, owner)


def mean_over(values: torch.Tensor, owner: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """Mean of ``values`` over the counted tokens of the same owner, given to each token: [S]. 0 if none is counted."""
    number = _sums(counted.to(values.dtype), owner)
    return (_sums(torch.where(counted, values, 0), owner) / number.clamp(min=1))[owner]


def sum_over(values: torch.Tensor, owner: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """Sum of ``values`` over the counted tokens of the same owner, given to each token: [S]."""
    return _sums(torch.where(counted, values, 0), owner)[owner]


def _sums(values: torch.Tensor, owner: torch.Tensor) -> torch.Tensor:
    n_owners = int(owner.max()) + 1 if len(owner) else 0
    return values.new_zeros(n_owners).index_add(0, owner, values)


# --- what the learner is handed --------------------------------------------------------------------------------------


class Loss(Protocol):
    """Tokens in; a scalar to descend and additive metrics out."""

    def __call__(self, tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
        """The loss as a sum over ``tokens``, and sums to report."""
        ...


Memory: TypeAlias = Mapping[str, float]
"""What a loss remembers from step to step. It is saved with the learner."""


@runtime_checkable
class Surveyed(Protocol):
    """A loss that has to see the whole batch, because a selection, quantile or mean of it affects each token."""

    def survey(self, tokens: Tokens, memory: Memory) -> tuple[Loss, Memory]:
        """The loss with everything fixed that depends on the batch, and what to remember for the next batch.

        ``tokens`` are all of the batch, detached and in its order.
        """
        ...


def needs_of(loss: Loss) -> Needs:
    """What ``loss`` needs; a plain function needs nothing."""
    needs: Needs = getattr(loss, "needs", Needs())
    return needs
