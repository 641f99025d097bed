"""Which recorded episodes are replayed: the papers' worked numbers, and what each part promises of its plans."""

from collections import Counter

import numpy as np
import pytest

from turngate.trainer.offline.episode_index import Recorded
from turngate.trainer.offline.ratios import ratio_diagnostics
from turngate.trainer.offline.replays import (
    ExGrpo,
    Remix,
    ReplayFacts,
    ReplayPart,
    Repo,
    Rlep,
    bucket_weights,
    chosen_of,
    draw_tasks,
    n_replayed,
)
from turngate.trainer.offline.stored import grouped


def row(task: str, step: int, sibling: int = 0, paid: float = 0.0, version: int | None = None) -> Recorded:
    version = step - 1 if version is None else version
    return Recorded(store=0, phase="train", step=step, place=0, sibling=sibling, task=task, env="e", version=version,
                    paid=paid, success=paid >= 1)  # fmt: skip


def facts(rows, tasks=("a", "b"), group_size=4, seed=0, entropies=lambda rows: [0.0] * len(rows)) -> ReplayFacts:
    rng = np.random.default_rng(seed)
    return ReplayFacts(step=2, tasks=tasks, rows=rows, group_size=group_size, seed=seed, rng=rng, entropies=entropies)


def group(task: str, step: int, *paid: float) -> list[Recorded]:
    return [row(task, step, sibling, value) for sibling, value in enumerate(paid)]


def test_worked_numbers_of_repo():
    """Rewards [1, 0, 1, 0, 0], k = 2: highest takes both successes, max_variance one of each."""
    paid, rng = [1.0, 0.0, 1.0, 0.0, 0.0], np.random.default_rng(0)
    assert [paid[i] for i in chosen_of(paid, 2, "highest", rng)] == [1, 1]
    assert sorted(paid[i] for i in chosen_of(paid, 2, "max_variance", rng)) == [0, 1]
    assert chosen_of(paid, 2, "recent", rng) == [3, 4]
    assert len(set(chosen_of(paid, 3, "random", rng))) == 3


@pytest.mark.parametrize("seed", range(40))
def test_max_variance_is_that_of_all_subsets(seed):
    from itertools import combinations

    rng = np.random.default_rng(seed)
    paid, k = rng.integers(0, 4, 7).astype(float).tolist(), int(rng.integers(2, 7))
    chosen = [paid[i] for i in chosen_of(paid, k, "max_variance", rng)]
    best = max((round(float(np.var(some)), 12), sum(some)) for some in combinations(paid, k))
    assert (round(float(np.var(chosen)), 12), sum(chosen)) == best


def test_worked_numbers_of_exgrpo():
    expected = [0.004433, 0.054006, 0.242036, 0.399050, 0.242036, 0.054006, 0.004433]
    weights = np.array(bucket_weights(range(1, 8), 8))
    assert weights / weights.sum() == pytest.approx(expected, abs=1e-6)
    two = np.array(bucket_weights([1, 4], 8))
    assert two / two.sum() == pytest.approx([0.010987, 0.989013], abs=1e-6)
    n = 4000
    first = Counter(draw_tasks({1: ["x"], 4: ["y"]}, 1, siblings=8, rng=np.random.default_rng(i))[0] for i in range(n))
    assert first["x"] / n == pytest.approx(0.010987, abs=4 * np.sqrt(0.010987 / n))


def test_drawn_is_without_replacement_and_goes_on_in_other_buckets():
    found = draw_tasks({1: ["a"], 2: ["b", "c"]}, 9, siblings=4, rng=np.random.default_rng(0))
    assert sorted(found) == ["a", "b", "c"]


@pytest.mark.parametrize(("share", "n", "replayed"), [(0.4, 10, 4), (0.4, 2, 1), (0.9, 2, 1), (0.4, 1, 0)])
def test_share_of_a_step(share, n, replayed):
    assert n_replayed(share, n) == replayed


def test_remix_replays_its_share_of_groups_that_teach_something():
    rows = [one for step in (1, 2) for task in "pqrs" for one in group(task, step, 1, 0, 0, 1)]
    plan = Remix().plan(facts([*rows, *group("solved", 2, 1, 1, 1, 1)], tasks=list("abcdefghij")))
    assert (plan.n_tasks, len(plan.groups)) == (6, 4)
    assert all(len({(one.task, one.version) for one in some}) == 1 for some in plan.groups)
    assert "solved" not in {some[0].task for some in plan.groups}
    assert Remix().plan(facts([])).n_tasks == 2


