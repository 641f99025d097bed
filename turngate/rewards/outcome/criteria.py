"""A list of weighted criteria, each judged on its own, in one number."""

from __future__ import annotations

import math
from collections.abc import Sequence

from turngate.errors import ConfigError, ShapeError


def criteria_score(verdicts: Sequence[float | None], weights: Sequence[float]) -> float | None:
    """``clip(Σ_j w_j·c_j / Σ_{w_j > 0} w_j, 0, 1)``; verdicts in [0, 1], pitfalls have negative weights.

    A verdict that could not be read is None, and then so is the score: leaving it out would let an answer that breaks
    the judge drop a pitfall. Put essential criteria into a gate of their own, because here many small ones make up for
    one. After https://arxiv.org/abs/2507.17746, not checked against its code. Raises ShapeError for verdicts that do
    not fit, ConfigError for weights without a positive one.
    """
    if len(verdicts) != len(weights):
        raise ShapeError(f"{len(verdicts)} verdicts but {len(weights)} weights")
    positive = sum(weight for weight in weights if weight > 0)
    if not (positive > 0 and all(map(math.isfinite, weights))):
        raise ConfigError(f"weights {list(weights)} must be finite and hold a positive one, or nothing can be earned")
    total = 0.0
    for verdict, weight in zip(verdicts, weights, strict=True):
        if verdict is None:
            return None
        if not 0 <= verdict <= 1:
            raise ShapeError(f"verdict {verdict} of a criterion must lie in [0, 1]")
        total += weight * verdict
    return min(1.0, max(0.0, total / positive))
