"""The settings and the page of the code-repair example; the runs themselves take an hour."""

import csv

import pytest

from examples.code_repair.__main__ import KINDS, config_of, options
from examples.code_repair.report import MEASURES, PHASES, Run, kinds, smooth, tables, write_csv, write_figure
from turngate.errors import ConfigError
from turngate.run.environments import Environments


def run(kind, seed, before, after):
    values = {phase: dict.fromkeys(MEASURES, value) for phase, value in zip(PHASES, (before, after), strict=True)}
    results = {("heldout", how, phase): values[phase] for how in ("sampled", "greedy") for phase in PHASES}
    curves = {name: [before, (before + after) / 2, after] for name in ("success", "paid", "turns")}
    return Run(kind, seed, curves, results)


RUNS = [run("gated", 0, 0.5, 0.75), run("gated", 1, 0.5, 0.85), run("shuffled", 0, 0.5, 0.5)]


def test_kinds_differ_in_their_rewards_only(tmp_path):
    chosen = options(["--out", str(tmp_path), "--updates", "7"])
    configs = {kind: config_of(kind, 2, chosen) for kind in KINDS}
    assert [config.name for config in configs.values()] == ["gated-2", "direct-2", "shuffled-2"]
    for kind in ("direct", "shuffled"):
        same = {"name": "gated-2", "env": configs["gated"].env}
        assert configs[kind].model_copy(update=same) == configs["gated"]
    for kind, unsafe in (("gated", False), ("direct", True)):
        with Environments(configs[kind].env) as environments:
            assert bool(environments.unsafe) is unsafe
    (direct,) = configs["direct"].env
    with pytest.raises(ConfigError, match=r"is unsafe: .*; repair it, or set env\.allow_unsafe = true"):
        Environments((direct.model_copy(update={"allow_unsafe": False}),))


def test_numbers_below_one_are_refused(capsys):
    with pytest.raises(SystemExit):
        options(["--updates", "0"])
    assert "--seeds and --updates must be at least 1" in capsys.readouterr().err


def test_the_table_says_mean_interval_and_change():
    lines = tables(RUNS).splitlines()
    name = "episodes that pass all hidden tests (heldout, greedy)"
    # one degree of freedom: t = 12.706 times the standard error 0.05 is 0.64, which would leave [0, 1]
    assert f"| {name} | gated | 0.50 (every seed) | 0.80 [0.18, 0.99] | +0.30 [-0.33, +0.74] | 0.75, 0.85 |" in lines
    assert f"| {name} | shuffled | 0.50 | 0.50 | +0.00 | 0.50 |" in lines
    assert len(lines) == 2 + 2 * (len(MEASURES) + 1)


def test_files(tmp_path):
    write_csv(RUNS, tmp_path / "a.csv")
    with (tmp_path / "a.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(RUNS) * (4 * len(MEASURES) + 3 * 3)
    assert rows[0] == {
        "kind": "gated", "seed": "0", "split": "heldout", "sampling": "sampled", "phase": "before",
        "measure": "resolved", "value": "0.5",
    }  # fmt: skip
    write_figure(RUNS, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_order_and_smoothing():
    assert kinds(RUNS[::-1]) == ["gated", "shuffled"]
    assert smooth([1.0, 2.0, 3.0, 4.0], width=2) == [1.0, 1.5, 2.5, 3.5]
