"""The credit study: its numbers by hand, what its runs share, and the whole command on two updates."""

import csv
import shutil
from dataclasses import replace
from math import inf, sqrt
from pathlib import Path

import numpy as np
import pytest

from examples.credit_study.__main__ import main, options
from examples.credit_study.report import COLOURS, Run, differences, episodes_until, table
from examples.credit_study.settings import (
    CODE,
    ENVIRONMENTS,
    LOCK,
    LOCK_HEAVY,
    RIGHT,
    RULES,
    SQL,
    config_of,
    rules_in,
    shown_keys,
)
from examples.credit_study.signal import Signal, correlation, shared_states
from examples.credit_study.training import Wanted, train
from examples.farming.report import marks
from tests.helpers.episodes_csv import rates_of_episodes
from tests.trainer.credit.conftest import make_table
from turngate.envs.lock import LockTasks, colours_of, key_of
from turngate.errors import ConfigError
from turngate.report.intervals import wilson
from turngate.run.environments import Environments
from turngate.store.folder import RunFolder
from turngate.trainer.credit.capo import flagged_rewards


def run(rule, seed, after, curve=(0.0,) * 5, label="lock"):
    results = {
        (how, phase): rate for how in ("sampled", "greedy") for phase, rate in (("before", 0.0), ("after", after))
    }
    return Run(label, rule, seed, curve, results, 10, 1.0, Signal(0.5, 0.25))


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_episodes_until_a_threshold_is_held_by_five_updates():
    curve = [0.0, 0.9, 0.0, 0.0, 0.1, 0.5, 0.9, 1.0]
    # means of five: 0.2 after update 5, 0.3 after 6, 0.3 after 7, 0.5 after 8
    assert episodes_until(0.2, curve, 64) == 5 * 64
    assert episodes_until(0.25, curve, 64) == 6 * 64
    assert episodes_until(0.5, curve, 64) == 8 * 64
    assert episodes_until(0.6, curve, 64) == inf
    assert episodes_until(0.0, curve[:4], 64) == inf


def test_differences_are_between_runs_of_one_seed():
    runs = [run("rloo", 0, 0.25), run("rloo", 1, 0.5), run("capo", 1, 0.75), run("capo", 0, 0.375), run("capo", 2, 1.0)]
    assert differences(runs, "capo", "sampled") == [0.125, 0.25]


def test_the_table_gives_means_with_intervals_that_stay_in_range():
    late, early = (0.0,) * 5 + (1.0,) * 5, (1.0,) * 10
    runs = [run("rloo", seed, after, late) for seed, after in enumerate((0.1, 0.2, 0.3))]
    runs += [run("capo", seed, after, early) for seed, after in enumerate((0.2, 0.4, 0.6))]
    lines = table(runs).splitlines()
    # s = 0.1 and 0.2 with two degrees of freedom: Wilson's with t = 4.303 at 0.16/(0.01/3) = 48 and 0.24/(0.04/3) = 18
    bounds = (*wilson(10, 50, 4.303 * sqrt(50 / 48)), *wilson(4, 10, 4.303 * sqrt(10 / 18)))
    assert [f"{bound:.2f}" for bound in bounds] == ["0.06", "0.51", "0.10", "0.80"]
    assert lines[6] == (
        "| rloo | trajectory | 0.00 (every seed) | 0.20 [0.06, 0.51] |  | 0.20 [0.06, 0.51] | 0.50 (every seed) | "
        "80 (80, 80, 80) |"
    )
    assert lines[7] == (
        "| capo | turn, by verdict | 0.00 (every seed) | 0.40 [0.10, 0.80] | +0.20 [-0.05, +0.43] | "
        "0.40 [0.10, 0.80] | 1.00 (every seed) | 50 (50, 50, 50) |"
    )


def test_rules_with_the_same_weight_of_a_verdict_are_compared_seed_by_seed():
    rates = {"rloo": (0.5, 0.25), "rloo_heavy": (0.75, 0.5), "capo": (0.5, 0.75), "capo_light": (0.625, 0.75)}
    runs = [run(rule, seed, after) for rule, both in rates.items() for seed, after in enumerate(both)]
    lines = table(runs).splitlines()
    assert lines[-4].startswith("| capo less rloo_heavy | sampled | -0.25, +0.25 | +0.00 [")
    assert lines[-2].startswith("| capo_light less rloo | sampled | +0.12, +0.50 | +0.31 [")
    assert lines[-2].endswith(" | 0.500 |")  # two of the four choices of signs are as far from 0
    assert "weighs the same" not in table([one for one in runs if one.rule in ("rloo", "capo")])


def test_a_seed_of_which_a_rule_has_no_run_is_named():
    runs = [run("rloo", 0, 0.0), run("rloo", 1, 0.0), run("capo", 0, 0.0)]
    assert "There is no complete run of capo with seed 1.\n" in table(runs)
    assert "complete" not in table(runs[:2])


