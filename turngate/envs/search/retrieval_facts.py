"""What a turn of a search found, and the grade of an answer: pure functions over ids and texts."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from turngate.envs.search.engine.bm25 import words_of
from turngate.envs.search.engine.passages import Passage
from turngate.rewards.outcome.answers import exact_match, is_abstention
from turngate.rewards.outcome.calibration import answer_or_abstain
from turngate.rewards.outcome.normal_form import normalize

DECAY = 0.4
"""Credit for an answer one hop away from the right one (ours; ExCyTIn, https://arxiv.org/abs/2507.14201, pays along the
path)."""
_EMPTY = frozenset("a an and at by for from in is of on or the to was what when where which who with".split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """The gold data of a task. ``answers``: the right answer and its aliases, none if the documents do not hold one;
    ``gold``: ids of documents or passages that are needed; ``path``: the documents in the order in which they lead to
    the answer; ``between``: the intermediate answers of the documents before the last one, in that order;
    ``open_ended``: a long answer is wanted, which a judge measures by nuggets, and no short one is given."""

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


def looked_at(
    shown: Sequence[Passage],
    earlier: Collection[str],
    sought: Sought,
    *,
    question: Collection[str],
    query: Collection[str] | None,
) -> list[str]:
    """The documents of the path that a turn looked for and showed, not those shown by chance.

    The first one counts where the query names what the question asks about (see ``names``), each later one where an
    ``earlier`` turn looked at the one before it. Where it is not known in which order the documents lead on
    (``between`` is shorter than the path), each counts like a first one. ``question`` and ``query`` are words in lower
    case; ``query`` is None where passages that a search had shown were opened by their ids, which names them.
    """
    path = list(dict.fromkeys(sought.path))
    ordered = len(sought.between) >= len(path) - 1
    found: list[str] = []
    for passage in shown:
        at = path.index(passage.document) if passage.document in path else -1
        if at > 0 and ordered:
            counts = path[at - 1] in earlier
        else:
            counts = at >= 0 and (query is None or names(query, words_of(passage.title), question))
        if counts:
            found.append(passage.document)
    return found


def names(query: Collection[str], title: Collection[str], question: Collection[str]) -> bool:
    """Whether a query names the subject of a question, which a document with this ``title`` is about.

    It holds most of the words that title and question have in common. Where these have none, it holds half of
    the title's or a third of the question's. Articles and prepositions count for nothing. All are words in lower case.
    """
    asked, mine, called = (set(words) - _EMPTY for words in (question, query, title))
    if common := called & asked:
        return 2 * len(mine & common) > len(common)
    return bool(called and 2 * len(mine & called) >= len(called)) or bool(asked and 3 * len(mine & asked) >= len(asked))


def query_novelty(words: Collection[str], earlier: Sequence[Collection[str]]) -> float:
    """``1 − max |q ∩ e| / |q ∪ e|`` over the words of earlier queries, in [0, 1]; 1 for the first query."""
    mine = set(words)
    return 1.0 - max(
        (len(mine & set(one)) / len(mine | set(one)) if mine | set(one) else 1.0 for one in earlier), default=0.0
    )


def key_score(queries: Sequence[Collection[str]], titles: Sequence[Collection[str]]) -> float:
    """How well queries hit the titles of needed documents: the mean over titles of ``max_q 2|q ∩ t| / (|q| + |t|)``.

    Queries and titles are sets of words; in [0, 1], 0 without queries. After StepSearch's keyword score
    (https://arxiv.org/abs/2505.15107), with titles in place of its gold keywords.
    """
    wanted = [set(title) for title in titles if title]
    best = [
        max((2 * len(title & set(query)) / (len(title) + len(query)) for query in queries), default=0.0)
        for title in wanted
    ]
    return sum(best) / len(best) if best else 0.0


def bears_answer(texts: Collection[str], answers: Sequence[str]) -> bool:
    """Whether an answer stands in one of the texts as whole words, both normalised."""
    wanted = [normalize(answer) for answer in answers]
    shown = [normalize(text) for text in texts]
    return any(re.search(rf"(?<!\w){re.escape(one)}(?!\w)", text) for one in wanted if one for text in shown)


def near_answer(answer: str, between: Sequence[str]) -> float:
    """``DECAY`` to the power of the hops between this answer and the right one, if it lies on the path; else 0.

    Names in the question itself are not on the path. The right answer has distance 0 and is not asked about here.
    """
    mine = normalize(answer)
    hops = [len(between) - number for number, name in enumerate(between) if normalize(name) == mine]
    return DECAY ** min(hops) if hops else 0.0


def right(answer: str | None, sought: Sought, *, looked: bool) -> bool:
    """Whether the answer is the right one, word for word after normalisation.

    Where the documents hold no answer, it is right to say so in words, for an agent that ``looked`` at each document
    that would have led to it (see ``looked_at``); an empty answer does not count.
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
