"""Every file in examples/recipes trains: its command, as a user gives it, for two steps.

A recipe that is added is run without a change here. What a recipe is there to show is looked up in the finished run
(``SHOWN``); what it needs from outside, a judge's server or a data set, is made for it (``NEEDS``).
"""

import json
import re
import sys
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.helpers.chat_server import serving_prompts
from tests.helpers.command_line import turngate
from tests.helpers.recipes import (
    FOLDER,
    RECIPES,
    a_scorer_is_fitted_and_chooses,
    earned,
    facts,
    groups_of,
    helped,
    learned,
    scored,
    stages_that,
    weights,
    what_was_collected_is_compared_and_then_played_on,
)
from tests.helpers.spider_folder import spider_folder
from turngate.config import load
from turngate.metrics import read_metrics
from turngate.report import summary
from turngate.runs import RunFolder
from turngate.store import Store
from turngate.trainer.batch.table import tabulate
from turngate.trainer.credit import rloo
from turngate.trainer.evaluation.evaluations_file import read_evaluations
from turngate.trainer.filters.parts import keep
from turngate.trainer.torch.shards import read_state
from turngate.types import Source

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

PRESSED = re.compile("press [a-d]")


def judge(prompt, n):
    """Of every turn in which a key was pressed: whether it clicked. What came back from the last turn is not shown."""
    turns = re.findall(r"^BEGIN \w+ turn (\d+), (\w+)\n(.*?)\nEND \w+ turn \1, \2$", prompt, re.DOTALL | re.MULTILINE)
    results = {int(turn): text for turn, who, text in turns if who == "result"}
    pressed = {int(turn): text for turn, who, text in turns if who == "agent" and PRESSED.fullmatch(text)}
    said = {turn: text for turn, text in pressed.items() if turn in results}
    right = {turn: results[turn].startswith("click") for turn in said}
    steps = [{"turn": turn, "verdict": "ok"} for turn in said if right[turn]]
    steps += [{"turn": turn, "verdict": "wrong", "quote": said[turn]} for turn in said if not right[turn]]
    return {"steps": steps} if steps else {"verdict": "invalid"}


def a_server(stack, folder):
    return [f"--examine.judge.url={stack.enter_context(serving_prompts(judge)).url}"]


RULE = "When a colour is shown, press the key that belongs to it."
HINTS = {"level_1": "Every colour has a key.", "level_2": "", "level_3": "Watch which keys click."}
LESSON = {"critique": "It pressed another key.", "lesson": "When a colour is shown, press its own key."}
PLAN = {"plan": ["Look at the colour.", "Press its key."]}
THOUGHT = "This is the colour."
REFLECTION = {
    "trajectory_summary": "It pressed keys.",
    "root_cause_analysis": "The second key was not that of the colour.",
    "trajectory_outcome": "failure",
    "improvement_suggestion": "Look at the colour.",
    "retry_from_step": 1,
}
WRITTEN = {
    '{"experiences"': {"experiences": [RULE]},
    '{"operations"': {"operations": [{"op": "ADD", "text": RULE}]},
    '"level_1"': HINTS,
    '"lesson"': LESSON,
    "global plan": PLAN,
    "retry_from_step": REFLECTION,
}
"""What stands in a prompt, and the reply to it."""


def write(prompt, n):
    """What a model would write: the reply to a prompt that is known, else help for an agent."""
    if '"steps"' in prompt:  # a judge's prompt; work of a single turn is planted, to see whether it is found out
        judged = {"steps": [{"turn": turn, "verdict": "ok"} for turn in range(3)]}
        return judged if "turn 1, agent" in prompt else {"verdict": "invalid"}
    return next((reply for said, reply in WRITTEN.items() if said in prompt), "Look at the colour.")


def a_writer(stack, folder):
    """A server that writes what guides ask for."""
    return [f"--guide.text_model.url={stack.enter_context(serving_prompts(write)).url}"]


def a_writer_and_judge(stack, folder):
    """A server that writes plans, and finds that they are followed."""
    url = stack.enter_context(serving_prompts(write)).url
    return [f"--guide.text_model.url={url}", f"--examine.judge.url={url}"]


def a_corrector(stack, folder):
    """A server that finds every thought wrong."""
    script = {"right": False, "thought": THOUGHT}
    return [f"--auxiliary.corrector.url={stack.enter_context(serving_prompts(lambda prompt, n: script)).url}"]


def spider_options(stack, folder):
    return [f"--env.tasks.folder={spider_folder(folder)}", "--warm_start.episodes=8"]


NEEDS = {
    "corrected_thoughts": a_corrector,
    "experience_memory": a_writer,
    "judged_steps": a_server,
    "lessons": a_writer,
    "plans": a_writer_and_judge,
    "reflection": a_writer,
    "spider": spider_options,
    "teacher": a_writer,
    "written_hints": a_writer,
}


