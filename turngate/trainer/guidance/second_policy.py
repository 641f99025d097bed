"""RLGF: some turns of an episode are taken by another policy, the first ones or the last ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from turngate.agents.handoff import Actor, Handoff, ModelActor, ScriptActor
from turngate.errors import ConfigError
from turngate.parts import when_used
from turngate.trainer.guidance.base import Guide, GuidePart, Helpers
from turngate.trainer.guidance.plan import Plan
from turngate.types import JSON, Guidance, ScoredGroup, Task, derive_seed

if TYPE_CHECKING:
    from turngate.config import Config

tiny = when_used("turngate.agents.tiny")
torch = when_used("torch")
ORACLE = "oracle"


class SecondPolicyPart(GuidePart):
    """RLGF: in some episodes of each task another policy takes the first turns (roll-in) or the last ones (roll-out).

    With a roll-in the policy practises in states that a better one reaches; with a roll-out it learns first turns from
    which a better one succeeds. How many turns the first of the two takes is drawn for each task and step. These
    episodes have a baseline of their own. Source: https://arxiv.org/abs/2306.11816, where tokens are what turns are
    here.
    """

    type: Literal["second_policy"] = "second_policy"
    model: str = Field(ORACLE, min_length=1)
    """The other policy: a folder or a name on the Hugging Face hub of a model with the same tokenizer, or "oracle" for
    the solution of the environment."""
    acts: Literal["first", "last"] = "first"
    """first: the other one begins and the policy goes on; last: the policy begins and the other one goes on."""
    most: int = Field(2, ge=1)
    """Most turns of the policy that begins; the number is drawn from 1 to this."""
    share: float = Field(0.5, gt=0, lt=1)
    """Share of the siblings in which the other one takes turns: at least two, so that they can be compared."""

    def check_config(self, config: Config) -> None:
        group_size = config.train.group_size
        if group_size < 3:
            raise ConfigError(
                f"guide: two siblings get the second policy; train.group_size {group_size} leaves none alone"
            )

    def open(self, helpers: Helpers) -> SecondPolicy:
        """The guide of one run, with the other model loaded. Raises ConfigError if it cannot be found."""
        actor = None
        if self.model != ORACLE:
            device = "cuda" if torch.cuda.is_available() else "cpu"
            actor = ModelActor(self.model, *tiny.load(self.model, dtype="float32", device=device))
        return SecondPolicy(helpers, self, actor)


class SecondPolicy(Guide):
    """See ``SecondPolicyPart``. It remembers the number of steps, by which turns are drawn."""

    def __init__(self, helpers: Helpers, part: SecondPolicyPart, actor: Actor | None) -> None:
        self._helpers, self._part, self._actor, self._steps = helpers, part, actor, 0

    def plan(self, task: Task, group_size: int) -> Plan:
        """The last siblings get the second policy."""
        part = self._part
        n = min(group_size - 1, max(2, round(part.share * group_size)))
        turns = 1 + derive_seed(self._helpers.seed, "second policy", task.id, self._steps) % part.most
        guidance = Guidance(kind=f"second_policy_{part.acts}", level=turns, text="", source="guide")
        span = (0, turns) if part.acts == "first" else (turns, None)
        handoff = Handoff(actor=self._actor or self._oracle(task), guidance=guidance, first=span[0], until=span[1])
        return Plan(entries=[*[None] * (group_size - n), *[handoff] * n])

    def observe(self, groups: Sequence[ScoredGroup]) -> None:
        """One more step is over."""
        self._steps += 1

    def state(self) -> JSON:
        """Steps so far."""
        return {"steps": self._steps}

    def load(self, state: JSON) -> None:
        """Go on from ``state``."""
        assert isinstance(state, Mapping)
        self._steps = int(str(state["steps"]))

    def _oracle(self, task: Task) -> Actor:
        solutions = self._helpers.solutions(task)
        if not solutions:
            raise ConfigError(f"guide.model: '{ORACLE}' has no solution of task '{task.id}'; name a model instead")
        return ScriptActor(solutions[0])
