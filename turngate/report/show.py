"""Print one trajectory turn by turn: what was observed, written, measured, earned, paid and credited.

What a model or an environment wrote is printed as it is: markup such as ``[red]`` is not interpreted, and control
characters, which would act on the terminal, appear as ``\\x1b``.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from turngate.errors import ShapeError
from turngate.trainer.credit.terms import CreditTerm
from turngate.types import FAULT, Action, Evidence, FloatArray, RewardEvent, Score, Source, Trajectory, Turn

# Control, format (text direction, zero width), lone surrogates, line and paragraph separators.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def show(
    console: Console,
    trajectory: Trajectory,
    score: Score,
    advantage_T: FloatArray | None = None,
    reasons: Sequence[CreditTerm] = (),
) -> None:
    """Print a trajectory with its ledger, and the credit of each turn where ``advantage_T`` is given.

    ``reasons``: what that credit is the sum of, cut to the turns of the trajectory. Raises ShapeError when
    ``reward_T`` or ``advantage_T`` does not have one entry per turn.
    """
    n_turns = len(trajectory.turns)
    for name, values in (("reward_T", score.reward_T), ("advantage_T", advantage_T)):
        if values is not None and len(values) != n_turns:
            raise ShapeError(f"{name} has {len(values)} entries, but trajectory '{trajectory.id}' has {n_turns} turns")
    _show_head(console, trajectory)
    guide = trajectory.guidance.source if trajectory.guidance else ""
    n_shared = trajectory.parent[1] if trajectory.parent else 0
    for index, turn in enumerate(trajectory.turns):
        shared = " (shared: before the branch)" if index < n_shared and not is_forced(turn) else ""
        console.print(Rule(Text(f"turn {index}{shared}", "bold"), align="left"))
        _show_turn(console, turn, guide)
        _show_evidence(console, trajectory.facts_of(index))
        _show_ledger(console, [event for event in score.ledger if event.turn == index])
        credit = "" if advantage_T is None else f", credit {advantage_T[index]:+.4g}"
        _line(console, "turn", f"reward {score.reward_T[index]:+.4g}{credit}")
        for reason in reasons:
            _line(console, "because", _reason(reason, index))
    _show_end(console, trajectory, score)


def _reason(reason: CreditTerm, index: int) -> str:
    n = reason.compared_N[index]
    if not n:
        return f"{reason.name}: no other one to compare with"
    return f"{reason.name}: {reason.credit_N[index]:+.4g} against {n} other{'' if n == 1 else 's'}"


def literal(text: str) -> str:
    """``text`` with every invisible or control character except newline and tab written as ``\\x1b`` or ``\\u202e``."""
    return "".join(
        char if char in "\n\t" or unicodedata.category(char) not in _HIDDEN else _escape(ord(char)) for char in text
    )


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _show_head(console: Console, trajectory: Trajectory) -> None:
    task = trajectory.task
    console.print(Rule(Text(f"trajectory {literal(trajectory.id)}", "bold"), align="left"))
    _line(console, "task", f"{task.id} of {task.env_id}, split {task.split}, seed {trajectory.seed}")
    _block(console, "prompt", task.prompt)
    if trajectory.parent:
        parent, turn = trajectory.parent
        _line(console, "parent", f"branched from {parent} at turn {turn}", "magenta")
    if trajectory.guidance:
        _show_guidance(console, trajectory)


def _show_turn(console: Console, turn: Turn, guide: str) -> None:
    """``guide``: who acted in the turns that are not the policy's."""
    images = f", {len(turn.observation.images)} images" if turn.observation.images else ""
    size = f"{len(turn.context_ids)} tokens" if len(turn.source) else "tokens unknown"
    _block(console, f"observed ({size}{images})", turn.observation.text)
    if turn.guidance and turn.guidance.text:
        helped = f"guided ({turn.guidance.kind}, level {turn.guidance.level}, from {turn.guidance.source})"
        _block(console, helped, turn.guidance.text, "magenta")
    spoken = turn.completion
    size = f"{len(spoken.ids_K)} tokens" if len(turn.source) else "tokens unknown"
    if is_forced(turn):
        _block(console, f"forced by {guide or 'a guide'} ({size}, no credit)", turn.action.text, "magenta")
    else:
        origin = f"{size}, ended by {spoken.ended_by}, policy version {spoken.policy_version}"
        _block(console, f"wrote ({origin})", turn.action.text, "cyan")
    _show_action(console, turn.action)


