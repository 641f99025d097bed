"""Votes across two wordings of a question, from a config to the stored evidence."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from turngate.config.run_config import parse
from turngate.envs.lock import LockTasks
from turngate.errors import RunError
from turngate.run.job import Job
from turngate.store import Store
from turngate.types import Task

RUBRIC = {
    "rewards": [
        {"type": "from_evidence", "name": "agrees", "evidence": "agrees", "kind": "outcome", "levels": [0, 1]},
    ]
}


def two_wordings(*, n: int = 4) -> list[Task]:
    """Every lock twice: the same dials, asked for in two ways; neighbours are a pair."""
    found = []
    for split in ("train", "heldout"):
        for index in range(n):
            lock = LockTasks().task(split, index)
            for wording, prompt in (("a", lock.prompt), ("b", "Press the key of each colour, so that it opens.")):
                private = {**lock.private, "pair": index}
                found.append(
                    Task(id=f"{lock.id}~{wording}", env_id=lock.env_id, prompt=prompt, private=private, split=split)
                )
    return found


def config(folder: Path, **env: Any) -> dict[str, Any]:
    tasks = {"type": f"{__name__}:two_wordings", "n": 4}
    return {
        "name": "votes",
        "folder": str(folder),
        "model": {"layers": 1, "width": 16, "heads": 2, "vocabulary": 300},
        "env": {"id": "turngate/Lock-v1", "tasks": tasks, "rubric": RUBRIC, "together": 2, **env},
        "warm_start": {"episodes": 8, "epochs": 1},
        "policy": {"turn_tokens": 4, "context": 100, "concurrency": 8},
        "examine": [{"type": "paraphrase_votes"}],
        "train": {"steps": 2, "tasks_per_step": 4, "group_size": 4},
        "eval": {"tasks": 4},
    }


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """This very module under its name, as a module of the user's would be."""
    import sys

    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])


@pytest.mark.usefixtures("importable")
def test_both_wordings_come_in_one_step_and_vote_on_each_other(tmp_path: Path):
    with pytest.raises(RunError, match="no episode of 2 steps could be scored"):  # nobody agrees with anybody
        Job(parse(config(tmp_path)), Console(quiet=True)).run()
    for step in (1, 2):
        groups = list(Store(tmp_path / "votes").read(step, "train"))
        pairs = sorted(group.task.id.rpartition("~")[0] for group in groups)
        assert pairs[0::2] == pairs[1::2]
        votes = [
            fact.value
            for group in groups
            for trajectory in group.trajectories
            for fact in trajectory.evidence
            if fact.name == "agrees_votes" and isinstance(fact.value, dict)
        ]
        assert len(votes) == 16
        assert {vote["of"] for vote in votes} == {4}  # the siblings of the other wording
