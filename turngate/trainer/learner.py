"""``Learner``: the interface to an object that holds and updates the weights, and the parts that open one. No torch.

A learner knows tokens, weights and a loss, and nothing about episodes. So one in another process or on another machine
can implement the same interface; ``turngate.trainer.torch`` has the one that runs in this process.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from turngate.agents.policies.base import Weights
from turngate.agents.protocols import LanguageModel, Precision
from turngate.envs.pool.cluster_parts import ClusterPart
from turngate.errors import ConfigError
from turngate.parts import Part, when_used
from turngate.trainer.loss.tokens import Loss, needs_of
from turngate.trainer.torch.place import COMMAND, place
from turngate.types import PLAIN, Batch, BoolArray, FloatArray, Metrics, Sampling

if TYPE_CHECKING:
    from turngate.config import Config

frozen = when_used("turngate.trainer.torch.frozen")
fsdp = when_used("turngate.trainer.torch.fsdp")
fsdp_functions = when_used("turngate.trainer.torch.fsdp_functions")
ray_ranks = when_used("turngate.trainer.torch.ray_ranks")
team = when_used("turngate.trainer.torch.team")
torchrun_ranks = when_used("turngate.trainer.torch.torchrun_ranks")
torch_learner = when_used("turngate.trainer.torch.learner")  # which holds to this protocol, and so imports it
torch_lora = when_used("turngate.trainer.torch.lora")

Measured: TypeAlias = Mapping[str, FloatArray]
NOTHING: Measured = {}
OptimizerName: TypeAlias = Literal["adamw", "adamw_8bit"]
TokensPerPass: TypeAlias = Annotated[int, Field(ge=1)] | Literal["auto"]
"""Most tokens of one forward pass, padding included; auto: a number for the kind of device."""
PER_PASS = {"cpu": 4096}
"""The value of "auto" on a device. Rows of one pass are padded to the longest of them: with 16,384 tokens 35 % of what
the SQL demo computes is padding, with 4,096 it is 12 %, and the matrices are still large enough to keep a CPU busy."""
PER_PASS_ELSEWHERE = 16_384
"""The same on accelerators, which need larger matrices."""
LOGITS = {"cpu": 2**24}
"""Most logits that exist at once, by device; fewer are computed as one matrix, which the backward pass reads again."""
LOGITS_ELSEWHERE = 2**27
"""The same on accelerators, for which 2^24 logits, 110 tokens of a vocabulary of 152,000, are a small matrix."""
NO_CRITIC = "trains no critic; choose a credit rule without one"
TOLERANCES = {"float32": 1e-4, "bfloat16": 1.0}
"""Default of ``learner.tolerance``, in nats, by the coarser precision of sampler and learner. In bfloat16 the sampler's
weights and states are rounded and the learner's are not; with one and the same model, random and real ones, single
tokens differed by up to 0.7."""
MAX_KL = 2.0
"""Default of ``learner.max_kl``, in nats per token. For scale: PPO stops an update at 0.01 to 0.05, and a policy that
forgot everything has moved by more than 5 (a uniform one has the logarithm of the vocabulary)."""


ADAPTER_LR = 2e-4
"""Default of ``learner.lr`` with adapters. A model of 135 million weights learned with it (docs/real_models.md); ten
times the rate of all weights is usual (https://thinkingmachines.ai/blog/lora)."""


PRETRAINED_LR = 2e-5
"""Default of ``warm_start.lr`` for all weights of a pretrained model, as TRL's trainer has it."""
NEW_MODEL_LR = 1e-3
"""The same for a new model."""


class Measuring(Protocol):
    """Measures tokens under a model, such as the frozen one that a policy is kept close to."""

    def logprobs(self, batch: Batch, *, whole: bool = False) -> FloatArray:
        """Log-probability of every policy token, float32[L], under the distribution that the loss uses: the sampler's;
        for an expert's tokens, and with ``whole`` for all, without top-p and top-k."""
        ...

    def entropies(self, batch: Batch) -> FloatArray:
        """Entropy, in nats, of the sampler's distribution at each policy token, in the context of the batch,
        float32[L]."""
        ...


class Learner(Measuring, Protocol):
    """Updates the weights: four methods to train and save, and three that measure a batch (two of ``Measuring``)."""

    def forward_backward(self, batch: Batch, loss: Loss, *, measured: Measured = NOTHING) -> Metrics:
        """Add the gradient of ``loss`` over ``batch`` to the accumulated one, and return metrics.

        ``measured`` holds columns that only some losses need (``needs_of``), with one entry per token: ``proximal_L``,
        the learner's own ``logprobs`` before the first update of the step, and ``reference_L``, those of a frozen
        model. A critic learns from ``return_L``, ``value_weight_L`` (0 = no target here) and ``old_value_L``, each
        about the state after a token.
        """
        ...

    def hold_gradient(self) -> float:
        """Set the accumulated gradient of the policy's weights aside until the next ``optim_step``, and return its
        norm. Gradients that are accumulated afterwards have a norm of their own; that step takes the sum of all."""
        ...

    def optim_step(self, *, lr_scale: float = 1.0) -> Metrics:
        """Update the weights with the accumulated gradient, reset it to 0, and return metrics.

        If a loss or the gradient is not finite nothing is updated. Raises NotFiniteError for several such updates in a
        row.
        """
        ...

    def weights(self) -> Weights:
        """The parameters by name, as ``Policy.publish`` takes them. Save and copy these, not the model that the
        learner was opened with: it may keep them elsewhere, and leave that model without any."""
        ...

    def values(self, batch: Batch, wanted_L: BoolArray) -> FloatArray:
        """The critic's value of the state after each wanted token, float32[L]; 0 elsewhere."""
        ...

    def save(self, path: Path) -> None:
        """Write everything that training needs to continue."""
        ...

    def load(self, path: Path) -> None:
        """Read what ``save`` wrote."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Critic:
    """How a critic is trained. These defaults are the plainest form; the section ``value`` of a config has tuned ones.

    * ``shared``: the critic's loss, times ``coef``, also trains the model below the head; else only the head learns.
      AdamW divides by the gradient's scale, so ``coef`` matters only if this is true.
    * ``lr_factor``: the head's learning rate, as a multiple of the policy's.
    * ``epochs``: how often the head goes over the states of an update. The states are computed once, so this is cheap,
      and one step that is small enough not to overshoot is seldom enough.
    * ``clip``: the clipped form ``½ max((V − G)², (V_old + clamp(V − V_old, ±clip) − G)²)`` of PPO
      (https://arxiv.org/abs/1707.06347 and its implementations); None is ``½ (V − G)²``.
    * ``warmup``: number of updates at the start that train the head alone and leave the policy as it is, because
      advantages from an untrained critic are noise (value pretraining, VAPO, https://arxiv.org/abs/2504.05118).

    Learning rate and epochs are not from one paper: PPO for language models often gives critics ten times the actor's
    rate and a model of their own.
    """

    shared: bool = False
    lr_factor: float = 1.0
    epochs: int = 1
    coef: float = 1.0
    clip: float | None = None
    warmup: int = 0


def tokens_of_a_pass(setting: TokensPerPass, device: str) -> int:
    """What ``learner.tokens_per_pass`` means on a kind of device, such as "cpu"."""
    return PER_PASS.get(device, PER_PASS_ELSEWHERE) if setting == "auto" else setting


def logits_at_once(device: str) -> int:
    """Most logits that exist at once on a kind of device, such as "cuda"."""
    return LOGITS.get(device, LOGITS_ELSEWHERE)


def measured_for(loss: Loss, batch: Batch, learner: Learner, reference: Measuring | None) -> dict[str, FloatArray]:
    """The columns that ``loss`` needs, measured with the weights as they are: call it before a step's first update.

    ``reference`` holds the frozen model. It is measured as ``Tokens.whole_logprob`` is: at the sampler's temperature,
    without top-p and top-k. Raises ConfigError if the loss needs a reference and there is none.
    """
    needs, columns = needs_of(loss), dict[str, FloatArray]()
    if needs.proximal:
        columns["proximal_L"] = learner.logprobs(batch)
    if needs.reference:
        if reference is None:
            raise ConfigError(
                "the loss needs a reference model, and there is none; pass one, or leave out the KL penalty"
            )
        columns["reference_L"] = reference.logprobs(batch, whole=True)
    return columns


# --- parts ------------------------------------------------------------------------------------------------------------


class Lora(BaseModel):
    """LoRA: instead of the weights themselves, two thin matrices beside each linear layer are trained and saved. That
    needs a fraction of the memory; the learning rate is usually ten times that of full training."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    rank: int = Field(16, ge=1)
    """Rank of the learned change of a layer; raise it if learning stalls below what full training reaches."""
    alpha: float = Field(32.0, gt=0)
    """Scale of the change: alpha / rank times the product of the two matrices is added to the layer."""
    targets: Literal["all-linear"] | Annotated[tuple[str, ...], Field(min_length=1)] = "all-linear"
    """Which layers have adapters: all linear ones but the head, or a list of names such as ["q_proj", "v_proj"]."""


class LearnerPart(Part):
    """How weights are updated. A subclass writes ``open``, which returns a ``Learner`` for a model."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "learner"
    fallback: ClassVar[str] = "torch"
    has_critic: ClassVar[bool] = True
    """Whether it can train a value head."""
    has_processes: ClassVar[bool] = False
    """Whether it computes in processes of its own, which a cluster can place."""
    lr: float = Field(1e-5, gt=0)
    """Learning rate of reinforcement learning; lower it if a run stops because learner.max_kl was exceeded. Left out
    where adapters are trained (learner.lora): 2e-4."""
    tolerance: float | None = Field(None, gt=0)
    """Largest difference, in nats, between the sampler's and the learner's log-probability of a token; a larger one
    stops the run, because they then hold different models. So does a mean over all tokens but the worst that is above
    0.1 (above a tenth of a tolerance larger than 1). Left out: 1e-4 where both compute in float32, 1 where one of them
    computes in bfloat16. Raise it if the message of a stop says that they may differ by rounding only."""
    max_kl: float = Field(MAX_KL, gt=0)
    """Largest KL divergence by which the updates of one step may move the policy, in nats per token, measured on some
    episodes of the step. A larger one stops the run: learner.lr is then far too high, and what was learned is lost."""
    dtype: Precision = "auto"
    """Precision of the forward pass; auto: bfloat16 on an accelerator that supports it, else float32. Weights are
    always kept, updated and saved in float32."""

    @contextmanager
    def started(self, *, jobs: int = 1, cluster: ClusterPart | None = None) -> Iterator[bool]:
        """Enter the block around a run: true in the process that is to work on it. False: this process was started to
        help the learner of that one, and has finished. ``cluster``: where processes of the learner may be placed.

        Raises ConfigError if ``torchrun`` started several processes, and this learner needs one.
        """
        here = place()
        if here is not None and here.size > 1:
            raise ConfigError(
                f'torchrun started {here.size} processes, and learner.type "{self.type}" computes in one; set '
                'learner.type = "fsdp", or start turngate train CONFIG without torchrun'
            )
        yield True

    @abstractmethod
    def open(
        self, model: LanguageModel, *, sampling: Sampling = PLAIN, critic: Critic | None = None, lr: float | None = None
    ) -> Learner:
        """A learner that updates ``model``, in place or in parts that it takes out of it.

        ``sampling`` holds the sampler's settings, because log-probabilities are taken under the distribution that it
        samples from. ``critic`` adds a value head. ``lr`` replaces the setting ``lr``.
        """

    def imitating(self, model: LanguageModel, *, lr: float, adapters: bool) -> Learner:
        """The learner of a warm start, which trains ``model`` in place: with ``adapters`` those that the settings name,
        else every weight."""
        return self.open(model, lr=lr)

    def measuring(self, model: LanguageModel, *, sampling: Sampling) -> Measuring:
        """A ``Measuring`` of ``model``, which is never updated."""
        return self.open(model, sampling=sampling)

    def measuring_start(self, learner: Learner, model: LanguageModel, *, sampling: Sampling) -> Measuring:
        """A ``Measuring`` of ``model`` with its present weights, while ``learner``, which was opened on it, trains it.
        Call it before the first update."""
        return self.measuring(copy.deepcopy(model), sampling=sampling)

    def write_adapter(self, learner: Learner, folder: Path, *, base: str) -> None:
        """Write the adapters that ``learner`` trained on the model named ``base``; without adapters, nothing."""


class TorchLearnerPart(LearnerPart):
    """AdamW on a transformers model in this process, on a CPU or one GPU."""

    type: Literal["torch"] = "torch"
    weight_decay: float = Field(0.0, ge=0)
    """Decoupled weight decay; at each step, weights shrink by this times the learning rate."""
    clip_norm: float = Field(1.0, gt=0)
    """Largest norm of a gradient; a larger one is scaled down to it."""
    tokens_per_pass: TokensPerPass = "auto"
    """Most tokens, padding included, of one forward pass; auto: 4,096 on a CPU, 16,384 on an accelerator. Lower it if
    memory runs out. It does not change the result."""
    packing: Literal["auto", "rows", "tree"] = "auto"
    """How segments go through the model: as padded rows, or as trees in which a prefix that several share is computed
    once. Auto: as trees where that costs less. It does not change the result."""
    checkpoint_activations: bool = False
    """Gradient checkpointing: compute the activations of each layer twice instead of keeping them; for long contexts
    that run out of memory. It costs about a third more time and does not change the result."""
    optimizer: OptimizerName = "adamw"
    """AdamW with float32 moments (8 bytes per trained weight), or with moments of eight bits (2 bytes)."""
    offload: bool = False
    """Keep the optimizer's state in CPU memory and make its updates there; for a model on a GPU that has no room."""
    lora: Lora | None = None
    """Left out: every weight is trained. A warm start trains every weight of a new model, and adapters of a pretrained
    one, which are added to its weights; training has adapters of its own. The sampler gets the model with the adapters
    added, and so does RUN/model."""

    @model_validator(mode="before")
    @classmethod
    def _rate_of_adapters(cls, data: Any) -> Any:
        adapted = isinstance(data, Mapping) and data.get("lora") is not None
        return {"lr": ADAPTER_LR, **data} if adapted else data

    def open(
        self, model: LanguageModel, *, sampling: Sampling = PLAIN, critic: Critic | None = None, lr: float | None = None
    ) -> Learner:
        """A ``TorchLearner``. Raises ConfigError for ``offload`` of a model that is in CPU memory."""
        if self.offload and model.get_output_embeddings().weight.device.type == "cpu":
            raise ConfigError(
                "learner.offload has no effect: the model is in CPU memory, and so is the optimizer's state; leave it "
                "out"
            )
        settings = self.settings()
        for name in ("tolerance", "max_kl", "lr"):
            del settings[name]
        learner: Learner = torch_learner.TorchLearner(
            model, lr=self.lr if lr is None else lr, sampling=sampling, critic=critic, **settings
        )
        return learner

    def imitating(self, model: LanguageModel, *, lr: float, adapters: bool) -> Learner:
        """A ``TorchLearner``. Raises ConfigError for adapters that do not fit the model, now or later."""
        if self.lora is not None:
            torch_lora.check_targets(model, self.lora)
        part = self if adapters else self.model_copy(update={"lora": None})
        return part.open(model, lr=lr)

    def measuring(self, model: LanguageModel, *, sampling: Sampling) -> Measuring:
        """A ``TorchLearner`` without anything that training alone needs."""
        bare = {"lora": None, "optimizer": "adamw", "offload": False, "checkpoint_activations": False}
        return self.model_copy(update=bare).open(model, sampling=sampling)

    def measuring_start(self, learner: Learner, model: LanguageModel, *, sampling: Sampling) -> Measuring:
        """With adapters, the same model without them; else a copy."""
        if self.lora is None:
            return super().measuring_start(learner, model, sampling=sampling)
        base: Measuring = learner.without_adapters(sampling)  # type: ignore[attr-defined]
        return base

    def write_adapter(self, learner: Learner, folder: Path, *, base: str) -> None:
        """See ``LearnerPart``; ``peft`` and inference engines read them."""
        if self.lora is not None:
            torch_lora.write_adapter(learner.model, folder, base=base)  # type: ignore[attr-defined]


class FsdpLearnerPart(LearnerPart):
    """AdamW in several processes, one per GPU, that torchrun starts, or Ray with [cluster]: they divide weights,
    optimizer state and each batch among them (FSDP2). Updates are those of type torch, to rounding."""

    type: Literal["fsdp"] = "fsdp"
    has_processes = True
    weight_decay: float = Field(0.0, ge=0)
    """Decoupled weight decay; at each step, weights shrink by this times the learning rate."""
    clip_norm: float = Field(1.0, gt=0)
    """Largest norm of a gradient; a larger one is scaled down to it."""
    tokens_per_pass: TokensPerPass = "auto"
    """Most tokens, padding included, of one forward pass in each process; lower it if memory runs out. It does not
    change the result."""
    packing: Literal["auto", "rows", "tree"] = "auto"
    """How segments go through the model: as padded rows, or as trees in which a prefix that several share is computed
    once. Auto: as trees where that costs less. It does not change the result."""
    timeout_s: float = Field(600.0, gt=0)
    """Longest time, in seconds, that the processes wait for each other within one computation or checkpoint; after it
    the run stops. Raise it if single passes, or writing a part of a checkpoint, take so long."""

    def check_config(self, config: Config) -> None:
        """Raise ConfigError for a reference that would have to be replaced by weights that no process has whole."""
        if config.train.reset_reference is not None:
            raise ConfigError(
                'train.reset_reference does not go with learner.type "fsdp", which keeps weights in parts; leave it out'
            )

    @contextmanager
    def started(self, *, jobs: int = 1, cluster: ClusterPart | None = None) -> Iterator[bool]:
        """True in the process of the run, while the others compute for it. Raises ConfigError where neither
        ``torchrun`` nor a cluster starts them, or both do, for ``jobs``, and for a torch that is too old."""
        here = place()
        if here is None and cluster is None:
            raise ConfigError(
                f'learner.type "fsdp" computes in several processes; start them with {COMMAND}, or on a Ray cluster '
                "with --on ADDRESS"
            )
        if here is not None and cluster is not None:
            raise ConfigError(
                "torchrun started this process, and [cluster] places those of the learner too; leave out torchrun, or "
                "[cluster] and --on"
            )
        if jobs > 1:
            raise ConfigError(
                f'--jobs {jobs} does not go with learner.type "fsdp", whose processes make one run at a time'
            )
        fsdp_functions.check()
        if cluster is not None:
            with (
                cluster.connected(),
                cluster.learner(ray_ranks.RankProcess) as processes,
                ray_ranks.leading(processes, timeout_s=self.timeout_s),
            ):
                yield True
        elif here is not None and here.rank:
            torchrun_ranks.follow(here, timeout_s=self.timeout_s)
            yield False
        else:
            with torchrun_ranks.leading(here, timeout_s=self.timeout_s):
                yield True

    def open(
        self, model: LanguageModel, *, sampling: Sampling = PLAIN, critic: Critic | None = None, lr: float | None = None
    ) -> Learner:
        """An ``FsdpLearner`` in the process that leads others. Elsewhere, as in commands that look into a run, a
        ``TorchLearner`` with the same settings."""
        settings = {
            "lr": self.lr if lr is None else lr,
            "weight_decay": self.weight_decay,
            "clip_norm": self.clip_norm,
            "tokens_per_pass": self.tokens_per_pass,
            "sampling": sampling,
            "critic": critic,
            "dtype": self.dtype,
            "packing": self.packing,
        }
        leader = team.current()
        learner: Learner = (
            torch_learner.TorchLearner(model, **settings)
            if leader is None
            else fsdp.FsdpLearner(leader, model, **settings)
        )
        return learner

    def measuring_start(self, learner: Learner, model: LanguageModel, *, sampling: Sampling) -> Measuring:
        """See ``LearnerPart``; the copy is divided as the model is."""
        if team.current() is None:
            return super().measuring_start(learner, model, sampling=sampling)
        twin: LanguageModel = learner.twin()  # type: ignore[attr-defined]
        return self.measuring(twin, sampling=sampling)


class FrozenLearnerPart(LearnerPart):
    """No learning: the weights stay as they are, for a guide that learns without them, such as an experience
    memory."""

    type: Literal["frozen"] = "frozen"
    has_critic: ClassVar[bool] = False

    @model_validator(mode="after")
    def _learns_nothing(self) -> Self:
        for name in ("lr", "max_kl"):
            if getattr(self, name) != LearnerPart.model_fields[name].default:
                raise ValueError(
                    f'learner.{name} has no effect: learner.type = "frozen" makes no updates; leave it out'
                )
        return self

    def check_config(self, config: Config) -> None:
        """Raise ConfigError for settings of the run that only updates would give an effect."""
        kinds = [part.type for part in config.auxiliary]
        if config.train.ahead:
            raise ConfigError(
                'train.ahead has no effect: learner.type = "frozen" makes no updates to play beside; leave it out'
            )
        if config.episodes.reads:
            raise ConfigError(
                f'episodes.type = "{config.episodes.type}" has no effect: learner.type = "frozen" learns from no '
                "episode; leave it out"
            )
        if kinds:
            raise ConfigError(f"auxiliary loss '{kinds[0]}' has no effect: a learner of type 'frozen' makes no updates")
        if config.train.validation is not None:
            raise ConfigError(
                "train.validation has no effect: the frozen learner's weights stay as they are; leave it out"
            )

    def open(
        self, model: LanguageModel, *, sampling: Sampling = PLAIN, critic: Critic | None = None, lr: float | None = None
    ) -> Learner:
        """A ``FrozenLearner``; with a rate of its own, which a warm start has, one that learns.

        Raises ConfigError for a critic, which would have to learn.
        """
        if critic is not None:
            raise ConfigError(f'learner.type "frozen" {NO_CRITIC}')
        make = frozen.FrozenLearner if lr is None else torch_learner.TorchLearner
        learner: Learner = make(model, lr=self.lr if lr is None else lr, sampling=sampling, dtype=self.dtype)
        return learner
