"""A recorded group of siblings as plain JSON: a row of facts for each episode, and its turns in full.

Rows are read for every episode of a run; turns only for the group that is looked at. Texts are ``literal``.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from turngate.images import image_format
from turngate.report.episode_words import (
    action_words,
    call_words,
    ending_words,
    evidence_words,
    forced_words,
    guidance_words,
    hint_of_turn,
    is_forced,
    literal,
    missing_words,
    observed_size,
    payment_words,
    reason_words,
    total_words,
    unusable_words,
    written_by,
)
from turngate.report.learned import EpisodeLearning
from turngate.report.screenshots import pointed_at
from turngate.report.viewer.token_pieces import TokenPieces
from turngate.types import (
    JSON,
    ByteArray,
    Evidence,
    FloatArray,
    RewardEvent,
    Score,
    ScoredGroup,
    Source,
    Trajectory,
    Turn,
)

Record: TypeAlias = dict[str, JSON]


def number(value: float | None, digits: int = 5) -> JSON:
    """A number as JSON has it, with ``digits`` significant digits; None if it is not finite."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")


def group_key(step: int, phase: str, place: int) -> str:
    """The name of a group on the page: its step, its phase and its place in the file."""
    return f"{step}/{phase}/{place}"


def episode_rows(group: ScoredGroup, learned: Sequence[EpisodeLearning], dropped: Mapping[str, str]) -> list[Record]:
    """Each episode's values for lists, filters and comparisons; ``dropped``: trajectory → why a filter dropped it."""
    rows = []
    for trajectory, score, one in zip(group.trajectories, group.scores, learned, strict=True):
        credit_T = one.advantage_T
        spread = credit_T is not None and len(credit_T) > 0
        rows.append(
            {
                "id": literal(trajectory.id),
                "task": literal(trajectory.task.id),
                "env": literal(trajectory.task.env_id),
                "seed": str(trajectory.seed),
                "ending": str(trajectory.ending),
                "outcome": number(score.outcome),
                "success": bool(score.success) if score.usable else None,
                "usable": score.usable,
                "earned": number(sum(event.earned for event in score.ledger)),
                "paid": number(score.total),
                "turns": len(trajectory.turns),
                "tokens": sum(int((_token_sources(turn) == Source.POLICY).sum()) for turn in trajectory.turns),
                "help": _help(trajectory),
                "parts": _sums((event.name, event) for event in score.ledger),
                "gates": _sums((e.gate or "(unnamed)", e) for e in score.ledger if e.factor != 1),
                "credit": [number(float(v)) for v in (credit_T.min(), credit_T.max())]  # type: ignore[union-attr]
                if spread
                else None,
                "dropped": literal(dropped.get(trajectory.id, "")),
            }
        )
    return rows


def group_record(
    group: ScoredGroup, learned: Sequence[EpisodeLearning], dropped: Mapping[str, str], pieces: TokenPieces
) -> Record:
    """All that is shown of a group: its task, and each episode with its turns."""
    return {
        "task": {"id": literal(group.task.id), "env": literal(group.task.env_id), "split": literal(group.task.split)},
        "prompt": literal(group.task.prompt),
        "episodes": [
            _episode(trajectory, score, one, dropped.get(trajectory.id, ""), pieces)
            for trajectory, score, one in zip(group.trajectories, group.scores, learned, strict=True)
        ],
    }


def _sums(lines: Iterable[tuple[str, RewardEvent]]) -> Record:
    """Name → what its lines earned before the gates and were paid after them."""
    found: dict[str, list[float]] = {}
    for name, event in lines:
        sums = found.setdefault(literal(name), [0.0, 0.0])
        sums[0] += event.earned
        sums[1] += event.paid
    return {name: [number(earned), number(paid)] for name, (earned, paid) in found.items()}


