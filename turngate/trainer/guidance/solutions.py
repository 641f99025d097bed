"""Guides that show a part of a solution as text, and guides that put whole solutions into the group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from turngate.agents.prefix_turns import Entry, PrefixTurns
from turngate.errors import ConfigError
from turngate.trainer.guidance.base import Guide, GuidePart, Helpers, Need
from turngate.trainer.guidance.plan import Plan
from turngate.trainer.guidance.results import all_failed, n_unguided
from turngate.types import JSON, Guidance, Metrics, ScoredGroup, Task

if TYPE_CHECKING:
    from turngate.config import Config

SOLUTIONS: frozenset[Need] = frozenset({"solutions"})
Unit: TypeAlias = Literal["turns", "characters"]
"""What a share of a solution is counted in."""
_Share: TypeAlias = Annotated[float, Field(gt=0, lt=1)]


def solution_of(helpers: Helpers, task: Task) -> tuple[str, ...]:
    """The actions of the first known solution; () = none is known."""
    return tuple(next(iter(helpers.solutions(task)), ()))


def n_shown(n: int, share: float) -> int:
    """How many of ``n`` turns a share is: rounded up, and never the last one."""
    return min(math.ceil(share * n - 1e-9), n - 1)


def solution_prefix(solution: Sequence[str], share: float, unit: Unit = "turns") -> str:
    """The first ``share`` of a solution, introduced in words; "" if that is nothing.

    Turns are never cut, and the last one is never shown. Characters are rounded half to even, as in GHPO's code.
    """
    if unit == "characters":
        whole = "\n".join(solution)
        begun = whole[: round(share * len(whole))]
        return f"A solution begins like this:\n{begun}" if begun else ""
    turns = solution[: n_shown(len(solution), share)]
    return "These first steps are known to work:\n" + "\n".join(turns) if turns else ""


def partial_solution(text: str, share: float, *, joins: bool = False) -> Guidance:
    """The guidance that shows a part of a solution; its level is the share in percent."""
    return Guidance(kind="partial_solution", level=round(100 * share), text=text, source="oracle", joins=joins)


class GhpoPart(GuidePart):
    """GHPO: where all siblings fail, the whole group plays again with the beginning of a solution in the context, then
    with more of it, until one succeeds.

    Source: https://arxiv.org/abs/2507.10628 and its code, which shows 25, 50 and 75 % of the characters. Every group
    keeps the context that it was played with. The group that failed stays beside the one that replaces it there; the
    filter "varied" drops it.
    """

    type: Literal["ghpo"] = "ghpo"
    needs: ClassVar[frozenset[Need]] = SOLUTIONS
    shares: tuple[_Share, ...] = Field((0.25, 0.5, 0.75), min_length=1)
    """Shares of the solution that are shown, one after the other."""
    unit: Unit = "turns"
    """What the shares are counted in. turns: whole turns, never the last one; characters: as in the paper, which can
    cut an action in two and shows the last one too where shares are rounded up."""

    def open(self, helpers: Helpers) -> Ghpo:
        """The guide of one run."""
        return Ghpo(helpers, self)


class Ghpo(Guide):
    """What ``GhpoPart`` opens."""

    def __init__(self, helpers: Helpers, part: GhpoPart) -> None:
        self._helpers, self._part = helpers, part

    def again(self, group: ScoredGroup, wave: int) -> Plan | None:
        """A group of the same size that is shown more; shares that show nothing more are skipped."""
        if not all_failed(group):
            return None
        solution = solution_of(self._helpers, group.task)
        texts: dict[str, float] = {}
        for share in self._part.shares:
            texts.setdefault(solution_prefix(solution, share, self._part.unit), share)
        texts.pop("", None)
        if wave > len(texts):
            return None
        text, share = list(texts.items())[wave - 1]
        return Plan(entries=[partial_solution(text, share)] * n_unguided(group.trajectories), into="own")


class QuestAPart(GuidePart):
    """QuestA: in a first stage all siblings are shown half of a solution, in the next a quarter, then nothing.

    Source: https://github.com/foreverlasting1202/QuestA, which trains each stage until it stops rising. Known weakness:
    the share does not depend on how hard a task is.
    """

    type: Literal["questa"] = "questa"
    needs: ClassVar[frozenset[Need]] = SOLUTIONS
    shares: tuple[_Share, ...] = Field((0.5, 0.25), min_length=1)
    """Share of the turns of a solution that is shown, stage by stage."""
    stage_steps: int = Field(30, ge=1)
    """Training steps of each stage; after the last one nothing is shown."""

    def open(self, helpers: Helpers) -> QuestA:
        """The guide of one run."""
        return QuestA(helpers, self)


class QuestA(Guide):
    """See ``QuestAPart``. It remembers how many steps there were."""

    def __init__(self, helpers: Helpers, part: QuestAPart) -> None:
        self._helpers, self._part, self._steps = helpers, part, 0

    @property
    def _share(self) -> float:
        stage = self._steps // self._part.stage_steps
        return self._part.shares[stage] if stage < len(self._part.shares) else 0.0

    def plan(self, task: Task, group_size: int) -> Plan:
        """The same for all siblings."""
        text = solution_prefix(solution_of(self._helpers, task), self._share) if self._share else ""
        return Plan(entries=[partial_solution(text, self._share) if text else None] * group_size)

    def observe(self, groups: Sequence[ScoredGroup]) -> None:
        """One more step is over."""
        self._steps += 1

    def metrics(self) -> Metrics:
        """``guide/shown_share``: the share that the next step shows."""
        return {"guide/shown_share": self._share}

    def state(self) -> JSON:
        """Steps so far."""
        return {"steps": self._steps}

    def load(self, state: JSON) -> None:
        """Go on from ``state``."""
        assert isinstance(state, Mapping)
        self._steps = int(str(state["steps"]))


# --- whole solutions -------------------------------------------------------------------------------------------------


def expert_row(solution: Sequence[str]) -> PrefixTurns:
    """An episode that is a solution from beginning to end, compared with the policy's own episodes."""
    guidance = Guidance(kind="expert", level=len(solution), text="", source="expert", joins=True)
    return PrefixTurns(turns=tuple(solution), guidance=guidance, whole=True)


