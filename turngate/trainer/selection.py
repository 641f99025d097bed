"""Which siblings of a scored group are trained: filters that drop single trajectories, bool[B], True = stays.

They come before credit, so baselines are taken over those that stay. What stays is chosen by its result and no longer a
sample of the policy; that is the method, and its bias. Guided and unguided siblings are cut apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import numpy as np
from pydantic import Field

from turngate.errors import ConfigError, ShapeError
from turngate.rewards.consistency import Mode, Odd, OneSided, consistency, prof_keep
from turngate.types import BoolArray, IntArray, Score, ScoredGroup, Source, Trajectory, derive_seed

NKeep: TypeAlias = Annotated[int, Field(description="How many siblings of a group stay.", ge=1)]
Dropped: TypeAlias = Annotated[
    Mode,
    Field(
        description="Which are chosen by their process verdicts: both: successes and failures; correct: successes "
        "only, and failures at random, for verdicts that say little about failures."
    ),
]
OneSidedGroups: TypeAlias = Annotated[
    OneSided,
    Field(description="What happens to a group of successes or failures alone: it is trimmed, kept whole or dropped."),
]
OddOne: TypeAlias = Annotated[
    Odd,
    Field(
        description="Which goes where success and failure cannot be balanced exactly: even: half-way numbers are "
        "rounded to even, as in the released code; incorrect: a failure."
    ),
]
Threshold: TypeAlias = Annotated[float, Field(description="Outcome from which on an episode is a success.")]
Components: TypeAlias = Annotated[
    Sequence[str],
    Field(description="Names of the process components whose verdicts count; leave it out for all."),
]
MinTurns: TypeAlias = Annotated[
    int, Field(description="Episodes with fewer turns with a verdict go first; set 1 where one turn is normal.")
]
MaxTurns: TypeAlias = Annotated[int, Field(description="Episodes with more turns with a verdict go first.")]
Seed: TypeAlias = Annotated[int, Field(description='Decides what is drawn at random, with mode = "correct".')]
HalfOrSo: TypeAlias = Annotated[
    int | None, Field(description="How many siblings of a group stay; leave it out for half of them.", ge=1)
]
VoidFact: TypeAlias = Annotated[
    str, Field(description="Name of the evidence that is true of a turn without a complete tool call or answer.")
]


def prof(
    group: ScoredGroup,
    *,
    n_keep: NKeep = 4,
    mode: Dropped = "both",
    one_sided: OneSidedGroups = "trim",
    odd: OddOne = "even",
    threshold: Threshold = 0.5,
    components: Components = (),
    min_turns: MinTurns = 2,
    max_turns: MaxTurns = 30,
    seed: Seed = 0,
) -> BoolArray:
    """PROF: keeps the siblings whose process verdicts fit their outcomes best, successes and failures in balance.

    ``c = (2o − 1) · mean 2(s − s̄)``, o = 1 where the outcome reaches ``threshold``, s the process verdicts of the
    ledger before any gate, less 10 for fewer than ``min_turns`` or more than ``max_turns`` of them. A verdict that is
    charged counts against the episode; ``components`` names those that count, left out all do. ``mode``, ``one_sided``
    and ``odd`` are those of ``rewards.consistency.prof_keep``; ``seed`` is for mode "correct".

    Source: https://arxiv.org/abs/2509.03403, where 4 of 8 stay, 2 and 30 bound the steps (paragraphs there, turns with
    a verdict here: set ``min_turns=1`` where one turn is normal). Degenerate: at most ``n_keep`` siblings all stay;
    without any verdict the first ones do. Raises ShapeError for a score without an outcome, ConfigError as
    ``prof_keep`` does.
    """
    outcome_B = np.array([_outcome(group, row) >= threshold for row in range(len(group.scores))], np.float64)
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


def dcpo(group: ScoredGroup, *, n_keep: HalfOrSo = None) -> BoolArray:
    """DCPO: keeps the shortest of the better half and the longest of the worse half, ``n_keep`` siblings in all.

    Better is what was paid more, among equals the shorter one; length is policy tokens. An odd one out belongs to the
    better half.

    Source: ChatShopBuddy, https://arxiv.org/abs/2603.06065, 16 siblings of which 8 stay. ⚠ Which of them is
    reconstructed from its abstract. Degenerate: at most ``n_keep`` siblings all stay. Raises ConfigError for
    n_keep < 1.
    """
    if n_keep is not None and n_keep < 1:
        raise ConfigError(f"dcpo: n_keep is {n_keep}; at least one trajectory of each group must stay")
    paid_B = np.array([score.total for score in group.scores])
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


def without_void(group: ScoredGroup, *, evidence: VoidFact = "void_turn") -> BoolArray:
    """SimpleTIR: drops episodes with a void turn, one that holds neither a complete tool call nor an answer.

    ``evidence`` is the fact that says so, true on a turn; not measured is not void. Source: https://arxiv.org/abs/2509.02479,
    which leaves void trajectories in the statistics of their group and out of the loss; here they are out of both.
    Known weakness: a collapse of the format becomes invisible, so watch how many are dropped (0.2 is alarming).
    """
    return np.array([not _happened(trajectory, evidence) for trajectory in group.trajectories], np.bool_)


def _outcome(group: ScoredGroup, row: int) -> float:
    outcome = group.scores[row].outcome
    if outcome is None:
        raise ShapeError(f"trajectory '{group.trajectories[row].id}' has no outcome; drop what cannot be used before")
    return outcome


def _verdicts(score: Score, components: Sequence[str]) -> list[float]:
    events = [event for event in score.ledger if event.kind == "process"]
    wanted = [event for event in events if event.weight and (not components or event.name in components)]
    return [event.value if event.weight > 0 else -event.value for event in wanted]


def _policy_tokens(trajectory: Trajectory) -> int:
    return sum(int(np.count_nonzero(turn.source == Source.POLICY)) for turn in trajectory.turns)


def _happened(trajectory: Trajectory, evidence: str) -> bool:
    return any(fact.value is True for fact in trajectory.record().evidence if fact.name == evidence)


def _cohorts(trajectories: Sequence[Trajectory]) -> IntArray:
    """Siblings with the same help, numbered from 0: int32[B]."""
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(one.cohort, len(numbers)) for one in trajectories], np.int32)
