"""The forward pass: cuts a batch into passes over whole segments, and measures their tokens."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from turngate.agents.architecture import logit_cap
from turngate.agents.policies.forward import precision_of
from turngate.agents.policies.gpu import suit
from turngate.agents.protocols import LanguageModel, Precision
from turngate.errors import ShapeError
from turngate.trainer.batch.contexts import Origin
from turngate.trainer.learner import Measured, TokensPerPass
from turngate.trainer.loss.tokens import Loss, Needs, Tokens, needs_of
from turngate.trainer.torch.packing import Packer, Packing
from turngate.trainer.torch.prediction import Predicted, TokenPredictor
from turngate.trainer.torch.rows import Rows
from turngate.trainer.torch.tree_attention import attending
from turngate.types import Batch, BoolArray, FloatArray, Sampling

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pass:
    """One micro-batch after its forward pass. ``states``, [M, width], are the hidden states after
    ``rows.valued_flat``."""

    rows: Rows
    tokens: Tokens
    states: torch.Tensor | None
    outside: float | None
    """Share of the batch's policy weight on tokens that top-p or top-k now cuts off; None without top-p and top-k."""


class Passes:
    """Runs batches through ``model`` under the distribution ``sampling``, ``tokens_per_pass`` tokens at once.

    Matrix products are computed in ``dtype``, everything else in the precision of the weights (``autocast``).
    """

    def __init__(
        self,
        model: LanguageModel,
        sampling: Sampling,
        tokens_per_pass: TokensPerPass,
        dtype: Precision,
        packing: Packing = "auto",
    ) -> None:
        self.model, self.head, self.sampling = model, model.get_output_embeddings(), sampling
        self._device = self.head.weight.device
        suit(self._device)
        precision = precision_of(dtype, self._device)
        self._bf16 = precision is torch.bfloat16
        self._predictor = TokenPredictor(self.head, sampling, bf16=self._bf16, cap=logit_cap(model.config))
        self._packer = Packer(self._hidden, model, packing, tokens_per_pass, precision)

    def over(self, batch: Batch, loss: Loss | None, measured: Measured) -> Iterator[Pass]:
        """The passes over a batch, with what ``loss`` needs and the states whose values are learned.

        Raises ShapeError for a column that is missing or has another shape.
        """
        needs = Needs() if loss is None else needs_of(loss)
        batch, measured = _complete(batch, needs, measured)
        trained = (batch.policy_weight_L != 0) | (batch.ce_weight_L != 0)
        valued = measured["value_weight_L"] != 0 if "value_weight_L" in measured else np.zeros_like(trained)
        for rows in self._packer.rows(batch, trained, valued):
            hidden = self._hidden(rows)
            tokens = self._tokens(batch, rows, self._predict(rows, hidden, needs), measured)
            states = hidden[rows.valued] if valued.any() else None
            yield Pass(rows=rows, tokens=tokens, states=states, outside=self._outside(batch, rows, tokens))

    def logprobs(self, batch: Batch, *, whole: bool = False) -> FloatArray:
        return self.measure(batch, lambda said, origin: said.whole if whole else _learned(said, origin))

    def entropies(self, batch: Batch) -> FloatArray:
        return self.measure(batch, lambda said, _: said.entropy)

    def measure(self, batch: Batch, read: Callable[[Predicted, torch.Tensor], torch.Tensor]) -> FloatArray:
        """``read`` of the prediction for every policy token and of its ``Origin``: float32[L]; 0 elsewhere. No
        gradient."""
        result = np.zeros(batch.n_tokens, np.float32)
        spoken = batch.policy_weight_L != 0
        with torch.no_grad():
            for rows in self._packer.rows(batch, spoken, np.zeros_like(spoken)):
                predicted = self._predict(rows, self._hidden(rows), Needs())
                origin = torch.as_tensor(batch.origin_L[rows.flat], device=self._device)
                result[rows.flat] = read(predicted, origin).float().cpu().numpy()
        return result

    def states(self, batch: Batch, wanted_L: BoolArray, head: Callable[[torch.Tensor], torch.Tensor]) -> FloatArray:
        """``head`` of the hidden state after each wanted token: float32[L]; 0 elsewhere. No gradient."""
        result = np.zeros(batch.n_tokens, np.float32)
        with torch.no_grad():
            for rows in self._packer.rows(batch, np.zeros_like(wanted_L), wanted_L):
                hidden = self._hidden(rows)
                result[rows.valued_flat] = head(hidden[rows.valued]).cpu().numpy()
        return result

    def _hidden(self, rows: Rows) -> torch.Tensor:
        """The last hidden state after every token: [r·t, width]."""
        with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self._bf16):
            if rows.tree is None:  # right padding under a causal mask needs no attention mask: no token sees a pad
                output = self._called(input_ids=rows.ids, use_cache=False)
            else:
                positions = rows.tree.depth_T[None]
                with attending(self.model):
                    output = self._called(input_ids=rows.ids, position_ids=positions, use_cache=False, tree=rows.tree)
        hidden: torch.Tensor = output.last_hidden_state
        return hidden.flatten(0, 1)

    def _called(self, **inputs: Any) -> Any:
        """The model without its head, called with ``inputs``."""
        return self.model.base_model(**inputs)

    def _predict(self, rows: Rows, hidden: torch.Tensor, needs: Needs) -> Predicted:
        """Predictions for the trained tokens; logits are computed only where one of these is predicted."""
        return self._predictor(hidden[rows.before], rows.predicted, needs).at(rows.shared)

    def _tokens(self, batch: Batch, rows: Rows, predicted: Predicted, measured: Measured) -> Tokens:
        def column(array: Any) -> torch.Tensor:
            return torch.as_tensor(array[rows.flat], device=self._device)

        def optional(name: str) -> torch.Tensor | None:
            return column(measured[name]) if name in measured else None

        origin, weight, proximal = column(batch.origin_L), column(batch.policy_weight_L), optional("proximal_L")
        sampled, logprob = column(batch.logprob_L), _learned(predicted, origin)
        if self.sampling.truncates:
            inside = torch.isfinite(logprob) if proximal is None else torch.isfinite(logprob) & torch.isfinite(proximal)
            logprob = torch.where(inside, logprob, 0)
            weight = torch.where(inside, weight, 0)
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
            thought=optional("thought_L"),
            origin=origin,
            total=self._total(batch) or 1.0,
        )

    def _total(self, batch: Batch) -> float:
        """Σ ``policy_weight`` over the whole batch."""
        return float(batch.policy_weight_L.sum())

    def _outside(self, batch: Batch, rows: Rows, tokens: Tokens) -> float | None:
        if not self.sampling.truncates:
            return None
        was_S = batch.policy_weight_L[rows.flat]
        return float(was_S[(tokens.policy_weight == 0).cpu().numpy()].sum()) / tokens.total


