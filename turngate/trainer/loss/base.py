"""The families of parts that a loss is made of: one objective, corrections, penalties, and shapings.

A batch goes through the model in several passes, and a part is called with the ``Tokens`` of each. Some parts depend on
the whole batch, for instance on its tokens of highest covariance. Such a part overrides ``survey``, which sees the
whole batch before the first pass and fixes what depends on it, so the result does not depend on how the batch is cut.
To write a part of your own, see ``Objective``.
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
    """What an objective returns, per token: [S]. Training raises ``value``; ``limited`` is true where a bound removed
    the gradient."""

    value: torch.Tensor
    limited: torch.Tensor


GainOf: TypeAlias = Callable[[Tokens], Gain]
ShapedOf: TypeAlias = "Callable[[Tokens], torch.Tensor]"
PenaltyOf: TypeAlias = "Callable[[Tokens], tuple[torch.Tensor, Metrics]]"


class Objective(Part):
    """Turns the credit and the importance ratio of each token into a value to be raised; weights are applied later.

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
    shipped_in: ClassVar[tuple[str, ...]] = ("turngate.trainer.loss",)
    fallback: ClassVar[str] = "clipped"
    from_function: ClassVar[bool] = True
    uses_ratio: ClassVar[bool] = True
    """Whether the objective contains the ratio π_θ/π_old, so that a correction by the same ratio would count it
    twice."""

    @property
    def needs(self) -> Needs:
        """What this part needs from the forward pass and from the caller."""
        return Needs()

    def __call__(self, tokens: Tokens) -> Gain:
        """The objective of each token. If ``survey`` was not called, ``tokens`` are taken for the whole batch."""
        if self.function is None:
            raise ConfigError(f"objective '{self.type}' has no __call__, so it gives no value to raise; write one")
        gain: Gain = self.function(tokens, **self.settings())
        return gain

    def survey(self, tokens: Tokens, memory: Memory, seed: int) -> tuple[GainOf, Memory]:
        """The function that replaces this part on the passes of this batch, and what to remember for the next batch.

        ``tokens`` are the whole batch, detached, if ``needs.survey`` is true; else this is called on single passes.
        Anything random must derive from ``seed`` and from the tokens, so that neither packing nor resuming changes it.
        """
        return self, memory


class Correction(Part):
    """Corrects for tokens that were sampled by another policy than the one that is updated: a factor ≥ 0 per token.

    ``log_rho`` is log ρ = log π_old − log μ of each token, cut to ±20 (see ``corrections``).
    """

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "correction"
    shipped_in: ClassVar[tuple[str, ...]] = ("turngate.trainer.loss",)
    weighs: ClassVar[bool] = False
    """Whether the factor contains the ratio; else it only keeps (1) or drops (0) a token."""

    @abstractmethod
    def __call__(self, log_rho: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        """The factor of each token: [S]."""


class Penalty(Part):
    """A term that is added to the loss, with a weight of its own."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "penalty"
    shipped_in: ClassVar[tuple[str, ...]] = ("turngate.trainer.loss",)

    @property
    def needs(self) -> Needs:
        """What this part needs from the forward pass and from the caller."""
        return Needs()

    @abstractmethod
    def __call__(self, tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
        """A sum over ``tokens``, and metrics that are sums too. If ``survey`` was not called, they are taken for the
        whole batch."""

    def survey(self, tokens: Tokens, memory: Memory, seed: int) -> tuple[PenaltyOf, Memory]:
        """The function for the passes of this batch, and what to remember for the next (see ``Objective.survey``)."""
        return self, memory


class Shaping(Part):
    """Turns credit into a value to be raised for tokens that the policy did not write in the context that it learns.

    They are those that it wrote under a hint which learning leaves out, and those of an expert. Their ratio is not 1
    before the first update, so the clipping of an objective would not fit.
    """

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "shaping"
    shipped_in: ClassVar[tuple[str, ...]] = ("turngate.trainer.loss",)
    fallback: ClassVar[str] = "shaped"

    @property
    def needs(self) -> Needs:
        """What this part needs from the forward pass and from the caller."""
        return Needs()

    @abstractmethod
    def __call__(self, tokens: Tokens) -> torch.Tensor:
        """The value of each token: [S]. Other tokens have no policy weight. If ``survey`` was not called, ``tokens``
        are taken for the whole batch."""

    def survey(self, tokens: Tokens) -> ShapedOf:
        """The function that replaces this part on the passes of this batch; ``tokens`` are all of it, detached."""
        return self
