"""The assignment problem: pair two sides one to one so that the summed weight is greatest."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from turngate.errors import ShapeError

Matrix: TypeAlias = npt.NDArray[np.float64]


def best_assignment(weight_RC: npt.ArrayLike) -> tuple[tuple[int, int], ...]:
    """Pairs ``(row, column)`` of a one-to-one matching with the greatest ``Σ weight_RC[row, column]``, by row.

    ``min(R, C)`` pairs come back, also where a weight is 0 or negative. Exact: successive shortest augmenting paths
    with dual prices (the Hungarian method), O(min(R, C)² · max(R, C)), so a long list on one side costs linear time.
    An empty side gives no pairs. Raises ShapeError unless ``weight_RC`` is a finite matrix.
    """
    weight_RC = np.asarray(weight_RC, np.float64)
    if weight_RC.ndim != 2 or not np.isfinite(weight_RC).all():
        raise ShapeError(f"weight_RC has shape {weight_RC.shape}; it must be a matrix of finite numbers")
    if 0 in weight_RC.shape:
        return ()
    if weight_RC.shape[0] > weight_RC.shape[1]:
        return tuple(sorted((row, column) for column, row in best_assignment(weight_RC.T)))
    owner_C = np.full(weight_RC.shape[1], -1)
    price_R, price_C = np.zeros(weight_RC.shape[0]), np.zeros(weight_RC.shape[1])
    for row in range(weight_RC.shape[0]):
        _augment(-weight_RC, row, owner_C, price_R, price_C)
    return tuple(sorted((int(row), column) for column, row in enumerate(owner_C.tolist()) if row >= 0))


def _augment(cost_RC: Matrix, start: int, owner_C: npt.NDArray[np.int_], price_R: Matrix, price_C: Matrix) -> None:
    """Give ``start`` a column along a cheapest alternating path; ``owner_C`` and the prices change in place."""
    distance_C = np.full(cost_RC.shape[1], np.inf)
    before_C = np.full(cost_RC.shape[1], -1)
    done_C = np.zeros(cost_RC.shape[1], np.bool_)
    visited = [(start, 0.0)]
    row, length, column = start, 0.0, -1
    while True:
        through_C = length + cost_RC[row] - price_R[row] - price_C
        closer_C = ~done_C & (through_C < distance_C)
        distance_C[closer_C], before_C[closer_C] = through_C[closer_C], column
        column = int(np.argmin(np.where(done_C, np.inf, distance_C)))
        length, row = float(distance_C[column]), int(owner_C[column])
        if row < 0:
            break
        done_C[column] = True
        visited.append((row, length))
    for visited_row, reached in visited:
        price_R[visited_row] += length - reached
    price_C[done_C] -= length - distance_C[done_C]
    while column >= 0:
        previous = int(before_C[column])
        owner_C[column] = start if previous < 0 else owner_C[previous]
        column = previous
