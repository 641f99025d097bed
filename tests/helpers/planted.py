"""A copy of a recorded run in which one thing of one episode was changed."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.types import Score, Trajectory, Turn

Change = Callable[[Trajectory, Score], tuple[Trajectory, Score]]


def planted(run: Path, copy: Path, change: Change, *, phase: str = "train", step: int = 1, least: int = 2) -> str:
    """Copy a run, change its first episode with at least so many turns; the episode's id."""
    shutil.copytree(run, copy)
    groups = list(Store(run).read(step, phase))
    (RunFolder(copy).trajectories / f"step={step:06d}" / f"{phase}.parquet").unlink()
    at, place = next(
        (at, place)
        for at, group in enumerate(groups)
        for place, one in enumerate(group.trajectories)
        if len(one.turns) >= least and one.ending.usable
    )
    ones, scores = list(groups[at].trajectories), list(groups[at].scores)
    ones[place], scores[place] = change(ones[place], scores[place])
    groups[at] = replace(groups[at], trajectories=tuple(ones), scores=tuple(scores))
    Store(copy).write(step, groups, phase=phase)
    return ones[place].id


def in_turn(number: int, change: Callable[[Turn], Turn]) -> Change:
    """A change of one turn."""

    def changed(one: Trajectory, score: Score) -> tuple[Trajectory, Score]:
        turns = list(one.turns)
        turns[number] = change(turns[number])
        return replace(one, turns=tuple(turns)), score

    return changed


def one_character(text: str) -> str:
    """The same text but for its last character."""
    return text[:-1] + ("x" if text[-1:] != "x" else "y")
