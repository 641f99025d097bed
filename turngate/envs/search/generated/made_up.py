"""Made-up worlds: people, works, firms, towns and rivers with documents about them, the same on every machine.

Every document says where its links lead, in one of several wordings, and mentions something else that is no answer.
Some names of a world are nearly alike. Names belong to training or to the held-out split by their own hash, so no name
of a held-out world occurs in a training world. "made" names are put together from syllables, and not even a word of one
occurs in both splits; "words" are two words of a short list, and ids two digits, for models that cannot copy piece by
piece yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, TypeAlias

from turngate.envs.search.engine.passages import Document
from turngate.envs.search.generated.graphs import Graph, Node
from turngate.envs.seeded_random import SeededRandom
from turngate.envs.word_names import FIRST_WORDS, LAST_WORDS, Naming, belongs

LinkName: TypeAlias = Literal[
    "birthplace", "employer", "teacher", "author", "publisher", "printed", "seat", "founder", "founded", "river",
    "mayor", "mouth", "trade", "father", "goods", "lack",
]  # fmt: skip
MOST_NUMBERED = 60
"""Most documents of a world whose ids are two digits."""

_VALUES = {
    "trade": (
        "baker carter cooper fisher glazier mason miller painter potter saddler smith tailor tanner weaver"
    ).split(),
    "goods": "beer bread butter cheese glass honey leather linen paper rope salt silk soap wine".split(),
}
"""Words that are an answer and have no document."""
_MISSING = 0.15  # share of the links that a document does not tell
_BEGIN = "bar bel cor dan dor fel gar hal jor kel lam lor mar mer nor pel ran sal sol tar tel vel vor wil".split()
_MIDDLE = "a e i o u an en ar or il".split()
_END = "bek dan dor gan lek lin lo mor na nik ra rin sa son tan ton va vik".split()
_OTHER = (
    "It is not to be confused with {}.",
    "Some lists name {} beside it.",
    "{} was written about in the same year.",
)


@dataclass(frozen=True, slots=True)
class _Link:
    """What documents of a kind tell. ``target``: a kind, "year" or a key of ``_VALUES``. ``says``: wordings with
    ``{0}`` and ``{1}``. ``only_named``: it is told only where ``links`` names it."""

    name: LinkName
    target: str
    phrase: str
    says: tuple[str, ...]
    only_named: bool = False


_LINKS: Mapping[str, tuple[_Link, ...]] = {
    "person": (
        _Link(
            "birthplace",
            "town",
            "the town where {} was born",
            ("{0} was born in {1}.", "{1} is the birthplace of {0}."),
        ),
        _Link("employer", "firm", "the firm that employs {}", ("{0} works for {1}.", "The employer of {0} is {1}.")),
        _Link("teacher", "person", "the teacher of {}", ("{0} was taught by {1}.", "The teacher of {0} was {1}.")),
        _Link("trade", "trade", "the trade of {}", ("{0} is a {1} by trade.", "{0} earns a living as a {1}."), True),
        _Link(
            "father",
            "trade",
            "the trade of the father of {}",
            ("The father of {0} was a {1}.", "{0} is the child of a {1}."),
            True,
        ),
    ),
    "work": (
        _Link("author", "person", "the author of {}", ("{0} was written by {1}.", "The author of {0} is {1}.")),
        _Link("publisher", "firm", "the publisher of {}", ("{0} was published by {1}.", "{1} brought out {0}.")),
        _Link("printed", "year", "the year in which {} was printed", ("{0} was printed in {1}.",)),
    ),
    "firm": (
        _Link(
            "seat", "town", "the town where {} has its seat", ("{0} has its seat in {1}.", "The seat of {0} is {1}.")
        ),
        _Link("founder", "person", "the founder of {}", ("{0} was founded by {1}.", "{1} founded {0}.")),
        _Link("founded", "year", "the year in which {} was founded", ("{0} was founded in {1}.",)),
    ),
    "town": (
        _Link(
            "river",
            "river",
            "the river that flows through {}",
            ("The river {1} flows through {0}.", "{0} lies on the river {1}."),
        ),
        _Link("mayor", "person", "the mayor of {}", ("The mayor of {0} is {1}.", "{1} is mayor of {0}.")),
        _Link(
            "goods",
            "goods",
            "the best goods of {}",
            ("{0} is known for its {1}.", "People go to {0} for its {1}."),
            True,
        ),
        _Link(
            "lack",
            "goods",
            "the missing goods of {}",
            ("{0} has to buy its {1} elsewhere.", "Nobody in {0} makes {1}."),
            True,
        ),
    ),
    "river": (
        _Link(
            "mouth",
            "town",
            "the town at the mouth of {}",
            ("{0} reaches the sea at {1}.", "At the mouth of {0} lies {1}."),
        ),
    ),
}
_SHARES = {"person": 10, "work": 6, "firm": 5, "town": 6, "river": 3}
_FORMS = {
    "person": "{0} {1}", "work": "The {0} of {1}", "firm": "{0} and {1}", "town": "{0}", "river": "{0}",
}  # fmt: skip
_DESCRIBED = {
    "person": "{} is a person.", "work": "{} is a book.", "firm": "{} is a firm.", "town": "{} is a town.",
    "river": "{} is a river.",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LinkedDocuments:
    """Documents, and the links between them."""

    graph: Graph
    documents: Sequence[Document]

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """The texts of the documents by id."""
        return {document.id: document.text for document in self.documents}


@lru_cache(maxsize=256)
def world(
    split: str, number: int, size: int, naming: Naming = "made", links: tuple[LinkName, ...] = ()
) -> LinkedDocuments:
    """World ``number`` of a split, with about ``size`` documents that tell of ``links``; () = of all that lead to
    documents and years."""
    rng = SeededRandom("search-world", split, number, size)
    new_name = _new_name if naming == "made" else _new_words
    told = {
        kind: [link for link in known if (link.name in links if links else not link.only_named)]
        for kind, known in _LINKS.items()
    }
    graph = Graph(
        phrases={link.name: link.phrase for some in told.values() for link in some},
        links_of={kind: [link.name for link in some] for kind, some in told.items()},
    )
    by_kind: dict[str, list[Node]] = {}
    for kind, share in _SHARES.items():
        for _ in range(max(2, round(size * share / sum(_SHARES.values())))):
            node = Node(id=_new_id(rng, graph, naming), name=new_name(rng, graph, kind, split, by_kind), kind=kind)
            graph.add(node)
            by_kind.setdefault(kind, []).append(node)
    documents = [_document(rng, graph, node, by_kind, told[node.kind]) for node in [*graph.nodes.values()]]
    return LinkedDocuments(graph=graph, documents=tuple(rng.shuffled(documents)))


def _document(
    rng: SeededRandom, graph: Graph, node: Node, by_kind: Mapping[str, list[Node]], links: Sequence[_Link]
) -> Document:
    sentences = []
    for link in links:
        if rng.uniform() < _MISSING:
            continue
        target = _target(rng, graph, link, node, by_kind)
        graph.link(node.id, link.name, target.id)
        sentences.append(rng.pick(link.says).format(node.name, target.name))
    other = rng.pick([one for one in by_kind[node.kind] if one.id != node.id])
    sentences = rng.shuffled([*sentences, rng.pick(_OTHER).format(other.name)])
    text = " ".join([_DESCRIBED[node.kind].format(node.name), *sentences])
    return Document(id=node.id, title=node.name, text=text)


def _target(rng: SeededRandom, graph: Graph, link: _Link, node: Node, by_kind: Mapping[str, list[Node]]) -> Node:
    if link.target in by_kind:
        return rng.pick([one for one in by_kind[link.target] if one.id != node.id])
    said = str(rng.whole(1700, 1999)) if link.target == "year" else rng.pick(_VALUES[link.target])
    value = Node(id=f"{link.target} {said}", name=said, kind=link.target, document=False)
    graph.nodes.setdefault(value.id, value)
    return value


def _new_id(rng: SeededRandom, graph: Graph, naming: Naming) -> str:
    """An id that tells nothing of its document."""
    while True:
        if naming == "made":
            made = "".join(rng.pick("bcdfghjkmnpqrstvwxz23456789") for _ in range(3))
        else:
            made = str(rng.whole(10, 99))
        if made not in graph.nodes:
            return made


def _new_name(rng: SeededRandom, graph: Graph, kind: str, split: str, by_kind: Mapping[str, list[Node]]) -> str:
    """A name that no other node has; every third one shares a word with another name of its kind."""
    while True:
        words = [_word(rng, split), _word(rng, split)]
        known = by_kind.get(kind, [])
        if known and kind in ("person", "firm", "work") and rng.uniform() < 0.35:
            words[1] = rng.pick(known).name.split()[-1]
        name = _FORMS[kind].format(*words)
        if not any(node.name == name for node in graph.nodes.values()):
            return name


def _new_words(rng: SeededRandom, graph: Graph, kind: str, split: str, by_kind: Mapping[str, list[Node]]) -> str:
    """Two words that no other node is called and that together belong to the split; others share one of them."""
    while True:
        name = f"{rng.pick(FIRST_WORDS)} {rng.pick(LAST_WORDS)}".title()
        if belongs(name, split) and not any(node.name == name for node in graph.nodes.values()):
            return name


def _word(rng: SeededRandom, split: str) -> str:
    """A word of a name that belongs to the split."""
    while True:
        made = (rng.pick(_BEGIN) + rng.pick(_MIDDLE) + rng.pick(_END)).capitalize()
        if belongs(made, split):
            return made