def test_a_threshold_that_most_seeds_miss_has_no_median():
    runs = [run("rloo", 0, 0.0, (1.0,) * 5), run("rloo", 1, 0.0), run("rloo", 2, 0.0)]
    assert "| never (50, never, never) |\n" in table(runs)


def test_the_signal_of_a_rule_without_recorded_credit_is_told():
    runs = [run("turn_gae", 0, 0.0)._replace(signal=Signal(None, 0.25)), run("rloo", 0, 0.0), run("shuffled", 0, 0.0)]
    assert table(runs).splitlines()[-2:] == ["| rloo | 0.50 | 0.25 |", "| turn_gae | not recorded | 0.25 |"]


def test_correlation_leaves_out_turns_without_a_verdict():
    credit, verdict = np.array([1.0, 2.0, 9.0, 6.0], np.float32), np.array([0.0, 1.0, np.nan, 1.0], np.float32)
    # deviations −2, −1, 3 and −2/3, 1/3, 1/3: their product is 2, over the root of 14 · 2/3
    assert correlation(credit, verdict) == pytest.approx(2 / sqrt(28 / 3))
    assert correlation(np.zeros(4, np.float32), verdict) is None
    assert correlation(credit[:1], verdict[:1]) is None


def test_shared_states_are_those_of_siblings():
    states = [[1, 2, 3], [1, 2, 4], [1, 5]]  # the last one is of another task
    assert shared_states(make_table(states, cohorts=[0, 0, 1], states=states)) == 4 / 8


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ENVIRONMENTS)
def test_runs_differ_in_their_rule_only(tmp_path, label):
    configs = {rule: config_of(label, rule, 1, out=tmp_path, updates=3) for rule in rules_in(label)}
    reference = configs["rloo"]
    assert reference.train.steps == 3
    for rule, config in configs.items():
        assert config.name == f"{rule}-1"
        assert config.credit.type == {"shuffled": "rloo", "rloo_heavy": "rloo", "capo_light": "capo"}.get(rule, rule)
        filters = reference.train.filters if rule != "turn_gae" else ()  # a critic has to see every state
        paid = config.env if rule == "rloo_heavy" else reference.env
        same = {"name": f"{rule}-1", "credit": config.credit, "value": config.value, "env": paid}
        train = reference.train.model_copy(update={"filters": filters})
        assert reference.model_copy(update={**same, "train": train}) == config


def worth_of_a_verdict(turns, **weights):
    """By how much credit moves with a verdict on one turn, in what it moves by with the outcome of the episode."""
    verdicts = [[1.0] * turns, [0.0] * turns]
    table = make_table(verdicts, process=verdicts, outcome=[0, 0])
    moved = [
        replace(table, process_N=table.process_N - np.eye(2 * turns, dtype=np.float32)[0]),
        replace(table, outcome_B=table.outcome_B + np.array([1, 0], np.float32)),
    ]
    reward = [flagged_rewards(one, one.outcome_B.astype(float), **weights)[0] for one in (table, *moved)]
    return (reward[0] - reward[1]) / (reward[2] - reward[0])


@pytest.mark.parametrize("label", ["lock", "lock3"])
def test_a_verdict_weighs_the_same_in_both_rules(tmp_path, label):
    """As it is paid to ``rloo`` by the rubric of each run, and as ``capo`` reads it with the settings of each run."""
    turns = {"lock": 12, "lock3": 3}[label]
    configs = {rule: config_of(label, rule, 0, out=tmp_path) for rule in ("rloo", "rloo_heavy", "capo", "capo_light")}
    weighs = {
        rule: worth_of_a_verdict(turns, w_outcome=credit.w_outcome, w_process=credit.w_process)
        for rule in ("capo", "capo_light")
        for credit in [configs[rule].credit]
    }
    paid = {}
    for rule in ("rloo", "rloo_heavy"):
        with Environments(configs[rule].env) as environments:
            (rubric,) = environments.rubrics.values()
            outcome, verdict = rubric.rewards
            paid[rule] = verdict.weight / turns / outcome.weight
    assert paid["rloo_heavy"] == pytest.approx(weighs["capo"]) == pytest.approx(0.5)
    assert paid["rloo"] == pytest.approx(weighs["capo_light"])
    if label == "lock":
        assert weighs["capo"] / paid["rloo"] == pytest.approx(60)


def test_equal_weight_is_refused_where_there_are_no_payments_for_it(tmp_path):
    with pytest.raises(ConfigError, match="'rloo_heavy' is not compared in code repair"):
        config_of("code", "rloo_heavy", 0, out=tmp_path)
    assert not LOCK_HEAVY.check().safe  # so its runs have to allow that


