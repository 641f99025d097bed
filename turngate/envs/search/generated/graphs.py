"""Documents with links between them, and the questions that lie along those links.

A node has a document or is a plain value (a year, a number); a link leads from a document to what it says. A question
follows links from a node that it names: "the river by the town where Anna Kell was born". It is asked only if the
links lead to exactly one answer from whatever bears the name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from turngate.envs.seeded_random import SeededRandom
from turngate.rewards.outcome.normal_form import normalize

_TRIES = 40  # paths tried from other starts before giving up


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Something with a name. ``document``: whether it has a document, whose id is ``id``; else it is a plain value."""

    id: str
    name: str
    kind: str
    document: bool = True


@dataclass(slots=True, kw_only=True)
class Graph:
    """Nodes by id, and for each node what its links lead to, by the name of the link.

    ``phrases``: how a link is worded, with ``{}`` for what it leads from. ``links_of``: the links that nodes of a kind
    can have; one that a node lacks makes a question that has no answer.
    """

    phrases: Mapping[str, str]
    links_of: Mapping[str, Sequence[str]]
    nodes: dict[str, Node] = field(default_factory=dict)
    links: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)
    named: dict[str, list[str]] = field(default_factory=dict)
    """Normalised name → the nodes with a document that bear it."""

    def add(self, node: Node) -> None:
        """Add a node."""
        self.nodes[node.id] = node
        if node.document:
            self.named.setdefault(normalize(node.name), []).append(node.id)

    def link(self, source: str, link: str, target: str) -> None:
        """Add a link between two nodes."""
        links = self.links.setdefault(source, {})
        links[link] = (*links.get(link, ()), target)

    def ends(self, name: str, links: Sequence[str]) -> set[str]:
        """The nodes to which these links lead from whatever is called ``name``."""
        here = set(self.named.get(normalize(name), ()))
        for link in links:
            here = {target for node in here for target in self.links.get(node, {}).get(link, ())}
        return here


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A question: its start, its links, and the documents on the way, the start first. ``answer`` is None where the
    last document does not hold the answer."""

    start: Node
    links: tuple[str, ...]
    documents: tuple[Node, ...]
    answer: Node | None

    def wording(self, graph: Graph) -> str:
        """The question, the links from the inside out."""
        phrase = self.start.name
        for link in self.links:
            phrase = graph.phrases[link].format(phrase)
        return f"Name {phrase}."


def routes(graph: Graph, rng: SeededRandom, hops: int, *, answered: bool) -> Iterator[Route]:
    """Fair questions of ``hops`` links from random starts, as many as a number of tries finds."""
    starts = [node for node in graph.nodes.values() if node.document and graph.links_of.get(node.kind)]
    for _ in range(_TRIES if starts else 0):
        route = _walk(graph, rng, rng.pick(starts), hops, answered=answered)
        if route is not None and fair(graph, route):
            yield route


def fair(graph: Graph, route: Route) -> bool:
    """Whether the question has exactly one answer (or exactly none), which neither the question nor any document but
    the last one on the way can give away, and none of whose shorter parts answers it."""
    ends = graph.ends(route.start.name, route.links)
    if route.answer is None:
        before = graph.ends(route.start.name, route.links[:-1])
        return not ends and before == {route.documents[-1].id}
    answer = normalize(route.answer.name)
    if {normalize(graph.nodes[end].name) for end in ends} != {answer} or len(ends) != 1:
        return False
    passed = {normalize(node.name) for node in route.documents}
    return len(passed) == len(route.documents) and answer not in passed and answer not in normalize(route.start.name)


def _walk(graph: Graph, rng: SeededRandom, start: Node, hops: int, *, answered: bool) -> Route | None:
    here, documents, links = start, [start], list[str]()
    for hop in range(hops):
        known = graph.links.get(here.id, {})
        last = hop == hops - 1
        options = [
            link
            for link in graph.links_of.get(here.kind, ())
            if (link in known if answered or not last else link not in known)
            and (last or all(graph.nodes[target].document for target in known[link]))
        ]
        if not options:
            return None
        links.append(rng.pick(options))
        if last and not answered:
            return Route(start=start, links=tuple(links), documents=tuple(documents), answer=None)
        targets = known[links[-1]]
        if len(targets) != 1:
            return None
        here = graph.nodes[targets[0]]
        if not last:
            documents.append(here)
    return Route(start=start, links=tuple(links), documents=tuple(documents), answer=here)
