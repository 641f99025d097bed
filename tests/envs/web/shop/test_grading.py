"""WebShop's formula with its worked numbers, shares of goals, and evidence of the shop."""

from __future__ import annotations

import pytest

from tests.envs.web.shop.form_driver import Browser
from tests.envs.web.shop.test_cheats import a_task, line, order, other_choice
from turngate.envs.web.generated.shop.catalogue import catalogue
from turngate.envs.web.generated.shop.facts import EVIDENCE, OF_EPISODES, OF_TURNS, end_facts, turn_facts
from turngate.envs.web.generated.shop.grading import said_impossible
from turngate.envs.web.generated.shop.shop_site import Seen, ShopSite
from turngate.envs.web.generated.shop.wants import conditions
from turngate.envs.web.generated.shop.webshop import type_factor, webshop_reward


@pytest.mark.parametrize(
    ("r_type", "right", "wanted", "price_right", "reward"),
    [(1.0, 4, 4, True, 1.0), (1.0, 3, 4, True, 0.8), (0.5, 3, 4, True, 0.4), (1.0, 0, 4, True, 0.2),
     (1.0, 4, 4, False, 0.8), (1.0, 0, 0, True, 1.0), (1.0, 0, 0, False, 0.0), (0.0, 4, 4, True, 0.0),
     (0.1, 1, 1, True, 0.1)],
)  # fmt: skip
def test_webshop_reward(r_type: float, right: int, wanted: int, price_right: bool, reward: float) -> None:
    assert webshop_reward(r_type=r_type, right=right, wanted=wanted, price_right=price_right) == pytest.approx(reward)


@pytest.mark.parametrize(
    ("bought", "wanted", "same_type", "factor"),
    [("a", "a b c d", False, 1.0), ("a", "a b c d e", False, 0.5), ("a", "a b c d e", True, 1.0),
     ("a", "a b c d e f g h i j k", True, 0.1), ("x", "a b", True, 0.0), ("x", "", False, 0.5), ("x", "", True, 1.0)],
)  # fmt: skip
def test_type_factor(bought: str, wanted: str, same_type: bool, factor: float) -> None:
    assert type_factor(bought.split(), wanted.split(), same_type=same_type) == factor


def test_more_right_than_wanted_is_refused() -> None:
    with pytest.raises(ValueError, match="5 of 4"):
        webshop_reward(r_type=1.0, right=5, wanted=4, price_right=True)


def test_the_share_of_a_goal_counts_what_the_instruction_says() -> None:
    """By hand: there is an order (1), what is said of the product, and the exact line (1)."""
    shop = a_task("buy_named", True)
    (want,) = shop.goal.wants
    goods = catalogue(shop.split, shop.catalogue, shop.products)
    site = ShopSite(shop)
    assert site.grade("done").share == 0
    product, options = other_choice(shop, same_product=True)
    order(Browser(site), product, options)
    bought = next(
        one
        for one in goods.variants_of(goods.products[product - 1])
        if {f"option-{name.lower()}": value for name, value in one.options.items()} == options
    )
    held = conditions(want, bought)
    assert site.grade("done").share == pytest.approx((1 + sum(held)) / (1 + len(held) + 1))
    site.close()


def test_webshop_reward_of_an_episode_is_that_of_what_was_bought() -> None:
    shop = a_task("buy_named", True)
    for bought, least, most in ((line(shop), 1.0, 1.0), (other_choice(shop, same_product=True), 0.1, 0.99)):
        site = ShopSite(shop)
        assert site.grade("done").webshop == 0.0
        order(Browser(site), *bought)
        reward = site.grade("done").webshop
        assert reward is not None
        assert least <= reward <= most
        site.close()
    assert ShopSite(a_task("return_line", True)).grade("done").webshop is None


@pytest.mark.parametrize(
    ("answer", "said"),
    [("none", True), ("None.", True), (' "none" ', True), ("none of them", False), ("done", False), ("", False),
     (None, False)],
)  # fmt: skip
def test_who_says_that_a_task_is_impossible(answer: str | None, said: bool) -> None:
    assert said_impossible(answer) is said


def test_evidence_is_declared_and_follows_the_shop() -> None:
    seen = [Seen("cart", 422, "Sold out."), Seen("cart", 200)]
    facts = {fact.name: fact.value for fact in turn_facts(seen, frozenset({"home"}), 3)}
    assert facts == {"distance": 3, "page_kind": "cart", "new_page_kind": True, "form_error": "Sold out."}
    assert [fact.name for fact in turn_facts([], frozenset(), 0)] == ["distance"]
    assert facts.keys() == OF_TURNS.keys()
    site = ShopSite(a_task("buy_named", True))
    assert {fact.name for fact in end_facts(site.grade("none"))} == OF_EPISODES.keys()
    assert EVIDENCE.keys() == OF_TURNS.keys() | OF_EPISODES.keys()
