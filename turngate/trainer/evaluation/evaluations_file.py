"""``evaluations.jsonl`` of a run: one line per evaluation. A rename replaces the file, so no line is incomplete."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from turngate.errors import DataError
from turngate.jsonl import read_text
from turngate.store import write_text_atomic
from turngate.store.folder import RunFolder
from turngate.trainer.evaluation.evaluate import Evaluation

WITH_MEMORY = "with memory"
"""Phase of the evaluations after training in which episodes are shown the experience memory."""


def read_evaluations(run: Path) -> list[tuple[str, Evaluation]]:
    """(phase, evaluation) in the order in which they were made. Raises DataError for a line that is not one."""
    file = RunFolder(run).evaluations
    lines = read_text(file).splitlines() if file.exists() else []
    return [_read(file, number, line) for number, line in enumerate(lines, start=1)]


def add_evaluation(run: Path, phase: str, evaluation: Evaluation) -> None:
    """Append an evaluation, its number of episodes and its two rates, of usable and of all episodes; null for none."""
    file = RunFolder(run).evaluations
    before = read_text(file) if file.exists() else ""
    rates = {"rate": evaluation.rate, "rate_of_all": evaluation.rate_of_all}
    known = {name: None if math.isnan(rate) else rate for name, rate in rates.items()}
    row = {"phase": phase, **known, "episodes": evaluation.episodes, **asdict(evaluation)}
    write_text_atomic(file, before + json.dumps(row) + "\n")


def forget_evaluations(run: Path, phase: str) -> None:
    """Drop the evaluations of one phase, before it is played again."""
    file = RunFolder(run).evaluations
    lines = read_text(file).splitlines(keepends=True) if file.exists() else []
    if kept := [line for number, line in enumerate(lines, start=1) if _read(file, number, line)[0] != phase]:
        write_text_atomic(file, "".join(kept))


def _read(file: Path, number: int, line: str) -> tuple[str, Evaluation]:
    try:
        row = _completed(json.loads(line))
        columns = {field.name: row[field.name] for field in fields(Evaluation)}
        columns |= {name: tuple(row[name]) for name in ("success_B", "task_B", "question_B")}
        return str(row["phase"]), Evaluation(**columns)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataError(file, f"not an evaluation: {error}", line=number) from error


def _completed(row: dict[str, Any]) -> dict[str, Any]:
    """A line with the fields that older runs lack: usable episodes show all tasks and questions only if none broke."""
    whole = not row["unusable"]
    tasks = len({*row["task_B"]}) if whole else None
    questions = len({*row["question_B"]}) if whole and "question_B" in row else None
    absent = dict.fromkeys(("abstention", "withheld_rules", "withheld_tasks"))
    return {"tasks": tasks, "questions": questions, "question_B": row["task_B"], **absent, **row}


def withheld_line(evaluation: Evaluation) -> str:
    """How much of an experience memory was not shown, in words; "" where there was no memory."""
    rules, tasks = evaluation.withheld_rules, evaluation.withheld_tasks
    if rules is None or tasks is None:
        return ""
    if not rules:
        return "no rule of the memory was withheld: none holds the answer of its task"
    return (
        f"{rules} {'rule' if rules == 1 else 'rules'} of the memory withheld from {tasks} "
        f"{'task' if tasks == 1 else 'tasks'}: they hold the task's answer, or speak in another voice"
    )


def withheld_lines(run: Path) -> list[str]:
    """The same for every evaluation of a run with a memory, each after its phase, split and temperature."""
    return [
        f"{phase}, {one.split}, temperature {one.temperature:g}: {line}"
        for phase, one in read_evaluations(run)
        if (line := withheld_line(one))
    ]
