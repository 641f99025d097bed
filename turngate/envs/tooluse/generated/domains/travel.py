"""The desk of an airline, as a domain: bookings that are cancelled, moved to other flights and given bags.

The state: ``travellers``, ``bookings``, ``flights``, ``session`` (who was verified, and whether a person took over).
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from turngate.envs.tool_env import ToolError
from turngate.envs.tooluse.engine.python_world import State, policy
from turngate.tools.tool import tool
from turngate.types import ToolCall

CANCEL_HOURS = 24
MOST_BAGS = 3
MOST_PEOPLE = 5
CHANGES = ("cancel_booking", "change_flight", "set_bags")


class Traveller(BaseModel):
    """Who has bookings."""

    model_config = ConfigDict(extra="forbid")
    name: str
    email: str
    passport: str


class Booking(BaseModel):
    """A booking. ``hours``: how long ago it was made; ``price``: the total price for all its people."""

    model_config = ConfigDict(extra="forbid")
    traveller: str
    flight: str
    people: int
    fare: Literal["light", "flex"]
    status: Literal["booked", "flown", "cancelled"] = "booked"
    hours: int
    bags: int = 0
    price: int


class Flight(BaseModel):
    """A flight. ``route`` as "Oslo-Rome"; ``price`` for each person; ``free``: seats that are not booked."""

    model_config = ConfigDict(extra="forbid")
    route: str
    day: int
    price: int
    free: int


ENTITIES = {"travellers": Traveller, "bookings": Booking, "flights": Flight}


@tool(read_only=True)
def find_traveller(email: str, state: State) -> str:
    """The id of a traveller.

    Args:
        email: the traveller's email address
    """
    for key, row in state["travellers"].items():
        if row["email"] == email.strip().lower():
            return str(key)
    raise ToolError("no traveller has this email address")


@tool
def verify(traveller: str, passport: str, state: State) -> str:
    """Verify who you talk with.

    Args:
        traveller: id of the traveller
        passport: the number of the passport that the traveller tells you
    """
    row = state["travellers"].get(traveller)
    if row is None or row["passport"] != passport.strip().upper():
        raise ToolError("this is not the traveller's passport")
    state["session"]["verified"] = traveller
    return "verified"


@tool(read_only=True)
def show_booking(booking: str, state: State) -> str:
    """What is booked, when, for how many people and at which fare.

    Args:
        booking: id of the booking
    """
    row = _booking(booking, state)
    flight = state["flights"][row["flight"]]
    return (
        f"{booking} {row['status']}: flight {row['flight']} {flight['route']} on day {flight['day']}, "
        f"{row['people']} people, {row['fare']} fare, {row['bags']} bags, paid {row['price']}, "
        f"booked {row['hours']} hours ago"
    )


@tool(read_only=True)
def find_flights(route: str, state: State) -> str:
    """The flights of a route.

    Args:
        route: from and to, such as Oslo-Rome
    """
    found = [
        f"{key} on day {row['day']}, {row['price']} each, {row['free']} seats"
        for key, row in state["flights"].items()
        if row["route"].lower() == route.strip().lower()
    ]
    return "; ".join(found) or "none"


@tool
def cancel_booking(booking: str, state: State) -> str:
    """Cancel a booking, and refund all that was paid.

    Args:
        booking: id of the booking
    """
    row = _booking(booking, state)
    if row["status"] == "cancelled":
        raise ToolError(f"{booking} is cancelled")
    row["status"] = "cancelled"
    state["flights"][row["flight"]]["free"] += row["people"]
    return f"cancelled, {row['price']} refunded"


@tool
def change_flight(booking: str, flight: str, state: State) -> str:
    """Move a booking to another flight of its route.

    Args:
        booking: id of the booking
        flight: id of the other flight
    """
    row, other = _booking(booking, state), state["flights"].get(flight)
    if other is None or other["route"] != state["flights"][row["flight"]]["route"]:
        raise ToolError("the booking's route has no such flight")
    if other["free"] < row["people"]:
        raise ToolError("too few seats")
    state["flights"][row["flight"]]["free"] += row["people"]
    other["free"] -= row["people"]
    row["flight"] = flight
    return f"changed to {flight} on day {other['day']}"


@tool
def set_bags(booking: str, bags: int, state: State) -> str:
    """Say how many bags a booking has.

    Args:
        booking: id of the booking
        bags: how many there are from now on, all together
    """
    _booking(booking, state)["bags"] = bags
    return f"{bags} bags"


@tool
def hand_over(state: State) -> str:
    """Hand the conversation over to a person."""
    state["session"]["handed_over"] = True
    return "handed over"


@policy
def verified_traveller(call: ToolCall, state: State) -> bool:
    """Show and change a booking only after its traveller was verified."""
    row = _named(call, state)
    return bool(row) and row["traveller"] != state["session"]["verified"]


@policy
def not_flown(call: ToolCall, state: State) -> bool:
    """Change nothing about a booking that was flown."""
    return call.name in CHANGES and _named(call, state).get("status") == "flown"


@policy
def cancel_time(call: ToolCall, state: State) -> bool:
    """Cancel a light fare only within 24 hours after it was booked."""
    row = _named(call, state)
    return call.name == "cancel_booking" and row.get("fare") == "light" and row["hours"] > CANCEL_HOURS


@policy
def flex_only(call: ToolCall, state: State) -> bool:
    """Change the flight of a flex fare only."""
    return call.name == "change_flight" and _named(call, state).get("fare") == "light"


@policy
def most_bags(call: ToolCall, state: State) -> bool:
    """A booking has at most 3 bags."""
    return call.name == "set_bags" and str(call.arguments.get("bags")) not in map(str, range(MOST_BAGS + 1))


@policy
def large_group(call: ToolCall, state: State) -> bool:
    """Hand over who wants to change or cancel a booking for more than 5 people."""
    return call.name in CHANGES and bool(_named(call, state).get("people", 0) > MOST_PEOPLE)


def _booking(booking: str, state: dict[str, Any]) -> dict[str, Any]:
    if booking not in state["bookings"]:
        raise ToolError(f"no booking '{booking[:20]}'")
    found: dict[str, Any] = state["bookings"][booking]
    return found


def _named(call: ToolCall, state: dict[str, Any]) -> dict[str, Any]:
    """The booking that a call is about; empty if there is none."""
    found: dict[str, Any] = state["bookings"].get(str(call.arguments.get("booking")), {})
    return found
