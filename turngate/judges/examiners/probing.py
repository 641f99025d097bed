"""``ForcedAnswers``: how good the answer would be if the agent had to give it after a certain turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar, Literal, Self, TypeAlias

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from turngate.agents.probing import Probe, ids_after, probe
from turngate.judges.examiners.base import ExamineContext, Examiner, Facts, Scope
from turngate.judges.examiners.recorded import fill_template, names_something
from turngate.parts import import_object
from turngate.rewards.outcome.confidence import answer_confidence, mean_probability
from turngate.types import Completion, EndedBy, Evidence, Group, Task, Trajectory, derive_seed

Check: TypeAlias = Callable[[Task, str], bool | None]
"""From the task and an answer to whether it is right; None if that is not known."""


class ForcedAnswers(Examiner):
    """The policy's answer after each turn: how often it is right, and how sure the policy is.

    After a turn, ``text`` is written as the beginning of the policy's next message, and ``n`` completions of it are
    sampled; the episode itself is not changed. Each probed turn gets ``accuracy`` and ``confidence``, both in [0, 1];
    to use them in a credit rule, make them columns: ``signals.evidence = {accuracy_N = "accuracy", confidence_N =
    "confidence"}``. Turns that were not probed have neither; where the text does not fit into the context, both are
    missing.

    Defaults are SPAE's (https://github.com/cii030/SPAE-RL); see ``answer_confidence`` for how its entropies are
    estimated. SPAE's accuracy is ``accuracy = "probability"``, that of VSRM is "sampled".
    """

    type: Literal["probe"] = "probe"
    scope: ClassVar[Scope] = "group"
    text: str = "**Final Answer**\n\\boxed{"
    """Beginning of the message that the policy has to complete. If it ends with an opening brace, the answer ends at
    the closing one, else at the end of the line."""
    n: int = Field(5, ge=1)
    """Number of answers that are sampled per probed turn; raise it for less noise."""
    temperature: float = Field(0.6, gt=0)
    """Sampling temperature of the answers, at which the confidence is measured too."""
    max_tokens: int = Field(10, ge=1)
    """Most tokens of one answer; one that is longer, and was cut off before its end, counts as wrong."""
    turns: int = Field(8, ge=1)
    """Most turns of an episode that are probed: the last one, and others evenly spread before it. Each costs n short
    completions."""
    after: Literal["reply", "words"] = "reply"
    """When the answer is forced. reply: after the environment's reply to the turn, so that a search is credited with
    what it found; words: right after the agent's own message. The last turn has no reply."""
    answer: Annotated[str, AfterValidator(names_something)] | None = None
    """The right answer, where {name} stands for an entry of the task's private data, for instance "{gold}"."""
    check: str | None = None
    """How an answer is checked: package.module:function, which takes the task and the answer's text and returns True,
    False, or None for unknown. Leave it out to compare with the right answer, ignoring spaces around it."""
    accuracy: Literal["sampled", "probability"] = "sampled"
    """sampled: the share of sampled answers that are right; probability: the mean probability of the right answer's
    tokens, under the current weights and the sampler's temperature."""

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if self.check is None and self.answer is None:
            raise ValueError('the right answer is not known; set answer, for instance "{gold}", or check')
        if self.accuracy == "probability" and self.answer is None:
            raise ValueError('accuracy = "probability" needs the right answer; set answer')
        if self.check is not None and self.answer is not None:
            raise ValueError("check and answer exclude each other, because one would have no effect; leave one out")
        if self.check is not None and not callable(import_object(self.check)):
            raise ValueError(f"'{self.check}' is not a function")
        return self

    @property
    def writes(self) -> tuple[str, ...]:
        """``accuracy`` and ``confidence``, about turns."""
        return ("accuracy", "confidence")

    @property
    def asks_policy(self) -> bool:
        """Always."""
        return True

    @property
    def measures(self) -> bool:
        """For the probability of the right answer."""
        return self.accuracy == "probability"

    async def examine(self, groups: Sequence[Group], context: ExamineContext) -> Facts:
        """``accuracy`` and ``confidence`` after the probed turns."""
        asks = [
            [self._question(trajectory, turn) for turn in _spread(len(trajectory.turns), self.turns)]
            if trajectory.ending.usable
            else []
            for group in groups
            for trajectory in group.trajectories
        ]
        flat = [ask for one in asks for ask in one]
        said = await probe(context.player, flat, seed=derive_seed(context.seed, "probe"))
        right = self._probabilities(flat, context) if self.accuracy == "probability" else map(self._share, flat, said)
        measured = iter(zip(right, said, strict=True))
        facts = iter([[fact for ask in one for fact in _facts(ask, *next(measured))] for one in asks])
        return [[tuple(next(facts)) for _ in group.trajectories] for group in groups]

    def _question(self, trajectory: Trajectory, turn: int) -> Probe:
        return Probe(
            trajectory=trajectory,
            turn=turn,
            text=self.text,
            n=self.n,
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            reply=self.after == "reply",
        )

    def _share(self, ask: Probe, said: Sequence[Completion]) -> float | None:
        """The share of right answers among those of which it is known; None if it is known of none."""
        task = ask.trajectory.task
        answers = [answer_in(self.text, one.text, cut_off=one.ended_by is EndedBy.LENGTH) for one in said]
        verdicts = [False if answer is None else self._right(task, answer) for answer in answers]
        known = [bool(verdict) for verdict in verdicts if verdict is not None]
        return sum(known) / len(known) if known else None

    def _right(self, task: Task, answer: str) -> bool | None:
        if self.check is not None:
            check: Check = import_object(self.check)
            return check(task, answer)
        assert self.answer is not None
        return answer.split() == "".join(fill_template(self.answer, task)).split()

    def _probabilities(self, asks: Sequence[Probe], context: ExamineContext) -> list[float | None]:
        """The mean probability of the right answer's tokens after each question."""
        if context.likelihoods is None or not asks:
            return [None] * len(asks)
        assert self.answer is not None
        chat, ids, asked = context.player.chat, [], []
        for ask in asks:
            before = ids_after(ask.trajectory, ask.turn, chat, reply=ask.reply)
            answer = chat.encode_turn("".join(fill_template(self.answer, ask.trajectory.task)))[:-1]
            ids.append(np.concatenate([before, chat.encode_turn(ask.text)[:-1], answer]))
            asked.append(np.arange(len(ids[-1])) >= len(ids[-1]) - len(answer))
        return [mean_probability(logprob_K) for logprob_K in context.likelihoods(ids, asked)]


def answer_in(text: str, said: str, *, cut_off: bool = False) -> str | None:
    """The answer in what the policy said after ``text``: up to the brace that closes the one at the end of ``text``, or
    up to the end of the line. None if it was ``cut_off`` before: of 420, 42 is no answer."""
    if not text.endswith("{"):
        line, end, _ = said.partition("\n")
        return None if cut_off and not end else line
    depth = 1
    for place, char in enumerate(said):
        depth += (char == "{") - (char == "}")
        if not depth:
            return said[:place]
    return None if cut_off else said


def _spread(n_turns: int, at_most: int) -> list[int]:
    """The last turn, and others evenly spread before it, in order."""
    if not n_turns:
        return []
    return sorted({round(turn) for turn in np.linspace(n_turns - 1, 0, min(at_most, n_turns)).tolist()})


def _facts(ask: Probe, accuracy: float | None, said: Sequence[Completion]) -> tuple[Evidence, Evidence]:
    confidence = answer_confidence([completion.logprobs_K for completion in said])
    return (
        Evidence(name="accuracy", value=accuracy, turn=ask.turn, by="verifier"),
        Evidence(name="confidence", value=confidence, turn=ask.turn, by="verifier"),
    )
