"""Questions from files, JSON lines or a JSON list, as NQ, HotpotQA, 2WikiMultihopQA, MuSiQue and FlashRAG have them.

Known keys: ``question`` or ``query``; ``answer``, ``answers``, ``golden_answers`` (texts or lists of aliases) and
``answer_aliases``; ``id`` or ``_id``; ``answerable``; ``supporting_facts`` with ``context`` (HotpotQA, 2Wiki: a list of
[title, sentences], or Hugging Face's form of it); ``paragraphs`` with ``is_supporting`` (MuSiQue); ``documents``, the
ids of the documents or passages that are needed; for their order the keys that ``reasoning_paths`` names; ``nuggets``,
facts that a long answer should state (see ``nugget_rows.py``).

MuSiQue-Full has every question twice under one id, with its paragraphs and without some of them, and then without an
answer. The second one is a question without an answer only where each searches its own paragraphs alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from turngate.envs.search.engine.passages import Corpus, Document, id_of
from turngate.envs.search.loaders.nugget_rows import Nugget, nuggets_of
from turngate.envs.search.loaders.reasoning_paths import Paragraph, ReasoningPath, reasoning_path
from turngate.envs.search.retrieval_facts import bears_answer
from turngate.envs.search.task import SearchTask
from turngate.envs.tasks import Dropped, TaskList, split_of, warn_of
from turngate.errors import DataError
from turngate.jsonl import read_rows, read_text
from turngate.rewards.outcome.normal_form import normalize
from turngate.types import JSON, Task

ENV_ID = "turngate/Search-v1"

_CLOSED = frozenset({"yes", "no"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownQuestion:
    """A row of a file, whatever its layout. ``documents``: ids of the needed documents, in the order given, with
    ``titles``; ``path``: the order in which they lead to the answer."""

    id: str
    line: int
    text: str
    answers: tuple[str, ...]
    documents: tuple[str, ...]
    titles: tuple[str, ...]
    path: ReasoningPath
    nuggets: tuple[Nugget, ...] = ()


def known_questions(path: Path) -> Iterator[KnownQuestion]:
    """The questions of a file. Raises DataError, with the line (or the number in a list), for a malformed row."""
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
        found = () if row.get("answerable") is False else answers
        yield _question(path, line, row, text, found, nuggets)


def _question(
    path: Path,
    line: int,
    row: Mapping[str, JSON],
    text: str,
    answers: tuple[str, ...],
    nuggets: tuple[Nugget, ...],
) -> KnownQuestion:
    paragraphs = _paragraphs(row)
    needed = _needed(path, line, row, paragraphs)
    documents = tuple(dict.fromkeys(one for one, _ in needed))
    name = row.get("id", row.get("_id"))
    return KnownQuestion(
        id=f"{line if name is None else name}{'' if answers or nuggets or name is None else '/unanswerable'}",
        line=line,
        text=text.strip(),
        answers=answers,
        documents=documents,
        titles=tuple(dict.fromkeys(title for _, title in needed if title)),
        path=reasoning_path(row, paragraphs, documents, answers) if answers else ReasoningPath(),
        nuggets=nuggets,
    )


def documents_of_contexts(path: Path, line: int | None = None) -> Iterator[Document]:
    """The paragraphs that the questions of a file bring with them, each once; with ``line`` those of one question.

    Raises DataError if there are none.
    """
    known: set[str] = set()
    for number, row in _rows(path, only=line):
        for one in _paragraphs(row) if isinstance(row, Mapping) else ():
            if one.id not in known and one.text.strip():
                known.add(one.id)
                yield Document(id=one.id, title=one.title, text=one.text, where=f"{path}, line {number}")
    if not known:
        raise DataError(path, "its questions bring no paragraphs with them (context or paragraphs)")


def tasks_of_file(
    path: Path,
    *,
    corpus: Corpus | None,
    table: Mapping[str, JSON] | None,
    held_out: int,
    skip_bad: bool,
    own_paragraphs: bool = False,
) -> TaskList:
    """The questions of a file as tasks about ``corpus``, which ``table`` names; None where the documents lie elsewhere.

    ``own_paragraphs``: each question searches only those paragraphs of the table's file that it brings itself.
    Raises DataError, with the line, for a question whose documents or whose answer the corpus does not hold, and for
    one without an answer that the corpus does answer, unless ``skip_bad``; such questions are then left out, and a
    warning counts them.
    """
    tasks, dropped, known = list[Task](), list[Dropped](), dict[str, int]()
    whole = normalize(" ".join(passage.text for passage in corpus.passages)) if corpus else ""
    found = list(known_questions(path))
    answered = {} if own_paragraphs else {normalize(one.text): one.line for one in found if one.answers}
    for one in found:
        if one.id in known:
            problem = f"the id '{one.id}' is that of line {known[one.id]}"
        else:
            problem = _unfit(one, corpus, whole, answered)
        known.setdefault(one.id, one.line)
        if problem and not skip_bad:
            raise DataError(path, f"{problem}; skip_bad = true leaves such questions out", line=one.line)
        if problem:
            dropped.append(Dropped(id=one.id, reason=problem, line=one.line))
        else:
            searched = {**table, "line": one.line} if own_paragraphs and table is not None else table
            tasks.append(_task(one, path, searched, held_out, corpus))
    warn_of(dropped, len(tasks) + len(dropped), f"questions of {path}")
    return TaskList(tasks, dropped)


def context_id(title: str, text: str) -> str:
    """The id of a paragraph that has none: a hash of its title and text."""
    return hashlib.blake2b(f"{title}\x1f{text}".encode(), digest_size=4).hexdigest()


def _task(
    one: KnownQuestion, path: Path, table: Mapping[str, JSON] | None, held_out: int, corpus: Corpus | None
) -> Task:
    task_id = f"{path.stem}/{one.id}"
    asked = SearchTask(
        corpus=None if table is None else dict(table),
        gold=list(one.answers),
        documents=list(one.documents),
        titles=list(one.titles),
        nuggets=tuple({"text": nugget["text"], "importance": nugget["importance"]} for nugget in one.nuggets),
    )
    if one.path.documents:
        known = one.path
        asked = replace(asked, path=list(known.documents), between=list(known.between), links=list(known.links))
    elif not (one.answers or one.nuggets) or len(one.documents) == 1:
        # a claim that there is no answer is right only after looking at these
        asked = replace(asked, path=[_document(name, corpus) for name in one.documents], between=[])
    return Task(
        id=task_id,
        env_id=ENV_ID,
        prompt=one.text,
        private=asked.private(),
        split=split_of(normalize(one.text, faithful=True), held_out),
    )


def _document(name: str, corpus: Corpus | None) -> str:
    """The document that an id of a document or passage belongs to."""
    if corpus is None:
        return name.partition("#")[0]
    return name if name in corpus.documents else corpus.by_id[name].document


def _unfit(one: KnownQuestion, corpus: Corpus | None, whole: str, answered: Mapping[str, int]) -> str:
    """Why a question cannot be asked of the corpus; "" if it can. ``answered``: text of those with an answer → line."""
    if not one.answers and (line := answered.get(normalize(one.text))):
        return (
            f"has no answer, but line {line} asks the same and has one, so the documents may hold it; "
            "with own_paragraphs = true each searches its own"
        )
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


def _rows(path: Path, *, only: int | None = None) -> Iterator[tuple[int, JSON]]:
    """(line or number in a list, row); with ``only`` that row alone."""
    rows = _all_rows(path)
    if only is None:
        yield from rows
    else:
        yield next((pair for pair in rows if pair[0] == only), (only, None))


def _all_rows(path: Path) -> Iterator[tuple[int, JSON]]:
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


def _needed(path: Path, line: int, row: Mapping[str, JSON], paragraphs: Sequence[Paragraph]) -> list[tuple[str, str]]:
    """(id, title) of the documents that are needed."""
    named = row.get("documents")
    if isinstance(named, list):
        return [(id_of(str(one)), "") for one in named]
    facts = row.get("supporting_facts")
    if facts is None:
        return [(one.id, one.title) for one in paragraphs if one.supports]
    titles = facts.get("title") if isinstance(facts, Mapping) else [one[0] for one in _lists(facts) if one]
    ids = {one.title: one.id for one in paragraphs}
    wanted = [str(title) for title in (titles if isinstance(titles, list) else [])]
    if ids and (strange := [title for title in wanted if title not in ids]):
        raise DataError(path, f"names '{strange[0]}', which its context lacks", line=line, field="supporting_facts")
    return [(ids[title], title) for title in wanted if title in ids]


def _paragraphs(row: Mapping[str, JSON]) -> list[Paragraph]:
    """The paragraphs that a question brings with it."""
    context, paragraphs = row.get("context"), row.get("paragraphs")
    if isinstance(context, Mapping):  # as Hugging Face stores it: {"title": […], "sentences": [[…], …]}
        titles, sentences = context.get("title"), context.get("sentences", context.get("content"))
        pairs = list(zip(titles if isinstance(titles, list) else [], _lists(sentences), strict=False))
        return [_paragraph(title, parts) for title, parts in pairs]
    if isinstance(context, list):
        return [_paragraph(one[0], one[1]) for one in _lists(context) if len(one) == 2 and isinstance(one[1], list)]
    found = [one for one in paragraphs if isinstance(one, Mapping)] if isinstance(paragraphs, list) else []
    return [
        _paragraph(
            one.get("title", ""),
            [one.get("paragraph_text", one.get("text", ""))],
            supports=one.get("is_supporting") is True,
            number=one.get("idx"),
        )
        for one in found
    ]


def _paragraph(title: JSON, parts: Sequence[JSON], *, supports: bool = False, number: JSON = None) -> Paragraph:
    name, text = str(title), " ".join(str(one).strip() for one in parts)
    return Paragraph(id=context_id(name, text), title=name, text=text, supports=supports, number=number)


def _lists(value: JSON) -> list[list[JSON]]:
    return [one for one in value if isinstance(one, list)] if isinstance(value, list) else []
