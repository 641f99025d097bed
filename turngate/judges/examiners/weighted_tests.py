"""``WeightedTests``: a score from hidden tests in which a test counts more the fewer siblings pass it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from turngate.judges.examiners.base import ExamineContext, Examiner, Facts, Scope
from turngate.judges.examiners.recorded import last_value
from turngate.rewards.outcome.code import difficulty_weights, pass_rates, weighted_tests
from turngate.types import Evidence, Group, Trajectory

Array = npt.NDArray[np.float64]


class WeightedTests(Examiner):
    """A graded score from hidden tests, in which a test counts more the fewer siblings pass it.

    ``Σ w_j·passed_j`` with ``w_j ∝ 1 − pass rate_j`` among the siblings (VeRPO,
    https://arxiv.org/abs/2601.03525, abstract read).

    Each episode that was tested gets ``name``, in [0, 1], and ``NAME_weights``, the weight of each test. VeRPO's reward
    adds 1 for passing all tests: pay an outcome beside this score, or set ``add_outcome``. A test that is not among an
    episode's results did not run, and is not passed; a result that could not be measured makes the score missing.

    Left out of the paper: whatever its abstract does not say, which alone was read, such as how its weights follow the
    pass rates over a training and how it joins the score with the outcome.

    Where all siblings pass every test, all weights are 0 and the score is missing (0/0). So pay it as a process reward
    beside an outcome, which is measured then too, or set ``floor``. Pass rates of one group are noisy; ``keep`` smooths
    them over the steps of a run, for each task.
    """

    type: Literal["test_weights"] = "test_weights"
    scope: ClassVar[Scope] = "batch"  # so that remembered pass rates do not depend on which group was played first
    name: str = "test_score"
    """Name of the evidence that holds the score."""
    evidence: str = "fail_to_pass"
    """Name of the evidence that holds the results: the name of each test to true, false or null (could not be
    measured)."""
    floor: float = Field(0.0, ge=0, le=1)
    """Least weight of a test before normalisation, instead of 1 − pass rate; above 0, tests that all siblings pass
    count too."""
    keep: float = Field(0.5, ge=0, lt=1)
    """Weight of a task's earlier pass rates when it is played again; 0: only the siblings of the step count."""
    add_outcome: bool = False
    """Whether 1 is added where every test is passed. The score then lies in [0, 2], and a full solution is above every
    partial one."""

    @property
    def writes(self) -> tuple[str, ...]:
        """Score and weights."""
        return (self.name, f"{self.name}_weights")

    async def examine(self, groups: Sequence[Group], context: ExamineContext) -> Facts:
        """Scores and weights, group by group."""
        return [self._of_group(group, context) for group in groups]

    def _of_group(self, group: Group, context: ExamineContext) -> list[tuple[Evidence, ...]]:
        results = [self._results(trajectory) for trajectory in group.trajectories]
        names = sorted({name for one in results if one is not None for name in one})
        passed_BJ = np.array(
            [[np.nan if one is None else _number(one.get(name, False)) for name in names] for one in results]
        ).reshape(len(results), len(names))
        rates = self._smoothed(dict(zip(names, pass_rates(passed_BJ).tolist(), strict=True)), group.task.id, context)
        weight_J = difficulty_weights([rates[name] for name in names], floor=self.floor)
        return [
            () if one is None else self._facts(passed_J, weight_J, names)
            for one, passed_J in zip(results, passed_BJ, strict=True)
        ]

    def _results(self, trajectory: Trajectory) -> Mapping[str, bool | None] | None:
        """The last recorded results; None for an episode that broke or was not tested."""
        found = last_value(trajectory, self.evidence) if trajectory.ending.usable else None
        if found is None:
            return None
        if not isinstance(found, Mapping) or not all(value in (True, False, None) for value in found.values()):
            raise ValueError(
                f"evidence '{self.evidence}' of trajectory '{trajectory.id}' must map tests to true, false or null, "
                f"found {found!r:.80}"
            )
        return {name: None if value is None else bool(value) for name, value in found.items()}

    def _smoothed(self, rates: dict[str, float], task: str, context: ExamineContext) -> dict[str, float]:
        """``keep · old + (1 − keep) · new`` where both are known; remembered for the next time that the task comes."""
        if not self.keep or not rates:
            return rates
        old = context.memory.get(task)
        remembered = old if isinstance(old, Mapping) else {}
        known = {name: float(rate) for name, rate in remembered.items() if isinstance(rate, int | float)}
        for name, rate in rates.items():
            before = known.get(name)
            new = before if np.isnan(rate) else rate if before is None else self.keep * before + (1 - self.keep) * rate
            if new is not None:
                known[name] = new
        context.memory[task] = known
        return {name: known.get(name, np.nan) for name in rates}

    def _facts(self, passed_J: Array, weight_J: Array | None, names: Sequence[str]) -> tuple[Evidence, ...]:
        score = None if weight_J is None else weighted_tests(passed_J, weight_J)
        if score is not None and self.add_outcome:
            score = None if np.isnan(passed_J).any() else score + bool(passed_J.all())
        weights = None if weight_J is None else dict(zip(names, weight_J.tolist(), strict=True))
        return (
            Evidence(name=self.name, value=score, by="verifier"),
            Evidence(name=f"{self.name}_weights", value=weights, by="verifier"),
        )


def _number(passed: bool | None) -> float:
    return np.nan if passed is None else float(passed)