def test_repo_begins_with_a_full_cache_and_forgets_the_oldest():
    old = [row("a", step, paid=9.0) for step in range(1, 5)]
    rows = [*old, *(row("a", step) for step in range(5, 20)), row("b", 1)]
    plan = Repo(k=3).plan(facts(rows))
    assert plan.n_tasks == 2
    assert [len(some) for some in plan.groups] == [3]
    assert sum(one.paid for one in plan.groups[0]) == 9.0  # one of the four is among the last 16
    assert not Repo().plan(facts(rows[:15])).groups
    assert not Repo().plan(facts(rows, tasks=["b"])).groups


def test_rlep_adds_successes_of_the_task():
    rows = [*group("a", 1, 1, 0, 1, 1), *group("b", 1, 0, 0, 0, 0), *group("c", 1, 1, 1, 1, 1)]
    plan = Rlep().plan(facts(rows))
    assert plan.joined.keys() == {"a"}
    assert [one.success for one in plan.joined["a"]] == [True, True]


def test_exgrpo_takes_partly_solved_tasks_and_their_surest_success():
    rows = [
        *group("solved", 1, 1, 0, 0, 1),
        *group("never", 1, 0, 0, 0, 0),
        *group("solved", 2, 1, 1, 1, 1),  # retired by its last step
        *group("some", 2, 0, 1, 1, 0),
        *group("a", 2, 0, 1, 1, 0),  # picked for this step anyhow
    ]
    surest = [one for one in rows if one.task == "some" and one.sibling == 2]
    plan = ExGrpo().plan(facts(rows, entropies=lambda rows: [3.0 - one.sibling for one in rows]))
    assert plan.again == {"some": surest[0]}
    assert plan.n_tasks == 1
    assert not ExGrpo(starts_above=0.9).plan(facts(rows)).again
    few = [*group("some", 1, 0, 1, 0, 0), *group("never", 1, 0, 0, 0, 0)]
    assert not ExGrpo().plan(facts(few)).again  # 1 of 8 solved, and it begins above 0.35


@pytest.mark.parametrize("part", [Remix(), Repo(cached=4, k=2, strategy="random"), Rlep(), ExGrpo()])
def test_a_plan_is_a_function_of_its_facts(part: ReplayPart):
    rows = [one for step in range(1, 5) for task in "abcdpq" for one in group(task, step, 1, 0, 0, 1)]
    assert part.plan(facts(rows, seed=3)) == part.plan(facts(list(rows), seed=3))


def test_groups_are_of_one_task_and_version_and_hold_each_episode_once():
    rows = [row("a", 1, sibling) for sibling in range(9)] + group("a", 2, 1, 0) + group("b", 1, 1)
    groups = list(grouped(rows, 4, seed=0))
    assert sorted(len(some) for some in groups) == [2, 3, 3, 3]
    flat = [one for some in groups for one in some]
    assert len(flat) == len(set(flat)) == 11  # the single episode of b is left out
    assert all(len({(one.task, one.version) for one in some}) == 1 for some in groups)


def test_worked_numbers_of_ratios():
    """ρ = [1.2, 0.9, 3, 1]."""
    rho = np.array([1.2, 0.9, 3.0, 1.0])
    found = ratio_diagnostics(np.log(rho))
    assert found["chi2"] == pytest.approx(np.mean(rho**2) - 1)
    assert found["ess_share"] == pytest.approx(rho.sum() ** 2 / (4 * (rho**2).sum()))
    assert found["k3_nats"] == pytest.approx(np.mean(rho - 1 - np.log(rho)))
    assert ratio_diagnostics(np.zeros(5)) == {"chi2": 0.0, "ess_share": pytest.approx(1.0), "k3_nats": 0.0}
    assert ratio_diagnostics(np.log([0.5, 1.0, 2.0]))["ess_share"] * 3 == pytest.approx(2.333333, abs=1e-6)
    assert ratio_diagnostics(np.zeros(0)) == {}
