"""The data that a family of tasks starts from, and its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Literal, TypeAlias

from turngate.envs.seeded_random import SeededRandom
from turngate.envs.web.generated.shop.accounts import Accounts
from turngate.envs.web.generated.shop.catalogue import Product, ShopCatalogue
from turngate.envs.web.generated.shop.records import End, PlanStep, ShopAccount, ShopGoal, Want, WantedLine, WantedOrder
from turngate.envs.web.generated.shop.wants import matching

Choice: TypeAlias = Literal["any", "cheapest", "best_rated"]
MOST_ENDS = 8
"""Most right ends of a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopScene:
    """A shop with its customer, before there is a task. ``accounts`` makes more rows with ids of their own."""

    split: str
    number: int
    products: int
    rng: SeededRandom
    goods: ShopCatalogue
    today: str
    account: ShopAccount
    accounts: Accounts


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDraft:
    """A task in the making: the instruction, the goal, the steps to it, and the account at its start."""

    text: str
    goal: ShopGoal
    plan: tuple[PlanStep, ...]
    account: ShopAccount


Maker: TypeAlias = Callable[[ShopScene, bool], TaskDraft | None]
"""Makes a task, possible or not; None: this scene gives none, try another."""


def right_orders(
    goods: ShopCatalogue,
    wants: tuple[Want, ...],
    order: WantedOrder,
    *,
    choice: Choice = "any",
    budget: int | None = None,
) -> tuple[End, ...]:
    """Every end in which what ``wants`` say was ordered, by looking through the whole catalogue; the cheapest first.

    ``order``: its address, delivery and payment. ``choice``: which of the products that fit is wanted. ``budget``: the
    most that all lines may cost together, in cents.
    """
    options = [_chosen(_by_product(goods, want), choice) for want in wants]
    found = []
    for combination in product(*options):
        total = sum(one.price_cents * want.quantity for (one, _), want in zip(combination, wants, strict=True))
        if budget is None or total <= budget:
            lines = [WantedLine(variants=variants, quantity=want.quantity)
                     for (_, variants), want in zip(combination, wants, strict=True)]  # fmt: skip
            found.append((total, End(order=order.model_copy(update={"lines": tuple(lines)}), cart=())))
    return tuple(end for _, end in sorted(found, key=lambda pair: pair[0]))


def _by_product(goods: ShopCatalogue, want: Want) -> list[tuple[Product, tuple[int, ...]]]:
    """The products that fit, each with its variants that do."""
    found: dict[int, list[int]] = {}
    for variant in matching(goods, want):
        found.setdefault(variant.product.id, []).append(variant.id)
    return [(goods.products[id_ - 1], tuple(variants)) for id_, variants in found.items()]


def _chosen(
    fitting: list[tuple[Product, tuple[int, ...]]], choice: Choice
) -> list[tuple[Product, tuple[int, ...]]]:  # fmt: skip
    if not fitting or choice == "any":
        return fitting
    if choice == "cheapest":
        best = min(one.price_cents for one, _ in fitting)
        return [pair for pair in fitting if pair[0].price_cents == best]
    best = max(one.rating for one, _ in fitting)
    return [pair for pair in fitting if pair[0].rating == best]
