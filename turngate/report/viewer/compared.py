"""Two runs side by side, as ``turngate compare`` compares their last evaluations, as plain JSON."""

from __future__ import annotations

from turngate.errors import TurngateError
from turngate.report.episode_words import literal
from turngate.report.paired_runs import last_evaluations, paired, paired_cells, paired_lines
from turngate.report.viewer.episode_record import Record
from turngate.report.viewer.run_record import RunReading
from turngate.types import JSON, ScoredGroup


def comparison_record(a: RunReading, b: RunReading) -> Record:
    """The paired numbers of each split and sampling that both evaluated; ``problem`` says why there are none."""
    last = [last_evaluations(sorted({file.phase for file in one.files()})) for one in (a, b)]
    shared = [name for name in last[0] if name in last[1]]
    phases, problem = list[JSON](), "" if shared else "no split was evaluated in both at one sampling"
    for name in shared:
        names = (last[0][name], last[1][name])
        try:
            found = paired(_groups(a, names[0]), _groups(b, names[1]), phases=names)
        except TurngateError as error:
            problem = literal(str(error))
            continue
        cells = [[literal(cell) for cell in row] for row in paired_cells(found)]
        phases.append(
            {"title": literal(found.title), "cells": cells, "lines": [literal(x) for x in paired_lines(found)]}
        )
    return {"phases": phases, "problem": problem}


def _groups(reading: RunReading, phase: str) -> list[ScoredGroup]:
    return [group for file in reading.files() if file.phase == phase for group in reading.read(file).groups]
