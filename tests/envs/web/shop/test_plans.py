"""Every plan is carried out on the shop's own pages and reaches its goal, and hints tell more level by level."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.envs.web.shop.form_driver import Browser
from turngate.envs.leak import leaked_secret
from turngate.envs.web.generated.shop.generate import ShopTasks
from turngate.envs.web.generated.shop.grading import Grade
from turngate.envs.web.generated.shop.hints import LEVELS, shop_hint
from turngate.envs.web.generated.shop.records import LEVEL_OF, Family, ShopTask, shop_task
from turngate.envs.web.generated.shop.shop_site import ShopSite


def played(task: ShopTask) -> tuple[Grade, ShopSite]:
    """The grade after the plan."""
    site = ShopSite(task)
    browser = Browser(site)
    for step in task.plan:
        browser.do(step)
    return site.grade(browser.answered), site


@pytest.mark.parametrize("level", [1, 2, 3])
def test_300_plans_of_each_difficulty_reach_their_goal_and_change_nothing_else(level: int) -> None:
    tasks = ShopTasks(levels=(level,), impossible=0.2)
    possible = 0
    for index in range(300):
        task = tasks.task("heldout" if index % 3 == 0 else "train", index)
        shop = shop_task(task)
        grade, site = played(shop)
        assert grade.solved, (task.id, task.prompt, grade)
        assert (grade.share, grade.wrong, site.distance()) == (1.0, (), 0), (task.id, task.prompt)
        assert not grade.possible or all(page.status == 200 for page in site.seen), task.id
        possible += grade.possible
        site.close()
    assert 200 < possible < 280


@pytest.mark.parametrize("family", LEVEL_OF)
def test_the_distance_falls_step_by_step_to_zero(family: Family) -> None:
    tasks = ShopTasks(families=(family,), impossible=0.0)
    for index in range(4):
        shop = shop_task(tasks.task("train", index))
        site = ShopSite(shop)
        browser = Browser(site)
        distances = [site.distance()]
        for step in shop.plan:
            browser.do(step)
            distances.append(site.distance())
        assert distances == sorted(distances, reverse=True), distances
        assert distances[0] > distances[-1] == 0
        site.close()


@pytest.mark.parametrize("family", LEVEL_OF)
def test_a_plan_whose_last_change_is_left_out_does_not_reach_the_goal(family: Family) -> None:
    tasks = ShopTasks(families=(family,), impossible=0.0)
    for index in range(5):
        shop = shop_task(tasks.task("train", index))
        grade, site = played(shop.model_copy(update={"plan": (*shop.plan[:-2], shop.plan[-1])}))
        assert not grade.goal_reached
        assert grade.share < 1
        assert grade.frame_kept, grade
        site.close()


@pytest.mark.parametrize("family", LEVEL_OF)
@pytest.mark.parametrize("impossible", [0.0, 1.0])
def test_hints_tell_more_level_by_level_and_never_how_it_ends(family: Family, impossible: float) -> None:
    task = ShopTasks(families=(family,), impossible=impossible).task("train", 3)
    shop = shop_task(task)
    hints = [shop_hint(shop, level) for level in range(LEVELS + 2)]
    assert hints[0] is None
    assert hints[-1] is None
    texts = [text for text in hints if text]
    assert len(texts) == LEVELS
    for before, text in pairwise(texts):
        assert text.startswith(before)
        assert len(text) > len(before)
    first = shop.plan[0]
    assert first.name in texts[2]
    assert first.value in texts[1]
    assert not leaked_secret(texts[2], ["none", "done", "impossible"])
    assert shop_hint(shop, 3, done=1) != texts[2]
    assert shop_hint(shop, 1, done=len(shop.plan) - 1) is None
