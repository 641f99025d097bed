"""MEL: a lesson from a success and a failure of the same task, at the turn where they part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from typing import Literal

from pydantic import Field

from turngate.judges.texts import Fault, FaultKind, read_object
from turngate.trainer.guidance.base import Helpers
from turngate.trainer.guidance.experience_memory import MOST_WORDS, copied
from turngate.trainer.guidance.plan import Plan
from turngate.trainer.guidance.results import is_solved, unguided
from turngate.trainer.guidance.transcripts import begun, facts_of, prompt_of, steps_of
from turngate.trainer.guidance.voices import other_voice
from turngate.trainer.guidance.writer import Writer, WritingGuide, WritingGuidePart
from turngate.types import Guidance, Metrics, ScoredGroup, Trajectory

LESSON = "lesson"
"""``Guidance.kind`` of an episode that tries a lesson out."""
_HEAD = (
    "You see two attempts of an agent at one task: 'good' succeeded and 'bad' failed. {where} Say what the difference "
    "teaches for other tasks."
)
_ASK = (
    f'Reply with one JSON object and nothing else: {{"critique": TEXT, "lesson": TEXT}}. The critique says which '
    "decision made the difference, what the failure lacked, and the principle behind it. The lesson is that principle "
    f"alone, in at most {MOST_WORDS} words, without any number, name or answer of this task."
)


def bifurcation(one: Trajectory, other: Trajectory) -> int | None:
    """The first turn, from 0, at which two episodes of a task did something else in the same state.

    None if they were never in the same state at a turn on which they differ: where the states differ first, the
    environment answered differently to the same action, which was no decision of the policy. An episode that ended is
    taken to differ from one that went on. Unknown states (empty keys) are equal to none.
    """
    for turn, (a, b) in enumerate(zip_longest(one.turns, other.turns)):
        if a is None or b is None:
            return turn
        if not a.observation.state_key or a.observation.state_key != b.observation.state_key:
            return None
        if a.action.text != b.action.text:
            return turn
    return None


def read_lesson(reply: str) -> str | Fault:
    """The lesson in a reply: a text of at most 40 words."""
    data = read_object(reply)
    if isinstance(data, Fault):
        return data
    lesson = data.get("lesson")
    if not isinstance(lesson, str) or not 1 <= len(lesson.split()) <= MOST_WORDS:
        return Fault(kind=FaultKind.MALFORMED, detail=f"'lesson' must be a text of 1 to {MOST_WORDS} words")
    return " ".join(lesson.split())


class MetaExperiencePart(WritingGuidePart):
    """MEL: where some siblings succeed and others fail, a model compares one of each at the turn where they part and
    writes a lesson; a few episodes then try it out. Those are learned from without the lesson.

    Source: https://arxiv.org/abs/2602.10224, where the model also imitates the text of validated lessons: add
    [[auxiliary]] type = "lessons". Where the environment has state keys the turn is found by comparing; else the model
    has to find it.
    """

    type: Literal["mel"] = "mel"
    tries: int = Field(2, ge=1)
    """Episodes that try a lesson out; it is validated if one of them succeeds."""
    strip: bool = True
    """Whether the lesson is taken out of the context that is learned from."""

    def open(self, helpers: Helpers) -> MetaExperience:
        """The guide of one run."""
        return MetaExperience(self)


class MetaExperience(WritingGuide):
    """See ``MetaExperiencePart``. Lessons are forgotten at the end of the step."""

    def __init__(self, part: MetaExperiencePart) -> None:
        self._part = part
        self._lessons: dict[str, str] = {}
        self._counts: Counter[str] = Counter()

    async def write(self, groups: Sequence[ScoredGroup], wave: int, writer: Writer, seed: int) -> None:
        """Ask for a lesson from every group with both outcomes."""
        pairs = {group.task.id: (group, *pair) for group in groups if wave == 1 and (pair := contrast(group))}
        limit = writer.settings.limit
        prompts = {task: _prompt(group, good, bad, limit) for task, (group, good, bad) in pairs.items()}
        for name, reply in (await writer.write(prompts, seed=seed)).items():
            lesson = read_lesson(reply)
            if isinstance(lesson, Fault):
                self._counts["unreadable"] += 1
            elif copied(lesson, pairs[name][0].task) or other_voice(lesson):
                self._counts["refused_texts"] += 1
            else:
                self._lessons[name] = lesson

    def again(self, group: ScoredGroup, wave: int) -> Plan | None:
        """Episodes with the lesson of the task, once."""
        lesson = self._lessons.get(group.task.id)
        if wave > 1 or lesson is None:
            return None
        guidance = Guidance(
            kind=LESSON, level=1, text=lesson, source="self", strip_for_train=self._part.strip, joins=True
        )
        return Plan(entries=(guidance,) * self._part.tries)

    def observe(self, groups: Sequence[ScoredGroup]) -> None:
        """Count the lessons that helped at least one episode, and forget them."""
        self._counts["validated"] += sum(
            group.task.id in self._lessons
            and any(
                is_solved(score)
                for one, score in zip(group.trajectories, group.scores, strict=True)
                if one.guidance is not None and one.guidance.kind == LESSON
            )
            for group in groups
        )
        self._lessons = {}

    def metrics(self) -> Metrics:
        """``guide/validated`` lessons, ``guide/unreadable`` replies, ``guide/refused_texts`` that named the task or
        spoke in another voice."""
        counts, self._counts = self._counts, Counter()
        return {f"guide/{name}": float(counts[name]) for name in ("validated", "unreadable", "refused_texts")}


def contrast(group: ScoredGroup) -> tuple[int, int] | None:
    """Places of a success and a failure without help: of all such pairs the one that parts latest; None if there is
    none. Pairs whose parting is unknown come last."""
    rows = [
        (at, is_solved(score))
        for at, (one, score) in enumerate(zip(group.trajectories, group.scores, strict=True))
        if score.usable and unguided(one) and one.turns
    ]
    pairs = [(good, bad) for good, won in rows if won for bad, also in rows if not also]

    def shared(pair: tuple[int, int]) -> int:
        turn = bifurcation(group.trajectories[pair[0]], group.trajectories[pair[1]])
        return -1 if turn is None else turn

    return max(pairs, key=shared, default=None)


def _prompt(group: ScoredGroup, good: int, bad: int, limit: int) -> str:
    one, other = group.trajectories[good], group.trajectories[bad]
    turn = bifurcation(one, other)
    where = "Find the turn at which they part." if turn is None else f"They part at turn {turn}."
    pieces = [
        ("task", begun(one)),
        *steps_of(one, who="good"),
        facts_of(one, group.scores[good], who="good"),
        *steps_of(other, who="bad"),
        facts_of(other, group.scores[bad], who="bad"),
    ]
    return prompt_of(_HEAD.format(where=where), pieces, _ASK, limit=limit)