# --- what recipes show -----------------------------------------------------------------------------------------------


def nothing_more(run, rows):
    """It trained."""


def steps_are_judged(run, rows):
    learned(run, rows)
    assert all(row["examine/step/judge_calls"] > 0 and row["examine/step/failed"] == 0 for row in rows)
    verdicts = 0
    for trajectory, score in scored(run):
        right = facts(trajectory, "right_key")
        pressed = [bool(PRESSED.fullmatch(turn.action.text)) for turn in trajectory.turns]
        expected = {turn: float(right[turn]) if pressed[turn] and turn < 2 else None for turn in range(3)}
        assert facts(trajectory, "step") == expected
        assert earned(score, "step") == [(turn, value) for turn, value in expected.items() if value is not None]
        verdicts += len(earned(score, "step"))
    assert verdicts


def the_policy_is_asked(run, rows):
    learned(run, rows)
    for row in rows:
        asked = {name.removeprefix("examine/standing/"): value for name, value in row.items()}
        assert asked["judge_calls"] > 0
        assert asked["judge_fault_unavailable"] == asked["failed"] == 0
        assert asked["missing_share"] == 1


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


def hints_are_tried_after_the_exempt_step(run, rows):
    first, second = rows[:2]
    assert first["guide/guided_share"] == 0
    assert second["guide/guided_share"] > 0
    assert second["guide/waves"] > 1
    assert second["guide/sampled"] == second["guide/kept"] + second["guide/replaced"] + second["guide/tried"]


def failures_are_tried_again(run, rows):
    retries = [trajectory for trajectory, _ in scored(run) if trajectory.parent]
    assert retries
    for trajectory in retries:
        _, pivot = trajectory.parent
        assert trajectory.turns[pivot].guidance.text.startswith(f"Key {pivot} was wrong: ")


def the_memory_has_a_rule(run, rows):
    """It is there after the first step, and half of the siblings of the second are shown it."""
    assert [entry["id"] for entry in json.loads(run.memory.read_text())["entries"]] == ["G1"]
    assert [row["guide/guided_share"] for row in rows] == [0, 0.5]
    assert [phase for phase, _ in read_evaluations(run.path)][-2:] == ["with memory"] * 2


def the_teacher_helps_second_groups(run, rows):
    """Groups that failed are followed by one with the teacher's text, which learning takes out of the context."""
    helped = [one for group in groups_of(run) for one in group.trajectories if one.guidance]
    assert helped
    assert {(one.guidance.kind, one.guidance.text) for one in helped} == {("feedback", "Look at the colour.")}
    assert all(one.guidance.strip_for_train for one in helped)
    assert sum(row["guide/writer_asked"] for row in rows) * 4 == len(helped)


def second_groups_have_a_hint(run, rows):
    """Whoever is helped is in a group in which all are, and learned from as if the hint had not been there."""
    assert helped(run)
    for group in groups_of(run):
        hints = {one.guidance for one in group.trajectories}
        assert len(hints) == 1
        hint = hints.pop()
        assert hint is None or (hint.kind == "hint" and hint.strip_for_train)


def more_and_more_is_shown(run, rows):
    """A quarter of a solution of three keys is its first one, half of it are two; the last one is never shown."""
    shown = {(one.guidance.level, len(one.guidance.text.splitlines()) - 1) for one in helped(run)}
    assert {(25, 1)} <= shown <= {(25, 1), (50, 2)}
    assert {one.guidance.kind for one in helped(run)} == {"partial_solution"}


def the_oracle_begins(run, rows):
    learned(run, rows)
    for one in helped(run):
        forced = [turn.source[-1] == Source.GUIDE for turn in one.turns]
        assert forced == [turn < one.guidance.level for turn in range(3)]
    assert {one.guidance.level for one in helped(run)} <= {1, 2}


def an_expert_is_among_the_siblings(run, rows):
    learned(run, rows)
    for group in groups_of(run):
        experts = [at for at, one in enumerate(group.trajectories) if one.guidance]
        assert experts == [0]
        assert group.trajectories[0].guidance.source == "expert"
        assert group.scores[0].outcome == 1


def failures_are_rewritten(run, rows):
    """A rewrite that is better than the best failure takes its place; the books say what became of the others."""
    learned(run, rows)
    assert all(row["guide/replaced"] + row["guide/tried"] > 0 for row in rows)
    assert all(row["guide/sampled"] == row["guide/kept"] + row["guide/replaced"] + row["guide/tried"] for row in rows)
    unused = [one for group in Store(run.path).read(None, "unused") for one in group.trajectories]
    rewrites = [one for one in (*unused, *helped(run)) if one.parent]
    assert rewrites
    for one in rewrites:
        assert one.turns[one.parent[1]].guidance.text.startswith("This is a second attempt.")


