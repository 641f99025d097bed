"""The evaluations of a run on disk: ``evaluations.jsonl``, one line each, replaced whole so it never ends in half."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from turngate.runs import RunFolder
from turngate.store import write_text_atomic
from turngate.trainer.evaluate import Evaluation


def read_evaluations(run: Path) -> list[tuple[str, Evaluation]]:
    """(phase, evaluation) in the order in which they were made. Their rates follow from the episodes, also here."""
    file = RunFolder(run).evaluations
    lines = file.read_text().splitlines() if file.exists() else []
    return [_read(json.loads(line)) for line in lines]


def add_evaluation(run: Path, phase: str, evaluation: Evaluation) -> None:
    """Record one more, with both of its rates; null where no episode could be used."""
    file = RunFolder(run).evaluations
    before = file.read_text() if file.exists() else ""
    rates = {"rate": evaluation.rate, "rate_of_all": evaluation.rate_of_all}
    known = {name: None if math.isnan(rate) else rate for name, rate in rates.items()}
    write_text_atomic(file, before + json.dumps({"phase": phase, **known, **asdict(evaluation)}) + "\n")


def _read(row: Mapping[str, Any]) -> tuple[str, Evaluation]:
    columns = {field.name: row[field.name] for field in fields(Evaluation)}
    columns |= {"success_B": tuple(row["success_B"]), "task_B": tuple(row["task_B"])}
    return row["phase"], Evaluation(**columns)
