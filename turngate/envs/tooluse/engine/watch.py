"""An episode of tool use, call by call, compared with the gold calls of its task.

The *frame* is everything that the gold calls leave as it is. It is broken by a call that changes anything in it, also
where a later call restores it: an agent that deletes a record and enters it again has deleted it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from turngate.envs.tooluse.engine.goals import Finish, Goal, same_call
from turngate.envs.tooluse.engine.gold import GoldRun
from turngate.envs.tooluse.engine.states import changes, outside, spelled
from turngate.rewards.outcome.calls import same_value
from turngate.types import JSON, ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class CallWatch:
    """An episode so far. ``open``: gold calls that were not made yet; ``strayed``: the frame was broken once;
    ``violated``: a policy was."""

    gold: GoldRun
    goals: tuple[Goal, ...]
    state: JSON
    open: tuple[ToolCall, ...]
    spelled: str = ""
    """``state`` as one text."""
    off: int = 0
    """Leaves of ``state`` that differ from the gold end, of those that no goal decides."""
    made: tuple[ToolCall, ...] = ()
    strayed: bool = False
    violated: bool = False

    @classmethod
    def begin(cls, gold: GoldRun, goals: Sequence[Goal]) -> CallWatch:
        """Before the first call."""
        first = cls(gold=gold, goals=tuple(goals), state=gold.before, open=gold.calls, spelled=spelled(gold.before))
        return replace(first, off=first._off(gold.before))

    def saw(self, call: ToolCall, state: JSON, *, violates: bool = False) -> CallWatch:
        """After ``call``, which led to ``state``. ``violates``: whether it broke a policy."""
        place = next((place for place, one in enumerate(self.open) if same_call(call, one)), None)
        open_ = self.open if place is None else self.open[:place] + self.open[place + 1 :]
        after = replace(self, open=open_, made=(*self.made, call), violated=self.violated or violates)
        if (text := spelled(state)) == self.spelled:
            return after
        strayed = self.strayed or bool(self._outside(changes(self.state, state)) - self.gold.touched)
        return replace(after, state=state, spelled=text, strayed=strayed, off=self._off(state))

    def finish(self, answer: str | None) -> Finish:
        """The end of the episode, for the goals."""
        return Finish(state=self.state, answer=answer, calls=self.made, gold=self.gold)

    def distance(self) -> int:
        """How far the state is from the right one: leaves that differ from the gold end, and goals that do not hold.

        Only leaves that no goal decides are compared, and only goals about the state count. 0: the state is right.
        """
        finish = self.finish(None)
        unmet = sum(not goal.is_met(finish) for goal in self.goals if goal.needs_state)
        return self.off + unmet

    def frame_kept(self) -> bool:
        """Whether no unrelated leaf was ever changed, and all leaves that no goal decides are as the gold calls leave
        them."""
        return not self.strayed and not self.off

    def solved(self, answer: str | None) -> bool:
        """Whether all goals hold, and the policies, and the frame unless a goal does without. Raises VerifierError."""
        finish = self.finish(answer)
        held = not self.violated and (self.lenient or self.frame_kept())
        return held and all(goal.is_met(finish) for goal in self.goals)

    @property
    def lenient(self) -> bool:
        """Whether a goal of the task does without the frame."""
        return not all(goal.frame for goal in self.goals)

    def strictly_solved(self, answer: str | None) -> bool:
        """Whether it is solved, the frame was kept all the same, and each gold call was made."""
        return self.solved(answer) and self.frame_kept() and not self.open

    def undecided(self, answer: str | None) -> bool:
        """Whether a judge has to say if the goals hold, where ``solved`` finds nothing against it."""
        finish = self.finish(answer)
        return any(goal.undecided(finish) for goal in self.goals)

    def _off(self, state: JSON) -> int:
        return len(self._outside(changes(state, self.gold.after)))

    def _outside(self, paths: frozenset[tuple[str, ...]]) -> frozenset[tuple[str, ...]]:
        return outside(paths, [path for goal in self.goals for path in goal.decides])


def likeness(call: ToolCall, gold: Sequence[ToolCall]) -> tuple[bool, float, float]:
    """How a call compares with the nearest of ``gold``: its name is among them; argument names; argument values.

    Both numbers are shares in [0, 1] of the arguments that either call has, as in ToolRL
    (https://arxiv.org/abs/2504.13958); 1 where neither has any, 0 where no gold call has its name. The nearest is the
    one with the largest sum of both.
    """
    found = (_likeness(call, one) for one in gold if one.name == call.name)
    return max(found, key=lambda like: (like[1] + like[2], like[1]), default=(False, 0.0, 0.0))


def _likeness(mine: ToolCall, theirs: ToolCall) -> tuple[bool, float, float]:
    union = mine.arguments.keys() | theirs.arguments.keys()
    if not union:
        return True, 1.0, 1.0
    shared = mine.arguments.keys() & theirs.arguments.keys()
    equal = sum(same_value(mine.arguments[name], theirs.arguments[name]) for name in shared)
    return True, len(shared) / len(union), equal / len(union)
