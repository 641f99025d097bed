"""Prefix turns, which are given before the policy takes its first, and the entry of one sibling in a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from turngate.agents.chat import Chat
from turngate.agents.given import Given, text_of
from turngate.agents.handoff import Handoff
from turngate.errors import EnvError
from turngate.types import Completion, EndedBy, Guidance


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixTurns:
    """The first ``turns`` of an episode, which the environment is given instead of asking the policy: texts, or for a
    recorded turn that was cut off its action, so that it is not carried out this time either.

    Their tokens are marked ``Source.GUIDE``, so they carry no credit. ``keys``: the state keys that the environment has
    to show after each; empty = not compared. ``whole``: the episode ends with these turns; else the policy goes on.
    ``guidance`` says who acts (``source``: "oracle", "guide", "expert", "self"), by how much (``level``: usually the
    number of turns), and which text, if any, is inserted.

    ``parent``: id of the episode whose turns are played again, and the turn at which this one leaves it. ``seed``: that
    of the episode with which the tree of that one began, so that the environment begins as it did there; None = its
    own.

    ``temperature``: at which the policy samples its own turns after these; None = that of the run. The learner takes
    log-probabilities at the run's, so it is for turns whose ratio has the sampler's recorded ones as its denominator:
    those with a hint that is stripped for training (see ``turngate.trainer.batch.contexts``).

    Raises ValueError without turns and parent, for another number of keys than of turns, and for a temperature without
    such a hint.
    """

    turns: tuple[Given, ...]
    guidance: Guidance
    keys: tuple[str, ...] = ()
    whole: bool = False
    parent: tuple[str, int] | None = None
    seed: int | None = None
    temperature: float | None = None

    def __post_init__(self) -> None:
        if not self.turns and self.parent is None:
            raise ValueError("a PrefixTurns without turns and parent forces nothing; plan its guidance alone")
        if self.keys and len(self.keys) != len(self.turns):
            raise ValueError(f"{len(self.keys)} keys for {len(self.turns)} forced turns; give one after each, or none")
        stripped = self.guidance.strip_for_train and self.guidance.text and self.guidance.insert_turn <= len(self.turns)
        if self.temperature is not None and not stripped:
            raise ValueError(
                f"temperature {self.temperature} needs a hint that is stripped for training and stands before the "
                "policy's first turn: other turns are learned as if sampled at the temperature of the run"
            )

    def completion(self, turn: int, chat: Chat, version: int) -> Completion:
        """The completion of a prefix turn. Its tokens were not sampled, so their logprobs are 0."""
        text = text_of(self.turns[turn])
        ids = chat.encode_turn(text)
        return Completion(
            ids_K=ids,
            logprobs_K=np.zeros(len(ids), np.float32),
            ended_by=EndedBy.SCRIPT,
            policy_version=version,
            text=text,
        )

    def check_key(self, turn: int, found: str) -> None:
        """Raise EnvError if the environment's state after a prefix turn is not the one that was recorded."""
        if turn < len(self.keys) and self.keys[turn] != found:
            raise EnvError(
                f"the environment is not deterministic: after forced turn {turn} of {len(self.turns)} by "
                f"'{self.guidance.source}' its state key is '{found:.200}', where '{self.keys[turn]:.200}' was recorded"
            )


Entry: TypeAlias = Guidance | PrefixTurns | Handoff | None
"""The help of one sibling: a text in its context, prefix turns, a handoff to another policy, or none."""
