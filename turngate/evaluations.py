"""The evaluations of a run on disk: ``evaluations.jsonl``, one line each, replaced whole so it never ends in half."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from turngate.runs import RunFolder
from turngate.store import write_text_atomic
from turngate.trainer.evaluate import Evaluation


def read_evaluations(run: Path) -> list[tuple[str, Evaluation]]:
    """(phase, evaluation) in the order in which they were made."""
    file = RunFolder(run).evaluations
    lines = file.read_text().splitlines() if file.exists() else []
    rows = [json.loads(line) for line in lines]
    return [
        (
            row.pop("phase"),
            Evaluation(**row | {"success_B": tuple(row["success_B"]), "task_B": tuple(row["task_B"])}),
        )
        for row in rows
    ]


def add_evaluation(run: Path, phase: str, evaluation: Evaluation) -> None:
    """Record one more."""
    file = RunFolder(run).evaluations
    before = file.read_text() if file.exists() else ""
    write_text_atomic(file, before + json.dumps({"phase": phase, **asdict(evaluation)}) + "\n")
