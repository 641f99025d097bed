"""``TorchLearner``: four verbs over flat arrays. It knows tokens, weights and a loss, and nothing about episodes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch

from turngate.agents.policies.truncation import truncated_log_softmax
from turngate.errors import ConfigError, RunError, ShapeError, StoreError
from turngate.trainer.loss.entropy import entropy_of, nucleus_entropy
from turngate.trainer.loss.tokens import Loss, Needs, Surveyed, Tokens, gather, needs_of
from turngate.trainer.torch.critic import Critic, Lesson, ValueHead
from turngate.trainer.torch.rows import Rows, rows_of
from turngate.types import Batch, BoolArray, FloatArray, Metrics

log = logging.getLogger(__name__)

Measured: TypeAlias = Mapping[str, FloatArray]
NOTHING: Measured = {}


class Learner(Protocol):
    """The seam to whoever holds the weights."""

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

    def weights(self) -> Mapping[str, Any]:
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
class _Predicted:
    """What the forward pass says about the trained tokens: [S]; see ``Tokens``. −inf in ``logprob``: out of support."""

    logprob: torch.Tensor
    entropy: torch.Tensor
    plain_logprob: torch.Tensor | None
    nucleus_entropy: torch.Tensor | None
    candidate_logprob: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class _Pass:
    """One micro-batch after its forward pass. ``states``: [M, width], those after ``rows.valued_flat``."""

    rows: Rows
    tokens: Tokens
    states: torch.Tensor | None


class TorchLearner:
    """AdamW on a transformers causal language model.

    ``temperature``, ``top_p`` and ``top_k`` are the sampler's: log-probabilities are those of the distribution that was
    sampled from (see ``truncated_log_softmax``). A token that the policy would no longer sample at all has ratio 0 and
    no gradient, so it gets weight 0 and keeps its place in the normalisation; ``policy/outside_support_share`` counts
    such tokens. Cross-entropy always means the distribution without top-p and top-k.

    A pass holds whole segments, never a part of one, so that losses may sum over turns and trajectories. Weights are
    kept and updated in the model's dtype; on hardware with bf16 the forward pass runs in bf16 (``autocast``).

    ``critic`` adds a value head, which is no part of ``weights()``: nobody samples from it. Its gradient is clipped on
    its own, so that a critic that errs does not shorten the policy's step.
    """

    def __init__(
        self,
        model: Any,
        *,
        lr: float,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.95),
        clip_norm: float = 1.0,
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int = 0,
        tokens_per_pass: int = 16_384,
        critic: Critic | None = None,
    ) -> None:
        self.model = model.train()
        self._head = model.get_output_embeddings()
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._device = self._parameters[0].device
        self._lr, self._clip_norm = lr, clip_norm
        self._temperature, self._top_p, self._top_k = temperature, top_p, top_k
        self._memory: Mapping[str, float] = {}
        self._tokens_per_pass = tokens_per_pass
        self._critic, self._n_updates = critic, 0
        self._lessons: list[Lesson] = []  # what the head has to learn until the next optim_step
        self._value_head = None if critic is None else ValueHead(self._head.weight.shape[1]).to(self._device)
        groups: list[dict[str, Any]] = [{"params": self._parameters, "weight_decay": weight_decay}]
        if self._value_head is not None:  # decay would pull values to 0
            groups.append({"params": list(self._value_head.parameters()), "weight_decay": 0.0})
        self._optimizer = torch.optim.AdamW(groups, lr=lr, betas=betas, fused=self._device.type == "cuda")
        self._bf16 = self._device.type == "cuda" and torch.cuda.is_bf16_supported()

    # --- the four verbs -----------------------------------------------------------------------------------------------

    def forward_backward(self, batch: Batch, loss: Loss, *, measured: Measured = NOTHING) -> Metrics:
        """Add the gradient of ``loss`` over ``batch`` to what is accumulated; additive metrics.

        A loss that needs it sees the whole batch first, in a forward pass of its own. While a critic warms up, its loss
        is the only one. Raises ShapeError for a column that ``loss`` needs and nobody measured, ConfigError for returns
        without a critic, RunError for a loss that is not finite.
        """
        metrics: Metrics = {}
        if self._warms_up:
            batch = replace(batch, policy_weight_L=np.zeros_like(batch.policy_weight_L))
            for one in self._passes_of(batch, None, measured):
                self._descend(*self._value_part(one, measured), metrics)
            return metrics
        fixed, self._memory = self._survey(batch, loss, measured)
        for one in self._passes_of(batch, loss, measured):
            value, parts = fixed(one.tokens)
            added, more = self._value_part(one, measured)
            if self._truncates:
                parts = parts | {"policy/outside_support_share": self._outside(batch, one)}
            self._descend(value + added, parts | more, metrics)
        return metrics

    def token_gradient(self, batch: Batch, loss: Loss, *, measured: Measured = NOTHING) -> FloatArray:
        """∂loss/∂log π of each token: float32[L], 0 where nothing is trained. Accumulates and remembers nothing."""
        result = np.zeros(batch.n_tokens, np.float32)
        fixed, _ = self._survey(batch, loss, measured)
        for one in self._passes_of(batch, loss, measured):
            logprob = one.tokens.logprob.detach().requires_grad_()
            value, _ = fixed(replace(one.tokens, logprob=logprob))
            (gradient,) = torch.autograd.grad(value, logprob, allow_unused=True)
            result[one.rows.flat] = 0 if gradient is None else gradient.float().cpu().numpy()
        return result

    def gradient_norm(self, batch: Batch, coefficient_L: FloatArray) -> float:
        """‖Σ_l coefficient_l·∇log π(token l)‖ over all parameters. Accumulates nothing."""
        total = [torch.zeros_like(parameter) for parameter in self._parameters]
        zeros = np.zeros_like(coefficient_L)
        wanted = replace(batch, policy_weight_L=coefficient_L, ce_weight_L=zeros, logprob_L=zeros)
        for one in self._passes_of(wanted, None, NOTHING):
            value = (one.tokens.policy_weight * one.tokens.logprob).sum()
            found = torch.autograd.grad(value, self._parameters, allow_unused=True)
            total = [part if more is None else part + more for part, more in zip(total, found, strict=True)]
        return float(torch.stack([part.norm() for part in total]).norm())

    def optim_step(self, *, lr_scale: float = 1.0) -> Metrics:
        """Clip the accumulated gradient, take one AdamW step at ``lr · lr_scale`` and forget the gradient."""
        metrics = {"learner/grad_norm": self._clipped(self._parameters), "learner/lr": self._lr * lr_scale}
        policy_group, *value_group = self._optimizer.param_groups
        policy_group["lr"] = self._lr * lr_scale
        if self._critic is not None:
            (group,) = value_group
            group["lr"] = self._lr * lr_scale * self._critic.lr_factor
            metrics["value/grad_norm"] = self._clipped(group["params"])
            self._n_updates += 1
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self._repeat_lessons()
        return metrics

    def weights(self) -> Mapping[str, torch.Tensor]:
        """The live parameters by name; copy what you keep."""
        return {name: parameter.detach() for name, parameter in self.model.named_parameters()}

    def logprobs(self, batch: Batch, *, whole: bool = False) -> FloatArray:
        """The model's log-probability of every policy token, float32[L]; 0 elsewhere, −inf outside its support.

        ``whole``: of the distribution without top-p and top-k, so never −inf.
        """
        return self._measure(
            batch, lambda said: said.plain_logprob if whole and said.plain_logprob is not None else said.logprob
        )

    def entropies(self, batch: Batch) -> FloatArray:
        """Entropy, in nats, of the distribution that each policy token was drawn from, float32[L]; 0 elsewhere."""
        return self._measure(batch, lambda said: said.entropy)

    @torch.no_grad()
    def values(self, batch: Batch, wanted_L: BoolArray) -> FloatArray:
        """The critic's value of the state after each wanted token, float32[L]; 0 elsewhere.

        Raises ConfigError for a learner without a critic.
        """
        head = self._need_value_head()
        result = np.zeros(batch.n_tokens, np.float32)
        self.model.eval()
        for rows in self._rows(batch, np.zeros_like(wanted_L), wanted_L):
            hidden = self._hidden(rows)
            result[rows.valued_flat] = head(hidden[rows.valued_row, rows.valued_column]).cpu().numpy()
        self.model.train()
        return result

    def save(self, path: Path) -> None:
        """Write weights, optimizer state, the critic and what losses remember to one file."""
        state = {"model": dict(self.weights()), "optimizer": self._optimizer.state_dict(), "memory": dict(self._memory)}
        if self._value_head is not None:
            state["critic"] = {"head": self._value_head.state_dict(), "n_updates": self._n_updates}
        torch.save(state, path)

    def load(self, path: Path) -> None:
        """Read what ``save`` wrote. Raises StoreError for the state of another model."""
        state = torch.load(path, map_location=self._device, weights_only=True)
        own, saved = dict(self.model.named_parameters()), state["model"]
        if {name: value.shape for name, value in own.items()} != {name: value.shape for name, value in saved.items()}:
            raise StoreError(f"'{path}' holds the weights of another model: names or shapes differ")
        critic = state.get("critic")
        if (critic is None) != (self._value_head is None):
            saved_with, has = ("without", "one") if critic is None else ("with", "none")
            raise StoreError(f"'{path}' was saved {saved_with} a critic, this learner has {has}")
        if self._value_head is not None:
            self._value_head.load_state_dict(critic["head"])
            self._n_updates = critic["n_updates"]
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(saved[name])
        self._optimizer.load_state_dict(state["optimizer"])
        self._lessons = []
        self._memory = state.get("memory", {})  # checkpoints from before losses could remember have none

    # --- forward pass -------------------------------------------------------------------------------------------------

    def _survey(self, batch: Batch, loss: Loss, measured: Measured) -> tuple[Any, Mapping[str, float]]:
        """``loss`` with everything fixed that the whole batch decides, and what it wants to be remembered."""
        if not needs_of(loss).survey or not isinstance(loss, Surveyed):
            return loss, self._memory
        with torch.no_grad():
            parts = [one.tokens for one in self._passes_of(batch, loss, measured)]
        return loss.survey(gather(parts), self._memory) if parts else (loss, self._memory)

    def _passes_of(self, batch: Batch, loss: Loss | None, measured: Measured) -> Iterator[_Pass]:
        """The passes over a batch with what ``loss`` asks for, and the values that are to be learned."""
        needs = Needs() if loss is None else needs_of(loss)
        batch, measured = _complete(batch, needs, measured)
        trained = (batch.policy_weight_L != 0) | (batch.ce_weight_L != 0)
        valued = measured["value_weight_L"] != 0 if "value_weight_L" in measured else np.zeros_like(trained)
        if valued.any():
            self._need_value_head()
        for rows in self._rows(batch, trained, valued):
            hidden = self._hidden(rows)
            tokens = self._tokens(batch, rows, self._predict(rows, hidden, needs), measured)
            yield _Pass(rows, tokens, hidden[rows.valued_row, rows.valued_column] if valued.any() else None)

    def _hidden(self, rows: Rows) -> torch.Tensor:
        """The last hidden state after every token: [r, t, width]."""
        with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self._bf16):
            # right padding under a causal mask needs no attention mask: no real token sees a pad
            hidden: torch.Tensor = self.model.base_model(input_ids=rows.ids, use_cache=False).last_hidden_state
        return hidden

    def _predict(self, rows: Rows, hidden: torch.Tensor, needs: Needs) -> _Predicted:
        """About the trained tokens. Only the hidden states that predict one of them meet the vocabulary."""
        with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self._bf16):
            logits = self._head(hidden[rows.row, rows.column - 1])
        logits, chosen = logits.float(), rows.ids[rows.row, rows.column][:, None]
        distribution = truncated_log_softmax(logits, self._temperature, self._top_p, self._top_k)
        plain = None
        if self._truncates:
            plain = torch.log_softmax(logits / self._temperature, dim=-1).gather(1, chosen)[:, 0]
        return _Predicted(
            logprob=distribution.gather(1, chosen)[:, 0],
            entropy=entropy_of(distribution) if self._truncates else -(distribution.exp() * distribution).sum(-1),
            plain_logprob=plain,
            nucleus_entropy=None if needs.nucleus is None else nucleus_entropy(distribution, needs.nucleus),
            candidate_logprob=distribution.topk(needs.candidates, dim=-1).values if needs.candidates else None,
        )

    @torch.no_grad()
    def _measure(self, batch: Batch, read: Callable[[_Predicted], torch.Tensor]) -> FloatArray:
        """What the model says about every policy token: float32[L]."""
        result = np.zeros(batch.n_tokens, np.float32)
        self.model.eval()
        for rows in self._rows(batch, batch.policy_weight_L != 0):
            result[rows.flat] = read(self._predict(rows, self._hidden(rows), Needs())).float().cpu().numpy()
        self.model.train()
        return result

    # --- critic -------------------------------------------------------------------------------------------------------

    @property
    def _warms_up(self) -> bool:
        return self._critic is not None and self._n_updates < self._critic.warmup

    def _need_value_head(self) -> ValueHead:
        if self._value_head is None:
            raise ConfigError("there are returns to learn or values to tell, but this learner has no critic; give one")
        return self._value_head

    def _value_part(self, one: _Pass, measured: Measured) -> tuple[torch.Tensor, Metrics]:
        """The critic's share of the loss of one pass."""
        if one.states is None or self._critic is None:
            return torch.zeros((), device=self._device), {}

        def column(name: str) -> torch.Tensor:
            return torch.as_tensor(measured[name][one.rows.valued_flat], device=self._device)

        through = self._critic.shared and not self._warms_up
        lesson = Lesson(
            states=one.states if through else one.states.detach(),
            target=column("return_L"),
            weight=column("value_weight_L"),
            old=column("old_value_L"),
        )
        self._lessons.append(replace(lesson, states=lesson.states.detach()))
        loss = lesson.loss(self._need_value_head(), clip=self._critic.clip)
        return self._critic.coef * loss, {"value/loss": loss.item()}

    def _repeat_lessons(self) -> None:
        """The further epochs of the head over the states of this update."""
        lessons, self._lessons = self._lessons, []
        if self._critic is None or not lessons:
            return
        head = self._need_value_head()
        for _ in range(self._critic.epochs - 1):
            for lesson in lessons:
                self._descend(self._critic.coef * lesson.loss(head, clip=self._critic.clip), {}, {})
            self._clipped(list(head.parameters()))
            self._optimizer.step()
            self._optimizer.zero_grad(set_to_none=True)

    def _descend(self, value: torch.Tensor, parts: Metrics, metrics: Metrics) -> None:
        """Add the gradient of one pass, and its metrics to ``metrics``."""
        if not torch.isfinite(value):
            raise RunError(f"the loss is {value.item()}; lower the learning rate or look at the advantages")
        if value.requires_grad:
            value.backward()  # type: ignore[no-untyped-call]
        for name, part in parts.items():
            metrics[name] = metrics.get(name, 0.0) + part

    def _clipped(self, parameters: list[torch.nn.Parameter]) -> float:
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, self._clip_norm))
        if not np.isfinite(norm):
            raise RunError(f"the gradient norm is {norm}; nothing was updated")
        return norm

    # --- rows and columns ---------------------------------------------------------------------------------------------

    def _rows(self, batch: Batch, trained: BoolArray, valued: BoolArray | None = None) -> Iterator[Rows]:
        valued = np.zeros_like(trained) if valued is None else valued
        return rows_of(batch, trained, valued, at_most=self._tokens_per_pass, device=self._device)

    @property
    def _truncates(self) -> bool:
        return self._top_p < 1 or self._top_k > 0

    def _tokens(self, batch: Batch, rows: Rows, predicted: _Predicted, measured: Measured) -> Tokens:
        def column(array: Any) -> torch.Tensor:
            return torch.as_tensor(array[rows.flat], device=self._device)

        def optional(name: str) -> torch.Tensor | None:
            return column(measured[name]) if name in measured else None

        logprob, weight, proximal = predicted.logprob, column(batch.policy_weight_L), optional("proximal_L")
        sampled = column(batch.logprob_L)
        if self._truncates:
            inside = torch.isfinite(logprob) if proximal is None else torch.isfinite(logprob) & torch.isfinite(proximal)
            logprob, weight = torch.where(inside, logprob, 0), torch.where(inside, weight, 0)
            proximal = proximal if proximal is None else torch.where(inside, proximal, 0)
        return Tokens(
            logprob=logprob,
            entropy=predicted.entropy,
            sampled_logprob=sampled,
            advantage=column(batch.advantage_L),
            policy_weight=weight,
            ce_weight=column(batch.ce_weight_L),
            segment=column(batch.segment_L).long(),
            turn=column(batch.turn_L).long(),
            place=torch.as_tensor(rows.flat, device=self._device),
            plain_logprob=predicted.plain_logprob,
            proximal_logprob=proximal,
            reference_logprob=optional("reference_L"),
            nucleus_entropy=predicted.nucleus_entropy,
            candidate_logprob=predicted.candidate_logprob,
            total=float(batch.policy_weight_L.sum()) or 1.0,
        )

    def _outside(self, batch: Batch, one: _Pass) -> float:
        was_S = batch.policy_weight_L[one.rows.flat]
        return float(was_S[(one.tokens.policy_weight == 0).cpu().numpy()].sum()) / one.tokens.total


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


