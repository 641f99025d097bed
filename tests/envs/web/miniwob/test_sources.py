"""Tasks of pages: which there are, and that training and held-out tasks are not the same problems."""

import json

import pytest

from turngate.envs.web.loaders.miniwob.few_problems import FEW
from turngate.envs.web.loaders.miniwob.known_pages import TWO_HALVES, all_pages
from turngate.envs.web.loaders.miniwob.oracles import ORACLES
from turngate.envs.web.loaders.miniwob.sources import ONE, PRIVATE_KEY, MiniwobSource
from turngate.errors import UnknownName


def page_seed_mode(task):
    return json.loads(task.private[PRIVATE_KEY])


def tasks_of(source: MiniwobSource):
    opened = source.open()
    return {split: [opened.task(split, i) for i in range(opened.size(split))] for split in opened.splits}


def test_a_task_is_a_page_and_a_seed():
    source = MiniwobSource(pages=("click-link",), seeds=3, held_out=0).open()
    task = source.find("miniwob/click-link/2")
    assert page_seed_mode(task) == ["click-link", 2, ""]
    assert (source.splits, source.size("train")) == (("train",), 3)


def test_all_pages_with_an_oracle_are_played_unless_some_are_named():
    tasks = tasks_of(MiniwobSource(seeds=10))
    assert {page_seed_mode(task)[0] for task in tasks["train"]} == set(ORACLES)
    assert len({task.id for split in tasks.values() for task in split}) == sum(map(len, tasks.values()))


def test_a_page_that_does_not_exist_is_named_with_the_nearest():
    with pytest.raises(UnknownName, match="click-test"):
        MiniwobSource(pages=("click-tets",)).open()


@pytest.mark.parametrize("held_out", [0, 2, 5])
def test_one_task_in_so_many_is_held_out(held_out):
    tasks = tasks_of(MiniwobSource(pages=("click-link", "email-inbox"), seeds=200, held_out=held_out))
    share = len(tasks.get("heldout", ())) / 400
    assert share == pytest.approx(1 / held_out if held_out else 0, abs=0.08)


@pytest.mark.parametrize("page", sorted(set(FEW) - ONE))
def test_a_page_with_few_problems_has_one_seed_for_each_and_holds_some_out(page):
    tasks = tasks_of(MiniwobSource(pages=(page,), seeds=500))
    assert sorted(page_seed_mode(task)[1] for split in tasks.values() for task in split) == sorted(FEW[page])
    assert set(tasks) == {"train", "heldout"}


@pytest.mark.parametrize("page", sorted(ONE))
def test_a_page_with_one_problem_has_both_splits_all_the_same(page):
    assert set(tasks_of(MiniwobSource(pages=(page,), seeds=50))) == {"train", "heldout"}


@pytest.mark.parametrize("page", sorted(TWO_HALVES))
def test_the_other_half_of_a_page_is_held_out(page):
    tasks = tasks_of(MiniwobSource(pages=(page,), seeds=30))
    assert {page_seed_mode(task)[2] for task in tasks["train"]} == {""}
    assert {page_seed_mode(task)[2] for task in tasks["heldout"]} == {"test"}


def test_what_is_known_of_the_problems_is_about_pages_that_exist():
    assert set(FEW) <= set(all_pages())
    assert all(seeds == tuple(sorted(set(seeds))) for seeds in FEW.values())
