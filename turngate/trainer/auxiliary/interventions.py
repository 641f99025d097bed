"""InT: the policy's own failed episode up to its first error, with that one turn corrected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from turngate.agents.given import Given, given_again
from turngate.agents.prefix_turns import PrefixTurns
from turngate.trainer.auxiliary.base import (
    ORACLE,
    AuxiliaryContext,
    AuxiliaryRow,
    AuxiliaryRows,
    AuxiliarySource,
    WeightedAuxiliaryPart,
)
from turngate.trainer.batch.shared_turns import shared_columns
from turngate.trainer.guidance.base import Need
from turngate.trainer.guidance.results import is_solved, success_rate, unguided
from turngate.types import Guidance, Metrics, ScoredGroup, Task, Trajectory, derive_seed

LONGEST = 2.0  # a correction that has more than this times the tokens of the episode's median turn tells too much


class Interventions(WeightedAuxiliaryPart):
    """Imitates one corrected turn after the policy's own right ones, and nothing after it.

    Of each task that had failed episodes without help, one failed episode is taken. Its first error is the first turn
    whose action differs from that of the oracle's solution that agrees with it longest. There the oracle's action is
    put in its place. ``checks`` episodes are played on from the corrected turn and as many from the error; the
    correction is kept only if more of the former succeed. A correction with more than twice the tokens of the episode's
    median turn is dropped. Errors in turns 0, 1, [2], …: turns 0, 1 and the corrected 2 are trained.

    Source: InT, https://arxiv.org/abs/2601.14209.

    Left out of the paper: the order, in which all of the imitation comes first and reinforcement learning after it
    (here both are in one update), and the policy as its own corrector, which finds its error and proposes another step
    with a reference at hand. Here the oracle's solution says both.
    """

    type: Literal["interventions"] = "interventions"
    needs: ClassVar[frozenset[Need]] = frozenset({"solutions"})
    checks: int = Field(4, ge=0)
    """Episodes that are played on from the corrected turn, and as many from the error; 0 = no check."""
    train_prefix: bool = True
    """Whether the policy's own turns before the error are imitated too, or only the correction."""

    def open(self, means: AuxiliaryContext) -> AuxiliarySource:
        return Corrections(self, means)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervention:
    """The correction: what replaces turn ``at`` of ``trajectory``, its first error."""

    trajectory: Trajectory
    at: int
    text: str


class Corrections(AuxiliarySource):
    """Finds first errors, corrects and checks them."""

    def __init__(self, part: Interventions, means: AuxiliaryContext) -> None:
        self._part, self._means = part, means
        self._found = self._helped = 0

    async def rows(self, groups: Sequence[ScoredGroup], step: int) -> AuxiliaryRows | None:
        seed = derive_seed(self._means.seed, "interventions", step)
        failed = {group.task.id: one for group in groups if (one := first_failed(group)) is not None}
        known = {task: self._means.helpers.solutions(one.task) for task, one in failed.items()}
        tasks = [failed[task].task for task, solutions in known.items() if solutions]
        shown = await self._shown(tasks, [known[task.id] for task in tasks], seed)
        found = [corrected(failed[task.id], group, known[task.id]) for task, group in zip(tasks, shown, strict=True)]
        corrections = [one for one in found if one is not None and self._row(one) is not None]
        kept = await self._checked(corrections, seed) if self._part.checks else corrections
        self._found, self._helped = len(corrections), len(kept)
        return AuxiliaryRows(rows=[row for one in kept if (row := self._row(one))], weight=self._part.weight)

    def metrics(self) -> Metrics:
        """Corrections of this step, and those that helped."""
        return {"found": float(self._found), "helped": float(self._helped)}

    async def _shown(
        self, tasks: Sequence[Task], known: Sequence[Sequence[Sequence[str]]], seed: int
    ) -> list[ScoredGroup]:
        """The solutions of each task as episodes."""
        entries = [
            [PrefixTurns(turns=tuple(one), guidance=ORACLE, whole=True) for one in solutions] for solutions in known
        ]
        return await self._means.play(tasks, entries, seed=derive_seed(seed, "shown")) if tasks else []

    async def _checked(self, corrections: Sequence[Intervention], seed: int) -> list[Intervention]:
        """Those after which the policy succeeds more often than after its own error."""
        if not corrections:
            return []
        n = self._part.checks
        entries = [[self._prefix(one, one.text)] * n + [self._prefix(one, _given_turn(one))] * n for one in corrections]
        tasks = [one.trajectory.task for one in corrections]
        groups = await self._means.play(tasks, entries, seed=derive_seed(seed, "checked"))
        rates = [(success_rate(group.scores[:n]), success_rate(group.scores[n:])) for group in groups]
        return [
            one
            for one, (with_it, without) in zip(corrections, rates, strict=True)
            if with_it is not None and without is not None and with_it > without
        ]

    @staticmethod
    def _prefix(one: Intervention, then: Given) -> PrefixTurns:
        turns = (*map(given_again, one.trajectory.turns[: one.at]), then)
        own = Guidance(kind="intervention", level=len(turns), text="", source="self")
        return PrefixTurns(turns=turns, guidance=own, seed=one.trajectory.seed)

    def _row(self, one: Intervention) -> AuxiliaryRow | None:
        """The row that is imitated; None for a correction that is too long."""
        turns, said = one.trajectory.turns, self._means.chat.encode_turn(one.text)
        if len(said) > LONGEST * np.median([len(turn.completion.ids_K) for turn in turns]):
            return None
        parts = [(turn.context_ids, turn.completion.ids_K, self._part.train_prefix) for turn in turns[: one.at]]
        parts.append((turns[one.at].context_ids, said, True))
        ids = np.concatenate([part for context, words, _ in parts for part in (context, words)])
        trained = [np.repeat([False, own], [len(context), len(words)]) for context, words, own in parts]
        return AuxiliaryRow(ids=ids, trained=np.concatenate(trained))


def first_failed(group: ScoredGroup) -> Trajectory | None:
    """The first episode of a group that failed without help; None if there is none."""
    pairs = zip(group.trajectories, group.scores, strict=True)
    return next((t for t, s in pairs if s.usable and not is_solved(s) and unguided(t) and t.turns), None)


def corrected(failed: Trajectory, shown: ScoredGroup, solutions: Sequence[Sequence[str]]) -> Intervention | None:
    """The correction of the first error of ``failed``; ``shown`` has the ``solutions`` as they were played.

    None where no solution was right, or the episode agrees with one to its end.
    """
    own = shared_columns([failed])["act_N"]
    agreed: dict[int, int] = {}
    for number, (trajectory, score) in enumerate(zip(shown.trajectories, shown.scores, strict=True)):
        if is_solved(score):
            theirs = shared_columns([trajectory])["act_N"]
            n = min(len(own), len(theirs))
            agreed[number] = next((turn for turn in range(n) if own[turn] != theirs[turn]), n)
    if not agreed:
        return None
    best = max(agreed, key=lambda number: agreed[number])
    at = agreed[best]
    if at >= min(len(own), len(solutions[best])):
        return None
    return Intervention(trajectory=failed, at=at, text=solutions[best][at])


def _given_turn(one: Intervention) -> Given:
    return given_again(one.trajectory.turns[one.at])
