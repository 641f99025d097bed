"""Passages that are written instead of found: by the policy in SSRL (https://arxiv.org/abs/2508.10874), or by others.

In SSRL the policy is its own search engine: after a query it writes down what it knows. Tools and what the agent sees
are those of any other retriever, so a real one takes its place by one setting, without new training.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import ClassVar, Literal

from turngate.envs.search.engine.passages import Corpus, Hit, Passage
from turngate.envs.search.engine.retrievers import RetrieverPart

MOST_TITLE = 100
"""Longest title of a written passage; a colon further on belongs to the text."""


class SelfSearch(RetrieverPart):
    """The agent searches what it knows itself: in the turn after a query it writes the passages.

    SSRL masks them in the loss, as if a search engine had shown them.

    Left out of the paper: one text that holds query, passages and answer (here a turn ends after the query), and the
    reward for the right format.
    """

    type: Literal["self"] = "self"
    local: ClassVar[bool] = False
    finds: ClassVar[bool] = False
    learned: bool = False
    """Whether the tokens of the passages carry credit, as other tokens of the agent do. SSRL leaves them out."""

    def open(self, corpus: Corpus | None) -> OwnKnowledge:
        return OwnKnowledge()


class OwnKnowledge:
    """Finds no passages: the agent writes all of them."""

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """No passages."""
        return ()

    def close(self) -> None:
        """Nothing to free."""


def request(query: str, k: int) -> str:
    """How the passages for a query are asked for."""
    shown = " ".join(query.split())
    return f"Write what you know about: {shown}\nOne passage a line, title: text, at most {k}; no tool call"


def written_passages(text: str, k: int) -> list[Passage]:
    """The first ``k`` lines of a text as passages, ``title: text``; an id is a hash of the passage's text."""
    found: dict[str, Passage] = {}
    for line in text.splitlines():
        whole = " ".join(line.split()).lstrip("-*• ")
        if not whole or len(found) == k:
            continue
        title, colon, said = whole.partition(": ")
        if not (colon and said.strip() and len(title) <= MOST_TITLE):
            title, said = "", whole
        name = f"own-{hashlib.blake2b(whole.encode(errors='replace'), digest_size=4).hexdigest()}"
        found[name] = Passage(id=name, document=name, title=title, text=said.strip())
    return list(found.values())
