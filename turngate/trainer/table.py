"""From scored groups to columns: the one place where trajectories become a ``TurnTable``."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from turngate.errors import ShapeError
from turngate.trainer.components import paid_columns
from turngate.trainer.shared_turns import shared_columns
from turngate.types import FloatArray, Score, ScoredGroup, Source, Trajectory, Turn, TurnTable, derive_seed


def tabulate(groups: Sequence[ScoredGroup]) -> TurnTable:
    """All turns of ``groups`` end to end, siblings in order.

    Cohorts are (task id, guidance level) as dense numbers in order of appearance; unguided is a level of its own.
    Payments and process verdicts about a whole episode count for its last turn. Raises ShapeError, naming the
    trajectory, for a score that is not usable (filters drop those), for an episode without turns and for a reward of
    another length than its turns.
    """
    pairs = [pair for group in groups for pair in zip(group.trajectories, group.scores, strict=True)]
    for trajectory, score in pairs:
        _validate(trajectory, score)
    cohorts: dict[tuple[str, int | None], int] = {}
    states: dict[tuple[str, str], int] = {}
    cohort_B = [cohorts.setdefault(_cohort(trajectory), len(cohorts)) for trajectory, _ in pairs]
    columns = [_process(score) for _, score in pairs]
    lengths = [len(trajectory.turns) for trajectory, _ in pairs]
    return TurnTable(
        reward_N=np.concatenate([np.zeros(0, np.float32), *(score.reward_T for _, score in pairs)]),
        process_N=np.array([value for process, _ in columns for value in process], np.float32),
        open_N=np.array([value for _, is_open in columns for value in is_open], np.bool_),
        traj_N=np.repeat(np.arange(len(pairs), dtype=np.int32), lengths),
        index_N=np.array([index for length in lengths for index in range(length)], np.int32),
        state_N=np.array([state for trajectory, _ in pairs for state in _states(trajectory, states)], np.int64),
        outcome_B=np.array([score.outcome for _, score in pairs], np.float32),
        cohort_B=np.array(cohort_B, np.int32),
        measured=_measured([trajectory for trajectory, _ in pairs])
        | {"settled_B": np.array([_settled(score) for _, score in pairs], np.float32)}
        | paid_columns([score for _, score in pairs])
        | shared_columns([trajectory for trajectory, _ in pairs]),
    )


def _validate(trajectory: Trajectory, score: Score) -> None:
    n_turns = len(trajectory.turns)
    if not score.usable or score.outcome is None:
        why = score.problem or "it has no outcome"
        raise ShapeError(f"trajectory '{trajectory.id}' has no usable score ({why}); drop it before credit")
    if not n_turns:
        raise ShapeError(f"trajectory '{trajectory.id}' has no turns; drop it before credit")
    if score.reward_T.shape != (n_turns,):
        raise ShapeError(f"reward_T of trajectory '{trajectory.id}' is {score.reward_T.shape}, expected ({n_turns},)")


def _cohort(trajectory: Trajectory) -> tuple[str, int | None]:
    return trajectory.task.id, None if trajectory.guidance is None else trajectory.guidance.level


def _process(score: Score) -> tuple[list[float], list[bool]]:
    """Per turn: the earned process value (NaN = no verdict), and whether no gate closed it."""
    n_turns = len(score.reward_T)
    process, is_open = [float("nan")] * n_turns, [True] * n_turns
    for event in score.ledger:
        if event.kind == "process":
            turn = n_turns - 1 if event.turn is None else event.turn
            before = process[turn]
            process[turn] = event.earned if before != before else before + event.earned
            is_open[turn] &= event.factor != 0.0
    return process, is_open


def _settled(score: Score) -> float:
    """What was paid for anything but the process."""
    process = sum(event.paid for event in score.ledger if event.kind == "process")
    return float(score.reward_T.sum(dtype=np.float64)) - process


def _states(trajectory: Trajectory, known: dict[tuple[str, str], int]) -> list[int]:
    """The state before each turn as a number that is the same in every run; -1 where the environment gave no key."""
    numbers = []
    for turn in trajectory.turns:
        key = (trajectory.task.env_id, turn.observation.state_key)
        if key not in known:
            known[key] = derive_seed("state", *key) if key[1] else -1
        numbers.append(known[key])
    return numbers


def _measured(trajectories: Sequence[Trajectory]) -> dict[str, npt.NDArray[Any]]:
    """Tokens and surprisal of each turn, and which trajectory branched off which, and where."""
    logprobs = [_sampled(turn) for trajectory in trajectories for turn in trajectory.turns]
    places = {trajectory.id: place for place, trajectory in enumerate(trajectories)}
    parents = [trajectory.parent or ("", 0) for trajectory in trajectories]
    parent_B = np.array([places.get(name, -1) for name, _ in parents], np.int32)
    return {
        "tokens_N": np.array([len(logprobs_K) for logprobs_K in logprobs], np.int32),
        "surprisal_N": np.array([-one.mean() if len(one) else np.nan for one in logprobs], np.float32),
        "parent_B": parent_B,
        "branch_B": np.where(parent_B < 0, 0, [turn for _, turn in parents]).astype(np.int32),
    }


def _sampled(turn: Turn) -> FloatArray:
    """The sampler's logprobs of the tokens that the policy chose itself: [K], without a forced prefix."""
    logprobs_K: FloatArray = turn.completion.logprobs_K[turn.source[len(turn.context_ids) :] == Source.POLICY]
    return logprobs_K
