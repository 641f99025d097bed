"""The parts of a shop's task, as models that are stored in ``Task.private``: the account, the goal, the plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from turngate.errors import ConfigError
from turngate.types import Task

Family: TypeAlias = Literal[
    "buy_named", "buy_described", "buy_several", "edit_address", "edit_cart", "order_cart", "return_line", "compare",
    "budget",
]  # fmt: skip
LEVEL_OF: Mapping[Family, int] = {
    "buy_named": 1,
    "buy_described": 1,
    "buy_several": 2,
    "edit_address": 2,
    "edit_cart": 2,
    "order_cart": 2,
    "return_line": 3,
    "compare": 3,
    "budget": 3,
}
"""Each family of tasks and its difficulty, 1 to 3."""
PRIVATE_KEY = "shop"


class ShopRecord(BaseModel):
    """A part of a task: it does not change, and an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# --- the account before the episode -----------------------------------------------------------------------------------


class Address(ShopRecord):
    """An address in an account, called by its label."""

    id: int
    label: str
    street: str
    postcode: str
    city: str


class CartLine(ShopRecord):
    """A variant of a product, so many times. In an order ``id`` is that of the line."""

    id: int = 0
    variant: int
    quantity: int


class ReturnRecord(ShopRecord):
    """So many of a line of an order were sent back."""

    order_line: int
    quantity: int
    reason: str
    requested_on: str


class PastOrder(ShopRecord):
    """An order of the past. ``placed_on``: as 2031-05-12."""

    id: int
    number: str
    placed_on: str
    status: Literal["placed", "shipped", "delivered"]
    address: int
    delivery: str
    payment: str
    lines: tuple[CartLine, ...]


class ShopAccount(ShopRecord):
    """A customer, with their orders, returns and cart so far."""

    id: int
    name: str
    email: str
    addresses: tuple[Address, ...]
    default_address: int
    orders: tuple[PastOrder, ...] = ()
    returns: tuple[ReturnRecord, ...] = ()
    cart: tuple[CartLine, ...] = ()


# --- wishes -----------------------------------------------------------------------------------------------------------


class Want(ShopRecord):
    """The conditions of an instruction on one product. A price is below ``below_cents``; ratings are tenths."""

    kind: str
    name: str = ""
    attributes: dict[str, str] = Field(default_factory=dict)
    options: dict[str, str] = Field(default_factory=dict)
    below_cents: int | None = None
    min_rating: int | None = None
    quantity: int = 1


class WantedLine(ShopRecord):
    """A line of an order: any one of ``variants``, ``quantity`` times."""

    variants: tuple[int, ...]
    quantity: int


class WantedOrder(ShopRecord):
    """One new order. None: any address of the account, any delivery, any payment is right."""

    lines: tuple[WantedLine, ...]
    address: int | None = None
    delivery: str | None = None
    payment: str | None = None


class WantedReturn(ShopRecord):
    """One new return."""

    order_line: int
    quantity: int
    reason: str


class End(ShopRecord):
    """A right end: what differs from the start, and nothing else does. ``cart``: what it holds then; None: as before.
    ``addresses``: those that read otherwise."""

    order: WantedOrder | None = None
    returns: WantedReturn | None = None
    addresses: tuple[Address, ...] = ()
    default_address: int | None = None
    cart: tuple[CartLine, ...] | None = None


class ShopGoal(ShopRecord):
    """The right ends; none: the task is impossible, and the agent must say so and change nothing. ``wants``: what the
    instruction says of each line of the order, for partial credit."""

    ends: tuple[End, ...] = ()
    wants: tuple[Want, ...] = ()

    @property
    def possible(self) -> bool:
        """Whether there is a right end."""
        return bool(self.ends)


class PlanStep(ShopRecord):
    """One step of a plan, in the words of the page. ``role`` and ``name``: of the element in the accessibility tree.
    ``value``: the text to fill in, the option that is chosen by its text, or the answer."""

    kind: Literal["fill", "select", "click", "answer"]
    role: Literal["searchbox", "textbox", "spinbutton", "combobox", "radio", "button", "link", ""] = ""
    name: str = ""
    value: str = ""


class ShopTask(ShopRecord):
    """All that the shop and its verifier need for one task."""

    family: Family
    split: str
    catalogue: int
    products: int
    today: str
    session: str
    csrf: str
    account: ShopAccount
    other: ShopAccount
    goal: ShopGoal
    plan: tuple[PlanStep, ...] = ()

    def private(self) -> dict[str, object]:
        """As an entry of ``Task.private``: one text, because much that is in it, such as names, stands on pages."""
        return {PRIVATE_KEY: self.model_dump_json()}


def shop_task(task: Task) -> ShopTask:
    """The ``Task.private`` of a shop task. Raises ConfigError if it is no task of the shop."""
    if PRIVATE_KEY not in task.private:
        raise ConfigError(f"task '{task.id}' is no task of the shop: its private part has no '{PRIVATE_KEY}'")
    return ShopTask.model_validate_json(task.private[PRIVATE_KEY])
