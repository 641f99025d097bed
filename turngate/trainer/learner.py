"""``TorchLearner``: four verbs over flat arrays. It knows tokens, weights and a loss, and nothing about episodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from turngate.errors import RunError, StoreError
from turngate.trainer.loss import Loss, Tokens
from turngate.types import Batch, FloatArray, Metrics


class Learner(Protocol):
    """The seam to whoever holds the weights."""

    def forward_backward(self, batch: Batch, loss: Loss) -> Metrics:
        """Add the gradient of ``loss`` over ``batch`` to what is accumulated."""
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


class TorchLearner:
    """AdamW on a transformers causal language model.

    ``temperature`` is the sampler's: log-probabilities are those of the distribution that was sampled from. Weights
    are kept and updated in the model's dtype; on hardware with bf16 the forward pass runs in bf16 (``autocast``).
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
        tokens_per_pass: int = 16_384,
    ) -> None:
        self.model = model.train()
        self._head = model.get_output_embeddings()
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._device = self._parameters[0].device
        self._lr, self._clip_norm, self._temperature = lr, clip_norm, temperature
        self._tokens_per_pass = tokens_per_pass
        self._optimizer = torch.optim.AdamW(
            self._parameters, lr=lr, betas=betas, weight_decay=weight_decay, fused=self._device.type == "cuda"
        )
        self._bf16 = self._device.type == "cuda" and torch.cuda.is_bf16_supported()

    # --- the four verbs -----------------------------------------------------------------------------------------------

    def forward_backward(self, batch: Batch, loss: Loss) -> Metrics:
        """Add the gradient of ``loss`` over ``batch`` to what is accumulated; additive metrics."""
        metrics: Metrics = {}
        trained = (batch.policy_weight_L != 0) | (batch.ce_weight_L != 0)
        for rows in self._passes(batch, trained):
            logprob, entropy = self._predict(rows)
            value, parts = loss(self._tokens(batch, rows, logprob, entropy))
            if not torch.isfinite(value):
                raise RunError(f"the loss is {value.item()}; lower the learning rate or look at the advantages")
            value.backward()  # type: ignore[no-untyped-call]
            for name, part in parts.items():
                metrics[name] = metrics.get(name, 0.0) + part
        return metrics

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
        """The model's log-probability of every policy token, float32[L]; 0 elsewhere."""
        result = np.zeros(batch.n_tokens, np.float32)
        self.model.eval()
        for rows in self._passes(batch, batch.policy_weight_L != 0):
            logprob, _ = self._predict(rows)
            result[rows.flat] = logprob.float().cpu().numpy()
        self.model.train()
        return result

    def save(self, path: Path) -> None:
        """Write weights and optimizer state to one file."""
        torch.save({"model": dict(self.weights()), "optimizer": self._optimizer.state_dict()}, path)

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

    # --- forward pass -------------------------------------------------------------------------------------------------

    def _predict(self, rows: _Rows) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probability and entropy [S]. Only the hidden states that predict a trained token meet the vocabulary."""
        with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self._bf16):
            # right padding under a causal mask needs no attention mask: no real token sees a pad
            hidden = self.model.base_model(input_ids=rows.ids, use_cache=False).last_hidden_state
            logits = self._head(hidden[rows.row, rows.column - 1])
        distribution = torch.log_softmax(logits.float() / self._temperature, dim=-1)
        chosen = rows.ids[rows.row, rows.column]
        logprob = distribution.gather(1, chosen[:, None])[:, 0]
        return logprob, -(distribution.exp() * distribution).sum(-1)

    def _tokens(self, batch: Batch, rows: _Rows, logprob: torch.Tensor, entropy: torch.Tensor) -> Tokens:
        def column(array: FloatArray) -> torch.Tensor:
            return torch.as_tensor(array[rows.flat], device=self._device)

        return Tokens(
            logprob=logprob,
            entropy=entropy,
            sampled_logprob=column(batch.logprob_L),
            advantage=column(batch.advantage_L),
            policy_weight=column(batch.policy_weight_L),
            ce_weight=column(batch.ce_weight_L),
        )

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
