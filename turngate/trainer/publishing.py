"""After which steps the sampler gets the learner's weights: after each (online), every s steps (semi-online), never
(offline).

Source: https://arxiv.org/abs/2506.21495. With s = 4 the steps 1, 2, … are sampled by the weights 0, 0, 0, 0, 4, 4, 4,
4, 8, … After the last step the sampler gets the weights in any case, because the evaluation plays with them. Where no
step plays, because episodes are recorded ones, it gets them before a validation and after the last step.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from turngate.agents.policies.base import Policy, Weights
from turngate.part_calls import call_part_later, ignored
from turngate.parts import when_used
from turngate.trainer.checkpoint import Stateful
from turngate.types import Metrics

kept_weights = when_used("turngate.trainer.torch.kept_weights")


class Publishing:
    """``every``: steps between two publications; 0: none but the one after the ``last`` step. ``plays``: whether steps
    ask the policy for anything.

    Where steps play with weights that are older than the learner's, a checkpoint holds them too.
    """

    def __init__(self, *, every: int = 1, last: int = 0, plays: bool = True) -> None:
        self._every, self._last, self._plays = every, last, plays
        self._version = 0  # the step whose weights the sampler has
        self._kept: Mapping[str, object] = {}

    def due(self, step: int, *, moved: bool) -> bool:
        """Whether the sampler gets the weights after this step; ``moved``: whether the step changed them."""
        if self._every == 1:
            return moved
        return step == self._last or (self._every > 0 and step % self._every == 0)

    async def publish(self, policy: Policy, weights: Weights, step: int) -> None:
        """Give the sampler the weights of this step."""
        await _sent(policy, weights, step)
        self._version = step
        if self._every > 1 and self._plays:
            self._kept = kept_weights.copied(weights)

    async def resume(self, policy: Policy, weights: Weights, step: int) -> None:
        """Give the sampler what it had after this step; ``weights`` are the learner's. Call it after ``load``."""
        if self._every == 1 or step == self._last or not self._plays:
            await _sent(policy, weights, step)
            self._version = step
        elif self._version:
            await _sent(policy, self._kept, self._version)

    async def conclude(self, policy: Policy, weights: Weights, step: int) -> None:
        """Give the sampler the weights of the step that turned out to be the last, if it has older ones."""
        if self._version != step:
            await self.publish(policy, weights, step)

    def metrics(self, step: int) -> Metrics:
        """``policy/steps_behind``: how many steps the sampler's weights are behind the learner's after this one; none
        where it gets them after each."""
        return {"policy/steps_behind": float(step - self._version)} if self._every != 1 and self._plays else {}

    @property
    def checkpointed(self) -> Mapping[str, Stateful]:
        """What a checkpoint saves; a run whose sampler keeps the first weights, or gets all of them, needs nothing."""
        return {"sampler": self} if self._every > 1 and self._plays else {}

    def save(self, path: Path) -> None:
        """Write the sampler's version and, where it is not the first model, its weights."""
        kept_weights.save(path, self._version, self._kept)

    def load(self, path: Path) -> None:
        """Read what ``save`` wrote."""
        self._version, self._kept = kept_weights.load(path)


async def _sent(policy: Policy, weights: Weights, version: int) -> None:
    await call_part_later("policy", policy.publish, weights, version, take=ignored, must="")
