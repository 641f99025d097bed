"""An episode's changes of the shop's database: rows against rows, and which of the changes a right end has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from turngate.envs.web.generated.shop.records import CartLine
from turngate.envs.web.generated.shop.shop_tables import DRAFTS, Contents, Row

Key: TypeAlias = tuple[str, int]
"""Table and id of a row."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row before and after; None where there was or is none."""

    before: Row | None
    after: Row | None

    @property
    def columns(self) -> frozenset[str]:
        """The columns that read otherwise; of a new or removed row all."""
        before, after = self.before or {}, self.after or {}
        return frozenset(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


@dataclass(slots=True)
class RowChanges:
    """The changes of an episode. Those that a right end has are taken out one by one; ``left`` are wrong."""

    start: Contents
    now: Contents
    user: int
    left: dict[Key, RowChange] = field(init=False)

    def __post_init__(self) -> None:
        self.left = differences(self.start, self.now)

    def new(self, table: str) -> dict[int, Row]:
        """The rows that ``table`` did not have before."""
        return {id_: row for id_, row in self.now[table].items() if id_ not in self.start[table]}

    def new_orders(self) -> dict[int, Row]:
        """The customer's orders of this episode."""
        return {id_: row for id_, row in self.new("orders").items() if row["user_id"] == self.user}

    def lines_of(self, order: int) -> list[Row]:
        """The lines of an order of this episode."""
        return [row for row in self.new("order_lines").values() if row["order_id"] == order]

    def cart(self, contents: Contents) -> dict[int, int]:
        """Variant → how many of it are in the customer's cart."""
        rows = (row for row in contents["cart_lines"].values() if row["user_id"] == self.user)
        return {int(row["variant_id"]): int(row["quantity"]) for row in rows}

    def allow(self, table: str, *ids: int) -> None:
        """These changes are the goal's."""
        for id_ in ids:
            self.left.pop((table, id_), None)

    def allow_cart(self) -> None:
        """The lines of the customer's cart are compared by their contents, not by their ids."""
        for (table, id_), change in [*self.left.items()]:
            rows = [row for row in (change.before, change.after) if row is not None]
            if table == "cart_lines" and all(row["user_id"] == self.user for row in rows):
                self.allow(table, id_)

    def allow_stock(self) -> None:
        """Stock that orders reduced follows from the orders, which are compared themselves."""
        sold: dict[int, int] = {}
        for row in self.new("order_lines").values():
            sold[int(row["variant_id"])] = sold.get(int(row["variant_id"]), 0) + int(row["quantity"])
        for variant, quantity in sold.items():
            change = self.left.get(("variants", variant))
            if change and change.before and change.after and change.columns == {"stock"}:
                before, after = int(change.before["stock"]), int(change.after["stock"])
                if before - quantity == after:
                    self.allow("variants", variant)


def differences(start: Contents, now: Contents) -> dict[Key, RowChange]:
    """Every row that is new, gone or reads otherwise, in any table; a draft of a checkout is no change."""
    found: dict[Key, RowChange] = {}
    for table in (start.keys() | now.keys()) - {DRAFTS}:
        before, after = start.get(table, {}), now.get(table, {})
        if before == after:
            continue
        for id_ in before.keys() | after.keys():
            if before.get(id_) != after.get(id_):
                found[table, id_] = RowChange(before.get(id_), after.get(id_))
    return found


def as_cart(lines: Sequence[CartLine]) -> Mapping[int, int]:
    """Variant → quantity of the lines of a cart."""
    return {line.variant: line.quantity for line in lines}
