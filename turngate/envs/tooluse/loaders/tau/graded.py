"""The outcome of a tau task, graded as tau-bench and tau2-bench do: the product of the checks that its reward basis
names.

It pays what they pay: it asks neither for the frame (see ``watch.py``) nor for calls that only look. Where they are
lenient, the evidence says so, and the rubric ``tau_strict`` asks for more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field

from turngate.envs.tooluse.engine.goals import Finish, Goal
from turngate.envs.tooluse.engine.states import spelled
from turngate.envs.tooluse.generated.domains.domain_world import SAY
from turngate.rewards.outcome.normal_form import one_form, texts_in_one_form, without_case, without_commas
from turngate.types import JSON, ToolCall

Basis: TypeAlias = Literal["DB", "COMMUNICATE", "ENV_ASSERTION", "ACTION"]
_TABLES, _ASSERTIONS = "tables/", "assertions/"


def state_of(differences: Mapping[str, JSON], held: Sequence[bool]) -> Mapping[str, JSON]:
    """The state of a tau world: leaves that differ from the first tables, and which assertions hold.

    It is flat and never empty, so that two states differ in just the leaves in which their tables do.
    """
    tables = {f"{_TABLES}{path}": value for path, value in differences.items()}
    return {"tables": "as at first, but for"} | tables | {f"{_ASSERTIONS}{n}": value for n, value in enumerate(held)}


class WantedCall(BaseModel):
    """A call that the basis ACTION wants. ``compare``: the arguments that count; None: those of the agent's call."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    arguments: Mapping[str, object]
    compare: tuple[str, ...] | None = None

    def is_met_by(self, call: ToolCall) -> bool:
        """Whether ``call`` counts as this one. Without ``compare``, arguments that the agent leaves out do not
        count."""
        names = tuple(call.arguments) if self.compare is None else self.compare
        if call.name != self.name:
            return False
        theirs = {name: value for name, value in call.arguments.items() if name in names}
        wanted = {name: value for name, value in self.arguments.items() if name in names}
        return bool(texts_in_one_form(theirs) == texts_in_one_form(wanted))


class TauGoal(Goal):
    """The reward of tau-bench and tau2-bench: 1 if everything in ``basis`` holds and the agent or the user ended it."""

    type: Literal["tau_bench"] = "tau_bench"
    frame: ClassVar[bool] = False
    basis: tuple[Basis, ...] = ("DB", "COMMUNICATE")
    """DB: the tables end as the gold calls leave them. COMMUNICATE: each of ``tells`` was said. ENV_ASSERTION: all
    assertions hold. ACTION: each of ``wanted`` was called. Nothing: an episode that was ended is won."""
    tells: tuple[str, ...] = ()
    """Texts that have to be part of the agent's messages, regardless of case, of commas in them, and of how a letter or
    digit is encoded (``one_form``)."""
    wanted: tuple[WantedCall, ...] = Field(())
    """The calls that ACTION wants."""

    def is_met(self, finish: Finish) -> bool:
        """Whether the original would pay 1."""
        ends, wanted = _part(finish.state, _TABLES), _part(finish.gold.after, _TABLES)
        checks: Mapping[Basis, Callable[[], bool]] = {
            "DB": lambda: _spelled(ends) == _spelled(wanted),
            "COMMUNICATE": lambda: self._tells_outputs(finish),
            "ENV_ASSERTION": lambda: all(_part(finish.state, _ASSERTIONS).values()),
            "ACTION": lambda: all(any(one.is_met_by(call) for call in finish.calls) for one in self.wanted),
        }
        return finish.answer is not None and all(checks[name]() for name in self.basis)

    @property
    def gold_answer(self) -> str:
        """All texts of ``tells``."""
        return " ".join(self.tells)

    def _tells_outputs(self, finish: Finish) -> bool:
        said = [str(call.arguments.get("text", "")) for call in finish.calls if call.name == SAY.name]
        heard = [without_commas(text) for text in (*said, finish.answer or "")]
        return all(any(without_case(one_form(told)) in text for text in heard) for told in self.tells)


def _spelled(tables: Mapping[str, JSON]) -> str:
    return spelled(cast("JSON", texts_in_one_form(tables)))


def _part(state: JSON, prefix: str) -> Mapping[str, JSON]:
    found = state if isinstance(state, Mapping) else {}
    return {path: value for path, value in found.items() if path.startswith(prefix)}