def _episode(
    trajectory: Trajectory, score: Score, learned: EpisodeLearning, dropped: str, pieces: TokenPieces
) -> Record:
    guide = trajectory.guidance.source if trajectory.guidance else ""
    n_shared = trajectory.parent[1] if trajectory.parent else 0
    turns = [
        _turn(trajectory, score, learned, index, guide, pieces) | {"shared": index < n_shared and not is_forced(turn)}
        for index, turn in enumerate(trajectory.turns)
    ]
    hint = trajectory.guidance
    unplayed = hint is not None and hint.text and not any(turn.guidance for turn in trajectory.turns)
    return {
        "id": literal(trajectory.id),
        "parent": [literal(trajectory.parent[0]), trajectory.parent[1]] if trajectory.parent else None,
        "guided": literal(guidance_words(trajectory)),
        "stripped": hint.strip_for_train if hint else None,
        "forced": literal(forced_words(trajectory)),
        "unplayed": [hint.insert_turn, literal(hint.text)] if hint is not None and unplayed else None,
        "notes": [literal(note) for note in learned.notes],
        "dropped": literal(dropped),
        "facts": [_fact(fact) for fact in trajectory.facts_of(None)],
        "ledger": [_event(event) for event in score.ledger if event.turn is None],
        "end": literal(ending_words(trajectory)),
        "total": total_words(score),
        "missing": literal(missing_words(score)),
        "unusable": literal(unusable_words(score)),
        "turns": turns,
    }


def _turn(
    trajectory: Trajectory, score: Score, learned: EpisodeLearning, index: int, guide: str, pieces: TokenPieces
) -> Record:
    turn = trajectory.turns[index]
    hint, credit_T = hint_of_turn(turn), learned.advantage_T
    place = pointed_at(trajectory, index) if turn.observation.images else None
    return {
        "state": literal(turn.observation.state_key),
        "observed": literal(observed_size(turn)),
        "seen": literal(turn.observation.text),
        "images": [_image(image) for image in turn.observation.images],
        "pointed": None if place is None else [number(float(part)) for part in place],
        "hint": None if hint is None else [literal(part) for part in hint],
        "stripped": turn.guidance.strip_for_train if turn.guidance else None,
        "forced": is_forced(turn),
        "written": literal(written_by(turn, guide)),
        "text": literal(turn.action.text),
        "tokens": _tokens(turn, pieces, None if learned.tokens_T is None else learned.tokens_T[index]),
        "act": [[label, literal(words)] for label, words in action_words(turn.action)],
        "calls": [literal(call_words(call)) for call in turn.action.calls],
        "facts": [_fact(fact) for fact in trajectory.facts_of(index)],
        "ledger": [_event(event) for event in score.ledger if event.turn == index],
        "reward": number(float(score.reward_T[index])) if index < len(score.reward_T) else None,
        "credit": None if credit_T is None else number(float(credit_T[index])),
        "terms": [
            [literal(term.name), number(float(term.credit_N[index])), int(term.compared_N[index]),
             literal(reason_words(term, index))]
            for term in learned.terms
        ],
        "read": [[literal(name), number(float(values[index]))] for name, values in learned.read_T.items()],
    }  # fmt: skip


def _tokens(turn: Turn, pieces: TokenPieces, credit: FloatArray | None) -> Record:
    """How surprising each token was to the sampler (−logprob in nats), who wrote it, and how long its text is.

    ``credit``: that of each of the policy's tokens, for rules that give it by token; else None.
    """
    completion, by_policy = turn.completion, _token_sources(turn) == Source.POLICY
    with np.errstate(invalid="ignore"):
        surprise_K = np.round(-completion.logprobs_K.astype(np.float64), 3)
    credit_K = np.full(len(by_policy), np.nan)
    if credit is not None:
        credit_K[by_policy] = credit
    return {
        "credit": None if credit is None else [number(float(value)) for value in credit_K],
        "surprise": [float(value) if math.isfinite(value) else None for value in surprise_K],
        "policy": "".join("1" if own else "0" for own in by_policy),
        "lengths": pieces.lengths(completion.ids_K.tolist(), turn.action.text),
    }


def _token_sources(turn: Turn) -> ByteArray:
    """Who wrote each token of the completion."""
    return turn.source[len(turn.context_ids) :]


def _help(trajectory: Trajectory) -> str:
    guidance = trajectory.guidance
    return "" if guidance is None else literal(f"{guidance.kind} {guidance.level}")


def _fact(fact: Evidence) -> list[JSON]:
    return [literal(evidence_words(fact)), fact.by]


def _event(event: RewardEvent) -> Record:
    return {
        "words": literal(payment_words(event)),
        "name": literal(event.name),
        "kind": event.kind,
        "earned": number(event.earned),
        "paid": number(event.paid),
        "factor": number(event.factor),
        "gate": literal(event.gate),
    }


def _image(image: bytes) -> str:
    """A data URI; "" for a format that is none of pictures."""
    kind = image_format(image)
    return f"data:image/{kind};base64,{base64.b64encode(image).decode()}" if kind else ""
