"""Whatever an examiner does wrong in a real training run: facts are missing and counted, and the run ends as it should.

The examiners are a user's own, named by path. The run is a process of its own, so that what it leaves behind is seen.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from tests.helpers.sessions import in_own_session
from turngate.store import Store

OWN = """
import asyncio, math, os, subprocess, sys, threading, time
from turngate.examine.base import Examiner
from turngate.types import Evidence

class Base(Examiner):
    scope = "episode"
    deadline_s: float = 0.2
    @property
    def writes(self):
        return (type(self).__name__.lower(),)
    def facts(self, groups, value=1, name=None, turn=None):
        fact = Evidence(name=name or self.writes[0], value=value, turn=turn)
        return [[(fact,) for _ in group.trajectories] for group in groups]

class Honest(Base):
    async def examine(self, groups, desk):
        return self.facts(groups)

class Hangs(Base):
    async def examine(self, groups, desk):
        await asyncio.Event().wait()

class HangsInAThread(Base):
    scope = "batch"
    async def examine(self, groups, desk):
        await asyncio.to_thread(time.sleep, 3600)

class HangsInAProcess(Base):
    scope = "batch"
    async def examine(self, groups, desk):
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(3600)")
        try:
            await process.wait()
        finally:
            process.kill()
            await process.wait()

class NeverStops(Base):
    scope = "batch"
    async def examine(self, groups, desk):
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass

class Crashes(Base):
    async def examine(self, groups, desk):
        raise KeyError("no such episode")

class Exits(Base):
    async def examine(self, groups, desk):
        sys.exit(3)

class Invents(Base):
    async def examine(self, groups, desk):
        return self.facts(groups, name="opened", value=True)

class SaysNaN(Base):
    async def examine(self, groups, desk):
        return self.facts(groups, value=math.nan)

class ForALaterTurn(Base):
    async def examine(self, groups, desk):
        return self.facts(groups, turn=99)

class ForAnotherGroup(Base):
    scope = "batch"
    async def examine(self, groups, desk):
        return self.facts(groups[:1])

class ForOneEpisodeTooMany(Base):
    scope = "group"
    async def examine(self, groups, desk):
        return [[*row, *row[:1]] for row in self.facts(groups)]

class Sometimes(Base):
    async def examine(self, groups, desk):
        if "#0" in groups[0].trajectories[0].id:
            raise RuntimeError("not this one")
        return self.facts(groups, value=0)
"""
CONFIG: dict[str, Any] = {
    "name": "toy",
    "folder": "runs",
    "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300},
    "warm_start": {"episodes": 12, "epochs": 2, "lr": 5e-3},
    "policy": {"turn_tokens": 8, "context": 160, "lanes": 8},
    "credit": "rloo",
    "train": {"steps": 2, "tasks_per_step": 2, "group_size": 3, "filters": []},
    "eval": {"splits": []},
}
BAD = """
    Hangs HangsInAThread HangsInAProcess Crashes Exits Invents SaysNaN ForALaterTurn ForAnotherGroup
    ForOneEpisodeTooMany
""".split()


def train(folder: Path, examiners: list[str], *, outcome: str = "opened", **changes: Any) -> Path:
    """Train the toy with a rubric that reads whatever these examiners record; the folder of the run."""
    names = [name.lower() for name in examiners if name.lower() != outcome]
    levels = {"type": "from_evidence", "kind": "outcome", "levels": [0, 1]}
    paid = [{"type": "from_evidence", "name": name, "evidence": name, "weight": 0.01} for name in names]
    rubric = {"rewards": [{**levels, "name": outcome, "evidence": outcome}, *paid]}
    examine = [{"type": f"own:{name}"} for name in examiners]
    config = {**CONFIG, "env": {"id": "turngate/Lock-v1", "rubric": rubric}, "examine": examine, **changes}
    (folder / "own.py").write_text(OWN)
    (folder / "config.toml").write_text(tomli_w.dumps(config))
    command = [sys.executable, "-m", "turngate", "train", "config.toml"]
    done = in_own_session(command, cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "errors.txt").write_text(done.stderr)
    return folder / "runs" / "toy"


def metrics(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_whoever_hangs_lies_crashes_or_answers_for_another_episode_costs_only_its_facts(tmp_path: Path) -> None:
    run = train(tmp_path, ["Honest", *BAD])
    assert (run / "model").exists()
    rows, bad = metrics(run), [name.lower() for name in BAD]
    assert len(rows) == 2
    for row in rows:
        assert (row["examine/honest/failed"], row["examine/honest/missing_share"]) == (0, 0)
        assert row["train/unusable_share"] == 0
        for name in bad:
            assert row[f"examine/{name}/failed"] >= 1, name
            assert row[f"examine/{name}/missing_share"] == 1, name
    groups = list(Store(run).read(None, "train"))
    assert len(groups) == 4
    for group in groups:
        for one, score in zip(group.trajectories, group.scores, strict=True):
            found = {name: [fact.value for fact in one.evidence if fact.name == name] for name in ["honest", *bad]}
            assert found == {"honest": [1], **{name: [None] for name in bad}}
            assert sum(fact.name == "opened" for fact in one.evidence) == 1  # what was measured stays what it was
            paid = {event.name for event in score.ledger}
            assert paid == {"opened", "honest"}  # missing is not zero: nothing was earned, not 0
    errors = (tmp_path / "errors.txt").read_text()
    assert "examiner 'hangs' (own:Hangs): no answer within 0.2 s; its facts about task 'lock/train/" in errors
    assert "Traceback" not in errors


def test_an_examiner_that_cannot_be_stopped_does_not_keep_the_run_from_ending(tmp_path: Path) -> None:
    run = train(tmp_path, ["NeverStops"], train={**CONFIG["train"], "steps": 1})
    (row,) = metrics(run)
    assert (row["examine/neverstops/failed"], row["examine/neverstops/missing_share"]) == (1, 1)
    assert (run / "model").exists()
    assert "an examiner did not stop when it was cancelled" in (tmp_path / "errors.txt").read_text()


def test_a_missing_outcome_makes_the_episode_unusable_and_is_counted(tmp_path: Path) -> None:
    """One of three siblings has no verdict: it is dropped, and a verdict of 0 is something else."""
    run = train(tmp_path, ["Sometimes"], outcome="sometimes")
    for row in metrics(run):
        assert row["examine/sometimes/failed"] == 2
        assert row["examine/sometimes/missing_share"] == pytest.approx(1 / 3)
        assert row["train/unusable_share"] == pytest.approx(1 / 3)
        assert row["drop/unusable_trajectories"] == 2
    for group in Store(run).read(None, "train"):
        for one, score in zip(group.trajectories, group.scores, strict=True):
            first = "#0" in one.id
            assert (score.usable, score.outcome) == ((False, None) if first else (True, 0.0))
