"""Checkpoints: a folder per step that exists whole or not at all."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from turngate.errors import StoreError
from turngate.trainer.learner import Learner

KEPT = 2  # one to go on from, one in case the disk damages it


class Checkpoints:
    """``folder/step=000012/state.pt``. A step's folder appears by a rename, after its file is on disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for torn in folder.glob("writing-*"):
            shutil.rmtree(torn)

    def steps(self) -> list[int]:
        """Steps that can be loaded, ascending."""
        return sorted(int(path.name.removeprefix("step=")) for path in self._folder.glob("step=*"))

    def last(self) -> int | None:
        """The newest step, or None."""
        return max(self.steps(), default=None)

    def save(self, step: int, learner: Learner) -> None:
        """Write the learner's state after ``step`` and drop all but the newest few. Raises StoreError if taken."""
        target = self._path(step)
        if target.exists():
            raise StoreError(f"checkpoint '{target}' exists; a step is written once")
        writing = self._folder / f"writing-{step}"
        writing.mkdir()
        state = writing / "state.pt"
        learner.save(state)
        with state.open("rb") as file:
            os.fsync(file.fileno())
        writing.rename(target)
        for old in self.steps()[:-KEPT]:
            shutil.rmtree(self._path(old))

    def load(self, step: int, learner: Learner) -> None:
        """Put the learner back to the state after ``step``. Raises StoreError if it is not there."""
        path = self._path(step) / "state.pt"
        if not path.exists():
            raise StoreError(f"there is no checkpoint of step {step} in '{self._folder}'; there are {self.steps()}")
        learner.load(path)

    def _path(self, step: int) -> Path:
        return self._folder / f"step={step:06d}"
