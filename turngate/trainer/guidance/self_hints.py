"""SAGE with hints that a model writes itself: three levels for each task, from a solution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from turngate.judges.texts import Fault, FaultKind, read_object
from turngate.trainer.guidance.base import Helpers, Need
from turngate.trainer.guidance.plan import Plan
from turngate.trainer.guidance.results import all_failed, n_unguided
from turngate.trainer.guidance.teacher import refused, solution_piece
from turngate.trainer.guidance.transcripts import begun, prompt_of
from turngate.trainer.guidance.writer import Writer, WritingGuide, WritingGuidePart
from turngate.types import JSON, Guidance, Metrics, ScoredGroup

N_LEVELS = 3
_HEAD = "You see a task for an agent, and a solution of it, action by action."
_ASK = (
    "Write three hints for somebody who has to solve the task: level_1 says least, such as what to think of; level_2 "
    "the goals on the way; level_3 how to reach them. None may hold the answer or a whole action. At most 40 words "
    'each. Reply with one JSON object and nothing else: {"level_1": TEXT, "level_2": TEXT, "level_3": TEXT}. Leave a '
    "level empty if you have no hint for it."
)


class SelfHintsPart(WritingGuidePart):
    """SAGE: where all siblings fail, a model writes hints of three levels from a solution; a whole group plays with the
    first, then with the next, until one succeeds. The hint stays in the context that is learned from.

    Source: https://github.com/BaohaoLiao/SAGE, recipe "sage", where the writer is the policy. Its hints get worse when
    the policy does, so the last ones of a task that could be read are kept. Guide "sage" has the hints of the
    environment instead.
    """

    type: Literal["self_hints"] = "self_hints"
    needs: ClassVar[frozenset[Need]] = frozenset({"solutions"})

    def open(self, helpers: Helpers) -> SelfHints:
        """The guide of one run."""
        return SelfHints(helpers)


class SelfHints(WritingGuide):
    """See ``SelfHintsPart``. It remembers the last hints of each task."""

    def __init__(self, helpers: Helpers) -> None:
        self._helpers = helpers
        self._levels: dict[str, list[str]] = {}
        self._counts: Counter[str] = Counter()

    async def write(self, groups: Sequence[ScoredGroup], wave: int, writer: Writer, seed: int) -> None:
        """Ask for hints about every task whose siblings all failed; what cannot be used leaves the last ones."""
        stuck = {group.task.id: group for group in groups if wave == 1 and all_failed(group)}
        limit = writer.settings.limit
        prompts = {task: self._prompt(group, limit) for task, group in stuck.items()}
        for name, reply in (await writer.write(prompts, seed=seed)).items():
            levels = read_levels(reply)
            if isinstance(levels, Fault):
                self._counts["unreadable"] += 1
            elif any(refused(text, stuck[name].task, self._helpers) for text in levels):
                self._counts["refused_texts"] += 1
            else:
                self._levels[name] = levels

    def again(self, group: ScoredGroup, wave: int) -> Plan | None:
        """A group with the next level, as long as there is no success; an empty level is skipped."""
        levels = [(at, text) for at, text in enumerate(self._levels.get(group.task.id, []), 1) if text]
        if wave > len(levels) or not all_failed(group):
            return None
        level, text = levels[wave - 1]
        hint = Guidance(kind="hint", level=level, text=text, source="self")
        return Plan(entries=[hint] * n_unguided(group.trajectories), into="own")

    def metrics(self) -> Metrics:
        """``guide/unreadable`` replies were no hints, ``guide/refused_texts`` see ``refused``."""
        counts, self._counts = self._counts, Counter()
        return {f"guide/{name}": float(counts[name]) for name in ("unreadable", "refused_texts")}

    def state(self) -> JSON:
        """The hints of every task."""
        return dict(self._levels)

    def load(self, state: JSON) -> None:
        """Go on from ``state``."""
        assert isinstance(state, Mapping)
        self._levels = {task: [str(text) for text in texts] for task, texts in state.items() if isinstance(texts, list)}

    def _prompt(self, group: ScoredGroup, limit: int) -> str:
        pieces = [("task", begun(group.trajectories[0])), *solution_piece(self._helpers, group.task)]
        return prompt_of(_HEAD, pieces, _ASK, limit=limit)


def read_levels(reply: str) -> list[str] | Fault:
    """The three hints of a reply, from the least to the most; "" for a level without one."""
    data = read_object(reply)
    if isinstance(data, Fault):
        return data
    levels = [data.get(f"level_{level}", "") for level in range(1, N_LEVELS + 1)]
    found = [" ".join(text.split()) for text in levels if isinstance(text, str)]
    if len(found) < N_LEVELS or not any(found):
        return Fault(kind=FaultKind.MALFORMED, detail="level_1 to level_3 must be texts, not all of them empty")
    return found