@pytest.mark.parametrize("rubric", [LOCK, SQL, CODE])
def test_what_turns_are_paid_never_outweighs_an_outcome(rubric):
    assert rubric.check().safe


def test_every_environment_can_be_paid_so(tmp_path):
    for label in ENVIRONMENTS:
        with Environments(config_of(label, "capo", 0, out=tmp_path).env) as environments:
            assert not environments.unsafe


def test_every_rule_has_a_colour():
    assert list(COLOURS) == list(RULES)


def test_demonstrations_are_wrong_as_often_as_they_say():
    tasks = [LockTasks(12).task("train", number) for number in range(300)]
    pairs = [pair for task in tasks for pair in zip(colours_of(task), shown_keys(task, 0), strict=True)]
    for colour, share in RIGHT.items():
        shown = [line == f"press {key_of(colour)}" for name, line in pairs if name == colour]
        assert sum(shown) / len(shown) == pytest.approx(share, abs=0.06)  # four standard errors of 900 draws
    assert shown_keys(tasks[0], 0) == shown_keys(tasks[0], 0) != shown_keys(tasks[0], 1)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--seeds", "0"], "--seeds is 0; choose 1 to 20"),
        (["--updates", "0"], "--updates and --jobs must be at least 1"),
        (["--jobs", "0"], "--updates and --jobs must be at least 1"),
        (["--envs", "chess"], "invalid choice: 'chess'"),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong, said, capsys):
    with pytest.raises(SystemExit):
        options(wrong)
    assert said in capsys.readouterr().err


# --- the whole command ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    """The folder in which the command was run, and its arguments."""
    folder = tmp_path_factory.mktemp("study")
    (begin, end), (other, _) = marks("lock3"), marks("sql")
    (folder / "credit_study.md").write_text(f"Title\n\n{other}\nkept\n{begin}\nold\n{end}\n\nAfterwards\n")
    command = ["--envs", "lock3", "--rules", "rloo", "turn_gae", "--seeds", "1", "--updates", "2", "--jobs", "1"]
    command += ["--out", str(folder / "runs"), "--results", str(folder)]
    main(command)
    return folder, command


def test_the_command_trains_writes_and_does_not_repeat_itself(studied, capsys):
    folder, command = studied
    page, out = folder / "credit_study.md", folder / "runs"
    (begin, _), (other, _) = marks("lock3"), marks("sql")
    with (folder / "data" / "credit_study_lock3.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {(row["rule"], row["split"], row["sampling"], row["phase"]) for row in rows} == {
        (rule, *place)
        for rule in ("rloo", "turn_gae")
        for place in [("train", "sampled", "1"), ("train", "sampled", "2")]
        + [("heldout", how, phase) for how in ("sampled", "greedy") for phase in ("before", "after")]
    }
    heldout = [row for row in rows if row["split"] == "heldout"]
    assert rates_of_episodes(folder / "data" / "credit_study_lock3_episodes.csv") == {
        (row["rule"], "0", "heldout", row["sampling"], row["phase"]): row["success"] for row in heldout
    }
    before = [row["success"] for row in rows if row["phase"] == "before" and row["sampling"] == "greedy"]
    assert before[0] == before[1]  # one model to begin with
    first = [row["success"] for row in rows if (row["split"], row["phase"]) == ("train", "1")]
    assert first[0] == first[1]  # the same tasks and the same samples
    assert (folder / "figures" / "credit_study_lock3.png").read_bytes().startswith(b"\x89PNG")
    text = page.read_text()
    assert text.startswith(f"Title\n\n{other}\nkept\n{begin}\n\n`python -m examples.credit_study --envs lock3")
    assert "\n| turn_gae | turn, by critic |" in text
    models = [RunFolder(out / "lock3" / name).model for name in ("start-0", "rloo-0", "turn_gae-0")]
    written = [model.stat().st_mtime_ns for model in models]
    capsys.readouterr()
    main(command)
    assert [model.stat().st_mtime_ns for model in models] == written
    assert capsys.readouterr().out.count("lock3 rloo-0: ") == 1


def test_a_run_that_is_stopped_is_told_and_left_out(studied, tmp_path, monkeypatch):
    def strict(*place, **fixed):
        config = config_of(*place, **fixed)
        return config.model_copy(update={"learner": config.learner.model_copy(update={"max_kl": 1e-9})})

    begun = Path("lock3", "start-0")
    shutil.copytree(studied[0] / "runs" / begun, tmp_path / begun)
    monkeypatch.setattr("examples.credit_study.training.config_of", strict)
    said = train(Wanted("lock3", "rloo", 0, tmp_path, 1))
    assert said.startswith("lock3 rloo-0 was stopped, and is left out: the updates of this step moved the policy by")
    assert not RunFolder(tmp_path / "lock3" / "rloo-0").is_complete
