"""Compare a recorded episode with the one that the same actions give when they are carried out again.

Everything here is a pure function of two records. Compared in each turn, in this order: the state key, the text and the
images of the observation before it, the action as it was read, and the facts about it; then the ending, the facts about
the whole episode, and the order of all facts. The first that differs is the divergence.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from turngate.types import Action, Ending, Evidence, RewardEvent, Score, Trajectory, Turn

EXCERPT = 40
"""Characters that are shown before and after the first place that differs."""
NOTHING = "(nothing)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The result of the recorded actions: ``turns`` as far as they went, and all that the environment measured.

    ``ending``: None where the episode was not over after the last of them. ``error``: why the environment broke.
    """

    turns: tuple[Turn, ...]
    evidence: tuple[Evidence, ...]
    ending: Ending | None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayDifference:
    """The first difference of an episode. ``turn``: the turn that it belongs to, None = the whole episode.

    ``what`` was compared; ``recorded`` and ``replayed`` are both sides in full, as text.
    """

    turn: int | None
    what: str
    recorded: str
    replayed: str

    @property
    def place(self) -> int:
        """The first character that differs, counted from 0."""
        return _place(self.recorded, self.replayed)

    @property
    def excerpts(self) -> tuple[str, str]:
        """Both sides around the first character that differs."""
        return excerpt(self.recorded, self.place), excerpt(self.replayed, self.place)


def excerpt(text: str, place: int, *, around: int = EXCERPT) -> str:
    """``text`` around one of its characters, as Python writes it, with an ellipsis where something is left out."""
    first, last = max(0, place - around), place + around
    return ("…" if first else "") + repr(text[first:last]) + ("…" if last < len(text) else "")


def first_divergence(
    recorded: Trajectory, replayed: Replayed, *, others: Collection[str] = (), new_attempt: bool = False
) -> ReplayDifference | None:
    """Where the environment first did something else than was recorded; None = nowhere.

    ``others``: names of facts that something else than the environment recorded, which are left out. ``new_attempt``:
    the recorded first observation begins with a note about an earlier attempt, which no environment wrote.
    """
    facts = [fact for fact in recorded.evidence if fact.name not in others]
    for number, turn in enumerate(recorded.turns):
        if number == len(replayed.turns):
            return _stopped(number, replayed)
        found = replayed.turns[number]
        pairs = [*_seen(turn, found, note=new_attempt and number == 0), *_read(turn.action, found.action)]
        about = _facts(_about(facts, number), _about(replayed.evidence, number))
        for what, one, other in (*pairs, *about):
            if one != other:
                return ReplayDifference(turn=number, what=what, recorded=one, replayed=other)
    return _at_the_end(recorded, replayed, facts)


def score_divergence(recorded: Score, found: Score, *, others: Collection[str] = ()) -> ReplayDifference | None:
    """The first line that the same rubric pays differently, then success, outcome and usability; None = all are equal.

    ``others``: names of lines that something else than the rubric wrote, which are left out.
    """
    lines = [[_line(event) for event in score.ledger if event.name not in others] for score in (recorded, found)]
    pairs = [("payment", one, other) for one, other in zip_longest(*lines, fillvalue=NOTHING)]
    for name in ("success", "outcome", "usable", "problem"):
        pairs.append((name, repr(getattr(recorded, name)), repr(getattr(found, name))))
    return next(
        (ReplayDifference(turn=None, what=f"score: {w}", recorded=a, replayed=b) for w, a, b in pairs if a != b), None
    )


# --- parts ------------------------------------------------------------------------------------------------------------


def _seen(recorded: Turn, found: Turn, *, note: bool) -> Iterator[tuple[str, str, str]]:
    one, other = recorded.observation, found.observation
    yield "state key", one.state_key, other.state_key
    text = one.text[len(one.text) - len(other.text) :] if note and one.text.endswith(f"\n{other.text}") else one.text
    yield "observation", text, other.text
    yield "images", _digests(one.images), _digests(other.images)


def _read(recorded: Action, found: Action) -> Iterator[tuple[str, str, str]]:
    """The action as the environment read it: the same text may be read differently."""
    calls = [json_text([[call.name, call.arguments] for call in one.calls]) for one in (recorded, found)]
    yield "calls of the action", calls[0], calls[1]
    for name in ("parse_error", "flaw", "thought"):
        yield f"{name} of the action", str(getattr(recorded, name)), str(getattr(found, name))


def _facts(recorded: Sequence[Evidence], found: Sequence[Evidence]) -> Iterator[tuple[str, str, str]]:
    for one, other in zip_longest(recorded, found):
        name = next(fact.name for fact in (one, other) if fact is not None)
        yield f"evidence '{name}'", _fact(one), _fact(other)


def _about(facts: Sequence[Evidence], turn: int | None) -> list[Evidence]:
    return [fact for fact in facts if fact.turn == turn]


def _at_the_end(recorded: Trajectory, replayed: Replayed, facts: Sequence[Evidence]) -> ReplayDifference | None:
    last = len(recorded.turns) - 1 if recorded.turns else None
    if replayed.error:
        return _stopped(last, replayed)
    ending = "the episode goes on" if replayed.ending is None else str(replayed.ending)
    if ending != str(recorded.ending):
        return ReplayDifference(turn=last, what="ending", recorded=str(recorded.ending), replayed=ending)
    for what, one, other in _facts(_about(facts, None), _about(replayed.evidence, None)):
        if one != other:
            return ReplayDifference(turn=None, what=what, recorded=one, replayed=other)
    for what, one, other in _facts(facts, replayed.evidence):
        if one != other:
            return ReplayDifference(turn=None, what=f"order of evidence, {what}", recorded=one, replayed=other)
    return None


def _stopped(turn: int | None, replayed: Replayed) -> ReplayDifference:
    """The replay is over although there are recorded turns left, or it broke."""
    if replayed.error:
        return ReplayDifference(turn=turn, what="environment", recorded="it did not break", replayed=replayed.error)
    before = turn - 1 if turn else turn
    return ReplayDifference(turn=before, what="ending", recorded="the episode goes on", replayed=str(replayed.ending))


def _fact(fact: Evidence | None) -> str:
    if fact is None:
        return NOTHING
    about = "episode" if fact.turn is None else f"turn {fact.turn}"
    return f"{fact.name} = {json_text(fact.value)} ({about}, by {fact.by})"


def _line(event: RewardEvent) -> str:
    where = "episode" if event.turn is None else f"turn {event.turn}"
    gate = f", gate {event.gate}" if event.gate else ""
    paid = f"{event.value!r} · {event.weight!r} · {event.share!r} · {event.factor!r}"
    return f"{event.kind} {event.name} of {where}: {paid}{gate}"


def _digests(images: Sequence[bytes]) -> str:
    return " ".join(hashlib.blake2b(image, digest_size=8).hexdigest() for image in images)


def json_text(value: object) -> str:
    """A JSON value as one text; tuples are lists, as they are once they were stored."""
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"{value!r:.80} is not a JSON value")


def _place(one: str, other: str) -> int:
    equal = (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(equal, min(len(one), len(other)))
