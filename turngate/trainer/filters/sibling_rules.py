"""Filters that choose which siblings of a scored group are trained on: they return bool[B], True = stays.

They run before credit, so baselines are taken over the trajectories that stay. Those are chosen by their results, so
they are no longer a fair sample of the policy: the gradient is biased, as these methods intend. Guided and unguided
siblings are chosen separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self, TypeAlias

import numpy as np
from pydantic import Field, model_validator

from turngate.envs.leak import MOST_COPIED, leak_score
from turngate.errors import ConfigError, ShapeError
from turngate.rewards.consistency import Mode, Odd, OneSided, consistency, prof_keep
from turngate.trainer.batch.shared_turns import shared_columns
from turngate.trainer.filters.parts import FilterPart
from turngate.trainer.guidance.results import is_solved
from turngate.types import (
    SUCCESS_SLACK,
    BoolArray,
    IntArray,
    Score,
    ScoredGroup,
    Source,
    Trajectory,
    Turn,
    derive_seed,
)

ROUNDING = 1e-9
"""A rate may miss a threshold by so much and still count as equal to it."""

NKeep: TypeAlias = Annotated[int, Field(description="How many siblings of a group stay.", ge=1)]
Dropped: TypeAlias = Annotated[
    Mode,
    Field(
        description="Which episodes are chosen by their process verdicts. both: successes and failures; correct: "
        "successes, while failures are chosen at random; for verdicts that say little about failures."
    ),
]
OneSidedGroups: TypeAlias = Annotated[
    OneSided,
    Field(description="What happens to a group of successes or failures alone: it is trimmed, kept whole or dropped."),
]
OddOne: TypeAlias = Annotated[
    Odd,
    Field(
        description="Which episode is dropped where successes and failures cannot be balanced exactly. even: half-way "
        "numbers are rounded to even, as in the released code; incorrect: a failure."
    ),
]
Threshold: TypeAlias = Annotated[
    float | None,
    Field(
        description="Least outcome of an episode that counts as a success; leave it out for what the rubric calls one."
    ),
]
Components: TypeAlias = Annotated[
    Sequence[str],
    Field(description="Names of the process components whose verdicts are used; leave it out to use all."),
]
MinTurns: TypeAlias = Annotated[
    int,
    Field(description="Episodes with fewer judged turns than this are dropped first; set 1 where one turn is normal."),
]
MaxTurns: TypeAlias = Annotated[int, Field(description="Episodes with more judged turns than this are dropped first.")]
Seed: TypeAlias = Annotated[int, Field(description='Seed of the random choice among failures, with mode = "correct".')]
HalfOrSo: TypeAlias = Annotated[
    int | None, Field(description="How many siblings of a group stay; leave it out for half of them.", ge=1)
]
VoidFact: TypeAlias = Annotated[
    str,
    Field(
        description="Name of the evidence that is true on a void turn. Leave it out for turns without a call that "
        "could be read."
    ),
]
PerTask: TypeAlias = Annotated[
    int, Field(description="Most successes of a task that stay, so that easy tasks do not crowd out others.", ge=1)
]
Distinct: TypeAlias = Annotated[
    bool, Field(description="Whether, of successes with the same actions in the same states, only the first stays.")
]
MostCopied: TypeAlias = Annotated[
    float,
    Field(description="Largest share of a hint's words that an action may repeat, in their order.", ge=0, lt=1),
]


@FilterPart.define
def prof(
    group: ScoredGroup,
    *,
    n_keep: NKeep = 4,
    mode: Dropped = "both",
    one_sided: OneSidedGroups = "trim",
    odd: OddOne = "even",
    threshold: Threshold = None,
    components: Components = (),
    min_turns: MinTurns = 2,
    max_turns: MaxTurns = 30,
    seed: Seed = 0,
) -> BoolArray:
    """PROF: keeps the siblings whose process verdicts fit their outcomes best, successes and failures in balance.

    ``c = (2o − 1) · mean 2(s − s̄)``, o = 1 for a success, s the process verdicts of the
    ledger before any gate, less 10 for fewer than ``min_turns`` or more than ``max_turns`` of them. The verdict of a
    component with a negative weight counts against the episode; ``components`` names those that count, left out all do.
    ``mode``, ``one_sided`` and ``odd`` are those of ``rewards.consistency.prof_keep``; ``seed`` is for mode "correct".

    Source: https://arxiv.org/abs/2509.03403, where 4 of 8 stay, 2 and 30 bound the steps (paragraphs there, turns with
    a verdict here: set ``min_turns=1`` where one turn is normal). Degenerate: at most ``n_keep`` siblings all stay;
    without any verdict the first ones do. Raises ShapeError for a score without an outcome, ConfigError as
    ``prof_keep`` does.
    """
    outcome_B = np.array([_succeeded(group, row, threshold) for row in range(len(group.scores))], np.float64)
    verdicts = [_verdicts(score, components) for score in group.scores]
    process_N = np.array([value for values in verdicts for value in values], np.float64)
    owner_N = np.repeat(np.arange(len(verdicts)), [len(values) for values in verdicts])
    consistency_B = consistency(outcome_B, process_N, owner_N, min_turns=min_turns, max_turns=max_turns)
    own_seed = derive_seed(seed, *(trajectory.id for trajectory in group.trajectories))
    return prof_keep(
        outcome_B,
        consistency_B,
        _cohorts(group.trajectories),
        n_keep=n_keep,
        mode=mode,
        one_sided=one_sided,
        odd=odd,
        seed=own_seed,
    )


@FilterPart.define
def successes(group: ScoredGroup, *, most: PerTask = 4, distinct: Distinct = True) -> BoolArray:
    """RAFT: keeps successes, at most ``most`` of each task and none twice, to be imitated.

    Successes are the rubric's, unless a gate closed what they were paid for it. Two are the same if every turn shows
    the same state and the same action (``shared_columns``), whatever was thought; the first ones stay.

    Source: filtered behaviour cloning, RAFT, https://arxiv.org/abs/2304.06767; the cap and the comparison of actions
    are the methods sheet's (E6). Use it with a credit rule that compares no siblings, such as "imitate": under others
    a lone success teaches nothing. Known weakness: lucky successes are imitated too. Raises ConfigError for most < 1.
    """
    if most < 1:
        raise ConfigError(f"successes: most is {most}; at least one success of a task must stay")
    stays_B = np.zeros(len(group.trajectories), np.bool_)
    seen: set[tuple[int, ...]] = set()
    for row, (trajectory, score) in enumerate(zip(group.trajectories, group.scores, strict=True)):
        acts = tuple(shared_columns([trajectory])["act_N"].tolist())
        open_ = all(event.factor for event in score.ledger if event.kind == "outcome")
        if is_solved(score) and open_ and stays_B.sum() < most and not (distinct and acts in seen):
            stays_B[row] = True
            seen.add(acts)
    return stays_B


def balanced(group: ScoredGroup, *, low: float | None = None, high: float | None = None) -> BoolArray:
    """Balanced difficulty filtering: keeps siblings of whom neither too few nor too many succeeded.

    ``low ≤ successes/G ≤ high`` in a cohort of G; by default [0.2, 0.8], and [1/G, 1 − 1/G] for G < 8, which is all
    that differ in success.

    Source: https://arxiv.org/abs/2504.03380: what a policy can gain at most grows with p(1 − p), so bands are symmetric
    around 1/2. ⚠ Its thresholds are swept; these are ours. Known weakness: it starves while nearly every task fails.
    """
    cohort_B = _cohorts(group.trajectories)
    won_B = np.array([is_solved(score) for score in group.scores], np.float64)
    n_C = np.bincount(cohort_B)
    edge_C = np.where(n_C >= 8, 0.2, 1 / n_C)
    rate_C = np.bincount(cohort_B, won_B) / n_C
    least_C = edge_C if low is None else np.full(len(n_C), low)
    most_C = 1 - edge_C if high is None else np.full(len(n_C), high)
    stays_B: BoolArray = ((least_C - ROUNDING <= rate_C) & (rate_C <= most_C + ROUNDING))[cohort_B]
    return stays_B


class BalancedPart(FilterPart):
    """Keeps siblings of whom neither too few nor too many succeeded, https://arxiv.org/abs/2504.03380.

    Left out, the bounds are 0.2 and 0.8, and for fewer than 8 siblings any rate but 0 and 1.
    """

    type: Literal["balanced"] = "balanced"
    low: float | None = Field(None, ge=0, le=1)
    """Least success rate of siblings that stay."""
    high: float | None = Field(None, ge=0, le=1)
    """Largest success rate of siblings that stay."""

    @model_validator(mode="after")
    def _is_a_band(self) -> Self:
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"low {self.low} is above high {self.high}, so no siblings would stay")
        if (self.low, self.high) == (0, 1):
            raise ValueError("low = 0 and high = 1 have no effect: every success rate lies between them")
        return self

    def __call__(self, group: ScoredGroup) -> bool | BoolArray:
        return balanced(group, low=self.low, high=self.high)


@FilterPart.define
def dcpo(group: ScoredGroup, *, n_keep: HalfOrSo = None) -> BoolArray:
    """DCPO: keeps the shortest of the better half and the longest of the worse half, ``n_keep`` siblings in all.

    The better half holds the siblings that were paid more; among equals, the shorter ones. Length is the number of
    policy tokens. In a group of odd size the middle one belongs to the better half.

    Source: ChatShopBuddy, https://arxiv.org/abs/2603.06065, 16 siblings of which 8 stay. ⚠ Which of them stay is
    reconstructed from its abstract. Degenerate: at most ``n_keep`` siblings all stay. Raises ConfigError for n_keep <
    1.
    """
    if n_keep is not None and n_keep < 1:
        raise ConfigError(f"dcpo: n_keep is {n_keep}; at least one trajectory of each group must stay")
    paid_B = np.array([score.compared.total for score in group.scores])
    length_B = np.array([_policy_tokens(trajectory) for trajectory in group.trajectories])
    cohort_B = _cohorts(group.trajectories)
    stays_B = np.zeros(len(paid_B), np.bool_)
    for cohort in range(int(cohort_B.max(initial=-1)) + 1):
        members = np.flatnonzero(cohort_B == cohort)
        ranked = members[np.lexsort((length_B[members], -paid_B[members]))]
        half = (len(ranked) + 1) // 2
        n = half if n_keep is None else min(n_keep, len(ranked))
        better, worse = ranked[:half], ranked[half:]
        n_better = max((n + 1) // 2, n - len(worse))
        stays_B[better[np.argsort(length_B[better], kind="stable")][:n_better]] = True
        stays_B[worse[np.argsort(-length_B[worse], kind="stable")][: n - n_better]] = True
    return stays_B


@FilterPart.define
def without_void(group: ScoredGroup, *, evidence: VoidFact = "") -> BoolArray:
    """SimpleTIR: drops episodes with a void turn, one that holds neither a complete tool call nor an answer.

    Void is a turn of which no call could be read (``Action.parse_error``); with ``evidence``, one on which that fact is
    true, and a turn where it was not measured is not. Source: https://arxiv.org/abs/2509.02479, which leaves void
    trajectories in the statistics of their group and out of the loss; here they are out of both.
    Known weakness: a collapse of the format becomes invisible, so watch how many are dropped (0.2 is alarming).
    """
    return np.array([not _has_void_turn(trajectory, evidence) for trajectory in group.trajectories], np.bool_)


@FilterPart.define
def without_copies(group: ScoredGroup, *, at_most: MostCopied = MOST_COPIED, threshold: Threshold = None) -> BoolArray:
    """Leak guard: drops successes that repeat the hint which learning takes out of their context, or speak of it.

    Such an episode would teach the policy to repeat a hint that its context does not hold. True for all but successes
    with ``strip_for_train`` whose ``leak_score`` is above ``at_most``; help of the kind "pointer" names what to do, so
    copying it is allowed (methods sheet A19). Only turns of the policy count, not those of a guide.
    """
    return np.array(
        [
            not _succeeded(group, row, threshold) or _copied(trajectory) <= at_most
            for row, trajectory in enumerate(group.trajectories)
        ],
        np.bool_,
    )


def _copied(trajectory: Trajectory) -> float:
    guidance = trajectory.guidance
    if guidance is None or not guidance.strip_for_train or guidance.kind == "pointer":
        return 0.0
    own = [turn.action.text for turn in trajectory.turns if not _by_guide(turn)]
    return leak_score(own, guidance.text)


def _by_guide(turn: Turn) -> bool:
    return bool((turn.source[len(turn.context_ids) :] == Source.GUIDE).any())


def _outcome(group: ScoredGroup, row: int) -> float:
    outcome = group.scores[row].outcome
    if outcome is None:
        raise ShapeError(f"trajectory '{group.trajectories[row].id}' has no outcome; drop unusable trajectories first")
    return outcome


def _succeeded(group: ScoredGroup, row: int, threshold: float | None) -> bool:
    outcome = _outcome(group, row)
    return is_solved(group.scores[row]) if threshold is None else outcome >= threshold - SUCCESS_SLACK


def _verdicts(score: Score, components: Sequence[str]) -> list[float]:
    events = [event for event in score.compared.ledger if event.kind == "process"]
    wanted = [event for event in events if event.weight and (not components or event.name in components)]
    return [event.value if event.weight > 0 else -event.value for event in wanted]


def _policy_tokens(trajectory: Trajectory) -> int:
    return sum(int(np.count_nonzero(turn.source == Source.POLICY)) for turn in trajectory.turns)


def _has_void_turn(trajectory: Trajectory, evidence: str) -> bool:
    if evidence:
        return any(fact.value is True for fact in trajectory.record().evidence if fact.name == evidence)
    return any(turn.action.parse_error is not None for turn in trajectory.turns)


def _cohorts(trajectories: Sequence[Trajectory]) -> IntArray:
    """Siblings with the same help, numbered from 0: int32[B]."""
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(one.cohort, len(numbers)) for one in trajectories], np.int32)
