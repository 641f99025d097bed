"""Speed of rewards: recorded trajectories scored per second on one core, and whether the cost is linear in turns.

    python -m benchmarks.rewards --seconds 3

Prints JSON. What is timed is ``Rubric.score_group`` with the rubric of ``turngate/Sql-v1``, as a training step calls
it: groups of 8 siblings, 8 turns each, evidence as that environment records it (the component reads a fifth of it),
half of the episodes won, one in five calls not parsed. A round scores 256 trajectories once. The figure is that of the
best round, which other work on the machine slowed least; the median is given beside it, and where the machine is noisy
it can be half of that or less.

``plain_sum`` is the naive alternative, on the same groups: the weighted verdicts added up turn by turn, without checks,
gates, a ledger or reasons. ``by_turns`` is the best time of a single group, per trajectory, for other lengths; the line
through them is fitted by least squares to relative errors, and its deviation is the largest of these.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np

from turngate.envs.sql.rubric import RUBRIC
from turngate.rewards import FromEvidence
from turngate.types import (
    Action,
    Completion,
    EndedBy,
    Ending,
    Evidence,
    FloatArray,
    Group,
    Observation,
    Task,
    Trajectory,
    Turn,
)

SIBLINGS, TRAJECTORIES, TURNS = 8, 256, 8
LENGTHS = (2, 4, 8, 16, 32, 64)


def trajectory(number: int, task: Task, n_turns: int) -> Trajectory:
    """One episode with the evidence that ``turngate/Sql-v1`` records; everything else about it is empty."""
    won = Evidence(name="correct", value=number % 2 == 0, by="verifier")
    submitted = Evidence(name="submitted", value=True, by="verifier")
    return Trajectory(
        id=str(number),
        task=task,
        turns=(_turn(),) * n_turns,
        ending=Ending.FINISHED,
        seed=0,
        evidence=(*chain.from_iterable(_facts(number, turn) for turn in range(n_turns)), submitted, won),
    )


def _facts(number: int, turn: int) -> tuple[Evidence, ...]:
    if (number + turn) % 5 == 0:
        return (Evidence(name="parsed", value=False, turn=turn),)
    measured: dict[str, bool | str] = {"parsed": True, "tool": "run_sql", "executes": (number + turn) % 3 != 0}
    measured |= {"repeated": False, "empty": False}
    return tuple(Evidence(name=name, value=value, turn=turn) for name, value in measured.items())


def _turn() -> Turn:
    nothing = np.zeros(0, np.int32)
    said = Completion(ids_K=nothing, logprobs_K=np.zeros(0, np.float32), ended_by=EndedBy.STOP, policy_version=0)
    return Turn(
        observation=Observation(text=""),
        context_ids=nothing,
        completion=said,
        source=np.zeros(0, np.uint8),
        action=Action(text=""),
    )


def make_groups(n_turns: int) -> list[Group]:
    """A round of groups."""
    task = Task(id="t", env_id="turngate/Sql-v1", prompt="")
    members = [trajectory(number, task, n_turns) for number in range(TRAJECTORIES)]
    return [
        Group(task=task, trajectories=tuple(members[start : start + SIBLINGS]))
        for start in range(0, TRAJECTORIES, SIBLINGS)
    ]


def plain_sum(group: Group) -> list[FloatArray]:
    """What a few lines without a rubric would do: the mean of a verdict over the turns, the outcome at the end."""
    rewards = [reward for reward in RUBRIC.rewards if isinstance(reward, FromEvidence)]
    found = []
    for one in group.trajectories:
        record = one.record()
        reward_T = [0.0] * record.n_turns
        for reward in rewards:
            facts = [fact for fact in record.evidence if fact.name == reward.evidence]
            for fact in facts:
                assert isinstance(fact.value, (int, float))
                turn = record.n_turns - 1 if fact.turn is None else fact.turn
                reward_T[turn] += fact.value * reward.weight / len(facts)
        found.append(np.array(reward_T, np.float32))
    return found


def rounds_s(jobs: Sequence[Callable[[], object]], seconds: float) -> list[list[float]]:
    """The times of the rounds of each job. They take turns, so that a slow minute of the machine slows all of them."""
    times_s: list[list[float]] = [[] for _ in jobs]
    begin_s = time.perf_counter()
    while len(times_s[0]) < 3 or time.perf_counter() - begin_s < seconds:
        for job, taken_s in zip(jobs, times_s, strict=True):
            start_s = time.perf_counter()
            job()
            taken_s.append(time.perf_counter() - start_s)
    return times_s


def on_each(score: Callable[[Group], object], groups: Sequence[Group]) -> Callable[[], object]:
    """A round: every group once."""
    return lambda: [score(group) for group in groups]


def rates(times_s: Sequence[float]) -> dict[str, float]:
    """Trajectories per second, best and median round."""
    return {
        "trajectories_per_second": round(TRAJECTORIES / min(times_s)),
        "trajectories_per_second_median": round(TRAJECTORIES / statistics.median(times_s)),
    }


def line(best_us: Sequence[float]) -> dict[str, object]:
    """µs per trajectory by number of turns, and the line through them."""
    slope, fixed = np.polyfit(LENGTHS, best_us, 1, w=1 / np.array(best_us))
    fitted = fixed + slope * np.array(LENGTHS)
    return {
        "us_per_trajectory": {str(n): round(us, 2) for n, us in zip(LENGTHS, best_us, strict=True)},
        "us_per_turn": round(float(slope), 3),
        "us_fixed": round(float(fixed), 2),
        "largest_deviation_from_the_line": round(float(np.max(np.abs(fitted - best_us) / best_us)), 3),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Speed of rewards on one core.")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each of the two measurements takes")
    seconds = parser.parse_args().seconds
    groups = make_groups(TURNS)
    gated_s, plain_s = rounds_s([on_each(RUBRIC.score_group, groups), on_each(plain_sum, groups)], seconds)
    times_s = rounds_s([on_each(RUBRIC.score_group, make_groups(n)[:1]) for n in LENGTHS], seconds)
    found = {
        "turns": TURNS,
        "rubric": rates(gated_s),
        "plain_sum": rates(plain_s),
        "by_turns": line([min(taken_s) / SIBLINGS * 1e6 for taken_s in times_s]),
    }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
