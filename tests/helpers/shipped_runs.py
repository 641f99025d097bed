"""A real, small run of each environment that ships, for tests that open all of them."""

from pathlib import Path
from typing import Any

from rich.console import Console

from tests.helpers.viewed_runs import settings
from turngate.config.run_config import parse
from turngate.run.job import Job

ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "Lock-v1": {},
    "Sql-v1": {"tasks": {"type": "lookup_sql", "families": ["parcels"], "max_level": 1}},
    "CodeRepair-v1": {
        "kwargs": {"max_turns": 4},
        "tasks": {"type": "generated_code", "families": ["clamp"], "max_level": 1},
    },
    "Search-v1": {
        "kwargs": {"max_turns": 4},
        "tasks": {"type": "generated_search", "max_hops": 1, "size": 12, "worlds": 2},
    },
    "ToolUse-v1": {"kwargs": {"max_turns": 4}, "tasks": {"type": "lending"}},
    "Router-v1": {"kwargs": {"max_turns": 3}, "tasks": {"type": "generated_routing", "easy": True}},
    "Planned-v1": {"kwargs": {"stage": 3}},
    "Web-v1": {
        "kwargs": {"max_turns": 5},
        "tasks": {
            "type": "miniwob",
            "pages": ["enter-password", "login-user"],
            "seeds": 10,
            "held_out": 2,
        },
    },
}
"""Id without its prefix → its settings, small tasks each. A test compares the names with the registry."""


def shipped_run(folder: Path, name: str) -> Path:
    """One training step of an environment with a tiny model, two tasks of four siblings, of which some begin with turns
    of the oracle, so that calls and their results are there."""
    more = {
        "env": {"id": f"turngate/{name}", **ENVIRONMENTS[name]},
        "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 400},
        "warm_start": {"episodes": 2, "epochs": 1},
        "policy": {"turn_tokens": 8, "context": 2000, "concurrency": 4},
        "guide": {"type": "oracle_prefix"},
        "train": {"steps": 1, "tasks_per_step": 1, "group_size": 4},
        "eval": {"tasks": 1},
    }
    Job(parse(settings(folder, name, **more)), Console(quiet=True)).run()
    return folder / name
