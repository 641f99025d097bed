"""``CreditRule``: a credit function with its settings, as a config names it.

Every function of ``CREDITS`` and ``TOKEN_CREDITS`` is one under its name, and so is any function of yours under
``package.module:function``: from a ``TurnTable`` to float32[N] or a ``TokenCredit``, its settings keyword-only. A
function that reads a critic's values may say what the critic learns: ``function.value_targets = targets``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

from pydantic import ValidationError

from turngate.errors import ConfigError, ShapeError
from turngate.parts import Part
from turngate.problems import one_line
from turngate.trainer.credit import CREDITS, TOKEN_CREDITS, VALUE_TARGETS
from turngate.trainer.credit.per_token import token_targets
from turngate.trainer.credit.rehearsal import rehearse
from turngate.trainer.credit.turn_gae import value_targets
from turngate.types import FloatArray, TokenCredit, TurnTable

SIBLINGS = 64
"""Of the rehearsal where no config says how many there are: enough for any k that a rule may ask for."""


class CreditRule(Part):
    """From what was paid to one number per turn, or per token."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "credit rule"
    from_function: ClassVar[bool] = True

    def __call__(self, table: TurnTable) -> FloatArray | TokenCredit:
        """The credit of every turn of ``table``, or of every policy token, in order."""
        assert self.function is not None, f"credit rule '{self.type}' is a class without __call__"
        credit: FloatArray | TokenCredit = self.function(table, **self.settings())
        return credit

    def reads(
        self,
        offered: Iterable[str] = (),
        *,
        siblings: int = SIBLINGS,
        components: Iterable[str] | None = None,
        branching: bool = False,
    ) -> frozenset[str]:
        """The columns of ``TurnTable.measured`` that it reads when the ``offered`` ones are there beside the usual.

        ``components``: those of the rubric; None = not known yet. ``branching``: whether trajectories branch off
        others, so that columns about it say something. Raises ConfigError for settings that it refuses, and if it needs
        a column that nobody offers.
        """
        try:
            return rehearse(self, offered, siblings=siblings, components=components, branching=branching)
        except (ShapeError, TypeError) as error:
            raise ConfigError(f"credit '{self.type}' cannot be used here: {error}") from None

    @classmethod
    def named(cls, name: str, settings: Mapping[str, object]) -> CreditRule:
        """The rule of that name for recorded episodes. Raises UnknownName, ConfigError for settings it refuses."""
        found = cls.find(name)
        try:
            rule = found.model_validate({**settings, "type": name})
        except ValidationError as error:
            raise ConfigError(f"credit '{name}': {one_line(error, found, dict(settings))}") from None
        rule.reads(branching=True)  # recorded episodes may
        return rule

    @property
    def value_targets(self) -> Callable[..., FloatArray]:
        """What a critic of this rule learns, from the table: float32 per turn, or per token."""
        own = getattr(self.function, "value_targets", None) or VALUE_TARGETS.get(self.type)
        if own is None:
            own = token_targets if "value_S" in self.reads({*VALUES, "turn_S"}) else value_targets
        found: Callable[..., FloatArray] = own
        return found


VALUES = frozenset({"value_N", "value_S"})
"""What a critic says, before each turn or before each policy token."""

for _name, _function in {**CREDITS, **TOKEN_CREDITS}.items():
    CreditRule.of_function(_name, _function)
