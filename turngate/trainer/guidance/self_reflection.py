"""R3L with the model's own reflection: it says what went wrong, from which turn to try again, and how."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from turngate.errors import ConfigError
from turngate.judges.texts import Fault, FaultKind, read_object
from turngate.trainer.guidance.base import Helpers
from turngate.trainer.guidance.plan import Plan
from turngate.trainer.guidance.reflect import retry_from
from turngate.trainer.guidance.results import is_solved, unguided
from turngate.trainer.guidance.transcripts import begun, facts_of, prompt_of, steps_of
from turngate.trainer.guidance.voices import other_voice
from turngate.trainer.guidance.writer import Writer, WritingGuide, WritingGuidePart
from turngate.types import Metrics, ScoredGroup, Task, Trajectory, derive_seed

if TYPE_CHECKING:
    from turngate.config import Config

OUTCOMES = ("success", "success_but_inefficient", "failure")
_HEAD = "You see an attempt of an agent at a task, turn by turn, and what was measured."
_ASK = (
    "Reflect on it. Reply with one JSON object and nothing else: {{"
    '"trajectory_summary": TEXT, "root_cause_analysis": TEXT, "trajectory_outcome": "success", '
    '"success_but_inefficient" or "failure", "improvement_suggestion": TEXT of at most 60 words, "retry_from_step": '
    "the number of the turn from which it should be tried again, 0 to {last}, or null if it should not}}. The "
    "suggestion is shown to the agent before that turn."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfReflection:
    """What a model says of an attempt. ``retry_from``: the turn to try again from; None = not at all."""

    outcome: str
    suggestion: str
    retry_from: int | None


def read_reflection(reply: str, n_turns: int) -> SelfReflection | Fault:
    """The reflection in a reply about an attempt of ``n_turns`` turns. Whatever is missing or out of range is a fault:
    then there is no retry."""
    data = read_object(reply)
    if isinstance(data, Fault):
        return data
    outcome, suggestion, turn = (
        data.get(name) for name in ("trajectory_outcome", "improvement_suggestion", "retry_from_step")
    )
    if outcome not in OUTCOMES:
        return _malformed(f"'trajectory_outcome' must be one of {', '.join(OUTCOMES)}")
    if turn is not None and (isinstance(turn, bool) or not isinstance(turn, int) or not 0 <= turn < n_turns):
        return _malformed(f"'retry_from_step' must be null or from 0 to {n_turns - 1}")
    if turn is not None and not (isinstance(suggestion, str) and suggestion.strip()):
        return _malformed("a retry needs an 'improvement_suggestion'")
    return SelfReflection(outcome=str(outcome), suggestion=" ".join(str(suggestion or "").split()), retry_from=turn)


def _malformed(detail: str) -> Fault:
    return Fault(kind=FaultKind.MALFORMED, detail=detail)


class SelfReflectionPart(WritingGuidePart):
    """R3L: half of the siblings play; a model reflects on each, and those that it does not call a success are tried
    again from the turn that it names, with its suggestion. Both are compared, from that turn on (credit "r3l").

    Source: https://arxiv.org/abs/2601.03715, where the policy reflects (text_model.type = "policy"). There good
    reflections and retries that keep the suggestion are learned from as well; here only the retry without it. Guide
    "reflect" takes turn and note from a fact instead.
    """

    type: Literal["r3l"] = "r3l"
    branches: ClassVar[bool] = True
    strip: bool = True
    """Whether the suggestion is taken out of the context that is learned from, as in the paper."""

    def check_config(self, config: Config) -> None:
        group_size = config.train.group_size
        if group_size < 4:
            raise ConfigError(f"guide: half of {group_size} siblings play first; train.group_size must be at least 4")

    def open(self, helpers: Helpers) -> SelfReflecting:
        """The guide of one run."""
        return SelfReflecting(self)


class SelfReflecting(WritingGuide):
    """See ``SelfReflectionPart``. Reflections are forgotten at the end of the step."""

    def __init__(self, part: SelfReflectionPart) -> None:
        self._part = part
        self._reflections: dict[str, SelfReflection] = {}
        self._counts: Counter[str] = Counter()

    def plan(self, task: Task, group_size: int) -> Plan:
        """Half of the siblings, so that there is room for a retry of each."""
        return Plan(entries=[None] * (group_size // 2))

    async def write(self, groups: Sequence[ScoredGroup], wave: int, writer: Writer, seed: int) -> None:
        """Ask for a reflection on every attempt of the first wave."""
        if wave > 1:
            return
        limit, attempts = writer.settings.limit, {one.id: (one, group, at) for one, group, at in _attempts(groups)}
        prompts = {name: _prompt(group, at, limit) for name, (_, group, at) in attempts.items()}
        for name, reply in (await writer.write(prompts, seed=derive_seed(seed, "reflect"))).items():
            found = read_reflection(reply, len(attempts[name][0].turns))
            if isinstance(found, Fault):
                self._counts["unreadable"] += 1
            elif other_voice(found.suggestion):
                self._counts["refused_texts"] += 1
            else:
                self._reflections[name] = found

    def again(self, group: ScoredGroup, wave: int) -> Plan | None:
        """A retry of every attempt that the reflection does not call a success."""
        if wave > 1:
            return None
        entries = []
        for one, score in zip(group.trajectories, group.scores, strict=True):
            found = self._reflections.get(one.id)
            if found is None or found.retry_from is None or found.outcome == "success":
                continue
            self._counts["doubted"] += is_solved(score)
            entries.append(
                retry_from(one, found.retry_from, found.suggestion, strip=self._part.strip, siblings=group.trajectories)
            )
        return Plan(entries=entries) if entries else None

    def observe(self, groups: Sequence[ScoredGroup]) -> None:
        """Forget the reflections of the step."""
        self._reflections = {}

    def metrics(self) -> Metrics:
        """``guide/unreadable`` replies and ``guide/refused_texts``, which spoke in another voice, gave no
        retry; ``guide/doubted`` retries are of attempts that had succeeded."""
        counts, self._counts = self._counts, Counter()
        return {f"guide/{name}": float(counts[name]) for name in ("unreadable", "refused_texts", "doubted")}


def _attempts(groups: Sequence[ScoredGroup]) -> list[tuple[Trajectory, ScoredGroup, int]]:
    return [
        (one, group, at)
        for group in groups
        for at, (one, score) in enumerate(zip(group.trajectories, group.scores, strict=True))
        if score.usable and unguided(one) and one.turns
    ]


def _prompt(group: ScoredGroup, at: int, limit: int) -> str:
    one = group.trajectories[at]
    pieces = [("task", begun(one)), *steps_of(one), facts_of(one, group.scores[at])]
    return prompt_of(_HEAD, pieces, _ASK.format(last=len(one.turns) - 1), limit=limit)
