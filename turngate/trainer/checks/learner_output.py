"""Checks what a user's learner returns before it is used: metrics, measured columns and weights.

Learners that ship with turngate are used unchecked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from turngate.agents.policies.base import Weights
from turngate.agents.protocols import LanguageModel
from turngate.envs.pool.cluster_parts import ClusterPart
from turngate.errors import PartError
from turngate.part_calls import Unusable, answering, call_part, ignored, metrics_of, number, ships, short_result
from turngate.trainer.learner import NOTHING, Learner, LearnerPart, Measured, Measuring
from turngate.trainer.loss.tokens import Loss
from turngate.types import Batch, BoolArray, FloatArray, Metrics, Sampling

T = TypeVar("T")
NOUN = LearnerPart.noun
_MEASURES = ("logprobs", "entropies")
_LEARNS = (*_MEASURES, "forward_backward", "hold_gradient", "optim_step", "weights", "values", "save", "load")
_METRICS = "a dictionary of numbers by name"


@contextmanager
def start_learner(part: LearnerPart, *, jobs: int = 1, cluster: ClusterPart | None = None) -> Iterator[bool]:
    """``LearnerPart.started``.

    A learner cannot hide an error of the run. An error that it raises at the end of the run is its own: it ends a run
    that had succeeded, and becomes a note to the error of a run that had failed.
    """
    placing = {} if cluster is None else {"cluster": cluster}
    start: Callable[[], object] = partial(part.started, jobs=jobs, **placing)
    manager = call_part(NOUN, start, take=answering("__enter__", "__exit__"), must="a context manager", of=part.started)
    works = call_part(NOUN, manager.__enter__, take=bool, must="true or false", of=part.started)
    leave = partial(call_part, NOUN, manager.__exit__, take=ignored, must="", of=part.started)
    try:
        yield works
    except BaseException as error:
        try:
            leave(type(error), error, error.__traceback__)
        except PartError as second:
            error.add_note(f"after that, {second}")
        raise
    leave(None, None, None)


def open_learner(part: LearnerPart, model: LanguageModel, **settings: object) -> Learner:
    """``LearnerPart.open``."""
    return cast("Learner", _made(part, part.open, model, has=_LEARNS, **settings))


def imitating(part: LearnerPart, model: LanguageModel, *, lr: float, adapters: bool) -> Learner:
    """``LearnerPart.imitating``."""
    return cast("Learner", _made(part, part.imitating, model, has=_LEARNS, lr=lr, adapters=adapters))


def measuring(part: LearnerPart, model: LanguageModel, *, sampling: Sampling) -> Measuring:
    """``LearnerPart.measuring``."""
    return cast("Measuring", _made(part, part.measuring, model, has=_MEASURES, sampling=sampling))


def measuring_start(part: LearnerPart, learner: Learner, model: LanguageModel, *, sampling: Sampling) -> Measuring:
    """``LearnerPart.measuring_start``."""
    made = _made(part, part.measuring_start, learner, model, has=_MEASURES, sampling=sampling)
    return cast("Measuring", made)


def write_adapter(part: LearnerPart, learner: Learner, folder: Path, *, base: str) -> None:
    """``LearnerPart.write_adapter``."""
    write = partial(part.write_adapter, base=base)
    call_part(NOUN, write, learner, folder, take=ignored, must="", of=part.write_adapter)


def _made(
    part: LearnerPart, method: Callable[..., object], *arguments: object, has: tuple[str, ...], **settings: object
) -> object:
    """What ``method`` of a part returns, which has these methods; that of a user's part has its answers read."""
    must = "a Learner" if has is _LEARNS else f"an object with {' and '.join(has)}"
    made = call_part(NOUN, partial(method, **settings), *arguments, take=answering(*has), must=must, of=method)
    return made if ships(part) or isinstance(made, ReadLearner) else ReadLearner(made)


class ReadLearner:
    """A ``Learner`` or ``Measuring`` whose answers are checked; its other attributes are passed through.

    Every method raises PartError for what the learner raises, and for an answer that cannot be used.
    """

    def __init__(self, learner: object) -> None:
        self._learner: Any = learner

    def __getattr__(self, name: str) -> Any:
        if name == "_learner":  # a copy that has none yet
            raise AttributeError(name)
        return getattr(self._learner, name)

    def forward_backward(self, batch: Batch, loss: Loss, *, measured: Measured = NOTHING) -> Metrics:
        return self._asked("forward_backward", batch, loss, take=metrics_of, must=_METRICS, measured=measured)

    def hold_gradient(self) -> float:
        return self._asked("hold_gradient", take=partial(number, name="the norm", finite=False), must="a number")

    def optim_step(self, *, lr_scale: float = 1.0) -> Metrics:
        return self._asked("optim_step", take=metrics_of, must=_METRICS, lr_scale=lr_scale)

    def weights(self) -> Weights:
        return self._asked("weights", take=_weights, must="the parameters by name")

    def logprobs(self, batch: Batch, *, whole: bool = False) -> FloatArray:
        return self._column("logprobs", batch, whole=whole)

    def entropies(self, batch: Batch) -> FloatArray:
        return self._column("entropies", batch)

    def values(self, batch: Batch, wanted_L: BoolArray) -> FloatArray:
        return self._column("values", batch, wanted_L)

    def save(self, path: Path) -> None:
        self._asked("save", path, take=ignored, must="")

    def load(self, path: Path) -> None:
        self._asked("load", path, take=ignored, must="")

    def _column(self, name: str, batch: Batch, *arguments: object, **settings: object) -> FloatArray:
        n = len(batch.segment_L)
        must = f"one number for each of the {n} tokens of the batch, float32[L]"
        return self._asked(name, batch, *arguments, take=partial(_numbers, n=n), must=must, **settings)

    def _asked(self, name: str, *arguments: object, take: Callable[[Any], T], must: str, **settings: object) -> T:
        method = getattr(self._learner, name)
        return call_part(NOUN, partial(method, **settings), *arguments, take=take, must=must, of=method)


def _numbers(found: object, *, n: int) -> FloatArray:
    numbers = np.asarray(found, np.float32)
    if numbers.shape != (n,):
        raise Unusable(f"it has the shape {list(numbers.shape)}")
    return numbers


def _weights(found: object) -> Weights:
    if not isinstance(found, Mapping):
        raise Unusable
    for name in found:
        if not isinstance(name, str):
            raise Unusable(f"{short_result(name)} is no name")
    return found
