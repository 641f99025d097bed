"""What a turn of a search brought to light, and what an answer is worth: pure functions over ids and texts."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from turngate.envs.search.passages import Passage
from turngate.rewards.outcome.answers import exact_match, is_abstention, normalize
from turngate.rewards.outcome.calibration import answer_or_abstain

DECAY = 0.4
"""What one hop away from the answer is worth (ours; ExCyTIn, https://arxiv.org/abs/2507.14201, pays along the path)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """What a task is about. ``answers``: the right answer and its aliases, none if the documents do not hold one;
    ``gold``: ids of documents or passages that are needed; ``path``: the documents in the order in which they lead to
    the answer; ``between``: what the documents before the last one lead to, in that order; ``open_ended``: a long
    answer is wanted, which a judge measures by nuggets, and no short one is given."""

    answers: tuple[str, ...]
    gold: tuple[str, ...]
    path: tuple[str, ...]
    between: tuple[str, ...]
    open_ended: bool = False

    def unit(self, passage: Passage) -> str:
        """The id under which a passage counts: that of its document where the gold names the document."""
        return passage.document if passage.document in self.gold else passage.id


def gold_among(passages: Collection[Passage], sought: Sought) -> set[str]:
    """The gold ids that these passages hold."""
    return {sought.unit(passage) for passage in passages} & set(sought.gold)


def walked(seen: Collection[str], path: Sequence[str]) -> int:
    """How many documents of the path, from its start on and without a gap, are among those seen."""
    return next((number for number, document in enumerate(path) if document not in seen), len(path))


def query_novelty(words: Collection[str], earlier: Sequence[Collection[str]]) -> float:
    """``1 − max |q ∩ e| / |q ∪ e|`` over the words of earlier queries, in [0, 1]; 1 for the first query."""
    mine = set(words)
    return 1.0 - max(
        (len(mine & set(one)) / len(mine | set(one)) if mine | set(one) else 1.0 for one in earlier), default=0.0
    )


def bears_answer(texts: Collection[str], answers: Sequence[str]) -> bool:
    """Whether an answer stands in one of the texts as whole words, both normalised."""
    wanted = [normalize(answer) for answer in answers]
    shown = [normalize(text) for text in texts]
    return any(re.search(rf"(?<!\w){re.escape(one)}(?!\w)", text) for one in wanted if one for text in shown)


def near_answer(answer: str, between: Sequence[str]) -> float:
    """``DECAY`` to the power of the hops between this answer and the right one, if it lies on the path; else 0.

    What the question itself names is not on it. The right answer has distance 0 and is not asked about here.
    """
    mine = normalize(answer)
    hops = [len(between) - number for number, name in enumerate(between) if normalize(name) == mine]
    return DECAY ** min(hops) if hops else 0.0


def right(answer: str | None, sought: Sought, *, looked: bool) -> bool:
    """Whether the answer is the right one, word for word after normalisation.

    Where the documents hold no answer, it is right to say so in words, for an agent that ``looked`` at the documents
    that would have said it; an empty answer says nothing.
    """
    if answer is None:
        return False
    if sought.answers:
        return exact_match(answer, sought.answers) == 1.0
    return looked and bool(answer.strip()) and is_abstention(answer)


def truthful(answer: str | None, sought: Sought, *, looked: bool, threshold: float = 0.5) -> float:
    """1 for right, 0 for holding back, ``−t/(1 − t)`` for wrong; the table of ``answer_or_abstain``.

    Where the documents hold no answer, holding back is right after looking (1), else neither (0).
    """
    correct = right(answer, sought, looked=looked)
    abstained = not correct and (answer is None or is_abstention(answer))
    value = answer_or_abstain(correct, abstained=abstained, threshold=threshold)
    assert value is not None
    return value
