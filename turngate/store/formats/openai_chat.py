"""Plain OpenAI chats: ``{"messages": [{"role": …, "content": …, "tool_calls": …}, …]}``, one episode per line.

Beside the messages a line may have further fields; all are optional:

    task, task_id, example_id or id    which task it is; else episodes that begin alike are siblings
    reward or score                    a number for the whole episode
    metrics                            numbers by name, which become evidence
    evidence                           [{"name": …, "value": …, "turn": …}, …]: facts, also about single turns
    tools                              the schemas of its tools
    split, env                         names
    truncated                          true if it was cut short
"""

from __future__ import annotations

from dataclasses import replace

from turngate.store.formats.chat_messages import Row, fact_of, messages_of
from turngate.store.formats.fields import BadRecord, Fields, Plain
from turngate.store.formats.read_episode import ReadEpisode, episode_of, facts_of
from turngate.types import Ending, Evidence, Score, Trajectory

_TASK = ("task", "task_id", "example_id", "id")


def episodes(record: Plain) -> list[ReadEpisode]:
    """The episode of one line. Raises BadRecord."""
    fields = Fields(record)
    messages = fields.list("messages")
    task = next((fields.text(key) for key in _TASK if fields.has(key)), "")
    reward = fields.number("reward" if fields.has("reward") else "score")
    facts = [*evidence_of(fields), *facts_of(fields.any("metrics"))]
    fields.ignore("turngate")
    found = episode_of(
        messages,
        task_id=task,
        env_id=fields.text("env", "imported"),
        split=fields.text("split", "train"),
        reward=reward,
        facts=facts,
        tools=fields.any("tools"),
        ending=Ending.MAX_TURNS if fields.flag("truncated") else Ending.FINISHED,
    )
    return [replace(found, unread=fields.unread)]


def evidence_of(fields: Fields) -> list[Evidence]:
    """The facts of the field ``evidence``."""
    facts = []
    for number, one in enumerate(fields.list("evidence", ())):
        fact = Fields(one, f"evidence {number}")
        turn = fact.whole("turn", -1) if fact.has("turn") else None
        if turn is not None and turn < 0:
            raise BadRecord(f"evidence {number} is about turn {turn}; turns are counted from 0")
        by = fact.text("by", "env")
        if by not in ("env", "verifier", "judge"):
            raise BadRecord(f"evidence {number} is by '{by:.40}'; known: env, verifier, judge")
        facts.append(Evidence(name=fact.text("name"), value=fact.any("value"), turn=turn, by=by))  # type: ignore[arg-type]
    return facts


def row(trajectory: Trajectory, score: Score, *, system: str, tools: Plain) -> Row:
    """An episode as one line: messages with hints where it was shown them, and arguments of calls as JSON texts."""
    told = fact_of(trajectory, "tools") or tools
    return {
        "messages": messages_of(trajectory, hints=True, system=system, spelt=True),
        **({"tools": told} if told else {}),
        "task": trajectory.task.id,
        **({"reward": score.total} if score.usable else {}),
    }
