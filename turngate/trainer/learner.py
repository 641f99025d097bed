"""``TorchLearner``: four verbs over flat arrays. It knows tokens, weights and a loss, and nothing about episodes."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch

from turngate.agents.policies.truncation import truncated_log_softmax
from turngate.errors import ConfigError, RunError, ShapeError, StoreError
from turngate.trainer.entropy import entropy_of, nucleus_entropy
from turngate.trainer.tokens import Loss, Needs, Surveyed, Tokens, gather, needs_of
from turngate.types import Batch, FloatArray, Metrics

log = logging.getLogger(__name__)

Measured: TypeAlias = Mapping[str, FloatArray]
NOTHING: Measured = {}


class Learner(Protocol):
    """The seam to whoever holds the weights."""

    def forward_backward(self, batch: Batch, loss: Loss, *, measured: Measured = NOTHING) -> Metrics:
        """Add the gradient of ``loss`` over ``batch`` to what is accumulated.

        ``measured`` holds what only some losses need (``needs_of``), one entry per token: ``proximal_L``, the learner's
        own ``logprobs`` of the batch before the first update of the step, and ``reference_L``, a frozen model's.
        """
        ...

    def optim_step(self, *, lr_scale: float = 1.0) -> Metrics:
        """Update with the accumulated gradient and forget it."""
        ...

    def weights(self) -> Mapping[str, Any]:
        """The parameters by name, as ``Policy.publish`` takes them."""
        ...

    def logprobs(self, batch: Batch) -> FloatArray:
        """Log-probability of every policy token, float32[L]."""
        ...

    def save(self, path: Path) -> None:
        """Write everything that training goes on from."""
        ...

    def load(self, path: Path) -> None:
        """Read what ``save`` wrote."""
        ...


@dataclass(frozen=True, slots=True)
class _Rows:
    """A micro-batch: segments as right-padded rows, and where their trained tokens stand."""

    ids: torch.Tensor  # [r, t]
    row: torch.Tensor  # [S]
    column: torch.Tensor  # [S], never 0: nothing predicts a first token
    flat: np.ndarray[Any, np.dtype[np.int64]]  # [S], index into the batch


@dataclass(frozen=True, slots=True, kw_only=True)
class _Predicted:
    """What the forward pass says about the trained tokens: [S]; see ``Tokens``. −inf in ``logprob``: out of support."""

    logprob: torch.Tensor
    entropy: torch.Tensor
    plain_logprob: torch.Tensor | None
    nucleus_entropy: torch.Tensor | None
    candidate_logprob: torch.Tensor | None


class TorchLearner:
    """AdamW on a transformers causal language model.

    ``temperature``, ``top_p`` and ``top_k`` are the sampler's: log-probabilities are those of the distribution that was
    sampled from (see ``truncated_log_softmax``). A token that the policy would no longer sample at all has ratio 0 and
    no gradient, so it gets weight 0 and keeps its place in the normalisation; ``policy/outside_support_share`` counts
    such tokens. Cross-entropy always means the distribution without top-p and top-k.

    A pass holds whole segments, never a part of one, so that losses may sum over turns and trajectories. Weights are
    kept and updated in the model's dtype; on hardware with bf16 the forward pass runs in bf16 (``autocast``).
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
    ) -> None:
        self.model = model.train()
        self._head = model.get_output_embeddings()
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._device = self._parameters[0].device
        self._lr, self._clip_norm = lr, clip_norm
        self._temperature, self._top_p, self._top_k = temperature, top_p, top_k
        self._memory: Mapping[str, float] = {}
        self._tokens_per_pass = tokens_per_pass
        self._optimizer = torch.optim.AdamW(
            self._parameters, lr=lr, betas=betas, weight_decay=weight_decay, fused=self._device.type == "cuda"
        )
        self._bf16 = self._device.type == "cuda" and torch.cuda.is_bf16_supported()

    # --- the four verbs -----------------------------------------------------------------------------------------------

    def forward_backward(self, batch: Batch, loss: Loss, *, measured: Measured = NOTHING) -> Metrics:
        """Add the gradient of ``loss`` over ``batch`` to what is accumulated; additive metrics.

        A loss that needs it sees the whole batch first, in a forward pass of its own. Raises ShapeError for a column
        that ``loss`` needs and nobody measured, RunError for a loss that is not finite.
        """
        metrics: Metrics = {}
        fixed, self._memory = self._survey(batch, loss, measured)
        for rows, tokens in self._tokens_of(batch, loss, measured):
            value, parts = fixed(tokens)
            if not torch.isfinite(value):
                raise RunError(f"the loss is {value.item()}; lower the learning rate or look at the advantages")
            value.backward()
            if self._truncates:
                parts = parts | {"policy/outside_support_share": self._outside(batch, rows, tokens)}
            for name, part in parts.items():
                metrics[name] = metrics.get(name, 0.0) + part
        return metrics

    def token_gradient(self, batch: Batch, loss: Loss, *, measured: Measured = NOTHING) -> FloatArray:
        """∂loss/∂log π of each token: float32[L], 0 where nothing is trained. Accumulates and remembers nothing."""
        result = np.zeros(batch.n_tokens, np.float32)
        fixed, _ = self._survey(batch, loss, measured)
        for rows, tokens in self._tokens_of(batch, loss, measured):
            logprob = tokens.logprob.detach().requires_grad_()
            value, _ = fixed(replace(tokens, logprob=logprob))
            (gradient,) = torch.autograd.grad(value, logprob, allow_unused=True)
            result[rows.flat] = 0 if gradient is None else gradient.float().cpu().numpy()
        return result

    def gradient_norm(self, batch: Batch, coefficient_L: FloatArray) -> float:
        """‖Σ_l coefficient_l·∇log π(token l)‖ over all parameters. Accumulates nothing."""
        total = [torch.zeros_like(parameter) for parameter in self._parameters]
        zeros = np.zeros_like(coefficient_L)
        wanted = replace(batch, policy_weight_L=coefficient_L, ce_weight_L=zeros, logprob_L=zeros)
        for _, tokens in self._tokens_of(wanted, None, NOTHING):
            value = (tokens.policy_weight * tokens.logprob).sum()
            found = torch.autograd.grad(value, self._parameters, allow_unused=True)
            total = [part if more is None else part + more for part, more in zip(total, found, strict=True)]
        return float(torch.stack([part.norm() for part in total]).norm())

    def optim_step(self, *, lr_scale: float = 1.0) -> Metrics:
        """Clip the accumulated gradient, take one AdamW step at ``lr · lr_scale`` and forget the gradient."""
        norm = float(torch.nn.utils.clip_grad_norm_(self._parameters, self._clip_norm))
        if not np.isfinite(norm):
            raise RunError(f"the gradient norm is {norm}; nothing was updated")
        for group in self._optimizer.param_groups:
            group["lr"] = self._lr * lr_scale
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return {"learner/grad_norm": norm, "learner/lr": self._lr * lr_scale}

    def weights(self) -> Mapping[str, torch.Tensor]:
        """The live parameters by name; copy what you keep."""
        return {name: parameter.detach() for name, parameter in self.model.named_parameters()}

    @torch.no_grad()
    def logprobs(self, batch: Batch) -> FloatArray:
        """The model's log-probability of every policy token, float32[L]; 0 elsewhere, −inf outside its support."""
        result = np.zeros(batch.n_tokens, np.float32)
        self.model.eval()
        for rows in self._passes(batch, batch.policy_weight_L != 0):
            result[rows.flat] = self._predict(rows, Needs()).logprob.float().cpu().numpy()
        self.model.train()
        return result

    def save(self, path: Path) -> None:
        """Write weights, optimizer state and what losses remember to one file."""
        state = {"model": dict(self.weights()), "optimizer": self._optimizer.state_dict(), "memory": dict(self._memory)}
        torch.save(state, path)

    def load(self, path: Path) -> None:
        """Read what ``save`` wrote. Raises StoreError for the state of another model."""
        state = torch.load(path, map_location=self._device, weights_only=True)
        own, saved = dict(self.model.named_parameters()), state["model"]
        if {name: value.shape for name, value in own.items()} != {name: value.shape for name, value in saved.items()}:
            raise StoreError(f"'{path}' holds the weights of another model: names or shapes differ")
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(saved[name])
        self._optimizer.load_state_dict(state["optimizer"])
        self._memory = state.get("memory", {})  # checkpoints from before losses could remember have none

    # --- forward pass -------------------------------------------------------------------------------------------------

    def _survey(self, batch: Batch, loss: Loss, measured: Measured) -> tuple[Any, Mapping[str, float]]:
        """``loss`` with everything fixed that the whole batch decides, and what it wants to be remembered."""
        if not needs_of(loss).survey or not isinstance(loss, Surveyed):
            return loss, self._memory
        with torch.no_grad():
            parts = [tokens for _, tokens in self._tokens_of(batch, loss, measured)]
        return loss.survey(gather(parts), self._memory) if parts else (loss, self._memory)

    def _tokens_of(self, batch: Batch, loss: Loss | None, measured: Measured) -> Iterator[tuple[_Rows, Tokens]]:
        """The passes over a batch with what ``loss`` asks for."""
        needs = Needs() if loss is None else needs_of(loss)
        batch, measured = _complete(batch, needs, measured)
        for rows in self._passes(batch, (batch.policy_weight_L != 0) | (batch.ce_weight_L != 0)):
            yield rows, self._tokens(batch, rows, self._predict(rows, needs), measured)

    def _predict(self, rows: _Rows, needs: Needs) -> _Predicted:
        """About the trained tokens. Only the hidden states that predict one of them meet the vocabulary."""
        with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self._bf16):
            # right padding under a causal mask needs no attention mask: no real token sees a pad
            hidden = self.model.base_model(input_ids=rows.ids, use_cache=False).last_hidden_state
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

    @property
    def _truncates(self) -> bool:
        return self._top_p < 1 or self._top_k > 0

    def _tokens(self, batch: Batch, rows: _Rows, predicted: _Predicted, measured: Measured) -> Tokens:
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

    def _outside(self, batch: Batch, rows: _Rows, tokens: Tokens) -> float:
        lost = batch.policy_weight_L[rows.flat].sum() - float(tokens.policy_weight.sum())
        return float(lost) / tokens.total

    def _passes(self, batch: Batch, trained: np.ndarray[Any, np.dtype[np.bool_]]) -> Iterator[_Rows]:
        """Segments of similar length together, at most ``tokens_per_pass`` padded tokens each."""
        starts = np.flatnonzero(batch.position_L == 0)
        lengths = np.diff(np.append(starts, batch.n_tokens))
        chosen: list[int] = []
        for segment in np.argsort(lengths, kind="stable"):
            if chosen and lengths[segment] * (len(chosen) + 1) > self._tokens_per_pass:
                yield self._rows(batch, trained, starts[chosen], lengths[chosen])
                chosen = []
            chosen.append(int(segment))
        if chosen:
            yield self._rows(batch, trained, starts[chosen], lengths[chosen])

    def _rows(self, batch: Batch, trained: Any, starts: Any, lengths: Any) -> _Rows:
        width = int(lengths.max())
        place = starts[:, None] + np.arange(width)
        real = np.arange(width) < lengths[:, None]
        place = np.where(real, place, starts[:, None])
        row, column = np.nonzero(trained[place] & real)
        return _Rows(
            ids=torch.as_tensor(np.where(real, batch.ids_L[place], 0).astype(np.int64), device=self._device),
            row=torch.as_tensor(row, device=self._device),
            column=torch.as_tensor(column, device=self._device),
            flat=place[row, column],
        )


def measured_for(loss: Loss, batch: Batch, learner: Learner, reference: Learner | None) -> Measured:
    """The columns that ``loss`` needs, by today's weights: ask for them before the first update of a step.

    ``reference`` holds the frozen model; it has the sampler's temperature and truncates nothing, so that the divergence
    to it stays finite. Raises ConfigError if the loss needs one and there is none.
    """
    needs, columns = needs_of(loss), {}
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
