"""Every file in examples/recipes trains: its command, as a user gives it, for two steps.

A recipe that is added is run without a change here. What a recipe is there to show is looked up in the finished run
(``SHOWN``); what it needs from outside, a judge's server or a data set, is made for it (``NEEDS``).
"""

import re
import sys
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.chat_server import serving_prompts
from tests.helpers.command_line import turngate
from tests.helpers.recipes import (
    FOLDER,
    RECIPES,
    earned,
    facts,
    groups_of,
    helped,
    learned,
    scored,
    the_oracle_begins,
    unbalanced_groups_are_dropped,
)
from tests.helpers.spider_folder import spider_folder
from turngate.config.run_config import load
from turngate.report import summary
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics
from turngate.trainer.batch.table import tabulate
from turngate.trainer.credit.rloo import rloo
from turngate.trainer.evaluation.evaluations_file import read_evaluations
from turngate.trainer.filters.parts import keep

STEPS = 2


@pytest.fixture(autouse=True)
def in_the_folder(monkeypatch):
    """The command runs where the recipes lie; modules of theirs are forgotten afterwards."""
    monkeypatch.chdir(FOLDER)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    monkeypatch.setattr(summary, "_draw", lambda run: [])  # takes longer than the runs; tests/report looks at pictures
    yield
    for name in set(sys.modules) - before:
        if (FOLDER / f"{name}.py").exists():
            del sys.modules[name]


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_trains_and_shows_what_it_says(recipe, starts, tmp_path):
    name = recipe.removesuffix(".toml")
    run = RunFolder(tmp_path / load(Path(recipe)).name)
    with ExitStack() as stack:
        own = NEEDS[name](stack, tmp_path) if name in NEEDS else ()
        changes = [f"--folder={tmp_path}", f"--train.steps={STEPS}", *own]
        if load(Path(recipe)).stages:
            changes.append("--rounds=2")
        config = load(Path(recipe), changes)
        starts.lend(config)
        assert turngate("train", recipe, *changes) == 0
    starts.keep(config)
    by_run = [read_metrics(one.metrics) for one in run.stages or [run]]
    assert [[row["step"] for row in rows] for rows in by_run] == [list(range(1, STEPS + 1))] * len(by_run)
    assert run.is_complete
    rows = [row for rows in by_run for row in rows]
    assert all(row["train/unusable_share"] == 0 for row in rows)
    SHOWN.get(name, nothing_more)(run, rows)


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_begins_with_what_it_shows_and_its_command_in_three_lines(recipe):
    lines = (FOLDER / recipe).read_text().splitlines()
    assert all(line.startswith("# ") for line in lines[:3])
    assert re.search(rf"turngate train (examples/recipes/)?{re.escape(recipe)}$", lines[2])
    assert not lines[3].startswith("#")
    assert ("cd examples/recipes &&" in lines[2]) == any(name in "".join(lines) for name in beside_recipes())


def beside_recipes():
    """How a recipe names the modules and files that lie beside it."""
    return [f'"{path.stem}:' for path in FOLDER.glob("*.py")] + [f'"{path.name}"' for path in FOLDER.glob("*.jsonl")]


def test_nothing_else_lies_in_the_folder_and_every_name_here_is_a_recipe():
    used = "".join((FOLDER / recipe).read_text() for recipe in RECIPES)
    assert all(name in used for name in beside_recipes())
    assert {f"{name}.toml" for name in {*SHOWN, *NEEDS}} <= set(RECIPES)


# --- what recipes need -----------------------------------------------------------------------------------------------

THOUGHT = "This is the colour."


def a_corrector(stack, folder):
    """A server that finds every thought wrong."""
    script = {"right": False, "thought": THOUGHT}
    return [f"--auxiliary.corrector.url={stack.enter_context(serving_prompts(lambda prompt, n: script)).url}"]


def spider_options(stack, folder):
    return [f"--env.tasks.folder={spider_folder(folder)}", "--warm_start.episodes=8"]


NEEDS = {"corrected_thoughts": a_corrector, "spider": spider_options}


