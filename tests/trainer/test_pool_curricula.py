"""Curricula that choose from pools: the papers' numbers, what may teach them, and that a state restores everything."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import models
from turngate.errors import ConfigError, StoreError
from turngate.trainer.curriculum.base import CurriculumPart, Supply, TaskPool, pool_of
from turngate.trainer.curriculum.choosing import band_distance, draw_places
from turngate.trainer.curriculum.pass_rates import (
    PassRates,
    expected_draws,
    informative,
    learnability,
    successes,
    unaided,
)
from turngate.trainer.curriculum.predicted import Predictor, hashed_words, nearest_half, squared_error
from turngate.trainer.curriculum.skipping import controlled, ended_alike, skip_chance
from turngate.trainer.curriculum.source_bandit import absolute_advantages, bonus, source_weights
from turngate.types import Guidance, RewardEvent, ScoredGroup, Source, Task

ALL = ("learnability", "band", "dump", "greso", "pcl")
GUIDANCE = Guidance(kind="hint", level=1, text="red is a", source="env")


def pool(label, size, weight=1.0):
    def task(index):
        number = index % 3
        return Task(id=f"{label}/{index}", env_id=label, prompt=f"Do {'xyz'[number]}.", private={"level": number})

    return pool_of(label, weight, size, None, per_step=2, task=task)


def supply(*pools: TaskPool, per_step=4, seed=0, group_size=4):
    pools = pools or (pool("a", 12), pool("b", 9))
    return Supply(
        in_order=lambda number: [], pools=lambda most: pools, per_step=per_step, group_size=group_size, seed=seed
    )


def opened(kind, given=None, **more):
    own = {"by": "level"} if kind == "dump" else {}
    return CurriculumPart.load({"type": kind, **own, **more}).open(given or supply())


def result(task, outcomes, *, guidance=None, forced=False, parent=None, usable=True):
    marks = [Source.CONTEXT, Source.GUIDE if forced else Source.POLICY]
    trajectories = [models.trajectory([models.turn([1], [2], source=marks)], name=str(i)) for i in range(len(outcomes))]
    return ScoredGroup(
        task=task,
        trajectories=tuple(replace(one, task=task, guidance=guidance, parent=parent) for one in trajectories),
        scores=tuple(score(outcome, usable=usable) for outcome in outcomes),
    )


def score(outcome, *, usable):
    paid = RewardEvent(name="o", kind="outcome", turn=None, value=outcome, weight=1.0)
    return replace(models.score(1, outcome, usable=usable), ledger=(paid,))


def outcomes_of(task, step, siblings=4):
    """Made up: the harder kinds fail, the others succeed now and then."""
    rng = np.random.default_rng([step, int(task.id.partition("/")[2])])
    return [float(rng.random() < (0.0, 0.5, 1.0)[task.private["level"]]) for _ in range(siblings)]


def played(curriculum, steps):
    """The ids of the tasks of each step, whose results the curriculum is shown."""
    ids = []
    for step in steps:
        tasks = curriculum.pick(step)
        ids.append([task.id for task in tasks])
        curriculum.observe([result(task, outcomes_of(task, step)) for task in tasks])
    return ids


# --- the sheets' numbers ---------------------------------------------------------------------------------------------


def test_how_much_a_group_would_teach():
    """B0, B6 and the cost of refilling."""
    assert informative(0.1, 8) == pytest.approx(0.569533, abs=1e-6)
    assert informative(0.5, 8) == pytest.approx(0.992188, abs=1e-6)
    assert informative(0.05, 4) == pytest.approx(0.185488, abs=1e-6)
    assert informative(0.5, 4) == 0.875
    assert expected_draws(16, float(informative(0.1, 8))) == pytest.approx(28.093, abs=1e-3)
    assert expected_draws(512, 0.25) == 2048
    assert expected_draws(1, 0.0) == float("inf")
    assert learnability(np.array([0, 0.25, 0.5, 1])).tolist() == [0, 0.1875, 0.25, 0]


@given(p=st.floats(0, 1), siblings=st.integers(1, 9))
def test_the_chance_of_a_mixed_group_is_that_of_counting_them(p, siblings):
    chances = [p ** bin(row).count("1") * (1 - p) ** (siblings - bin(row).count("1")) for row in range(2**siblings)]
    assert informative(p, siblings) == pytest.approx(sum(chances[1:-1]), abs=1e-9)


def test_a_pass_rate_is_a_beta_mean_whose_evidence_fades():
    rates = PassRates(3, half_life=2.0)
    assert rates.means(9).tolist() == [0.5, 0.5, 0.5]
    rates.add(0, 1, won=3, lost=1)
    assert rates.means(1).tolist() == [4 / 6, 0.5, 0.5]
    assert rates.means(3)[0] == pytest.approx(2.5 / 4)  # two steps later it counts half
    rates.add(0, 3, won=0, lost=4)
    assert rates.means(3)[0] == pytest.approx((1 + 1.5) / (2 + 1.5 + 0.5 + 4))
    assert rates.seen_share == pytest.approx(1 / 3)


def test_dump_worked_numbers():
    n_D, learned_D, prior_D = np.array([100.0, 20.0]), np.array([0.5, 0.3]), np.ones(2)
    assert bonus(n_D) == pytest.approx([0.308166, 0.675827], abs=1e-6)
    assert source_weights(learned_D, n_D, prior_D, 0.1) == pytest.approx([0.157545, 0.842455], abs=1e-6)
    assert absolute_advantages(np.array([1.0, 0, 0, 0])) == pytest.approx([1.5, 0.5, 0.5, 0.5])
    assert absolute_advantages(np.array([0.3, 0.3])).tolist() == [0, 0]


@given(
    sources=st.lists(st.tuples(st.floats(0, 2), st.integers(1, 500), st.floats(0.1, 5)), min_size=2, max_size=6),
    constant=st.floats(-1, 1),
)
def test_source_weights_sum_to_one_and_a_constant_changes_nothing(sources, constant):
    learned_D, n_D, prior_D = (np.array(column, np.float64) for column in zip(*sources, strict=True))
    weight_D = source_weights(learned_D, n_D, prior_D, 0.1)
    assert weight_D.sum() == pytest.approx(1)
    assert source_weights(learned_D + constant, n_D, prior_D, 0.1) == pytest.approx(weight_D, abs=1e-9)
    n_D[-1] = 0
    assert bonus(n_D).argmax() == len(n_D) - 1


def test_pcl_worked_numbers():
    assert nearest_half(np.array([0.1, 0.45, 0.9, 0.62, 0.5]), 2).tolist() == [4, 1]
    assert squared_error(0.45, float(np.mean([1, 0, 1, 1]))) == pytest.approx(0.09)


def test_greso_worked_numbers():
    assert skip_chance(0.5, 3) == pytest.approx(0.875)
    assert skip_chance(0.9, 3) == pytest.approx(0.271)
    assert skip_chance(0.5, 20) == pytest.approx(0.99)
    assert controlled(0.5, 0.20, 0.25 * 2 / 3) == pytest.approx(0.49)
    assert controlled(0.5, 0.16, 0.25 * 2 / 3) == pytest.approx(0.51)
    assert (controlled(0.95, 0, 1), controlled(0.05, 1, 1)) == (0.95, 0.05)
    assert [ended_alike(o) for o in ([1, 1], [0, 0], [0, 1], [0.5, 0.5])] == ["easy", "hard", "", ""]


@given(base=st.floats(0.05, 0.95), streak=st.integers(0, 1000))
def test_no_task_is_lost_for_ever(base, streak):
    assert 0 <= skip_chance(base, streak) <= 0.99
    assert streak or skip_chance(base, 0) == 0


# --- drawing ---------------------------------------------------------------------------------------------------------


def test_drawing_follows_the_weights_without_repeating():
    rng = np.random.default_rng(0)
    log_weight = np.log(np.array([0.5, 0.3, 0.2, 1e-300]))
    firsts = Counter(int(draw_places(log_weight, 1, rng)[0]) for _ in range(4000))
    assert [firsts[place] / 4000 for place in range(3)] == pytest.approx([0.5, 0.3, 0.2], abs=0.03)
    assert sorted(draw_places(log_weight, 9, rng).tolist()) == [0, 1, 2, 3]


def test_the_distance_to_a_band():
    assert band_distance(np.array([0.1, 0.2, 0.5, 0.9]), 0.2, 0.8) == pytest.approx([0.1, 0, 0, 0.1])


def test_the_predictor_learns_what_words_say_of_tasks_it_has_not_seen():
    words = np.array([hashed_words("open the red box"), hashed_words("open the blue box")])
    predictor, half = Predictor(lr=5.0), np.array([0.5, 0.5])
    assert predictor.predict(np.array([0.5, 0.9]), words).tolist() == pytest.approx([0.5, 0.9])
    errors = [predictor.learn(half, words, np.array([0.0, 1.0])) for _ in range(60)]
    assert errors[-1] < errors[0] / 20
    unseen = np.array([hashed_words("a red door"), hashed_words("a blue door")])
    red, blue = predictor.predict(half, unseen)
    assert red < 0.4 < 0.6 < blue


def test_a_step_of_the_predictor_is_the_gradient_of_its_error():
    rng = np.random.default_rng(1)
    rate_P, found_P = rng.uniform(0.1, 0.9, 3), rng.uniform(0, 1, 3)
    words = np.array([hashed_words(text) for text in ("one two", "two three", "four")])
    predictor = Predictor(lr=1.0)
    start = predictor.weights = rng.normal(size=len(predictor.weights))
    predictor.weights = start.copy()
    predictor.learn(rate_P, words, found_P)
    step = start - predictor.weights
    for place in [*np.flatnonzero(np.abs(words).sum(0)), len(start) - 1]:
        errors = []
        for sign in (1, -1):
            moved = Predictor(lr=1.0)
            moved.weights = start + sign * 1e-5 * (np.arange(len(start)) == place)
            errors.append(squared_error(moved.predict(rate_P, words), found_P))
        assert step[place] == pytest.approx((errors[0] - errors[1]) / 2e-5, abs=1e-6)


# --- whole curricula -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
def test_a_step_has_different_tasks_in_shares_and_more_adds_to_it_until_none_is_left(kind):
    curriculum = opened(kind, supply(pool("a", 12, 3.0), pool("b", 9)))
    for step in range(1, 6):
        tasks = curriculum.pick(step)
        more = [curriculum.more(3), curriculum.more(100), curriculum.more(1)]
        everything = [task.id for some in (tasks, *more) for task in some]
        assert len(tasks) == 4
        assert len(more[0]) == 3
        assert len(everything) == len(set(everything)) == 21
        assert more[2] == []
        if kind != "dump":
            assert Counter(task.env_id for task in tasks) == {"a": 3, "b": 1}
        curriculum.observe([result(task, outcomes_of(task, step)) for task in tasks])


@settings(max_examples=20, deadline=None)
@given(kind=st.sampled_from(ALL), seed=st.integers(0, 3), cut=st.integers(0, 6))
def test_a_restored_curriculum_goes_on_bit_for_bit(kind, seed, cut, tmp_path_factory):
    path = tmp_path_factory.mktemp("state") / "curriculum.pt"
    whole, first, second = (opened(kind, supply(seed=seed)) for _ in range(3))
    assert whole.stateful
    expected = played(whole, range(1, 10))
    assert played(first, range(1, cut + 1)) == expected[:cut]
    first.save(path)
    second.load(path)
    assert played(second, range(cut + 1, 10)) == expected[cut:]
    assert second.metrics() == whole.metrics()
    assert second.state() == whole.state()


@pytest.mark.parametrize("kind", ALL)
def test_only_unaided_results_teach(kind):
    """Guided, forced and branched episodes, broken ones, and those of tasks that were not picked leave no trace."""
    curriculum = opened(kind)
    played(curriculum, range(1, 4))
    tasks = curriculum.pick(4)
    before = json.dumps(curriculum.state())
    aided = ({"guidance": GUIDANCE}, {"forced": True}, {"parent": ("t", 1)}, {"usable": False})
    curriculum.observe([result(task, [0, 0, 0, 1], **how) for task in tasks for how in aided])
    curriculum.observe([result(Task(id="other", env_id="a", prompt=""), [0, 1])])
    assert json.dumps(curriculum.state()) == before
    curriculum.observe([result(task, [0, 0, 0, 1]) for task in tasks])
    assert json.dumps(curriculum.state()) != before


@given(data=st.data())
def test_unaided_scores_are_those_of_episodes_without_help(data):
    """Mixed groups, and several groups of one task: what is found is what a loop over the parts finds."""
    task, groups, expected = Task(id="t", env_id="a", prompt=""), [], []
    for _ in range(data.draw(st.integers(0, 4))):
        helped, forced, branched, usable = (data.draw(st.booleans()) for _ in range(4))
        outcomes = data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=4))
        guidance, parent = GUIDANCE if helped else None, ("t", 0) if branched else None
        groups.append(result(task, outcomes, guidance=guidance, forced=forced, parent=parent, usable=usable))
        expected += outcomes if usable and not (helped or forced or branched) else []
    found = unaided(groups).get("t", [])
    assert [score.outcome for score in found] == expected
    assert successes(found) == sum(outcome == 1 for outcome in expected)


def picks(kind, steps=range(20, 80), **more):
    """How often each kind of task is played once the curriculum has seen some results."""
    curriculum = opened(kind, supply(pool("a", 30), pool("b", 30)), half_life=50.0, **more)
    played(curriculum, range(1, steps.start))
    found = Counter()
    for step in steps:
        tasks = curriculum.pick(step)
        found.update(task.private["level"] for task in tasks)
        curriculum.observe([result(task, outcomes_of(task, step)) for task in tasks])
    return [found[level] / found.total() for level in range(3)], curriculum


@pytest.mark.parametrize("kind", ALL)
def test_what_teaches_is_played_more_often(kind):
    """Kind 0 always fails, kind 2 always succeeds, kind 1 does so half of the time: a third of the tasks each."""
    (never, sometimes, always), curriculum = picks(kind, **{"temperature": 0.5} if kind == "dump" else {})
    assert sometimes > 0.4
    assert max(never, always) < 0.33
    metrics = curriculum.metrics()
    assert 0.3 < metrics["curriculum/pass_rate"] < 0.7
    assert metrics["curriculum/seen_share"] > 0.5
    assert metrics["curriculum/expected_groups"] == pytest.approx(4 / metrics["curriculum/informative_share"])


def test_every_curriculum_says_what_it_does():
    names = {kind: set(opened(kind).metrics()) - set(opened("learnability").metrics()) for kind in ALL}
    assert names["band"] == {"curriculum/in_band_share"}
    assert names["dump"] == {f"curriculum/weight/{env}:{level}" for env in "ab" for level in range(3)}
    assert names["greso"] == {"curriculum/skipped_share", "curriculum/p_easy", "curriculum/p_hard"}
    assert names["pcl"] == {"curriculum/prediction_error"}


def test_a_band_that_holds_too_few_tasks_is_widened_to_the_nearest():
    curriculum = opened("band", supply(pool("a", 6), per_step=4), low=0.45, high=0.55)
    tasks = [curriculum.task(place) for place in range(6)]
    curriculum.pick(1)
    curriculum.more(6)
    outcomes = ([0, 0, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1], [1, 0], [0, 1], [1, 1, 1, 1, 1, 1])
    curriculum.observe([result(task, one) for task, one in zip(tasks, outcomes, strict=True)])
    first = [task.id for task in curriculum.pick(1)]
    assert (set(first[:2]), first[2]) == ({"a/3", "a/4"}, "a/1")
    assert curriculum.metrics()["curriculum/in_band_share"] == pytest.approx(2 / 6)


def test_greso_gives_every_task_once_in_a_pass_where_nothing_is_skipped():
    curriculum = opened("greso", supply(pool("a", 12)))
    ids = [task.id for step in (1, 2, 3) for task in curriculum.pick(step)]
    assert sorted(ids) == sorted(f"a/{index}" for index in range(12))
    again = [task.id for step in (4, 5, 6) for task in curriculum.pick(step)]
    assert sorted(again) == sorted(ids)
    assert again != ids


# --- what has no effect ----------------------------------------------------------------------------------------------


def test_pools_that_leave_nothing_to_choose_are_refused():
    with pytest.raises(ConfigError, match=r"curriculum\.pool: the tasks of 'e' never end; say how many .* instance 64"):
        pool_of("e", 1.0, None, None, per_step=2, task=lambda index: None)
    with pytest.raises(ConfigError, match="'e' has 4 tasks to choose from, and a step plays up to 4 of them"):
        pool_of("e", 1.0, 4, None, per_step=4, task=lambda index: None)
    assert pool_of("e", 1.0, None, 9, per_step=4, task=lambda index: None).size == 9
    assert pool_of("e", 1.0, 7, 9, per_step=4, task=lambda index: None).size == 7


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"by": ""}, "'dump' has one source of tasks"),
        ({"by": "lvl"}, r"curriculum\.by: task 'a/0' has no 'lvl'; it has level"),
    ],
)
def test_dump_needs_sources(more, said):
    with pytest.raises(ConfigError, match=said):
        opened("dump", supply(pool("a", 12)), **more)


def test_dump_refuses_kinds_that_tell_nothing_apart():
    def one(index):
        return Task(id=str(index), env_id="a", prompt="", private={"same": 1, "list": [1]})

    given = supply(pool_of("a", 1.0, 9, None, per_step=2, task=one))
    with pytest.raises(ConfigError, match="all tasks have the same 'same'"):
        opened("dump", given, by="same")
    with pytest.raises(ConfigError, match=r"'list' of task '0' is \[1\], which is neither text nor a whole"):
        opened("dump", given, by="list")


@pytest.mark.parametrize("kind", ALL)
def test_the_state_of_other_tasks_is_refused(kind, tmp_path):
    opened(kind).save(tmp_path / "state")
    with pytest.raises(StoreError, match="tasks"):
        opened(kind, supply(pool("a", 12), pool("b", 12))).load(tmp_path / "state")
