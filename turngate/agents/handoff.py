"""Turns of an episode that another policy takes, whose answers are not known before the episode is played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from turngate.agents.chat import Chat
from turngate.agents.policies.base import Policy
from turngate.agents.policies.scripted import ScriptedPolicy, by_task
from turngate.agents.protocols import LanguageModel, Tokenizer
from turngate.errors import ConfigError
from turngate.parts import when_used
from turngate.types import Completion, Guidance, Request

local = when_used("turngate.agents.policies.local")


class Actor(Protocol):
    """Takes turns of an episode in place of the policy."""

    async def act(self, request: Request, chat: Chat) -> Completion:
        """The turn that ``request`` asks for, in the tokens of ``chat``, which is that of the policy in training."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Handoff:
    """An episode of which ``actor`` takes the turns from ``first`` up to ``until``, without it; None = to the end.

    Its tokens are marked ``Source.GUIDE``, so they carry no credit. ``guidance`` says who acts, and for how long.
    Raises ValueError for a span without turns.
    """

    actor: Actor
    guidance: Guidance
    first: int = 0
    until: int | None = None

    def __post_init__(self) -> None:
        if self.first < 0 or (self.until is not None and self.until <= self.first):
            raise ValueError(f"from turn {self.first} up to {self.until} there is no turn to lend")

    def takes(self, turn: int) -> bool:
        """Whether ``actor`` takes this turn."""
        return self.first <= turn and (self.until is None or turn < self.until)


class ModelActor:
    """Another model with the tokenizer of the policy. It decodes one turn at a time, so a run on a CPU repeats bit for
    bit."""

    def __init__(self, name: str, model: LanguageModel, tokenizer: Tokenizer) -> None:
        self._name, self._model, self._tokenizer = name, model, tokenizer
        self._policy: Policy | None = None

    async def act(self, request: Request, chat: Chat) -> Completion:
        """See ``Actor``. Raises ConfigError for a model with another tokenizer."""
        if self._policy is None:
            if _tokens(self._tokenizer) != _tokens(chat.tokenizer):
                raise ConfigError(f"'{self._name}' has another tokenizer than the model; choose one of its family")
            self._policy = local.LocalPolicy(self._model, chat, concurrency=1, order="ready")
        async with self._policy.slot():
            try:
                return await self._policy.complete(request)
            finally:
                self._policy.release(request.episode)


class ScriptActor:
    """Says the lines of one task, by the number of the turn, and the last one where there are no more."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = tuple(lines)

    async def act(self, request: Request, chat: Chat) -> Completion:
        lines = (*self._lines, *self._lines[-1:] * (request.turn + 1 - len(self._lines)))
        return await ScriptedPolicy(by_task({request.task_id: lines}), chat).complete(request)


def _tokens(tokenizer: Tokenizer) -> tuple[object, ...]:
    """The properties by which two tokenizers are compared."""
    said = tokenizer(str(tokenizer.chat_template), add_special_tokens=False)["input_ids"]
    return len(tokenizer), dict(tokenizer.get_added_vocab()), list(said)
