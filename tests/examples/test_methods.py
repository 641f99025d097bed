"""Every published method trains over one config, examples/recipes/base.toml, by the command that a user gives.

A method whose overlay is added is trained without a change here. What a method is there to show is looked up in the
finished run (``SHOWN``, after two steps); what it needs beside the base, a judge's server or another setting, is given
to it (``NEEDS``). Methods that need an environment of their own have a recipe, which names them.
"""

import json
import re
import sys
import tomllib
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from rich.console import Console

from tests.helpers.chat_server import serving_prompts
from tests.helpers.command_line import turngate
from tests.helpers.recipes import (
    FOLDER,
    RECIPES,
    a_scorer_is_fitted_and_chooses,
    alternatives,
    earned,
    facts,
    groups_of,
    helped,
    learned,
    scored,
    stages_that,
    the_oracle_begins,
    unbalanced_groups_are_dropped,
    weights,
    what_was_collected_is_compared_and_then_played_on,
)
from turngate.config.run_config import load
from turngate.methods.overlay import FOLDER as OVERLAYS
from turngate.report import summary
from turngate.run.job import Job
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics
from turngate.trainer.evaluation.evaluations_file import read_evaluations
from turngate.trainer.torch.shards import read_state

BASE = "base.toml"
STEPS = 2
SHORT = ("--train.steps=1", "--train.tasks_per_step=2", "--eval.tasks=1")


def named_in_recipes():
    texts = [text for recipe in RECIPES for text in _with_alternatives((FOLDER / recipe).read_text())]
    return {tomllib.loads(text).get("method") for text in texts} - {None}


def _with_alternatives(text):
    return [text, *alternatives(text).values()]


METHODS = sorted({path.stem for path in OVERLAYS.glob("*.toml")} - named_in_recipes())


@pytest.fixture(autouse=True)
def in_the_folder(monkeypatch):
    """The command runs where the base lies."""
    monkeypatch.chdir(FOLDER)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(summary, "_draw", lambda run: [])  # takes longer than the runs; tests/report looks at pictures


@pytest.mark.parametrize("method", METHODS)
def test_a_method_trains_over_the_base_and_shows_what_it_says(method, starts, tmp_path):
    run = RunFolder(tmp_path / "base")
    shown = SHOWN.get(method)
    with ExitStack() as stack:
        own = NEEDS.get(method, ())
        own = own(stack, tmp_path) if callable(own) else own
        length = (f"--train.steps={STEPS}",) if shown else SHORT
        changes = [f"--folder={tmp_path}", *length, *own]
        config = load(Path(BASE), [f"--method={method}", *changes])
        if shown and config.stages:
            config = load(Path(BASE), [f"--method={method}", *(changes := [*changes, "--rounds=2"])])
        starts.lend(config)
        assert turngate("train", BASE, "--method", method, *changes) == 0
    starts.keep(config)
    assert run.is_complete
    assert [one["name"] for one in tomllib.loads(run.config.read_text())["method"]] == [method]
    rows = [row for one in run.stages or [run] for row in read_metrics(one.metrics)]
    assert all(row["train/unusable_share"] == 0 for row in rows)
    if shown:
        shown(run, rows)


def test_every_name_here_is_a_method_that_is_trained_here():
    assert set(SHOWN) | set(NEEDS) <= set(METHODS)


# --- what methods need -----------------------------------------------------------------------------------------------

PRESSED = re.compile("press [a-d]")


RULE = "When a colour is shown, press the key that belongs to it."
HINTS = {"level_1": "Every colour has a key.", "level_2": "", "level_3": "Watch which keys click."}
LESSON = {"critique": "It pressed another key.", "lesson": "When a colour is shown, press its own key."}
PLAN = {"plan": ["Look at the colour.", "Press its key."]}
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
APPEALED = (
    '{rewards = [{type = "from_evidence", name = "opened", evidence = "appeal_outcome", kind = "outcome", '
    "levels = [0, 1]}]}"
)


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


def write(prompt, n):
    """What a model would write: the reply to a prompt that is known, else help for an agent."""
    if '"steps"' in prompt:  # a judge's prompt; work of a single turn is planted, to see whether it is found out
        judged = {"steps": [{"turn": turn, "verdict": "ok"} for turn in range(3)]}
        return judged if "turn 1, agent" in prompt else {"verdict": "invalid"}
    return next((reply for said, reply in WRITTEN.items() if said in prompt), "Look at the colour.")


def a_judge(stack, folder):
    """A server that judges turns."""
    return [f"--examine.judge.url={stack.enter_context(serving_prompts(judge)).url}", *SMALL, "--examine.votes=2"]


def a_short_judge(*further):
    """A server whose replies are a yes, which not every examiner can read; what it cannot read is missing."""

    def options(stack, folder):
        url = stack.enter_context(serving_prompts(lambda prompt, n: {"verdict": "yes"})).url
        return [f"--examine.judge.url={url}", *SMALL, *further]

    return options


