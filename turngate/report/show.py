"""Print one trajectory turn by turn: what was observed, written, measured, earned, paid and credited.

What a model or an environment wrote is printed as it is: markup such as ``[red]`` is not interpreted, and control
characters, which would act on the terminal, appear as ``\\x1b``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from turngate.errors import ShapeError
from turngate.report.episode_words import (
    action_words,
    ending_words,
    evidence_words,
    forced_words,
    guidance_words,
    hint_of_turn,
    hint_places_words,
    is_forced,
    literal,
    measurer_words,
    missing_words,
    observed_size,
    payment_words,
    reason_words,
    total_words,
    unusable_words,
    written_by,
)
from turngate.report.same_state import SiblingTurn
from turngate.trainer.credit.terms import CreditTerm
from turngate.types import Evidence, FloatArray, RewardEvent, Score, Trajectory, Turn

SIBLING_TURNS = 5
"""Most turns of siblings in the same state that are printed of each turn."""


def show(
    console: Console,
    trajectory: Trajectory,
    score: Score,
    advantage_T: FloatArray | None = None,
    reasons: Sequence[CreditTerm] = (),
    siblings: Sequence[Sequence[SiblingTurn] | None] = (),
    tokens_T: Sequence[FloatArray] | None = None,
    read_T: Mapping[str, FloatArray] = MappingProxyType({}),
) -> None:
    """Print a trajectory with its ledger, and the credit of each turn where ``advantage_T`` is given.

    ``reasons``: what that credit is the sum of, cut to the turns of the trajectory. ``siblings``: for each turn, what
    siblings did in the same state. ``tokens_T``: for rules that give credit by token, that of each turn's tokens.
    ``read_T``: the columns that training measured for the rule. Raises ShapeError when ``reward_T``, ``advantage_T``,
    ``siblings`` or ``tokens_T``, where given, does not have one entry per turn.
    """
    n_turns = len(trajectory.turns)
    given = (
        *(("reward_T", score.reward_T), ("advantage_T", advantage_T)),
        *(("siblings", siblings or None), ("tokens_T", tokens_T)),
    )
    for name, values in given:
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
        if tokens_T is not None and len(tokens_T[index]):
            lowest, highest = tokens_T[index].min(), tokens_T[index].max()
            _line(console, "tokens", f"credit from {lowest:+.4g} to {highest:+.4g}, of which the turn's is the mean")
        for reason in reasons:
            _line(console, "because", reason_words(reason, index))
        if read_T:
            _line(console, "read", ", ".join(f"{name} {values[index]:.4g}" for name, values in read_T.items()))
        if siblings:
            _show_siblings(console, siblings[index])
    _show_end(console, trajectory, score)


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
    _block(console, f"observed ({observed_size(turn)})", turn.observation.text)
    if (hint := hint_of_turn(turn)) is not None:
        _block(console, *hint, "magenta")
    _block(console, written_by(turn, guide), turn.action.text, "magenta" if is_forced(turn) else "cyan")
    for label, text in action_words(turn.action):
        _line(console, label, text, "red" if label == "parse error" else "")


def _show_guidance(console: Console, trajectory: Trajectory) -> None:
    """The help of the episode, and who took which turns; a hint's text is shown in the turn that it precedes."""
    guidance = trajectory.guidance
    assert guidance is not None
    _line(console, "guided", guidance_words(trajectory), "magenta")
    if places := hint_places_words(trajectory):
        _line(console, "", places, "magenta")
    if forced := forced_words(trajectory):
        _line(console, "forced", forced, "magenta")
    if guidance.text and not any(turn.guidance for turn in trajectory.turns):
        _block(console, f"hint for turn {guidance.insert_turn}, which was not played", guidance.text, "magenta")


def _show_evidence(console: Console, evidence: Iterable[Evidence]) -> None:
    for fact in evidence:
        _line(console, "evidence", evidence_words(fact) + measurer_words(fact))


def _show_siblings(console: Console, turns: Sequence[SiblingTurn] | None) -> None:
    """``turns``: those of siblings in the state of a turn; None where it cannot be told."""
    if turns is None:
        return
    if not turns:
        _line(console, "same state", "no sibling was in this state")
    for one in turns[:SIBLING_TURNS]:
        _line(console, "same state", one.words)
    if len(turns) > SIBLING_TURNS:
        _line(console, "", f"and {len(turns) - SIBLING_TURNS} more turns of siblings in this state")


def _show_ledger(console: Console, ledger: Iterable[RewardEvent]) -> None:
    for event in ledger:
        _line(console, "reward", payment_words(event), "" if event.paid == event.earned else "yellow")


def _show_end(console: Console, trajectory: Trajectory, score: Score) -> None:
    console.print(Rule(Text("episode", "bold"), align="left"))
    _show_evidence(console, trajectory.facts_of(None))
    _show_ledger(console, [event for event in score.ledger if event.turn is None])
    _line(console, "ending", ending_words(trajectory))
    _line(console, "total", total_words(score), "bold")
    if missing := missing_words(score):
        _line(console, "missing", missing, "yellow")
    if unusable := unusable_words(score):
        _line(console, "unusable", unusable, "red")


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
