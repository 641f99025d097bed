"""Passages found by the vectors of a Hugging Face encoder, and several retrievers fused into one.

transformers is imported where an encoder is opened. Vectors are made once for each corpus and kept in memory, and on
disk where a folder is named (see ``embedding_cache``).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from turngate.envs.search.engine.embedding_cache import vectors_on_disk
from turngate.envs.search.engine.passages import Corpus, Hit, Passage
from turngate.envs.search.engine.retrievers import Retriever, RetrieverPart
from turngate.errors import ConfigError, MissingExtra

RANK_OFFSET = 60
"""Constant that limits the influence of the first ranks (Cormack, Clarke and Büttcher 2009)."""


class DenseIndex:
    """Vectors of passages, of length 1; the score is the cosine with the vector of the query.

    Raises MissingExtra without transformers, ConfigError for a model that cannot be loaded.
    """

    def __init__(self, passages: Sequence[Passage], part: DenseRetriever) -> None:
        self._passages, self._part, self._alone = passages, part, threading.Lock()
        self._tokenizer, self._model = _encoder(part.model)
        texts = [f"{part.passage_prefix}{passage.title} {passage.text}" for passage in passages]
        if part.folder is None:
            self._vector_ND = self._encoded(texts)
        else:
            made_by = part.model_dump_json(exclude={"folder", "batch", "query_prefix"})
            self._vector_ND = vectors_on_disk(part.folder, f"{made_by}\x1f{_stamp(part.model)}", texts, self._encoded)

    def search(self, query: str, k: int) -> list[Hit]:
        """The ``k`` passages whose vectors lie nearest; of equal ones the first in the corpus."""
        if not query.strip():
            return []
        query_D = self._vectors([self._part.query_prefix + query])[0]
        score_N = self._vector_ND @ query_D
        # The product rounds equal vectors differently by their place, so the scores of possible winners are computed
        # again.
        least = np.sort(score_N)[-k:][0] - len(query_D) * np.finfo(np.float32).eps
        near = np.flatnonzero(score_N >= least)
        exact = (self._vector_ND[near].astype(np.float64) * query_D).sum(1).astype(np.float32)
        best = np.argsort(-exact, kind="stable")[:k]
        return [Hit(passage=self._passages[near[i]], score=float(exact[i])) for i in best]

    def close(self) -> None:
        """Nothing to free."""

    def _encoded(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """float32[N, D], a batch after another."""
        step = self._part.batch
        return np.concatenate([self._vectors(texts[i : i + step]) for i in range(0, len(texts), step)])

    def _vectors(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """float32[B, D]."""
        clean = [text.encode(errors="replace").decode() for text in texts]
        with self._alone:  # tokenizers keep settings between calls
            batch = self._tokenizer(
                clean, padding=True, truncation=True, max_length=self._part.max_tokens, return_tensors="pt"
            )
            hidden_BLD = self._model(**batch).last_hidden_state.float().numpy()
        if self._part.pooling == "first":
            pooled_BD = hidden_BLD[:, 0]
        else:
            mask_BL1 = batch["attention_mask"].numpy()[:, :, None]
            pooled_BD = (hidden_BLD * mask_BL1).sum(1) / np.maximum(mask_BL1.sum(1), 1)
        return np.asarray(pooled_BD / np.maximum(np.linalg.norm(pooled_BD, axis=1, keepdims=True), 1e-12), np.float32)


class FusedIndex:
    """Several retrievers as one: a passage scores the sum of ``1 / (60 + rank)`` over those that found it.

    Reciprocal rank fusion, Cormack, Clarke and Büttcher 2009, https://dl.acm.org/doi/10.1145/1571941.1572114.
    """

    def __init__(self, retrievers: Sequence[Retriever], *, depth: int) -> None:
        self._retrievers, self._depth = retrievers, depth

    def search(self, query: str, k: int) -> list[Hit]:
        """The best ``k``; of equal scores the one that an earlier retriever found first."""
        passages: dict[str, Passage] = {}
        scores: dict[str, float] = {}
        for retriever in self._retrievers:
            for rank, hit in enumerate(retriever.search(query, max(k, self._depth)), 1):
                name = hit.passage.id
                passages.setdefault(name, hit.passage)
                scores[name] = scores.get(name, 0.0) + 1 / (RANK_OFFSET + rank)
        best = sorted(scores, key=lambda name: -scores[name])[:k]
        return [Hit(passage=passages[name], score=scores[name]) for name in best]

    def close(self) -> None:
        """Close the retrievers."""
        for retriever in self._retrievers:
            retriever.close()


class DenseRetriever(RetrieverPart):
    """The vectors of an encoder such as E5 or BGE, in memory, by cosine."""

    type: Literal["dense"] = "dense"
    model: str
    """A folder, or a name on the Hugging Face hub."""
    pooling: Literal["mean", "first"] = "mean"
    """How the vectors of tokens become one: their mean, or that of the first token (BGE)."""
    query_prefix: str = ""
    """Text before every query, for instance "query: " for E5."""
    passage_prefix: str = ""
    """Text before every passage, for instance "passage: " for E5."""
    max_tokens: int = Field(256, ge=8)
    """Most tokens of a passage or a query; longer ones are cut."""
    batch: int = Field(32, ge=1)
    """Passages encoded at once."""
    folder: Path | None = None
    """Where the vectors are kept, so that only new and changed passages are encoded; leave it out to encode all each
    time."""

    def open(self, corpus: Corpus | None) -> DenseIndex:
        """Encode the passages."""
        assert corpus is not None
        return DenseIndex(corpus.passages, self)


class HybridRetriever(RetrieverPart):
    """Several retrievers over the same documents, fused by their ranks."""

    type: Literal["hybrid"] = "hybrid"
    of: tuple[RetrieverPart, ...] = Field(min_length=2)
    """The retrievers, for instance ["bm25", {type = "dense", model = "…"}]; all of them local."""
    depth: int = Field(20, ge=1)
    """How many passages of each are fused."""

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError for a retriever that searches other documents."""
        if strange := [part.type for part in self.of if not part.local]:
            raise ConfigError(f"retriever.of names '{strange[0]}', which searches its own documents; name local ones")

    def open(self, corpus: Corpus | None) -> FusedIndex:
        """Open all of them."""
        return FusedIndex([part.open(corpus) for part in self.of], depth=self.depth)


def _stamp(model: str) -> str:
    """A text that changes when the files of a model do; "" for a name on the hub."""
    files = sorted(one for one in Path(model).rglob("*") if one.is_file()) if Path(model).is_dir() else []
    return json.dumps([(one.name, one.stat().st_size, one.stat().st_mtime_ns) for one in files])


def _encoder(name: str) -> tuple[Any, Any]:
    try:
        import transformers
    except ImportError:
        raise MissingExtra("transformers", "train") from None
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name)
        model = transformers.AutoModel.from_pretrained(name)
    except (OSError, ValueError, KeyError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ConfigError(f"retriever.model: '{name}' cannot be loaded: {reason}") from error
    return tokenizer, model.eval().requires_grad_(False)
