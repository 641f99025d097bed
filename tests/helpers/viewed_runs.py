"""Runs that the page shows: two real ones on the toy, and one whose episodes hold whatever a model may write."""

import dataclasses
import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from turngate.config.run_config import dump, parse
from turngate.run.job import Job
from turngate.store import Store
from turngate.types import (
    Action,
    Completion,
    EndedBy,
    Ending,
    Evidence,
    Guidance,
    Observation,
    RewardEvent,
    Score,
    ScoredGroup,
    Task,
    ToolCall,
    Trajectory,
    Turn,
)

HOSTILE = (
    "<script>window.taken = 1</script>",
    "</script><img src=x onerror='window.taken = 1'>",
    "\x1b[31mred\x1b[0m \x07",
    "right \u202e to left \u2066 mark",
    "nul \x00 half \ud83d end",
    "&lt;b&gt; <b>bold</b> <!-- --> ]]>",
    "javascript:alert(1) \"quoted\" 'and' `so`",
)


def settings(folder: Path, name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "folder": str(folder),
        "env": {"id": "turngate/Lock-v1"},
        "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300},
        "warm_start": {"episodes": 48, "epochs": 3, "episodes_per_batch": 8, "lr": 5e-3},
        "policy": {"turn_tokens": 8, "context": 800, "concurrency": 8},
        "learner": {"lr": 1e-3},
        "train": {"steps": 2, "tasks_per_step": 2, "group_size": 4},
        "eval": {"tasks": 3},
    } | more


def two_runs(folder: Path) -> tuple[Path, Path]:
    """A run with hints and one whose episodes branch off each other, both trained for two steps."""
    hinted = {"guide": {"type": "ladder", "exempt_steps": 0, "strip": True}, "credit": {"type": "gigpo"}}
    branched = {"branching": {"type": "tree_grpo"}, "credit": {"type": "tree_grpo"}}
    for name, more in (("hinted", hinted), ("branched", branched)):
        Job(parse(settings(folder, name, **more)), Console(quiet=True)).run()
    return folder / "hinted", folder / "branched"


def recorded(folder: Path, groups: list[ScoredGroup], *, name: str = "made", step: int = 1) -> Path:
    """A run with these episodes as its step, and nothing else."""
    run = folder / name
    run.mkdir(parents=True, exist_ok=True)
    (run / "config.toml").write_text(dump(parse(settings(folder, name))))
    Store(run).write(step, groups)
    return run


def turn(text: str, seen: str, *, hint: Guidance | None = None, calls: tuple[ToolCall, ...] = ()) -> Turn:
    return Turn(
        observation=Observation(text=seen, state_key=seen[:40] or "s"),
        context_ids=np.zeros(2, np.int32),
        completion=Completion(
            ids_K=np.arange(3, dtype=np.int32),
            logprobs_K=np.array([-0.1, -2.0, np.nan], np.float32),
            ended_by=EndedBy.STOP,
            policy_version=1,
            text=text,
        ),
        source=np.array([0, 0, 1, 1, 1], np.uint8),
        action=Action(text=text, calls=calls),
        guidance=hint,
    )


def episode(name: str, task: Task, turns: tuple[Turn, ...], outcome: float = 0.0) -> tuple[Trajectory, Score]:
    trajectory = Trajectory(
        id=name,
        task=task,
        turns=turns,
        ending=Ending.FINISHED,
        seed=1,
        evidence=(Evidence(name="opened", value=outcome == 1.0, by="verifier"),),
        guidance=turns[0].guidance if turns else None,
    )
    ledger = (
        RewardEvent(name="opened", kind="outcome", turn=None, value=outcome, weight=1.0),
        RewardEvent(name="right_key", kind="process", turn=0, value=1.0, weight=0.1, factor=outcome, gate="shut"),
    )
    reward_T = np.zeros(len(turns), np.float32)
    reward_T[-1:] = outcome
    return trajectory, Score(ledger=ledger, reward_T=reward_T, outcome=outcome, usable=True)


def group(task: Task, played: list[tuple[Trajectory, Score]]) -> ScoredGroup:
    return ScoredGroup(task=task, trajectories=tuple(t for t, _ in played), scores=tuple(s for _, s in played))


def hostile_groups() -> list[ScoredGroup]:
    """Every text of ``HOSTILE`` in every place that holds a text, and a line of a million characters."""
    groups = []
    for number, text in enumerate(HOSTILE):
        task = Task(id=f"task {text}", env_id="turngate/Lock-v1", prompt=text)
        hint = Guidance(kind="hint", level=1, text=text, source=text)
        calls = (ToolCall(name=text, arguments={text: [text]}),)
        turns = (turn(text, text, hint=hint, calls=calls), turn("a" * 1_000_000 if number == 0 else text, text))
        played = [episode(f"{number}{sibling} {text}", task, turns, float(sibling == 1)) for sibling in range(2)]
        facts = (Evidence(name=text, value={text: text}, turn=0, by="judge"),)
        played = [(dataclasses.replace(t, evidence=(*t.evidence, *facts), error=text), s) for t, s in played]
        groups.append(group(task, played))
    return groups


def many_groups(n: int, *, turns: int, siblings: int = 8, first: int = 0) -> list[ScoredGroup]:
    """So many groups with turns like those of a tool-using agent, about 400 characters each."""
    words = "the table of orders has a column for each customer and the total is the sum of its rows".split()
    found = []
    for number in range(first, first + n):
        task = Task(id=f"task/{number}", env_id="turngate/Lock-v1", prompt="Answer the question.")
        rng = np.random.default_rng(number)
        draw = functools.partial(rng.choice, words)
        played = []
        for sibling in range(siblings):
            own = tuple(turn(" ".join(draw(20)), " ".join(draw(60))) for _ in range(turns))
            played.append(episode(f"task/{number}#{sibling}", task, own, float(rng.random() < 0.4)))
        found.append(group(task, played))
    return found


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address at which ``turngate view`` shows a folder."""
    import socket

    import uvicorn

    from turngate.cli.view_runs import PARTS
    from turngate.report.viewer.live_runs import LiveRuns
    from turngate.report.viewer.view_server import view_app

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        app = view_app(LiveRuns(folder, PARTS), port)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{port}/"
        finally:
            server.should_exit = True
            thread.join()
