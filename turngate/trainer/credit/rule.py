"""``CreditRule``: a credit function with its settings, as a config names it; ``rule`` makes a function one.

A rule takes a ``TurnTable``, returns float32[N] or a ``TokenCredit``, and has its settings as keyword-only arguments. A
function of yours is one under ``package.module:function``, with the decorator or without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, overload

import numpy as np
from pydantic import ValidationError

from turngate.errors import ConfigError, PartError, ShapeError
from turngate.part_calls import Unusable, check_result
from turngate.parts import Function, Part
from turngate.problems import one_line
from turngate.trainer.credit.dry_run import beyond_tabulated, columns_read, learns_from_one_tree
from turngate.trainer.credit.terms import CreditTerm
from turngate.types import FloatArray, TokenCredit, TurnTable

SIBLINGS = 64
"""Siblings in the dry run (see ``dry_run``) where no config gives a group size: enough for any k of a rule."""


class CreditRule(Part):
    """How payments become credit: one number for each turn, or for each token."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "credit rule"
    shipped_in: ClassVar[tuple[str, ...]] = ("turngate.trainer.credit",)
    from_function: ClassVar[bool] = True

    def __call__(self, table: TurnTable) -> FloatArray | TokenCredit:
        """The credit of every turn of ``table``, or of every policy token, in order."""
        assert self.function is not None, f"credit rule '{self.type}' is a class without __call__"
        return self._taken(self.function(table, **self.settings()), table.n_turns)

    def _taken(self, credit: object, n_turns: int) -> FloatArray | TokenCredit:
        """What the function returned; a list of numbers as an array. Raises PartError for anything else."""
        if isinstance(credit, TokenCredit):
            return credit

        def read(found: object) -> FloatArray:
            numbers = np.asarray(found, np.float32)
            if numbers.shape != (n_turns,):
                raise Unusable
            return numbers

        must = f"one number for each of the {n_turns} turns of the table, float32[N], or a TokenCredit"
        return check_result(self.noun, self.__call__, credit, take=read, must=must)

    @property
    def imitates(self) -> bool:
        """Whether an episode without siblings is learned from, because the rule imitates and does not compare."""
        return bool(getattr(self.function, "imitates", False))

    def terms(self, table: TurnTable) -> tuple[CreditTerm, ...]:
        """The terms whose sum is the credit of every turn; empty for a rule without ``terms``."""
        own = getattr(self.function, "terms", None)
        return () if own is None else tuple(own(table, **self.settings()))

    def reads(
        self,
        offered: Iterable[str] = (),
        *,
        siblings: int = SIBLINGS,
        components: Iterable[str] | None = None,
        branching: bool = False,
    ) -> frozenset[str]:
        """The columns of ``TurnTable.measured`` that the rule reads, found by a dry run.

        ``offered`` names the columns that the run can fill beside those that ``tabulate`` always fills; ``components``
        the reward components of the rubric (None = not known yet); ``branching`` says whether trajectories branch off
        others, without which the columns about branches are left out. Raises ConfigError for settings that the rule
        refuses, and if it needs a column that the run cannot fill.
        """
        try:
            found = columns_read(self, offered, siblings=siblings, components=components, branching=branching)
        except (PartError, ShapeError, TypeError) as error:
            raise ConfigError(f"credit '{self.type}' cannot be used here: {error}") from None
        if self.declared is not None and (more := beyond_tabulated(found) - set(self.declared)):
            raise ConfigError(
                f"credit '{self.type}' reads {', '.join(sorted(more))}, which its @rule does not name; add it to reads"
            )
        return found

    @property
    def declared(self) -> tuple[str, ...] | None:
        """The columns that it says it reads, by its decorator; None for a function without one."""
        found: tuple[str, ...] | None = getattr(self.function, "reads", None)
        return found

    def learns_from_one_tree(
        self, offered: Iterable[str] = (), *, siblings: int = SIBLINGS, components: Iterable[str] | None = None
    ) -> bool:
        """Whether a first turn that all siblings share gets any credit, found by a dry run; arguments as in ``reads``.

        A rule that compares siblings gives it none: no sibling acted differently.
        """
        return learns_from_one_tree(self, offered, siblings=siblings, components=components)

    @classmethod
    def named(cls, name: str, settings: Mapping[str, object], recorded: Iterable[str] = ()) -> CreditRule:
        """The rule of that name, to be used on recorded episodes.

        ``recorded`` names the columns that were recorded with them. Raises UnknownName for the name, ConfigError for
        settings that the rule refuses and for columns that are not recorded.
        """
        found = cls.find(name)
        try:
            rule = found.model_validate({**settings, "type": name})
        except ValidationError as error:
            raise ConfigError(f"credit '{name}': {one_line(error, found, dict(settings))}") from None
        rule.reads(recorded, branching=True)  # recorded episodes may branch
        return rule

    @property
    def value_targets(self) -> Callable[..., FloatArray]:
        """The function that gives the returns for a critic to learn: from the table to float32, per turn or per
        token. A rule that names none has those of ``turn_gae``, or of ``token_gae`` if it reads values of tokens."""
        part: type[CreditRule] = type(self)
        if not hasattr(part.function, "value_targets"):
            part = self.find("token_gae" if "value_S" in self.reads({*VALUES, "turn_S"}) else "turn_gae")
        found: Callable[..., FloatArray] = getattr(part.function, "value_targets")  # noqa: B009
        return found

    @classmethod
    def with_critic(cls) -> list[str]:
        """The names of the rules that say what a critic learns for them."""
        return [name for name, part in cls.catalogue().items() if hasattr(part.function, "value_targets")]


VALUES = frozenset({"value_N", "value_S"})
"""A critic's values, before each turn or before each policy token."""


Targets = Callable[..., FloatArray]
Terms = Callable[..., tuple[CreditTerm, ...]]


@overload
def rule(function: Function, /) -> Function: ...
@overload
def rule(
    *,
    reads: Sequence[str] = (),
    imitates: bool = False,
    value_targets: Targets | None = None,
    terms: Terms | None = None,
) -> Callable[[Function], Function]: ...
def rule(
    function: Function | None = None,
    /,
    *,
    reads: Sequence[str] = (),
    imitates: bool = False,
    value_targets: Targets | None = None,
    terms: Terms | None = None,
) -> Function | Callable[[Function], Function]:
    """Make a function a credit rule under its own name; the function itself is returned.

    * ``reads``: the columns of ``TurnTable.measured`` that it reads under some settings, beyond those that ``tabulate``
      fills: what training has to measure, or evidence to fill. A run refuses a rule that reads another one.
    * ``imitates``: it compares no siblings, so an episode without any is learned from; filters then leave it in.
    * ``value_targets``: a function of the table that gives what a critic learns.
    * ``terms``: a function of the same arguments that gives the terms whose sum the credit is.

    Raises DuplicateName for a name that another rule has.
    """

    def define(made: Function) -> Function:
        setattr(made, "reads", tuple(reads))  # noqa: B010
        for name, value in (("imitates", imitates or None), ("value_targets", value_targets), ("terms", terms)):
            if value is not None:
                setattr(made, name, value)
        return CreditRule.define(made)

    return define if function is None else define(function)
