"""The service desk of a shop, as a domain: orders that are cancelled, returned and sent elsewhere.

The state: ``customers``, ``orders``, ``session`` (who was verified, and to whom the conversation was handed over).
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from turngate.envs.tool_env import ToolError
from turngate.envs.tooluse.engine.python_world import State, policy
from turngate.tools.tool import tool
from turngate.types import ToolCall

RETURN_DAYS = 30
LARGEST_REFUND = 400


class Customer(BaseModel):
    """A customer of the shop."""

    model_config = ConfigDict(extra="forbid")
    name: str
    email: str
    postcode: str


class Purchase(BaseModel):
    """A thing in an order. ``price`` in whole coins; ``sale``: it was sold at a reduced price."""

    model_config = ConfigDict(extra="forbid")
    price: int
    sale: bool = False
    returned: bool = False


class Order(BaseModel):
    """An order. ``days``: how long ago it was delivered; 0 where it was not."""

    model_config = ConfigDict(extra="forbid")
    customer: str
    status: Literal["pending", "shipped", "delivered", "cancelled"]
    address: str
    days: int = 0
    items: dict[str, Purchase]


ENTITIES = {"customers": Customer, "orders": Order}


@tool(read_only=True)
def find_customer(email: str, state: State) -> str:
    """The id of a customer.

    Args:
        email: the customer's email address
    """
    for key, row in state["customers"].items():
        if row["email"] == email.strip().lower():
            return str(key)
    raise ToolError("no customer has this email address")


@tool
def verify(customer: str, postcode: str, state: State) -> str:
    """Verify who you talk with.

    Args:
        customer: id of the customer
        postcode: the postcode that the customer tells you
    """
    row = state["customers"].get(customer)
    if row is None or row["postcode"] != postcode.strip():
        raise ToolError("this is not the customer's postcode")
    state["session"]["verified"] = customer
    return "verified"


@tool(read_only=True)
def show_order(order: str, state: State) -> str:
    """Status, address and items of an order.

    Args:
        order: id of the order
    """
    row = _order(order, state)
    age = f", {row['days']} days ago" if row["status"] == "delivered" else ""
    items = "; ".join(
        f"{name} {item['price']}{' on sale' if item['sale'] else ''}{' returned' if item['returned'] else ''}"
        for name, item in row["items"].items()
    )
    return f"{order} {row['status']}{age}, to {row['address']}: {items}"


@tool
def cancel_order(order: str, state: State) -> str:
    """Cancel an order.

    Args:
        order: id of the order
    """
    _order(order, state)["status"] = "cancelled"
    return "cancelled"


@tool
def change_address(order: str, address: str, state: State) -> str:
    """Send an order to another address.

    Args:
        order: id of the order
        address: the new address
    """
    _order(order, state)["address"] = address.strip()
    return "changed"


@tool
def return_item(order: str, item: str, state: State) -> str:
    """Take an item back, and refund its price.

    Args:
        order: id of the order
        item: the item, as show_order names it
    """
    found = _order(order, state)["items"].get(item.strip().lower())
    if found is None:
        raise ToolError(f"order {order} has no such item")
    found["returned"] = True
    return f"returned, {found['price']} refunded"


@tool
def hand_over(state: State) -> str:
    """Hand the conversation over to a person."""
    state["session"]["handed_over"] = True
    return "handed over"


@policy
def verified_customer(call: ToolCall, state: State) -> bool:
    """Show and change an order only after its customer was verified."""
    order = _named(call, state)
    return bool(order) and order["customer"] != state["session"]["verified"]


@policy
def only_pending(call: ToolCall, state: State) -> bool:
    """Cancel an order, or change its address, only while it is pending."""
    order = _named(call, state)
    return call.name in ("cancel_order", "change_address") and bool(order) and order["status"] != "pending"


@policy
def return_time(call: ToolCall, state: State) -> bool:
    """Take back only what was delivered, at most 30 days ago."""
    order = _named(call, state)
    return call.name == "return_item" and bool(order) and not (0 < order["days"] <= RETURN_DAYS)


@policy
def no_sale_returns(call: ToolCall, state: State) -> bool:
    """Never take back what was on sale."""
    return bool(_returned(call, state).get("sale"))


@policy
def large_refund(call: ToolCall, state: State) -> bool:
    """Hand over where a refund would be more than 400."""
    return bool(_returned(call, state).get("price", 0) > LARGEST_REFUND)


def _order(order: str, state: dict[str, Any]) -> dict[str, Any]:
    if order not in state["orders"]:
        raise ToolError(f"no order '{order[:20]}'")
    found: dict[str, Any] = state["orders"][order]
    return found


def _named(call: ToolCall, state: dict[str, Any]) -> dict[str, Any]:
    """The order that a call is about; empty if there is none."""
    found: dict[str, Any] = state["orders"].get(str(call.arguments.get("order")), {})
    return found


def _returned(call: ToolCall, state: dict[str, Any]) -> dict[str, Any]:
    """The item that a call takes back; empty if it takes none."""
    items = _named(call, state).get("items", {}) if call.name == "return_item" else {}
    found: dict[str, Any] = items.get(str(call.arguments.get("item")).strip().lower(), {})
    return found
