"""The interface to the engine that samples: one method to complete a turn, one to take new weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeAlias, TypeVar

from turngate.types import Completion, Request

T = TypeVar("T")
Weights: TypeAlias = Mapping[str, object]
"""Tensors by name, of whatever library learner and policy share."""


class ReadWeights(Mapping[str, T]):
    """Weights that are computed or fetched anew whenever one is read: read each once, and keep it no longer than
    needed."""

    @abstractmethod
    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a weight, which is not read for it."""


def shape_of(weights: Weights, name: str) -> tuple[int, ...]:
    """The shape of one of the weights."""
    if isinstance(weights, ReadWeights):
        return weights.shape(name)
    weight: Any = weights[name]
    return tuple(weight.shape)


class AdaptedWeights(ReadWeights[T]):
    """Weights of a model with adapters (LoRA). As a mapping they are those of the model with the adapters added; a
    policy may take the two apart instead."""

    @property
    @abstractmethod
    def base(self) -> Mapping[str, T]:
        """The weights that adapters are added to, under the same names. Always the same object, whose values stay."""

    @property
    @abstractmethod
    def adapters(self) -> Mapping[str, T]:
        """For each adapted layer its A, ``NAME.lora_A.weight`` [rank, in], and B, ``NAME.lora_B.weight`` [out, rank],
        with the scale in it: the layer computes W x + B (A x)."""


class Policy(ABC):
    """Takes the turns of episodes. ``concurrency``: how many it serves at once; ``version``: of the last published
    weights.

    ``name``: what error messages call it; "" = its class. ``takes_images``: whether it shows its model the images of
    ``Request.messages``; one that does not is never asked about an observation that has some.
    """

    concurrency: int = 64
    version: int = 0
    name: str = ""
    takes_images: bool = False

    @abstractmethod
    async def complete(self, request: Request) -> Completion:
        """One turn. The engine batches all turns in flight; none waits for the end of another."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keeps everything running that sampling needs, such as an engine in another process, while the block lasts."""
        yield

    def expect(self, weights: Callable[[], Weights]) -> None:  # noqa: B027 (most policies take any)
        """Called once, before ``running``. ``weights`` returns the weights that will be published, now the initial
        ones.

        Raises ConfigError for weights of a form that the policy cannot take.
        """

    async def publish(self, weights: Weights, version: int) -> None:
        """Take new weights. Raises TypeError for a policy that has none."""
        raise TypeError(f"{type(self).__name__} has no weights to publish to; train with a policy that has some")

    def release(self, episode: str) -> None:  # noqa: B027 (most policies keep nothing)
        """The episode is over: forget what was kept for it."""

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Inside this block, cache rows of ended episodes may be kept for others that begin alike, such as branches."""
        yield

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Held by a coroutine for as long as it plays episodes one after the other; waits while all slots are held."""
        yield

    async def outside(self, call: Awaitable[T]) -> T:
        """Wait for something that is not this policy, for instance an environment's step."""
        return await call
