"""BM25 in memory, by its formula; for corpora of up to some hundred thousand passages.

    score(q, d) = Σ_w idf(w) · tf·(k1 + 1) / (tf + k1·(1 − b + b·|d|/mean|d|)),  idf(w) = ln(1 + (N − df + ½)/(df + ½))

over the words ``w`` of the query, each as often as it stands there. Source: Robertson and Zaragoza 2009, "The
Probabilistic Relevance Framework: BM25 and Beyond", with the idf that is never negative, as Lucene has it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from turngate.envs.search.engine.passages import Corpus, Hit, Passage
from turngate.envs.search.engine.retrievers import RetrieverPart
from turngate.rewards.unspaced import UNSPACED, letters

K1, B = 1.2, 0.75
_WORD = re.compile(r"[^\W_]+")


def words_of(text: str) -> list[str]:
    """The words of a text in lower case: runs of letters and digits. Of scripts without spaces, each letter and each
    pair of neighbours instead."""
    small = text.lower()
    if small.isascii():
        return _WORD.findall(small)
    spaced = UNSPACED.sub(" ", small)
    return _WORD.findall(spaced) + [word for run in UNSPACED.findall(small) for word in _grams(letters(run))]


def _grams(run: list[str]) -> list[str]:
    return [*run, *map("".join, pairwise(run))]


class Bm25:
    """An index of passages, title and text together. It never changes, so any thread may search it."""

    def __init__(self, passages: Sequence[Passage], *, k1: float = K1, b: float = B) -> None:
        self._passages = passages
        counts = [Counter(words_of(f"{passage.title} {passage.text}")) for passage in passages]
        length_N = np.array([count.total() for count in counts], np.float64)
        rate_N = k1 * (1 - b + b * length_N / max(length_N.mean(), 1.0))
        postings: dict[str, tuple[list[int], list[int]]] = {}
        for number, count in enumerate(counts):
            for word, times in count.items():
                places, tfs = postings.setdefault(word, ([], []))
                places.append(number)
                tfs.append(times)
        self._worth: dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]] = {}
        for word, (places, tfs) in postings.items():
            at, tf = np.array(places), np.array(tfs, np.float64)
            idf = np.log1p((len(passages) - len(at) + 0.5) / (len(at) + 0.5))
            self._worth[word] = at, idf * tf * (k1 + 1) / (tf + rate_N[at])

    def search(self, query: str, k: int) -> list[Hit]:
        """The best ``k`` passages that share a word with the query; of equal scores the first in the corpus."""
        score_N = np.zeros(len(self._passages))
        for word in words_of(query):
            if word in self._worth:
                at, worth = self._worth[word]
                score_N[at] += worth
        best = np.argsort(-score_N, kind="stable")[:k]
        return [Hit(passage=self._passages[i], score=float(score_N[i])) for i in best if score_N[i] > 0]

    def close(self) -> None:
        """Nothing to free."""


class Bm25Retriever(RetrieverPart):
    """BM25 in memory, by its formula; for up to some hundred thousand passages."""

    type: Literal["bm25"] = "bm25"
    k1: float = Field(K1, gt=0)
    """How soon further occurrences of a word stop counting."""
    b: float = Field(B, ge=0, le=1)
    """Strength of the penalty on long passages; 0 = none."""

    def open(self, corpus: Corpus | None) -> Bm25:
        """Index the passages."""
        assert corpus is not None
        return Bm25(corpus.passages, k1=self.k1, b=self.b)
