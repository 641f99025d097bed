"""What is dropped, that it is counted, and that the books balance."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import models
from turngate.config.run_config import parse
from turngate.errors import ConfigError, PartError
from turngate.trainer.filters.parts import FilterPart, keep, varied
from turngate.types import Guidance, RewardEvent, ScoredGroup, Task


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


def paid(name, totals, *, outcomes=None, help=None, **broken):
    """A group whose ledgers pay these totals. ``help``: kind and level of guidance of each sibling, None = unguided."""
    bare = group(name, totals, **broken)
    outcomes = totals if outcomes is None else outcomes
    scores = tuple(
        replace(
            score,
            outcome=outcome,
            ledger=(RewardEvent(name="o", kind="outcome", turn=None, value=total, weight=1.0),),
        )
        for score, total, outcome in zip(bare.scores, totals, outcomes, strict=True)
    )
    guided = tuple(
        one if given is None else replace(one, guidance=Guidance(kind=given[0], level=given[1], text="", source="task"))
        for one, given in zip(bare.trajectories, help or [None] * len(totals), strict=True)
    )
    return replace(bare, scores=scores, trajectories=guided)


def names(groups):
    return [[trajectory.id for trajectory in each.trajectories] for each in groups]


def dropped(drops):
    """Without the reasons that took nothing."""
    return {name.removeprefix("drop/"): count for name, count in drops.items() if count}


def test_good_groups_pass_unchanged_and_in_order():
    groups = [paid("a", [0, 1]), paid("b", [1, 0, 0])]
    kept, drops = keep(groups, {"varied": varied})
    assert [one is other for one, other in zip(kept, groups, strict=True)] == [True, True]
    assert drops == {
        "drop/unusable_trajectories": 0,
        "drop/unusable_groups": 0,
        "drop/lonely_trajectories": 0,
        "drop/lonely_groups": 0,
        "drop/empty_trajectories": 0,
        "drop/empty_groups": 0,
        "drop/not_varied_trajectories": 0,
        "drop/not_varied_groups": 0,
    }


def test_unusable_siblings_go_and_the_rest_keeps_its_scores():
    kept, drops = keep([group("a", [0, 1, 2, 3], unusable=[1])], {})
    assert names(kept) == [["a0", "a2", "a3"]]
    assert [float(score.reward_T[-1]) for score in kept[0].scores] == [0, 2, 3]
    assert dropped(drops) == {"unusable_trajectories": 1}


def test_an_episode_without_turns_stays_beside_siblings_that_had_one():
    help = [None, None, ("hint", 1), ("hint", 1)]
    groups = [group("a", [0, 1, 2], empty=[0]), paid("b", [0, 1, 0, 1], empty=[0, 1], help=help)]
    kept, drops = keep([*groups, group("c", [0, 1], empty=[0, 1])], {})
    assert names(kept) == [["a0", "a1", "a2"], ["b2", "b3"]]
    assert dropped(drops) == {"empty_trajectories": 4, "empty_groups": 1}


def test_what_a_filter_leaves_without_turns_goes_too():
    totals = {"small": lambda each: np.array([score.total < 2 for score in each.scores])}
    kept, drops = keep([paid("a", [0, 1, 2], empty=[0, 1])], totals)
    assert kept == []
    assert dropped(drops) == {"not_small_trajectories": 1, "empty_trajectories": 2, "empty_groups": 1}


def test_a_group_is_gone_for_the_reason_that_took_its_last_trajectories():
    groups = [group("a", [0, 1, 2], unusable=[0, 1]), group("b", [0, 1]), group("c", [0, 1], unusable=[0, 1])]
    kept, drops = keep(groups, {})
    assert names(kept) == [["b0", "b1"]]
    assert dropped(drops) == {
        "unusable_trajectories": 4,
        "unusable_groups": 1,
        "lonely_trajectories": 1,
        "lonely_groups": 1,
    }


def test_a_trajectory_that_is_alone_in_its_cohort_is_lonely():
    """One sibling was helped, and one in another way: nobody shares a baseline with them."""
    help = [None, ("hint", 1), None, ("prefix", 1), ("hint", 2), ("hint", 2)]
    kept, drops = keep([paid("a", [0, 1, 1, 0, 0, 1], help=help)], {})
    assert names(kept) == [["a0", "a2", "a4", "a5"]]
    assert dropped(drops) == {"lonely_trajectories": 2}


def test_the_first_filter_that_refuses_is_counted():
    filters = {"big": lambda each: len(each.scores) > 2, "never": lambda each: False}
    kept, drops = keep([group("a", [0, 1]), group("b", [0, 1, 2])], filters)
    assert kept == []
    assert dropped(drops) == {
        "not_big_trajectories": 2,
        "not_big_groups": 1,
        "not_never_trajectories": 3,
        "not_never_groups": 1,
    }


def test_a_filter_may_drop_single_trajectories_and_the_next_sees_the_rest():
    seen = []

    def look(each):
        seen.append([trajectory.id for trajectory in each.trajectories])
        return True

    best = {"good": lambda each: np.array([score.outcome > 0 for score in each.scores]), "look": look}
    kept, drops = keep([group("a", [0, 1, 2, 3]), group("b", [0, 0, 1])], best)
    assert names(kept) == [["a1", "a2", "a3"]]
    assert seen == [["a1", "a2", "a3"]]
    assert dropped(drops) == {"not_good_trajectories": 3, "lonely_trajectories": 1, "lonely_groups": 1}


@pytest.mark.parametrize(
    ("answer", "said"), [(np.array([True]), r"bool\[1\]"), (np.array([0, 1, 1]), r"int64\[3\]"), (None, r"object\[\]")]
)
def test_an_answer_of_another_form_is_refused(answer, said):
    with pytest.raises(PartError, match=rf"returned .*: {said} for a group of 3; it must return a bool, or bool\[3\]"):
        keep([group("a", [0, 1, 2])], {"odd": lambda each: answer})


def test_filters_see_usable_siblings_only():
    seen = []
    keep([group("a", [0, 1, 2], unusable=[2])], {"look": lambda each: bool(seen.append(len(each.scores)))})
    assert seen == [2]


@pytest.mark.parametrize(
    ("totals", "passes"),
    [([0, 0, 0], False), ([0, 1, 0], True), ([0.9] * 12, False), ([0.1 + 0.2, 0.3], False), ([1, 1 - 1e-3], True)],
)
def test_varied_means_that_siblings_were_paid_differently(totals, passes):
    assert varied(paid("a", totals)).tolist() == [passes] * len(totals)


def test_varied_judges_each_cohort():
    """The unguided all failed and the guided all succeeded: the group differs, no cohort does."""
    apart = paid("a", [0, 0, 1, 1], help=[None, None, ("hint", 1), ("hint", 1)])
    assert not varied(apart).any()
    mixed = paid("b", [0, 0, 1, 0], help=[None, None, ("hint", 1), ("hint", 1)])
    kept, drops = keep([apart, mixed], {"varied": varied})
    assert names(kept) == [["b2", "b3"]]
    assert dropped(drops) == {"not_varied_trajectories": 6, "not_varied_groups": 1}


def test_varied_by_outcome_does_not_see_what_process_pays():
    """A gated process bonus makes totals differ where every outcome is the same."""
    bonus = paid("a", [1.0, 1.3], outcomes=[1.0, 1.0])
    assert varied(bonus).all()
    assert not varied(bonus, by="outcome").any()
    even = paid("b", [1.0, 1.0], outcomes=[1.0, 0.7])
    assert not varied(even).any()
    kept, drops = keep([bonus, even], {"varied": partial(varied, by="outcome")})
    assert names(kept) == [["b0", "b1"]]
    assert dropped(drops) == {"not_varied_trajectories": 2, "not_varied_groups": 1}
    with pytest.raises(ConfigError, match="by is 'reward'; it must be 'total' or 'outcome'"):
        varied(bonus, by="reward")


HELP = st.sampled_from([None, None, ("hint", 1), ("hint", 2), ("prefix", 1)])
SIBLING = st.tuples(st.integers(0, 2), HELP, st.booleans(), st.booleans(), st.booleans())


@settings(max_examples=80)
@given(st.lists(st.lists(SIBLING, max_size=6), max_size=4))
def test_the_books_balance(groups):
    """Each sibling: total, guidance, whether it is unusable or without turns, and whether a filter wants it."""
    wanted = {f"{g}{i}": row[4] for g, rows in enumerate(groups) for i, row in enumerate(rows)}
    filters = {
        "wanted": lambda each: np.array([wanted[one.id] for one in each.trajectories]),
        "varied": partial(varied, by="outcome"),
        "small": lambda each: len(each.trajectories) < 5,
    }
    played = [
        paid(
            str(g),
            [row[0] for row in rows],
            help=[row[1] for row in rows],
            unusable=[i for i, row in enumerate(rows) if row[2]],
            empty=[i for i, row in enumerate(rows) if row[3]],
        )
        for g, rows in enumerate(groups)
    ]
    kept, drops = keep(played, filters)

    def counted(what):
        return sum(count for name, count in drops.items() if name.endswith(what))

    assert sum(map(len, groups)) == sum(len(each.trajectories) for each in kept) + counted("_trajectories")
    assert len(groups) == len(kept) + counted("_groups")
    for each in kept:
        cohorts = [one.cohort for one in each.trajectories]
        assert min(map(cohorts.count, cohorts)) > 1
        assert all(score.usable for score in each.scores)
        assert set(cohorts) == {one.cohort for one in each.trajectories if one.turns}
        assert varied(each, by="outcome").all()


# --- balanced: neither too easy nor too hard -------------------------------------------------------------------------


def won(name, successes, siblings, **more):
    return paid(name, [1.0] * successes + [0.0] * (siblings - successes), **more)


@pytest.mark.parametrize(
    ("table", "siblings", "stays"),
    [
        ({"low": 0.2, "high": 0.8}, 8, [2, 4]),
        ({}, 8, [2, 4]),
        ({}, 4, [1, 2, 3]),
        ({"high": 0.5}, 8, [2, 4]),
        ({"low": 0.125}, 8, [1, 2, 4]),
        ({"low": 0.0}, 4, [0, 1, 2, 3]),
    ],
)
def test_balanced_worked_numbers(table, siblings, stays):
    """B2: of the means 0, .125, .25, .5, .875 and 1 of eight, .25 and .5 stay."""
    counts = [0, 1, 2, 4, 7, 8] if siblings == 8 else range(5)
    groups = [won(str(count), count, siblings) for count in counts]
    kept, drops = keep(groups, {"balanced": FilterPart.load({"type": "balanced", **table})})
    assert [int(group.task.id) for group in kept] == stays
    assert drops["drop/not_balanced_groups"] == len(groups) - len(stays)


def test_balanced_judges_guided_and_unguided_siblings_apart():
    mixed = won("a", 4, 8, help=[("hint", 1)] * 4 + [None, None] * 2)
    assert keep([mixed], {"balanced": FilterPart.load("balanced")})[0] == []


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"low": 0.8, "high": 0.2}, r"train\.filters\[0\]: low 0\.8 is above high 0\.2, so no siblings would stay"),
        ({"low": 0, "high": 1}, r"train\.filters\[0\]: low = 0 and high = 1 have no effect"),
    ],
)
def test_a_band_without_effect_is_refused(table, said):
    with pytest.raises(ConfigError, match=said):
        parse({"model": "m", "train": {"filters": [{"type": "balanced", **table}]}})


# --- top_std: the groups that differ most -----------------------------------------------------------------------------


def test_top_std_worked_numbers():
    """D8: of the standard deviations .5, 0, .3 and .1 a quarter is one group, the first; of three groups still one."""
    groups = [paid(str(std), [0.5 - std, 0.5 + std]) for std in (0.5, 0.0, 0.3, 0.1)]
    top = FilterPart.load("top_std")
    assert names(keep(groups, {"top_std": top})[0]) == [["0.50", "0.51"]]
    assert names(keep(groups[1:], {"top_std": top})[0]) == [["0.30", "0.31"]]
    half = FilterPart.load({"type": "top_std", "share": 0.5})
    assert [group.task.id for group in keep(groups, {"top_std": half})[0]] == ["0.5", "0.3"]
    assert keep([], {"top_std": top})[0] == []


def test_top_std_counts_what_earlier_filters_left_and_cohorts_apart():
    one = paid("a", [0, 1, 0.4, 0.6], help=[None, None, ("hint", 1), ("hint", 1)])
    same = [paid(name, [1, 1]) for name in "bcdefg"]
    half = FilterPart.load({"type": "top_std", "share": 0.5})
    kept, drops = keep([*same, one], {"varied": varied, "top_std": half})
    assert names(kept) == [["a0", "a1"]]
    assert dropped(drops) == {"not_varied_trajectories": 12, "not_varied_groups": 6, "not_top_std_trajectories": 2}


@given(totals=st.lists(st.lists(st.sampled_from([0.0, 0.3, 1.0]), min_size=2, max_size=4), max_size=6))
def test_top_std_keeps_its_share_and_the_books_balance(totals):
    groups = [paid(str(number), one) for number, one in enumerate(totals)]
    kept, drops = keep(groups, {"top_std": FilterPart.load({"type": "top_std", "share": 0.5, "by": "outcome"})})
    assert len(kept) == (max(1, len(groups) // 2) if groups else 0)
    assert len(groups) == len(kept) + drops["drop/not_top_std_groups"]
    stds = {group.task.id: float(np.std(one)) for group, one in zip(groups, totals, strict=True)}
    stayed = {group.task.id for group in kept}
    assert all(stds[a] >= stds[b] for a in stayed for b in set(stds) - stayed)
