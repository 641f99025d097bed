"""An objective that is a function with a setting, one that fails in the second process of a run, and credit that
needs a critic."""

import os

import numpy as np
import torch

from tests.helpers.thinking_lock import alternating
from turngate.errors import RunError
from turngate.trainer.loss.base import Gain
from turngate.trainer.loss.tokens import Tokens
from turngate.types import FloatArray, Metrics, TurnTable


def scaled(tokens: Tokens, *, by: float = 1.0) -> Gain:
    """REINFORCE, times ``by``."""
    value = by * tokens.advantage * tokens.logprob
    return Gain(value=value, limited=value != value)


def fails(tokens: Tokens) -> Gain:
    """In the process of rank 1."""
    if os.environ.get("RANK") == "1":
        raise RunError("it has had enough")
    return scaled(tokens)


def failing_loss(tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
    """The same as a loss of its own."""
    return -fails(tokens).value.sum(), {}


def valued(table: TurnTable) -> FloatArray:
    """What the critic learns, less what it expects."""
    return (learned(table) - table.measured["value_N"]).astype(np.float32)


def learned(table: TurnTable, **_settings: float) -> FloatArray:
    """What the critic learns, whatever the discount. It does not cancel over a batch: that would leave the critic's
    bias a gradient of rounding alone, of which Adam makes a step."""
    return (alternating(table) + 0.25).astype(np.float32)


valued.value_targets = learned  # type: ignore[attr-defined]
