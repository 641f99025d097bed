"""Which rules do not refuse a table that they ought to refuse."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from turngate.errors import ShapeError
from turngate.types import TurnTable


def not_refused(rules: Mapping[str, Callable[[TurnTable], Any]], table: TurnTable, match: str) -> list[str]:
    """Names of the rules that accept ``table``, or refuse it in words that do not match, and what came instead."""
    found = []
    for name, rule in rules.items():
        try:
            found.append(f"{name} gave {rule(table)}")
        except ShapeError as error:
            if not re.search(match, str(error)):
                found.append(f"{name} said: {error}")
    return found
