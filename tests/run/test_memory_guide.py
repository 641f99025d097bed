"""An experience memory in whole runs: kept by a server or by the policy itself, and shown at evaluation."""

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.helpers.chat_server import serving_prompts
from turngate.cli.main import app
from turngate.config.run_config import parse
from turngate.envs.lock import LockTasks
from turngate.errors import ConfigError
from turngate.foreign import Interruption
from turngate.run.assembly.guide_help import EnvironmentHelp
from turngate.run.environments import Environments
from turngate.run.job import Job
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics
from turngate.trainer import ahead
from turngate.trainer.evaluation.evaluations_file import read_evaluations
from turngate.trainer.guidance.experience import MemoryGuide
from turngate.trainer.guidance.experience_memory import Operation

RUBRIC = {
    "rewards": [
        {"type": "from_evidence", "name": "right", "evidence": "right_key", "kind": "outcome", "per_turn": True}
    ]
}
FIRST = "When the dial shows a colour, press the key that belongs to it."
SECOND = "When a key was wrong, go on with the next dial."


def config(folder: Path, text_model: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "name": "memory",
        "folder": str(folder),
        "model": {"layers": 1, "width": 16, "heads": 2, "vocabulary": 300},
        "env": {"id": "turngate/Lock-v1", "rubric": RUBRIC},
        "warm_start": {"episodes": 48, "epochs": 4, "episodes_per_batch": 8, "lr": 1e-2},
        "policy": {"turn_tokens": 4, "context": 200, "concurrency": 8},
        "learner": {"type": "frozen"},
        "guide": {"type": "memory", "text_model": text_model},
        "train": {"steps": 3, "tasks_per_step": 2, "group_size": 4},
        "eval": {"tasks": 2, "memory": True},
        **more,
    }


def train(settings: dict[str, Any]) -> RunFolder:
    Job(parse(settings), Console(quiet=True)).run()
    return RunFolder(Path(settings["folder"]) / settings["name"])


def keeper(prompt: str, n: int) -> Any:
    """Adds one rule, says it otherwise once it is there, and adds a second one when several tasks spoke."""
    if "Summarise" in prompt:
        return "It pressed keys."
    if "Compare the good attempts" in prompt:
        return {"experiences": [SECOND, "", "a third rule is one too many", "and a fourth"]}
    if "[G1]" not in prompt:
        return {"operations": [{"op": "ADD", "text": FIRST}]}
    return {"operations": [{"op": "UPDATE", "id": "G1", "text": SECOND}, {"op": "DELETE", "id": "G7"}]}


def server_of(server) -> dict[str, Any]:
    return {"type": "server", "url": server.url, "model": "keeper", "attempts": 1, "backoff_s": 0.0}


