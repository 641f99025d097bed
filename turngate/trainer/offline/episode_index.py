"""Recorded episodes that steps learn from: an index without tokens, which reads the episodes of each step from disk
when the step begins.

Payments are those of today's rubric for the recorded evidence. Tokens and the sampler's log-probabilities stay as they
were recorded.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from pydantic import BaseModel, ConfigDict

from turngate.errors import ConfigError, RunError, UserError
from turngate.store import Store
from turngate.trainer.offline.usable import BRANCHED, GUIDED, kind_to_leave_out, unsampled, without_tokens
from turngate.types import Group, Replay, ScoredGroup, Task, Trajectory

TRAINING = "train"


class Where(BaseModel):
    """Which of the recorded episodes are learned from."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    success: bool | None = None
    """true: solved episodes alone; false: the others alone, by today's rubric. Left out: both."""
    tasks: tuple[str, ...] = ()
    """Ids of tasks; none: all."""
    envs: tuple[str, ...] = ()
    """Names of environments; none: all."""
    versions: tuple[int, int] | None = None
    """First and last version of the policy, for instance [0, 40]; left out: all."""

    def fits(self, one: Recorded) -> bool:
        """Whether an episode is wanted."""
        low, high = self.versions or (one.version, one.version)
        return (
            (self.success is None or self.success == one.success)
            and (not self.tasks or one.task in self.tasks)
            and (not self.envs or one.env in self.envs)
            and low <= one.version <= high
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One recorded episode without its tokens: its place, the policy that played it, and its payments."""

    store: int
    phase: str
    step: int
    place: int
    sibling: int
    task: str
    env: str
    version: int
    paid: float
    success: bool


@dataclass(frozen=True, kw_only=True)
class RecordedEpisodes:
    """The index of the episodes of some runs.

    ``score`` is the present rubric's, ``find`` gives the task of an id with its private data, ``labels`` are the
    environments of the run. ``needs_logprobs``: whether the loss compares with the sampler's log-probabilities.
    ``leave_out``: kinds of episodes that are left out and not refused. ``unlike`` says why an episode cannot be shown
    to the model.
    """

    stores: tuple[Store, ...]
    score: Callable[[Group, int], ScoredGroup]
    find: Callable[[str], Task]
    labels: Collection[str]
    needs_logprobs: bool
    leave_out: Collection[str] = ()
    where: Where = field(default_factory=Where)
    unlike: Callable[[Trajectory], str] = lambda trajectory: ""
    rows: list[Recorded] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    stripped: set[str] = field(default_factory=set)  # ids of those whose hint is left out in training
    caught_up: set[int] = field(default_factory=set)
    evidence: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add_all(self, phase: str) -> None:
        """Index every step of a phase of every run, file by file.

        Raises ConfigError for a phase that is not recorded, and for episodes that cannot be learned from.
        """
        for number, store in enumerate(self.stores):
            steps = store.steps(phase)
            if not steps:
                known = ", ".join(store.phases()) or "none"
                raise ConfigError(f"'{store.path}' has no episodes of phase '{phase}'; recorded phases: {known}")
            for step in steps:
                self.add(number, phase, step)

    def catch_up(self, before: int, *, since: int) -> None:
        """Index the steps of the first run that were recorded since the last call: from ``since`` on, those earlier
        than step ``before``."""
        for step in self.stores[0].steps(TRAINING):
            if since <= step < before and step not in self.caught_up:
                self.add(0, TRAINING, step)
                self.caught_up.add(step)

    def add(self, store: int, phase: str, step: int) -> None:
        """Index one step of one run."""
        for place, group in enumerate(self.stores[store].read(step, phase)):
            if self.where.envs and group.task.env_id not in self.where.envs:
                self.left_out["of other environments"] += len(group.trajectories)
                continue
            if group.task.env_id not in self.labels:
                raise ConfigError(
                    f"'{self.stores[store].path}' has episodes of environment '{group.task.env_id}', and this run has "
                    f"{', '.join(repr(name) for name in sorted(self.labels))}; name those to learn from in where.envs"
                )
            version = next((v for one in group.trajectories if (v := _version(one)) is not None), 0)
            scored = self._scored(Group(task=group.task, trajectories=group.trajectories), step * (phase == TRAINING))
            for sibling, (one, score) in enumerate(zip(group.trajectories, scored.scores, strict=True)):
                self.evidence[group.task.env_id].update(fact.name for fact in one.evidence)
                own = _version(one)
                row = Recorded(
                    store=store,
                    phase=phase,
                    step=step,
                    place=place,
                    sibling=sibling,
                    task=group.task.id,
                    env=group.task.env_id,
                    version=version if own is None else own,
                    paid=score.compared.total if score.usable else 0.0,
                    success=bool(score.success),
                )
                if why := self._left_out(one, usable=score.usable, row=row):
                    self.left_out[why] += 1
                else:
                    self.rows.append(row)
                    if one.guidance is not None and one.guidance.strip_for_train:
                        self.stripped.add(one.id)

    def shown_by(self, unlike: Callable[[Trajectory], str]) -> Self:
        """The same index for another model. ``unlike`` says why an episode would be shown to it in another way than
        recorded; it is asked about every episode that is read, and now about the first of every step. Raises
        ConfigError for such an episode."""
        found = replace(self, unlike=unlike)
        first = {(row.store, row.phase, row.step): row for row in reversed(self.rows)}
        try:
            for row in first.values():
                found.load([row])
        except RunError as error:
            raise ConfigError(str(error)) from error
        return found

    def load(self, rows: Sequence[Recorded], *, joins: bool = False) -> list[Trajectory]:
        """The episodes of some rows, in their order, marked as replayed. Raises RunError for one that the model would
        not be shown as it is recorded, StoreError for one that is gone."""
        wanted: defaultdict[tuple[int, int, str], set[int]] = defaultdict(set)
        for row in rows:
            wanted[row.store, row.step, row.phase].add(row.place)
        groups: dict[tuple[int, int, str, int], ScoredGroup] = {}
        for (store, step, phase), places in wanted.items():
            read = self.stores[store].read_groups(step, phase, places)
            groups |= {(store, step, phase, place): group for place, group in zip(sorted(places), read, strict=True)}
        found = []
        for row in rows:
            one = groups[row.store, row.step, row.phase, row.place].trajectories[row.sibling]
            run = str(self.stores[row.store].path)
            if problem := self.unlike(one):
                raise RunError(f"{run}: {problem}")
            replay = Replay(run=run, step=row.step, version=row.version, joins=joins)
            found.append(replace(one, task=self._task(one.task), replay=replay, parent=None))  # it may not be there
        return found

    def group(self, rows: Sequence[Recorded], step: int) -> ScoredGroup:
        """Some episodes of one task as a group of their own, paid by the rubric of ``step``."""
        loaded = self.load(rows)
        return self._scored(Group(task=loaded[0].task, trajectories=tuple(loaded)), step)

    def joined(self, fresh: ScoredGroup, rows: Sequence[Recorded], step: int) -> ScoredGroup:
        """A fresh group with some recorded episodes of its task, which are compared with the fresh ones."""
        loaded = [replace(one, task=fresh.task) for one in self.load(rows, joins=True)]
        return self._scored(Group(task=fresh.task, trajectories=(*fresh.trajectories, *loaded)), step)

    def _scored(self, group: Group, step: int) -> ScoredGroup:
        try:
            return self.score(group, step)
        except ValueError as error:
            raise ConfigError(f"the rubric cannot score the recorded episodes of '{group.task.id}': {error}") from error

    def _left_out(self, one: Trajectory, *, usable: bool, row: Recorded) -> str:
        """Why an episode is not learned from; "" if it is. Raises ConfigError for one that cannot be."""
        kind = kind_to_leave_out(one)
        if kind in self.leave_out:
            return kind
        if not self.where.fits(row):
            return "of others than where names"
        if not usable:
            return "unusable"
        place = f"'{self.stores[row.store].path}', phase {row.phase}, step {row.step}"
        if kind == GUIDED:
            raise ConfigError(
                f"{place}: '{one.id}' had help that stays in its context or turns that somebody else took, so it is no "
                f'sample of the policy without help; leave such episodes out: leave_out = ["{GUIDED}"]'
            )
        if kind == BRANCHED and _shares_turns(one):
            raise ConfigError(
                f"{place}: '{one.id}' branched off another episode, so the two share turns; leave such episodes out: "
                f'leave_out = ["{BRANCHED}"]'
            )
        if problem := without_tokens(one):
            raise ConfigError(f"{place}: {problem}, so nothing can be learned from it")
        if self.needs_logprobs and (problem := unsampled(one)):
            raise ConfigError(
                f"{place}: {problem}; the loss needs ratios to who sampled, so learn with an objective without a ratio "
                "and without corrections, or from other episodes"
            )
        return ""

    def _task(self, recorded: Task) -> Task:
        """The task with its private data, which are not stored; the recorded one where the run has no such task."""
        try:
            found = self.find(recorded.id)
        except UserError:
            return recorded
        return found if found.prompt == recorded.prompt and found.env_id == recorded.env_id else recorded


def _shares_turns(one: Trajectory) -> bool:
    """Whether an episode has turns of another one: not a further attempt, which is only shown that one, nor one that
    was played again from the first turn on."""
    return one.parent is not None and one.parent[1] > 0


def _version(one: Trajectory) -> int | None:
    return one.turns[0].completion.policy_version if one.turns else None
