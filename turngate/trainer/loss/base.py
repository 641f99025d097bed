"""The three families of parts that a loss is made of: one objective, corrections, and penalties.

A part is data until it is called with ``Tokens``. What depends on the whole batch (a selection, an anchor, a
coefficient that adapts) is fixed by ``survey`` before the first pass, so that cutting a batch into passes changes
nothing; a part that decides token by token leaves ``survey`` alone. To write one of your own, see ``Objective``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from turngate.errors import ConfigError
from turngate.parts import Part
from turngate.trainer.loss.tokens import Memory, Needs, Tokens
from turngate.types import Metrics

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gain:
    """What an objective makes of each token: [S]. ``value`` is to be raised; ``limited``: a bound took the gradient."""

    value: torch.Tensor
    limited: torch.Tensor


GainOf: TypeAlias = Callable[[Tokens], Gain]
PenaltyOf: TypeAlias = "Callable[[Tokens], tuple[torch.Tensor, Metrics]]"


class Objective(Part):
    """Credit and ratio of each token in, the value to be raised out. Knows no weights and no normalisation.

    An objective of your own is a subclass in a module that Python finds, or a function ``(tokens, *, …) -> Gain`` whose
    keyword-only arguments are its settings:

    >>> class Squared(Objective):
    ...     strength: float = 1.0
    ...     def __call__(self, tokens):
    ...         x = tokens.log_ratio()
    ...         value = tokens.advantage * tokens.logprob - self.strength * x**2
    ...         return Gain(value=value, limited=x != x)

    ``[loss.objective]`` then has ``type = "my_module:Squared"``.
    """

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "objective"
    fallback: ClassVar[str] = "clipped"
    from_function: ClassVar[bool] = True
    uses_ratio: ClassVar[bool] = True
    """Whether it carries π_θ/π_old itself, so that weighting by the same ratio would count it twice."""

    @property
    def needs(self) -> Needs:
        """What it asks of the forward pass and of the caller."""
        return Needs()

    def __call__(self, tokens: Tokens) -> Gain:
        """The objective of each token. Without a survey, ``tokens`` are taken for the whole batch."""
        if self.function is None:
            raise ConfigError(f"objective '{self.type}' has no __call__, so there is nothing to raise; write one")
        gain: Gain = self.function(tokens, **self.settings())
        return gain

    def survey(self, tokens: Tokens, memory: Memory, seed: int) -> tuple[GainOf, Memory]:
        """What acts on this batch, and what to remember for the next one.

        ``tokens`` are the whole batch, detached, for a part whose ``needs`` say ``survey``; others see single passes.
        Whatever is random derives from ``seed`` and from the tokens, so that neither packing nor resuming changes it.
        """
        return self, memory


class Correction(Part):
    """Corrects for tokens that were sampled by another policy than the one that is updated: a factor ≥ 0 per token.

    ``log_rho`` is log ρ = log π_old − log μ of each token, cut to ±20 (see ``corrections``).
    """

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "correction"
    weighs: ClassVar[bool] = False
    """Whether it multiplies by the ratio; else it only keeps (1) or drops (0)."""

    @abstractmethod
    def __call__(self, log_rho: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        """The factor of each token: [S]."""


class Penalty(Part):
    """An addition to the loss, weighted by itself."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "penalty"

    @property
    def needs(self) -> Needs:
        """What it asks of the forward pass and of the caller."""
        return Needs()

    @abstractmethod
    def __call__(self, tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
        """A sum over ``tokens``, and sums to report. Without a survey, they are taken for the whole batch."""

    def survey(self, tokens: Tokens, memory: Memory, seed: int) -> tuple[PenaltyOf, Memory]:
        """What acts on this batch, and what to remember for the next one (see ``Objective.survey``)."""
        return self, memory
