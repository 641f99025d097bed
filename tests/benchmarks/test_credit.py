"""The benchmark of credit: its table suits every rule, and it says what missed a bar. No time is asserted."""

import math

import numpy as np
import pytest

from benchmarks.credit import BAR_TURNS, markdown, measure, missed, synthetic
from tests.helpers.credit_rules import CREDITS
from turngate.trainer.credit.cohorts import validate
from turngate.trainer.credit.tree import grow


def test_the_synthetic_table_is_sound_and_has_what_rules_look_for():
    table = synthetic(400, seed=1)
    validate(table)
    assert 400 <= table.n_turns < 420
    assert grow(table, "test").n_nodes < table.n_turns  # some turns are shared
    assert np.isnan(table.process_N).any()
    assert not table.open_N.all()
    assert 0 <= table.total_B.min() < table.total_B.max() <= 1
    assert not np.array_equal(synthetic(400, seed=2).reward_N[:50], table.reward_N[:50])


def test_every_rule_runs_on_it_and_every_rule_is_measured():
    tables = [synthetic(200), synthetic(400)]
    assert all(np.isfinite(rule(tables[0])).all() for rule in CREDITS.values())
    found = measure(list(CREDITS), tables, repeats=2)
    assert list(found) == list(CREDITS)
    for row in found.values():
        assert sorted(row["best_ms"]) == [table.n_turns for table in tables]
        assert all(0 < row["best_ms"][n] <= row["median_ms"][n] for n in row["best_ms"])
        assert math.isfinite(row["exponent"])
        assert row["bar_ms"] is None  # bars are for the full size


def row(best_ms=40.0, exponent=1.0, bar_ms=50.0):
    sizes = (BAR_TURNS // 2, BAR_TURNS)
    best = {sizes[0]: best_ms / 2, sizes[1]: best_ms}
    return {"best_ms": best, "median_ms": best, "exponent": exponent, "bar_ms": bar_ms}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ""),
        ({"best_ms": 50.5}, "too slow"),
        ({"exponent": 1.6}, "not linear"),
        ({"best_ms": 60.0, "exponent": 2.0}, "too slow and not linear"),
        ({"best_ms": 60.0, "bar_ms": None}, ""),
        ({"exponent": math.nan}, ""),  # one size only
    ],
)
def test_what_misses_its_bar_is_said(changes, expected):
    assert missed(row(**changes)) == expected


def test_the_table_has_the_slowest_rule_first():
    lines = markdown({"fast": row(best_ms=2.0), "slow": row(best_ms=60.0)}).splitlines()
    assert lines[0] == "| rule | 50,000 turns: best / median | 100,000 turns: best / median | exponent | bar |  |"
    assert lines[2] == "| slow | 30.0 / 30.0 ms | 60.0 / 60.0 ms | 1.00 | 50 ms | too slow |"
    assert lines[3].startswith("| fast | 1.0 / 1.0 ms | 2.0 / 2.0 ms |")
