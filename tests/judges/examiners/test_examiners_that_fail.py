"""Whatever an examiner does wrong in a real training run: facts are missing and counted, and the run ends as it should.

The examiners are a user's own, named by path. The run is a process of its own, so that what it leaves behind is seen.
"""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from tests.helpers.forked_commands import Forks
from tests.helpers.sessions import in_own_session, to_its_end
from turngate.store import Store

OWN = """
import asyncio, math, os, subprocess, sys, threading, time
from turngate.judges.examiners.base import Examiner
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
    async def examine(self, groups, context):
        return self.facts(groups)

class Hangs(Base):
    async def examine(self, groups, context):
        await asyncio.Event().wait()

class HangsInAThread(Base):
    scope = "batch"
    async def examine(self, groups, context):
        await asyncio.to_thread(time.sleep, 3600)

class HangsInAProcess(Base):
    scope = "batch"
    async def examine(self, groups, context):
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(3600)")
        try:
            await process.wait()
        finally:
            process.kill()
            await process.wait()

class NeverStops(Base):
    scope = "batch"
    async def examine(self, groups, context):
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass

class Broken(Base):
    always: bool = False
    async def examine(self, groups, context):
        wrong = self.always or "#0" in groups[0].trajectories[0].id
        return self.wrong(groups) if wrong else self.facts(groups)

class Crashes(Broken):
    def wrong(self, groups):
        raise KeyError("no such episode")

class Exits(Broken):
    def wrong(self, groups):
        sys.exit(3)

class Invents(Broken):
    def wrong(self, groups):
        return self.facts(groups, name="opened", value=True)

class SaysNaN(Broken):
    def wrong(self, groups):
        return self.facts(groups, value=math.nan)

class ForALaterTurn(Broken):
    def wrong(self, groups):
        return self.facts(groups, turn=99)

class ForNobody(Broken):
    def wrong(self, groups):
        return []

class ForOneEpisodeTooMany(Broken):
    def wrong(self, groups):
        return [[*row, *row[:1]] for row in self.facts(groups)]

class Down(Base):
    always: bool = True
    async def examine(self, groups, context):
        raise ConnectionRefusedError("nobody listens")

class Sometimes(Base):
    async def examine(self, groups, context):
        if "#0" in groups[0].trajectories[0].id:
            raise RuntimeError("not this one")
        return self.facts(groups, value=0)
"""
CONFIG: dict[str, Any] = {
    "name": "toy",
    "folder": "runs",
    "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300},
    "warm_start": {"episodes": 12, "epochs": 2, "lr": 5e-3},
    "policy": {"turn_tokens": 8, "context": 160, "concurrency": 8},
    "credit": "rloo",
    "train": {"steps": 2, "tasks_per_step": 2, "group_size": 3, "filters": []},
    "eval": {"splits": []},
}
HANG = "Hangs HangsInAThread HangsInAProcess".split()
BROKEN = "Crashes Exits Invents SaysNaN ForALaterTurn ForNobody ForOneEpisodeTooMany".split()


def train(
    folder: Path,
    examiners: list[str],
    forked: Forks | None,
    *,
    outcome: str = "opened",
    code: int = 0,
    **changes: Any,
) -> Path:
    """Train the toy with a rubric that reads whatever these examiners record; the folder of the run.

    ``forked``: None for an interpreter of its own, with an end of its own.
    """
    names = [name.lower() for name in examiners if name.lower() != outcome]
    levels = {"type": "from_evidence", "kind": "outcome", "levels": [0, 1]}
    paid = [{"type": "from_evidence", "name": name, "evidence": name, "weight": 0.01} for name in names]
    rubric = {"rewards": [{**levels, "name": outcome, "evidence": outcome}, *paid]}
    examine = [{"type": f"own:{name}", **({"always": True} if code else {})} for name in examiners]
    config = {**CONFIG, "env": {"id": "turngate/Lock-v1", "rubric": rubric}, "examine": examine, **changes}
    (folder / "own.py").write_text(OWN)
    (folder / "config.toml").write_text(tomli_w.dumps(config))
    if forked is None:
        done = in_own_session([sys.executable, "-m", "turngate", "train", "config.toml"], cwd=folder)
    else:
        env = {**os.environ, "PYTHONPATH": str(folder)}
        command = forked.start("train", "config.toml", cwd=folder, env=env, start_new_session=True)
        done = to_its_end(command, timeout_s=240.0)
    assert done.returncode == code, done.stderr
    (folder / "errors.txt").write_text(done.stderr)
    return folder / "runs" / "toy"


