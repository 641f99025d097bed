"""What a replay needs beside the actions: the seed of the environment, and nothing outside of it that answers."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import turngate
from tests.helpers.command_line import turngate_at
from tests.helpers.planted import planted
from turngate.config.run_config import parse
from turngate.config.sections import EnvSection
from turngate.errors import ReplayRefused
from turngate.run.environments import Environments
from turngate.run.job import Job
from turngate.run.replay.replayed_actions import first_seed, refuse_outside
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.types import Ending, Task, Trajectory

ROOT = Path(__file__).resolve().parents[2]
SERVER = {"type": "server", "url": "http://localhost:9/v1", "model": "m"}
FUNCTION = {"type": "function", "path": "builtins:str"}
STOCK = str(ROOT / "tests/envs/tooluse/stock_server.py")


def refusal(section: dict) -> str:
    """Why the first task of an environment cannot be replayed; "" if it can."""
    with Environments([EnvSection.model_validate(section)], trained=False) as environments:
        ((label, env),) = environments
        task = environments.task(label, env.tasks.splits[0], 0)
        try:
            refuse_outside(environments, [task])
        except ReplayRefused as refused:
            return str(refused)
    return ""


def search(retriever: object) -> dict:
    return {"id": "turngate/Search-v1", "kwargs": {"retriever": retriever}}


def desk(user: object) -> dict:
    return {"id": "turngate/ToolUse-v1", "tasks": {"type": "helpdesk", "user": user}}


def router(folder: Path, text_model: object) -> dict:
    file = folder / "questions.jsonl"
    file.write_text('{"prompt": "1 and 1?", "answers": ["2"]}\n' * 1)
    models = [{"name": "small", "price": 0.1, "text_model": text_model}]
    return {
        "id": "turngate/Router-v1",
        "kwargs": {"models": models},
        "tasks": {"type": "routing_questions", "file": str(file), "held_out": 0},
    }


def over_mcp(folder: Path) -> dict:
    file = folder / "tasks.jsonl"
    row = '{"id": "1", "prompt": "How many apples?", "goal": {"type": "answer", "answer": "3"}}\n'
    file.write_text(row)
    tools = {"type": "mcp_stdio", "command": [sys.executable, STOCK]}
    return {
        "id": "turngate/ToolUse-v1",
        "kwargs": {"tools": tools},
        "tasks": {"type": "tool_tasks", "file": str(file), "held_out": 0},
    }


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        (
            search({"type": "server", "url": "http://localhost:9/retrieve"}),
            "the retrieval server at http://localhost:9",
        ),
        (search({"type": "written", "text_model": SERVER}), "a model, which writes the passages"),
        (desk({"type": "model", "judge": SERVER}), "a model, which plays the user"),
        (search({"type": "written", "text_model": FUNCTION}), ""),
        (search("self"), ""),
        (search("bm25"), ""),
        (desk("scripted"), ""),
        ({"id": "turngate/Lock-v1"}, ""),
        ({"id": "turngate/Sql-v1"}, ""),
        ({"id": "turngate/Router-v1"}, ""),
        ({"id": "turngate/ToolUse-v1"}, ""),
    ],
)
def test_what_answers_from_outside_is_named(section: dict, reason: str):
    found = refusal(section)
    assert reason in found if reason else not found


def test_a_model_to_ask_and_an_mcp_server_are_named(tmp_path: Path):
    assert "the model 'small', which the agent asks" in refusal(router(tmp_path, SERVER))
    assert refusal(router(tmp_path, FUNCTION)) == ""
    found = refusal(over_mcp(tmp_path))
    assert "the MCP server" in found
    assert "stock_server.py" in found


def test_other_machines_are_named():
    env = turngate.make("turngate/Lock-v1")
    env.turn_spec = turngate.TurnSpec(rubric=env.turn_spec.rubric, max_turns=4, side_effects="external")
    assert 'side_effects are "external"' in env.outside(env.tasks.task("train", 0))


def config(folder: Path, **changes: Any) -> dict[str, Any]:
    """A run of one step whose environment draws numbers."""
    return {
        "name": "run",
        "folder": str(folder),
        "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300},
        "env": {"id": "tests.helpers.drawn_lock:test/DrawnLock-v0"},
        "warm_start": {"episodes": 48, "epochs": 3, "episodes_per_batch": 8, "lr": 1e-2},
        "policy": {"turn_tokens": 8, "context": 400, "concurrency": 8},
        "train": {"steps": 1, "tasks_per_step": 2, "group_size": 6},
        "eval": {"tasks": 1},
    } | changes


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run that has done the warm start only."""
    folder = tmp_path_factory.mktemp("start")
    Job(parse(config(folder, train={"steps": 0})), Console(quiet=True)).run()
    return RunFolder(folder / "run")


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, "sampled"),
        ({"branching": {"type": "tree_grpo"}, "credit": {"type": "tree_grpo"}}, "branch"),
        ({"branching": {"type": "rise"}}, "branch"),
        ({"guide": {"type": "reflect", "evidence": "right_key"}, "credit": {"type": "r3l"}}, "branch"),
        ({"guide": {"type": "oracle_prefix"}}, "helped"),
        ({"guide": {"type": "guide"}}, "helped"),
        ({"policy": {"turn_tokens": 8, "context": 40, "concurrency": 8}}, "cut"),
    ],
    ids=lambda value: "" if isinstance(value, str) else "-".join(str(one.get("type", "")) for one in value.values()),
)
def test_whoever_took_the_turns_the_episodes_replay(
    tmp_path: Path, started: RunFolder, changes: dict[str, Any], kind: str
):
    """Branches, second attempts, retries, given turns, hints and episodes that were cut short, in an environment that
    shows something else under another seed."""
    Job(parse(config(tmp_path, **changes)), Console(quiet=True), start=started).run()
    (tmp_path / "run" / "warm_start").symlink_to(started.warm_start)
    episodes = [one for group in Store(tmp_path / "run").read() for one in group.trajectories]
    happened = {
        "sampled": True,
        "branch": any(one.parent is not None for one in episodes),
        "helped": any(one.guidance is not None for one in episodes),
        "cut": any(one.ending is Ending.TOKEN_BUDGET for one in episodes),
    }
    assert happened[kind]
    assert turngate_at(tmp_path, "replay", "run", "--json", "found.json") == 0
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["identical"], found["left_out"]) == (len(episodes), {})


def test_a_wrong_seed_is_seen(tmp_path: Path, started: RunFolder):
    """The environment of these tests shows it: else they would say nothing of the seeds of branches."""
    folder = started.path.parent

    def other_seed(one, score):
        return replace(one, seed=one.seed + 1), score

    planted(folder / "run", tmp_path / "planted", other_seed, phase="before-heldout-sampled", step=0)
    assert turngate_at(tmp_path, "replay", "planted", "--json", "found.json") == 1
    (one,) = json.loads((tmp_path / "found.json").read_text())["diverged"]
    assert (one["turn"], one["what"]) == (0, "state key")


def episode(name: str, seed: int, parent: tuple[str, int] | None = None) -> Trajectory:
    task = Task(id="t", env_id="e", prompt="p")
    return Trajectory(id=name, task=task, turns=(), ending=Ending.FINISHED, seed=seed, parent=parent)


def test_the_seed_of_an_episode_that_left_an_unknown_one_is_not_known():
    first, lost = episode("a", 1), episode("b", 2, ("gone", 1))
    assert first_seed(first, {"a": first}) == 1
    assert first_seed(lost, {"b": lost}) is None
