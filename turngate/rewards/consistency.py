"""PROF: learn only from the episodes whose process scores agree with their outcome.

The outcome alone is paid; process scores only select which episodes are kept.
"""

from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from turngate.errors import ConfigError
from turngate.rewards.columns import Float64Array, Int64Array, counts, flags, labels, numbers, owners, totals
from turngate.types import BoolArray, derive_seed

Mode: TypeAlias = Literal["both", "correct"]
OneSided: TypeAlias = Literal["trim", "keep", "drop"]
Odd: TypeAlias = Literal["even", "incorrect"]


def consistency(
    outcome_B: npt.ArrayLike,
    process_N: npt.ArrayLike,
    traj_N: npt.ArrayLike,
    *,
    agg: Literal["mean", "min"] = "mean",
    min_turns: int = 2,
    max_turns: int = 30,
    off_length: float = 10.0,
) -> Float64Array:
    """How well the process scores of an episode fit its outcome: float64[B].

    ``c = (2o − 1) · 2 (agg_t p_t − p̄)`` with p̄ the mean of all verdicts of the batch: high process scores make a
    success consistent and a failure inconsistent. ``off_length`` is subtracted if the episode has verdicts, but fewer
    than ``min_turns`` or more than ``max_turns``. Subtracting p̄ moves all successes alike, and all failures, so it
    never changes a rank.

    Source: https://arxiv.org/abs/2509.03403 and its released code (2, 30 and 10 are its values; its steps are
    paragraphs, so set ``min_turns=1`` where an episode of one turn is normal). ``agg="min"`` is for long episodes.
    Degenerate: c = 0 for an episode without verdicts. Raises ShapeError, also for an outcome other than 0 or 1, which
    the released code drops silently.
    """
    if agg not in ("mean", "min"):
        raise ConfigError(f"agg is '{agg}'; it must be 'mean' or 'min'")
    outcome_B = numbers("outcome_B", outcome_B)
    flags("outcome_B", outcome_B, outcome_B.shape)
    traj_N = owners(traj_N, len(outcome_B))
    process_N = numbers("process_N", process_N, traj_N.shape, missing="allowed")
    known_N = ~np.isnan(process_N)
    count_B = counts(known_N, traj_N, len(outcome_B))
    if agg == "mean":
        score_B = totals(process_N, traj_N, len(outcome_B)) / np.maximum(count_B, 1)
    else:
        score_B = np.full(len(outcome_B), np.inf)
        np.minimum.at(score_B, traj_N[known_N], process_N[known_N])
    centre = float(process_N[known_N].mean()) if known_N.any() else 0.0
    distance_B = np.where(count_B > 0, score_B - centre, 0.0)
    off_B = (count_B > 0) & ((count_B < min_turns) | (count_B > max_turns))
    return (2 * outcome_B - 1) * 2 * distance_B - np.where(off_B, off_length, 0.0)


def prof_keep(
    outcome_B: npt.ArrayLike,
    consistency_B: npt.ArrayLike,
    group_B: npt.ArrayLike,
    *,
    n_keep: int = 4,
    mode: Mode = "both",
    one_sided: OneSided = "trim",
    odd: Odd = "even",
    seed: int = 0,
) -> BoolArray:
    """Which trajectories stay when each group is cut to ``n_keep``: bool[B]. Compute advantages on the kept ones only.

    With ``n_rm = N − n_keep`` and ``Δ = N⁺ − N⁻``: drop the ``n⁺ = clip(round((Δ + n_rm) / 2), 0, n_rm)`` least
    consistent successes and the ``n_rm − n⁺`` least consistent failures, which leaves the group as balanced as it can
    be. ``mode="correct"`` picks the failures to drop at random (by ``seed``): safer where the process scorer is out of
    its depth on failures. Ties drop the larger index. ``odd`` rounds a half: "even" as Python does in the released
    code, "incorrect" so that the failure goes first.

    A group of successes only, or failures only, trains nothing either way: "trim" cuts it (as released), "keep"
    returns it whole, "drop" removes it. Groups of at most ``n_keep`` are returned whole.

    Source: https://arxiv.org/abs/2509.03403 with 8 rollouts, of which 4 are kept. The kept set is not a sample of the
    policy, so the gradient is biased towards consistent episodes; that is the method. Raises ShapeError, ConfigError
    for n_keep < 1 or an unknown choice.
    """
    _check(n_keep, mode, one_sided, odd)
    consistency_B = numbers("consistency_B", consistency_B)
    right_B = flags("outcome_B", outcome_B, consistency_B.shape) == 1
    group_B = labels("group_B", group_B, len(consistency_B))
    keep_B = np.ones(len(group_B), np.bool_)
    order = np.argsort(group_B, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(group_B[order])) + 1):
        right, wrong = members[right_B[members]], members[~right_B[members]]
        if not (len(right) and len(wrong)) and one_sided != "trim":
            keep_B[members] = one_sided == "keep"
            continue
        n_remove = max(len(members) - n_keep, 0)
        n_right = _n_right(len(right) - len(wrong), n_remove, odd)
        rank_B = consistency_B if mode == "both" else _shuffled(consistency_B, wrong, seed)
        keep_B[_least(right, consistency_B, n_right)] = False
        keep_B[_least(wrong, rank_B, n_remove - n_right)] = False
    return keep_B


def _check(n_keep: int, mode: str, one_sided: str, odd: str) -> None:
    if n_keep < 1:
        raise ConfigError(f"n_keep is {n_keep}; at least one trajectory of each group must stay")
    choices = {"mode": (mode, Mode), "one_sided": (one_sided, OneSided), "odd": (odd, Odd)}
    for name, (value, kind) in choices.items():
        if value not in get_args(kind):
            raise ConfigError(f"{name} is '{value}'; it must be one of {', '.join(get_args(kind))}")


def _n_right(surplus: int, n_remove: int, odd: Odd) -> int:
    half = (surplus + n_remove) / 2
    return min(max(round(half) if odd == "even" else int(half // 1), 0), n_remove)


def _least(members: Int64Array, rank_B: Float64Array, n: int) -> Int64Array:
    """The ``n`` members of lowest rank; among equals those of larger index."""
    return members[np.lexsort((-members, rank_B[members]))][:n]


def _shuffled(rank_B: Float64Array, members: Int64Array, seed: int) -> Float64Array:
    """Ranks in which each of ``members`` has a random place that depends on nothing but the seed and its index."""
    random_B = rank_B.copy()
    random_B[members] = [derive_seed(seed, "prof", int(member)) for member in members]
    return random_B
