"""How auxiliary losses are learned: batches, losses, and the updates in which they take part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from turngate.part_calls import call_part, ignored
from turngate.trainer.auxiliary.answers import AUXILIARY, metrics_of_source, rows_of
from turngate.trainer.auxiliary.base import AuxiliaryRows, AuxiliarySource
from turngate.trainer.batch.pack import split
from turngate.trainer.learner import Learner
from turngate.trainer.loss.tokens import Loss, Memory, Needs, Surveyed, Tokens, needs_of
from turngate.types import Batch, FloatArray, Metrics, ScoredGroup

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AuxiliaryBatch:
    """The rows of one auxiliary loss, packed: ``columns`` are what ``loss`` needs beside them (see ``AuxiliaryRows``).

    ``together``: so many segments in a row belong together; 2 for pairs.
    """

    kind: str
    batch: Batch
    columns: Mapping[str, FloatArray]
    loss: Loss
    lr_factor: float | None
    together: int = 1

    def parts(self, most: int) -> list[tuple[Batch, dict[str, FloatArray]]]:
        """The batch and its columns in at most so many parts, which average to the whole."""
        n = min(most, self.batch.n_segments // self.together)
        return list(split(self.batch, self.columns, n, together=self.together))


@dataclass(frozen=True, kw_only=True)
class AuxiliaryLosses:
    """The auxiliary losses of a run, by their types."""

    sources: Mapping[str, AuxiliarySource] = field(default_factory=dict)
    n_tokens: int | None = None  # how many different ones the model knows

    async def batches(self, groups: Sequence[ScoredGroup], step: int) -> tuple[list[AuxiliaryBatch], Metrics]:
        """The auxiliary rows of ``step``, in which ``groups`` were played, as batches; metrics count them by kind."""
        found, metrics = [], Metrics()
        for kind, source in self.sources.items():
            rows = await rows_of(source, groups, step, n_tokens=self.n_tokens)
            some = rows is not None and any(row.trained.any() for row in rows.rows)
            if rows is not None and some:
                found.append(packed_auxiliary(kind, rows))
            n_tokens = int(np.count_nonzero(found[-1].batch.ce_weight_L)) if some else 0
            own = {"rows": float(len(rows.rows)) if rows and some else 0.0, "tokens": float(n_tokens)}
            metrics |= {f"auxiliary/{kind}_{name}": value for name, value in (own | metrics_of_source(source)).items()}
        return found, metrics

    def conclude(self) -> None:
        """Raise RunError, at the end of a run, if one of them never found a row to learn."""
        for source in self.sources.values():
            call_part(AUXILIARY, source.conclude, take=ignored, must="")


def packed_auxiliary(kind: str, auxiliary: AuxiliaryRows) -> AuxiliaryBatch:
    """One segment per row, with ``ce_weight_L`` = weight / number of trained tokens, or of pairs or episodes that are
    compared: the loss is ``weight`` times a mean over these rows' own, whatever else is learned."""
    lengths = [len(row.ids) for row in auxiliary.rows]
    trained_L = np.concatenate([row.trained for row in auxiliary.rows])
    zeros_L = np.zeros(len(trained_L), np.float32)
    together = 1 if auxiliary.contrast is None else auxiliary.contrast.together
    n_averaged = trained_L.sum() if auxiliary.contrast is None else len(lengths) // together
    turns = [np.zeros(len(row.ids), np.int32) if row.turn is None else row.turn for row in auxiliary.rows]
    weight_L = np.repeat([auxiliary.weight * row.weight for row in auxiliary.rows], lengths)
    batch = Batch(
        ids_L=np.concatenate([row.ids for row in auxiliary.rows]).astype(np.int32),
        logprob_L=zeros_L,
        advantage_L=np.repeat([row.value for row in auxiliary.rows], lengths).astype(np.float32),
        policy_weight_L=zeros_L,
        ce_weight_L=(weight_L * trained_L / max(1, n_averaged)).astype(np.float32),
        position_L=np.concatenate([np.arange(length, dtype=np.int32) for length in lengths]),
        segment_L=np.repeat(np.arange(len(lengths), dtype=np.int32), lengths),
        turn_L=np.concatenate(turns).astype(np.int32),
        origin_L=np.zeros(len(trained_L), np.uint8),
    )
    teachers = [row.teacher for row in auxiliary.rows if row.teacher is not None]
    columns = {"reference_L": np.concatenate(teachers).astype(np.float32)} if teachers else {}
    loss = auxiliary.contrast or (TowardsTeacher() if teachers else towards_text)
    return AuxiliaryBatch(
        kind=kind, batch=batch, columns=columns, loss=loss, lr_factor=auxiliary.lr_factor, together=together
    )


