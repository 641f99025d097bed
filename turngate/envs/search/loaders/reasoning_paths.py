"""In which order the documents of a known question lead to its answer, where the data set says so.

MuSiQue: the steps of ``question_decomposition``, each with its question, its answer and its paragraph. 2WikiMultihopQA:
the triples of ``evidences``, if they form one chain that ends in the answer; those of comparisons do not. HotpotQA has
supporting facts without an order: of a bridge question, the paragraph that names the title of the other one comes
first, if only the other one holds the answer. Layouts: https://github.com/StonyBrookNLP/musique,
https://github.com/Alab-NII/2wikimultihop, https://github.com/hotpotqa/hotpot.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from turngate.envs.search.retrieval_facts import bears_answer
from turngate.rewards.outcome.normal_form import normalize
from turngate.types import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """A paragraph that a question brings with it. ``number``: how the data set refers to it."""

    id: str
    title: str
    text: str
    supports: bool
    number: JSON = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningPath:
    """``documents``: ids in the order in which they lead to the answer; ``between``: the intermediate answers of those
    before the last one; ``links``: the look-ups in turn, in words. All are empty where unknown."""

    documents: tuple[str, ...] = ()
    between: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


def reasoning_path(
    row: Mapping[str, JSON], paragraphs: Sequence[Paragraph], needed: Sequence[str], answers: Sequence[str]
) -> ReasoningPath:
    """The path of a row of a known layout; ``needed`` are the ids of its supporting documents."""
    for known in (
        _decomposed(row.get("question_decomposition"), paragraphs),
        _chained(_triples(row.get("evidences")), paragraphs, answers),
        _bridged(row, [one for one in paragraphs if one.id in needed], answers),
    ):
        if known is not None and set(known.documents) <= set(needed):
            return known
    return ReasoningPath()


def _decomposed(steps: JSON, paragraphs: Sequence[Paragraph]) -> ReasoningPath | None:
    """MuSiQue's steps, in the order in which they stand, also where two of them do not need each other."""
    found = [one for one in steps if isinstance(one, Mapping)] if isinstance(steps, list) else []
    at = {one.number: one.id for one in paragraphs if isinstance(one.number, int)}
    documents = [
        at.get(one["paragraph_support_idx"]) for one in found if isinstance(one.get("paragraph_support_idx"), int)
    ]
    if not found or len(documents) < len(found) or None in documents:
        return None
    return ReasoningPath(
        documents=tuple(name for name in documents if name is not None),
        between=tuple(str(one.get("answer", "")) for one in found[:-1]),
        links=tuple(str(one.get("question", "")) for one in found),
    )


def _chained(
    triples: Sequence[Sequence[str]], paragraphs: Sequence[Paragraph], answers: Sequence[str]
) -> ReasoningPath | None:
    """2Wiki's triples (subject, relation, object), where each begins with the object of the one before it."""
    if not triples or any(normalize(one[2]) != normalize(then[0]) for one, then in pairwise(triples)):
        return None
    if normalize(triples[-1][2]) not in {normalize(answer) for answer in answers}:
        return None
    at = {one.title: one.id for one in paragraphs}
    if any(subject not in at for subject, _, _ in triples):
        return None
    return ReasoningPath(
        documents=tuple(at[subject] for subject, _, _ in triples),
        between=tuple(found for _, _, found in triples[:-1]),
        links=tuple(relation for _, relation, _ in triples),
    )


def _bridged(row: Mapping[str, JSON], needed: Sequence[Paragraph], answers: Sequence[str]) -> ReasoningPath | None:
    """The two paragraphs of a bridge question of HotpotQA."""
    if row.get("type") != "bridge" or len(needed) != 2:
        return None
    last = [one for one in needed if bears_answer([f"{one.title} {one.text}"], answers)]
    if len(last) != 1 or bears_answer([last[0].title], answers):
        return None
    first = next(one for one in needed if one is not last[0])
    name = re.sub(r"\s*\([^)]*\)$", "", last[0].title)  # "Oslo (town)" is named as Oslo
    if not bears_answer([first.text], [name]):
        return None
    return ReasoningPath(documents=(first.id, last[0].id), between=(name,))


def _triples(evidences: JSON) -> list[list[str]]:
    """(subject, relation, object), from a list of them or from Hugging Face's columns."""
    if isinstance(evidences, Mapping):
        columns = [evidences.get(name) for name in ("fact", "relation", "entity")]
        lists = [column for column in columns if isinstance(column, list)]
        return [[str(cell) for cell in row] for row in zip(*lists, strict=False)] if len(lists) == 3 else []
    rows = evidences if isinstance(evidences, list) else []
    triples = [[str(cell) for cell in row] for row in rows if isinstance(row, list) and len(row) == 3]
    return triples if len(triples) == len(rows) else []
