"""Success on given tasks without guidance. The one exception is an experience memory, which is reported apart."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from turngate.agents.rollout import Player, Worlds, play_groups
from turngate.judges.examiners.examining import Examining
from turngate.trainer.evaluation.abstention import Abstention, abstention_of
from turngate.trainer.evaluation.overlap import question_of
from turngate.trainer.guidance.experience_memory import Recalled
from turngate.types import Group, ScoredGroup, Task

Told: TypeAlias = Callable[[int, int, float | None], None]
"""Hears how many episodes have been played, of how many, and the share of the usable ones that succeeded: None where
none was usable, and where examiners speak afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Results on one split. ``success_B``: one entry per usable episode, in task order; ``task_B``: its task's id.

    ``question_B``: what its task asks, as a short hash; tasks that ask the same are one question. ``tasks`` and
    ``questions``: how many distinct ones were asked, those of unusable episodes included; None where it is not known.
    ``abstention``: who answered and who held back, of usable episodes; None unless some tasks have no answer.
    ``withheld_rules``: how many rules of the experience memory at least one task was not shown because of what they say
    (see ``recalled``), and ``withheld_tasks``: how many tasks were not shown all; None without a memory.
    """

    split: str
    temperature: float
    success_B: tuple[bool, ...]
    task_B: tuple[str, ...]
    question_B: tuple[str, ...]
    unusable: int
    tasks: int | None
    questions: int | None
    abstention: Abstention | None = None
    withheld_rules: int | None = None
    withheld_tasks: int | None = None

    @property
    def episodes(self) -> int:
        """Number of all episodes, the unusable ones included."""
        return len(self.success_B) + self.unusable

    @property
    def rate(self) -> float:
        """Share of usable episodes that succeeded; NaN if there is none."""
        return sum(self.success_B) / len(self.success_B) if self.success_B else float("nan")

    @property
    def rate_of_all(self) -> float:
        """Share of all episodes that succeeded, the unusable ones counted as failures; NaN if none was played.

        An agent that makes the episodes unusable which it cannot solve raises ``rate``, but not this.
        """
        return sum(self.success_B) / self.episodes if self.episodes else float("nan")


async def evaluate(
    player: Player,
    worlds: Worlds,
    score: Callable[[Group], ScoredGroup],
    tasks: Sequence[Task],
    *,
    split: str,
    samples: int,
    seed: int,
    examining: Examining | None = None,
    reads: Collection[str] = (),
    memory: Callable[[Task], Recalled] | None = None,
    told: Told | None = None,
) -> tuple[Evaluation, list[ScoredGroup]]:
    """Play every task ``samples`` times at the player's temperature; returns the results, and the groups to be stored.

    ``examining`` holds the examiners of the run; only those are called that record a fact among ``reads``, the evidence
    that the rubric reads. ``memory`` gives what a task is shown of an experience memory; a caller that passes it has to
    report the result apart from that of the policy alone. ``told`` hears of every task that has been played.
    """
    recalls = None if memory is None else [memory(task) for task in tasks]
    shown = [[None if recalls is None else recalls[n].guidance] * samples for n in range(len(tasks))]
    examined = examining is not None and bool(examining.chosen(reads))
    at_once: dict[str, ScoredGroup] = {}
    played_tasks = usable_now = solved_now = 0

    def ended(group: Group) -> None:
        nonlocal played_tasks, usable_now, solved_now
        played_tasks += 1
        if not examined:
            scored_now = at_once[group.task.id] = score(group)
            usable_now += sum(one.usable for one in scored_now.scores)
            solved_now += sum(one.usable and bool(one.success) for one in scored_now.scores)
        if told is not None:
            rate = solved_now / usable_now if usable_now else None
            told(played_tasks * samples, len(tasks) * samples, rate)

    groups = await play_groups(player, worlds, tasks, shown, seed=seed, ended=ended)
    if examining is not None and examined:
        groups, _ = await examining.examined(groups, 0, reads=reads)
    scored = [score(group) if examined else at_once[group.task.id] for group in groups]
    played = [(group.task.id, s) for group in scored for s in group.scores]
    usable = [(task, s) for task, s in played if s.usable]
    pairs = [pair for group in scored for pair in zip(group.trajectories, group.scores, strict=True)]
    questions = {task: _digest(question) for task, question in question_of(tasks).items()}
    result = Evaluation(
        split=split,
        temperature=player.sampling.temperature,
        success_B=tuple(bool(s.success) for _, s in usable),
        task_B=tuple(task for task, _ in usable),
        question_B=tuple(questions[task] for task, _ in usable),
        unusable=len(played) - len(usable),
        tasks=len(questions),
        questions=len(set(questions.values())),
        abstention=abstention_of(trajectory for trajectory, s in pairs if s.usable),
        withheld_rules=None if recalls is None else len({id_ for one in recalls for id_ in one.withheld}),
        withheld_tasks=None if recalls is None else sum(bool(one.withheld) for one in recalls),
    )
    return result, scored


def _digest(question: str) -> str:
    return hashlib.blake2b(question.encode(), digest_size=8).hexdigest()
