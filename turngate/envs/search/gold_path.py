"""The solution of a question about documents: its gold documents, the passages that matter, and the path to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from turngate.envs.search.engine.index_cache import Library
from turngate.envs.search.loaders.nugget_rows import nugget_text
from turngate.envs.search.retrieval_facts import Sought, bears_answer
from turngate.envs.search.task import SearchTask
from turngate.types import Task


def steps_of(sought: Sought) -> dict[str, tuple[str, ...]]:
    """For each document of the path, the words in it that lead to the next."""
    following = [(name,) for name in sought.between] + [sought.answers]
    return dict(zip(sought.path, following, strict=False))


def in_order(sought: Sought) -> list[str]:
    """The needed documents: those of the path in its order, then the others."""
    return sorted(sought.gold, key=lambda name: sought.path.index(name) if name in sought.path else len(sought.path))


def title_of(found: Library, name: str) -> str:
    """The title of a document; its name without one."""
    parts = found.corpus.documents.get(name.partition("#")[0], ()) if found.corpus else ()
    return (parts[0].title if parts else "") or name


def bearing(found: Library, name: str, says: Sequence[str]) -> str:
    """The passage of a gold document that says one of ``says``; its first one if none does. A gold passage is itself.

    Without the documents at hand, the name of the document is all that is known.
    """
    parts = found.corpus.documents.get(name, ()) if found.corpus else ()
    if not parts:
        return name
    return next((part.id for part in parts if bears_answer([part.text], says)), parts[0].id)


def from_memory(found: Library, sought: Sought) -> Iterator[str]:
    """Queries, and after each the passages that an agent which knew the documents by heart would write."""
    says = {**dict.fromkeys(sought.gold, sought.answers), **steps_of(sought)}
    if found.corpus is None:
        return
    for name in sought.gold:
        passage = found.corpus.by_id[bearing(found, name, says[name])]
        title = passage.title or name
        yield f"search {title}"
        yield f"{title}: {' '.join(passage.text.split())}"


def whole_answer(task: Task) -> str:
    """All nuggets of a task, one after the other: an answer that is right."""
    return " ".join(map(nugget_text, SearchTask.of(task).nuggets))


def sought_of(task: Task) -> Sought:
    """The ``Sought`` of a task."""
    asked = SearchTask.of(task)
    between = asked.between if asked.between is not None else asked.titles[1:] if asked.path else ()
    return Sought(
        answers=tuple(asked.gold),
        gold=tuple(asked.documents),
        path=tuple(asked.path),
        between=tuple(between),
        open_ended=bool(asked.nuggets) and not asked.gold,
    )
