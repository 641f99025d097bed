"""``Likelihood``: how likely the policy finds a given text, such as the right answer, after what it did."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self, TypeAlias

import numpy as np
from pydantic import AfterValidator, model_validator

from turngate.agents.chat import Chat
from turngate.agents.probing import ids_after
from turngate.errors import ConfigError
from turngate.judges.examiners.base import ExamineContext, Examiner, Facts, Scope
from turngate.judges.examiners.recorded import fill_template, names_something
from turngate.parts import import_object
from turngate.rewards.outcome.confidence import (
    log_probability,
    mean_log_probability,
    mean_probability,
    perplexity,
    product_probability,
)
from turngate.types import Evidence, FloatArray, Group, IntArray, Task, Trajectory

Text: TypeAlias = Callable[[Task, Trajectory], tuple[str, str] | None]
"""An introduction that is not measured, and the text that is; None: the task has no such text."""
Given: TypeAlias = Literal["trajectory", "observations", "prompt", "nothing"]

REDUCTIONS: dict[str, Callable[[FloatArray], float | None]] = {
    "mean_p": mean_probability,
    "sum_log": log_probability,
    "mean_log": mean_log_probability,
    "product": product_probability,
    "ppl": perplexity,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Measurement:
    """One fact to measure: the ids with which the text ends, of which the last ``n_asked`` are measured."""

    name: str
    turn: int | None
    ids: IntArray
    baseline: IntArray | None
    n_asked: int


class Likelihood(Examiner):
    """How likely the policy finds a text, such as the right answer, after an episode or after each turn.

    ``without`` subtracts how likely it finds the text without the agent's reasoning. The text is put where the
    assistant would go on writing. Published rewards are settings of this examiner:

    * RLPR (https://arxiv.org/abs/2506.18254): ``reduce = "mean_p"``, ``without = "observations"``, ``floor = 0``,
      ``until`` the words that announce an answer; its rubric pays .9 of this and .1 of the format. (Its filter of
      groups by a running standard deviation is not here.)
    * VeriFree (https://arxiv.org/abs/2505.21493): ``reduce = "product"``, which goes to 0 for long texts.
    * VR-CLI: ``reduce = "ppl"``, ``without = "observations"``: 1 − ppl(text | reasoning) / ppl(text).
    * SAR: ``reduce = "ppl"``, ``given = "prompt"``, ``without = "nothing"``: (ppl(a) − ppl(a | q)) / ppl(a).
    * RLP: ``reduce = "sum_log"``, ``without = "observations"``: log p(x | reasoning) − log p(x).

    If an observation contains the text, the text is likely without any reasoning: then set ``without =
    "observations"``, which subtracts the likelihood after the same observations. The policy's current weights measure,
    so the scale changes during training; ``NAME_version`` records the step. The value is missing where likelihoods
    cannot be measured, and for a text without tokens.
    """

    type: Literal["likelihood"] = "likelihood"
    scope: ClassVar[Scope] = "batch"
    name: str = "likelihood"
    """Name of the evidence."""
    answer: Annotated[str, AfterValidator(names_something)] | None = None
    """The text, as the assistant would write it, where {name} stands for an entry of the task's private data. What
    comes before the first {name} is put there too, but not measured."""
    text: str | None = None
    """Instead of answer: package.module:function, which takes task and trajectory and returns (an introduction that is
    not measured, the text), or None for no text."""
    given: Given = "trajectory"
    """What comes before the text: the trajectory, its observations without what the agent wrote, the prompt (the first
    observation), or nothing but an empty message."""
    without: Given | None = None
    """What comes before the text in a second measurement that is subtracted, with the same choices as given; leave it
    out to subtract nothing."""
    reduce: Literal["mean_p", "sum_log", "mean_log", "product", "ppl"] = "mean_p"
    """How the probabilities p of the text's tokens become one number: mean p, Σ log p, mean log p, Π p, or the
    perplexity exp(−mean log p). With without, the value is the difference of the two; for perplexities it is the
    relative fall, 1 − ppl / ppl without."""
    floor: float | None = None
    """Least value; lower ones are raised to it. RLPR uses 0; leave it out for none."""
    until: str = ""
    """The agent's last message is kept up to the last place where these words occur, for instance "Answer:", so that
    the text replaces the agent's own answer. Empty, or if they do not occur: the whole message is kept."""
    per_turn: bool = False
    """Whether to measure after every turn instead of at the end. With given = "trajectory" and without left out,
    NAME_start is recorded too: the value before the first turn, which the reward information_gain reads."""

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if (self.answer is None) == (self.text is None):
            raise ValueError('a text is needed: set either answer, for instance "{gold}", or text')
        if self.text is not None and not callable(import_object(self.text)):
            raise ValueError(f"'{self.text}' is not a function")
        if self.without == self.given:
            raise ValueError(f'without = "{self.without}" equals given, so it leaves nothing; choose another')
        if self.until and (self.per_turn or "trajectory" not in (self.given, self.without)):
            raise ValueError("until has no effect: it cuts the last words of a trajectory, measured at its end")
        if self.per_turn and not {self.given, self.without} & {"trajectory", "observations"}:
            raise ValueError("per_turn has no effect: what is given is the same after every turn")
        return self

    @property
    def writes(self) -> tuple[str, ...]:
        """The value and its version, and with ``per_turn`` the value before the first turn."""
        return (self.name, f"{self.name}_version", *((f"{self.name}_start",) if self._starts else ()))

    @property
    def asks_policy(self) -> bool:
        """Always: its weights are used, when all episodes are played."""
        return True

    @property
    def measures(self) -> bool:
        """Always."""
        return True

    @property
    def _starts(self) -> bool:
        return self.per_turn and self.given == "trajectory" and self.without is None

    async def examine(self, groups: Sequence[Group], context: ExamineContext) -> Facts:
        """The likelihoods of all texts, measured together."""
        chat = context.player.chat
        asked = [[list(self._questions(trajectory, chat)) for trajectory in group.trajectories] for group in groups]
        measured = _measured([one for group in asked for questions in group for one in questions], context)
        version = Evidence(name=f"{self.name}_version", value=None if context.likelihoods is None else context.step)
        facts = []
        for group in asked:
            of_group = []
            for questions in group:
                values = [self._fact(question, *next(measured)) for question in questions]
                of_group.append((*values, version) if values else ())
            facts.append(of_group)
        return facts

    def _questions(self, trajectory: Trajectory, chat: Chat) -> Iterator[_Measurement]:
        """The measurements to make on one episode; none if it broke or has no turns."""
        n_turns = len(trajectory.turns)
        if not (trajectory.ending.usable and n_turns):
            return
        first, text = (chat.encode_turn(part)[:-1] for part in self._text(trajectory) or ("", ""))

        def question(name: str, turn: int | None, given: Given, without: Given | None) -> _Measurement:
            befores = [None if one is None else self._before(trajectory, turn, one, chat) for one in (given, without)]
            ids, baseline = [None if one is None else np.concatenate([one, first, text]) for one in befores]
            assert ids is not None
            return _Measurement(name=name, turn=turn, ids=ids, baseline=baseline, n_asked=len(text))

        if self._starts:
            yield question(f"{self.name}_start", None, "prompt", None)
        for turn in range(n_turns) if self.per_turn else [None]:
            yield question(self.name, turn, self.given, self.without)

    def _text(self, trajectory: Trajectory) -> tuple[str, str] | None:
        if self.answer is not None:
            return fill_template(self.answer, trajectory.task)
        assert self.text is not None
        function: Text = import_object(self.text)
        said = function(trajectory.task, trajectory)
        if said is not None and not (len(said) == 2 and all(isinstance(part, str) for part in said)):
            raise ConfigError(f"'{self.text}' must return two texts or None, found {said!r:.80}")
        return said

    def _before(self, trajectory: Trajectory, turn: int | None, given: Given, chat: Chat) -> IntArray:
        """What comes before the text: int32[L]."""
        if given == "nothing":
            return chat.opening("")
        if given == "prompt":
            return trajectory.turns[0].context_ids
        last = len(trajectory.turns) - 1 if turn is None else turn
        ids = ids_after(trajectory, last, chat, words=given == "trajectory")
        if given == "trajectory" and turn is None and self.until:
            return ids[: len(ids) - _after(trajectory.turns[-1].completion.ids_K, self.until, chat)]
        return ids

    def _fact(self, question: _Measurement, logprob_K: FloatArray | None, baseline_K: FloatArray | None) -> Evidence:
        value = None if logprob_K is None else REDUCTIONS[self.reduce](logprob_K)
        if value is not None and baseline_K is not None:
            base = REDUCTIONS[self.reduce](baseline_K)
            assert base is not None
            value = 1 - value / base if self.reduce == "ppl" else value - base
        if value is not None and self.floor is not None:
            value = max(value, self.floor)
        if value is not None and not math.isfinite(value):
            value = None
        return Evidence(name=question.name, value=value, turn=question.turn, by="verifier")


def _after(said_K: IntArray, marker: str, chat: Chat) -> int:
    """How many tokens, without the end-of-turn token, come after the last ``marker``; 0 if it does not occur."""
    said_K = chat.open(said_K)
    total = chat.decode(said_K).count(marker)
    if not total:
        return 0
    kept = bisect_left(range(len(said_K)), total, key=lambda n: chat.decode(said_K[:n]).count(marker))
    return len(said_K) - kept


def _measured(
    questions: Sequence[_Measurement], context: ExamineContext
) -> Iterator[tuple[FloatArray | None, FloatArray | None]]:
    """Log-probabilities of the text and of its baseline (None without one), in order; equal ids are measured once."""
    places: dict[tuple[bytes, int], int] = {}
    ids: list[IntArray] = []
    asked = []
    for question in questions:
        for one in (question.ids, question.baseline):
            key = None if one is None else (one.tobytes(), question.n_asked)
            if one is None or key is None or key in places:
                continue
            places[key] = len(ids)
            ids.append(one)
            asked.append(np.arange(len(one)) >= len(one) - question.n_asked)
    found = context.likelihoods(ids, asked) if context.likelihoods is not None and ids else None
    for question in questions:
        pair = [
            None if one is None or found is None else found[places[one.tobytes(), question.n_asked]]
            for one in (question.ids, question.baseline)
        ]
        yield pair[0], pair[1]
