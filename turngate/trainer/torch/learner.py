"""``TorchLearner``: the learner that runs in this process. It knows tokens, weights and a loss, and no episodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from turngate.agents.policies.forward import cast
from turngate.agents.protocols import LanguageModel, Precision
from turngate.errors import ConfigError, StoreError
from turngate.trainer.learner import NOTHING, Critic, Lora, Measured, OptimizerName, TokensPerPass, tokens_of_a_pass
from turngate.trainer.loss.tokens import Loss, Memory, Surveyed, Tokens, gather, needs_of
from turngate.trainer.torch.critic import ValueHead, ValueTargets
from turngate.trainer.torch.lora import TrainedAdapters, WithoutAdapters
from turngate.trainer.torch.optimizers import optimizer_of
from turngate.trainer.torch.out_of_memory import naming_settings
from turngate.trainer.torch.packing import Packing
from turngate.trainer.torch.passes import Pass, Passes
from turngate.trainer.torch.recomputing import recompute_activations
from turngate.trainer.torch.shards import read_state, write_state
from turngate.trainer.torch.skips import Skips
from turngate.trainer.torch.trained_weights import TrainedWeights
from turngate.types import PLAIN, Batch, BoolArray, FloatArray, Metrics, Sampling


class TorchLearner:
    """AdamW on a transformers causal language model.

    ``sampling`` holds the sampler's settings: log-probabilities are taken under the distribution that it samples from
    (see ``truncated_log_softmax``). A token that top-p or top-k now cuts off has ratio 0 and no gradient; it gets
    weight 0 but still counts in the normalisation. ``policy/outside_support_share`` is the share of such tokens.
    Cross-entropy always uses the distribution without top-p and top-k. A model's dropout is off, in training too:
    sampler and reference have none, and a model with some of its states left out is another distribution.

    A pass holds whole segments, never a part of one, so that losses may sum over turns and trajectories. Weights are
    kept and updated in float32, whatever their precision was (``model`` is cast in place), because in bfloat16 an
    update of 1e-5 would be lost to rounding for most of them. ``dtype`` is the precision of the forward pass alone.

    ``lora``: adapters are trained instead of the weights; see ``lora.py``. ``checkpoint_activations``, ``optimizer``
    and ``offload`` need less memory; see ``recomputing.py`` and ``optimizers.py``.

    ``critic`` adds a value head. It is not among ``weights()``, because the sampler does not need it. Its gradient is
    clipped separately, so that a large error of the critic does not make the policy's update smaller.
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        lr: float,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.95),
        clip_norm: float = 1.0,
        tokens_per_pass: TokensPerPass = "auto",
        sampling: Sampling = PLAIN,
        critic: Critic | None = None,
        dtype: Precision = "auto",
        packing: Packing = "auto",
        lora: Lora | None = None,
        checkpoint_activations: bool = False,
        optimizer: OptimizerName = "adamw",
        offload: bool = False,
    ) -> None:
        self.model = model
        cast(model, torch.float32)
        self._trained = TrainedWeights(model) if lora is None else TrainedAdapters(model, lora)
        model.eval()
        if checkpoint_activations:
            recompute_activations(model)
        self._passes_for = partial(Passes, model, tokens_per_pass=tokens_per_pass, dtype=dtype, packing=packing)
        self._passes = self._passes_for(sampling=sampling)
        self._parameters = self._trained.parameters
        self._device = self._parameters[0].device
        self._skips = Skips()
        self._lr, self._clip_norm = lr, clip_norm
        self._memory: Memory = {}
        self._critic, self._n_updates = critic, 0
        self._targets: list[ValueTargets] = []  # what the head is trained on before the next optim_step
        self._held: list[list[torch.Tensor | None]] = []  # gradients that were set aside
        width = self._passes.head.weight.shape[1]
        self._value_head = None if critic is None else ValueHead(width).to(self._device)
        groups: list[dict[str, Any]] = [{"params": self._parameters, "weight_decay": weight_decay}]
        if self._value_head is not None:  # decay would pull values to 0
            groups.append({"params": list(self._value_head.parameters()), "weight_decay": 0.0})
        self._optimizer = optimizer_of(optimizer, groups, lr=lr, betas=betas, offload=offload)
        self._advice = _leaner(
            tokens_of_a_pass(tokens_per_pass, self._device.type), lora, optimizer, checkpoint=checkpoint_activations
        )

    # --- training -----------------------------------------------------------------------------------------------------

    def forward_backward(self, batch: Batch, loss: Loss, *, measured: Measured = NOTHING) -> Metrics:
        """Add the gradient of ``loss`` over ``batch`` to the accumulated one; returns metrics, which are sums over
        passes.

        A loss that needs a survey sees the whole batch first, in a forward pass of its own. While a critic warms up,
        only its loss is trained. A loss that is not finite has no gradient, and the next ``optim_step`` is skipped.
        Raises ShapeError for a column that ``loss`` needs and that is not in ``measured``, ConfigError for returns
        without a critic, OutOfMemory.
        """
        metrics: Metrics = {}
        with naming_settings(self._advice):
            if self._warms_up:
                batch = replace(batch, policy_weight_L=np.zeros_like(batch.policy_weight_L))
                for one in self._passes.over(batch, None, measured):
                    self._descend(*self._value_part(one, measured), metrics)
                return metrics
            fixed, memory = self._survey(batch, loss, measured)
            for one in self._passes.over(batch, loss, measured):
                value, parts = self._policy_part(one, fixed)
                added, more = self._value_part(one, measured)
                if one.outside is not None:
                    parts = parts | {"policy/outside_support_share": one.outside}
                self._descend(value + added, parts | more, metrics)
        if not self._skips.problem:
            self._memory = memory
        return metrics

    def token_gradient(self, batch: Batch, loss: Loss, *, measured: Measured = NOTHING) -> FloatArray:
        """∂loss/∂log π of each token: float32[L], 0 where nothing is trained. Changes neither the accumulated gradient
        nor the memory. With top-p or top-k it is the sum of the slopes by log π cut and by log π whole, which a KL
        penalty reads."""
        result = np.zeros(batch.n_tokens, np.float32)
        fixed, _ = self._survey(batch, loss, measured)
        for one in self._passes.over(batch, loss, measured):
            columns = {"logprob": one.tokens.logprob, "plain_logprob": one.tokens.plain_logprob}
            leaves = {name: kept.detach().requires_grad_() for name, kept in columns.items() if kept is not None}
            cut, whole = leaves["logprob"], leaves.get("plain_logprob")
            value, _ = fixed(replace(one.tokens, logprob=cut, plain_logprob=whole))
            for slope in torch.autograd.grad(value, list(leaves.values()), allow_unused=True):
                result[one.rows.flat] += 0 if slope is None else slope.float().cpu().numpy()
        return result

    def gradient_norm(self, batch: Batch, coefficient_L: FloatArray) -> float:
        """‖Σ_l coefficient_l·∇log π(token l)‖ over all parameters. Leaves the accumulated gradient as it is."""
        total = [torch.zeros_like(parameter) for parameter in self._parameters]
        zeros = np.zeros_like(coefficient_L)
        wanted = replace(batch, policy_weight_L=coefficient_L, ce_weight_L=zeros, logprob_L=zeros)
        for one in self._passes.over(wanted, None, NOTHING):
            value = (one.tokens.policy_weight * one.tokens.logprob).sum()
            found = torch.autograd.grad(value, self._parameters, allow_unused=True)
            total = [part if more is None else part + more for part, more in zip(total, found, strict=True)]
        return float(torch.stack([part.norm() for part in total]).norm())

    def hold_gradient(self) -> float:
        """Set the accumulated gradient aside and return its norm; the next ``optim_step`` adds it back."""
        found = [parameter.grad for parameter in self._parameters]
        if not any(one is not None for one in found):
            return 0.0
        self._held.append(found)
        for parameter in self._parameters:
            parameter.grad = None
        return self._norm([one for one in found if one is not None])

    def _norm(self, tensors: Sequence[torch.Tensor]) -> float:
        """The norm of all tensors together."""
        return float(torch.stack([one.norm() for one in tensors]).norm())

    def _release(self) -> None:
        """Add the gradients that were set aside to the accumulated one."""
        held, self._held = self._held, []
        for gradients in held:
            for parameter, gradient in zip(self._parameters, gradients, strict=True):
                if gradient is not None:
                    parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient

    def optim_step(self, *, lr_scale: float = 1.0) -> Metrics:
        """Clip the accumulated gradient, take one step of the optimizer at ``lr · lr_scale`` and reset the gradient.

        Where a loss or a norm is not finite, nothing is updated. Raises NotFiniteError for the third such update in a
        row, OutOfMemory.
        """
        self._release()
        metrics = {"learner/grad_norm": self._clipped(self._parameters, "gradient norm")}
        metrics["learner/lr"] = self._lr * lr_scale
        policy_group, *value_group = self._optimizer.param_groups
        policy_group["lr"] = self._lr * lr_scale
        if self._critic is not None and self._value_head is not None:
            value_group[0]["lr"] = self._lr * lr_scale * self._critic.lr_factor
            metrics["value/grad_norm"] = self._clipped(self._value_head.parameters(), "gradient norm of the critic")
        skipped = self._skips.skips()
        if skipped:
            self._targets = []
        else:
            with naming_settings(self._advice):
                self._optimizer.step()
            self._n_updates += 1
        self._optimizer.zero_grad(set_to_none=True)
        self._further_epochs()
        return metrics | {"learner/skipped_updates": float(skipped)}

    def weights(self) -> Mapping[str, torch.Tensor]:
        """The model's weights by name, without a copy: the next update changes them. Adapters are added to them."""
        return self._trained.published()

    def without_adapters(self, sampling: Sampling) -> WithoutAdapters:
        """Measures the model that adapters are trained for, under the distribution ``sampling``, in the same memory."""
        return WithoutAdapters(self.model, self._passes_for(sampling=sampling))

    def logprobs(self, batch: Batch, *, whole: bool = False) -> FloatArray:
        """The model's log-probability of every policy token, float32[L]; 0 elsewhere, −inf where top-p or top-k cuts
        the token off. An expert's tokens are never cut.

        ``whole``: of the distribution without top-p and top-k, so it is never −inf. An expert's tokens always are,
        because top-p and top-k did not bind the expert.
        """
        with naming_settings(self._advice):
            return self._passes.logprobs(batch, whole=whole)

    def entropies(self, batch: Batch) -> FloatArray:
        """Entropy, in nats, of the sampler's distribution at each policy token, in the context of the batch,
        float32[L]; 0 elsewhere."""
        with naming_settings(self._advice):
            return self._passes.entropies(batch)

    def values(self, batch: Batch, wanted_L: BoolArray) -> FloatArray:
        """The critic's value of the state after each wanted token, float32[L]; 0 elsewhere.

        Raises ConfigError for a learner without a critic.
        """
        _, head = self._need_critic()
        with naming_settings(self._advice):
            return self._passes.states(batch, wanted_L, head)

    def save(self, path: Path) -> None:
        """Write the trained weights, the optimizer state, the critic and the memory of losses (see ``shards``)."""
        write_state(self._state(), path)

    def _state(self) -> dict[str, object]:
        state = self._trained.state() | {"optimizer": self._optimizer.state_dict(), "memory": dict(self._memory)}
        state["skipped_in_a_row"] = self._skips.in_a_row
        if self._value_head is not None:
            state["critic"] = {"head": self._value_head.state_dict(), "n_updates": self._n_updates}
        return state

    def _read(self, path: Path) -> Mapping[str, object]:
        return read_state(path, self._device)

    def load(self, path: Path) -> None:
        """Read what ``save`` wrote, whatever number of processes wrote it. Raises StoreError for the state of another
        model."""
        state: Any = self._read(path)
        refuse_other_critic(path, state, critic=self._value_head is not None)
        self._trained.load(state, path)
        if self._value_head is not None:
            self._value_head.load_state_dict(state["critic"]["head"])
            self._n_updates = state["critic"]["n_updates"]
        self._optimizer.load_state_dict(state["optimizer"])
        self._targets = []
        self._memory = state["memory"]
        self._skips.in_a_row = state["skipped_in_a_row"]

    # --- loss ---------------------------------------------------------------------------------------------------------

    def _survey(self, batch: Batch, loss: Loss, measured: Measured) -> tuple[Loss, Memory]:
        """``loss`` with everything fixed that depends on the whole batch, and what it asks to be remembered."""
        if not needs_of(loss).survey or not isinstance(loss, Surveyed):
            return loss, self._memory
        with torch.no_grad():
            parts = self._surveyed([one.tokens for one in self._passes.over(batch, loss, measured)])
        return loss.survey(gather(parts), self._memory) if parts else (loss, self._memory)

    def _surveyed(self, parts: list[Tokens]) -> list[Tokens]:
        """The tokens of the whole batch, of which these passes are all that this process computed."""
        return parts

    def _policy_part(self, one: Pass, fixed: Loss) -> tuple[torch.Tensor, Metrics]:
        """The loss of one pass without the critic's part."""
        return fixed(one.tokens)

    def _descend(self, value: torch.Tensor, parts: Metrics, metrics: Metrics) -> None:
        """Add the gradient of one pass, unless its loss is not finite, and its metrics to ``metrics``."""
        if self._skips.note("loss", value.item()) and value.requires_grad:
            value.backward()  # type: ignore[no-untyped-call]
        for name, part in parts.items():
            metrics[name] = metrics.get(name, 0.0) + part

    def _clipped(self, parameters: Iterable[torch.nn.Parameter], what: str) -> float:
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, self._clip_norm))
        self._skips.note(what, norm)
        return norm

    # --- critic -------------------------------------------------------------------------------------------------------

    @property
    def _warms_up(self) -> bool:
        return self._critic is not None and self._n_updates < self._critic.warmup

    def _need_critic(self) -> tuple[Critic, ValueHead]:
        if self._critic is None or self._value_head is None:
            raise ConfigError(
                "returns are to be learned or values computed, but this learner has no critic; open it with one"
            )
        return self._critic, self._value_head

    def _value_part(self, one: Pass, measured: Measured) -> tuple[torch.Tensor, Metrics]:
        """The critic's part of the loss of one pass."""
        if one.states is None:
            return torch.zeros((), device=self._device), {}
        critic, head = self._need_critic()

        def column(name: str) -> torch.Tensor:
            return torch.as_tensor(measured[name][one.rows.valued_flat], device=self._device)

        through = critic.shared and not self._warms_up
        targets = ValueTargets(
            states=one.states if through else one.states.detach(),
            target=column("return_L"),
            weight=column("value_weight_L"),
            old=column("old_value_L"),
        )
        self._targets.append(replace(targets, states=targets.states.detach()))
        loss = targets.loss(head, clip=critic.clip)
        return critic.coef * loss, {"value/loss": loss.item()}

    def _further_epochs(self) -> None:
        """Train the head for its remaining epochs on the states of this update."""
        learned, self._targets = self._targets, []
        if not learned:
            return
        critic, head = self._need_critic()
        for _ in range(critic.epochs - 1):
            for targets in learned:
                self._descend(critic.coef * targets.loss(head, clip=critic.clip), {}, {})
            self._clipped(head.parameters(), "gradient norm of the critic")
            if not self._skips.problem:  # else the next update is skipped, too, and counted
                self._optimizer.step()
            self._optimizer.zero_grad(set_to_none=True)


def _leaner(tokens: int, lora: Lora | None, optimizer: OptimizerName, *, checkpoint: bool) -> list[str]:
    """What the user can set to need less memory."""
    fewer = f"lower learner.tokens_per_pass, which is {tokens}"
    others = {
        "set learner.checkpoint_activations = true": not checkpoint,
        "train adapters with learner.lora = {}": lora is None,
        'set learner.optimizer = "adamw_8bit"': optimizer == "adamw",
    }
    return [fewer, *(advice for advice, helps in others.items() if helps)]


def refuse_other_critic(path: Path, state: Mapping[str, object], *, critic: bool) -> None:
    """Raise StoreError for a state with a critic where there is none, or the other way round."""
    if (state.get("critic") is not None) != critic:
        saved_with, has = ("without", "one") if critic else ("with", "none")
        raise StoreError(f"'{path}' was saved {saved_with} a critic, this learner has {has}")
