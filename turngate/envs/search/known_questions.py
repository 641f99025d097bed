"""Questions from files, JSON lines or a JSON list, as NQ, HotpotQA, 2WikiMultihopQA, MuSiQue and FlashRAG have them.

Known keys: ``question`` or ``query``; ``answer``, ``answers``, ``golden_answers`` (texts or lists of aliases) and
``answer_aliases``; ``id`` or ``_id``; ``answerable``; ``supporting_facts`` with ``context`` (HotpotQA, 2Wiki: a list of
[title, sentences], or Hugging Face's form of it); ``paragraphs`` with ``is_supporting`` (MuSiQue); ``documents``, the
ids of the documents or passages that are needed; ``nuggets``, what a long answer should say (see ``nugget_rows.py``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from turngate.envs.search.findings import bears_answer
from turngate.envs.search.nugget_rows import Nugget, nuggets_of
from turngate.envs.search.passages import Corpus, Document, id_of
from turngate.envs.tasks import Dropped, TaskList, split_of, warn_of
from turngate.errors import DataError
from turngate.jsonl import read_rows, read_text
from turngate.rewards.outcome.answers import normalize
from turngate.types import JSON, Task

ENV_ID = "turngate/Search-v1"

_CLOSED = frozenset({"yes", "no"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownQuestion:
    """A row of a file, whatever its layout. ``documents``: ids of what is needed, in the order given, with
    ``titles``."""

    id: str
    line: int
    text: str
    answers: tuple[str, ...]
    documents: tuple[str, ...]
    titles: tuple[str, ...]
    nuggets: tuple[Nugget, ...] = ()


def known_questions(path: Path) -> Iterator[KnownQuestion]:
    """The questions of a file. Raises DataError, with the line (or the number in a list), for a row that is none."""
    for line, row in _rows(path):
        if not isinstance(row, Mapping):
            raise DataError(path, f"is {row!r:.60}, not an object with a question", line=line)
        text = row.get("question", row.get("query"))
        if not isinstance(text, str) or not text.strip():
            raise DataError(path, "has no question", line=line, field="question")
        answers = _answers(row)
        nuggets = nuggets_of(path, line, row.get("nuggets"))
        if not answers and not nuggets and row.get("answerable") is not False:
            raise DataError(
                path, "has no answer; write answerable = false where there is none", line=line, field="answer"
            )
        needed = _needed(path, line, row)
        name = row.get("id", row.get("_id"))
        yield KnownQuestion(
            id=str(line if name is None else name),
            line=line,
            text=text.strip(),
            answers=() if row.get("answerable") is False else answers,
            documents=tuple(dict.fromkeys(one for one, _ in needed)),
            titles=tuple(dict.fromkeys(title for _, title in needed if title)),
            nuggets=nuggets,
        )


def documents_of_contexts(path: Path) -> Iterator[Document]:
    """The paragraphs that the questions of a file bring with them, each once. Raises DataError if there are none."""
    known: set[str] = set()
    for line, row in _rows(path):
        for title, text, _ in _paragraphs(row) if isinstance(row, Mapping) else ():
            name = context_id(title, text)
            if name not in known and text.strip():
                known.add(name)
                yield Document(id=name, title=title, text=text, where=f"{path}, line {line}")
    if not known:
        raise DataError(path, "its questions bring no paragraphs with them (context or paragraphs)")


def tasks_of_file(
    path: Path, *, corpus: Corpus | None, table: Mapping[str, JSON] | None, held_out: int, skip_bad: bool
) -> TaskList:
    """The questions of a file as tasks about ``corpus``, which ``table`` names; None where the documents lie elsewhere.

    Raises DataError, with the line, for a question whose documents or whose answer the corpus does not hold, unless
    ``skip_bad``; such questions are then left out, and a warning counts them.
    """
    tasks, dropped, known = list[Task](), list[Dropped](), dict[str, int]()
    whole = normalize(" ".join(passage.text for passage in corpus.passages)) if corpus else ""
    for one in known_questions(path):
        problem = (
            f"the id '{one.id}' is that of line {known[one.id]}" if one.id in known else _unfit(one, corpus, whole)
        )
        known.setdefault(one.id, one.line)
        if problem and not skip_bad:
            raise DataError(path, f"{problem}; skip_bad = true leaves such questions out", line=one.line)
        if problem:
            dropped.append(Dropped(id=one.id, reason=problem, line=one.line))
        else:
            tasks.append(_task(one, path, table, held_out))
    warn_of(dropped, len(tasks) + len(dropped), f"questions of {path}")
    return TaskList(tasks, dropped)


def context_id(title: str, text: str) -> str:
    """The id of a paragraph that has none: a hash of its title and text."""
    return hashlib.blake2b(f"{title}\x1f{text}".encode(), digest_size=4).hexdigest()


def _task(one: KnownQuestion, path: Path, table: Mapping[str, JSON] | None, held_out: int) -> Task:
    task_id = f"{path.stem}/{one.id}"
    private: dict[str, object] = {
        "corpus": None if table is None else dict(table),
        "gold": list(one.answers),
        "documents": list(one.documents),
        "titles": list(one.titles),
    }
    if one.nuggets:
        private["nuggets"] = [dict(nugget) for nugget in one.nuggets]
    elif not one.answers:  # whoever says that there is none must have looked at these
        private["path"] = list(one.documents)
    return Task(
        id=task_id, env_id=ENV_ID, prompt=one.text, private=private, split=split_of(normalize(one.text), held_out)
    )


def _unfit(one: KnownQuestion, corpus: Corpus | None, whole: str) -> str:
    """Why a question cannot be asked of the corpus; "" if it can."""
    if corpus is None:
        return ""
    for name in one.documents:
        if name not in corpus.documents and name not in corpus.by_id:
            return f"the corpus has no document '{name}'"
    if one.nuggets and not one.answers:
        return ""
    if not one.answers or {normalize(answer) for answer in one.answers} & _CLOSED:
        return "" if one.answers or one.documents else "it has no answer, and no documents that would say it"
    if one.documents:
        parts = [corpus.documents.get(name) or (corpus.by_id[name],) for name in one.documents]
        shown = " ".join(f"{part.title} {part.text}" for passages in parts for part in passages)
        held = bears_answer([shown], one.answers)
    else:
        held = any(f" {normalize(answer)} " in f" {whole} " for answer in one.answers)
    return "" if held else f"the corpus does not hold the answer '{one.answers[0][:60]}'"


def _rows(path: Path) -> Iterator[tuple[int, JSON]]:
    if path.suffix == ".json":
        try:
            rows = json.loads(read_text(path))
        except json.JSONDecodeError as error:
            raise DataError(path, f"is not JSON: {error.msg}", line=error.lineno) from error
        if not isinstance(rows, list):
            raise DataError(path, "is not a list of questions")
        yield from enumerate(rows, 1)
    else:
        yield from read_rows(path)


def _answers(row: Mapping[str, JSON]) -> tuple[str, ...]:
    found: list[str] = []
    for key in ("answer", "answers", "golden_answers", "answer_aliases"):
        value = row.get(key)
        found += [str(one) for one in (value if isinstance(value, list) else [value]) if one is not None]
    return tuple(dict.fromkeys(one.strip() for one in found if one.strip()))


def _needed(path: Path, line: int, row: Mapping[str, JSON]) -> list[tuple[str, str]]:
    """(id, title) of the documents that are needed."""
    named = row.get("documents")
    if isinstance(named, list):
        return [(id_of(str(one)), "") for one in named]
    paragraphs = _paragraphs(row)
    facts = row.get("supporting_facts")
    if facts is None:
        return [(context_id(title, text), title) for title, text, supports in paragraphs if supports]
    titles = facts.get("title") if isinstance(facts, Mapping) else [one[0] for one in _lists(facts) if one]
    texts = {title: text for title, text, _ in paragraphs}
    wanted = [str(title) for title in (titles if isinstance(titles, list) else [])]
    if texts and (strange := [title for title in wanted if title not in texts]):
        raise DataError(path, f"names '{strange[0]}', which its context lacks", line=line, field="supporting_facts")
    return [(context_id(title, texts[title]), title) for title in wanted if title in texts]


def _paragraphs(row: Mapping[str, JSON]) -> list[tuple[str, str, bool]]:
    """(title, text, whether it is marked as needed) of what a question brings with it."""
    context, paragraphs = row.get("context"), row.get("paragraphs")
    if isinstance(context, Mapping):  # as Hugging Face stores it: {"title": […], "sentences": [[…], …]}
        titles, sentences = context.get("title"), context.get("sentences", context.get("content"))
        pairs = list(zip(titles if isinstance(titles, list) else [], _lists(sentences), strict=False))
        return [(str(title), " ".join(str(one).strip() for one in parts), False) for title, parts in pairs]
    if isinstance(context, list):
        whole = [(one[0], one[1]) for one in _lists(context) if len(one) == 2]
        return [
            (str(title), " ".join(str(one).strip() for one in parts), False)
            for title, parts in whole
            if isinstance(parts, list)
        ]
    found = [one for one in paragraphs if isinstance(one, Mapping)] if isinstance(paragraphs, list) else []
    return [
        (
            str(one.get("title", "")),
            str(one.get("paragraph_text", one.get("text", ""))),
            one.get("is_supporting") is True,
        )
        for one in found
    ]


def _lists(value: JSON) -> list[list[JSON]]:
    return [one for one in value if isinstance(one, list)] if isinstance(value, list) else []
