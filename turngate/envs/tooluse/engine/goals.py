"""Goals: conditions that have to hold when an episode of tool use ends.

A goal is a part, so other packages add theirs. Beside the goals of a task, everything that they do not decide has to
be as the gold calls leave it (see ``watch.py``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

from pydantic import Field

from turngate.envs.tooluse.engine.gold import GoldRun
from turngate.envs.tooluse.engine.states import Path, as_json, changes, found_at, path_of
from turngate.errors import ConfigError, VerifierError
from turngate.foreign import answer_for, described, guarded, is_own
from turngate.parts import Part, import_object
from turngate.rewards.outcome.answers import exact_match, list_overlap, numeric_match
from turngate.rewards.outcome.calls import same_value
from turngate.rewards.outcome.normal_form import texts_in_one_form
from turngate.types import JSON, ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """How an episode ended: the state, the answer (None: none was given), the calls that were made, and the gold."""

    state: JSON
    answer: str | None
    calls: tuple[ToolCall, ...]
    gold: GoldRun


class Goal(Part):
    """Something that has to hold at the end. A subclass sets ``type``, declares its settings and writes ``is_met``."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "goal"
    shipped_in: ClassVar[tuple[str, ...]] = (
        "turngate.envs.tooluse.generated.domains.served",
        "turngate.envs.tooluse.loaders.tau.graded",
    )
    needs_state: ClassVar[bool] = False
    """Whether it can only be measured in a world whose state is known."""
    frame: ClassVar[bool] = True
    """Whether an episode is lost too where the frame is broken (see ``watch.py``), although the goal is met."""

    @abstractmethod
    def is_met(self, finish: Finish) -> bool:
        """Whether it holds. Raises VerifierError where that cannot be measured."""

    def undecided(self, finish: Finish) -> bool:
        """Whether a judge has to say after the episode if it holds; ``is_met`` then says whether it can hold at all."""
        return False

    @property
    def decides(self) -> tuple[Path, ...]:
        """Paths where the state may differ from the gold end, because this goal alone decides there."""
        return ()

    @property
    def gold_answer(self) -> str:
        """The oracle's answer; "" = the goal asks for no answer."""
        return ""


class StateGoal(Goal):
    """The state at the end: as the gold calls leave it; ``holds`` and ``check`` say where other ends are right."""

    type: Literal["state"] = "state"
    needs_state: ClassVar[bool] = True
    holds: Mapping[str, object] = Field(default_factory=dict)
    """Path, such as orders.A1.status, to the value that has to be there; null: no value."""
    check: str = ""
    """A function of the state, as package.module:name, that says whether it is right."""
    free: tuple[str, ...] = ()
    """Paths below which any value is right, unless the two above say otherwise; * stands for any one key."""

    @property
    def decides(self) -> tuple[Path, ...]:
        """The paths of ``holds`` and ``free``."""
        return tuple(path_of(text) for text in (*self.holds, *self.free))

    def is_met(self, finish: Finish) -> bool:
        """``holds`` and ``check`` are true; the rest is for the frame.

        A check that raises for this state and not for the one that the gold calls lead to says no. Raises VerifierError
        where it raises for both.
        """
        for text, wanted in self.holds.items():
            there, value = found_at(finish.state, path_of(text))
            if (wanted is not None and not there) or changes(_plain(value), _plain(as_json(wanted))):
                return False
        if not self.check:
            return True
        function = import_object(self.check)
        try:
            return bool(function(finish.state))
        except BaseException as error:
            if not is_own(error):
                raise
            self._refuse_gold(function, finish.gold, f"the goal's check '{self.check}' raised {described(error)}")
            what = f"raised {described(error)[:200]} for a state that calls can leave, which counts as a no"
            answer_for(f"the goal's check '{self.check}'", what, loud=False)  # it is asked after every call
            return False  # it takes the right state, so a state that it cannot take is a wrong one

    @staticmethod
    def _refuse_gold(function: Callable[[JSON], object], gold: GoldRun, problem: str) -> None:
        """Raise VerifierError with ``problem`` unless a check takes the state that the gold calls lead to."""
        if gold.after is None:
            raise VerifierError(problem)
        with guarded(lambda _: VerifierError(problem)):
            bool(function(gold.after))


