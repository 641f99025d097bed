"""Documents and the retriever over them, opened once per process, however many environments use them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pydantic import BaseModel, ValidationError

from turngate.envs.cache import Cache
from turngate.envs.search.engine.corpora import DocumentSource
from turngate.envs.search.engine.passages import Corpus
from turngate.envs.search.engine.retrievers import Retriever, RetrieverPart
from turngate.errors import ConfigError
from turngate.problems import one_line
from turngate.types import JSON

ROOM = 400_000_000
"""Characters of passages that a process keeps after their last use."""

RetrieverLike: TypeAlias = RetrieverPart | Mapping[str, JSON] | str
"""A retriever as an environment takes it: a part, its table, or its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """Documents and retriever of an episode. ``corpus`` is None where the documents lie elsewhere."""

    corpus: Corpus | None
    retriever: Retriever


class _NamedParts(BaseModel):
    corpus: DocumentSource | None = None
    retriever: RetrieverPart | None = None


_corpora: Cache[str, Corpus] = Cache(room=ROOM)
_libraries: Cache[str, Library] = Cache(room=ROOM)


def corpus_of(table: Mapping[str, JSON] | None) -> Corpus | None:
    """The documents that a task names by the table of their source; None if it names none. Raises UserError."""
    source = _named("corpus", table).corpus
    if source is None:
        return None
    key = f"{json.dumps(source.model_dump(mode='json'), sort_keys=True)}\x1f{source.stamp()}"
    with _corpora.reserve(key):
        corpus = _corpora.get(key)
        if corpus is None:
            corpus = source.open()
            _corpora.put(key, corpus, weight=corpus.weight)
    return corpus


def library(table: Mapping[str, JSON] | None, part: RetrieverPart) -> Library:
    """The documents of a task and the retriever ``part`` over them. Raises UserError, RetrieverFailed."""
    corpus = corpus_of(table)
    if corpus is None and part.local:
        raise ConfigError(f"retriever '{part.type}' searches the documents of a task; name them: corpus = {{type = …}}")
    key = json.dumps([id(corpus), part.model_dump(mode="json")], sort_keys=True)
    with _libraries.reserve(key):
        found = _libraries.get(key)
        if found is None or found.corpus is not corpus:
            found = Library(corpus=corpus, retriever=part.open(corpus))
            _libraries.put(key, found, weight=1 if corpus is None else corpus.weight)
    return found


def retriever_part(wanted: RetrieverLike) -> RetrieverPart:
    """The retriever that a setting names. Raises ConfigError."""
    part = _named("retriever", wanted).retriever
    assert part is not None
    return part


def _named(key: str, value: object) -> _NamedParts:
    data = {key: value}
    try:
        return _NamedParts.model_validate(data)
    except ValidationError as error:
        raise ConfigError(one_line(error, _NamedParts, data)) from None
