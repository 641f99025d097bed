"""The tasks of tau-bench and tau2-bench as ``tasks`` of ``turngate/ToolUse-v1``: ``tasks = {type = "tau2", …}``."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

from turngate.envs.tasks import Dropped, TaskList, TaskSource, warn_of
from turngate.envs.tooluse.engine.world import OpenWorld
from turngate.envs.tooluse.generated.domains.users import ScriptedUser, SimulatedUser
from turngate.envs.tooluse.loaders.task_rows import ENV_ID
from turngate.envs.tooluse.loaders.tau import tau2_bench, tau_bench
from turngate.envs.tooluse.loaders.tau.graded import Basis, TauGoal, WantedCall
from turngate.envs.tooluse.loaders.tau.known_wrong import known_wrong
from turngate.envs.tooluse.loaders.tau.tau_world import TauStart, TauWorld, needs_instructed
from turngate.envs.tooluse.sources import ToolTaskSource
from turngate.envs.tooluse.task import ToolTask
from turngate.types import Task, ToolCall

_log = logging.getLogger(__name__)


class TauTask(NamedTuple):
    """A task of either, as the environment plays it. ``why_not``: why it cannot be played; "" = it can."""

    name: str
    split: str
    start: TauStart
    calls: tuple[ToolCall, ...]
    goal: TauGoal
    why_not: str = ""


class TauSource(ToolTaskSource):
    """Base of both. A subclass sets ``type``, and writes ``desk``, ``policy`` and ``read``."""

    folder: Path
    """Your checkout of the repository. Its tools are imported from there: this runs its code."""
    domain: str
    """Which of its domains, such as retail."""
    user: SimulatedUser = ScriptedUser()
    """The simulated user: a model; or "nobody", to replay gold calls. A scripted user is refused."""
    known_wrong: Literal["keep", "drop"] = "keep"
    """Whether tasks that are known to be wrong are played and named in a warning (keep), or left out (drop)."""

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError for a user who cannot play instructions."""
        needs_instructed(self.user)

    @abstractmethod
    def world(self) -> TauWorld:
        """The tools and tables."""

    @abstractmethod
    def policy(self) -> str:
        """The rules that the agent is told."""

    @abstractmethod
    def read(self) -> Iterator[TauTask]:
        """All tasks. Raises DataError."""

    def open(self, world: OpenWorld | None = None) -> TaskSource:
        """The tasks that can be played. Raises DataError for a checkout of another form."""
        self.folder_of("folder")
        wrong, policy, desk = known_wrong(self.type, self.domain), self.policy(), self.world().model_dump(mode="json")
        tasks: list[Task] = []
        dropped: list[Dropped] = []
        kept: list[str] = []
        found = list(self.read())
        for one in found:
            id_ = f"{self.type}/{self.domain}/{one.name}"
            known = wrong.get(one.name)
            reason = one.why_not
            if known and not reason and self.known_wrong == "drop":
                reason = f"{known.reason} ({known.source})"
            if reason:
                dropped.append(Dropped(id=id_, reason=reason))
                continue
            kept += [id_] if known else []
            tasks.append(_task(id_, one, policy, desk))
        warn_of(dropped, len(found), "tasks")
        if kept:
            _log.warning("%d of %d tasks are known to be wrong: %s", len(kept), len(tasks), ", ".join(kept))
        return TaskList(tasks, dropped)


class TauBench(TauSource):
    """The tasks of tau-bench, from your checkout. Splits: test, train and dev, as far as the domain has them."""

    type: Literal["tau_bench"] = "tau_bench"
    kind: ClassVar[str] = "tool use"

    def world(self) -> TauWorld:
        return tau_bench.TauBenchWorld(folder=self.folder, domain=self.domain, user=self.user)

    def policy(self) -> str:
        """The wiki."""
        return tau_bench.policy_of(self.folder, self.domain)

    def read(self) -> Iterator[TauTask]:
        """Named by their number; outside of the test split with its name before it."""
        for split, tasks in tau_bench.tasks_of(self.folder, self.domain).items():
            for number, task in enumerate(tasks):
                yield TauTask(
                    name=f"{number}" if split == "test" else f"{split}-{number}",
                    split=split,
                    start=TauStart(instructions=task.instruction),
                    calls=tuple(
                        ToolCall(name=one.name, arguments=one.arguments)
                        for one in task.actions
                        if one.name != tau_bench.TRANSFER
                    ),
                    goal=TauGoal(tells=task.outputs),
                )


class Tau2(TauSource):
    """The tasks of tau2-bench, from your checkout. Splits: test and train, where the domain names them, else base."""

    type: Literal["tau2"] = "tau2"
    kind: ClassVar[str] = "tool use"

    def world(self) -> TauWorld:
        return tau2_bench.Tau2World(folder=self.folder, domain=self.domain, user=self.user)

    def policy(self) -> str:
        """The policy."""
        return tau2_bench.policy_of(self.folder, self.domain)

    def read(self) -> Iterator[TauTask]:
        """Named by their ids."""
        for split, tasks in tau2_bench.tasks_of(self.folder, self.domain).items():
            for task in tasks:
                criteria = task.evaluation_criteria or tau2_bench.Criteria(reward_basis=())
                gold = criteria.actions or ()
                yield TauTask(
                    name=task.id,
                    split=split,
                    start=task.start,
                    calls=tuple(ToolCall(name=one.name, arguments=one.arguments) for one in gold),
                    goal=TauGoal(
                        basis=_basis(criteria),
                        tells=criteria.communicate_info or (),
                        wanted=tuple(
                            WantedCall(name=one.name, arguments=one.arguments, compare=one.compare_args) for one in gold
                        ),
                    ),
                    why_not=tau2_bench.why_not(task),
                )


def _basis(criteria: tau2_bench.Criteria) -> tuple[Basis, ...]:
    """The basis that counts: without gold calls and assertions the originals do not look at the tables, and a judge
    without assertions says yes."""
    unseen = criteria.actions is None and criteria.env_assertions is None
    skipped = ("NL_ASSERTION", *(("DB", "ENV_ASSERTION") if unseen else ()))
    return tuple(name for name in criteria.reward_basis if name not in skipped)  # type: ignore[misc]


def _task(id_: str, one: TauTask, policy: str, world: Mapping[str, object]) -> Task:
    prompt = (
        f"{policy}\n\nA user is on the line. Greet them with say: then they tell you what they want. All that you tell "
        "them is said with say. When everything is settled, end with answer; its text is the last that they hear."
    )
    start = one.start.model_dump(mode="json")
    asked = ToolTask(world=world, state=start, calls=one.calls, goals=(one.goal,))
    return Task(id=id_, env_id=ENV_ID, prompt=prompt, private=asked.private(), split=one.split)
