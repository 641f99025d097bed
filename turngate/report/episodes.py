"""``episodes.csv``: every evaluated episode of some runs, so that a reader can compute a reported rate again.

``turngate report`` writes it for a run, its controls and its baselines; the studies in ``examples`` for all their runs.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from turngate.store import write_text_atomic
from turngate.trainer.evaluation.evaluate import Evaluation
from turngate.trainer.evaluation.evaluations_file import read_evaluations

COLUMNS = ("run", "seed", "split", "sampling", "phase", "task", "question", "success")


class PlayedEvaluation(NamedTuple):
    """An evaluation and where it is from: ``kind`` says what its run is compared as, such as a credit rule."""

    kind: str
    seed: int
    phase: str
    evaluation: Evaluation


def evaluations_of(run: Path, kind: str, seed: int) -> Iterator[PlayedEvaluation]:
    """The evaluations in the folder of a run, in the order in which they were made."""
    for phase, evaluation in read_evaluations(run):
        yield PlayedEvaluation(kind, seed, phase, evaluation)


def sampling_of(evaluation: Evaluation) -> str:
    """ "greedy", or "sampled" at a temperature above 0."""
    return "sampled" if evaluation.temperature else "greedy"


def write_episodes(played: Iterable[PlayedEvaluation], path: Path) -> None:
    """Write a line with ``COLUMNS`` for each episode of these evaluations.

    ``task`` is the id of its task, ``question`` a hash of what the task asks, ``success`` 1 or 0. An episode that was
    unusable has neither task, question nor success, so it is counted and is in no rate.
    """
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    for kind, seed, phase, found in played:
        place = [kind, seed, found.split, sampling_of(found), phase]
        for task, question, success in zip(found.task_B, found.question_B, found.success_B, strict=True):
            lines.writerow([*place, task, question, int(success)])
        lines.writerows([[*place, "", "", ""]] * found.unusable)
    write_text_atomic(path, text.getvalue())