# --- what recipes show -----------------------------------------------------------------------------------------------


def nothing_more(run, rows):
    """It trained."""


def the_own_rule_gives_credit(run, rows):
    learned(run, rows)
    config = load(run.config)
    kept, _ = keep(groups_of(run), config.train.filters_by_name)
    table = tabulate(kept)
    follow_N = [sum(table.traj_N[at + 1 :] == own) for at, own in enumerate(table.traj_N)]
    np.testing.assert_allclose(config.credit(table), rloo(table) * 0.5 ** np.array(follow_N), rtol=1e-6)
    assert turngate("credit", run.path, "--method", "own_rules:late", "--settings", "{decay = 0.5}", "--step", 1) == 0


def the_own_reward_is_earned(run, rows):
    learned(run, rows)
    for trajectory, score in scored(run):
        keys = list(facts(trajectory, "right_key").values())
        longest = max(len(list(same)) if right else 0 for right, same in groupby(keys))
        assert earned(score, "streak") == [(None, longest / 3)]


def both_environments_are_played_and_told_apart(run, rows):
    learned(run, rows)
    for row in rows:
        assert {"env/all_keys/paid", "env/some_keys/paid"} <= set(row)
    for step in (1, 2):
        played = [group.task.env_id for group in Store(run.path).read(step, "train")]
        assert played == ["all_keys"] * 3 + ["some_keys"]
    for group in groups_of(run):
        own = {"all_keys": {"opened", "right_key"}, "some_keys": {"keys"}}[group.task.env_id]
        assert all({event.name for event in score.ledger} == own for score in group.scores)
    splits = [evaluation.split for phase, evaluation in read_evaluations(run.path) if phase == "after"]
    assert splits == ["all_keys:heldout"] * 2 + ["some_keys:heldout"] * 2


def tensorboard_has_the_numbers(run, rows):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    shown = EventAccumulator(str(run.tensorboard))
    shown.Reload()
    for name in ("train/paid", "train/turns", "canary/max_logprob_difference"):
        found = [(event.step, event.value) for event in shown.Scalars(name)]
        assert found == [(row["step"], pytest.approx(row[name])) for row in rows]  # TensorBoard keeps float32


def spider_is_played(run, rows):
    tasks = {group.task.id: group.task for group in groups_of(run)}
    assert len(tasks) == 4
    for name, task in tasks.items():
        assert re.fullmatch("spider/train/[0-7]", name)
        assert task.prompt == f"How many books cost more than {name[-1]}?"
    asked = {name for _, evaluation in read_evaluations(run.path) for name in evaluation.task_B}
    assert asked == {f"spider/dev/{number}" for number in range(4)}


def own_parts_take_part(run, rows):
    learned(run, rows)
    assert all("drop/not_own_parts:not_too_easy_groups" in row for row in rows)
    for group in groups_of(run):
        answers = [facts(trajectory, "answer")[None] for trajectory in group.trajectories]
        for trajectory, score, own in zip(group.trajectories, group.scores, answers, strict=True):
            share = None if own is None else sum(other != own for other in answers) / 3
            assert facts(trajectory, "rarity") == {None: share if share is None else pytest.approx(share)}
            assert earned(score, "rarity") == ([] if share is None else [(None, pytest.approx(share))])


def every_turn_is_probed(run, rows):
    learned(run, rows)
    assert all(row["examine/accuracy/failed"] == row["examine/accuracy/missing_share"] == 0 for row in rows)
    for trajectory, _ in scored(run):
        accuracy, confidence = facts(trajectory, "accuracy"), facts(trajectory, "confidence")
        assert list(accuracy) == list(confidence) == [0, 1, 2]
        assert all(value in (0, pytest.approx(1 / 3), pytest.approx(2 / 3), 1) for value in accuracy.values())
        assert all(0 <= value <= 1 for value in confidence.values())