class LuffyPart(GuidePart):
    """LUFFY: some siblings of every group are solutions of the environment, in whose baseline they count.

    The actions are played again, and an episode that does not succeed is left out. loss.experts says how the tokens of
    the solution are learned; without it they only move the baseline. Source: https://arxiv.org/abs/2504.14945, one of
    8 siblings, advantage without std (credit "dr_grpo").
    """

    type: Literal["luffy"] = "luffy"
    experts: ClassVar[bool] = True
    needs: ClassVar[frozenset[Need]] = SOLUTIONS
    rows: int = Field(1, ge=1)
    """Siblings of each group that are solutions; where a task has fewer different ones, fewer."""

    def check_config(self, config: Config) -> None:
        group_size = config.train.group_size
        if self.rows > group_size - 1:
            raise ConfigError(f"guide.rows is {self.rows}, which leaves none of {group_size} siblings to the policy")

    def open(self, helpers: Helpers) -> Luffy:
        """The guide of one run."""
        return Luffy(helpers, self)


class Luffy(Guide):
    """What ``LuffyPart`` opens."""

    def __init__(self, helpers: Helpers, part: LuffyPart) -> None:
        self._helpers, self._part = helpers, part

    def plan(self, task: Task, group_size: int) -> Plan:
        """Solutions first, then the policy."""
        known = dict.fromkeys(tuple(one) for one in self._helpers.solutions(task) if one)
        experts: list[Entry] = [expert_row(solution) for solution in list(known)[: self._part.rows]]
        return Plan(entries=[*experts, *[None] * (group_size - len(experts))])


class AcnchorPart(GuidePart):
    """ACNCHOR: where all siblings fail, a solution takes the place of one of them, so that the group has a success.

    As for "luffy", loss.experts says how its tokens are learned; without it the failures are only blamed. Known only
    from its abstract.
    """

    type: Literal["acnchor"] = "acnchor"
    experts: ClassVar[bool] = True
    needs: ClassVar[frozenset[Need]] = SOLUTIONS

    def open(self, helpers: Helpers) -> Acnchor:
        """The guide of one run."""
        return Acnchor(helpers)


class Acnchor(Guide):
    """What ``AcnchorPart`` opens."""

    def __init__(self, helpers: Helpers) -> None:
        self._helpers = helpers

    def again(self, group: ScoredGroup, wave: int) -> Plan | None:
        """The solution, once."""
        solution = solution_of(self._helpers, group.task)
        if wave > 1 or not solution or not all_failed(group):
            return None
        return Plan(entries=[expert_row(solution)], into="replace")
