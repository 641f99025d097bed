"""Runs examiners over played episodes, and adds their facts to the episodes before they are scored.

    async with Examining(examiners, context) as examining:          once per run: judges are opened
        async with examining.begin(step) as stage:                  once per step
            groups = await play_groups(…)                           stage.group_done(group), as soon as one is played
            groups, metrics = await stage.finish(groups)

If an examiner hangs, raises, or returns something invalid (see ``check_facts``), all its facts of that call are
missing: they have value None under each name that it declares. That is counted, and logged in one line. A run goes on
through outages, and through errors in some episodes; an examiner whose own code fails in every call of a step ends the
run.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Collection, Coroutine, Mapping, MutableMapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias, TypeVar

from turngate.errors import RunError, StoreError, TurngateError
from turngate.foreign import StayingCoroutine, described, place_of
from turngate.judges.asking import Judge, JudgePart, JudgeSettings, Tally, TextModel, VerdictCache
from turngate.judges.examiners.base import ExamineContext, Examiner
from turngate.judges.examiners.facts import check_facts, missing, plain, refuse_shared
from turngate.types import JSON, Evidence, Group, Metrics, derive_seed

T = TypeVar("T")
_OfGroup: TypeAlias = list[tuple[Evidence, ...]]
_Key: TypeAlias = tuple[str, ...]
_log = logging.getLogger(__name__)

GRACE_S = 5.0
"""Seconds that an examiner whose time is up may take to stop."""


class Examining:
    """The examiners of a run, with open judges and with their memory.

    ``context`` is what they work with (see ``ExamineContext``); its seed is the run's. Raises ConfigError if two
    examiners record facts under one name; entering it raises what opening a judge raises.
    """

    def __init__(self, examiners: Sequence[Examiner], context: ExamineContext) -> None:
        refuse_shared(examiners)
        self.examiners, self._desk = tuple(examiners), context
        self._memory: dict[str, dict[str, JSON]] = {examiner.label: {} for examiner in examiners}
        self._text_models: dict[str, TextModel] = {}
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Open the judges; one that several examiners ask is opened once."""
        async with AsyncExitStack() as opening:
            for part in (part for examiner in self.examiners for part in examiner.all_judges):
                if _model_key(part) not in self._text_models:
                    text_model = part.text_model(self._desk.player)
                    self._text_models[_model_key(part)] = await opening.enter_async_context(text_model)
            self._open = opening.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close them."""
        self._text_models.clear()
        await self._open.aclose()

    def begin(self, step: int, *, reads: Collection[str] | None = None) -> Stage:
        """The examination of one training step; step 0 is an evaluation, which leaves the examiners' memory as it was.

        ``reads``: call only examiners that record one of these names, for instance those that a rubric reads.
        """
        return Stage([self._step_examiner(examiner, step) for examiner in self.chosen(reads)])

    def chosen(self, reads: Collection[str] | None) -> list[Examiner]:
        """The examiners that record one of these names; all if None."""
        return [one for one in self.examiners if reads is None or not set(one.writes).isdisjoint(reads)]

    async def examined(
        self, groups: Sequence[Group], step: int, *, reads: Collection[str] | None = None
    ) -> tuple[list[Group], Metrics]:
        """The groups with all facts, and metrics; for groups that have all been played."""
        async with self.begin(step, reads=reads) as stage:
            return await stage.finish(groups)

    def state(self) -> dict[str, JSON]:
        """The memory of every examiner as JSON, for a checkpoint."""
        return {label: plain(memory) for label, memory in self._memory.items()}

    def restore(self, state: Mapping[str, JSON]) -> None:
        """Restore what ``state`` returned. Raises StoreError for the memory of an examiner that this run does not
        have."""
        for label, memory in state.items():
            if label not in self._memory or not isinstance(memory, Mapping):
                raise StoreError(f"the checkpoint holds memory of an examiner '{label}', which this run does not have")
            self._memory[label] = dict(memory)

    def save(self, path: Path) -> None:
        """Write the memory of every examiner, for a checkpoint."""
        path.write_text(json.dumps(self.state()), encoding="utf-8")

    def load(self, path: Path) -> None:
        """Read what ``save`` wrote. Raises StoreError as ``restore`` does."""
        self.restore(json.loads(path.read_text(encoding="utf-8")))

    def _step_examiner(self, examiner: Examiner, step: int) -> _StepExaminer:
        own, tally = self._memory[examiner.label], Tally()

        def judge(part: JudgePart) -> Judge:
            if _model_key(part) not in self._text_models:
                raise RuntimeError(f"a judge of type '{part.type}' was not opened; name it in 'asked'")
            cache = VerdictCache(self._desk.verdicts) if self._desk.verdicts is not None else None
            text_model = self._text_models[_model_key(part)]
            return Judge(text_model, seed=self._desk.seed, settings=part, cache=cache, total=tally)

        seed = derive_seed(self._desk.seed, "examine", examiner.label, step)
        memory = own if step else _copy(own)
        return _StepExaminer(examiner, replace(self._desk, step=step, seed=seed, memory=memory, judge=judge), tally)


class Stage:
    """The examination of one step, inside ``async with``; leaving it cancels the examiners that still run."""

    def __init__(self, running: Sequence[_StepExaminer]) -> None:
        self._running = running
        self._tasks: set[asyncio.Task[object]] = set()
        self._started: dict[tuple[str, _Key], asyncio.Task[_OfGroup]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave no task behind."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def group_done(self, group: Group) -> None:
        """Start the examiners on a group that was played, except those of the whole batch and those that ask the
        policy."""
        for one_running in self._running:
            if one_running.examiner.scope != "batch" and not one_running.examiner.asks_policy:
                self._begin(one_running, group)

    async def finish(self, groups: Sequence[Group]) -> tuple[list[Group], Metrics]:
        """Finish all examiners after all groups were played; those that ask the policy run one after the other.

        It can be called again with further groups of the step; the metrics then count all of them.

        Returns the groups in the same order, with the facts in the order of the examiners, and metrics
        ``examine/NAME/…``: ``failed`` calls, ``unusable`` episodes that were left out, ``missing_share`` of the
        examined episodes whose first fact could not be measured, and the counts of the judges. Raises RunError for an
        examiner whose own code failed in every call of the step.
        """
        for group in groups:
            self.group_done(group)
        early = {
            one_running.label: self._spawn(self._all(one_running, groups))
            for one_running in self._running
            if not one_running.examiner.asks_policy
        }
        facts: dict[str, list[_OfGroup]] = {}
        for one_running in self._running:
            if one_running.label not in early:
                facts[one_running.label] = await self._spawn(self._all(one_running, groups))
        for label, task in early.items():
            facts[label] = await task
        metrics: Metrics = {}
        for one_running in self._running:
            one_running.refuse_broken()
            metrics |= one_running.metrics(facts[one_running.label])
        return [self._with_facts(at, group, facts) for at, group in enumerate(groups)], metrics

    def _with_facts(self, at: int, group: Group, facts: Mapping[str, Sequence[_OfGroup]]) -> Group:
        added = [facts[one_running.label][at] for one_running in self._running]
        trajectories = tuple(
            replace(trajectory, evidence=trajectory.evidence + tuple(fact for row in added for fact in row[place]))
            for place, trajectory in enumerate(group.trajectories)
        )
        return replace(group, trajectories=trajectories)

    async def _all(self, one_running: _StepExaminer, groups: Sequence[Group]) -> list[_OfGroup]:
        if one_running.examiner.scope == "batch":
            return await one_running.look_at(groups)
        return [await task for task in [self._begin(one_running, group) for group in groups]]

    def _begin(self, one_running: _StepExaminer, group: Group) -> asyncio.Task[_OfGroup]:
        key = (one_running.label, (group.task.env_id, group.task.id, *(one.id for one in group.trajectories)))
        if key not in self._started:
            self._started[key] = self._spawn(one_running.look_at_one(group))
        return self._started[key]

    def _spawn(self, work: Coroutine[object, object, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        return task


class _StepExaminer:
    """One examiner in one step: calls it, and counts what failed."""

    def __init__(self, examiner: Examiner, context: ExamineContext, tally: Tally) -> None:
        self.examiner, self.label = examiner, examiner.label
        self._desk, self._tally, self._before = context, tally, _copy(context.memory)
        self._n_calls = self._n_failed = self._n_broken = self._n_unusable = self._n_known = self._n_examined = 0
        self._broke = ""  # the error of its own code in the first call that had one

    async def look_at_one(self, group: Group) -> _OfGroup:
        """The facts about each trajectory of one group; none about unusable ones and those of another environment."""
        if self.examiner.scope == "group":
            return (await self.look_at([group]))[0]
        ones = [replace(group, trajectories=(one,)) for one in group.trajectories]
        return [found[0][0] for found in await asyncio.gather(*(self.look_at([one]) for one in ones))]

    async def look_at(self, groups: Sequence[Group]) -> list[_OfGroup]:
        """The same about several groups, in one call."""
        mine = [not self.examiner.env or group.task.env_id == self.examiner.env for group in groups]
        usable = [
            replace(group, trajectories=tuple(one for one in group.trajectories if own and one.ending.usable))
            for group, own in zip(groups, mine, strict=True)
        ]
        self._n_unusable += sum(
            len(group.trajectories) - len(kept.trajectories)
            for group, kept, own in zip(groups, usable, mine, strict=True)
            if own
        )
        some = [group for group in usable if group.trajectories]
        found = iter([facts for row in (await self._call(some) if some else []) for facts in row])
        return [
            [next(found) if own and one.ending.usable else () for one in group.trajectories]
            for group, own in zip(groups, mine, strict=True)
        ]

    def refuse_broken(self) -> None:
        """Raise RunError if it was called in this step, and its own code failed in every call."""
        if self._n_calls and self._n_broken == self._n_calls:
            raise RunError(
                f"examiner '{self.label}' ({self.examiner.type}) failed in all {self._n_calls} calls of a step, by its "
                f"own code and not by an outage; the first: {self._broke}"
            )

    async def _call(self, groups: Sequence[Group]) -> list[_OfGroup]:
        """The examiner's facts, or missing ones if it fails. No exception of it leaves this method except
        cancellation."""
        self._n_calls += 1
        try:
            answer = await _within(self._asked(groups), self.examiner.deadline_s)
            return check_facts(self.examiner, groups, answer)
        except Exception as error:
            told = isinstance(error, TurngateError | TimeoutError | ValueError) and str(error)
            if not _is_outage(error):
                self._n_broken += 1
                self._broke = self._broke or " ".join(f"{told or described(error)} ({place_of(error)})".split())[:500]
            self._fail(told or repr(error), groups)
            return [[missing(self.examiner, one) for one in group.trajectories] for group in groups]

    async def _asked(self, groups: Sequence[Group]) -> object:
        """What the examiner returns. Raises RuntimeError in place of SystemExit, which asyncio would let end the
        run."""
        try:
            return await StayingCoroutine(self.examiner.examine(groups, self._desk))
        except SystemExit as error:
            raise RuntimeError(f"it tried to exit the program: {error!r}") from error

    def _fail(self, problem: str, groups: Sequence[Group]) -> None:
        self._n_failed += 1
        n_episodes, first = sum(len(group.trajectories) for group in groups), groups[0].task.id
        whose = f"{n_episodes} episodes of {len(groups)} tasks ('{first}' first)" if groups[1:] else f"task '{first}'"
        line = " ".join(problem.split())[:500]
        name = f"'{self.label}' ({self.examiner.type})"
        _log.warning("examiner %s: %s; its facts about %s are missing", name, line, whose)

    def metrics(self, facts: Sequence[_OfGroup]) -> Metrics:
        """Counts of the step so far, with these latest facts. Memory that is not JSON cannot be saved, so it is reset
        to what it was before the step."""
        try:
            plain(self._desk.memory)
        except (ValueError, RecursionError) as error:
            self._n_failed += 1
            _log.warning("examiner '%s': what it remembered in this step is dropped, because %.500s", self.label, error)
            self._desk.memory.clear()
            self._desk.memory.update(self._before)
        name = f"examine/{self.label}/"
        metrics = {f"{name}failed": float(self._n_failed), f"{name}unusable": float(self._n_unusable)}
        known = [
            any(fact.name == self.label and fact.value is not None for fact in one)
            for row in facts
            for one in row
            if one
        ]
        self._n_known, self._n_examined = self._n_known + sum(known), self._n_examined + len(known)
        if self._n_examined:
            metrics[f"{name}missing_share"] = 1 - self._n_known / self._n_examined
        return metrics | (self._tally.metrics(f"{name}judge_") if self.examiner.all_judges else {})


def _is_outage(error: Exception) -> bool:
    """Whether the cause may be a failure of something that an examiner asks, not of its own code: so for errors of
    turngate, of the system and of other packages, not for those that Python itself raises."""
    return isinstance(error, OSError | EOFError) or type(error).__module__ != "builtins"


async def _within(call: Awaitable[T], limit_s: float) -> T:
    """The result of ``call``. Raises TimeoutError when its time is up; it is stopped then."""
    task = asyncio.ensure_future(call)
    try:
        done, _ = await asyncio.wait({task}, timeout=limit_s)
    finally:
        await _stop(task)
    if not done:
        raise TimeoutError(f"no answer within {limit_s:g} s")
    if task.cancelled():
        raise RuntimeError("it cancelled itself")
    return task.result()


async def _stop(task: asyncio.Future[T]) -> None:
    """Cancel ``task`` if it still runs; if it does not stop within ``GRACE_S`` seconds, it is left running."""
    if task.done():
        return
    task.add_done_callback(lambda late: late.cancelled() or late.exception())  # read, or asyncio complains
    task.cancel()
    await asyncio.wait({task}, timeout=GRACE_S)
    if not task.done():
        _log.warning("an examiner did not stop when it was cancelled; it is left running, and its result is ignored")


def _model_key(part: JudgePart) -> str:
    """A key that is equal for parts which name the same model, however differently they ask it."""
    return json.dumps(part.model_dump(mode="json", exclude=set(JudgeSettings.model_fields)), sort_keys=True)


def _copy(memory: MutableMapping[str, JSON]) -> dict[str, JSON]:
    return {name: plain(value) for name, value in memory.items()}