def rare_tests_weigh_more(run, rows):
    for trajectory, score in scored(run):
        passed, weights = facts(trajectory, "fail_to_pass")[None], facts(trajectory, "test_score_weights")[None]
        assert set(weights) == set(passed)
        assert sum(weights.values()) == pytest.approx(1)
        paid = sum(weights[name] for name, ok in passed.items() if ok)
        assert earned(score, "test_score") == [(None, pytest.approx(paid))]


def cheap_counts_where_it_is_right(run, rows):
    """On the scale of all costs so far, which a step adds to before it is scored; the checkpoint keeps them."""
    seen = []
    for step in range(1, STEPS + 1):
        played = [one for group in Store(run.path).read(step, "train") for one in group.trajectories]
        seen += [facts(one, "cost")[None] for one in played]
        low, high = np.quantile(np.sqrt(seen), [0.05, 0.95])
        for one in played:
            rank = facts(one, "cost_rank")[None]
            share = 1 - np.clip((facts(one, "cost")[None] ** 0.5 - low) / ((high - low) or np.inf), 0, 1)
            assert rank == pytest.approx(share)
    assert any(score.outcome for _, score in scored(run))
    for trajectory, score in scored(run):
        paid = [event.paid for event in score.ledger if event.name == "cheap"]
        assert paid == [pytest.approx(0.4 * facts(trajectory, "cost_rank")[None] * score.outcome)]
    kept = next((run.path / "checkpoints").glob(f"step={STEPS:06d}")).rglob("*")
    assert any(file.is_file() and '"cost_rank"' in file.read_text(errors="replace") for file in kept)


def a_pool_is_explored(run, rows):
    """Only tasks of the pool are played, which begins after those of the warm start, and dropped ones are replaced."""
    learned(run, rows)
    pool = {f"lock/train/{index}" for index in range(96, 128)}
    tasks = [group.task.id for group in groups_of(run)]
    assert set(tasks) <= pool
    assert len(tasks) == sum(row["refill/tasks"] for row in rows)
    assert rows[-1]["curriculum/seen_share"] == len(set(tasks)) / 32
    assert all(4 <= row["refill/tasks"] <= 12 for row in rows)


def thoughts_are_corrected(run, rows):
    assert all(row["auxiliary/gtr_asked"] == row["auxiliary/gtr_rows"] == 32 for row in rows)
    assert all(row["auxiliary/gtr_grad_norm"] > 0 for row in rows)


def help_is_preferred_to_failures(run, rows):
    learned(run, rows)
    assert any(one.guidance for one, _ in scored(run))
    first, *later = [row for row in rows if row["auxiliary/pairs_rows"]]
    assert first["auxiliary/pairs_margin"] == pytest.approx(0, abs=1e-4)
    assert all(abs(row["auxiliary/pairs_margin"]) > 1e-6 for row in later)


def search_is_withheld_at_first(run, rows):
    assert [rows[0][f"curriculum/{name}"] for name in ("retrieval_share", "seen_share")] == [0.0, 0.5]
    for group in Store(run.path).read(1, "train"):
        assert all(facts(one, "closed_book") == {None: True} for one in group.trajectories)


def a_solution_replaces_a_failure(run, rows):
    for one in helped(run):
        assert one.guidance.source == "expert"


SHOWN = {
    "corrected_thoughts": thoughts_are_corrected,
    "curriculum": a_pool_is_explored,
    "filters": unbalanced_groups_are_dropped,
    "oracle_prefix": the_oracle_begins,
    "router": cheap_counts_where_it_is_right,
    "kl_in_reward": learned,
    "own_credit": the_own_rule_gives_credit,
    "own_filter_and_examiner": own_parts_take_part,
    "pairs": help_is_preferred_to_failures,
    "own_reward": the_own_reward_is_earned,
    "process_isolation": learned,
    "retrieval": search_is_withheld_at_first,
    "similar_states": learned,
    "spider": spider_is_played,
    "tensorboard": tensorboard_has_the_numbers,
    "test_weights": rare_tests_weigh_more,
    "two_environments": both_environments_are_played_and_told_apart,
    "expert_siblings": a_solution_replaces_a_failure,
    "probe": every_turn_is_probed,
}
