"""Every guide that ships trains in a whole run, from its table in a config to the episodes on disk."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from turngate.config import Config
from turngate.run.job import Job
from turngate.runs import RunFolder
from turngate.store import Store
from turngate.trainer.guidance import GuidePart
from turngate.types import Source

SOLVED_ALONE = {"questa": 0}
GUIDES: dict[str, dict[str, object]] = {
    "ladder": {"exempt_steps": 0},
    "guide": {"strip": False},
    "sage": {},
    "sage_light": {"by": "env"},
    "ghpo": {},
    "questa": {"stage_steps": 1},
    "seele": {},
    "stephint": {},
    "g2rpo_a": {},
    "bread": {},
    "oracle_prefix": {},
    "reverse_curriculum": {"by": "env"},
    "luffy": {},
    "acnchor": {},
    "reflect": {"evidence": "right_key", "strip": False},
    "speed": {},
}


def config(folder: Path, name: str, **more: object) -> Config:
    return Config.model_validate(
        {
            "name": name,
            "folder": folder,
            "env": {"id": "turngate/Lock-v1"},
            "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300},
            "warm_start": {"episodes": 24, "epochs": 2, "episodes_per_batch": 8, "lr": 5e-3},
            "policy": {"turn_tokens": 8, "context": 256, "lanes": 8},
            "learner": {"lr": 1e-3},
            "train": {"steps": 2, "tasks_per_step": 3, "group_size": 8},
            "eval": {"tasks": 2},
            **more,
        }
    )


def train(settings: Config, start: RunFolder | None = None) -> RunFolder:
    Job(settings, Console(quiet=True), start=start).run()
    return RunFolder(settings.folder / settings.name)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run whose warm-started model the others begin from."""
    settings = config(tmp_path_factory.mktemp("runs"), "start")
    return train(settings.model_copy(update={"train": settings.train.model_copy(update={"steps": 0})}))


def rows(run: RunFolder) -> list[dict[str, float]]:
    return [json.loads(line) for line in run.metrics.read_text().splitlines()]


def without_clocks(run: RunFolder) -> list[dict[str, float]]:
    return [{key: value for key, value in row.items() if not key.startswith("time/")} for row in rows(run)]


def test_all_guides_are_tried_here() -> None:
    assert set(GUIDES) == {kind for kind in GuidePart.types if ":" not in kind} - {"none"}


@pytest.mark.parametrize("kind", GUIDES)
def test_a_guide_trains_a_whole_run(kind: str, begun: RunFolder, tmp_path: Path) -> None:
    run = train(config(tmp_path, kind, guide={"type": kind, **GUIDES[kind]}), begun)
    for step, row in enumerate(rows(run), 1):
        learned = list(Store(run.path).read(step, "train"))
        assert row["guide/sampled"] == row["guide/kept"] + sum(
            row[f"guide/{reason}"] for reason in ("replaced", "tried", "failed_experts")
        )
        assert row["guide/kept"] == sum(len(group.trajectories) for group in learned)
        assert 0 <= row["guide/guided_share"] <= 1
        assert row["guide/failed_experts"] == 0
        for group in learned:
            assert all(one.ending.usable for one in group.trajectories), group.trajectories[0].error
            for one in group.trajectories:
                forced = sum((turn.source == Source.GUIDE).any() for turn in one.turns)
                prefixed = one.guidance is not None and one.guidance.kind in ("prefix", "expert", "correction")
                assert forced == (one.guidance.level if prefixed and one.guidance else 0)
    if kind != "speed":
        assert max(row["guide/guided_share"] for row in rows(run)) > 0
    evaluated = [
        one
        for phase in ("before-heldout-sampled", "after-heldout-greedy")
        for group in Store(run.path).read(None, phase)
        for one in group.trajectories
    ]
    assert evaluated
    assert {one.guidance for one in evaluated} == {None}
