"""The second half of MEL: lessons that helped are imitated, so that they end up in the weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from turngate.agents.chat import Chat
from turngate.errors import ConfigError
from turngate.trainer.auxiliary.base import (
    AuxiliaryContext,
    AuxiliaryRow,
    AuxiliaryRows,
    AuxiliarySource,
    WeightedAuxiliaryPart,
)
from turngate.trainer.guidance.meta_experience import LESSON
from turngate.trainer.guidance.results import is_solved
from turngate.trainer.guidance.transcripts import begun
from turngate.types import ScoredGroup

if TYPE_CHECKING:
    from turngate.config import Config

_ASK = "Before you begin: which general lesson of earlier tasks matters here? Reply with the lesson and nothing else."


class Lessons(WeightedAuxiliaryPart):
    """MEL: the text of every lesson with which an episode of this step succeeded is imitated, as the reply to a
    question about its task. Needs guide "mel", which has the lessons written and tried out.

    ``weight`` times the mean cross-entropy per token is added to the policy's loss. Source:
    https://arxiv.org/abs/2602.10224; the weight of .1 and the wording of the question are ours.
    """

    type: Literal["lessons"] = "lessons"

    def check_config(self, config: Config) -> None:
        """Raise ConfigError for a guide that writes no lessons."""
        guide = config.guide.type
        if guide != "mel":
            raise ConfigError(f"auxiliary loss 'lessons' has no effect: guide '{guide}' writes no lessons; 'mel' does")

    def open(self, means: AuxiliaryContext) -> AuxiliarySource:
        return LessonRows(means.chat, weight=self.weight)


class LessonRows(AuxiliarySource):
    """The lessons of a step that were validated."""

    def __init__(self, chat: Chat, *, weight: float) -> None:
        self._chat, self._weight = chat, weight

    async def rows(self, groups: Sequence[ScoredGroup], step: int) -> AuxiliaryRows | None:
        return AuxiliaryRows(rows=[self._row(*one) for one in validated(groups)], weight=self._weight)

    def _row(self, shown: str, lesson: str) -> AuxiliaryRow:
        context, said = self._chat.opening(f"{shown}\n{_ASK}"), self._chat.encode_turn(lesson)
        ids = np.concatenate([context, said]).astype(np.int32)
        return AuxiliaryRow(ids=ids, trained=np.arange(len(ids)) >= len(context))


def validated(groups: Sequence[ScoredGroup]) -> Iterator[tuple[str, str]]:
    """What each task shows first, and the lesson with which one of its episodes succeeded."""
    for group in groups:
        found = {
            one.guidance.text: begun(one)
            for one, score in zip(group.trajectories, group.scores, strict=True)
            if one.guidance is not None and one.guidance.kind == LESSON and is_solved(score)
        }
        yield from ((shown, lesson) for lesson, shown in found.items())
