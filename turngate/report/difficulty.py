"""Success by how hard a task is for another policy: buckets of its pass rate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from turngate.report.intervals import Interval, SuccessCount, by_question, rate_by_question
from turngate.types import ScoredGroup

BUCKETS = ("never", "up to 1/4", "up to 1/2", "up to 3/4", "below 1", "always", "not played")
"""By the share of its episodes in which the base policy solved the task; "not played": by the base policy."""


def pass_rates(groups: Iterable[ScoredGroup]) -> dict[str, SuccessCount]:
    """Successes and usable episodes of every task of which there is one, without those that had help."""
    counts: dict[str, SuccessCount] = {}
    for group in groups:
        for trajectory, score in zip(group.trajectories, group.scores, strict=True):
            if score.usable and trajectory.guidance is None:
                before = counts.get(group.task.id, SuccessCount(0, 0))
                counts[group.task.id] = SuccessCount(before.successes + bool(score.success), before.n + 1)
    return counts


def bucket_of(count: SuccessCount | None) -> str:
    """The bucket of a task."""
    if count is None:
        return BUCKETS[-1]
    quarters = 4 * count.successes
    if not quarters:
        return BUCKETS[0]
    if count.successes == count.n:
        return BUCKETS[5]
    return BUCKETS[1 + next(place for place in range(4) if quarters <= (place + 1) * count.n)]


def by_difficulty(
    rates: Mapping[str, SuccessCount], task_B: Sequence[str], question_B: Sequence[str], success_B: Sequence[bool]
) -> dict[str, tuple[int, Interval]]:
    """Bucket → its number of tasks, and the rate of its episodes with an interval by distinct question.

    Buckets without a task are left out. The last three have one entry per usable episode.
    """
    rows: dict[str, list[tuple[str, str, bool]]] = {}
    for row in zip(task_B, question_B, success_B, strict=True):
        rows.setdefault(bucket_of(rates.get(row[0])), []).append(row)
    return {
        name: (
            len({task for task, _, _ in rows[name]}),
            rate_by_question(by_question([of for _, of, _ in rows[name]], [won for _, _, won in rows[name]])),
        )
        for name in BUCKETS
        if name in rows
    }


def difficulty_lines(found: Mapping[str, tuple[int, Interval]], base: str) -> list[str]:
    """The table in words, one line for each bucket."""
    return [
        f"{base} solved these {n} tasks {name}: {rate.value:.1%} ({rate.low:.1%} to {rate.high:.1%})"
        if name != BUCKETS[-1]
        else f"{base} did not play these {n} tasks: {rate.value:.1%} ({rate.low:.1%} to {rate.high:.1%})"
        for name, (n, rate) in found.items()
    ]