def towards_text(tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
    """Cross-entropy: ``−Σ ce_weight·log π``, over the whole vocabulary."""
    return -(tokens.ce_weight * tokens.whole_logprob).sum(), {}


class TowardsTeacher:
    """``Σ ce_weight·½(log π − log π_T)²``, whose gradient ``(log π − log π_T)·∇log π`` is, on tokens that the policy
    sampled, that of KL(π ‖ π_T) (the k2 estimator; KDRL, https://arxiv.org/abs/2506.02208)."""

    needs = Needs(reference=True)

    def __call__(self, tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
        """See the class."""
        apart = tokens.whole_logprob - tokens.required("reference_logprob", "a teacher's loss")
        return 0.5 * (tokens.ce_weight * apart**2).sum(), {}


def add_beside(learner: Learner, auxiliary: Sequence[AuxiliaryBatch], *, minibatch: int, of: int) -> Metrics:
    """Add the gradients of the auxiliary losses to that of the policy loss, before the update of one of ``of``
    minibatches.

    Their rows are dealt to the minibatches; where there are fewer rows than that, some come in several. The metrics
    have the norm of each gradient before they are added and clipped.
    """
    beside = [one for one in auxiliary if one.lr_factor is None]
    if not beside:
        return {}
    metrics = {"learner/policy_grad_norm": learner.hold_gradient()}
    for one in beside:
        parts = one.parts(of)
        metrics |= _descended(learner, one, *parts[minibatch % len(parts)])
    return metrics


def learn_apart(learner: Learner, auxiliary: Sequence[AuxiliaryBatch], *, alone: bool) -> Metrics:
    """The updates of auxiliary losses that have one of their own, after that of the policy.

    ``alone``: there was none of the policy in this step, so all other auxiliary losses get one update together.
    """
    metrics = Metrics()
    beside = [one for one in auxiliary if one.lr_factor is None] if alone else []
    for one in beside:
        metrics |= _descended(learner, one, one.batch, one.columns)
    if beside:
        metrics |= learner.optim_step()
    for one in auxiliary:
        if one.lr_factor is not None:
            metrics |= _descended(learner, one, one.batch, one.columns)
            learner.optim_step(lr_scale=one.lr_factor)
    return metrics


def _descended(learner: Learner, auxiliary: AuxiliaryBatch, part: Batch, columns: Mapping[str, FloatArray]) -> Metrics:
    found = learner.forward_backward(part, _Named(auxiliary.loss), measured=columns)
    own = {name: value for name, value in found.items() if "/" not in name}  # the learner's have a prefix
    own["loss"] = found.get(_Named.LOSS, 0.0)
    own["grad_norm"] = learner.hold_gradient()
    return {f"auxiliary/{auxiliary.kind}_{name}": value for name, value in own.items()}


class _Named:
    """A loss that reports its value."""

    LOSS = "loss/auxiliary"

    def __init__(self, loss: Loss) -> None:
        self._loss, self.needs = loss, needs_of(loss)

    def survey(self, tokens: Tokens, memory: Memory) -> tuple[Loss, Memory]:
        """That of the loss itself, which has one if it ``needs`` one."""
        assert isinstance(self._loss, Surveyed)
        fixed, memory = self._loss.survey(tokens, memory)
        return _Named(fixed), memory

    def __call__(self, tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
        value, metrics = self._loss(tokens)
        return value, metrics | {self.LOSS: value.item()}