def rules(run: RunFolder) -> dict[str, str]:
    return {entry["id"]: entry["text"] for entry in json.loads(run.memory.read_text())["entries"]}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A run whose memory a server keeps, and the prompts that the server was sent."""
    with serving_prompts(keeper) as server:
        run = train(config(tmp_path_factory.mktemp("kept"), server_of(server)))
        return run, [body["messages"][0]["content"] for _, _, body in server.heard]


def test_a_server_keeps_the_memory_and_episodes_are_shown_it(kept):
    run, prompts = kept
    assert rules(run) == {"G1": SECOND}
    done = {key: sum(row.get(key, 0) for row in read_metrics(run.metrics)) for key in ("guide/memory_add",)}
    assert done == {"guide/memory_add": 1}
    shown = [
        [one.guidance and one.guidance.text.splitlines()[1:] for one in group.trajectories]
        for group in Store(run.path).read(3, "train")
    ]
    assert len(shown) == 2
    for entries in shown:  # half of the siblings
        assert entries[:2] == [None, None]
        assert entries[2:] in ([[f"[G1] {FIRST}"]] * 2, [[f"[G1] {SECOND}"]] * 2)
    assert any(f"BEGIN {mark} new\n{SECOND}\na third rule" in prompt for prompt in prompts for mark in marks(prompt))
    assert not any("fourth" in prompt for prompt in prompts)


def test_as_in_the_paper_every_episode_can_be_shown_the_whole_library(tmp_path):
    """From the config to the plan of a group: by default half of four siblings see five of six rules."""
    rules = [Operation(kind="ADD", text=f"When in doubt, do {word}.") for word in ("a", "b", "c", "d", "e", "f")]
    task = LockTasks().task("train", 0)
    for chosen, expected in [({}, [0, 0, 5, 5]), ({"most": "all", "share": 1.0}, [6, 6, 6, 6])]:
        settings = config(tmp_path, {"type": "policy"})
        settings["guide"] |= chosen
        guide = parse(settings).guide.open(EnvironmentHelp(Environments(parse(settings).env), "hermes", seed=0))
        assert isinstance(guide, MemoryGuide)
        assert guide.memory.apply(rules, domain=task.env_id, tasks=[]) == {"add": 6}
        entries = guide.plan(task, 4).entries
        assert [0 if one is None else one.text.count("When in doubt") for one in entries] == expected


def marks(prompt: str) -> set[str]:
    return {line.split()[1] for line in prompt.splitlines() if line.startswith("BEGIN ")}


def test_groups_that_did_all_equally_well_are_not_asked_about(kept):
    run, prompts = kept
    mixed = [
        group
        for step in (1, 2, 3)
        for group in Store(run.path).read(step, "train")
        if 0 < sum(score.outcome for score in group.scores) < 4
    ]
    assert sum("Compare the good attempts" in prompt for prompt in prompts) == len(mixed) > 0
    assert sum("Summarise it" in prompt for prompt in prompts) == 4 * len(mixed)


def test_evaluation_with_memory_is_reported_apart(kept):
    run, _ = kept
    assert [phase for phase, _ in read_evaluations(run.path)] == ["before"] * 2 + ["after"] * 2 + ["with memory"] * 2
    for phase, helped in (("after-heldout-greedy", False), ("with-memory-heldout-greedy", True)):
        played = [one for group in Store(run.path).read(3, phase) for one in group.trajectories]
        assert [one.guidance is not None for one in played] == [helped] * 2


def test_the_weights_stay_as_they_are(kept):
    run, _ = kept
    first, last = ((folder / "model.safetensors").read_bytes() for folder in (run.warm_start, run.model))
    assert first == last


def test_turngate_eval_shows_the_memory_of_a_run(kept, tmp_path, monkeypatch, capsys):
    run, _ = kept
    monkeypatch.chdir(tmp_path)
    common = ["eval", str(run.model), "--env", "turngate/Lock-v1", "--tasks", "2", "--turn-tokens", "4"]
    common += ["--context", "200"]
    app([*common, "--memory", str(run.memory), "--out", "helped"], standalone_mode=False)
    assert "solved with memory" in capsys.readouterr().out
    played = [one for group in Store(tmp_path / "helped").read(0, None) for one in group.trajectories]
    assert {one.guidance.kind for one in played} == {"experience"}
    (tmp_path / "no.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"not the memory\.json"):
        app([*common, "--memory", "no.json"], standalone_mode=False)


def test_a_run_that_was_stopped_goes_on_with_its_memory(kept, tmp_path, monkeypatch):
    whole, prompts = kept
    real = ahead.train_step

    async def stops(run, tasks, step):
        if step == 3:
            raise Interruption
        return await real(run, tasks, step)

    with serving_prompts(keeper) as server:
        settings = config(tmp_path, server_of(server))
        monkeypatch.setattr(ahead, "train_step", stops)
        with pytest.raises(Interruption):
            train(settings)
        monkeypatch.setattr(ahead, "train_step", real)
        run = train(settings)
        assert sorted(body["messages"][0]["content"] for _, _, body in server.heard) == sorted(prompts)
    assert run.memory.read_text() == whole.memory.read_text()
    one, other = ([group.trajectories for group in Store(path).read(3, "train")] for path in (run.path, whole.path))
    assert one == other


def test_the_policy_itself_may_write(tmp_path):
    """It has learned to press keys, so what it writes is no JSON, and mostly cut off: counted, and nothing changes."""
    text_model = {"type": "policy", "max_tokens": 8, "context": 2000}
    settings = config(tmp_path, text_model, learner={"type": "torch", "lr": 1e-4})
    settings["policy"]["context"] = 2000
    run = train({**settings, "eval": {"tasks": 2}})
    rows = read_metrics(run.metrics)
    assert sum(row["guide/writer_asked"] for row in rows) > 0
    assert sum(row["guide/writer_unreachable"] for row in rows) == 0
    assert sum(row["guide/writer_cut_off"] + row.get("guide/memory_unreadable", 0) for row in rows) > 0
    assert rules(run) == {}


def test_a_server_that_is_down_is_counted_and_nothing_changes(tmp_path):
    with serving_prompts(lambda prompt, n: 503) as server:
        run = train(config(tmp_path, server_of(server)))
    rows = read_metrics(run.metrics)
    assert sum(row["guide/writer_asked"] for row in rows) == sum(row["guide/writer_unreachable"] for row in rows) > 0
    assert {row["guide/guided_share"] for row in rows} == {0}
    assert rules(run) == {}
    assert "with memory" not in {phase for phase, _ in read_evaluations(run.path)}  # there is none to be shown


@pytest.mark.parametrize(
    ("section", "settings", "problem"),
    [
        ("guide", {"type": "none"}, "eval.memory has no effect: guide 'none' keeps no memory"),
        ("train", {"steps": 0}, "eval.memory has no effect with train.steps = 0"),
        ("guide", {"type": "memory", "text_model": {"type": "policy", "votes": 3}}, "text_model.votes has no effect"),
        ("learner", {"type": "frozen", "lr": 1e-3}, "lr has no effect"),
        ("auxiliary", [{"type": "lessons"}], "'lessons' has no effect: guide 'memory' writes no lessons"),
        ("auxiliary", [{"type": "demonstrations"}], "'demonstrations' has no effect: a learner of type 'frozen'"),
    ],
)
def test_settings_without_effect_are_refused(tmp_path, section, settings, problem):
    with pytest.raises(ConfigError, match=problem):
        parse({**config(tmp_path, {"type": "policy"}), section: settings})


def test_half_a_character_in_a_rule_ends_no_run_and_a_memory_that_holds_one_can_be_shown(tmp_path, monkeypatch, capsys):
    """A server writes it in every reply. The last lines are of a memory that was kept before this was repaired."""

    def halves(prompt, n):
        reply = keeper(prompt, n)
        if isinstance(reply, str):
            return f"{reply} \ud800"
        return json.loads(json.dumps(reply).replace(" press", " \\ud800 press"))

    with serving_prompts(halves) as server:
        settings = config(tmp_path, server_of(server))
        train(settings)
        run = train({**settings, "train": {**settings["train"], "steps": 4}})
    assert [row["step"] for row in read_metrics(run.metrics)] == [1, 2, 3, 4]
    played = [
        one for step in (1, 2, 3, 4) for group in Store(run.path).read(step, "train") for one in group.trajectories
    ]
    assert any("? press" in one.guidance.text for one in played if one.guidance)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.json").write_text(run.memory.read_text().replace("the", r"\ud800"))
    common = ["eval", str(run.model), "--env", "turngate/Lock-v1", "--tasks", "1", "--turn-tokens", "4"]
    app([*common, "--context", "200", "--memory", "old.json", "--out", "helped"], standalone_mode=False)
    assert "solved with memory" in capsys.readouterr().out