def metrics(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_whoever_hangs_lies_crashes_or_answers_for_another_episode_costs_only_its_facts(
    tmp_path: Path, forked: Forks
) -> None:
    run = train(tmp_path, ["Honest", *HANG, *BROKEN], forked)
    assert (run / "model").exists()
    rows, hang, broken = metrics(run), [name.lower() for name in HANG], [name.lower() for name in BROKEN]
    assert len(rows) == 2
    for row in rows:
        assert (row["examine/honest/failed"], row["examine/honest/missing_share"]) == (0, 0)
        assert row["train/unusable_share"] == 0
        for name in (*hang, *broken):
            assert row[f"examine/{name}/failed"] >= 1, name
            assert row[f"examine/{name}/missing_share"] == pytest.approx(1 if name in hang else 1 / 3), name
    groups = list(Store(run).read(None, "train"))
    assert len(groups) == 4
    for group in groups:
        for one, score in zip(group.trajectories, group.scores, strict=True):
            names = ["honest", *hang, *broken]
            found = {name: [fact.value for fact in one.evidence if fact.name == name] for name in names}
            told = [None] if "#0" in one.id else [1]
            assert found == {"honest": [1], **{name: [None] for name in hang}, **{name: told for name in broken}}
            assert sum(fact.name == "opened" for fact in one.evidence) == 1  # what was measured stays what it was
            paid = {event.name for event in score.ledger}
            earned = {"opened", "honest", *([] if "#0" in one.id else broken)}
            assert paid == earned  # missing is not zero: nothing was earned, not 0
    errors = (tmp_path / "errors.txt").read_text()
    assert "examiner 'hangs' (own:Hangs): no answer within 0.2 s; its facts about task 'lock/train/" in errors
    assert "Traceback" not in errors


def test_an_examiner_that_cannot_be_stopped_does_not_keep_the_run_from_ending(tmp_path: Path) -> None:
    run = train(tmp_path, ["NeverStops"], None, train={**CONFIG["train"], "steps": 1})
    (row,) = metrics(run)
    assert (row["examine/neverstops/failed"], row["examine/neverstops/missing_share"]) == (1, 1)
    assert (run / "model").exists()
    assert "an examiner did not stop when it was cancelled" in (tmp_path / "errors.txt").read_text()


def test_a_missing_outcome_makes_the_episode_unusable_and_is_counted(tmp_path: Path, forked: Forks) -> None:
    """One of three siblings has no verdict: it is dropped, and a verdict of 0 is something else."""
    run = train(tmp_path, ["Sometimes"], forked, outcome="sometimes")
    for row in metrics(run):
        assert row["examine/sometimes/failed"] == 2
        assert row["examine/sometimes/missing_share"] == pytest.approx(1 / 3)
        assert row["train/unusable_share"] == pytest.approx(1 / 3)
        assert row["drop/unusable_trajectories"] == 2
    for group in Store(run).read(None, "train"):
        for one, score in zip(group.trajectories, group.scores, strict=True):
            first = "#0" in one.id
            assert (score.usable, score.outcome) == ((False, None) if first else (True, 0.0))


def test_an_examiner_whose_code_fails_in_every_call_stops_the_run(tmp_path: Path, forked: Forks) -> None:
    run = train(tmp_path, ["Crashes"], forked, code=1)
    assert not (run / "model").exists()
    last = (tmp_path / "errors.txt").read_text().splitlines()[-1]
    assert re.fullmatch(
        r"RunError: examiner 'crashes' \(own:Crashes\) failed in all 6 calls of a step, by its own code and not by an "
        r"outage; the first: KeyError: 'no such episode' \(own\.py, line \d+\)",
        last,
    )


def test_a_run_of_which_no_episode_could_be_scored_does_not_end_well(tmp_path: Path, forked: Forks) -> None:
    run = train(tmp_path, ["Down"], forked, outcome="down", code=1)
    assert not (run / "model").exists()
    last = (tmp_path / "errors.txt").read_text().splitlines()[-1]
    assert last.startswith("RunError: no episode of 2 steps could be scored, so nothing was learned from rewards")
