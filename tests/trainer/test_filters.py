"""What is dropped, and that it is counted."""

from dataclasses import replace

import models
import pytest

from turngate.trainer.filters import FILTERS, keep, varied
from turngate.types import RewardEvent, ScoredGroup, Task


def group(name, totals, *, unusable=(), empty=()):
    """Siblings with these totals; ``unusable`` and ``empty`` (no turns) are positions."""
    trajectories = tuple(
        models.trajectory([] if i in empty else [models.turn([1], [2])], name=f"{name}{i}", task=name)
        for i in range(len(totals))
    )
    scores = tuple(
        models.score(len(t.turns), total, usable=i not in unusable)
        for i, (t, total) in enumerate(zip(trajectories, totals, strict=True))
    )
    return ScoredGroup(task=Task(id=name, env_id="e", prompt=""), trajectories=trajectories, scores=scores)


def paid(name, totals):
    """A group whose ledgers pay these totals."""

    bare = group(name, totals)
    scores = tuple(
        replace(score, ledger=(RewardEvent(name="o", kind="outcome", turn=None, value=total, weight=1.0),))
        for score, total in zip(bare.scores, totals, strict=True)
    )
    return replace(bare, scores=scores)


def names(groups):
    return [[trajectory.id for trajectory in each.trajectories] for each in groups]


def test_good_groups_pass_unchanged_and_in_order():
    groups = [paid("a", [0, 1]), paid("b", [1, 0, 0])]
    kept, drops = keep(groups, FILTERS)
    assert names(kept) == [["a0", "a1"], ["b0", "b1", "b2"]]
    assert drops == {"drop/unusable_trajectories": 0, "drop/lonely_groups": 0, "drop/not_varied": 0}


def test_unusable_siblings_go_and_the_rest_keeps_its_scores():
    kept, drops = keep([group("a", [0, 1, 2, 3], unusable=[1])], {})
    assert names(kept) == [["a0", "a2", "a3"]]
    assert [float(score.reward_T[-1]) for score in kept[0].scores] == [0, 2, 3]
    assert drops == {"drop/unusable_trajectories": 1, "drop/lonely_groups": 0}


def test_an_episode_without_turns_goes_though_it_is_usable():
    kept, drops = keep([group("a", [0, 1, 2], empty=[0])], {})
    assert names(kept) == [["a1", "a2"]]
    assert drops["drop/unusable_trajectories"] == 1


@pytest.mark.parametrize("unusable", [[0, 1], [0, 1, 2]])
def test_a_group_with_fewer_than_two_left_goes(unusable):
    kept, drops = keep([group("a", [0, 1, 2], unusable=unusable), group("b", [0, 1])], {})
    assert names(kept) == [["b0", "b1"]]
    assert drops == {"drop/unusable_trajectories": len(unusable), "drop/lonely_groups": 1}


def test_the_first_filter_that_refuses_is_counted():
    filters = {"big": lambda each: len(each.scores) > 2, "never": lambda each: False}
    kept, drops = keep([group("a", [0, 1]), group("b", [0, 1, 2])], filters)
    assert kept == []
    assert drops == {"drop/unusable_trajectories": 0, "drop/lonely_groups": 0, "drop/not_big": 1, "drop/not_never": 1}


def test_filters_see_usable_siblings_only():
    seen = []
    keep([group("a", [0, 1, 2], unusable=[2])], {"look": lambda each: bool(seen.append(len(each.scores)))})
    assert seen == [2]


@pytest.mark.parametrize(
    ("totals", "passes"),
    [([0, 0, 0], False), ([0, 1, 0], True), ([0.9] * 12, False), ([0.1 + 0.2, 0.3], False), ([1, 1 - 1e-3], True)],
)
def test_varied_means_that_siblings_were_paid_differently(totals, passes):
    assert varied(paid("a", totals)) is passes
