"""Search: how much a query found, and whether the answer cites its sources."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from turngate.errors import ConfigError, ShapeError
from turngate.rewards.outcome.answers import Aliases, Overlap, token_f1
from turngate.rewards.outcome.formula import Formula
from turngate.rewards.parts import Facts, Kind, Reward, Verdict

Array = npt.NDArray[np.float64]

KEY_WEIGHT = 0.618  # StepSearch's weight of the keyword score

_WORD = re.compile(r"\w+")


# --- StepSearch ------------------------------------------------------------------------------------------------------


def tfidf_similarity(documents: Sequence[str], gold: Sequence[str]) -> Array:
    """Cosine of the TF-IDF vectors of documents (D) and gold documents (G): float64[D, G] in [0, 1].

    ``idf = ln((1 + n) / (1 + df)) + 1`` over all ``n = D + G`` texts, words in lower case. A text without words has
    cosine 0 with everything. It is lexical: a paraphrase scores low.
    """
    texts = [Counter(_WORD.findall(text.lower())) for text in (*documents, *gold)]
    spread = Counter(word for text in texts for word in text)
    vectors = [
        {word: count * (math.log((1 + len(texts)) / (1 + spread[word])) + 1) for word, count in text.items()}
        for text in texts
    ]
    norms = [math.sqrt(sum(value * value for value in vector.values())) for vector in vectors]
    similarity = np.zeros((len(documents), len(gold)))
    for i in range(len(documents)):
        for j in range(len(gold)):
            mine, theirs = vectors[i], vectors[len(documents) + j]
            length = norms[i] * norms[len(documents) + j]
            dot = sum(value * theirs[word] for word, value in mine.items() if word in theirs)
            similarity[i, j] = min(1.0, dot / length) if length else 0.0
    return similarity


def retrieval_gain(similarity_TG: npt.ArrayLike) -> Array:
    """Gain of each round: ``gain_t = mean_g max(0, m_tg − best_g so far)``: float64[T] in [0, 1].

    ``similarity_TG`` holds, per round and gold document, the best similarity of what was retrieved (0 if nothing
    was), in [0, 1]. Where all is measured, the gains sum to what was found in the end, so never to more than 1. A NaN
    is unmeasured and takes no part in the mean; a round without any measurement, and every round without gold
    documents, has gain NaN. Source: StepSearch, https://arxiv.org/abs/2505.15107.
    """
    similarity_TG = np.asarray(similarity_TG, np.float64)
    if similarity_TG.ndim != 2:
        raise ShapeError(f"similarity_TG has shape {similarity_TG.shape}; it needs one row per round")
    if ((similarity_TG < 0) | (similarity_TG > 1)).any():
        raise ShapeError("similarity_TG has values outside [0, 1]; pass cosines of non-negative vectors")
    gain_T = np.full(len(similarity_TG), np.nan)
    best_G = np.zeros(similarity_TG.shape[1])
    for t, row_G in enumerate(similarity_TG):
        seen_G = ~np.isnan(row_G)
        if seen_G.any():
            gain_T[t] = np.maximum(row_G - best_G, 0)[seen_G].mean()
        best_G = np.fmax(best_G, row_G)
    return gain_T


def redundancy(rounds: Sequence[Sequence[Hashable]]) -> Array:
    """Share of the documents of each round that were retrieved before, in it or earlier: float64[T] in [0, 1].

    A round without documents repeats nothing: 0.
    """
    known: set[Hashable] = set()
    shares = []
    for documents in rounds:
        repeated = 0
        for document in documents:
            repeated += document in known
            known.add(document)
        shares.append(repeated / len(documents) if documents else 0.0)
    return np.array(shares, np.float64)


def search_steps(gain_T: npt.ArrayLike, redundancy_T: npt.ArrayLike, *, faithful: bool = False) -> Array:
    """Reward of each round: ``gain·(1 − redundancy)``, float64[T] in [0, 1], never more than the gain. NaN stays NaN.

    ``faithful=True`` is StepSearch's ``gain − redundancy`` (https://arxiv.org/abs/2505.15107), in which one repeated
    document can outweigh all that was found, so that not searching pays more than searching.
    """
    gain_T, redundancy_T = np.asarray(gain_T, np.float64), np.asarray(redundancy_T, np.float64)
    if gain_T.shape != redundancy_T.shape or gain_T.ndim != 1:
        raise ShapeError(f"gain_T {gain_T.shape} and redundancy_T {redundancy_T.shape} must be equal and flat")
    return np.asarray(gain_T - redundancy_T if faithful else gain_T * (1 - redundancy_T), np.float64)


def stepsearch_answer(
    answer_f1: float | None, key_score: float, *, well_formed: bool = True, key_weight: float = KEY_WEIGHT
) -> float | None:
    """StepSearch's outcome, ``F1 + key_weight·key_score``; −1 without an answer or with text after it.

    ``key_score`` in [0, 1] says how well the queries hit the gold keywords. An outcome that is not ``well_formed``
    earns −1 and should earn no steps either: put them behind a gate. None if ``answer_f1`` is None. Source:
    https://arxiv.org/abs/2505.15107.
    """
    if not well_formed:
        return -1.0
    return None if answer_f1 is None else answer_f1 + key_weight * key_score


# --- R3-RAG ----------------------------------------------------------------------------------------------------------


def retrieval_relevance(
    judged: float | None, n_documents: int, *, weighted: float | None = None, faithful: bool = False
) -> float | None:
    """A judge's relevance in [0, 1] of what a step retrieved; 0 if nothing was retrieved.

    ``faithful=True`` (R3-RAG, https://arxiv.org/abs/2505.23794, released code): for a judge that claims more than 0.5
    about nothing, the median of ``weighted`` (the judge's weighted sub-scores, weights .3/.3/.4), 0 and ``judged``;
    else ``judged`` alone. A judge that is fooled twice then still pays. None if not judged.
    """
    if n_documents < 0:
        raise ShapeError(f"n_documents is {n_documents}; it must be at least 0")
    if n_documents == 0 and not faithful:
        return 0.0
    if judged is None:
        return None
    if not 0 <= judged <= 1:
        raise ShapeError(f"judged is {judged}; a relevance lies in [0, 1]")
    if n_documents or judged <= 0.5:
        return judged
    if weighted is None:
        raise ShapeError("weighted is None; the published form needs the judge's weighted sub-scores here")
    return statistics.median((weighted, 0.0, judged))


# --- LongRLVR --------------------------------------------------------------------------------------------------------


def citation_overlap(cited: Sequence[Hashable] | None, gold: Collection[Hashable]) -> Overlap | None:
    """Precision and recall of cited chunk ids. A repeated id is a citation too many: it lowers precision.

    ``cited=None`` says that the agent wrote no citations that can be read, which is its fault: both are 0. None only
    if there is no gold.
    """
    if not gold:
        return None
    right = len(set(cited or ()) & set(gold))
    return Overlap(precision=right / len(cited) if cited else 0.0, recall=right / len(set(gold)))


def evidence_reward(
    answer: float | None,
    overlap: Overlap | None,
    *,
    ungated: float = 0.1,
    beta: float | None = None,
    faithful: bool = False,
) -> float | None:
    """LongRLVR: ``r_a + η·F + (1 − η)·r_a·F``, in [0, 2]; ``η = ungated`` is paid whatever the answer ``r_a`` is.

    ``F`` is the F-score of the citations with ``beta=1`` by default. The paper has β = 2
    (https://arxiv.org/abs/2603.02146, η = 0.1), ``faithful=True``: then citing all of five times as many chunks as
    needed pays as much as citing half of them precisely. η < 1 keeps every right answer (1) above every wrong one (η).
    It becomes the plain answer reward for F = 0. None if either side is None. Raises ConfigError for η outside
    [0, 1) and for β ≤ 0.
    """
    beta = (2.0 if faithful else 1.0) if beta is None else beta
    if not (0 <= ungated < 1 and 0 < beta < math.inf):
        raise ConfigError(f"ungated={ungated} must lie in [0, 1) and beta={beta} be positive")
    if answer is None or overlap is None:
        return None
    score = overlap.f_beta(beta)
    return answer + ungated * score + (1 - ungated) * answer * score


# --- parts of a rubric -----------------------------------------------------------------------------------------------


class StepSearch(Reward):
    """How much of the gold documents each search found, minus the documents seen before, by ``search_steps``.

    ``retrieved`` holds, per turn that searched, the texts that came back; ``gold_documents`` the texts to be found, for
    the whole episode. How near they are is measured by ``tfidf_similarity`` over all of them. The published weight of a
    step is 0.6; the effective one of the released code, which scales a row in place and adds it again, is 1.6. An
    environment may instead record the verdicts under "step_search".
    """

    type: Literal["step_search"] = "step_search"
    per_turn: bool = True
    faithful: bool = False
    """Whether to use the published gain − redundancy, which pays a repeated search less than none; it needs low =
    −1."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The verdicts, or the texts that they are computed from."""
        return (self.type, "retrieved", "gold_documents")

    @property
    def sources(self) -> tuple[tuple[str, ...], ...]:
        """The verdicts, or both kinds of texts."""
        return (self.type,), ("retrieved", "gold_documents")

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError if verdicts would lie outside [low, high]."""
        super().model_post_init(context)
        if self.faithful and self.low > -1:
            raise ConfigError(f"component '{self.name}' is faithful, so a step can earn −1; set low = -1")

    def verdicts(self, facts: Facts) -> list[Verdict]:
        """One verdict per search; none without gold documents."""
        recorded = facts.verdicts(self.type)
        gold = facts.verdicts("gold_documents")
        searches = sorted(facts.verdicts("retrieved"), key=lambda verdict: -1 if verdict[0] is None else verdict[0])
        if recorded or not gold or not searches:
            return recorded
        theirs = self._texts(facts, None, gold[-1][1])
        rounds = [self._texts(facts, turn, found) for turn, found in searches]
        similarity = tfidf_similarity([text for texts in rounds for text in texts], theirs)
        best_TG, start = np.zeros((len(rounds), len(theirs))), 0
        for t, texts in enumerate(rounds):
            best_TG[t] = similarity[start : start + len(texts)].max(axis=0, initial=0.0)
            start += len(texts)
        step_T = search_steps(retrieval_gain(best_TG), redundancy(rounds), faithful=self.faithful)
        return [(turn, step) for (turn, _), step in zip(searches, step_T.tolist(), strict=True) if not math.isnan(step)]

    def _texts(self, facts: Facts, turn: int | None, value: Any) -> list[str]:
        if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
            self._reject(facts, turn, f"read {value!r:.80}; documents are a list of texts")
        return list(value)


class StepSearchAnswer(Formula):
    """Words shared with the ``gold`` answer plus how well the queries hit its keywords, by ``stepsearch_answer``.

    ``key_score`` lies in [0, 1]. ``answer_well_formed`` says whether there is an answer and nothing after it, and may
    be left out; its steps then belong behind a gate, {type = "requires", evidence = "answer_well_formed", on = …}.
    """

    type: Literal["step_search_answer"] = "step_search_answer"
    kind: Kind = "outcome"
    low: float = -1.0
    high: float = 1.0 + KEY_WEIGHT
    key_weight: float = KEY_WEIGHT
    """Gain of the outcome if the queries hit every gold keyword, in units of the verdict."""

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError if verdicts would lie outside [low, high]."""
        super().model_post_init(context)
        self._needs_range(-1.0, 1.0 + self.key_weight)

    def solved(self, facts: Facts, overall: float) -> bool | None:
        """Whether the answer has the words of the gold one and no others, whatever the queries hit."""
        given = next((given for _, given in self._cases(facts)), None)
        if given is None or not given.get("answer_well_formed", True):
            return super().solved(facts, overall)
        return token_f1(given["answer"] or "", given["gold"]) == 1.0

    def grade(
        self, answer: str | None, gold: Aliases, key_score: float, answer_well_formed: bool = True
    ) -> float | None:
        """The verdict by ``stepsearch_answer``."""
        return stepsearch_answer(
            token_f1(answer or "", gold), key_score, well_formed=answer_well_formed, key_weight=self.key_weight
        )


class RetrievalRelevance(Formula):
    """A judge's ``relevance`` in [0, 1] of the ``n_documents`` documents that a turn retrieved; 0 for none.

    By ``retrieval_relevance``. The published form also reads ``weighted``, the judge's weighted sub-scores.
    """

    type: Literal["retrieval_relevance"] = "retrieval_relevance"
    per_turn: bool = True
    faithful: bool = False
    """Whether to use the published form, in which a judge that is fooled twice still pays for retrieving nothing."""

    @property
    def sources(self) -> tuple[tuple[str, ...], ...]:
        """The verdict itself, or what the judge said: without it only a turn that retrieved nothing has a verdict."""
        return (self.type,), ("n_documents", "relevance")

    def grade(self, n_documents: int, relevance: float | None = None, weighted: float | None = None) -> float | None:
        """The verdict by ``retrieval_relevance``."""
        return retrieval_relevance(relevance, n_documents, weighted=weighted, faithful=self.faithful)


class CitedAnswer(Formula):
    """Whether the answer was ``correct`` (0 to 1), and, mostly if it was, whether the right chunks were cited.

    ``cited`` lists the ids that the agent cited, ``gold_chunks`` those that it should have. By ``evidence_reward`` of
    ``citation_overlap``: 0 to 2. A right answer is a success whatever was cited.
    """

    type: Literal["cited_answer"] = "cited_answer"
    decided_by: ClassVar[str] = "correct"
    kind: Kind = "outcome"
    high: float = 2.0
    ungated: float = 0.1
    """Share of the citations' worth that is paid whatever the answer is (η)."""
    beta: float = 1.0
    """Above 1 missing a chunk costs more than citing one too many; the paper has 2."""

    def grade(self, correct: float, cited: list[str | int], gold_chunks: list[str | int]) -> float | None:
        """The verdict by ``evidence_reward``."""
        return evidence_reward(correct, citation_overlap(cited, gold_chunks), ungated=self.ungated, beta=self.beta)
