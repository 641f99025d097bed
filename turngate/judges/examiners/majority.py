"""``Majority``: whether an episode agrees with most of its siblings, for tasks whose right answer is not known."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from turngate.judges.examiners.base import ExamineContext, Examiner, Facts
from turngate.judges.examiners.facts import ANSWER
from turngate.rewards.outcome.attempts import majority_rewards
from turngate.rewards.outcome.normal_form import normalize
from turngate.types import JSON, Evidence, Group, Trajectory


class Votes(Examiner):
    """Base of the examiners that count answers. A subclass sets ``type`` and writes ``examine``."""

    name: str = "agrees"
    """Name of the evidence: 1 for an answer that agrees with the majority, 0 for another one."""
    evidence: str = ANSWER
    """Name of the evidence about the whole episode that is voted on: the answer, or for instance a hash of the final
    state."""
    compare: Literal["exact", "words"] = "exact"
    """When two answers count as equal. exact: letter by letter; words: without case, punctuation and articles ("-7"
    then equals "7")."""

    @property
    def writes(self) -> tuple[str, ...]:
        """The verdict, and the counts of the votes."""
        return self.name, f"{self.name}_votes"

    def answers(self, group: Group, context: ExamineContext) -> list[str | None]:
        """The answer that each sibling votes for; None for one without an answer, which has no vote."""
        return [self._answer(one, context) for one in group.trajectories]

    def facts(self, rewards: Sequence[float | None], counted: Sequence[str | None]) -> list[tuple[Evidence, ...]]:
        """The facts of siblings: their ``rewards``, and the counts of the answers that these come from."""
        votes = Counter(answer for answer in counted if answer is not None).most_common()
        said: dict[str, JSON] = {"of": len(counted), "votes": [count for _, count in votes]}
        record = Evidence(name=f"{self.name}_votes", value=said, by="verifier")
        return [(Evidence(name=self.name, value=reward, by="verifier"), record) for reward in rewards]

    def _answer(self, trajectory: Trajectory, context: ExamineContext) -> str | None:
        if self.evidence == ANSWER:
            text = context.answer(trajectory)
        else:
            record = trajectory.record().evidence
            values = [fact.value for fact in record if fact.name == self.evidence and fact.turn is None]
            value = values[-1] if values else None
            text = value if value is None or isinstance(value, str) else json.dumps(value, sort_keys=True)
        if text is None or not text.strip():
            return None
        return normalize(text) if self.compare == "words" else text.strip()


class Majority(Votes):
    """1 for the answer that most siblings gave, 0 for another one (SRT, https://arxiv.org/abs/2505.21444).

    Without a majority the facts of the whole group are missing, and a rubric that pays them leaves the group out. It
    rewards agreement, not correctness: siblings that all make the same mistake are all rewarded.
    """

    type: Literal["majority"] = "majority"
    min_support: int = Field(2, ge=1)
    """Least number of equal answers that make a majority."""
    no_answer: Literal["missing", "wrong"] = "missing"
    """missing: an episode without an answer gets no verdict; wrong: it counts as one that disagrees."""

    async def examine(self, groups: Sequence[Group], context: ExamineContext) -> Facts:
        """One vote in each group."""
        absent = 0.0 if self.no_answer == "wrong" else None
        counted = [self.answers(group, context) for group in groups]
        return [
            self.facts(majority_rewards(answers, min_support=self.min_support, absent=absent), answers)
            for answers in counted
        ]
