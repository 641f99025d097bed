"""Guides in which a model writes words, in whole runs: written by a server, and by the policy that is being trained."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from tests.helpers.chat_server import serving_prompts
from turngate.config.run_config import parse
from turngate.errors import ConfigError
from turngate.run.assembly.models import load_model
from turngate.run.job import Job
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics
from turngate.trainer.batch.contexts import Origin
from turngate.trainer.batch.pack import pack
from turngate.trainer.torch.learner import TorchLearner
from turngate.types import Sampling, Source, Trajectory

EASY = {
    "rewards": [{"type": "from_evidence", "name": "parsed", "evidence": "parsed", "kind": "outcome", "per_turn": True}]
}
"""Solved where every turn is a call that can be read: the tiny model does that now and then."""
HINTS = {"level_1": "Every colour has a key.", "level_2": "", "level_3": "Watch which keys click."}
LESSON = {"critique": "It wrote no call.", "lesson": "When a key is wanted, write the whole call."}
PLAN = {"plan": ["Look at the colour.", "Press its key."]}
REPLIES = {"teacher": "Look at the colour first.", "self_hints": HINTS, "mel": LESSON, "pilot": PLAN}


def config(folder: Path, guide: dict[str, Any], rubric: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    epochs = 12 if rubric is EASY else 8 if rubric else 4  # with 12 it writes calls more often than not
    return {
        "name": "written",
        "folder": str(folder),
        "model": {"layers": 1, "width": 16, "heads": 2, "vocabulary": 300},
        "env": {"id": "turngate/Lock-v1"} | ({"rubric": rubric} if rubric else {}),
        "warm_start": {"episodes": 48, "epochs": epochs, "episodes_per_batch": 8, "lr": 1e-2},
        "policy": {"turn_tokens": 4, "context": 2000, "concurrency": 8},
        "guide": guide,
        "train": {"steps": 2, "tasks_per_step": 2, "group_size": 4},
        "eval": {"tasks": 1},
        **more,
    }


def train(settings: dict[str, Any]) -> RunFolder:
    Job(parse(settings), Console(quiet=True)).run()
    return RunFolder(Path(settings["folder"]) / settings["name"])


def trained(folder: Path, guide: str, reply: Any, rubric: dict[str, Any] | None = None, **settings: Any) -> RunFolder:
    """A run whose guide is written for by a server that always replies the same."""
    with serving_prompts(lambda prompt, n: reply) as server:
        text_model = {"type": "server", "url": server.url, "model": "x", "attempts": 1}
        return train(config(folder, {"type": guide, "text_model": text_model, **settings}, rubric))


def episodes(run: RunFolder, step: int = 1) -> list[Trajectory]:
    return [one for group in Store(run.path).read(step, "train") for one in group.trajectories]


def helped(run: RunFolder) -> list[tuple[str, int, str, str]]:
    """Kind, level, text and source of the help of each episode that had any, in the first step."""
    found = [one.guidance for one in episodes(run) if one.guidance is not None]
    return [(one.kind, one.level, one.text, one.source) for one in found]


def total(run: RunFolder, name: str) -> float:
    return sum(row.get(f"guide/{name}", 0.0) for row in read_metrics(run.metrics))


def test_a_teacher_helps_a_second_group_where_all_failed(tmp_path):
    run = trained(tmp_path, "teacher", REPLIES["teacher"], kinds=["plan"], strip=True)
    assert helped(run) == [("plan", 1, "Look at the colour first.", "teacher")] * 8
    assert len(episodes(run)) == 16
    assert total(run, "writer_asked") == total(run, "unsolved_helped") == 4
    assert total(run, "refused_texts") == 0


def test_a_teacher_that_writes_the_answer_is_refused_and_counted(tmp_path):
    """It is shown the solution, "press a" and so on, and writes down the keys."""

    def tells(prompt, n):
        solution = re.search(r"BEGIN \w+ solution\n(.*?)\nEND", prompt, re.DOTALL).group(1)
        return f"Take {' '.join(line.split()[1] for line in solution.splitlines())}."

    with serving_prompts(tells) as server:
        text_model = {"type": "server", "url": server.url, "model": "x"}
        run = train(config(tmp_path, {"type": "teacher", "text_model": text_model}))
    assert helped(run) == []
    assert total(run, "refused_texts") == 4


def test_a_teacher_that_is_down_is_counted_and_nobody_is_helped(tmp_path):
    run = trained(tmp_path, "teacher", 500, strip=True)
    assert helped(run) == []
    assert total(run, "writer_unreachable") == total(run, "writer_asked") == 4
    assert [row["train/unusable_share"] for row in read_metrics(run.metrics)] == [0, 0]


def test_written_hints_are_tried_from_the_least_to_the_most(tmp_path):
    run = trained(tmp_path, "self_hints", HINTS)
    assert [one[:2] for one in helped(run)] == [("hint", 1)] * 4 + [("hint", 3)] * 4 + [("hint", 1)] * 4 + [
        ("hint", 3)
    ] * 4
    assert {one[2] for one in helped(run)} == {HINTS["level_1"], HINTS["level_3"]}


def test_a_lesson_from_a_success_and_a_failure_is_tried_out(tmp_path):
    run = trained(tmp_path, "mel", LESSON, EASY, strip=True)
    assert set(helped(run)) <= {("lesson", 1, LESSON["lesson"], "self")}
    n_tried = sum(one.guidance is not None for step in (1, 2) for one in episodes(run, step))
    assert n_tried == 2 * total(run, "writer_asked") > 0


def test_lessons_that_helped_are_imitated(tmp_path):
    with serving_prompts(lambda prompt, n: LESSON) as server:
        text_model = {"type": "server", "url": server.url, "model": "x", "attempts": 1}
        guide = {"type": "mel", "text_model": text_model, "tries": 3, "strip": True}
        run = train(config(tmp_path, guide, EASY, auxiliary=[{"type": "lessons"}]))
    rows = read_metrics(run.metrics)
    assert sum(row["auxiliary/lessons_rows"] for row in rows) == total(run, "validated") > 0
    assert any(row.get("auxiliary/lessons_grad_norm", 0) > 0 for row in rows)


LESSONS = [{"type": "lessons"}]
REFLECTION = {
    "trajectory_summary": "It pressed keys.",
    "root_cause_analysis": "The second press was no call.",
    "trajectory_outcome": "failure",
    "improvement_suggestion": "Write the whole call.",
    "retry_from_step": 1,
}


def test_an_attempt_is_tried_again_from_the_turn_that_the_reflection_names(tmp_path):
    run = trained(tmp_path, "r3l", REFLECTION, strip=True)
    played = episodes(run)
    first = {one.id: one for one in played if one.guidance is None}
    retries = [one for one in played if one.guidance is not None]
    assert len(first) == len(retries) == 4
    for one in retries:
        parent, pivot = one.parent
        assert pivot == 1
        assert one.turns[0].action == first[parent].turns[0].action
        assert set(one.turns[0].source) <= {Source.CONTEXT, Source.GUIDE}
        assert one.turns[1].guidance.text == "Write the whole call."
        assert one.turns[1].observation == first[parent].turns[1].observation
    assert total(run, "writer_asked") == 8


def test_an_attempt_that_the_reflection_calls_a_success_is_left_alone(tmp_path):
    run = trained(tmp_path, "r3l", {**REFLECTION, "trajectory_outcome": "success"}, strip=True)
    assert helped(run) == []
    assert len(episodes(run)) == 4


def test_hindsight_rewrites_the_best_failures_from_their_first_unmet_turn(tmp_path):
    rubric = {
        "rewards": [
            {"type": "from_evidence", "name": "opened", "evidence": "opened", "kind": "outcome"},
            {"type": "from_evidence", "name": "parsed", "evidence": "parsed", "weight": 0.3, "per_turn": True},
        ],
    }
    settings = config(tmp_path, {"type": "herl", "drafts": 2, "strip": False}, rubric)
    settings["env"]["allow_unsafe"] = True
    run = train(settings)
    store = Store(run.path)
    for step in (1, 2):
        groups = {group.task.id: group for group in store.read(step, "train")}
        unused = {group.task.id: group for group in store.read(step, "unused")}
        for task, group in groups.items():
            pairs = list(zip(group.trajectories, group.scores, strict=True))
            auxiliary = list(zip(unused[task].trajectories, unused[task].scores, strict=True)) if task in unused else []
            totals = {
                one.id: sum(line.paid for line in score.ledger if line.name != "hindsight")
                for one, score in pairs + auxiliary
            }
            rewrites = [one for one, _ in pairs + auxiliary if one.parent]
            assert len(rewrites) in (0, 2)
            for one in rewrites:
                assert one.turns[one.parent[1]].guidance.text.startswith("This is a second attempt.")
            for one, score in pairs:
                gains = [totals[other.id] - totals[one.id] for other in rewrites if other.parent[0] == one.id]
                assert score.total - totals[one.id] == pytest.approx(0.05 * gains[0] if gains else 0)
    assert any(row["guide/tried"] for row in read_metrics(run.metrics))


def test_rewrites_can_be_sampled_at_a_temperature_of_their_own(tmp_path):
    """What is recorded of their tokens is the probability that they were sampled with, which the ratio divides by."""
    settings = config(tmp_path, {"type": "herl", "temperature": 0.3})
    run = train({**settings, "train": {**settings["train"], "steps": 1}})
    groups = [group for phase in ("train", "unused") for group in Store(run.path).read(1, phase)]
    model, _ = load_model(str(run.warm_start))
    for group in groups:
        batch = pack([group], np.zeros(sum(len(one.turns) for one in group.trajectories), np.float32))
        rewritten = [one.guidance is not None for one in group.trajectories]
        hinted_L = (batch.origin_L == Origin.HINTED) & (batch.policy_weight_L != 0)
        assert hinted_L.any() == any(rewritten)
        for temperature, chosen_L in ((0.3, hinted_L), (1.0, (batch.policy_weight_L != 0) & ~hinted_L)):
            learner = TorchLearner(model, lr=1e-3, sampling=Sampling(temperature=temperature))
            found_L = learner.logprobs(batch)
            np.testing.assert_allclose(found_L[chosen_L], batch.logprob_L[chosen_L], atol=1e-4)
    assert any(one.guidance is not None for group in groups for one in group.trajectories)


def test_rewrites_that_keep_their_lists_have_the_temperature_of_all_others(tmp_path):
    with pytest.raises(ConfigError, match=r"guide.temperature = 0.3 needs strip = true"):
        parse(config(tmp_path, {"type": "herl", "temperature": 0.3, "strip": False}))


def test_a_plan_is_written_before_the_episodes_and_followed_ones_are_paid(tmp_path):
    rubric = {
        "rewards": [
            {"type": "from_evidence", "name": "parsed", "evidence": "parsed", "kind": "outcome", "per_turn": True},
            {"type": "from_evidence", "name": "adherence", "evidence": "adherence", "weight": 0.5, "per_turn": True},
        ],
        "gates": [{"type": "needs_outcome", "at_least": 1.0}],
    }

    def script(prompt, n):
        if "global plan" in prompt:
            return PLAN
        if "turn 1, agent" not in prompt:  # a canary, which is planted work of one turn
            return {"verdict": "invalid"}
        return {"steps": [{"turn": turn, "verdict": "ok"} for turn in range(3)]}

    with serving_prompts(script) as server:
        text_model = {"type": "server", "url": server.url, "model": "x", "attempts": 1}
        settings = config(tmp_path, {"type": "pilot", "text_model": text_model, "share": 0.5}, rubric)
        run = train({**settings, "examine": [{"type": "adherence", "judge": text_model, "votes": 1}]})
        prompts = [body["messages"][0]["content"] for _, _, body in server.heard]
    assert helped(run) == [("plan", 1, "Plan:\n1. Look at the colour.\n2. Press its key.", "teacher")] * 4
    assert any("reference\nPlan:\n1. Look at the colour." in prompt for prompt in prompts)
    for group in Store(run.path).read(1, "train"):
        for one, score in zip(group.trajectories, group.scores, strict=True):
            follows = [fact.value for fact in one.evidence if fact.name == "adherence"]
            assert follows == [float(one.guidance is not None)] * 3
            extra = 0.5 if one.guidance is not None and score.outcome == 1 else 0.0
            assert score.total == pytest.approx(score.outcome + extra)


@pytest.mark.parametrize("guide", ["teacher", "self_hints", "mel", "pilot", "r3l"])
def test_the_policy_itself_may_write_for_every_guide(tmp_path, guide):
    """What it writes is whatever a model says that has learned to press keys; the run goes on."""
    text_model = {"type": "policy", "max_tokens": 8}
    run = train(config(tmp_path, {"type": guide, "text_model": text_model}, EASY if guide == "mel" else None))
    assert total(run, "writer_asked") > 0
    assert total(run, "writer_unreachable") == 0
    if guide != "teacher":  # whose text is no JSON
        assert total(run, "unreadable") + total(run, "writer_cut_off") == total(run, "writer_asked")


HALF = "\ud800"
"""Half of a character, which no file and no tokenizer takes; a model writes it as an escape of its JSON."""


def with_half(reply: Any) -> Any:
    """A reply in which every text of more than one word ends in half a character."""
    if isinstance(reply, dict):
        return {key: with_half(value) for key, value in reply.items()}
    if isinstance(reply, list):
        return [with_half(value) for value in reply]
    return reply + HALF if isinstance(reply, str) and " " in reply else reply


@pytest.mark.parametrize("guide", ["teacher", "self_hints", "mel", "pilot", "r3l"])
def test_half_a_character_in_what_a_model_writes_ends_no_run(tmp_path, guide):
    """In the body of the server's reply for a plain text, inside of the JSON that it wrote for the others."""
    reply = with_half({**REPLIES, "r3l": REFLECTION}[guide])
    more = {"kinds": ["plan"]} if guide == "teacher" else {}
    rubric = EASY if guide == "mel" else None
    with serving_prompts(lambda prompt, n: reply) as server:
        text_model = {"type": "server", "url": server.url, "model": "x", "attempts": 1}
        settings = config(
            tmp_path, {"type": guide, "text_model": text_model, **more}, rubric, auxiliary=LESSONS if rubric else []
        )
        run = train(settings)
        longer = train({**settings, "train": {**settings["train"], "steps": 3}})
    assert [row["step"] for row in read_metrics(longer.metrics)] == [1, 2, 3]
    texts = [one.guidance.text for one in episodes(run) if one.guidance is not None]
    texts += [turn.guidance.text for one in episodes(run) for turn in one.turns if turn.guidance is not None]
    assert texts
    assert all("?" in text and HALF not in text for text in texts)
