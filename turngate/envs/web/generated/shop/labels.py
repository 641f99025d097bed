"""The words on the shop's pages that plans name too: labels of fields, names of buttons, how things are written."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

SEARCH, APPLY, ADD_TO_CART, TO_CHECKOUT = "Search", "Apply filters", "Add to cart", "Go to checkout"
NEXT_PAGE, PREVIOUS_PAGE = "Next page", "Previous page"
REVIEW, PLACE_ORDER = "Review order", "Place order"
CART, ACCOUNT = "Cart", "Account"
SAVE_ADDRESS, REQUEST_RETURN = "Save address", "Request return"
QUANTITY, REASON, SORT_BY, MIN_RATING = "Quantity", "Reason", "Sort by", "Minimum rating"
MIN_PRICE, MAX_PRICE, CATEGORY = "Minimum price", "Maximum price", "Category"
LABEL, STREET, POSTCODE, CITY = "Label", "Street", "Postcode", "City"
CHOOSE = "Choose"
"""Text of the first choice of a list, which means that nothing is chosen yet."""
ANY = "Any"

DELIVERIES: Mapping[str, tuple[str, int]] = {
    "standard": ("Standard delivery", 400),
    "express": ("Express delivery", 900),
    "pickup": ("Pickup at the store", 0),
}
"""Key → name and price in cents."""
PAYMENTS: Mapping[str, str] = {"card": "Card ending 4242", "invoice": "Invoice", "transfer": "Bank transfer"}
REASONS: Mapping[str, str] = {
    "damaged": "Arrived damaged",
    "size": "Wrong size",
    "described": "Not as described",
    "unneeded": "No longer needed",
}
SORTS: Mapping[str, str] = {
    "name": "Name",
    "price": "Price, low to high",
    "price_down": "Price, high to low",
    "rating": "Rating, high to low",
}
RETURN_DAYS = 30
"""So many days after the order a line can be sent back."""
_MONTHS = "January February March April May June July August September October November December".split()


def money(cents: int) -> str:
    """``1250`` as ``$12.50``."""
    return f"${cents // 100}.{cents % 100:02d}"


def stars(rating: int) -> str:
    """``42`` as ``4.2``."""
    return f"{rating // 10}.{rating % 10}"


def day(text: str) -> str:
    """``2031-05-12`` as ``12 May 2031``."""
    that = date.fromisoformat(text)
    return f"{that.day} {_MONTHS[that.month - 1]} {that.year}"


def line_name(name: str, options: Mapping[str, str]) -> str:
    """A product with its options, as in ``Fern Mill Shirt (blue, large)``."""
    return f"{name} ({', '.join(options.values())})" if options else name


def delivery_label(key: str) -> str:
    """The name of a radio button of the checkout, with the price."""
    name, cents = DELIVERIES[key]
    return f"{name} ({money(cents) if cents else 'free'})"


def address_text(street: str, postcode: str, city: str) -> str:
    """An address in one line."""
    return f"{street}, {postcode} {city}"


def address_label(label: str, street: str, postcode: str, city: str) -> str:
    """The name of a radio button of the checkout."""
    return f"{label}: {address_text(street, postcode, city)}"
