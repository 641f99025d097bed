"""Learners and a penalty that do what a run has to notice or survive."""

import itertools
import os
import signal
from pathlib import Path

import torch

from turngate.trainer.learner import TorchLearnerPart
from turngate.trainer.loss.base import Penalty
from turngate.trainer.torch.learner import TorchLearner

UPDATE = 4
"""At its beginning a ``DyingPart`` dies."""
_calls = itertools.count()


class DyingPart(TorchLearnerPart):
    """Its process ends by SIGKILL at the beginning of an update with adapters, if there is no file ``marker`` yet."""

    marker: str

    def open(self, model, **settings):
        learner = TorchLearner(model, **_settings(self, settings, "marker"))
        if self.lora is None:  # the warm start
            return learner
        step, updates = learner.optim_step, itertools.count(1)

        def optim_step(**scale):
            if next(updates) == UPDATE and not Path(self.marker).exists():
                Path(self.marker).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return step(**scale)

        learner.optim_step = optim_step
        return learner


class DeafPart(TorchLearnerPart):
    """Its learner publishes the model without its adapters."""

    def open(self, model, **settings):
        learner = TorchLearner(model, **_settings(self, settings))
        base = {name.replace(".base_layer", ""): weight for name, weight in model.named_parameters()}
        if self.lora is not None:
            learner.weights = lambda: {name: weight.detach() for name, weight in base.items() if ".lora_" not in name}
        return learner


def _settings(part, given, *more):
    own = {name: value for name, value in part.settings().items() if name not in ("tolerance", "max_kl", *more)}
    return own | {name: value for name, value in given.items() if name != "lr"}


class Breaking(Penalty):
    """A penalty that is 0 at each call, not a number, or needs more memory than there is."""

    calls: str
    """A letter for each call: 0, n, m."""

    def __call__(self, tokens):
        kind = self.calls[next(_calls) % len(self.calls)]
        value = {"0": 0.0, "n": float("nan")}[kind] if kind != "m" else torch.empty(2**60)[0]
        return tokens.logprob.sum() * value, {}
