"""The yardsticks themselves, on numbers that can be checked by hand."""

import math

import numpy as np
import pytest

from benchmarks.credit_lab.draw import table
from benchmarks.credit_lab.estimators import BATCH, ESTIMATORS, Estimator
from benchmarks.credit_lab.learn import Curve, learn
from benchmarks.credit_lab.measure import bias_of, bound, cosine, cosine_by_size, credit, sample, samples_to
from benchmarks.credit_lab.paths import enumerate_paths
from benchmarks.credit_lab.processes import all_processes
from turngate.errors import UnknownName

PROCESSES = {process.name: process for process in all_processes()}


def test_the_bound_is_three_for_one_coordinate_and_grows_slowly():
    assert bound(1) == pytest.approx(3.0, abs=1e-9)
    assert bound(73) == pytest.approx(4.1256, abs=1e-3)


def test_bias_of_two_units():
    """Mean [2, 1], standard error [1, 1]; against [2, 0]: scale 1, bend sin(atan ½) = 1/√5."""
    bias = bias_of(np.array([[1.0, 2.0], [3.0, 0.0]]), np.array([2.0, 0.0]))
    np.testing.assert_allclose(bias.mean_X, [2, 1])
    np.testing.assert_allclose(bias.error_X, [1, 1])
    assert (bias.z, bias.scale, bias.bend_z) == pytest.approx((1.0, 1.0, 1.0))
    assert (bias.raw, bias.raw_error) == pytest.approx((0.5, math.sqrt(0.5)))
    assert bias.bend == pytest.approx(1 / math.sqrt(5))


def test_a_pure_scale_is_bias_but_no_bend():
    rng = np.random.default_rng(0)
    unit_UX = 0.5 * np.array([1.0, -2.0, 3.0]) + 0.01 * rng.normal(size=(1000, 3))
    bias = bias_of(unit_UX, np.array([1.0, -2.0, 3.0]))
    assert bias.z > 100
    assert bias.bend_z < 4
    assert bias.scale == pytest.approx(0.5, abs=0.01)


def test_no_signal_has_no_direction():
    bias = bias_of(np.zeros((5, 2)), np.array([1.0, 1.0]))
    assert math.isnan(bias.bend)
    assert (bias.raw, bias.scale) == (pytest.approx(1.0), 0.0)
    assert bias.z > 1e5


def test_cosines_and_the_sizes_that_they_need():
    np.testing.assert_allclose(
        cosine(np.array([[1.0, 0.0], [0.0, 0.0], [-2.0, 0.0]]), np.array([3.0, 0.0])), [1, 0, -1]
    )
    unit_UX = np.tile([[1.0, 1.0], [1.0, -1.0]], (16, 1))
    curve = cosine_by_size(unit_UX, np.array([1.0, 0.0]))
    assert curve == [(1, pytest.approx(math.sqrt(0.5))), (2, pytest.approx(1.0)), (4, pytest.approx(1.0))]
    assert samples_to(0.6, curve, 1.0) == 1.0
    middle = (math.sqrt(0.5) + 1) / 2
    assert samples_to(middle, curve, 1.0) == pytest.approx(math.sqrt(2))
    assert math.isnan(samples_to(0.9, [(1, 0.2), (2, 0.3)], 0.95))
    assert samples_to(0.9, [(1, 0.2), (2, 0.3)], 0.5) == math.inf


def test_batch_wide_estimators_see_one_batch_at_a_time():
    paths = enumerate_paths(PROCESSES["key-door"])
    drawn = sample(paths, np.zeros(paths.shape), trajectories=0, siblings=4, forked=False, seed=0)
    turns = table(drawn, ["tokens_N", "parent_B"])
    sizes = []

    class Spy(Estimator):
        def credit(self, part):
            sizes.append((part.n_trajectories, int(part.cohort_B.max()) + 1, part.measured["parent_B"].shape))
            return part.reward_N

    spy = Spy(label="spy", method="", unit=BATCH, whole_batch=True)
    np.testing.assert_array_equal(credit(spy, turns, BATCH * 4), turns.reward_N)
    assert sizes == [(BATCH * 4, BATCH, (BATCH * 4,))] * 10


def test_labels_are_unique_and_every_method_of_the_library_has_a_line():
    from tests.helpers.credit_rules import CREDITS

    labels = [one.label for one in ESTIMATORS]
    assert len(labels) == len(set(labels))
    functions = {one.method.rpartition(".")[2] for one in ESTIMATORS}
    functions |= NOT_HERE
    assert set(CREDITS) <= functions, "add one line to benchmarks/credit_lab/estimators.py for each new method"


NOT_HERE = {
    "bilevel_gae",  # needs values inside a turn; turns here are one choice
    *(
        "imitate",
        "awr",
        "a_lol",
        "rise",
        "bfs_prover",
        "top_scored",
    ),  # weights of imitation, which estimate no policy gradient
}


def test_an_unknown_method_is_named():
    with pytest.raises(UnknownName, match="rlooo"):
        Estimator(label="x", method="rloo.rlooo").credit(None)
    with pytest.raises(UnknownName, match="nowhere"):
        Estimator(label="x", method="nowhere.rloo").credit(None)


def test_learning_is_reproducible_and_indifferent_to_scale():
    paths = enumerate_paths(PROCESSES["stopping"])
    rloo, centred = (one for one in ESTIMATORS if one.label in ("rloo", "dr_grpo"))
    settings = {"updates": 20, "seeds": 3, "siblings": 8}
    first, again, scaled = (learn(one, paths, **settings).success_SU for one in (rloo, rloo, centred))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(first, scaled, atol=1e-5)
    assert first.shape == (3, 21)
    assert (first[:, 0] == 0.25).all()
    assert (first[:, -1] > 0.4).all()


def test_learning_with_a_seed_does_not_depend_on_the_number_of_seeds():
    paths = enumerate_paths(PROCESSES["tree"])
    (rloo,) = (one for one in ESTIMATORS if one.label == "rloo")
    few, many = (learn(rloo, paths, updates=5, seeds=seeds, siblings=4).success_SU for seeds in (1, 3))
    np.testing.assert_allclose(many[:1], few, atol=1e-12)


def test_the_interval_holds_the_mean_and_shrinks_to_it_for_equal_seeds():
    rng = np.random.default_rng(0)
    mean_U, low_U, high_U = Curve(process="p", estimator="e", success_SU=rng.normal(size=(6, 4))).interval()
    assert (low_U < mean_U).all()
    assert (mean_U < high_U).all()
    same = Curve(process="p", estimator="e", success_SU=np.ones((3, 2))).interval()
    np.testing.assert_allclose(same, 1.0)