def groups_are_screened(run, rows):
    """Four siblings play of every task, the other four only where some of those succeeded and some failed."""
    learned(run, rows)
    for group in groups_of(run):
        first = [score.outcome == 1 for score in group.scores[:4]]
        assert len(group.trajectories) == (8 if 0 < sum(first) < 4 else 4)


def attempts_are_reflected_on(run, rows):
    learned(run, rows)
    assert all(row["guide/writer_asked"] == row["guide/kept"] / 2 for row in rows)
    for one in helped(run):
        assert one.parent[1] == 1
        assert one.turns[1].guidance.text == REFLECTION["improvement_suggestion"]


def written_hints_are_tried(run, rows):
    assert {(one.guidance.level, one.guidance.text) for one in helped(run)} == {
        (1, HINTS["level_1"]),
        (3, HINTS["level_3"]),
    }


def lessons_are_tried(run, rows):
    """Two episodes try each lesson, and those that helped are imitated."""
    learned(run, rows)
    assert {one.guidance.text for one in helped(run)} == {LESSON["lesson"]}
    assert len(helped(run)) == 2 * sum(row["guide/writer_asked"] for row in rows)
    assert all(row["auxiliary/lessons_rows"] == row["guide/validated"] for row in rows)


def plans_are_followed(run, rows):
    """A plan that is followed pays half, where the task is solved."""
    assert all(row["examine/adherence/failed"] == 0 for row in rows)
    for trajectory, score in scored(run):
        assert trajectory.guidance.text == "Plan:\n1. Look at the colour.\n2. Press its key."
        assert facts(trajectory, "adherence") == {0: 1, 1: 1, 2: 1}
        assert score.total == pytest.approx(1.5 * score.outcome)


def failures_are_imitated_between_updates(run, rows):
    learned(run, rows)
    assert any(row["auxiliary/relift_rows"] == 2 and row["auxiliary/relift_grad_norm"] > 0 for row in rows)


def thoughts_are_corrected(run, rows):
    assert all(row["auxiliary/gtr_asked"] == row["auxiliary/gtr_rows"] == 32 for row in rows)
    assert all(row["auxiliary/gtr_grad_norm"] > 0 for row in rows)


def unbalanced_groups_are_dropped(run, rows):
    for step, row in enumerate(rows, start=1):
        rates = [sum(score.outcome for score in group.scores) / 8 for group in Store(run.path).read(step, "train")]
        assert row["drop/not_balanced_groups"] == sum(not 0.2 <= rate <= 0.8 for rate in rates)


def help_is_preferred_to_failures(run, rows):
    learned(run, rows)
    assert any(one.guidance for one, _ in scored(run))
    first, *later = [row for row in rows if row["auxiliary/pairs_rows"]]
    assert first["auxiliary/pairs_margin"] == pytest.approx(0, abs=1e-4)
    assert all(abs(row["auxiliary/pairs_margin"]) > 1e-6 for row in later)


def branches_share_turns(run, rows):
    learned(run, rows)
    for step, row in enumerate(rows, start=1):
        leaves = [leaf for group in Store(run.path).read(step, "train") for leaf in group.trajectories]
        assert sum(leaf.parent is not None for leaf in leaves) == row["branch/branches"] == 4 * 6
        assert sum(leaf.parent[1] for leaf in leaves if leaf.parent) == row["branch/saved_env_steps"]


def every_turn_is_continued(run, rows):
    learned(run, rows)
    assert not any(name.startswith("value/") for row in rows for name in row)
    for group in groups_of(run):
        assert sorted(leaf.parent[1] for leaf in group.trajectories if leaf.parent) == [0, 0, 1, 1, 2, 2]


def search_is_withheld_at_first(run, rows):
    assert [rows[0][f"curriculum/{name}"] for name in ("retrieval_share", "seen_share")] == [0.0, 0.5]
    for group in Store(run.path).read(1, "train"):
        assert all(facts(one, "closed_book") == {None: True} for one in group.trajectories)


def what_was_collected_is_imitated(run, rows):
    """Of the episodes that the frozen policy of a round played, successes alone are learned from."""
    collects, imitations = run.stages[::2], run.stages[1::2]
    assert [one.path.name for one in run.stages] == ["01-collect", "02-imitate", "03-collect", "04-imitate"]
    for before, collected, imitated in zip([None, imitations[0]], collects, imitations, strict=True):
        assert load(imitated.config).episodes.runs == (collected.path,)
        assert Store(imitated.path).steps("train") == []
        assert weights(collected.model) == weights(collected.warm_start if before is None else before.model)
        assert weights(imitated.model) != weights(collected.model)
        learned(imitated, read_metrics(imitated.metrics))
    assert weights(run.model) == weights(imitations[-1].model)


