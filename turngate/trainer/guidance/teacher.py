"""Agent-RLVR: a teacher looks at a failed attempt and writes help for the next one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, TypeAlias

from pydantic import Field

from turngate.envs.leak import leaked_secret
from turngate.trainer.guidance.base import Helpers
from turngate.trainer.guidance.plan import Plan
from turngate.trainer.guidance.results import all_failed, is_solved, n_unguided, unguided
from turngate.trainer.guidance.transcripts import Piece, begun, facts_of, prompt_of, steps_of
from turngate.trainer.guidance.voices import other_voice
from turngate.trainer.guidance.writer import Writer, WritingGuide, WritingGuidePart
from turngate.types import Guidance, Metrics, Score, ScoredGroup, Task, Trajectory, derive_seed

HelpKind: TypeAlias = Literal["plan", "feedback", "pointer"]

_HEAD = (
    "You teach an agent. You see its task, an attempt that failed, what was measured{and_solution}. The agent will "
    "begin anew, and will read what you write now before its first turn."
)
_ASKS: dict[HelpKind, str] = {
    "plan": "Write a plan for the next attempt: the few steps that lead to the goal, in general words.",
    "feedback": "Explain what the results and error messages of this attempt mean, and what was wrong about it.",
    "pointer": "Say where to look: which part, place, name or command matters for this task, and not what to do there.",
}
_LIMITS = " Use at most 80 words. Do not write the answer or a whole action. Reply with the text and nothing else."


class TeacherPart(WritingGuidePart):
    """Agent-RLVR: where all siblings fail, a teacher sees one of the failures and writes a plan, feedback or a pointer,
    with which a second group tries again. It is learned from without the text.

    Source: https://arxiv.org/abs/2506.11425, which learns from pairs of a success and a failure by DPO: add auxiliary
    loss "pairs" for these. Here the second group is learned from like any other, with a baseline of its own. That the
    text is left out is our choice.
    """

    type: Literal["teacher"] = "teacher"
    kinds: tuple[HelpKind, ...] = Field(("plan", "feedback", "pointer"), min_length=1)
    """What the teacher writes: a plan, feedback about the failure, or a pointer to what to look at. Of several kinds
    one is drawn for each task and step."""
    sees_solution: bool = True
    """Whether the teacher is shown a solution of the task where there is one. What it writes is refused if it holds the
    answer, and counted (guide/refused_texts)."""
    strip: bool = True
    """Whether the text is taken out of the context that is learned from."""

    def open(self, helpers: Helpers) -> Teacher:
        """The guide of one run."""
        return Teacher(helpers, self)


class Teacher(WritingGuide):
    """See ``TeacherPart``. What it wrote is forgotten at the end of the step."""

    def __init__(self, helpers: Helpers, part: TeacherPart) -> None:
        self._helpers, self._part = helpers, part
        self._help: dict[str, Guidance] = {}
        self._counts: Counter[str] = Counter()

    async def write(self, groups: Sequence[ScoredGroup], wave: int, writer: Writer, seed: int) -> None:
        """Ask for help about every task whose siblings all failed."""
        stuck = {group.task.id: group for group in groups if wave == 1 and all_failed(group)}
        known = self._part.kinds
        kinds = {task: known[derive_seed(seed, "kind", task) % len(known)] for task in stuck}
        limit = writer.settings.limit
        prompts = {task: self._prompt(group, kinds[task], limit) for task, group in stuck.items()}
        for task, text in (await writer.write(prompts, seed=seed)).items():
            if refused(text, stuck[task].task, self._helpers):
                self._counts["refused_texts"] += 1
            elif text.strip():
                self._help[task] = Guidance(
                    kind=kinds[task], level=1, text=text.strip(), source="teacher", strip_for_train=self._part.strip
                )

    def again(self, group: ScoredGroup, wave: int) -> Plan | None:
        """A group of the same size with the teacher's text, once."""
        help_ = self._help.get(group.task.id)
        if wave > 1 or help_ is None:
            return None
        return Plan(entries=[help_] * n_unguided(group.trajectories), into="own")

    def observe(self, groups: Sequence[ScoredGroup]) -> None:
        """Count the tasks that failed with help as well."""
        self._counts["unsolved_helped"] += sum(
            group.task.id in self._help and not any(map(is_solved, group.scores)) for group in groups
        )
        self._help = {}

    def metrics(self) -> Metrics:
        """``guide/refused_texts`` see ``refused``; ``guide/unsolved_helped`` tasks failed with help too."""
        counts, self._counts = self._counts, Counter()
        return {f"guide/{name}": float(counts[name]) for name in ("refused_texts", "unsolved_helped")}

    def _prompt(self, group: ScoredGroup, kind: HelpKind, limit: int) -> str:
        one, score = best_failure(group)
        solution = solution_piece(self._helpers, group.task) if self._part.sees_solution else []
        head = _HEAD.format(and_solution=", and a solution" if solution else "")
        pieces = [("task", begun(one)), *steps_of(one), facts_of(one, score), *solution]
        return prompt_of(head, pieces, _ASKS[kind] + _LIMITS, limit=limit)


def best_failure(group: ScoredGroup) -> tuple[Trajectory, Score]:
    """The failure without help that was paid most; of equal ones the first. The group must have one."""
    pairs = [
        (one, score)
        for one, score in zip(group.trajectories, group.scores, strict=True)
        if score.usable and unguided(one) and not is_solved(score)
    ]
    return max(pairs, key=lambda pair: pair[1].compared.total)


def solution_piece(helpers: Helpers, task: Task) -> list[Piece]:
    """The first solution of the task, action by action, for a writer's eyes alone; nothing where none is known."""
    solutions = helpers.solutions(task)
    return [("solution", "\n".join(solutions[0]))] if solutions else []


def refused(text: str, task: Task, helpers: Helpers) -> bool:
    """Whether a text that was written for the agent gives its task away (see ``turngate.envs.leak``), or speaks in
    another voice (see ``turngate.trainer.guidance.voices``)."""
    return bool(leaked_secret(text, helpers.secrets(task), task.prompt)) or other_voice(text)
