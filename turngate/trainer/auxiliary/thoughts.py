"""GTR: thoughts that a corrector found wrong are replaced by its own, and these are imitated; the action stays."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from turngate.agents.chat import Chat, n_shared
from turngate.judges.asking import JudgePart
from turngate.judges.asking.text_model import Prompt, Reply, TextModel
from turngate.judges.texts import Fault, FaultKind, read_object
from turngate.trainer.auxiliary.base import (
    AuxiliaryContext,
    AuxiliaryRow,
    AuxiliaryRows,
    AuxiliarySource,
    WeightedAuxiliaryPart,
)
from turngate.trainer.guidance.transcripts import prompt_of
from turngate.types import Metrics, ScoredGroup, Trajectory, derive_seed, storable

_HEAD = "An agent works on a task, one action at a time. Before each action it writes down a thought."
_ASK = """Is the thought right: does it describe the situation correctly, and is it a reason for this action, which
stays as it is? Answer with JSON alone: {"right": true}, or {"right": false, "thought": "the thought that it should have
had before this action"}."""


class Gtr(WeightedAuxiliaryPart):
    """Has a model correct the thoughts before actions, and imitates the corrected ones.

    For some turns of each step a corrector is asked whether the thought is right. A wrong one is replaced by the
    corrector's in front of the same action, in the same context, and only its tokens are trained. A right thought gives
    nothing. A correction with which the environment would read another action is dropped. Where the corrector cannot be
    reached or read, the turn is left out and counted (``auxiliary/gtr_faults``).

    Source: GTR, https://arxiv.org/abs/2503.08525, and its code. It also weighs thoughts by 0.5 in the policy's ratio:
    set loss.objective to "gtr" for that.

    Left out of the paper: imitating the corrections of all steps so far (DAgger; here those of the step alone, as in
    its code), the reward for a turn in the right format, and ending episodes early that can no longer succeed.
    """

    type: Literal["gtr"] = "gtr"
    corrector: JudgePart
    """The model that corrects, for instance {type = "server", url = …, model = …}; its settings that are about verdicts
    alone (votes, canaries, quotes) have no effect here."""
    turns: int = Field(32, ge=1)
    """Most turns of a step about which it is asked; they are drawn at random among those with a thought."""

    def open(self, means: AuxiliaryContext) -> AuxiliarySource:
        return CorrectedThoughts(self, means)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThoughtTurn:
    """One turn with a thought, of an episode."""

    trajectory: Trajectory
    turn: int

    def prompt(self, limit: int) -> str:
        """What the corrector is asked: the words of agent and environment as data, in which no reply can stand, each of
        at most ``limit`` characters."""
        turn = self.trajectory.turns[self.turn]
        said, thought = turn.completion.text, turn.action.thought
        pieces = [
            ("task", self.trajectory.task.prompt),
            ("what it sees now", turn.observation.text),
            ("its thought", thought),
            ("its action", said.replace(thought, "", 1).strip()),
        ]
        return prompt_of(_HEAD, pieces, _ASK, limit=limit)


class CorrectedThoughts(AuxiliarySource):
    """Asks the corrector, and makes rows of what it says."""

    def __init__(self, part: Gtr, means: AuxiliaryContext) -> None:
        self._part, self._means = part, means
        self._text_model: TextModel | None = None
        self._counts = dict.fromkeys(("asked", "right", "faults", "other_action"), 0.0)

    async def rows(self, groups: Sequence[ScoredGroup], step: int) -> AuxiliaryRows | None:
        seed = derive_seed(self._means.seed, "gtr", step)
        turns = thought_turns(groups)
        chosen = np.random.default_rng(seed).permutation(len(turns))[: self._part.turns]
        asked = [turns[place] for place in sorted(chosen)]
        thoughts = await self._corrections(asked, seed)
        rows = [self._row(turn, thought) for turn, thought in zip(asked, thoughts, strict=True) if thought]
        kept = [row for row in rows if row is not None]
        right = sum(thought == "" for thought in thoughts)
        faults = sum(thought is None for thought in thoughts)
        found = (len(asked), right, faults, len(rows) - len(kept))
        self._counts = dict(zip(self._counts, map(float, found), strict=True))
        return AuxiliaryRows(rows=kept, weight=self._part.weight)

    def metrics(self) -> Metrics:
        """Of this step: turns asked about, right thoughts, faults, and corrections that imply another action."""
        return dict(self._counts)

    async def _corrections(self, asked: Sequence[ThoughtTurn], seed: int) -> list[str | None]:
        """The corrected thought of each turn; "" = it was right, None = no answer."""
        if self._text_model is None:
            self._text_model = self._part.corrector.text_model(self._means.player)
        answers: dict[int, str | None] = {}
        queue = iter(range(len(asked)))

        async def slot(text_model: TextModel) -> None:
            async with text_model.slot():
                for place in queue:
                    answers[place] = await self._answer(text_model, asked[place], derive_seed(seed, place))

        async with self._text_model as text_model, asyncio.TaskGroup() as concurrency:
            for _ in range(min(len(asked), text_model.concurrency)):
                concurrency.create_task(slot(text_model))
        return [answers[place] for place in range(len(asked))]

    async def _answer(self, text_model: TextModel, turn: ThoughtTurn, seed: int) -> str | None:
        corrector = self._part.corrector
        for attempt in range(corrector.attempts):
            prompt = Prompt(
                name=f"gtr {turn.trajectory.id} {turn.turn}/{attempt}",
                text=turn.prompt(corrector.limit),
                seed=derive_seed(seed, attempt),
                max_tokens=corrector.max_tokens,
                temperature=corrector.temperature if not attempt else corrector.vote_temperature,
            )
            try:
                async with asyncio.timeout(corrector.call_s):
                    reply = await text_model.complete(prompt)
            except TimeoutError:
                reply = Reply(fault=Fault(kind=FaultKind.TIMEOUT, detail="no reply"))
            thought = None if reply.fault else read_correction(reply.text)
            if thought is not None or not reply.again:
                return thought
            await text_model.outside(asyncio.sleep(reply.wait_s))
        return None

    def _row(self, asked: ThoughtTurn, thought: str) -> AuxiliaryRow | None:
        """The row with the corrected thought; None if it implies another action."""
        trajectory, number = asked.trajectory, asked.turn
        turn = trajectory.turns[number]
        before, _, after = turn.completion.text.partition(turn.action.thought)
        if self._means.read(trajectory.task, before + thought + after).calls != turn.action.calls:
            return None
        history = [part for one in trajectory.turns[:number] for part in (one.context_ids, one.completion.ids_K)]
        said, trained = thought_tokens(self._means.chat, before, thought, after)
        ids = np.concatenate([*history, turn.context_ids, said]).astype(np.int32)
        return AuxiliaryRow(ids=ids, trained=np.concatenate([np.zeros(len(ids) - len(said), np.bool_), trained]))


def thought_turns(groups: Sequence[ScoredGroup]) -> list[ThoughtTurn]:
    """The turns of usable episodes without help in which the policy wrote a thought before a call."""
    return [
        ThoughtTurn(trajectory=trajectory, turn=number)
        for group in groups
        for trajectory, score in zip(group.trajectories, group.scores, strict=True)
        if score.usable and trajectory.guidance is None
        for number, turn in enumerate(trajectory.turns)
        if turn.action.calls and turn.action.thought and turn.action.thought in turn.completion.text
    ]


def read_correction(text: str) -> str | None:
    """The corrected thought in a reply; "" = the thought was right, None = the reply cannot be read."""
    data = read_object(text)
    if isinstance(data, Fault) or not isinstance(data.get("right"), bool):
        return None
    thought = "" if data["right"] else data.get("thought")
    return storable(thought.strip()) if isinstance(thought, str) and (data["right"] or thought.strip()) else None


def thought_tokens(chat: Chat, before: str, thought: str, after: str) -> tuple[np.ndarray, np.ndarray]:
    """The turn as tokens, int32[K], and which of them are the thought's, bool[K]; one that spans both is not."""
    ids = chat.encode_turn(before + thought + after)
    ends = [n_shared(ids.tolist(), chat.open(chat.encode_turn(text)).tolist()) for text in (before, before + thought)]
    place = np.arange(len(ids))
    return ids, (place >= ends[0]) & (place < ends[1])