def attempts_are_imitated(run, rows):
    """Second attempts, which are shown the first ones, are learned from as well."""
    for collected, imitated in zip(run.stages[::2], run.stages[1::2], strict=True):
        leaves = [leaf for group in groups_of(collected) for leaf in group.trajectories]
        again = [leaf for leaf in leaves if leaf.parent]
        assert len(again) * 2 == len(leaves) == 64
        assert all(leaf.parent[1] == 0 and len(leaf.turns[0].context_ids) > 40 for leaf in again)
        learned(imitated, read_metrics(imitated.metrics))
        assert all(row["replay/share"] == 1 for row in read_metrics(imitated.metrics))


def the_oracles_attempt_follows_worse_ones(run, rows):
    attempts_are_imitated(run, rows)
    rows = [row for one in run.stages[1::2] for row in read_metrics(one.metrics)]
    assert all(row["auxiliary/rise_teacher_rows"] > 0 and row["auxiliary/rise_teacher_loss"] > 0 for row in rows)


def successes_are_imitated_between_reinforcements(run, rows):
    """The reinforced policy is what collects, its successes are imitated, and what is reinforced next comes of them."""
    parts = [stages_that(run, name) for name in ("zero_rl", "collect", "cold_start", "tea_rl")]
    for first, collected, imitated, last in zip(*parts, strict=True):
        assert load(imitated.config).episodes.runs == (collected.path,)
        assert weights(first.model) == weights(collected.model) != weights(imitated.model) != weights(last.model)
        assert [Store(one.path).steps("train") for one in (imitated, last)] == [[], [1, 2]]
        for one in (first, imitated, last):
            learned(one, read_metrics(one.metrics))


def reference_and_optimizer_begin_anew(run, rows):
    """The first update of each stage is measured against the model that the stage began from."""
    assert [one.path.name for one in run.stages] == ["01-rl", "02-rl"]
    assert load(run.stages[1].config).model == str(run.stages[0].model)
    for one in run.stages:
        learned(one, read_metrics(one.metrics))
        first = next(row for row in read_metrics(one.metrics) if "policy/kl_to_reference_nats" in row)
        assert first["policy/kl_to_reference_nats"] == pytest.approx(0, abs=1e-6)
    kept = [one.checkpoints / "step=000002" / "state.pt" for one in run.stages]
    states = [read_state(path, torch.device("cpu")) for path in kept]
    moments = [next(iter(state["optimizer"]["state"].values()))["step"] for state in states]
    assert all(moment <= STEPS for moment in moments)  # updates since the optimizer was made


SHOWN = {
    "beside": failures_are_imitated_between_updates,
    "branching": branches_share_turns,
    "corrected_thoughts": thoughts_are_corrected,
    "curriculum": a_pool_is_explored,
    "experience_memory": the_memory_has_a_rule,
    "expert_iteration": what_was_collected_is_imitated,
    "expert_siblings": an_expert_is_among_the_siblings,
    "filters": unbalanced_groups_are_dropped,
    "guided_group": second_groups_have_a_hint,
    "hindsight": failures_are_rewritten,
    "lessons": lessons_are_tried,
    "light_if": successes_are_imitated_between_reinforcements,
    "oracle_prefix": the_oracle_begins,
    "partial_solution": more_and_more_is_shown,
    "plans": plans_are_followed,
    "prover": every_turn_is_continued,
    "reflection": attempts_are_reflected_on,
    "mucode": a_scorer_is_fitted_and_chooses,
    "rise": attempts_are_imitated,
    "rise_teacher": the_oracles_attempt_follows_worse_ones,
    "router": cheap_counts_where_it_is_right,
    "screening": groups_are_screened,
    "second_policy": the_oracle_begins,
    "teacher": the_teacher_helps_second_groups,
    "written_hints": written_hints_are_tried,
    "hint_ladder": hints_are_tried_after_the_exempt_step,
    "judged_steps": steps_are_judged,
    "kl_in_reward": learned,
    "own_credit": the_own_rule_gives_credit,
    "own_filter_and_examiner": own_parts_take_part,
    "pairs": help_is_preferred_to_failures,
    "own_reward": the_own_reward_is_earned,
    "probe_progress": every_turn_is_probed,
    "probe_spae": every_turn_is_probed,
    "process_isolation": learned,
    "prorl": reference_and_optimizer_begin_anew,
    "retrieval": search_is_withheld_at_first,
    "retry_from_the_fault": failures_are_tried_again,
    "similar_states": learned,
    "spider": spider_is_played,
    "sql_rlvr": what_was_collected_is_compared_and_then_played_on,
    "tensorboard": tensorboard_has_the_numbers,
    "test_weights": rare_tests_weigh_more,
    "tournament": the_policy_is_asked,
    "turn_values": every_turn_is_continued,
    "two_environments": both_environments_are_played_and_told_apart,
}
