"""Tables written by hand: one list of rewards per trajectory."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from turngate.rewards import Rubric
from turngate.trainer.batch.table import tabulate
from turngate.types import (
    Action,
    Completion,
    EndedBy,
    Ending,
    Evidence,
    Group,
    Observation,
    ScoredGroup,
    Source,
    Task,
    Trajectory,
    Turn,
    TurnTable,
)


def make_table(
    rewards: Sequence[Sequence[float]],
    cohorts: Sequence[int] | None = None,
    states: Sequence[Sequence[int]] | None = None,
    process: Sequence[Sequence[float]] | None = None,
    is_open: Sequence[Sequence[bool]] | None = None,
    outcome: Sequence[float] | None = None,
    **measured: npt.ArrayLike,
) -> TurnTable:
    """``settled_B`` is the outcome where nothing is said: no gate took anything back.

    ``process_paid_N`` is the verdict where it is open, as a component of weight 1 without a mean pays it. An empty row
    is an episode without turns, which was paid its outcome.
    """
    lengths = [len(row) for row in rewards]
    n = sum(lengths)
    flat = [reward for row in rewards for reward in row]
    outcome_B = np.array([sum(row) for row in rewards] if outcome is None else outcome, np.float32)
    process_N = np.full(n, np.nan, np.float32) if process is None else flatten(process, np.float32)
    open_N = np.ones(n, np.bool_) if is_open is None else flatten(is_open, np.bool_)
    unplaced_B = np.where(np.array(lengths) == 0, outcome_B, 0)
    paid_N = np.where(open_N, np.nan_to_num(process_N), 0)
    recorded = {"unplaced_B": unplaced_B, "settled_B": outcome_B, "process_paid_N": paid_N}
    return TurnTable(
        reward_N=np.array(flat, np.float32),
        process_N=process_N,
        open_N=open_N,
        traj_N=np.repeat(np.arange(len(rewards), dtype=np.int32), lengths),
        index_N=np.array([index for length in lengths for index in range(length)], np.int32),
        state_N=np.array([s for row in states for s in row] if states is not None else [-1] * n, np.int64),
        outcome_B=outcome_B,
        cohort_B=np.array(cohorts if cohorts is not None else [0] * len(rewards), np.int32),
        measured=recorded | {name: np.asarray(array) for name, array in measured.items()},
    )


def flatten(rows: Sequence[Sequence[Any]], dtype: Any) -> npt.NDArray[Any]:
    return np.array([value for row in rows for value in row], dtype)


def make_turn(text: str = "", key: str = "", seen: str = "", ids: Sequence[int] = (7,)) -> Turn:
    """One context token, then the policy's ``ids``."""
    said = np.array(ids, np.int32)
    return Turn(
        observation=Observation(text=seen, state_key=key),
        context_ids=np.array([1], np.int32),
        completion=Completion(
            ids_K=said, logprobs_K=np.full(len(said), -1.0, np.float32), ended_by=EndedBy.STOP, policy_version=0
        ),
        source=np.array([Source.CONTEXT] + [Source.POLICY] * len(said), np.uint8),
        action=Action(text=text),
    )


def make_trajectory(name: str, turns: Sequence[Turn], facts: Sequence[Evidence] = (), task: str = "t") -> Trajectory:
    whose = Task(id=task, env_id="e", prompt="p")
    return Trajectory(id=name, task=whose, turns=tuple(turns), ending=Ending.FINISHED, seed=0, evidence=tuple(facts))


def make_scored(rubric: Rubric, episodes: Sequence[Mapping[str, Any]], tokens: Sequence[Sequence[int]]) -> ScoredGroup:
    """Siblings as a rubric scores them: evidence by name, a list for the turns or one value for the episode.

    ``tokens`` says how many tokens each turn of each episode has.
    """
    played = []
    for index, (episode, sizes) in enumerate(zip(episodes, tokens, strict=True)):
        facts = [
            Evidence(name=name, value=one, turn=turn if isinstance(value, list) else None)
            for name, value in episode.items()
            for turn, one in enumerate(value if isinstance(value, list) else [value])
        ]
        played.append(make_trajectory(str(index), [make_turn(ids=[7] * size) for size in sizes], facts))
    return rubric.score_group(Group(task=played[0].task, trajectories=tuple(played)))


@pytest.fixture(scope="session")
def scored_of() -> Callable[..., ScoredGroup]:
    """Siblings through a rubric."""
    return make_scored


@pytest.fixture(scope="session")
def tabled_of() -> Callable[..., TurnTable]:
    """Siblings through a rubric and ``tabulate``."""

    def tabled(rubric: Rubric, episodes: Sequence[Mapping[str, Any]], tokens: Any = None) -> TurnTable:
        sizes = [[1] * len(episode["step"]) for episode in episodes] if tokens is None else tokens
        return tabulate([make_scored(rubric, episodes, sizes)])

    return tabled


@pytest.fixture(scope="session")
def table_of() -> Callable[..., TurnTable]:
    return make_table
