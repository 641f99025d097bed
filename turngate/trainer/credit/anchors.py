"""Treats similar states as one (an anchor of ``gigpo``), for environments whose states never repeat exactly."""

import difflib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from turngate.errors import ConfigError, ShapeError
from turngate.trainer.credit.cohorts import Int64Array


def join_similar(
    texts: Sequence[str],
    cohorts: Sequence[int],
    *,
    threshold: float = 0.95,
    unit: Literal["words", "characters"] = "words",
) -> Int64Array:
    """The column ``similar_N`` for ``gigpo(anchors="similar")``: int64[N], −1 for an empty text.

    ``texts`` are the states before each turn, ``cohorts`` their cohorts. An anchor is a text that stands for all texts
    similar to it. Inside a cohort a text joins the first anchor with which its difflib ratio (twice the common units,
    divided by all units of both) is at least ``threshold``; else it becomes an anchor itself. Texts are compared in
    order of length and then of alphabet, so their order in the batch does not matter.

    Source: the code of https://arxiv.org/abs/2505.10978: 0.95, by characters, in batch order, with difflib's shortcut
    that ignores frequent characters of texts of 200 and more. Here they count, so "characters" takes time with the
    square of the length (0.2 s per pair of 2000). Words are ours; one of 20 may differ at 0.95. In both units
    the number of pairs is distinct texts × anchors of the cohort. Raises ConfigError for a threshold outside (0, 1] or
    an unknown unit, ShapeError for unequal lengths.
    """
    if not 0 < threshold <= 1 or unit not in ("characters", "words"):
        raise ConfigError(
            f"join_similar needs a threshold in (0, 1] and unit 'characters' or 'words', found {threshold} and '{unit}'"
        )
    if len(texts) != len(cohorts):
        raise ShapeError(f"{len(texts)} texts but {len(cohorts)} cohorts; give one of each per turn")
    members: defaultdict[int, set[str]] = defaultdict(set)
    for text, cohort in zip(texts, cohorts, strict=True):
        members[cohort].add(text)
    numbers: dict[tuple[int, str], int] = {}
    for cohort, distinct in members.items():
        for anchor in _anchors(distinct - {""}, threshold, unit):
            fresh = len(numbers)
            numbers |= {(cohort, text): fresh for text in anchor}
    return np.array([numbers.get(key, -1) for key in zip(cohorts, texts, strict=True)], np.int64)


def _anchors(texts: set[str], threshold: float, unit: str) -> Iterator[list[str]]:
    """The texts of one cohort, joined."""
    found: list[tuple[difflib.SequenceMatcher[str], list[str]]] = []
    for text in sorted(texts, key=lambda text: (len(text), text)):
        parts: Sequence[str] = text if unit == "characters" else text.split()
        for matcher, joined in found:
            matcher.set_seq1(parts)
            if _close(matcher, threshold):
                joined.append(text)
                break
        else:
            found.append((difflib.SequenceMatcher(None, "", parts, autojunk=False), [text]))
    return (joined for _, joined in found)


def _close(matcher: difflib.SequenceMatcher[str], threshold: float) -> bool:
    """Whether the ratio reaches the threshold; cheap upper bounds come first, which rule most pairs out."""
    return all(ratio() >= threshold for ratio in (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio))
