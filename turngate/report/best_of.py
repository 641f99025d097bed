"""One of k episodes of a task is chosen: by a vote over their answers, by a verifier or by likelihood.

Choosers are compared on the same k episodes, so at equal tokens. The n episodes of a task are cut into blocks of k in
the order in which they were played, and the means are over all blocks of all tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from turngate.errors import ShapeError
from turngate.report.intervals import Interval
from turngate.trainer.batch.shared_turns import sampled_turns
from turngate.types import ScoredGroup, Source, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedEpisode:
    """The part of a usable episode that choosers see, and whether it is a success, which none of them sees.

    ``answer``: the one recorded, None for none. ``paid``: what the rubric paid. ``logprob``: mean log-probability of
    its tokens, None where the sampler gave none. ``stated``: the confidence that it stated, None without a readable
    one, and ``may_state`` whether its environment reads any.
    """

    task: str
    success: bool
    answer: str | None
    paid: float
    logprob: float | None
    tokens: int
    stated: float | None
    may_state: bool


Chooser: TypeAlias = Callable[[Sequence[PlayedEpisode]], PlayedEpisode]


def played_episodes(groups: Iterable[ScoredGroup]) -> list[PlayedEpisode]:
    """Those of all usable episodes, in order."""
    return [
        _played(trajectory, success=bool(score.success), paid=score.compared.total)
        for group in groups
        for trajectory, score in zip(group.trajectories, group.scores, strict=True)
        if score.usable
    ]


def _played(trajectory: Trajectory, *, success: bool, paid: float) -> PlayedEpisode:
    facts = {fact.name: fact.value for fact in trajectory.record().evidence if fact.turn is None}
    said = [turn.completion.logprobs_K for turn in sampled_turns(trajectory)]
    logprobs = np.concatenate([np.zeros(0), *said])
    answer, stated = facts.get("answer"), facts.get("stated_confidence")
    is_number = isinstance(stated, int | float) and not isinstance(stated, bool)
    return PlayedEpisode(
        task=trajectory.task.id,
        success=success,
        answer=None if answer is None else str(answer),
        paid=paid,
        logprob=float(logprobs.mean()) if len(logprobs) else None,
        tokens=sum(int(np.count_nonzero(turn.source == Source.POLICY)) for turn in sampled_turns(trajectory)),
        stated=float(stated) if is_number else None,  # type: ignore[arg-type]
        may_state="stated_confidence" in facts,
    )


# --- choosers ---------------------------------------------------------------------------------------------------------


def majority(answers: Sequence[str | None], weights: Sequence[float] | None = None) -> int:
    """The place of the first episode with the answer that has most votes; of equals, the answer that came first.

    An episode without an answer has no vote; if all have none, the first is taken. ``weights``: how much each vote
    counts. Answers A, A, B, B, B: B; with the weights .9, .8, .3, .2, .4: A. Raises ShapeError for no episode.
    """
    if not answers:
        raise ShapeError("a vote needs at least one episode")
    votes: Counter[str] = Counter()
    for place, answer in enumerate(answers):
        if answer is not None:
            votes[answer] += 1.0 if weights is None else weights[place]  # type: ignore[assignment]
    if not votes:
        return 0
    best = max(votes, key=lambda answer: votes[answer])  # a Counter keeps the order, and max takes the first
    return answers.index(best)


def by_vote(block: Sequence[PlayedEpisode]) -> PlayedEpisode:
    """The majority's; see ``majority``."""
    return block[majority([one.answer for one in block])]


def by_weighted_vote(block: Sequence[PlayedEpisode]) -> PlayedEpisode:
    """The majority's, each vote weighed by the mean probability of a token of the episode."""
    return block[majority([one.answer for one in block], [np.exp(one.logprob or 0.0) for one in block])]


def by_verifier(block: Sequence[PlayedEpisode]) -> PlayedEpisode:
    """The one that the rubric paid most; of equals, the first. A rubric that knows the outcome makes this pass@k."""
    return max(block, key=lambda one: one.paid)


def by_likelihood(block: Sequence[PlayedEpisode]) -> PlayedEpisode:
    """The one whose tokens were likeliest on average; of equals, the first."""
    return max(block, key=lambda one: -np.inf if one.logprob is None else one.logprob)


# --- tables -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenAt:
    """``success`` by the name of each chooser, at one k, and the sampled tokens that k episodes of a task cost."""

    tokens: float
    success: Mapping[str, Interval]


def chosen_curve(
    episodes: Sequence[PlayedEpisode],
    question: Mapping[str, str],
    choosers: Mapping[str, Chooser],
    *,
    seed: int = 0,
    resamples: int = 2000,
) -> dict[int, ChosenAt]:
    """k → the success of each chooser; k is 1, 2, 4, … and the fewest episodes of a task.

    ``question``: what each task asks; intervals are a bootstrap of 95 % that draws distinct questions. Empty where a
    task was played once.
    """
    by_task: dict[str, list[PlayedEpisode]] = {}
    for one in episodes:
        by_task.setdefault(one.task, []).append(one)
    fewest = min(map(len, by_task.values()), default=0)
    if fewest < 2:
        return {}
    names = sorted({question[task] for task in by_task})
    draws = np.random.default_rng(seed).multinomial(len(names), np.full(len(names), 1 / len(names)), size=resamples)
    place = {name: number for number, name in enumerate(names)}
    curve = {}
    for k in sorted({fewest, *(2**power for power in range(fewest.bit_length()))}):
        blocks = [(task, own[at : at + k]) for task, own in by_task.items() for at in range(0, len(own) - k + 1, k)]
        share = {task: 1 / (len(own) // k) for task, own in by_task.items()}  # every task counts alike
        n_Q = np.bincount([place[question[task]] for task in by_task], minlength=len(names))
        at_Q = [place[question[task]] for task, _ in blocks]
        success = {}
        for name, choose in choosers.items():
            won = [share[task] * choose(block).success for task, block in blocks]
            sum_Q = np.bincount(at_Q, won, minlength=len(names))
            low, high = np.quantile((draws @ sum_Q) / (draws @ n_Q), (0.025, 0.975))
            success[name] = Interval(float(sum_Q.sum() / n_Q.sum()), float(low), float(high))
        tokens = float(np.mean([sum(one.tokens for one in block) for _, block in blocks]))
        curve[k] = ChosenAt(tokens=tokens, success=success)
    return curve


def chosen_lines(curve: Mapping[int, ChosenAt]) -> list[str]:
    """One line for each k."""
    return [
        f"of {k} episodes, {at.tokens:.0f} tokens a task: "
        + ", ".join(f"{name} {of.value:.1%} ({of.low:.1%} to {of.high:.1%})" for name, of in at.success.items())
        for k, at in curve.items()
    ]
