"""Instructions in English: products, conditions and what to do, each in several wordings that mean the same."""

from __future__ import annotations

from collections.abc import Sequence

from turngate.envs.seeded_random import SeededRandom
from turngate.envs.web.generated.shop import labels
from turngate.envs.web.generated.shop.catalogue import Variant
from turngate.envs.web.generated.shop.grading import IMPOSSIBLE
from turngate.envs.web.generated.shop.records import Want

DONE = "done"
ENDINGS = (
    f'Answer "{DONE}" when you are finished. If it is impossible, change nothing and answer "{IMPOSSIBLE}".',
    f'When everything is done, answer "{DONE}". Where that cannot be done, leave all as it is and answer '
    f'"{IMPOSSIBLE}".',
    f'End with the answer "{DONE}", or with "{IMPOSSIBLE}" if nothing in the shop allows it; then change nothing.',
)
_OPTIONS = {
    "Colour": ("in {}", "colour {}"),
    "Size": ("size {}", "in size {}"),
    "Pack": ("packing: {}", "sold as: {}"),
}
_PRICES = ("for less than {}", "below {}", "cheaper than {}")
_RATINGS = ("with a rating of at least {}", "rated {} or better")
_NUMBERS = {1: "one", 2: "two", 3: "three"}


def ending(rng: SeededRandom) -> str:
    """How the episode has to end."""
    return rng.pick(ENDINGS)


def number(count: int) -> str:
    """A small number as a word."""
    return _NUMBERS.get(count, str(count))


def plural(noun: str) -> str:
    """Several of it."""
    return f"{noun}es" if noun.endswith(("s", "sh", "ch", "x")) else f"{noun}s"


def a(noun: str) -> str:
    """The noun with its article."""
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def described(want: Want, *, several: bool = False) -> str:
    """The kind with its attributes, as in "striped cotton shirt"."""
    return " ".join([*want.attributes.values(), plural(want.kind) if several else want.kind])


def describe_want(rng: SeededRandom, want: Want, *, each: bool = True) -> str:
    """What to buy, with all that ``want`` says of it. ``each``: whether a price says that it is for one piece."""
    clauses = [rng.pick(_OPTIONS[name]).format(value) for name, value in want.options.items()]
    if want.min_rating is not None:
        clauses.append(rng.pick(_RATINGS).format(labels.stars(want.min_rating)))
    if want.below_cents is not None:
        price = rng.pick(_PRICES).format(labels.money(want.below_cents))
        clauses.append(f"{price} each" if want.quantity > 1 and each else price)
    if want.name:
        noun = f"the {want.name}" if want.quantity == 1 else f"{number(want.quantity)} of the {want.name}"
    elif want.quantity == 1:
        noun = a(described(want))
    else:
        noun = f"{number(want.quantity)} {described(want, several=True)}"
    return ", ".join([noun, *clauses])


def listed(parts: Sequence[str]) -> str:
    """Parts that may hold commas, one after another."""
    return "; ".join([*parts[:-1], f"and {parts[-1]}"]) if len(parts) > 1 else parts[0]


def line_of(variant: Variant) -> str:
    """A variant by its product's name and its options, as the shop writes it."""
    return labels.line_name(variant.product.name, variant.options)


def checkout_clauses(rng: SeededRandom, address: str, delivery: str | None, payment: str | None) -> str:
    """What the instruction says of the checkout, as further sentences. ``address``: its label; "" for none."""
    found = []
    if address:
        found.append(rng.pick(("Send it to the address {}.", "Use my address {}.", "It goes to {}.")).format(address))
    if delivery:
        name = labels.DELIVERIES[delivery][0]
        found.append(rng.pick(("Choose {}.", "I want {}.", "Delivery: {}.")).format(name))
    if payment:
        found.append(rng.pick(("Pay with: {}.", "Payment: {}.")).format(labels.PAYMENTS[payment]))
    return "".join(f" {sentence}" for sentence in found)
