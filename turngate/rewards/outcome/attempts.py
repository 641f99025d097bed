"""Several attempts at one task: which is better than which, and which answer they agree on."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from turngate.errors import ConfigError, ShapeError


def weighted_vote(answers: Sequence[Hashable | None], scores: Sequence[float]) -> Hashable | None:
    """The answer with the greatest sum of scores, the first seen on a tie; None answers have no vote."""
    if len(answers) != len(scores):
        raise ShapeError(f"{len(answers)} answers but {len(scores)} scores")
    totals: dict[Hashable, float] = {}
    for answer, score in zip(answers, scores, strict=True):
        if answer is not None:
            totals[answer] = totals.get(answer, 0.0) + score
    return max(totals, key=totals.__getitem__) if totals else None


def majority(answers: Sequence[Hashable | None], *, min_support: int = 2) -> Hashable | None:
    """The most frequent answer, the first seen on a tie; None if no answer has ``min_support`` votes.

    None answers have no vote. The default follows test-time RL (https://arxiv.org/abs/2504.16084): an answer given only
    once says nothing.
    """
    if min_support < 1:
        raise ConfigError(f"min_support={min_support} must be at least 1")
    label = weighted_vote(answers, [1.0] * len(answers))
    return label if label is not None and sum(answer == label for answer in answers) >= min_support else None


def majority_rewards(
    answers: Sequence[Hashable | None], *, min_support: int = 2, absent: float | None = None
) -> tuple[float | None, ...]:
    """``1[answer = majority]`` per attempt; without a majority every reward is None (skip the task).

    An attempt without answer earns ``absent``: by default it is not measured. It pays for agreeing, not for being
    right: all attempts that make one mistake are paid.
    """
    rewards = _against(answers, majority(answers, min_support=min_support))
    return tuple(
        absent if answer is None and reward is not None else reward
        for answer, reward in zip(answers, rewards, strict=True)
    )


def co_rewards(
    answers: Sequence[Hashable | None], rephrased: Sequence[Hashable | None], *, faithful: bool = False
) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
    """Co-Reward: answers to a question are compared with the majority of the answers to its paraphrase, and back.

    Agreeing with oneself no longer pays; agreeing across wordings does. Without a label on the other side the rewards
    are None; ``faithful=True`` (https://arxiv.org/abs/2508.00410) gives 0. Majorities need one vote, as published.
    """
    label, label_rephrased = majority(answers, min_support=1), majority(rephrased, min_support=1)
    mine, theirs = _against(answers, label_rephrased), _against(rephrased, label)
    if faithful:
        return tuple(value or 0.0 for value in mine), tuple(value or 0.0 for value in theirs)
    return mine, theirs


def win_rate(won_NN: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Share of the others that each of N attempts is better than: float64[N] in [0, 1].

    ``r_i = mean_{j≠i} won_ij``, where ``won_ij`` is 1, ½ (tie) or 0 and NaN where there was no verdict; ``won_ji`` is
    ``1 − won_ij``. Over full comparisons the mean of all is ½, so cycles (A over B over C over A) cancel. An attempt
    that was never compared is NaN; a single one is. Pref-GRPO (https://arxiv.org/abs/2508.20751) pays it among
    siblings, WebArbiter (https://arxiv.org/abs/2601.21872) compares actions of one state so. Raises ShapeError for a
    matrix that contradicts itself.
    """
    won_NN = np.array(won_NN, np.float64)
    if won_NN.ndim != 2 or won_NN.shape[0] != won_NN.shape[1]:
        raise ShapeError(f"won_NN has shape {won_NN.shape}; it must be square")
    np.fill_diagonal(won_NN, np.nan)
    if ((won_NN < 0) | (won_NN > 1)).any() or not np.allclose(won_NN, 1 - won_NN.T, equal_nan=True):
        raise ShapeError("won_NN must hold shares in [0, 1] with won_ij = 1 − won_ji; settle both orders first")
    count_N = np.sum(~np.isnan(won_NN), axis=1)
    rate_N = np.full(len(won_NN), np.nan)
    some_N = count_N > 0
    rate_N[some_N] = np.nansum(won_NN, axis=1)[some_N] / count_N[some_N]
    return rate_N


def _against(answers: Sequence[Hashable | None], label: Hashable | None) -> tuple[float | None, ...]:
    return tuple(None if label is None else float(answer == label) for answer in answers)
