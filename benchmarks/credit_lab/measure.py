"""How far an estimator's gradient is from the exact one, and how noisy it is.

The data are gradients of independent units (a cohort, or a batch where cohorts act on each other), each averaged over
its trajectories. ``_X`` are the coordinates (observation, action).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import NormalDist

import numpy as np

from benchmarks.credit_lab.draw import Draw, draw, gradients, table
from benchmarks.credit_lab.estimators import BATCH, Estimator
from benchmarks.credit_lab.paths import Floats, Ints, Paths, chances, gradient, score
from turngate.types import FloatArray, TurnTable, derive_seed

THREE_SIGMA = 2 * (1 - NormalDist().cdf(3.0))  # the chance that one honest coordinate is more than 3 errors off
ROUNDING = 1e-6  # advantages are float32; below this, relative to the gradient, a difference says nothing


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bias:
    """What the mean gradient shows. ``error_X`` are standard errors; ``z`` the worst |bias| in them.

    ``raw`` is the length of the bias in lengths of the exact gradient. After the best scale only the part of the mean
    at right angles to the exact gradient is left: ``bend``, relative to the mean (the sine of the angle between both;
    ``scale`` says if it points forwards). ``raw_error`` and ``bend_error`` are how long they would be by noise alone.
    """

    mean_X: Floats
    bias_X: Floats
    error_X: Floats
    z: float
    raw: float
    raw_error: float
    scale: float
    bend: float
    bend_error: float
    bend_z: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measurement:
    """One estimator on one process."""

    process: str
    estimator: str
    trajectories: int
    bias: Bias
    noise: float
    variance: float
    cosine: float
    cosine_batch: float
    samples: float


def bound(coordinates: int) -> float:
    """Standard errors that an honest estimator exceeds as rarely as 3 on one coordinate (Bonferroni)."""
    return NormalDist().inv_cdf(1 - THREE_SIGMA / (2 * max(coordinates, 1)))


def unit_gradients(estimator: Estimator, drawn: Draw, siblings: int) -> Floats:
    """The gradient of each unit of the draw: float64[U, X]."""
    unit_B = drawn.cohort_B // estimator.unit
    return gradients(drawn, credit(estimator, table(drawn, estimator.columns), estimator.unit * siblings), unit_B)


def credit(estimator: Estimator, turns: TurnTable, size: int) -> FloatArray:
    """Credit of a table of many units of ``size`` trajectories; batch-wide estimators see one unit at a time."""
    if not estimator.whole_batch:
        return estimator.credit(turns)
    parts = [estimator.credit(part) for part in _split(turns, size)]
    return np.concatenate(parts)


def _split(turns: TurnTable, size: int) -> list[TurnTable]:
    edges = np.searchsorted(turns.traj_N, np.arange(0, turns.n_trajectories + 1, size))
    return [_cut(turns, slice(low, high), slice(unit * size, (unit + 1) * size))
            for unit, (low, high) in enumerate(pairwise(edges))]  # fmt: skip


def _cut(turns: TurnTable, rows: slice, episodes: slice) -> TurnTable:
    return replace(
        turns,
        reward_N=turns.reward_N[rows],
        process_N=turns.process_N[rows],
        open_N=turns.open_N[rows],
        traj_N=turns.traj_N[rows] - np.int32(episodes.start),
        index_N=turns.index_N[rows],
        state_N=turns.state_N[rows],
        outcome_B=turns.outcome_B[episodes],
        cohort_B=turns.cohort_B[episodes] - turns.cohort_B[episodes.start],
        measured={name: array[rows if name.endswith("_N") else episodes] for name, array in turns.measured.items()},
    )


def bias_of(gradient_UX: Floats, exact_X: Floats) -> Bias:
    """Compare the mean over units with the exact gradient. A mean of 0 has no direction: bend is NaN."""
    n_units = len(gradient_UX)
    mean_X, error_X = gradient_UX.mean(0), gradient_UX.std(0, ddof=1) / math.sqrt(n_units)
    floor = ROUNDING * max(float(np.abs(exact_X).max()), float(np.abs(mean_X).max()))
    exact = float(np.linalg.norm(exact_X))
    way_X = exact_X / exact
    auxiliary_UX = gradient_UX - np.outer(gradient_UX @ way_X, way_X)
    auxiliary_X, auxiliary_error_X = auxiliary_UX.mean(0), auxiliary_UX.std(0, ddof=1) / math.sqrt(n_units)
    length = float(np.linalg.norm(mean_X))
    silent = length <= floor
    return Bias(
        mean_X=mean_X,
        bias_X=mean_X - exact_X,
        error_X=error_X,
        z=float((np.abs(mean_X - exact_X) / np.maximum(error_X, floor)).max()),
        raw=float(np.linalg.norm(mean_X - exact_X)) / exact,
        raw_error=float(np.linalg.norm(error_X)) / exact,
        scale=float(mean_X @ way_X) / exact,
        bend=math.nan if silent else float(np.linalg.norm(auxiliary_X)) / length,
        bend_error=math.nan if silent else float(np.linalg.norm(auxiliary_error_X)) / length,
        bend_z=float((np.abs(auxiliary_X) / np.maximum(auxiliary_error_X, floor)).max()),
    )


def cosine(first: Floats, second: Floats) -> Floats:
    """Cosine along the last axis; 0 where either is 0."""
    length = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
    result: Floats = np.divide((first * second).sum(-1), length, out=np.zeros_like(length), where=length > 0)
    return result


def cosine_by_size(gradient_UX: Floats, target_X: Floats) -> list[tuple[int, float]]:
    """(units, mean cosine with the target of an average over so many), for sizes 1, 2, 4 … with 8 averages or more."""
    found, size = [], 1
    while len(gradient_UX) // size >= 8:
        blocks = len(gradient_UX) // size
        mean_BX = gradient_UX[: blocks * size].reshape(blocks, size, -1).mean(1)
        found.append((size, float(cosine(mean_BX, target_X).mean())))
        size *= 2
    return found


def samples_to(level: float, curve: Sequence[tuple[int, float]], limit: float) -> float:
    """Units at which the mean cosine reaches ``level``, between sizes by the logarithm; infinite if it never does.

    ``limit`` is the cosine of the mean over all units: where the largest size is not enough but the limit is, NaN.
    """
    before: tuple[int, float] | None = None
    for size, value in curve:
        if value >= level:
            if before is None:
                return float(size)
            share = (level - before[1]) / (value - before[1])
            return float(before[0] * (size / before[0]) ** share)
        before = (size, value)
    return math.nan if limit >= level else math.inf


def measure(
    estimator: Estimator, paths: Paths, logits_OA: Floats, drawn: Draw, siblings: int, level: float = 0.9
) -> Measurement:
    """All numbers of one estimator on one process, from one large draw."""
    gradient_UX = unit_gradients(estimator, drawn, siblings)
    paid_X = gradient(paths, logits_OA, paths.total_P).ravel()
    true_X = gradient(paths, logits_OA, paths.truth_P).ravel()
    size = estimator.unit * siblings
    bias = bias_of(gradient_UX, paid_X)
    variance = float(gradient_UX.var(0, ddof=1).sum()) * size
    length = float(np.linalg.norm(bias.mean_X))
    curve = cosine_by_size(gradient_UX, true_X)
    limit = float(cosine(bias.mean_X, true_X)) if not math.isnan(bias.bend) else math.nan
    batches = BATCH // estimator.unit
    blocks = len(gradient_UX) // batches
    batch_BX = gradient_UX[: blocks * batches].reshape(blocks, batches, -1).mean(1)
    return Measurement(
        process=paths.process.name,
        estimator=estimator.label,
        trajectories=len(drawn.path_B),
        bias=bias,
        noise=math.sqrt(variance) / length if not math.isnan(bias.bend) else math.inf,
        variance=variance,
        cosine=limit,
        cosine_batch=float(cosine(batch_BX, true_X).mean()),
        samples=samples_to(level, curve, limit) * size,
    )


def sample(paths: Paths, logits_OA: Floats, *, trajectories: int, siblings: int, forked: bool, seed: int) -> Draw:
    """One large draw for ``measure``: whole batches, at least 10 of them."""
    batch = BATCH * siblings
    cohorts = BATCH * max(10, -(-trajectories // batch))
    rng = np.random.default_rng(derive_seed("measure", paths.process.name, int(forked), seed))
    return draw(paths, logits_OA[None], cohorts=cohorts, siblings=siblings, rngs=[rng], forked=forked)


# --- without sampling ------------------------------------------------------------------------------------------------


def expected_gradient(function: Callable[[TurnTable], FloatArray], paths: Paths, logits_OA: Floats,
                      columns: Sequence[str] = ()) -> Floats:  # fmt: skip
    """The exact mean of an estimator's gradient over all cohorts of two independent siblings: float64[O, A].

    Every pair of episodes of a task is one cohort, weighted by its probability. For estimators that look at one cohort
    at a time; P² cohorts, so for processes of a few hundred episodes.
    """
    first, second = zip(*(_pairs(low, high) for low, high in zip(paths.task_low_K, paths.task_high_K, strict=True)),
                        strict=True)  # fmt: skip
    path_B = np.stack([np.concatenate(first), np.concatenate(second)], axis=1).ravel()
    n = len(path_B)
    none_B, cohort_B = np.full(n, -1), np.arange(n) // 2
    drawn = Draw(
        paths=paths, logits_WOA=logits_OA[None], path_B=path_B, owner_B=np.zeros(n, np.int64), cohort_B=cohort_B,
        parent_B=none_B, branch_B=none_B + 1,
    )  # fmt: skip
    advantage_N = function(table(drawn, columns))
    chance_P = chances(paths, logits_OA)
    task_P = np.repeat(paths.task_chance_K, paths.task_high_K - paths.task_low_K)
    weight_C = task_P[path_B[::2]] * chance_P[path_B[::2]] * chance_P[path_B[1::2]]
    weighted_N = weight_C[cohort_B[drawn.traj_N]] * advantage_N / 2
    credit_X = np.bincount(drawn.choice_N, weights=weighted_N, minlength=math.prod(paths.shape))
    return score(credit_X.astype(np.float64).reshape(paths.shape), logits_OA)


def _pairs(low: int, high: int) -> tuple[Ints, Ints]:
    rows = np.arange(low, high)
    return np.repeat(rows, len(rows)), np.tile(rows, len(rows))
