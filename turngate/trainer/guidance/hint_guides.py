"""Guides that put a hint of the environment into the context when the policy is stuck."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from turngate.trainer.guidance.base import Guide, GuidePart, Helpers, Need
from turngate.trainer.guidance.plan import Plan
from turngate.trainer.guidance.results import By, all_failed, mean_of, n_unguided, owner, success_rate
from turngate.types import JSON, Guidance, Metrics, ScoredGroup, Task

HINTS: frozenset[Need] = frozenset({"hints"})


def levels_of(helpers: Helpers, task: Task) -> list[tuple[int, str]]:
    """The hints that the task has, from the least to the most: (level, text). A level without a text is skipped."""
    found = [(level, helpers.hint(task, level)) for level in range(1, helpers.hint_levels(task) + 1)]
    return [(level, text) for level, text in found if text]


def hint_of(level: int, text: str, *, strip: bool = False, joins: bool = False) -> Guidance:
    """A hint of the environment before the first turn."""
    return Guidance(kind="hint", level=level, text=text, source="env", strip_for_train=strip, joins=joins)


# --- one row of a failed group ---------------------------------------------------------------------------------------


class LadderPart(GuidePart):
    """Scaf-GRPO: where all siblings fail, hints are tried from the least to the most, and the first success replaces
    one of the failures.

    Source: https://arxiv.org/abs/2510.19807. There the hint stays in the context that is learned from. Known weakness:
    the one success gets nearly all credit of its group.

    Left out of the paper: trying all levels at once (here one after the other, which costs as many episodes as the
    level that helps), and 50 exempt steps as the default, as its code has them; set exempt_steps = 50 for these.
    """

    type: Literal["ladder"] = "ladder"
    needs: ClassVar[frozenset[Need]] = HINTS
    exempt_steps: int = Field(10, ge=0)
    """Steps at the beginning in which no episode gets help, so that tasks which the policy can learn alone are not
    taken for hard ones. A tenth of train.steps is usual."""
    strip: bool = False
    """Whether the hint is taken out of the context that is learned from (see loss.guided). The paper leaves it in, so
    the policy has to carry over to acting without it."""

    def open(self, helpers: Helpers) -> HintLadder:
        """The guide of one run."""
        return HintLadder(helpers, self)


class HintLadder(Guide):
    """See ``LadderPart``. It remembers how many steps there were."""

    def __init__(self, helpers: Helpers, part: LadderPart) -> None:
        self._helpers, self._part, self._steps = helpers, part, 0

    def again(self, group: ScoredGroup, wave: int) -> Plan | None:
        """The next level, as long as there is no success."""
        if self._steps < self._part.exempt_steps or not all_failed(group):
            return None
        levels = levels_of(self._helpers, group.task)
        if wave > len(levels):
            return None
        return Plan(entries=[hint_of(*levels[wave - 1], strip=self._part.strip, joins=True)], into="replace")

    def observe(self, groups: Sequence[ScoredGroup]) -> None:
        """One more step is over."""
        self._steps += 1

    def state(self) -> JSON:
        """Steps so far."""
        return {"steps": self._steps}

    def load(self, state: JSON) -> None:
        """Go on from ``state``."""
        assert isinstance(state, Mapping)
        self._steps = int(str(state["steps"]))


# --- a second group --------------------------------------------------------------------------------------------------


class GuideGrpoPart(GuidePart):
    """Guide-GRPO: where all siblings fail, a second group plays with a hint, and is learned from without the hint if
    some of it succeed. There is no hint any more as soon as one sibling succeeds alone.

    Source: https://arxiv.org/abs/2506.13923 and its code, where the group that failed is dropped and the second one is
    kept only if it is mixed; here the filter "varied" does both. The loss of such rows is that of loss.guided.

    Left out of the paper: γ as the 0.9 quantile of the ratios, which is not the default here; set loss.guided =
    {gamma = "quantile"} for that.
    """

    type: Literal["guide"] = "guide"
    needs: ClassVar[frozenset[Need]] = HINTS
    level: int = Field(1, ge=1)
    """Level of the hint; where a task has fewer, its last one."""
    strip: bool = True
    """Whether the hint is taken out of the context that is learned from, as in the paper. With false the policy learns
    to act with the hint, and has to carry that over to acting without it."""
    joining: int | None = Field(None, ge=1)
    """Siblings with the hint that join the group which failed and share its baseline, as in the paper's text. Left out:
    as many as it has in a group of their own, as in its code. There only the difference between those that succeed and
    those that fail with the hint is learned; what all of them do right is not."""

    def open(self, helpers: Helpers) -> GuideGrpo:
        """The guide of one run."""
        return GuideGrpo(helpers, self)


class GuideGrpo(Guide):
    """What ``GuideGrpoPart`` opens."""

    def __init__(self, helpers: Helpers, part: GuideGrpoPart) -> None:
        self._helpers, self._part = helpers, part

    def again(self, group: ScoredGroup, wave: int) -> Plan | None:
        """Siblings with the hint, once."""
        part = self._part
        levels = [one for one in levels_of(self._helpers, group.task) if one[0] <= part.level]
        if wave > 1 or not levels or not all_failed(group):
            return None
        if part.joining is not None:
            return Plan(entries=[hint_of(*levels[-1], strip=part.strip, joins=True)] * part.joining)
        return Plan(entries=[hint_of(*levels[-1], strip=part.strip)] * n_unguided(group.trajectories), into="own")


class SagePart(GuidePart):
    """SAGE: where all siblings fail, a whole group plays with the least hint, then with the next, until one succeeds.
    The hint stays in the context that is learned from.

    Source: https://github.com/BaohaoLiao/SAGE, recipe "sage", where the policy writes the hints itself from the
    solution; here they are those of the environment.
    """

    type: Literal["sage"] = "sage"
    needs: ClassVar[frozenset[Need]] = HINTS

    def open(self, helpers: Helpers) -> Sage:
        """The guide of one run."""
        return Sage(helpers)


class Sage(Guide):
    """What ``SagePart`` opens."""

    def __init__(self, helpers: Helpers) -> None:
        self._helpers = helpers

    def again(self, group: ScoredGroup, wave: int) -> Plan | None:
        """A group with the next level, as long as there is no success."""
        levels = levels_of(self._helpers, group.task)
        if wave > len(levels) or not all_failed(group):
            return None
        return Plan(entries=[hint_of(*levels[wave - 1])] * n_unguided(group.trajectories), into="own")


# --- a level that is carried on --------------------------------------------------------------------------------------


class SageLightPart(GuidePart):
    """SAGE-light: all siblings play with the same hint, or none; its level rises where they fail and falls where they
    succeed.

    ``level + 1`` if the last success rate is at most ``low``, ``level − 1`` if it is above ``high``, else unchanged;
    between none and the last level. Source: https://github.com/BaohaoLiao/SAGE, recipe "sage_light", whose script has
    low .1 and high .35.
    """

    type: Literal["sage_light"] = "sage_light"
    needs: ClassVar[frozenset[Need]] = HINTS
    low: float = Field(0.1, ge=0, le=1)
    """Success rate up to which the next visit gets one level more."""
    high: float = Field(0.35, ge=0, le=1)
    """Success rate above which the next visit gets one level less."""
    by: By = "task"
    """What has a level of its own. task: every task; env: all tasks of an environment together, for sources whose tasks
    come only once."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"low {self.low} must be less than high {self.high}")
        return self

    def open(self, helpers: Helpers) -> SageLight:
        """The guide of one run."""
        return SageLight(helpers, self)


