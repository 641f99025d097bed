"""What the shop sells: kinds of products by category, their attributes, and the options that a buyer chooses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_MATERIALS = ("cotton", "wool", "linen", "bamboo")
_PATTERNS = ("plain", "striped", "checked")
_STYLES = ("classic", "modern", "rustic")
_FINISHES = ("matt", "polished", "brushed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Category:
    """Products that have the same attributes and options. ``attributes``: name → values, in the order in which English
    puts them before a noun."""

    kinds: tuple[str, ...]
    attributes: Mapping[str, tuple[str, ...]]
    options: tuple[str, ...]


CATEGORIES: Mapping[str, Category] = {
    "Kitchen": Category(
        kinds=("kettle", "mug", "bowl", "pan", "tray", "jug"),
        attributes={"Style": _STYLES, "Finish": _FINISHES, "Material": ("steel", "glass", "clay", "enamel")},
        options=("Colour",),
    ),
    "Home": Category(
        kinds=("blanket", "pillow", "towel", "rug", "curtain", "basket"),
        attributes={"Style": _STYLES, "Pattern": _PATTERNS, "Material": _MATERIALS},
        options=("Colour", "Size"),
    ),
    "Clothing": Category(
        kinds=("shirt", "jacket", "hat", "belt", "skirt", "jumper"),
        attributes={
            "Fit": ("slim", "regular", "loose"),
            "Pattern": _PATTERNS,
            "Material": ("cotton", "wool", "linen", "denim"),
        },
        options=("Colour", "Size"),
    ),
    "Office": Category(
        kinds=("notebook", "folder", "ruler", "clock", "lamp", "desk"),
        attributes={"Style": _STYLES, "Finish": _FINISHES, "Material": ("leather", "plastic", "metal", "cork")},
        options=("Pack",),
    ),
    "Garden": Category(
        kinds=("rake", "spade", "bucket", "bench", "lantern", "planter"),
        attributes={
            "Weight": ("light", "sturdy", "heavy"),
            "Finish": _FINISHES,
            "Material": ("steel", "bamboo", "zinc"),
        },
        options=("Size",),
    ),
}

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "Colour": ("black", "white", "red", "blue", "green", "grey"),
    "Size": ("small", "medium", "large", "extra large"),
    "Pack": ("single", "pack of 5", "pack of 10"),
}
CATEGORY_OF = {kind: name for name, category in CATEGORIES.items() for kind in category.kinds}
N_KINDS = len(CATEGORY_OF)
ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    name: tuple(dict.fromkeys(value for category in CATEGORIES.values() for value in category.attributes.get(name, ())))
    for name in ("Material", "Style", "Pattern", "Finish", "Fit", "Weight")
}
"""Every attribute → all its values in any category; the search page filters by these."""