def is_forced(turn: Turn) -> bool:
    """Whether somebody else than the policy took the turn; hints are marked so in its context only."""
    return bool((turn.source[len(turn.context_ids) :] == Source.GUIDE).any())


def _show_action(console: Console, action: Action) -> None:
    for call in action.calls:
        _line(console, "call", f"{call.name} {json.dumps(call.arguments, ensure_ascii=False, default=str)}")
    if action.parse_error is not None:
        _line(console, "parse error", action.parse_error, "red")


def _show_guidance(console: Console, trajectory: Trajectory) -> None:
    """What help the episode had, and who took which turns; the text stands in the turn before which it was inserted."""
    guidance = trajectory.guidance
    assert guidance is not None
    kept = "not seen in training" if guidance.strip_for_train else "seen in training"
    beside = ", compared with unguided siblings" if guidance.joins else ""
    helped = f"{guidance.kind}, level {guidance.level}, from {guidance.source}, {kept}{beside}"
    _line(console, "guided", helped, "magenta")
    if forced := sum(map(is_forced, trajectory.turns)):
        _line(console, "forced", f"{forced} of {len(trajectory.turns)} turns, by {guidance.source}", "magenta")
    if guidance.text and not any(turn.guidance for turn in trajectory.turns):
        _block(console, f"hint for turn {guidance.insert_turn}, which was not played", guidance.text, "magenta")


def _show_evidence(console: Console, evidence: Iterable[Evidence]) -> None:
    for fact in evidence:
        measured = json.dumps(fact.value, ensure_ascii=False, default=str)
        value = "could not be measured" if fact.value is None else measured
        _line(console, "evidence", f"{fact.name} = {value}" + ("" if fact.by == "env" else f" (by the {fact.by})"))


def _show_ledger(console: Console, ledger: Iterable[RewardEvent]) -> None:
    for event in ledger:
        gate = f", gate {event.gate} pays × {event.factor:.4g}" if event.gate or event.factor != 1 else ""
        style = "" if event.paid == event.earned else "yellow"
        text = f"{event.kind} {event.name}: earned {event.earned:+.4g} → paid {event.paid:+.4g}{gate}"
        _line(console, "reward", text, style)


def _show_end(console: Console, trajectory: Trajectory, score: Score) -> None:
    console.print(Rule(Text("episode", "bold"), align="left"))
    _show_evidence(console, trajectory.facts_of(None))
    _show_ledger(console, [event for event in score.ledger if event.turn is None])
    faults = [str(fact.value) for fact in trajectory.evidence if fact.name == FAULT]
    reason = trajectory.error or next(iter(faults), "")
    _line(console, "ending", f"{trajectory.ending}" + (f": {reason}" if reason else ""))
    earned = sum(event.earned for event in score.ledger)
    outcome = "could not be measured" if score.outcome is None else f"{score.outcome:.4g}"
    _line(console, "total", f"outcome {outcome}, earned {earned:+.4g} → paid {score.total:+.4g}", "bold")
    if score.missing:
        means = ", nor of a sibling" if score.filled is None else ""
        if score.filled is not None:
            means = (
                f"; with the siblings' mean in its place it is compared as if it were paid {score.filled.total:+.4g}"
            )
        _line(console, "missing", f"a verdict of {' and of '.join(score.missing)} could not be had{means}", "yellow")
    if not score.usable:
        _line(console, "unusable", score.problem or "no reason was recorded", "red")


def _line(console: Console, label: str, text: str, style: str = "") -> None:
    indented(console, Text.assemble((f"{label:<12}", "dim"), (literal(text), style)), 2)


def _block(console: Console, label: str, text: str, style: str = "") -> None:
    indented(console, Text(literal(label), "dim"), 2)
    indented(console, Text(literal(text), style), 6)


def indented(console: Console, text: Text, by: int) -> None:
    """Print indented text: folded on a terminal; with whole lines in a pipe, where padding would cut them off."""
    if console.soft_wrap:
        for line in text.split("\n", allow_blank=True):
            console.print(Text(" " * by) + line)
    else:
        console.print(Padding(text, (0, 0, 0, by)))
