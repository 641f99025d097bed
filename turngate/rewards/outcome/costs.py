"""Cost of the models that were asked, on a scale from 0 (expensive) to 1 (cheap)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from turngate.errors import ShapeError

LOW, HIGH = 0.05, 0.95
"""The quantiles of √cost between which costs are told apart."""


def cost_score(cost: float, low: float, high: float) -> float:
    """``1 − clip((√c − low)/(high − low), 0, 1)``, Router-R1's cost reward (https://arxiv.org/abs/2506.09033).

    ``low`` and ``high`` are values of √c. Where they are equal, 1 up to there and 0 above (ours). Raises ShapeError for
    a negative cost, and for bounds in the wrong order.
    """
    if not (cost >= 0 and math.isfinite(cost) and low <= high):
        raise ShapeError(f"cost {cost} between {low} and {high}: a cost is at least 0, and the lower bound comes first")
    root = math.sqrt(cost)
    if low == high:
        return float(root <= low)
    return 1.0 - min(1.0, max(0.0, (root - low) / (high - low)))


def cost_bounds(costs: Sequence[float]) -> tuple[float, float]:
    """The 5 % and 95 % quantiles of ``√c``, with linear interpolation. Raises ShapeError without costs."""
    if not costs:
        raise ShapeError("no costs to take quantiles of")
    low, high = np.quantile(np.sqrt(np.asarray(costs, np.float64)), [LOW, HIGH])
    return float(low), float(high)
