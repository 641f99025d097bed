"""An agent that ends the process of its environment loses that episode; the run goes on and leaves nothing behind.

``turngate train`` as a user starts it, on ``Sql-v1`` with a planted crash: a subclass of the environment that is sent
SIGSEGV at the first action that is no call of a tool, which is what an untrained model writes.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import tomli_w

from tests.helpers.sessions import in_own_session
from turngate.store import Store
from turngate.types import Ending

PLANTED = '''
import os, signal
import turngate
from turngate.envs.sql.env import SqlEnv


class Planted(SqlEnv):
    """Ends its process once in all, and writes down which processes there were."""

    def __init__(self, *, notes, **settings):
        super().__init__(**settings)
        self.notes = notes
        with open(f"{notes}/processes", "a") as file:
            file.write(f"{os.getpid()}\\\\n")

    def act(self, action):
        if action.parse_error is not None:
            try:
                os.close(os.open(f"{self.notes}/died", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return super().act(action)
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().act(action)


def register_all():
    turngate.register("planted/Sql-v0", "planted:Planted", description="Dies once.")
'''.replace("\\\\", "\\")
CONFIG: dict[str, Any] = {
    "name": "dying",
    "folder": "runs",
    "env": {
        "id": "planted/Sql-v0",
        "isolation": "process",
        "tasks": {"type": "generated_sql", "families": ["shop"], "max_level": 1},
    },
    "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300},
    "warm_start": {"episodes": 4, "epochs": 1, "lr": 5e-3},
    "policy": {"turn_tokens": 8, "context": 512, "concurrency": 4},
    "train": {"steps": 2, "tasks_per_step": 2, "group_size": 2, "filters": []},
    "eval": {"tasks": 2},
}


def test_a_process_that_dies_costs_one_episode(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(PLANTED)
    info = tmp_path / "planted-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[turngate.envs]\nplanted = planted:register_all\n")
    config = {**CONFIG, "env": {**CONFIG["env"], "kwargs": {"notes": str(tmp_path)}}}
    (tmp_path / "dying.toml").write_text(tomli_w.dumps(config))
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "turngate", "train", "dying.toml"]
    done = in_own_session(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "died").exists()

    run = tmp_path / "runs" / "dying"
    groups = list(Store(run).read())
    played = [(one, score) for group in groups for one, score in zip(group.trajectories, group.scores, strict=True)]
    faults = [(one, score) for one, score in played if one.ending is Ending.AGENT_FAULT]
    assert len(faults) == 1
    (one, score) = faults[0]
    said = {fact.name: fact.value for fact in one.evidence}
    assert "the environment's process was ended by signal SIGSEGV during 'step'" in said["agent_fault"]
    assert (score.usable, score.outcome) == (True, 0.0)
    assert all(other.usable and not trajectory.error for trajectory, other in played if trajectory is not one)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2]
    processes = [int(pid) for pid in (tmp_path / "processes").read_text().split()]
    assert len(processes) >= 2
    assert [pid for pid in processes if _alive(pid)] == []


def _alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
