"""An episode of BFCL: the user's messages turn by turn, the agent's services, and beside them those of the gold calls.

After each turn of the user BFCL checks three conditions, and the episode is won if they hold after every turn in which
there are gold calls:

* the *state*: every public attribute of every service is as the gold calls of all turns so far leave it;
* the *results*: each result of this turn's gold calls is among those of all calls of the agent so far, as often;
* the agent called something at all.

A turn without gold calls is one in which a function or a value is missing. BFCL 4 carries out the calls there and does
not check them until the next turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from turngate.envs.tooluse.loaders.bfcl.services import Services
from turngate.types import ToolCall

MOST_STEPS = 20
"""Turns of the agent in one turn of the user; in the one after these BFCL gives up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTurn:
    """The user's message, the gold calls that serve it, and the functions that are offered from then on."""

    says: str
    gold: tuple[ToolCall, ...] = ()
    offers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The start of a task: the services by name, their contents, whether they are filled up to give long results, and
    the user's messages."""

    services: tuple[str, ...]
    config: Mapping[str, object]
    long_context: bool
    turns: tuple[UserTurn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnVerdict:
    """The results of BFCL's checks for one turn of the user. ``asked``: whether there are gold calls in it."""

    asked: bool
    state: bool
    results: bool
    called: bool

    @property
    def holds(self) -> bool:
        """Whether all checks hold that BFCL makes."""
        return not self.asked or (self.state and self.results and self.called)


@dataclass(slots=True)
class BfclEpisode:
    """An episode that goes on. ``mine`` and ``gold``: the services of the agent and of the gold calls, which have
    been made up to the present turn of the user; ``expected``: their results in it."""

    turns: Sequence[UserTurn]
    mine: Services
    gold: Services
    now: int = 0
    steps: int = 0
    calls: int = 0
    results: Counter[str] = field(default_factory=Counter)
    expected: Counter[str] = field(default_factory=Counter)
    verdicts: list[TurnVerdict] = field(default_factory=list)
    marks: tuple[str, str] = ("", "")

    def begin(self) -> None:
        """Before the first turn."""
        self._play_gold()
        self.marks = self.mine.marks()

    def call(self, call: ToolCall) -> tuple[str, bool, bool]:
        """Make a call: its result, whether it succeeded, and whether it changed a compared attribute."""
        text, fine = self.mine.call(call.name, call.arguments)
        self.results[text] += 1
        self.calls += 1
        before, self.marks = self.marks, self.mine.marks()
        return text, fine, self.marks[0] != before[0]

    def end_turn(self) -> TurnVerdict:
        """The agent is done with the user's message: the verdict. The next turn begins, if there is one."""
        verdict = TurnVerdict(
            asked=bool(self.turns[self.now].gold),
            state=not self.distance(),
            results=not self.expected - self.results,
            called=self.calls > 0,
        )
        self.verdicts.append(verdict)
        self.now, self.steps, self.calls = self.now + 1, 0, 0
        if not self.over:
            self._play_gold()
        return verdict

    @property
    def over(self) -> bool:
        """Whether the user has said everything."""
        return self.now >= len(self.turns)

    @property
    def solved(self) -> bool:
        """Whether the agent got through all turns, and all checks hold."""
        return self.over and all(verdict.holds for verdict in self.verdicts)

    def distance(self) -> int:
        """How many public attributes differ from those after the gold calls of this turn."""
        return self.mine.unlike(self.gold)

    def key(self) -> str:
        """A text for everything that results of calls depend on: the services and the turn of the user."""
        return f"{self.now} {' '.join(self.marks)}"

    def _play_gold(self) -> None:
        made = (self.gold.call(call.name, call.arguments) for call in self.turns[self.now].gold)
        self.expected = Counter(text for text, _ in made)
