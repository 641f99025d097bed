"""``Formula``: a published score as a part of a rubric, computed from recorded facts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from turngate.errors import ConfigError
from turngate.rewards.parts import Facts, Reward, Span, Verdict
from turngate.types import SUCCESS_SLACK


@dataclass(frozen=True, slots=True, kw_only=True)
class _FormulaArgument:
    """One piece of evidence that a formula needs: how it is read, and whether it may be missing or null."""

    adapter: TypeAdapter[Any]
    optional: bool
    nullable: bool


class Formula(Reward):
    """A verdict computed from evidence; a subclass sets ``type`` and its settings and writes ``grade``.

    Each argument of ``grade`` is the evidence of that name, read as its annotation says, so gold answers are evidence
    that the verifier records at the end. The last measurement counts; with ``per_turn`` that of each turn, or else that
    of the whole episode. An argument with a default may be missing; null means not measured, unless the annotation
    allows it. ``grade`` returns None where nothing can be measured.

    An environment that would rather not record gold answers can compute the verdict itself and record it under the name
    of the type ("token_f1"); then that counts, for an outcome beside the fact that it is ``decided_by``. Raises
    ValueError for evidence of another form.
    """

    grade: ClassVar[Callable[..., float | None]]
    yes_or_no: ClassVar[bool] = False
    """Whether the only verdicts are 0 and 1."""
    published: ClassVar[Span | None] = None
    """The range of the published form, ``faithful``, where it is wider than that of the default."""
    decided_by: ClassVar[str] = ""
    """Name of the argument that says whether the task is solved, true or 1; empty: the verdict says it."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The verdict itself, and what it is computed from."""
        return (self.type, *_arguments(type(self)))

    @property
    def sources(self) -> tuple[tuple[str, ...], ...]:
        """The verdict itself, and for an outcome what decides it; or the arguments without a default."""
        needed = (name for name, argument in _arguments(type(self)).items() if not argument.optional)
        decides = (self.decided_by,) if self.decided_by and self.kind == "outcome" else ()
        return (self.type, *decides), tuple(needed)

    @property
    def best(self) -> float | None:
        """The best verdict of the formula, also where ``high`` is set above it."""
        if self.attainable is not None or self.weight < 0 or super().best is None:
            return super().best
        wider = self.published is not None and getattr(self, "faithful", False)
        return self.published[1] if wider and self.published else float(type(self).model_fields["high"].default)

    def solved(self, facts: Facts, overall: float) -> bool | None:
        """Whether what decides is 1, where it is named; else as the verdict says."""
        if not self.decided_by:
            return super().solved(facts, overall)
        decided = facts.verdicts(self.decided_by)
        return bool(decided[-1][1] >= 1.0 - SUCCESS_SLACK) if decided else None

    @property
    def attainable(self) -> tuple[float, ...] | None:
        """0 and 1 for a yes or no."""
        return (0.0, 1.0) if self.levels is None and self.yes_or_no else self.levels

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError if verdicts would lie outside [low, high]."""
        super().model_post_init(context)
        if self.published is not None and getattr(self, "faithful", False):
            self._needs_range(*self.published)

    def _needs_range(self, low: float, high: float) -> None:
        if self.low > low or self.high < high:
            raise ConfigError(
                f"component '{self.name}' has low={self.low:g} and high={self.high:g}, but with these settings its "
                f"verdicts lie between {low:g} and {high:g}; set low and high so"
            )

    def verdicts(self, facts: Facts) -> list[Verdict]:
        """The recorded verdicts, or else one for every case in which all is measured."""
        recorded = facts.verdicts(self.type)
        if recorded:
            return recorded
        graded = [(turn, self.grade(**given)) for turn, given in self._cases(facts)]
        return [(turn, value) for turn, value in graded if value is not None]

    def _cases(self, facts: Facts) -> Iterator[tuple[int | None, Mapping[str, Any]]]:
        wanted = _arguments(type(self))
        if not self.per_turn:
            latest = {name: {None: fact.value} for name in wanted for fact in facts.by_name.get(name, ())}
            yield from self._case(facts, None, latest)
            return
        measured = {name: {fact.turn: fact.value for fact in facts.by_name.get(name, ())} for name in wanted}
        for turn in sorted({turn for values in measured.values() for turn in values if turn is not None}):
            yield from self._case(facts, turn, measured)

    def _case(
        self, facts: Facts, turn: int | None, measured: Mapping[str, Mapping[Any, Any]]
    ) -> Iterator[tuple[int | None, Mapping[str, Any]]]:
        given: dict[str, Any] = {}
        for name, argument in _arguments(type(self)).items():
            values = measured.get(name, {})
            place = turn if turn in values else None
            if place not in values:
                if argument.optional:
                    continue
                return
            if values[place] is None and not argument.nullable:
                return
            try:
                given[name] = argument.adapter.validate_python(values[place])
            except ValidationError as error:
                problem = error.errors()[0]["msg"]
                self._reject(facts, turn, f"cannot read evidence '{name}', {values[place]!r:.80}: {problem}")
        yield turn, given


@cache
def _arguments(formula: type[Formula]) -> Mapping[str, _FormulaArgument]:
    hints = get_type_hints(formula.grade)
    return {
        name: _FormulaArgument(
            adapter=TypeAdapter(hints[name]),
            optional=parameter.default is not inspect.Parameter.empty,
            nullable=type(None) in getattr(hints[name], "__args__", ()),
        )
        for name, parameter in inspect.signature(formula.grade).parameters.items()
        if name != "self"
    }
