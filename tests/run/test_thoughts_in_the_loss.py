"""GTR's objective in whole runs: which tokens are thoughts comes from the episodes, and it changes what is learned."""

from pathlib import Path
from typing import Any

from rich.console import Console

from tests.helpers.command_line import turngate
from turngate.config.run_config import parse
from turngate.jsonl import read_rows
from turngate.run.job import Job
from turngate.store import Store


def run(folder: Path, objective: object, **loss: Any) -> list[dict[str, Any]]:
    settings = {
        "name": "thinks",
        "folder": str(folder),
        "model": {"layers": 1, "width": 16, "heads": 2, "vocabulary": 300},
        "env": {"id": "tests.helpers.thinking_lock:test/ThinkingLock-v0"},
        "warm_start": {"episodes": 8, "epochs": 1},
        "policy": {"turn_tokens": 8, "context": 200, "concurrency": 8},
        "learner": {"lr": 1e-2},
        "credit": "tests.helpers.thinking_lock:alternating",
        "loss": {"objective": objective, "aggregate": "turn", **loss},
        "train": {"steps": 2, "tasks_per_step": 2, "group_size": 4, "filters": [], "minibatches": 2},
        "eval": {"tasks": 1},
    }
    Job(parse(settings), Console(quiet=True)).run()
    return [row for _, row in read_rows(folder / "thinks" / "metrics.jsonl")]


def test_thoughts_weigh_less_in_a_run(tmp_path: Path) -> None:
    light = run(tmp_path / "light", {"type": "gtr"})
    heavy = run(tmp_path / "heavy", {"type": "gtr", "thought_weight": 1.0})
    for row in light:
        assert 0.2 < row["policy/thought_share"] < 0.6
        assert row["learner/grad_norm"] > 0
    assert light[0]["policy/thought_share"] == heavy[0]["policy/thought_share"]
    assert light[0]["learner/grad_norm"] != heavy[0]["learner/grad_norm"]
    assert "policy/thought_share" not in run(tmp_path / "clipped", "clipped")[0]


def test_the_gradient_of_a_recorded_step_knows_the_thoughts(tmp_path: Path, capsys) -> None:
    run(tmp_path, {"type": "gtr"})
    name = next(iter(Store(tmp_path / "thinks").read(1, "train"))).trajectories[0].id
    command = ("credit", tmp_path / "thinks", "--method", "rloo", "--trajectory", name, "--probe", 0)
    assert turngate(*command) in (0, 1)
    assert "gradient by the weights that played it" in capsys.readouterr().out
