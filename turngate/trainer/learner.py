"""``Learner``: the seam to whoever holds the weights, and the parts that open one. No torch.

A learner knows tokens, weights and a loss, and nothing about episodes; one in another process or on another machine
stands behind the same lines. ``turngate.trainer.torch`` has the one that runs in this process.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol, TypeAlias

from pydantic import Field

from turngate.agents.policies.base import Weights
from turngate.agents.protocols import LanguageModel, Precision
from turngate.errors import ConfigError
from turngate.parts import Part, when_used
from turngate.trainer.loss.tokens import Loss, needs_of
from turngate.types import PLAIN, Batch, BoolArray, FloatArray, Metrics, Sampling

torch_learner = when_used("turngate.trainer.torch.learner")  # which holds to this protocol, and so imports it

Measured: TypeAlias = Mapping[str, FloatArray]
NOTHING: Measured = {}
MAX_KL = 2.0
"""Default of ``learner.max_kl``, in nats per token: PPO stops an update at 0.01 to 0.05, and a policy that forgot all
it knew is further away than 5 (the logarithm of a vocabulary)."""


class Learner(Protocol):
    """Who learns: four verbs, and three questions about a batch."""

    def forward_backward(self, batch: Batch, loss: Loss, *, measured: Measured = NOTHING) -> Metrics:
        """Add the gradient of ``loss`` over ``batch`` to what is accumulated.

        ``measured`` holds what only some losses need (``needs_of``), one entry per token: ``proximal_L``, the learner's
        own ``logprobs`` of the batch before the first update of the step, and ``reference_L``, a frozen model's. A
        critic learns from ``return_L``, ``value_weight_L`` (0 = nothing to learn here) and ``old_value_L``, each about
        the state after a token.
        """
        ...

    def optim_step(self, *, lr_scale: float = 1.0) -> Metrics:
        """Update with the accumulated gradient and forget it."""
        ...

    def weights(self) -> Weights:
        """The parameters by name, as ``Policy.publish`` takes them."""
        ...

    def logprobs(self, batch: Batch, *, whole: bool = False) -> FloatArray:
        """Log-probability of every policy token, float32[L]; ``whole``: without top-p and top-k."""
        ...

    def entropies(self, batch: Batch) -> FloatArray:
        """Entropy, in nats, of the distribution that each policy token was drawn from, float32[L]."""
        ...

    def values(self, batch: Batch, wanted_L: BoolArray) -> FloatArray:
        """The critic's value of the state after each wanted token, float32[L]; 0 elsewhere."""
        ...

    def save(self, path: Path) -> None:
        """Write everything that training goes on from."""
        ...

    def load(self, path: Path) -> None:
        """Read what ``save`` wrote."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Critic:
    """How values are learned. ``turngate.config`` has defaults that were tried; these are the plainest.

    ``shared``: the loss, times ``coef``, also trains the model below the head; else only the head learns, from features
    that the policy's loss shapes. ``lr_factor`` times the policy's learning rate is the head's, and ``epochs`` is how
    often it goes over the states of an update: they are at hand, and one step, small enough not to overshoot, is seldom
    enough. ``clip``: the PPO form, ``½ max((V − G)², (V_old + clamp(V − V_old, ±clip) − G)²)``
    (https://arxiv.org/abs/1707.06347 and its implementations); None is plain. ``warmup``: so many first updates teach
    the head alone and leave the policy as it is, because advantages from a critic that knows nothing are noise (value
    pretraining, VAPO, https://arxiv.org/abs/2504.05118). AdamW divides by the gradient's scale, so ``coef`` matters for
    a shared trunk only.

    Learning rate and epochs are not from one paper: PPO for language models often gives critics ten times the actor's
    rate and a model of their own.
    """

    shared: bool = False
    lr_factor: float = 1.0
    epochs: int = 1
    coef: float = 1.0
    clip: float | None = None
    warmup: int = 0


def measured_for(loss: Loss, batch: Batch, learner: Learner, reference: Learner | None) -> dict[str, FloatArray]:
    """The columns that ``loss`` needs, by today's weights: ask for them before the first update of a step.

    ``reference`` holds the frozen model; it has the sampler's temperature and truncates nothing, so that the divergence
    to it stays finite. Raises ConfigError if the loss needs one and there is none.
    """
    needs, columns = needs_of(loss), dict[str, FloatArray]()
    if needs.proximal:
        columns["proximal_L"] = learner.logprobs(batch)
    if needs.reference:
        if reference is None:
            raise ConfigError(
                "the loss needs a reference model, and there is none; leave out the KL penalty or give one"
            )
        columns["reference_L"] = reference.logprobs(batch)
    return columns


# --- parts ------------------------------------------------------------------------------------------------------------


class LearnerPart(Part):
    """How weights are updated: opens a ``Learner`` on a model. A subclass writes ``open``."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "learner"
    fallback: ClassVar[str] = "torch"
    lr: float = Field(1e-5, gt=0)
    """Learning rate of reinforcement learning."""
    tolerance: float = Field(1e-4, gt=0)
    """Largest difference, in nats, between the sampler's and the learner's log-probability of a token; a larger one
    stops the run, because they then hold different models. Raise it where one of them computes in bfloat16."""
    max_kl: float = Field(MAX_KL, gt=0)
    """Furthest that the updates of one step may move the policy: KL divergence in nats per token, measured on some
    episodes of the step. More stops the run: learner.lr is then far too high, and what was learned is lost."""
    dtype: Precision = "auto"
    """Precision of the forward pass; auto: bfloat16 on an accelerator that has it, else float32. Weights are kept,
    updated and saved in float32, whatever the model's folder holds."""

    @abstractmethod
    def open(
        self, model: LanguageModel, *, sampling: Sampling = PLAIN, critic: Critic | None = None, lr: float | None = None
    ) -> Learner:
        """A learner that updates ``model`` in place.

        ``sampling`` is the sampler's: log-probabilities are those of the distribution that it draws from. ``critic``
        adds a value head. ``lr`` replaces the learning rate of reinforcement learning.
        """


class TorchLearnerPart(LearnerPart):
    """AdamW on a transformers model in this process, on a CPU or one GPU."""

    type: Literal["torch"] = "torch"
    weight_decay: float = Field(0.0, ge=0)
    """Decoupled weight decay; at each step, weights shrink by this times the learning rate."""
    clip_norm: float = Field(1.0, gt=0)
    """Gradients with a larger norm are scaled down to it."""
    tokens_per_pass: int = Field(16384, ge=1)
    """Most tokens, with padding, of one forward pass; changes memory and speed, not the result."""

    def open(
        self, model: LanguageModel, *, sampling: Sampling = PLAIN, critic: Critic | None = None, lr: float | None = None
    ) -> Learner:
        """A ``TorchLearner``."""
        learner: Learner = torch_learner.TorchLearner(
            model,
            lr=self.lr if lr is None else lr,
            weight_decay=self.weight_decay,
            clip_norm=self.clip_norm,
            tokens_per_pass=self.tokens_per_pass,
            sampling=sampling,
            critic=critic,
            dtype=self.dtype,
        )
        return learner
