"""``Pointwise`` and ``Panel``: whether each episode meets one or several criteria, by one judge or by several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from turngate.errors import ConfigError
from turngate.judges.asking import JudgePart
from turngate.judges.examiners.base import ExamineContext, Facts
from turngate.judges.examiners.judged import DONE, JudgedExaminer, OneCriterion, ShowingExaminer
from turngate.judges.texts import panel_facts, rubric_facts, verdict_facts
from turngate.types import Group


def _several(value: Any) -> Any:
    return list(value) if isinstance(value, list | tuple) else [value]


Criteria: TypeAlias = Annotated[tuple[OneCriterion, ...], BeforeValidator(_several), Field(min_length=1)]


class Pointwise(JudgedExaminer):
    """A judge's yes or no to each episode (https://arxiv.org/abs/2507.17746 for several weighted criteria).

    One criterion: ``NAME`` is the verdict. Several: ``NAME`` is ``clip(Σ w·c / Σ_{w > 0} w, 0, 1)`` and
    ``NAME_CRITERION`` each verdict, so that a gate can use a single one. An episode without an answer is a no, and
    the judge is not asked about it. Siblings are asked about together and share their canaries.
    """

    type: Literal["pointwise"] = "pointwise"
    name: str = "verdict"
    """Name of the evidence: the judge's verdict on the episode."""
    criterion: Criteria = (DONE,)
    """The criterion for a yes: a text, a table {text, name, weight, about_task}, or a list of tables."""
    use: Literal["passed", "score"] = "passed"
    """Evidence recorded for a single criterion. passed: yes or no; score: the judge's score in [0, 1]."""

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError for several criteria of one name, without a positive weight, or with ``use = "score"``."""
        names = [one.name for one in self.criterion]
        if len(set(names)) < len(names):
            raise ConfigError(f"criteria are named {names}; give each a name of its own")
        if len(names) > 1 and not any(one.weight > 0 for one in self.criterion):
            raise ConfigError("no criterion has a positive weight, so nothing can be earned; give one of them one")
        if len(names) > 1 and self.use == "score":
            raise ConfigError('use = "score" has no effect on several criteria; leave it out')

    @property
    def writes(self) -> tuple[str, ...]:
        """The verdict and who gave it, or the score and both for each criterion."""
        if len(self.criterion) == 1:
            return super().writes
        each = [f"{self.name}_{one.name}" for one in self.criterion]
        return self.name, *(name for one in each for name in (one, f"{one}_judge"))

    async def examine(self, groups: Sequence[Group], context: ExamineContext) -> Facts:
        """One batch of questions for each criterion."""
        judge, criteria = context.judge(self.judge), [one.criterion for one in self.criterion]
        items = [self.items(group, context) for group in groups]
        judged = await judge.rubric([item for row in items for item in row], criteria)
        answers = iter(judged.answers)
        if len(criteria) == 1:
            return [[verdict_facts(self.name, next(answers)[0], judge.id, use=self.use) for _ in row] for row in items]
        return [[rubric_facts(self.name, next(answers), criteria, judge.id) for _ in row] for row in items]


class Panel(ShowingExaminer):
    """Several judges: yes if all of them say yes, no if one says no; for a gate that no single model should open.

    The verdict is missing if a judge's is missing and none says no. ``NAME_judge`` lists what each said.
    """

    type: Literal["panel"] = "panel"
    name: str = "verdict"
    """Name of the evidence: the joint verdict on the episode."""
    judges: tuple[JudgePart, ...] = Field(min_length=2)
    """The judges: different models, preferably of different families."""
    criterion: OneCriterion = DONE
    """The criterion for a yes."""

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError for a judge that is listed twice."""
        if any(one in self.judges[:at] for at, one in enumerate(self.judges)):
            raise ConfigError("a panel lists one judge twice; name different models")

    @property
    def all_judges(self) -> tuple[JudgePart, ...]:
        """Those of ``judges``."""
        return self.judges

    async def examine(self, groups: Sequence[Group], context: ExamineContext) -> Facts:
        """One batch of questions for each judge, one judge after the other."""
        judges = [context.judge(part) for part in self.judges]
        items = [self.items(group, context) for group in groups]
        flat = [item for row in items for item in row]
        judged = [await judge.pointwise(flat, self.criterion.criterion) for judge in judges]
        answers = zip(*(one.answers for one in judged), strict=True)
        ids = [judge.id for judge in judges]
        return [[panel_facts(self.name, next(answers), ids) for _ in row] for row in items]
