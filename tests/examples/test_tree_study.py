"""The tree study: its cost model, its turn values, what its runs share, and the whole command on few updates."""

import csv
from statistics import fmean

import numpy as np
import pytest

from examples.credit_study.settings import RIGHT
from examples.farming.report import marks
from examples.tree_study.__main__ import main, options
from examples.tree_study.report import Run, success_at
from examples.tree_study.settings import KINDS, LEAVES, chain_turns, config_of, tree_rpo_of_chains, updates_of
from examples.tree_study.values import LOCKS, chance_of, exact_values, turn_values
from tests.helpers import models
from tests.helpers.episodes_csv import rates_of_episodes
from turngate.envs.lock import KEYS, colours_of
from turngate.trainer.batch.table import tabulate
from turngate.trainer.credit.grpo import grpo


def test_trees_get_the_updates_that_sample_as_many_turns():
    """Three turns: 24 in chains, 6 + 6·2 = 18 in trees at random, 2 + 4 + 8 = 14 level by level."""
    assert [KINDS[kind].sampled(3) for kind in KINDS] == [24, 18, 14, 24]
    assert [updates_of("lock3", kind, 21) for kind in KINDS] == [21, 28, 36, 21]


def test_runs_differ_in_branching_credit_and_updates_only(tmp_path):
    configs = {kind: config_of("lock3", kind, 1, out=tmp_path, updates=7) for kind in KINDS}
    for kind, config in configs.items():
        same = {name: getattr(configs["chains"], name) for name in ("name", "branching", "credit", "train")}
        assert config.model_copy(update=same).model_dump() == configs["chains"].model_dump()
        assert config.train.group_size == LEAVES
        assert config.train.steps == updates_of("lock3", kind, 7)


def test_without_branches_tree_rpo_compares_first_turns():
    groups = [models.scored([models.trajectory([models.turn([n], [n])] * 2, name=str(n)) for n in range(3)], [0, 1, 0])]
    table = tabulate(groups)
    credit_N = tree_rpo_of_chains(table)
    np.testing.assert_allclose(credit_N[::2], grpo(table, std=False)[::2])
    assert not credit_N[1::2].any()


def test_values_by_forking_are_those_of_all_sequences():
    values = turn_values(30, seed=1)
    assert [one.turn for one in values] == [0, 1, 2]
    assert max(one.errors_off for one in values) < 3
    assert all(one.error > 0 for one in values)


def test_the_exact_value_of_a_lock_is_known():
    """1 if all keys are right, and 0.1 for the share of right ones."""
    task = LOCKS.task("train", 0)
    right = [RIGHT[colour] for colour in colours_of(task)]
    first = next(value for state, value in exact_values(task).items() if state == colours_of(task)[0])
    assert first == pytest.approx(np.prod(right) + 0.1 * fmean(right), abs=1e-6)
    assert sum(chance_of(key, "red") for key in KEYS) == pytest.approx(1)


def test_success_is_compared_where_equally_many_tokens_were_sampled():
    run = Run("lock3", "chains", 0, [0.1, 0.2, 0.9], [100, 100, 100], [3, 3, 3], [48, 48, 48], {}, 16, 1.0)
    assert success_at(run, 200) == pytest.approx(0.15)
    assert success_at(run, 300) == pytest.approx(0.4)
    assert (run.saved, run.saved_by_model) == (0.0, 0.0)
    assert chain_turns(3) == 24


@pytest.mark.parametrize("wrong", [["--seeds", "0"], ["--locks", "1"], ["--kinds", "bushes"], ["--envs", "chess"]])
def test_options_that_make_no_sense_are_refused(wrong, capsys):
    with pytest.raises(SystemExit):
        options(wrong)
    assert wrong[0] in capsys.readouterr().err


def test_the_command_trains_writes_and_does_not_repeat_itself(tmp_path, capsys):
    page, out = tmp_path / "branching.md", tmp_path / "runs"
    parts = [line for name in ("values", "lock3", "sql") for line in (*marks(name), "kept")]
    page.write_text("\n".join(parts) + "\n")
    command = ["--envs", "lock3", "--seeds", "1", "--updates", "2", "--locks", "4", "--jobs", "1"]
    command += ["--out", str(out), "--results", str(tmp_path)]
    main(command)
    with (tmp_path / "data" / "branching_lock3.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["kind"] for row in rows} == set(KINDS)
    steps = {
        kind: float(row["env_steps"]) for row in rows for kind in KINDS if row["kind"] == kind and row["update"] == "1"
    }
    assert steps["tree_rpo"] < steps["tree_grpo"] < steps["chains"] == steps["flat_rpo"]
    assert steps["tree_rpo"] / steps["chains"] == 14 / 24  # exactly as the cost model says
    assert rates_of_episodes(tmp_path / "data" / "branching_lock3_episodes.csv") == {
        (row["kind"], "0", "heldout", *row["evaluation"].split()): row["success"] for row in rows if row["evaluation"]
    }
    assert (tmp_path / "figures" / "branching_lock3.png").read_bytes().startswith(b"\x89PNG")
    text = page.read_text()
    assert text.count("kept\n") == 3
    assert f"\n| {KINDS['tree_rpo'].title} | 3 | " in text
    assert "\n| 2 | " in text
    main(command)
    assert capsys.readouterr().out.count("lock3 tree_rpo-0: ") == 2
