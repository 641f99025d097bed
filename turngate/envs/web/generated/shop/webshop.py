"""WebShop's partial reward for buying one product, as pure functions.

Source: Yao et al. 2022, "WebShop: Towards Scalable Real-World Web Interaction with Grounded Language Agents", §3, and
its released code (engine/goal.py).
"""

from __future__ import annotations

from collections.abc import Collection


def webshop_reward(*, r_type: float, right: int, wanted: int, price_right: bool) -> float:
    """``r = r_type · (attributes + options + price) / (n + 1)``.

    ``right``: how many of the ``wanted`` (n) attributes and options the bought product has. ``price_right``: whether it
    costs no more than was said, worth as much as one of them; of an instruction without a price it is right.
    ``r_type``: see ``type_factor``.

    Worked: all 4 right, price right, type 1 → 1; 3 of 4 and the price → 0.8, with type 0.5 → 0.4; none of 4 but the
    price → 0.2; without attributes and options the price alone decides: 1 or 0. Raises ValueError for ``right`` outside
    of 0 to ``wanted``.
    """
    if not 0 <= right <= wanted:
        raise ValueError(f"{right} of {wanted} attributes and options are right; it must be 0 to {wanted}")
    return r_type * (right + price_right) / (wanted + 1)


def type_factor(bought: Collection[str], wanted: Collection[str], *, same_type: bool) -> float:
    """How much a product is what was asked for: 1, 0.5, 0.1 or 0.

    With t = share of the ``wanted`` words of the title that stand in the ``bought`` one (0.2 if none is wanted): 0 if
    t = 0; else 0.1 if t < 0.1; else 1 if t > 0.2 or ``same_type`` (the same category or search); else 0.5.

    Worked: 1 of 4 words → 1; 1 of 5 words → 0.5, of the same type → 1; 1 of 11 words → 0.1; no word → 0.
    """
    words = set(wanted)
    share = len(words & set(bought)) / len(words) if words else 0.2
    if share == 0:
        return 0.0
    if share < 0.1:
        return 0.1
    return 1.0 if same_type or share > 0.2 else 0.5