def _complete(batch: Batch, needs: Needs, measured: Measured) -> tuple[Batch, Measured]:
    """Check that every column is there, and stand in for sampler logprobs that were never recorded (not finite).

    With a snapshot at hand such a token counts as sampled from it: weight 1, and said aloud. Raises ShapeError.
    """
    for name, wanted in (("proximal_L", needs.proximal), ("reference_L", needs.reference)):
        if wanted and name not in measured:
            raise ShapeError(f"the loss needs column '{name}', but only {sorted(measured)} were measured")
        if name in measured and measured[name].shape != batch.logprob_L.shape:
            raise ShapeError(
                f"{name} has shape {measured[name].shape}, expected {batch.logprob_L.shape}: one per token"
            )
    for name in ("value_weight_L", "return_L", "old_value_L") if "value_weight_L" in measured else ():
        if name not in measured:
            raise ShapeError(f"a critic learns from '{name}', but only {sorted(measured)} were measured")
        if measured[name].shape != batch.ids_L.shape:
            raise ShapeError(f"{name} has shape {measured[name].shape}, expected {batch.ids_L.shape}: one per token")
    measured = {name: column for name, column in measured.items() if name != "proximal_L" or needs.proximal}
    missing_L = (batch.policy_weight_L != 0) & ~np.isfinite(batch.logprob_L)
    if not missing_L.any():
        return batch, measured
    first = int(np.flatnonzero(missing_L)[0])
    if "proximal_L" not in measured:
        raise ShapeError(
            f"the sampler's logprob of token {first} is {batch.logprob_L[first]}; a decoupled loss can do without it"
        )
    log.warning("%d policy tokens have no sampler logprob: their off-policy weight is 1", int(missing_L.sum()))
    return replace(batch, logprob_L=np.where(missing_L, measured["proximal_L"], batch.logprob_L)), measured
