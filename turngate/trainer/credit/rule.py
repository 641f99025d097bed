"""``CreditRule``: a credit function with its settings, as a config names it.

Every function of ``CREDITS`` and ``TOKEN_CREDITS`` is one under its name, and so is any function of yours under
``package.module:function``: it takes a ``TurnTable``, returns float32[N] or a ``TokenCredit``, and has its
settings as keyword-only arguments. A function that reads a critic's values may also say what the critic learns, by its
attribute ``value_targets``, a function of the table. One whose credit is a sum may say of what, by its attribute
``terms``, a function of the same arguments that returns ``CreditTerm`` objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

from pydantic import ValidationError

from turngate.errors import ConfigError, ShapeError
from turngate.parts import Part
from turngate.problems import one_line
from turngate.trainer.credit import CREDIT_TERMS, CREDITS, TOKEN_CREDITS, VALUE_TARGETS
from turngate.trainer.credit.dry_run import columns_read
from turngate.trainer.credit.per_token import token_targets
from turngate.trainer.credit.terms import CreditTerm
from turngate.trainer.credit.turn_gae import value_targets
from turngate.types import FloatArray, TokenCredit, TurnTable

SIBLINGS = 64
"""Siblings in the dry run (see ``dry_run``) where no config gives a group size: enough for any k of a rule."""


class CreditRule(Part):
    """How what was paid becomes credit: one number for each turn, or for each token."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "credit rule"
    from_function: ClassVar[bool] = True

    def __call__(self, table: TurnTable) -> FloatArray | TokenCredit:
        """The credit of every turn of ``table``, or of every policy token, in order."""
        assert self.function is not None, f"credit rule '{self.type}' is a class without __call__"
        credit: FloatArray | TokenCredit = self.function(table, **self.settings())
        return credit

    def terms(self, table: TurnTable) -> tuple[CreditTerm, ...]:
        """What the credit of every turn is the sum of; empty for a rule that does not say."""
        own = getattr(self.function, "terms", None) or CREDIT_TERMS.get(self.type)
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
            return columns_read(self, offered, siblings=siblings, components=components, branching=branching)
        except (ShapeError, TypeError) as error:
            raise ConfigError(f"credit '{self.type}' cannot be used here: {error}") from None

    @classmethod
    def named(cls, name: str, settings: Mapping[str, object]) -> CreditRule:
        """The rule of that name, to be used on recorded episodes.

        Raises UnknownName for the name, ConfigError for settings that the rule refuses.
        """
        found = cls.find(name)
        try:
            rule = found.model_validate({**settings, "type": name})
        except ValidationError as error:
            raise ConfigError(f"credit '{name}': {one_line(error, found, dict(settings))}") from None
        rule.reads(branching=True)  # recorded episodes may branch
        return rule

    @property
    def value_targets(self) -> Callable[..., FloatArray]:
        """The function that gives the returns for a critic to learn: from the table to float32, per turn or per
        token."""
        own = getattr(self.function, "value_targets", None) or VALUE_TARGETS.get(self.type)
        if own is None:
            own = token_targets if "value_S" in self.reads({*VALUES, "turn_S"}) else value_targets
        found: Callable[..., FloatArray] = own
        return found


VALUES = frozenset({"value_N", "value_S"})
"""What a critic says, before each turn or before each policy token."""

for _name, _function in {**CREDITS, **TOKEN_CREDITS}.items():
    CreditRule.of_function(_name, _function)
