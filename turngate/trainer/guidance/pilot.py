"""PilotRL, first stage: the agent follows a plan that another model wrote before the episode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from turngate.judges.texts import Fault, FaultKind, read_object
from turngate.trainer.guidance.base import Helpers
from turngate.trainer.guidance.plan import Plan
from turngate.trainer.guidance.teacher import refused, solution_piece
from turngate.trainer.guidance.transcripts import prompt_of
from turngate.trainer.guidance.writer import Writer, WritingGuide, WritingGuidePart
from turngate.types import Guidance, Metrics, ScoredGroup, Task

MOST_STEPS = 8
"""Most steps of a plan; longer ones are bloat."""
_HEAD = "You plan for an agent, which will work on the task that you see and will read your plan first."
_ASK = (
    f"Write a global plan of at most {MOST_STEPS} steps, in the order in which they are to be taken. A step says what "
    "is to be reached, and holds neither the answer nor a whole action. Reply with one JSON object and nothing else: "
    '{"plan": [TEXT, …]}.'
)


def read_plan(reply: str) -> list[str] | Fault:
    """The steps of the plan in a reply; a plan without steps or with more than 8 is a fault."""
    data = read_object(reply)
    if isinstance(data, Fault):
        return data
    steps = data.get("plan")
    if not isinstance(steps, list) or not 1 <= len(steps) <= MOST_STEPS:
        return Fault(kind=FaultKind.MALFORMED, detail=f"'plan' must be a list of 1 to {MOST_STEPS} steps")
    found = [" ".join(step.split()) for step in steps if isinstance(step, str) and step.strip()]
    if len(found) < len(steps):
        return Fault(kind=FaultKind.MALFORMED, detail="each step of 'plan' must be a text")
    return found


class PilotPart(WritingGuidePart):
    """PilotRL (AdaPlan), first stage: a model writes a plan for each task, and the agent learns to follow it.

    The reward of this stage is outcome + ½ adherence, and adherence counts only where the task was solved: the examiner
    "adherence" records per turn whether the plan was followed, a reward "from_evidence" of weight 0.5 pays it, and the
    gate "needs_outcome" closes it for failures. Source: https://arxiv.org/abs/2508.00344, reconstructed from its
    abstract; gating and the limit of 8 steps are ours. Its later stages, in which the policy writes the plan itself and
    learns to, are played in ``turngate/Planned-v1``.
    """

    type: Literal["pilot"] = "pilot"
    share: float = Field(1.0, gt=0, le=1)
    """Share of the siblings that get the plan, at least one. Lower it to keep practising without."""
    sees_solution: bool = True
    """Whether the planner is shown a solution of the task where there is one. A plan that holds the answer is refused,
    and counted (guide/refused_texts)."""
    strip: bool = False
    """Whether the plan is taken out of the context that is learned from. In the paper it stays."""

    def open(self, helpers: Helpers) -> Pilot:
        """The guide of one run."""
        return Pilot(helpers, self)


class Pilot(WritingGuide):
    """See ``PilotPart``. Plans are forgotten at the end of the step."""

    def __init__(self, helpers: Helpers, part: PilotPart) -> None:
        self._helpers, self._part = helpers, part
        self._plans: dict[str, str] = {}
        self._counts: Counter[str] = Counter()

    async def prepare(self, tasks: Sequence[Task], writer: Writer, seed: int) -> None:
        """Ask for a plan of every task; without one it is played unguided."""
        by_id = {task.id: task for task in tasks}
        prompts = {name: self._prompt(task, writer.settings.limit) for name, task in by_id.items()}
        for name, reply in (await writer.write(prompts, seed=seed)).items():
            steps = read_plan(reply)
            if isinstance(steps, Fault):
                self._counts["unreadable"] += 1
                continue
            text = "\n".join(["Plan:", *(f"{number}. {step}" for number, step in enumerate(steps, 1))])
            if refused(text, by_id[name], self._helpers):
                self._counts["refused_texts"] += 1
            else:
                self._plans[name] = text

    def plan(self, task: Task, group_size: int) -> Plan:
        """The last siblings get the plan of the task, if there is one."""
        text = self._plans.get(task.id)
        if text is None:
            return Plan(entries=(None,) * group_size)
        helped = max(1, round(self._part.share * group_size))
        guidance = Guidance(kind="plan", level=1, text=text, source="teacher", strip_for_train=self._part.strip)
        return Plan(entries=(None,) * (group_size - helped) + (guidance,) * helped)

    def observe(self, groups: Sequence[ScoredGroup]) -> None:
        """Forget the plans of the step."""
        self._plans = {}

    def metrics(self) -> Metrics:
        """``guide/unreadable`` replies were no plans, ``guide/refused_texts`` see ``refused``."""
        counts, self._counts = self._counts, Counter()
        return {f"guide/{name}": float(counts[name]) for name in ("unreadable", "refused_texts")}

    def _prompt(self, task: Task, limit: int) -> str:
        solution = solution_piece(self._helpers, task) if self._part.sees_solution else []
        return prompt_of(_HEAD, [("task", task.prompt), *solution], _ASK, limit=limit)