def a_writer(*further):
    """A server that writes what guides ask for."""

    def options(stack, folder):
        url = stack.enter_context(serving_prompts(write)).url
        table = f'{{type = "server", url = "{url}", model = "writer"}}'
        return [f"--guide.text_model={table}", *further]

    return options


def a_writer_and_judge(stack, folder):
    """A server that writes plans, and finds that they are followed."""
    url = stack.enter_context(serving_prompts(write)).url
    return [*a_writer()(stack, folder), f"--examine.judge.url={url}", "--examine.votes=1"]


def a_store(stack, folder):
    """A run whose episodes are replayed."""
    recorded = load(Path(BASE), [f"--folder={folder}", "--name=recorded", *SHORT])
    Job(recorded, Console(quiet=True)).run()
    return [f'--episodes.runs=["{recorded.folder / recorded.name}"]']


SMALL = ("--train.tasks_per_step=2", "--train.group_size=4")
POLICY_JUDGES = '--examine.judge={type = "policy", context = 8192, max_tokens = 48, attempts = 1}'
CHAINS_OF_THREE = ("--train.group_size=7",)  # 1 + 2 continuations of 3 turns
LIKELIHOOD = ("--examine.answer=The keys of {dials}",)
NEEDS = {
    "agent_rlvr": a_writer('--guide.kinds=["feedback"]', "--train.tasks_per_step=8", "--train.group_size=4"),
    "arena_rl": (POLICY_JUDGES, "--examine.criterion=It presses the right keys.", *SMALL),
    "capo": a_judge,
    "difficulty_band": ("--curriculum.pool=8",),
    "greso": ("--curriculum.pool=8",),
    "kdrl": ("--auxiliary.teacher=start",),
    "mel": a_writer(),
    "ngrpo": ("--credit.best=2",),
    "noisy_verifiers": a_short_judge("--examine.evidence=opened", f"--env.rubric={APPEALED}"),
    "pav": CHAINS_OF_THREE,
    "pcl": ("--curriculum.pool=8",),
    "pilot_rl": a_writer_and_judge,
    "ppr": a_judge,
    "pref_grpo": a_short_judge(),
    "r3l": a_writer(),
    "r3l_by_fact": (
        "--guide.evidence=right_key",
        "--guide.note=Key {turn} was wrong: {action}",
        "--guide.strip=false",
    ),
    "relift": ("--auxiliary.at_least=2",),
    "riskpo": ("--train.tasks_per_step=5",),
    "rlep": a_store,
    "rlpr": LIKELIHOOD,
    "rlvmr": ("--signals.evidence.tag_N=right_key",),
    "rubrics_as_rewards": a_short_judge(),
    "sage": a_writer(),
    "scaf_grpo": ("--guide.exempt_steps=1", "--train.tasks_per_step=8", "--train.group_size=4"),
    "search_gen_v": a_short_judge(),
    "semi_online_dpo": ("--train.sync_every=0",),
    "training_free_grpo": a_writer("--train.tasks_per_step=8", "--train.group_size=4", "--eval.memory=true"),
    "verifree": LIKELIHOOD,
    "vine_ppo": CHAINS_OF_THREE,
}


# --- what methods show -----------------------------------------------------------------------------------------------


def the_memory_has_a_rule(run, rows):
    """It is there after the first step, and all siblings of the second are shown it."""
    assert [entry["id"] for entry in json.loads(run.memory.read_text())["entries"]] == ["G1"]
    assert [row["guide/guided_share"] for row in rows] == [0, 1]
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


SHOWN = {
    "agent_rlvr": the_teacher_helps_second_groups,
    "arena_rl": the_policy_is_asked,
    "balanced_filter": unbalanced_groups_are_dropped,
    "bread": the_oracle_begins,
    "capo": steps_are_judged,
    "ghpo": more_and_more_is_shown,
    "guide_grpo": second_groups_have_a_hint,
    "herl": failures_are_rewritten,
    "light_if": successes_are_imitated_between_reinforcements,
    "luffy": an_expert_is_among_the_siblings,
    "mel": lessons_are_tried,
    "mucode": a_scorer_is_fitted_and_chooses,
    "pav": every_turn_is_continued,
    "pilot_rl": plans_are_followed,
    "prorl": reference_and_optimizer_begin_anew,
    "r3l": attempts_are_reflected_on,
    "r3l_by_fact": failures_are_tried_again,
    "relift": failures_are_imitated_between_updates,
    "rest_em": what_was_collected_is_imitated,
    "rise": attempts_are_imitated,
    "rise_teacher": the_oracles_attempt_follows_worse_ones,
    "rlgf": the_oracle_begins,
    "sage": written_hints_are_tried,
    "scaf_grpo": hints_are_tried_after_the_exempt_step,
    "speed": groups_are_screened,
    "sql_rlvr": what_was_collected_is_compared_and_then_played_on,
    "training_free_grpo": the_memory_has_a_rule,
    "tree_grpo": branches_share_turns,
    "vine_ppo": every_turn_is_continued,
}
