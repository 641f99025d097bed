"""``ParaphraseVotes``: whether an answer agrees with the answers to the same question in other words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from turngate.judges.examiners.base import ExamineContext, Facts, Scope
from turngate.judges.examiners.majority import Votes
from turngate.rewards.outcome.attempts import co_rewards
from turngate.types import Group, Task


class ParaphraseVotes(Votes):
    """Co-Reward: 1 for an answer that the majority gave to the other wording (https://arxiv.org/abs/2508.00410).

    Two tasks of a step are wordings of one question if their private data has the same value under ``pair``, or if
    their ids are equal up to a last "~" ("sum/17~a", "sum/17~b"). So a policy is not rewarded for agreeing with itself
    on one wording, but for agreeing across wordings. A task whose other wording is not in the same step, or is there
    twice, has missing facts.
    """

    type: Literal["paraphrase_votes"] = "paraphrase_votes"
    scope: ClassVar[Scope] = "batch"
    pair: str = "pair"
    """Name of the entry of a task's private data whose value both wordings of a question share."""
    faithful: bool = False
    """Whether the verdict is 0 instead of missing where the other wording has no answers, as in the published code."""

    async def examine(self, groups: Sequence[Group], context: ExamineContext) -> Facts:
        """One vote for each pair of groups."""
        answers = [self.answers(group, context) for group in groups]
        keys = [self._key(group.task) for group in groups]
        found = []
        for at, group in enumerate(groups):
            others = [other for other, key in enumerate(keys) if key is not None and key == keys[at] and other != at]
            if len(others) != 1 or groups[others[0]].task.id == group.task.id:
                found.append(self.facts([None] * len(answers[at]), []))
                continue
            mine, _ = co_rewards(answers[at], answers[others[0]], faithful=self.faithful)
            found.append(self.facts(mine, answers[others[0]]))
        return found

    def _key(self, task: Task) -> tuple[str, str] | None:
        if self.pair in task.private:
            return task.env_id, f"pair {task.private[self.pair]}"
        question, mark, _ = task.id.rpartition("~")
        return (task.env_id, f"id {question}") if mark else None
