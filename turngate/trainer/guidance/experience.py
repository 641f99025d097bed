"""Guide ``memory``: siblings are shown an experience memory, which a model keeps by comparing episodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from turngate.judges.texts import Fault, read_object
from turngate.trainer.guidance.base import Helpers
from turngate.trainer.guidance.experience_memory import (
    MOST_WORDS,
    Experience,
    Memory,
    Operation,
    Recalled,
    read_operations,
    recalled,
    shown_ids,
)
from turngate.trainer.guidance.plan import Plan
from turngate.trainer.guidance.results import is_solved
from turngate.trainer.guidance.transcripts import begun, facts_of, prompt_of, steps_of
from turngate.trainer.guidance.writer import Writer, WritingGuide, WritingGuidePart
from turngate.types import JSON, Metrics, Score, ScoredGroup, Task, Trajectory, derive_seed

MOST_NEW = 2
"""Most rules that are drawn from one group."""

_SUMMARISE = "You see an episode of an agent at work on a task, and what was measured."
_ASK_SUMMARY = (
    "Summarise it step by step in at most 80 words: what the agent did, what came of it, and which step decided the "
    "result. Reply with the summary and nothing else."
)
_COMPARE = "You see summaries of several attempts of agents at one task, and the result of each."
_ASK_COMPARISON = (
    f"Compare the good attempts with the bad ones, and write at most {MOST_NEW} general rules that would have helped, "
    f'each of the form "When CONDITION, STRATEGY" in at most {MOST_WORDS} words. A rule must help with other tasks '
    "too: no number, name or answer of this task may stand in it. Reply with one JSON object and nothing else: "
    '{"experiences": [TEXT, …]}, with an empty list if nothing general can be learned.'
)
_OPERATIONS = (
    'Reply with one JSON object and nothing else: {"operations": [{"op": "ADD", "text": TEXT}, {"op": "UPDATE", "id": '
    'ID, "text": TEXT}, {"op": "DELETE", "id": ID}, {"op": "NONE"}]}. ADD what is new, UPDATE a rule that can be said '
    f"better or wider, DELETE one that was shown to be wrong, NONE if nothing is to be changed. At most {MOST_WORDS} "
    "words a rule; no number, name or answer of a task in it."
)
_REVISE = "You keep a memory of general rules for an agent. You see the rules, and new observations from one task."
_MERGE = (
    "You keep a memory of general rules for an agent. You see the rules, and changes that were proposed after several "
    "tasks. Make one list of changes of them: join what says the same, and drop what contradicts itself."
)


class MemoryGuidePart(WritingGuidePart):
    """Experience memory (Training-Free GRPO, https://arxiv.org/abs/2510.08191): a model compares siblings that did
    differently well, and adds, updates and deletes general rules, which episodes are shown at their beginning. With
    learner.type = "frozen" nothing else is learned.

    Left out of the paper: that every episode is shown the whole library, which is not the default here, because then
    no episode is left to tell what a rule is worth; set most = "all" and share = 1.0 for that.
    """

    type: Literal["memory"] = "memory"
    most: Literal["all"] | Annotated[int, Field(ge=1)] = 5
    """Most rules that an episode is shown: those with the largest upper bound of what they add to success. all: every
    rule about its environment."""
    share: float = Field(0.5, gt=0, le=1)
    """Share of the siblings that are shown the memory, at least one; the others, at least one, tell what the rules are
    worth. With 1 all are shown it, so no rule is ever retired."""

    def open(self, helpers: Helpers) -> MemoryGuide:
        """A guide with an empty memory."""
        return MemoryGuide(helpers, self)


class MemoryGuide(WritingGuide):
    """Shows the memory to a ``share`` of the siblings, and has it revised after each step.

    A group whose siblings did all equally well, all 0 or all 1, yields no operations, as in the paper. The four
    questions are the paper's: a summary of each episode, rules from the comparison of siblings, operations on the
    memory for each group, and one revision for the step. A reply that cannot be read changes nothing and is counted. No
    rule is kept that holds the answer of a task whose episodes the model was shown, and no task is shown a rule that
    holds its answer.
    """

    def __init__(self, helpers: Helpers, part: MemoryGuidePart) -> None:
        self._helpers, self._part, self.memory = helpers, part, Memory()
        self._counts: Counter[str] = Counter()

    def plan(self, task: Task, group_size: int) -> Plan:
        """The last siblings are shown the memory of the environment."""
        share = self._part.share
        shown = group_size if share == 1 else max(1, min(group_size - 1, round(share * group_size)))
        remembered = self.recalled(task)
        self._counts["withheld"] += len(remembered.withheld)
        return Plan(entries=(None,) * (group_size - shown) + (remembered.guidance,) * shown)

    def recalled(self, task: Task) -> Recalled:
        """The rules that an episode of ``task`` is shown now, and those that are withheld from it."""
        most = len(self.memory.entries) if self._part.most == "all" else self._part.most
        entries = self.memory.retrieve(task.env_id, most)
        return recalled(entries, task, self._helpers.secrets(task)) if entries else Recalled(guidance=None)

    async def write(self, groups: Sequence[ScoredGroup], wave: int, writer: Writer, seed: int) -> None:
        """Revise the memory by what the groups show, environment by environment."""
        for domain in sorted({group.task.env_id for group in groups}):
            own = {group.task.id: group for group in groups if group.task.env_id == domain and differs(group)}
            if own:
                await self._revise(domain, own, writer, derive_seed(seed, domain))

    def observe(self, groups: Sequence[ScoredGroup]) -> None:
        """Count successes with and without each rule, and retire what does harm."""
        for group in groups:
            pairs = [(one.guidance, is_solved(score)) for one, score in _usable(group)]
            shown = {id_ for guidance, _ in pairs for id_ in shown_ids(guidance)}
            with_ = [won for guidance, won in pairs if guidance is not None]
            without = [won for guidance, won in pairs if guidance is None]
            self.memory.count(
                sorted(shown),
                wins_with=sum(with_),
                n_with=len(with_),
                wins_without=sum(without),
                n_without=len(without),
            )
        self._counts["retired"] += len(self.memory.retire())

    def metrics(self) -> Metrics:
        """The size of the memory, what was done to it in this step, and how many rules were withheld, each counted once
        for each task (``guide/memory_…``)."""
        counts, self._counts = self._counts, Counter()
        named = {f"guide/memory_{name}": float(count) for name, count in sorted(counts.items())}
        return {"guide/memory_size": float(len(self.memory.entries)), **named}

    def state(self) -> dict[str, JSON]:
        """The memory as JSON."""
        return self.memory.state()

    def load(self, state: JSON) -> None:
        """Go on with a memory that ``state`` returned."""
        self.memory.load(state if isinstance(state, Mapping) else {})

    async def _revise(self, domain: str, groups: Mapping[str, ScoredGroup], writer: Writer, seed: int) -> None:
        limit = writer.settings.limit
        summaries = await writer.write(
            {
                f"summary {task} {at}": _summary_prompt(group, at, limit)
                for task, group in groups.items()
                for at, _ in enumerate(group.trajectories)
            },
            seed=seed,
        )
        compared = await writer.write(
            {task: _comparison_prompt(group, summaries, limit) for task, group in groups.items()},
            seed=derive_seed(seed, "compare"),
        )
        found = {task: self._rules(reply) for task, reply in sorted(compared.items())}
        known = self.memory.of(domain)
        proposed = await writer.write(
            {task: _revision_prompt(_REVISE, known, rules, limit) for task, rules in found.items() if rules},
            seed=derive_seed(seed, "revise"),
        )
        plans = [plan for _, reply in sorted(proposed.items()) if (plan := self._operations(reply))]
        if len(plans) > 1:
            lines = [_line(operation) for plan in plans for operation in plan]
            merged = await writer.write(
                {"merge": _revision_prompt(_MERGE, known, lines, limit)}, seed=derive_seed(seed, "merge")
            )
            plans = [self._operations(reply) for reply in merged.values()]
        tasks = [group.task for group in groups.values()]
        for plan in plans:
            self._counts += self.memory.apply(plan, domain=domain, tasks=tasks, secrets=self._helpers.secrets)

    def _rules(self, reply: str) -> list[str]:
        """The rules that a comparison found; none, and counted, if the reply cannot be read."""
        data = read_object(reply)
        rows = None if isinstance(data, Fault) else data.get("experiences")
        if not isinstance(rows, list) or not all(isinstance(row, str) for row in rows):
            self._counts["unreadable"] += 1
            return []
        return [" ".join(row.split()) for row in rows if row.strip()][:MOST_NEW]

    def _operations(self, reply: str) -> tuple[Operation, ...]:
        found = read_operations(reply)
        if isinstance(found, Fault):
            self._counts["unreadable"] += 1
            return ()
        return found


def differs(group: ScoredGroup) -> bool:
    """Whether the mean outcome of the usable siblings lies strictly between 0 and 1: there is something to compare."""
    outcomes = [score.outcome or 0.0 for _, score in _usable(group)]
    return bool(outcomes) and 0 < sum(outcomes) < len(outcomes)


def _usable(group: ScoredGroup) -> list[tuple[Trajectory, Score]]:
    return [pair for pair in zip(group.trajectories, group.scores, strict=True) if pair[1].usable]


def _summary_prompt(group: ScoredGroup, at: int, limit: int) -> str:
    one, score = group.trajectories[at], group.scores[at]
    pieces = [("task", begun(one)), *steps_of(one), facts_of(one, score)]
    return prompt_of(_SUMMARISE, pieces, _ASK_SUMMARY, limit=limit)


def _comparison_prompt(group: ScoredGroup, summaries: Mapping[str, str], limit: int) -> str:
    """The siblings by their summaries; one without a summary is left out."""
    pieces = [("task", group.task.prompt)]
    for at, (one, score) in enumerate(zip(group.trajectories, group.scores, strict=True)):
        if (summary := summaries.get(f"summary {group.task.id} {at}")) is not None and score.usable:
            pieces += [(f"attempt {at}", summary), facts_of(one, score, who=f"attempt {at}")]
    return prompt_of(_COMPARE, pieces, _ASK_COMPARISON, limit=limit)


def _revision_prompt(head: str, known: Sequence[Experience], lines: Sequence[str], limit: int) -> str:
    rules = "\n".join(f"[{entry.id}] {entry.text}" for entry in known) or "(the memory is empty)"
    return prompt_of(head, [("rules", rules), ("new", "\n".join(lines))], _OPERATIONS, limit=limit)


def _line(operation: Operation) -> str:
    return " ".join(part for part in (operation.kind, operation.id, operation.text) if part)
