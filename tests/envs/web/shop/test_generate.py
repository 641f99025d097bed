"""Tasks: the same everywhere, apart between the splits, and each with exactly the right ends that a search finds."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import pytest

from turngate.envs.tasks import TaskSourcePart
from turngate.envs.web.generated.shop.catalogue import LEAST, catalogue
from turngate.envs.web.generated.shop.generate import ShopTasks
from turngate.envs.web.generated.shop.goods import CATEGORIES
from turngate.envs.web.generated.shop.records import LEVEL_OF, Family, ShopTask, shop_task
from turngate.envs.web.generated.shop.shop_site import ShopSite
from turngate.envs.web.generated.shop.shop_source import ShopSource
from turngate.envs.web.generated.shop.wants import conditions, fits, n_conditions
from turngate.errors import ConfigError, UnknownName


def digest() -> str:
    """Of the first tasks, and of what their shops show and hold."""
    found = []
    for index in range(12):
        task = ShopTasks().task("heldout" if index % 2 else "train", index)
        found.append([task.id, task.prompt, dict(task.private), ShopSite(shop_task(task)).state()])
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def test_tasks_are_the_same_in_another_process_with_another_hash_seed() -> None:
    code = "from tests.envs.web.shop.test_generate import digest; print(digest())"
    env = {**os.environ, "PYTHONHASHSEED": "7"}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    assert run.stdout.strip() == digest()


def test_training_and_held_out_shops_share_no_product_customer_or_street() -> None:
    names: dict[str, set[str]] = {"train": set(), "heldout": set()}
    for split, found in names.items():
        for index in range(60):
            shop = shop_task(ShopTasks().task(split, index))
            goods = catalogue(split, shop.catalogue, shop.products)
            found |= {product.name for product in goods.products} | {shop.account.name, shop.other.name}
            found |= {one.street.partition(" ")[2] for one in (*shop.account.addresses, *shop.other.addresses)}
    assert not names["train"] & names["heldout"]
    assert min(map(len, names.values())) > 300


@pytest.mark.parametrize("family", LEVEL_OF)
@pytest.mark.parametrize("possible", [True, False])
def test_each_family_makes_different_tasks_in_several_wordings(family: Family, possible: bool) -> None:
    tasks = ShopTasks(families=(family,), impossible=0.0 if possible else 1.0)
    made = [tasks.task("train", index) for index in range(20)]
    assert len({task.prompt for task in made}) == len(made)
    assert len({" ".join(task.prompt.split()[:2]) for task in made}) > 1
    for task in made:
        shop = shop_task(task)
        assert shop.goal.possible is possible
        assert shop.family == family
        assert task == tasks.find(task.id)
        assert shop == ShopTask.model_validate_json(shop.model_dump_json())


@pytest.mark.parametrize("family", ["buy_named", "buy_described", "buy_several", "compare", "budget", "order_cart"])
def test_what_can_be_bought_is_exactly_what_the_instruction_fits(family: Family) -> None:
    """Counted here anew, variant by variant: every right line fits, and nothing else in stock does."""
    tasks = ShopTasks(families=(family,), impossible=0.0)
    for index in range(25):
        shop = shop_task(tasks.task("train", index))
        goods = catalogue(shop.split, shop.catalogue, shop.products)
        for place, want in enumerate(shop.goal.wants):
            right = {one for end in shop.goal.ends if end.order for one in end.order.lines[place].variants}
            fitting = {one.id for one in goods.variants if fits(want, one) and one.stock >= want.quantity}
            assert right <= fitting
            if family == "compare":
                prices = {one: goods.variant(one).product.price_cents for one in fitting}
                ratings = {one: goods.variant(one).product.rating for one in fitting}
                cheapest = {one for one in fitting if prices[one] == min(prices.values())}
                best = {one for one in fitting if ratings[one] == max(ratings.values())}
                assert right == (cheapest if want.min_rating is not None else best)
            elif family != "budget":
                assert right == fitting
            for variant in goods.variants:
                assert len(conditions(want, variant)) == n_conditions(want)


def test_a_budget_leaves_few_right_ends_of_many() -> None:
    tasks = ShopTasks(families=("budget",), impossible=0.0)
    counts = [len(shop_task(tasks.task("train", index)).goal.ends) for index in range(20)]
    assert max(counts) <= 8
    assert len(set(counts)) > 3


def test_settings_choose_families_and_have_names_of_their_own() -> None:
    part = TaskSourcePart.find("shop").model_validate({"type": "shop", "levels": [2], "products": 64, "seed": 1})
    assert isinstance(part, ShopSource)
    tasks = part.open()
    assert {LEVEL_OF[shop_task(tasks.task("train", index)).family] for index in range(12)} == {2}
    assert tasks.task("train", 0).id != ShopTasks().task("train", 0).id
    assert ShopTasks().task("train", 0).id == "shop/train/0"
    with pytest.raises(UnknownName):
        tasks.find("shop/train/0")
    with pytest.raises(UnknownName):
        tasks.task("test", 0)


def test_settings_that_make_no_sense_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="no family of \\['compare'\\] is of levels \\[1\\]"):
        ShopTasks(levels=(1,), families=("compare",))
    with pytest.raises(ConfigError, match="products is 3; a shop has 16 to 300 products"):
        ShopTasks(products=3)
    with pytest.raises(UnknownName, match="family"):
        ShopTasks(families=("steal",))  # type: ignore[arg-type]


@pytest.mark.parametrize("products", [LEAST, 300])
def test_small_and_large_shops_have_tasks_of_every_family(products: int) -> None:
    for family in LEVEL_OF:
        for impossible in (0.0, 1.0):
            ShopTasks(families=(family,), products=products, impossible=impossible).task("heldout", 0)


def test_no_word_of_a_kind_begins_like_another_one() -> None:
    """A search for a kind finds words that begin with it; so kinds must not be each other's beginnings."""
    kinds = [kind for category in CATEGORIES.values() for kind in category.kinds]
    assert not [(one, other) for one in kinds for other in kinds if one != other and other.startswith(one)]
