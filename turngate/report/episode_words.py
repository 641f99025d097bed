"""Texts about an episode, in the terminal (``show``) and on the page (``viewer``)."""

from __future__ import annotations

import json
import re
import unicodedata

from turngate.trainer.credit.terms import CreditTerm
from turngate.types import FAULT, Action, Evidence, RewardEvent, Score, Source, ToolCall, Trajectory, Turn

# Control, format (text direction, zero width), lone surrogates, line and paragraph separators.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_NOT_PLAIN = re.compile(r"[^\n\t\x20-\x7e]")


def literal(text: str) -> str:
    """``text`` with every invisible or control character except newline and tab written as ``\\x1b`` or ``\\u202e``."""
    return _NOT_PLAIN.sub(_visible, text)


def _visible(found: re.Match[str]) -> str:
    char = found[0]
    return _escape(ord(char)) if unicodedata.category(char) in _HIDDEN else char


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def is_forced(turn: Turn) -> bool:
    """Whether the turn is not the policy's own; tokens of hints have the same mark, but in the context only."""
    return bool((turn.source[len(turn.context_ids) :] == Source.GUIDE).any())


def observed_size(turn: Turn) -> str:
    """How long the context of a turn is, and how many images it has."""
    images = f", {len(turn.observation.images)} images" if turn.observation.images else ""
    return (f"{len(turn.context_ids)} tokens" if len(turn.source) else "tokens unknown") + images


def written_by(turn: Turn, guide: str) -> str:
    """Who wrote a turn, how much, and why it ended; ``guide``: who acted in the turns that are not the policy's."""
    spoken = turn.completion
    size = f"{len(spoken.ids_K)} tokens" if len(turn.source) else "tokens unknown"
    if is_forced(turn):
        return f"forced by {guide or 'a guide'} ({size}, no credit)"
    return f"wrote ({size}, ended by {spoken.ended_by}, policy version {spoken.policy_version})"


def hint_of_turn(turn: Turn) -> tuple[str, str] | None:
    """(heading, text) of the help that was inserted before a turn; None for none."""
    hint = turn.guidance
    if hint is None or not hint.text:
        return None
    return f"guided ({hint.kind}, level {hint.level}, from {hint.source})", hint.text


def call_words(call: ToolCall) -> str:
    """A call with its arguments as JSON."""
    return f"{call.name} {json.dumps(call.arguments, ensure_ascii=False, default=str)}"


def action_words(action: Action) -> list[tuple[str, str]]:
    """(label, text) for each call that was read of an action, and for the reason why one could not be read."""
    calls = [("call", call_words(call)) for call in action.calls]
    return calls if action.parse_error is None else [*calls, ("parse error", action.parse_error)]


def guidance_words(trajectory: Trajectory) -> str:
    """The help that an episode had, and whether it is in the context that is learned from; "" for none."""
    guidance = trajectory.guidance
    if guidance is None:
        return ""
    kept = "not seen in training" if guidance.strip_for_train else "seen in training"
    beside = ", compared with unguided siblings" if guidance.joins else ""
    return f"{guidance.kind}, level {guidance.level}, from {guidance.source}, {kept}{beside}"


def forced_words(trajectory: Trajectory) -> str:
    """How many turns of a guided episode are not the policy's own; "" for none."""
    forced = sum(map(is_forced, trajectory.turns))
    if trajectory.guidance is None or not forced:
        return ""
    return f"{forced} of {len(trajectory.turns)} turns, by {trajectory.guidance.source}"


def evidence_words(fact: Evidence) -> str:
    """A measured fact, and who measured it where that was not the environment."""
    measured = json.dumps(fact.value, ensure_ascii=False, default=str)
    value = "could not be measured" if fact.value is None else measured
    return f"{fact.name} = {value}" + ("" if fact.by == "env" else f" (by the {fact.by})")


def measurer_words(fact: Evidence) -> str:
    """Who measured a fact: the environment, or what ``evidence_words`` names."""
    return " (by the environment)" if fact.by == "env" else ""


def hint_places_words(trajectory: Trajectory) -> str:
    """The turns before which help stands in the context, and whether it is learned from with it; "" for none."""
    places = [index for index, turn in enumerate(trajectory.turns) if hint_of_turn(turn) is not None]
    if trajectory.guidance is None or not places:
        return ""
    turns = f"turn{'' if len(places) == 1 else 's'} {', '.join(map(str, places))}"
    how = "stripped from" if trajectory.guidance.strip_for_train else "kept in"
    return f"the hint stands before {turns} and is {how} the context that is learned from"


def payment_words(event: RewardEvent) -> str:
    """A line of the ledger: what was earned, what was paid, and the gate between them."""
    gate = f", gate {event.gate} pays × {event.factor:.4g}" if event.gate or event.factor != 1 else ""
    # adding 0.0 makes -0, which a weight below 0 times nothing is, print as +0
    return f"{event.kind} {event.name}: earned {event.earned + 0.0:+.4g} → paid {event.paid + 0.0:+.4g}{gate}"


def reason_words(reason: CreditTerm, index: int) -> str:
    """The part that one comparison adds to the credit of turn ``index``."""
    n = reason.compared_N[index]
    if not n:
        return f"{reason.name}: no other one to compare with"
    return f"{reason.name}: {reason.credit_N[index]:+.4g} against {n} other{'' if n == 1 else 's'}"


def ending_words(trajectory: Trajectory) -> str:
    """How an episode ended, and why where that is known."""
    faults = [str(fact.value) for fact in trajectory.evidence if fact.name == FAULT]
    reason = trajectory.error or next(iter(faults), "")
    return f"{trajectory.ending}" + (f": {reason}" if reason else "")


def total_words(score: Score) -> str:
    """Outcome, and what was earned and paid in the whole episode."""
    earned = sum(event.earned for event in score.ledger)
    outcome = "could not be measured" if score.outcome is None else f"{score.outcome:.4g}"
    return f"outcome {outcome}, earned {earned + 0.0:+.4g} → paid {score.total + 0.0:+.4g}"


def missing_words(score: Score) -> str:
    """Which verdicts are missing, and what stands in their place; "" if none is."""
    if not score.missing:
        return ""
    means = ", nor of a sibling"
    if score.filled is not None:
        means = f"; with the siblings' mean in its place it is compared as if it were paid {score.filled.total:+.4g}"
    return f"a verdict of {' and of '.join(score.missing)} could not be had{means}"


def unusable_words(score: Score) -> str:
    """Why an episode is unusable; "" for a usable one."""
    return "" if score.usable else score.problem or "no reason was recorded"
