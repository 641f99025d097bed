"""A reference that is replaced in the middle of a run by the policy of that step."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path

from turngate.agents.policies.base import Weights
from turngate.agents.protocols import LanguageModel
from turngate.config.run_config import Config
from turngate.errors import ConfigError
from turngate.parts import when_used
from turngate.run.assembly.credit import needs_reference
from turngate.run.assembly.models import put_weights
from turngate.trainer.checkpoint import Stateful
from turngate.trainer.checks import learner_output as learner_answers
from turngate.trainer.run import Reset

kept_weights = when_used("turngate.trainer.torch.kept_weights")
KEY = "train.reset_reference"


class ReferenceReset(Reset):
    """Measures with a copy of the model that training begins from; after step ``at`` that gets the learner's weights.

    Source: ReMix's "policy reincarnation", https://arxiv.org/abs/2507.06892. A checkpoint after it holds the weights.
    """

    def __init__(self, config: Config, model: LanguageModel, *, at: int) -> None:
        self._twin, self._at = copy.deepcopy(model), at
        self._step = 0  # the step whose weights it has
        self.measuring = learner_answers.measuring(config.learner, self._twin, sampling=config.policy.sampling.whole)

    def after(self, step: int, weights: Callable[[], Weights]) -> None:
        if step == self._at:
            self._load_weights(weights(), step)

    @property
    def checkpointed(self) -> Mapping[str, Stateful]:
        return {"reference": self}

    def save(self, path: Path) -> None:
        """Write the weights, where they are not those that training began from."""
        own = dict(self._twin.named_parameters()) if self._step else {}
        kept_weights.save(path, self._step, kept_weights.copied(own))

    def load(self, path: Path) -> None:
        """Read what ``save`` wrote."""
        step, weights = kept_weights.load(path)
        if step:
            self._load_weights(weights, step)

    def _load_weights(self, weights: Weights, step: int) -> None:
        assert dict(self._twin.named_parameters()).keys() == dict(weights).keys()
        put_weights(self._twin, weights)
        self._step = step


def check_reset(config: Config) -> None:
    """Raise ConfigError for a reset of a reference that nothing compares with, or that would come too late."""
    at = config.train.reset_reference
    if at is None:
        return
    if not needs_reference(config):
        raise ConfigError(
            f"{KEY} has no effect: neither the loss nor the credit rule compares with a reference; add a penalty, for "
            'instance loss.penalties = ["kl_convex"], or leave it out'
        )
    if at >= config.train.steps:
        raise ConfigError(f"{KEY} = {at} has no effect: no step follows, train.steps is {config.train.steps}; lower it")
