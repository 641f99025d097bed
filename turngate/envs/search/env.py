"""``turngate/Search-v1``: answer a question by searching documents.

The agent searches, opens passages, cites what supports its answer, and answers; the answer counts word for word after
normalisation. It is read from the agent's own call and from nowhere else, so nothing that stands in a document can
answer for it, and an episode without that call has no answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from turngate.envs.base import TurnSpec
from turngate.envs.search.bm25 import words_of
from turngate.envs.search.findings import (
    Sought,
    bears_answer,
    gold_among,
    near_answer,
    query_novelty,
    right,
    truthful,
    walked,
)
from turngate.envs.search.hints import LEVELS, search_hint
from turngate.envs.search.library import Library, RetrieverLike, library, retriever_part
from turngate.envs.search.passages import Passage, id_of
from turngate.envs.search.retrievers import RetrieverFailed
from turngate.envs.search.rubric import RUBRIC
from turngate.envs.search.sources import GeneratedSearch, KnownSearch
from turngate.envs.tasks import TasksLike, TaskSource, TaskSourcePart
from turngate.envs.tool_env import ToolEnv, ToolError
from turngate.errors import ConfigError
from turngate.rewards.outcome.answers import is_abstention, normalize, token_f1
from turngate.rewards.outcome.search import citation_overlap, redundancy, search_steps
from turngate.tools.tool import tool
from turngate.types import Evidence, Task

GOAL = "Answer the question from the documents. One tool per turn"
COMMANDS = ": search QUERY | open ID | cite IDS | answer TEXT"
DEADLINE_S = 30.0
ELLIPSIS = "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchState:
    """What an episode knows at one moment; for forks. The documents are not in it, because nothing changes them."""

    task: Task
    turn: int
    shown: str
    seen: tuple[Passage, ...]
    queries: tuple[frozenset[str], ...]
    cited: tuple[str, ...]
    answer: str | None


class SearchEnv(ToolEnv):
    """Questions about documents. ``tasks``: see ``sources.py``; ``retriever``: see ``retrievers.py``.

    ``k``: passages of a search. ``passage_chars``: of each, so many characters are shown; ``open`` shows all.
    ``on_failure``: what becomes of an episode whose retriever fails: "end" makes it unusable, "tell" tells the agent.
    Raises ConfigError for a setting that is out of range, and what ``TurnEnv`` raises.
    """

    turn_spec = TurnSpec(
        rubric=RUBRIC,
        max_turns=12,
        tasks=GeneratedSearch(),
        deadline_s=DEADLINE_S,
        any_thread=True,
        fork="exact",
        side_effects="none",
        has_oracle=True,
        hint_levels=LEVELS,
    )
    common_facts = ("tool", "call_ok")
    answers = ("question",)

    def __init__(
        self,
        *,
        tasks: TasksLike = None,
        split: str | None = None,
        max_turns: int | None = None,
        retriever: RetrieverLike = "bm25",
        k: int = 3,
        passage_chars: int = 300,
        max_chars: int = 2000,
        on_failure: Literal["end", "tell"] = "end",
    ) -> None:
        for name, value, least in (("k", k, 1), ("passage_chars", passage_chars, 40), ("max_chars", max_chars, 80)):
            if value < least:
                raise ConfigError(f"{name} is {value}; it must be at least {least}")
        if on_failure not in ("end", "tell"):
            raise ConfigError(f"on_failure is '{on_failure}'; it must be end or tell")
        self._part = retriever_part(retriever)
        super().__init__(tasks=tasks, split=split, max_turns=max_turns)
        self._k, self._passage_chars, self._max_chars, self._on_failure = k, passage_chars, max_chars, on_failure
        self._library: Library | None = None
        self._table: object = None
        self._known: dict[str, Passage] = {}
        self._queries: list[frozenset[str]] = []
        self._cited: list[str] = []
        self._answer: str | None = None

    def open_tasks(self, part: TaskSourcePart) -> TaskSource:
        """Open the questions, and the index of their documents: of many documents that takes longer than a step may.

        Raises ConfigError for questions without documents, unless a server has its own.
        """
        source = part.open()
        if isinstance(part, KnownSearch) and self._part.local and not part.own_paragraphs:
            library(None if part.corpus is None else part.corpus.model_dump(mode="json"), self._part)
        return source

    def begin(self, task: Task) -> str:
        """Open the documents of the task and ask the question."""
        self._open(task)
        self._known, self._queries, self._cited, self._answer = {}, [], [], None
        return f"{GOAL}{'' if self.notation else COMMANDS}.\nQuestion: {task.prompt}"

    def state(self) -> str:
        """The task, the passages seen, what was cited, and the last text."""
        return "\x1f".join((self.task.id, *sorted(self._known), "\x1e", *self._cited, "\x1e", self.shown))

    def present(self, text: str) -> str:
        """Within ``max_chars``."""
        return text if len(text) <= self._max_chars else text[: self._max_chars - 1] + ELLIPSIS

    def verify(self) -> Iterable[Evidence]:
        """Compare the answer with the right one, and the citations with the documents that were needed."""
        sought, answer = _sought(self.task), self._answer
        looked = bool(sought.path) and walked(self._documents_seen(), sought.path) == len(sought.path)
        correct = right(answer, sought, looked=looked)
        f1 = token_f1(answer or "", sought.answers) if sought.answers else float(correct)
        facts: dict[str, object] = {
            "answerable": bool(sought.answers),
            "answered": answer is not None,
            "correct": correct,
            "abstained": answer is not None and is_abstention(answer),
            "token_f1": f1,
            "truthful": truthful(answer, sought, looked=looked),
            "cited": list(self._cited),
        }
        if sought.path:
            facts["near_answer"] = near_answer(answer or "", sought.between)
        overlap = citation_overlap(self._cited, sought.gold)
        if overlap is not None:
            facts["gold_chunks"] = list(sought.gold)
            facts["citation_precision"], facts["citation_recall"] = overlap.precision, overlap.recall
            facts["citation_f1"] = overlap.f1
        for name, value in facts.items():
            yield Evidence(name=name, value=value, by="verifier")  # type: ignore[arg-type]  # all are JSON

    def answer(self) -> str | None:
        """The text of the call ``answer``."""
        return self._answer

    def oracle(self, task: Task) -> Sequence[str]:
        """Search for each document that is needed, open it if the search did not show it, cite, answer."""
        found, sought = self._library_of(task), _sought(task)
        actions, cited = list[str](), list[str]()
        says = {**dict.fromkeys(sought.gold, sought.answers), **_steps(sought)}
        for number, name in enumerate(sought.gold):
            titles = task.private.get("titles", ())
            title = titles[number] if number < len(titles) else _title(found, name)
            title = " ".join(title.split())
            actions.append(f"search {title}")
            shown = [hit.passage.id for hit in found.retriever.search(title, self._k)]
            wanted = _bearing(found, name, says[name])
            if wanted not in shown:
                actions.append(f"open {wanted}")
            cited.append(wanted)
        if cited:
            actions.append(f"cite {' '.join(cited)}")
        return [*actions, f"answer {sought.answers[0] if sought.answers else 'unknown'}"]

    def hint(self, task: Task, level: int) -> str | None:
        """1: how many documents, and the first; 2: what to look up in turn; 3: the titles of all of them."""
        return search_hint(task, level)

    def marks(self, task: Task) -> Mapping[str, str]:
        """The question, and the way to its answer."""
        private = task.private
        return {
            "question": normalize(task.prompt),
            "links": " ".join(private.get("links", ())),
            "corpus": repr(sorted((private.get("corpus") or {}).items())),
        }

    def save(self) -> SearchState:
        """See ``TurnEnv.save``."""
        return SearchState(
            task=self.task,
            turn=self.turn,
            shown=self.shown,
            seen=tuple(self._known.values()),
            queries=tuple(self._queries),
            cited=tuple(self._cited),
            answer=self._answer,
        )

    def load(self, saved: object) -> None:
        """See ``TurnEnv.load``."""
        assert isinstance(saved, SearchState)
        self.turn, self.shown = saved.turn, saved.shown
        self._open(saved.task)
        self._known = {passage.id: passage for passage in saved.seen}
        self._queries, self._cited, self._answer = list(saved.queries), list(saved.cited), saved.answer

    # --- tools --------------------------------------------------------------------------------------------------------

    @tool
    def search(self, query: str) -> str:
        """Find passages that fit the words of a query."""
        words = frozenset(words_of(query))
        self.record("query_new", query_novelty(words, self._queries))
        self.record("repeated", words in self._queries)
        self._queries.append(words)
        assert self._library is not None
        try:
            found = self._library.retriever.search(query, self._k)
        except RetrieverFailed as error:
            self.record("search_failed", True)
            if self._on_failure == "end":
                raise
            raise ToolError("the search engine did not answer; try again") from error
        texts = [self._cut(hit.passage) for hit in found]
        self._learn([hit.passage for hit in found], texts)
        lines = [f"[{hit.passage.id}] {_named(hit.passage)}{text}" for hit, text in zip(found, texts, strict=True)]
        return "\n".join(lines) or "no passage fits"

    @tool
    def open(self, id: str) -> str:
        """Read a whole passage."""
        passage = self._passage(id)
        self._learn([passage], [passage.text])
        lines = "\n".join(f"| {line}" for line in passage.text.splitlines())  # so that no text can pose as another one
        return f"[{passage.id}] {_named(passage)}{self._neighbours(passage)}\n{lines}"

    @tool
    def cite(self, ids: str) -> str:
        """Name the passages that support your answer, by their ids, with blanks between them."""
        sought, named = _sought(self.task), [word for word in re.split(r"[\s,\[\]]+", ids) if word]
        unseen = [word for word in named if word not in self._known]
        if unseen or not named:
            raise ToolError(f"no passage '{unseen[0][:40] if unseen else ''}' was shown; cite ids that you have seen")
        self._cited += [sought.unit(self._known[word]) for word in named]
        return f"cited: {', '.join(self._cited)}"

    @tool(name="answer")
    def give_answer(self, text: str) -> str:
        """Answer in as few words as possible, or with: unknown. Ends the episode."""
        self._answer = text.strip()
        self.end()
        return "answered"

    # --- what its tools use -------------------------------------------------------------------------------------------

    def _open(self, task: Task) -> None:
        if self._library is None or self._table != task.private.get("corpus"):
            self._library, self._table = self._library_of(task), task.private.get("corpus")

    def _library_of(self, task: Task) -> Library:
        return library(task.private.get("corpus"), self._part)

    def _documents_seen(self) -> set[str]:
        return {passage.document for passage in self._known.values()}

    def _learn(self, passages: Sequence[Passage], texts: Sequence[str]) -> None:
        """Record what these passages, of which ``texts`` were shown, add to what was seen before."""
        sought, before = _sought(self.task), list(self._known.values())
        self._known |= {passage.id: passage for passage in passages}
        repeats = float(redundancy([[one.id for one in before], [one.id for one in passages]])[1])
        self.record("new_passages", 1.0 - repeats if passages else 0.0)
        if sought.gold:
            new = gold_among(passages, sought) - gold_among(before, sought)
            gain = len(new) / len(set(sought.gold))
            self.record("new_gold", gain)
            self.record("step_search", float(search_steps([gain], [repeats])[0]))
        if sought.path:
            behind = walked({one.document for one in before}, sought.path)
            ahead = walked(self._documents_seen(), sought.path)
            self.record("path_progress", (ahead - behind) / len(sought.path))
            self.record("distance", len(sought.path) - ahead)
        gold = gold_among(passages, sought)
        bearing = [
            text for one, text in zip(passages, texts, strict=True) if not sought.gold or sought.unit(one) in gold
        ]
        self.record("answer_shown", bears_answer(bearing, sought.answers))

    def _cut(self, passage: Passage) -> str:
        """The text of a passage in one line, so that it cannot pose as a second passage."""
        text = " ".join(passage.text.split())
        return text if len(text) <= self._passage_chars else text[: self._passage_chars - 1] + ELLIPSIS

    def _passage(self, wanted: str) -> Passage:
        corpus, name = self._library.corpus if self._library else None, id_of(wanted.strip().strip("[]"))
        found = self._known.get(name)
        if found is None and corpus is not None:
            found = corpus.by_id.get(name) or next(iter(corpus.documents.get(name, ())), None)
        if found is None:
            raise ToolError(f"there is no passage '{name[:40]}'; open ids that a search has shown")
        return found

    def _neighbours(self, passage: Passage) -> str:
        corpus = self._library.corpus if self._library else None
        parts = corpus.documents.get(passage.document, ()) if corpus else ()
        return f"(one of {parts[0].id} to {parts[-1].id})" if len(parts) > 1 else ""


def _named(passage: Passage) -> str:
    return f"{passage.title}: " if passage.title else ""


def _steps(sought: Sought) -> dict[str, tuple[str, ...]]:
    """What each document of the path says that leads on."""
    following = [(name,) for name in sought.between] + [sought.answers]
    return dict(zip(sought.path, following, strict=False))


def _title(found: Library, name: str) -> str:
    parts = found.corpus.documents.get(name.partition("#")[0], ()) if found.corpus else ()
    return (parts[0].title if parts else "") or name


def _bearing(found: Library, name: str, says: Sequence[str]) -> str:
    """The passage of a gold document that says one of ``says``; its first one if none does. A gold passage is itself.

    Without the documents at hand, the name of the document is all that is known.
    """
    parts = found.corpus.documents.get(name, ()) if found.corpus else ()
    if not parts:
        return name
    return next((part.id for part in parts if bears_answer([part.text], says)), parts[0].id)


def _sought(task: Task) -> Sought:
    private = task.private
    return Sought(
        answers=tuple(private["gold"]),
        gold=tuple(private.get("documents", ())),
        path=tuple(private.get("path", ())),
        between=tuple(private.get("between", private.get("titles", ())[1:] if private.get("path") else ())),
    )
