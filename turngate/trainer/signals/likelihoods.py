"""How likely a learner's model finds given texts: all of them as one batch, through ``Learner.logprobs``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from turngate.errors import ShapeError
from turngate.judges.examiners.base import Likelihoods
from turngate.trainer.learner import Measuring
from turngate.types import Batch, BoolArray, FloatArray, IntArray


def likelihoods_of(learner: Measuring) -> Likelihoods:
    """Log-probabilities of given texts under the learner's weights as they are when asked.

    They are measured at the sampler's temperature, over the whole vocabulary and without gradient; the learner bounds
    the number of tokens per pass. Raises ShapeError for ids and marks of different shapes, and if the first token of a
    text is asked for, because nothing predicts it.
    """

    def likelihoods(ids: Sequence[IntArray], asked: Sequence[BoolArray]) -> list[FloatArray]:
        asked_L = np.concatenate([_checked(*pair) for pair in zip(ids, asked, strict=True)] or [np.zeros(0, np.bool_)])
        if not asked_L.any():
            return [np.zeros(0, np.float32) for _ in ids]
        lengths = [len(one) for one in ids]
        logprob_L = learner.logprobs(_questions(np.concatenate(ids).astype(np.int32), asked_L, lengths), whole=True)
        ends = np.cumsum([int(one.sum()) for one in asked])
        return np.split(logprob_L[asked_L], ends[:-1])

    return likelihoods


def _questions(ids_L: IntArray, asked_L: BoolArray, lengths: Sequence[int]) -> Batch:
    """The texts as a batch: one segment each, the tokens to be measured marked as policy tokens."""
    zeros_L = np.zeros(len(ids_L), np.float32)
    return Batch(
        ids_L=ids_L,
        logprob_L=zeros_L,
        advantage_L=zeros_L,
        policy_weight_L=asked_L.astype(np.float32),
        ce_weight_L=zeros_L,
        position_L=np.concatenate([np.arange(length, dtype=np.int32) for length in lengths]),
        segment_L=np.repeat(np.arange(len(lengths), dtype=np.int32), lengths),
        turn_L=np.zeros(len(ids_L), np.int32),
        origin_L=np.zeros(len(ids_L), np.uint8),
    )


def _checked(ids: IntArray, asked: BoolArray) -> BoolArray:
    if ids.shape != asked.shape or ids.ndim != 1:
        raise ShapeError(f"ids of shape {ids.shape} and marks of shape {asked.shape} must be equal and flat")
    if len(asked) and asked[0]:
        raise ShapeError("the first token of a text is asked for, and nothing predicts it; put something before it")
    return asked.astype(np.bool_)
