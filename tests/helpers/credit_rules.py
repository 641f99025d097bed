"""The functions of the shipped credit rules by name: those per turn, those per token, and what critics learn."""

from typing import get_type_hints

from turngate.trainer.credit.rule import CreditRule
from turngate.types import TokenCredit

_FUNCTIONS = {
    name: part.function
    for name, part in CreditRule.catalogue().items()
    if part.function is not None and part.function.__module__.startswith("turngate.")
}
TOKEN_CREDITS = {name: one for name, one in _FUNCTIONS.items() if get_type_hints(one)["return"] is TokenCredit}
CREDITS = {name: one for name, one in _FUNCTIONS.items() if name not in TOKEN_CREDITS}
VALUE_TARGETS = {name: one.value_targets for name, one in _FUNCTIONS.items() if hasattr(one, "value_targets")}
