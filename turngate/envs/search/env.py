"""``turngate/Search-v1``: answer a question by searching documents.

The agent searches, opens passages, cites what supports its answer, and answers; the answer counts word for word after
normalisation. It is read only from the agent's own call, so no text of a document can count as the answer, and an
episode without that call has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from turngate.envs.base import Outcome, TurnSpec
from turngate.envs.search.engine.bm25 import words_of
from turngate.envs.search.engine.index_cache import Library, RetrieverLike, corpus_of, library, retriever_part
from turngate.envs.search.engine.passages import Passage, id_of
from turngate.envs.search.engine.retrievers import Retriever, RetrieverFailed
from turngate.envs.search.engine.self_search import SelfSearch, request, written_passages
from turngate.envs.search.facts import EVIDENCE
from turngate.envs.search.gold_path import bearing, from_memory, in_order, sought_of, steps_of, title_of, whole_answer
from turngate.envs.search.hints import LEVELS, search_hint
from turngate.envs.search.loaders.closed_book import is_closed_book
from turngate.envs.search.retrieval_facts import (
    bears_answer,
    gold_among,
    key_score,
    looked_at,
    names,
    near_answer,
    query_novelty,
    right,
    truthful,
    walked,
)
from turngate.envs.search.rubric import RUBRIC
from turngate.envs.search.sources import GeneratedSearch, KnownSearch
from turngate.envs.search.task import SearchTask
from turngate.envs.tasks import TasksLike, TaskSource, TaskSourcePart
from turngate.envs.tool_env import ToolEnv, ToolError
from turngate.errors import ConfigError
from turngate.rewards.outcome.answers import exact_match, is_abstention, token_f1
from turngate.rewards.outcome.calibration import confidence_in
from turngate.rewards.outcome.normal_form import normalize
from turngate.rewards.outcome.search import citation_overlap, redundancy, search_steps
from turngate.tools.tool import tool
from turngate.types import Action, Evidence, Observation, Task

GOAL = "Answer the question from the documents. One tool per turn"
COMMANDS = ": search QUERY | open ID | cite IDS | answer TEXT"
AT_LENGTH = "Answer in whole sentences, with all that belongs to the answer."
CLOSED_GOAL, CLOSED_COMMANDS = "Answer the question from what you know", ": answer TEXT"
DEADLINE_S = 30.0
ELLIPSIS = "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchState:
    """The state of an episode at one moment; for forks. The documents are not in it, because they never change."""

    task: Task
    turn: int
    shown: str
    seen: tuple[Passage, ...]
    queries: tuple[frozenset[str], ...]
    cited: tuple[str, ...]
    answer: str | None
    pending: str | None = None
    looked: tuple[tuple[str, int], ...] = ()


class SearchEnv(ToolEnv):
    """Questions about documents. ``tasks``: see ``sources.py``; ``retriever``: see ``engine/retrievers.py``.

    ``k``: passages of a search. ``passage_chars``: of each, so many characters are shown; ``open`` shows all.
    ``on_failure``: an episode whose retriever fails: "end" makes it unusable, "tell" tells the agent. Raises
    ConfigError for a setting that is out of range, and what ``TurnEnv`` raises.
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
        evidence=EVIDENCE,
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
        self._self = self._part if isinstance(self._part, SelfSearch) else None
        self._pending: str | None = None
        self._own: Retriever | None = None
        self._library: Library | None = None
        self._table: object = None
        self._known: dict[str, Passage] = {}
        self._queries: list[frozenset[str]] = []
        self._looked: dict[str, int] = {}  # document of the path → turn that looked at it
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
        """Open the documents of the task, unless it is closed-book, and ask the question."""
        self._open(task)
        self._known, self._queries, self._looked, self._cited = {}, [], {}, []
        self._answer, self._pending = None, None
        goal, commands = (CLOSED_GOAL, CLOSED_COMMANDS) if is_closed_book(task) else (GOAL, COMMANDS)
        asked = f"{goal}{'' if self.tool_format else commands}.\nQuestion: {task.prompt}"
        return f"{asked}\n{AT_LENGTH}" if SearchTask.of(task).nuggets else asked

    def state(self) -> str:
        """The task, the passages seen, what was cited, and the last text."""
        answerable = bool(SearchTask.of(self.task).gold)
        looked = () if answerable else (*sorted(self._looked), "\x1e")  # it decides what "unknown" earns
        seen = (self.task.id, *sorted(self._known), "\x1e", *looked, *self._cited, "\x1e", self.shown)
        return "\x1f".join(seen if self._pending is None else (*seen, "\x1e", self._pending))

    def act(self, action: Action) -> Outcome:
        """Carry out the call; or, where a query waits for passages that the agent writes, read them. A query whose
        passages were cut off keeps waiting."""
        if self._pending is None:
            return super().act(action)
        assert self._self is not None
        information = not self._self.learned
        if action.cut_off:
            return replace(super().act(action), information=information)
        self.turn += 1
        self._forget()
        said = action.text.replace(action.thought, "", 1) if action.thought else action.text
        passages = written_passages(said.replace("<think>", "").replace("</think>", ""), self._k)
        self._pending = None
        self.record("parsed", bool(passages))
        self.record("passages_written", len(passages))
        self.shown = self.present(self._shown(passages))
        seen = Observation(text=self.shown, state_key=self._state_key())
        return Outcome(observation=seen, evidence=tuple(self._facts), information=information)

    def present(self, text: str) -> str:
        """Within ``max_chars``."""
        return text if len(text) <= self._max_chars else text[: self._max_chars - 1] + ELLIPSIS

    def verify(self) -> Iterable[Evidence]:
        """Compare the answer with the right one, and the citations with the documents that were needed."""
        sought, answer = sought_of(self.task), self._answer
        looked = bool(sought.path) and self._looked.keys() >= set(sought.path)
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
            "gold": list(sought.answers) or None,
            "stated_confidence": confidence_in(super().answer() or ""),
        }
        if sought.open_ended and answer:
            facts |= _at_length(answer, whole_answer(self.task))
        if is_closed_book(self.task):
            facts["closed_book"] = True
        if titles := SearchTask.of(self.task).titles:
            facts["key_score"] = key_score(self._queries, [words_of(title) for title in titles])
        if sought.path and not sought.answers:
            facts["looked_at"] = dict(self._looked)
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
        sought = sought_of(task)
        said = whole_answer(task) if sought.open_ended else (*sought.answers, "unknown")[0]
        if is_closed_book(task):
            return [f"answer {said}"]
        found = self._library_of(task)
        actions, cited = list[str](), list[str]()
        if not self._part.finds:  # nothing leads to the documents
            return [*(from_memory(found, sought) if self._self else ()), f"answer {said}"]
        says = {**dict.fromkeys(sought.gold, sought.answers), **steps_of(sought)}
        titles = dict(zip(sought.gold, SearchTask.of(task).titles, strict=False))
        question = words_of(task.prompt)
        for name in in_order(sought):
            title = " ".join((titles.get(name) or title_of(found, name)).split())
            looks = f"search {title}" not in actions and names(words_of(title), words_of(title), question)
            actions.append(f"search {title}")
            shown = [hit.passage.id for hit in found.retriever.search(title, self._k)]
            wanted = bearing(found, name, says[name])
            if wanted not in shown or not (looks or sought.answers):
                actions.append(f"open {wanted}")
            cited.append(wanted)
        if cited:
            actions.append(f"cite {' '.join(cited)}")
        return [*actions, f"answer {said}"]

    def hint(self, task: Task, level: int) -> str | None:
        """1: how many documents, and the first; 2: what to look up in turn; 3: the titles of all of them."""
        return None if is_closed_book(task) else search_hint(task, level)

    def outside(self, task: Task) -> str:
        """The retriever, if it is none of the environment's own."""
        return self._part.outside

    def marks(self, task: Task) -> Mapping[str, str]:
        """The question, and the way to its answer."""
        asked = SearchTask.of(task)
        return {
            "question": normalize(task.prompt),
            "links": " ".join(asked.links),
            "corpus": repr(sorted((asked.corpus or {}).items())),
        }

    def save(self) -> SearchState:
        return SearchState(
            task=self.task,
            turn=self.turn,
            shown=self.shown,
            seen=tuple(self._known.values()),
            queries=tuple(self._queries),
            looked=tuple(self._looked.items()),
            cited=tuple(self._cited),
            answer=self._answer,
            pending=self._pending,
        )

    def load(self, saved: object) -> None:
        assert isinstance(saved, SearchState)
        self.turn, self.shown = saved.turn, saved.shown
        self._open(saved.task)
        self._known = {passage.id: passage for passage in saved.seen}
        self._queries, self._cited, self._answer = list(saved.queries), list(saved.cited), saved.answer
        self._pending, self._looked = saved.pending, dict(saved.looked)

    def close(self) -> None:
        """Close the retriever that is the environment's own."""
        if self._own is not None:
            self._own.close()
            self._own, self._library = None, None
        super().close()

    # --- tools --------------------------------------------------------------------------------------------------------

    @tool
    def search(self, query: str) -> str:
        """Find passages that fit the words of a query."""
        words = frozenset(words_of(query))
        self.record("query_new", query_novelty(words, self._queries))
        new = words not in self._queries
        self.record("repeated", not new)
        self._queries.append(words)
        assert self._library is not None
        if self._self is not None:
            self._pending = query
            return request(query, self._k)
        try:
            found = self._library.retriever.search(query, self._k)
        except RetrieverFailed as error:
            self.record("search_failed", True)
            if self._on_failure == "end":
                raise
            raise ToolError("the search engine did not answer; try again") from error
        passages = [hit.passage for hit in found]
        if new:
            self._look(passages, words)
        return self._shown(passages)

    @tool
    def open(self, id: str) -> str:
        """Read a whole passage."""
        passage = self._passage(id)
        if passage.document in self._documents_seen():  # a search showed it: opening a guessed id is no look-up
            self._look([passage], None)
        self._learn([passage], [passage.text])
        lines = "\n".join(f"| {line}" for line in passage.text.splitlines())  # so that no text can pose as another one
        return f"[{passage.id}] {_named(passage)}{self._neighbours(passage)}\n{lines}"

    @tool
    def cite(self, ids: str) -> str:
        """Name the passages that support your answer, by their ids, with blanks between them."""
        sought, named = sought_of(self.task), [word for word in re.split(r"[\s,\[\]]+", ids) if word]
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
        """Offer the tools of the task, and open its documents where it has any use for them."""
        spec = type(self).turn_spec
        if is_closed_book(task):
            self.turn_spec = replace(spec, tools=tuple(one for one in spec.tools if one.name == "answer"))
            return
        self.turn_spec = spec
        table = SearchTask.of(task).corpus
        if self._library is None or self._table != table:
            self._library, self._table = self._library_of(task), table

    def _library_of(self, task: Task) -> Library:
        table = SearchTask.of(task).corpus
        if self._part.finds:
            return library(table, self._part)
        if self._own is None:
            self._own = self._part.open(None)
        return Library(corpus=corpus_of(table), retriever=self._own)

    def _shown(self, passages: Sequence[Passage]) -> str:
        """The text of found passages; from now on they count as seen."""
        texts = [self._cut(passage) for passage in passages]
        self.record("n_documents", len(passages))
        self._learn(passages, texts)
        lines = [f"[{one.id}] {_named(one)}{text}" for one, text in zip(passages, texts, strict=True)]
        return "\n".join(lines) or "no passage fits"

    def _documents_seen(self) -> set[str]:
        return {passage.document for passage in self._known.values()}

    def _look(self, passages: Sequence[Passage], query: frozenset[str] | None) -> None:
        """Note which documents of the path a new search, or a passage that was opened after one (None), looks at."""
        sought, question = sought_of(self.task), words_of(self.task.prompt)
        for document in looked_at(passages, self._looked, sought, question=question, query=query):
            self._looked.setdefault(document, self.turn)

    def _learn(self, passages: Sequence[Passage], texts: Sequence[str]) -> None:
        """Record what these passages, of which ``texts`` were shown, add to what was seen before."""
        sought, before = sought_of(self.task), list(self._known.values())
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
        name = id_of(wanted.strip().strip("[]"))
        corpus = self._library.corpus if self._library and self._part.finds else None
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


def _at_length(answer: str, whole: str) -> dict[str, object]:
    """The facts about a long answer that words decide: it is all of the nuggets, or only a judge can say."""
    right = True if exact_match(answer, whole) == 1.0 else None
    return {"correct": right, "token_f1": None if right is None else 1.0, "truthful": None if right is None else 1.0}