class AnswerGoal(Goal):
    """The agent's answer."""

    type: Literal["answer"] = "answer"
    answer: str | tuple[str, ...] = Field(min_length=1)
    """The right answer, or several that are all right; the oracle gives the first."""
    match: Literal["text", "number", "list", "ordered_list"] = "text"
    """How it is compared: as a text, regardless of case, punctuation and articles; as a number; as items that commas
    separate, in any order or in this one."""
    relative: float = Field(1e-6, ge=0)
    """How far a number may be off, as a share of the right one."""

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError for an answer that its own comparison refuses."""
        if not self._right(self.gold_answer):
            raise ConfigError(f"the answer {self.gold_answer!r} is not right by match = '{self.match}'")

    def is_met(self, finish: Finish) -> bool:
        """Whether the answer is one of the right ones."""
        return finish.answer is not None and self._right(finish.answer)

    @property
    def gold_answer(self) -> str:
        """The first of the right ones."""
        return self.answer if isinstance(self.answer, str) else self.answer[0]

    def _right(self, given: str) -> bool:
        right = (self.answer,) if isinstance(self.answer, str) else self.answer
        if self.match == "text":
            return exact_match(given, right) == 1.0
        if self.match == "number":
            return any(numeric_match(given, one, relative=self.relative) == 1.0 for one in right)
        ordered = self.match == "ordered_list"
        overlaps = (list_overlap(_items(given), _items(one), ordered=ordered) for one in right)
        return any(overlap is not None and overlap.exact == 1.0 for overlap in overlaps)


class CallsGoal(Goal):
    """The calls that the agent makes: each of the gold calls once, with arguments that mean the same."""

    type: Literal["calls"] = "calls"
    ordered: bool = False
    """Whether they have to be made in the order of the gold."""
    spare: int = Field(0, ge=0)
    """How many other calls are allowed beside them."""

    def is_met(self, finish: Finish) -> bool:
        """Each gold call was made, and no more than ``spare`` others."""
        gold = finish.gold.calls
        if not len(gold) <= len(finish.calls) <= len(gold) + self.spare:
            return False
        open_ = list(gold)
        for call in finish.calls:
            place = next((place for place, one in enumerate(open_) if same_call(call, one)), None)
            if place is not None and (place == 0 or not self.ordered):
                del open_[place]
        return not open_


class RubricGoal(Goal):
    """A judge's verdict on the episode. The judge is set in the config, [[examine]] type = "judged_goals"; without one
    the episode has no outcome."""

    type: Literal["rubric"] = "rubric"
    text: str = Field(min_length=1)
    """What the judge checks: a statement that is true when the verdict should be yes."""
    example: str = ""
    """An answer that is right: the oracle gives it, and it needs no judge. Empty: the judge is asked about every
    answer, so the oracle's episodes are no demonstrations."""
    reference: str = ""
    """A right answer that the judge is shown beside the episode; the agent never sees it."""

    def is_met(self, finish: Finish) -> bool:
        """Whether there is an answer to judge; without one it is a no."""
        return finish.answer is not None and bool(finish.answer.strip())

    def undecided(self, finish: Finish) -> bool:
        """Whether the answer differs from the example."""
        return not self.example.strip() or exact_match(finish.answer, self.example) != 1.0

    @property
    def gold_answer(self) -> str:
        """The example; "done" where there is none."""
        return self.example.strip() or "done"


def right_answers(goals: Sequence[Goal], given: str | None) -> dict[str, JSON]:
    """The right answers by the goals, as evidence: ``gold``, all that are right, and of an answer that is a list
    ``gold_items`` and the ``items`` that were given. Empty where no goal asks for a known answer."""
    asks = next((goal for goal in goals if isinstance(goal, AnswerGoal)), None)
    if asks is None:
        return {}
    right = (asks.answer,) if isinstance(asks.answer, str) else asks.answer
    found: dict[str, JSON] = {"gold": list(right)}
    if asks.match in ("list", "ordered_list"):
        found |= {"gold_items": _items(right[0]), "items": _items(given) if given else []}
    return found


def same_call(mine: ToolCall, theirs: ToolCall) -> bool:
    """Whether two calls ask for the same. An argument that is null is as good as left out."""
    return mine.name == theirs.name and same_value(_stated_arguments(mine), _stated_arguments(theirs))


def _stated_arguments(call: ToolCall) -> Mapping[str, object]:
    return {name: value for name, value in call.arguments.items() if value is not None}


def _plain(value: JSON) -> JSON:
    return cast("JSON", texts_in_one_form(value))


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")]
