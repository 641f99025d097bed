"""``Steps``: which turns of each episode are right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Literal

from pydantic import Field

from turngate.errors import ConfigError
from turngate.judges.examiners.base import ExamineContext, Facts
from turngate.judges.examiners.judged import Asked, JudgedExaminer, OneCriterion
from turngate.judges.texts import Item, critique_facts
from turngate.types import Evidence, Group, Trajectory

RIGHT_STEP = Asked(name="step", text="The turn is right: what it does and concludes is correct and helps the task.")


class Steps(JudgedExaminer):
    """A judge's verdict on every turn, from several critiques that vote: ``NAME``, 1 = right and 0 = wrong.

    These are the step verdicts of CAPO (https://arxiv.org/abs/2508.02298: ``mode``) and, with ``mode = "average"``, the
    scores of PPR (https://arxiv.org/abs/2509.25598). The verdict on a turn that no critique mentions is missing.
    Rules decide nothing here, because a failed episode can have steps that were right.
    """

    type: Literal["steps"] = "steps"
    name: str = "step"
    """Name of the evidence: the verdict on each turn, 1 = right and 0 = wrong."""
    criterion: OneCriterion = RIGHT_STEP
    """The criterion for a right turn: a text, or a table {text, name, about_task}."""
    votes: int = Field(3, ge=1)
    """Number of critiques of each episode; raise it for steadier verdicts."""
    mode: Literal["majority", "intersection", "average"] = "majority"
    """How critiques become a verdict. majority: a turn is wrong if more than half of them say so; intersection: if all
    do; average: the verdict is the share of critiques that find it right."""
    screenshots: bool = False
    """Whether the judge is shown the images on which the agent acted, such as the screenshots of a page
    (GUI-Shepherd, https://arxiv.org/abs/2509.23738); it must be a model on a server that takes images."""
    thoughts_merged: bool = False
    """Whether neighbouring turns with equal verdicts are one thought that is judged once, on its last turn, so that
    cutting a thought into more turns changes nothing (TP-GRPO, https://arxiv.org/abs/2507.23317)."""

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError if thoughts are to be merged by shares, and for images that the judge cannot see."""
        if self.screenshots and not self.judge.takes_images:
            raise ConfigError(
                f'screenshots cannot be shown to a judge of type "{self.judge.type}"; name a model that sees, on a '
                'server: {type = "server", url = …, model = …}'
            )
        if self.thoughts_merged and self.mode == "average":
            raise ConfigError('thoughts_merged joins equal verdicts, but mode = "average" gives shares; choose one')

    def item(self, trajectory: Trajectory, answer: str | None) -> Item:
        """What the judge sees of an episode, with its images where they are asked for."""
        shown = super().item(trajectory, answer)
        if not self.screenshots:
            return shown
        steps = zip(shown.steps, trajectory.turns, strict=True)
        return replace(shown, steps=tuple(replace(step, images=turn.observation.images) for step, turn in steps))

    async def examine(self, groups: Sequence[Group], context: ExamineContext) -> Facts:
        """One batch of critiques; an episode without turns has nothing to judge."""
        judge = context.judge(self.judge)
        played = [one for group in groups for one in group.trajectories if one.turns]
        items = [self.item(one, None) for one in played]
        if self.screenshots and played and not any(step.images for item in items for step in item.steps):
            raise ConfigError(
                f"no screenshot was recorded of episode '{played[0].id}'; set env.kwargs.screenshot = \"plain\""
            )
        judged = await judge.steps(items, self.criterion.criterion, votes=self.votes) if items else None
        answers = iter(judged.answers if judged else ())
        found: list[list[tuple[Evidence, ...]]] = [[] for _ in groups]
        for row, group in zip(found, groups, strict=True):
            for one in group.trajectories:
                said = next(answers) if one.turns else ()
                facts = critique_facts(self.name, said, judge.id, n_turns=len(one.turns), mode=self.mode)
                row.append(_merged(facts, self.name) if self.thoughts_merged else facts)
        return found


def _merged(facts: Sequence[Evidence], name: str) -> tuple[Evidence, ...]:
    """The facts with only the last of every run of equal verdicts under ``name``; a missing verdict equals no other."""
    verdicts = [fact for fact in facts if fact.name == name]
    runs = groupby(verdicts, key=lambda fact: ("missing", fact.turn) if fact.value is None else ("known", fact.value))
    return *(list(run)[-1] for _, run in runs), *(fact for fact in facts if fact.name != name)