def next_level(level: int, rate: float, *, low: float, high: float, most: int) -> int:
    """The level after a visit with this success rate: one more, one less or the same, in [0, ``most``]; 0 = no hint."""
    return min(max(level + (rate <= low) - (rate > high), 0), most)


class SageLight(Guide):
    """See ``SageLightPart``. It remembers the level of every task or environment."""

    def __init__(self, helpers: Helpers, part: SageLightPart) -> None:
        self._helpers, self._part = helpers, part
        self._levels: dict[str, int] = {}

    def plan(self, task: Task, group_size: int) -> Plan:
        """The hint of the present level for all siblings."""
        level = self._levels.get(owner(task, self._part.by), 0)
        text = self._helpers.hint(task, level) if level else None
        return Plan(entries=[hint_of(level, text) if text else None] * group_size)

    def observe(self, groups: Sequence[ScoredGroup]) -> None:
        """Move the levels by the success rates of this step."""
        scores: dict[str, list[ScoredGroup]] = {}
        for group in groups:
            scores.setdefault(owner(group.task, self._part.by), []).append(group)
        for key, found in scores.items():
            rate = success_rate([score for group in found for score in group.scores])
            if rate is not None:
                most = max(self._helpers.hint_levels(group.task) for group in found)
                level = self._levels.get(key, 0)
                self._levels[key] = next_level(level, rate, low=self._part.low, high=self._part.high, most=most)

    def metrics(self) -> Metrics:
        """``guide/level``: mean of the levels."""
        return mean_of("guide/level", self._levels.values())

    def state(self) -> JSON:
        """The levels."""
        return dict(self._levels)

    def load(self, state: JSON) -> None:
        """Go on from ``state``."""
        assert isinstance(state, Mapping)
        self._levels = {key: int(str(level)) for key, level in state.items()}