def _learned(predicted: Predicted, origin: torch.Tensor) -> torch.Tensor:
    """log π of each token under the distribution that the loss uses: the sampler's; for an expert's tokens without
    top-p and top-k, which did not bind the expert. [S]."""
    if predicted.plain_logprob is None:
        return predicted.logprob
    return torch.where(origin == Origin.EXPERT, predicted.plain_logprob, predicted.logprob)


def _complete(batch: Batch, needs: Needs, measured: Measured) -> tuple[Batch, Measured]:
    """Check that all columns are there, and fill in sampler log-probabilities that were not recorded (not finite).

    If the snapshot's are at hand, such a token counts as sampled from the snapshot, which gives it off-policy weight 1;
    a warning is logged. A token that was sampled under a hint which is left out cannot be filled in: the snapshot's is
    of another context. Raises ShapeError for a column that is missing, has another shape or cannot be filled in.
    """
    for name, wanted in (
        ("proximal_L", needs.proximal),
        ("reference_L", needs.reference),
        ("thought_L", needs.thoughts),
    ):
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
    hinted_L = missing_L & (batch.origin_L == Origin.HINTED)
    if hinted_L.any():
        token = int(np.flatnonzero(hinted_L)[0])
        raise ShapeError(
            f"the sampler's logprob of token {token} is {batch.logprob_L[token]}, and it was sampled with a hint "
            "that is left out now, so the learner's own cannot stand for it; set strip = false in the guide, or sample "
            "with a policy that records logprobs"
        )
    first = int(np.flatnonzero(missing_L)[0])
    if "proximal_L" not in measured and needs.unsampled:
        return batch, measured
    if "proximal_L" not in measured:
        raise ShapeError(
            f"the sampler's logprob of token {first} is {batch.logprob_L[first]}; loss.decoupled = true does without it"
        )
    log.warning("%d policy tokens have no sampler logprob: their off-policy weight is 1", int(missing_L.sum()))
    return replace(batch, logprob_L=np.where(missing_L, measured["proximal_L"], batch.logprob_L)), measured
