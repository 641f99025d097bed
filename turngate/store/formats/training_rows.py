"""Rows that other trainers learn from: messages to imitate, preference pairs (DPO) and labelled completions (KTO).

They are TRL's conversational formats, https://huggingface.co/docs/trl/dataset_formats. No hint is in them: a hint is
text of its own behind an observation, so leaving it out leaves the episode as it was. The field ``turngate``, which
trainers ignore, says which episode the row comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turngate.store.formats.chat_messages import TOOLS, Row, fact_of, messages_of, observation_text
from turngate.store.formats.fields import Plain
from turngate.types import Score, Source, Trajectory, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class HowAsked:
    """What a run records of its prompts apart from episodes: a system message, and the schemas of the tools."""

    system: str = ""
    tools: Plain = None


def imitated(trajectory: Trajectory, score: Score, told: HowAsked) -> Row:
    """All messages of an episode."""
    return {"messages": _messages(trajectory, told), **_tools(trajectory, told), "turngate": about(trajectory, score)}


def labelled(trajectory: Trajectory, score: Score, told: HowAsked) -> Row:
    """The messages before the first turn as the prompt, all others as its completion, and whether it was a success."""
    messages = _messages(trajectory, told)
    begin = next(place for place, one in enumerate(messages) if one["role"] == "assistant")
    return {
        "prompt": messages[:begin],
        "completion": messages[begin:],
        "label": bool(score.success),
        **_tools(trajectory, told),
        "turngate": about(trajectory, score),
    }


def preferred(
    win: tuple[Trajectory, Score], lose: tuple[Trajectory, Score], told: HowAsked, *, one_turn: bool
) -> Row | str:
    """A pair from the first turn in which two episodes differ; or why they are none.

    Both sides must have been shown the same until there, hints included, because a preference is between answers to one
    question. ``one_turn``: that turn alone, not the rest of the episodes, whose observations differ too.
    """
    first, second = win[0], lose[0]
    if _help(first) != _help(second):
        return "one side had help and the other not the same"
    at = next(
        (n for n, (a, b) in enumerate(zip(first.turns, second.turns, strict=False)) if a.action != b.action), None
    )
    if at is None:
        return "one side is how the other begins"
    if any(_seen(a) != _seen(b) for a, b in zip(first.turns[: at + 1], second.turns[: at + 1], strict=True)):
        return "the sides were shown different things before they differed"
    stop = at + 1 if one_turn else None
    sides = [_messages(one, told, one.turns[:stop]) for one in (first, second)]
    place = [place for place, one in enumerate(sides[0]) if one["role"] == "assistant"][at]
    return {
        "prompt": sides[0][:place],
        "chosen": sides[0][place:],
        "rejected": sides[1][place:],
        **_tools(first, told),
        "turngate": {"turn": at, "chosen": about(*win), "rejected": about(*lose)},
    }


def about(trajectory: Trajectory, score: Score) -> Row:
    """The field ``turngate`` of a row: facts about its episode."""
    told: Row = {"id": trajectory.id, "task": trajectory.task.id, "paid": score.total, "success": bool(score.success)}
    if trajectory.guidance is not None:
        told["guided"] = trajectory.guidance.kind
        told["hint"] = "left out" if trajectory.guidance.text else "none"
    if others := [number for number, turn in enumerate(trajectory.turns) if _by_other(turn)]:
        told["turns_of_others"] = others
    return told


def actions_of(trajectory: Trajectory) -> tuple[str, ...]:
    """The actions of an episode; two episodes of a task with equal actions are copies of each other."""
    return tuple(turn.action.text for turn in trajectory.turns)


def _by_other(turn: Turn) -> bool:
    return bool((turn.source[len(turn.context_ids) :] == Source.GUIDE).any())


def _help(trajectory: Trajectory) -> tuple[Plain, ...]:
    return trajectory.guidance, *(turn.guidance for turn in trajectory.turns)


def _seen(turn: Turn) -> tuple[str, tuple[bytes, ...]]:
    return observation_text(turn, hints=True), turn.observation.images


def _messages(trajectory: Trajectory, told: HowAsked, turns: Sequence[Turn] | None = None) -> list[Row]:
    return messages_of(trajectory, hints=False, system=told.system, turns=turns)


def _tools(trajectory: Trajectory, told: HowAsked) -> Row:
    tools = fact_of(trajectory, TOOLS) or told.tools
    return {"tools": tools} if tools else {}
