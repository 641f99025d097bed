"""Guides that let a solution act first, for a number of turns that follows the success rate from step to step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from turngate.errors import ConfigError
from turngate.trainer.guidance.base import Guide, GuidePart, Helpers, Need
from turngate.trainer.guidance.plan import Plan
from turngate.trainer.guidance.prefixes import PREFIX, half_begun, need_four, prefix
from turngate.trainer.guidance.results import By, mean_of, owner, rates_by_level, success_rate
from turngate.trainer.guidance.solutions import SOLUTIONS, solution_of
from turngate.types import JSON, Metrics, ScoredGroup, Task

if TYPE_CHECKING:
    from turngate.config import Config

# --- one length for all tasks ----------------------------------------------------------------------------------------


class G2rpoAPart(GuidePart):
    """G2RPO-A: some siblings of every group begin after a prefix of a solution, whose length follows the success rate.

    In every third step ``L ← L·ā/a₃``, ā the mean success rate of the two steps before and a₃ that of this one: down to
    1 where it rose, up to ``longest`` where it fell. A solution of K turns gives at most K − 1. Source:
    https://arxiv.org/abs/2508.13023 and its code, which guides 2 of 12 siblings, trains the prefix too (here it is
    masked) and keeps L where a₃ is 0; here that counts as ā/a₃ = 1.5, because help is needed most there.
    """

    type: Literal["g2rpo_a"] = "g2rpo_a"
    needs: ClassVar[frozenset[Need]] = SOLUTIONS
    siblings: int = Field(2, ge=1)
    """Siblings of each group that begin after the prefix; they share the baseline of the others."""
    length: int = Field(2, ge=1)
    """Turns of the prefix in the first steps."""
    longest: int = Field(8, ge=1)
    """Most turns of a prefix."""

    def check_config(self, config: Config) -> None:
        group_size = config.train.group_size
        if self.siblings >= group_size:
            raise ConfigError(f"guide.siblings is {self.siblings}; at least one of {group_size} must go without")
        if self.length > self.longest:
            raise ConfigError(f"guide.length {self.length} is more than guide.longest {self.longest}")

    def open(self, helpers: Helpers) -> G2rpoA:
        """The guide of one run."""
        return G2rpoA(helpers, self)


def next_length(length: int, before: Sequence[float], rate: float, *, longest: int) -> int:
    """The length after the third step of a cycle; ``before``: the rates of the first two, ``rate``: that of the third.

    ``int(min(L·ā/a₃, longest))`` if a₃ < ā, ``int(max(L·ā/a₃, 1))`` if a₃ > ā, L if they are equal. If a₃ = 0 < ā,
    ā/a₃ counts as 1.5, and at least one turn is added.
    """
    mean = float(np.mean(before))
    if rate == mean:
        return length
    if rate == 0:
        return min(max(int(1.5 * length), length + 1), longest)
    moved = length * mean / rate
    return int(min(moved, longest)) if rate < mean else int(max(moved, 1))


class G2rpoA(Guide):
    """See ``G2rpoAPart``. It remembers the length and the rates of the running cycle."""

    def __init__(self, helpers: Helpers, part: G2rpoAPart) -> None:
        self._helpers, self._part, self._length = helpers, part, part.length
        self._rates: list[float] = []

    def plan(self, task: Task, group_size: int) -> Plan:
        """The siblings with a prefix first."""
        begun = prefix(solution_of(self._helpers, task), self._length, joins=True)
        return Plan(entries=[*[begun] * self._part.siblings, *[None] * (group_size - self._part.siblings)])

    def observe(self, groups: Sequence[ScoredGroup]) -> None:
        """Every third step moves the length."""
        rate = success_rate([score for group in groups for score in group.scores])
        if rate is None:
            return
        if len(self._rates) < 2:
            self._rates.append(rate)
            return
        self._length = next_length(self._length, self._rates, rate, longest=self._part.longest)
        self._rates = []

    def metrics(self) -> Metrics:
        """``guide/prefix_turns``: the length in the next step."""
        return {"guide/prefix_turns": float(self._length)}

    def state(self) -> JSON:
        """Length and rates."""
        return {"length": self._length, "rates": list(self._rates)}

    def load(self, state: JSON) -> None:
        """Go on from ``state``."""
        assert isinstance(state, Mapping)
        rates = state["rates"]
        assert isinstance(rates, Sequence)
        self._length, self._rates = int(str(state["length"])), [float(str(rate)) for rate in rates]


# --- a length of its own for each task -------------------------------------------------------------------------------


class ReverseCurriculumPart(GuidePart):
    """Reverse curriculum: half of the siblings begin after a prefix of a solution, which gets shorter as they succeed.

    One turn less where the success rate after the prefix is above ``high``, one more where it is below ``low``, in
    [0, K − 1] for a solution of K turns; at 0 the rate is that of the start. Prefixes have a baseline of their own.
    Source: https://arxiv.org/abs/1707.05300 for the idea; the rule is ours.
    """

    type: Literal["reverse_curriculum"] = "reverse_curriculum"
    needs: ClassVar[frozenset[Need]] = SOLUTIONS
    start: int | None = Field(None, ge=1)
    """Turns of the first prefix; left out, all but the last one."""
    high: float = Field(0.75, ge=0, le=1)
    """Success rate above which the prefix gets shorter."""
    low: float = Field(0.1, ge=0, le=1)
    """Success rate below which the prefix gets longer."""
    by: By = "task"
    """What has a length of its own. task: every task; env: all tasks of an environment together, for sources whose
    tasks come only once."""

    def check_config(self, config: Config) -> None:
        need_four(config.train.group_size)
        if self.low >= self.high:
            raise ConfigError(f"guide.low {self.low} must be less than guide.high {self.high}")

    def open(self, helpers: Helpers) -> ReverseCurriculum:
        """The guide of one run."""
        return ReverseCurriculum(helpers, self)


def next_prefix(turns: int, rate: float, *, low: float, high: float, most: int) -> int:
    """The prefix after a visit with this success rate: a turn less, a turn more or the same, in [0, ``most``]."""
    return min(max(turns - (rate > high) + (rate < low), 0), most)


class ReverseCurriculum(Guide):
    """See ``ReverseCurriculumPart``. It remembers the length of every task or environment."""

    def __init__(self, helpers: Helpers, part: ReverseCurriculumPart) -> None:
        self._helpers, self._part = helpers, part
        self._turns: dict[str, int] = {}

    def plan(self, task: Task, group_size: int) -> Plan:
        """The siblings with a prefix first."""
        solution = solution_of(self._helpers, task)
        longest = len(solution) - 1
        turns = self._turns.get(owner(task, self._part.by), longest if self._part.start is None else self._part.start)
        return half_begun(prefix(solution, turns), group_size)

    def observe(self, groups: Sequence[ScoredGroup]) -> None:
        """Move the lengths by the success rates after the prefixes of this step."""
        found: dict[str, list[ScoredGroup]] = {}
        for group in groups:
            found.setdefault(owner(group.task, self._part.by), []).append(group)
        for key, mine in found.items():
            most = max(len(solution_of(self._helpers, group.task)) - 1 for group in mine)
            rates = [rates_by_level(group, PREFIX if _begun(group) else None) for group in mine]
            used = [(level, rate) for one in rates for level, rate in one.items()]
            if used and most > 0:
                turns = self._turns.get(key, max(level for level, _ in used))
                rate = float(np.mean([rate for _, rate in used]))
                self._turns[key] = next_prefix(turns, rate, low=self._part.low, high=self._part.high, most=most)

    def metrics(self) -> Metrics:
        """``guide/prefix_turns``: mean of the lengths."""
        return mean_of("guide/prefix_turns", self._turns.values())

    def state(self) -> JSON:
        """The lengths."""
        return dict(self._turns)

    def load(self, state: JSON) -> None:
        """Go on from ``state``."""
        assert isinstance(state, Mapping)
        self._turns = {key: int(str(turns)) for key, turns in state.items()}


def _begun(group: ScoredGroup) -> bool:
    return any(one.guidance is not None and one.guidance.kind == PREFIX for one in group.trajectories)
