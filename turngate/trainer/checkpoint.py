"""Checkpoints: a folder per step that exists whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from turngate.errors import StoreError
from turngate.trainer.learner import Learner


class Kept(Protocol):
    """What a checkpoint keeps beside the policy's learner: it writes a file of its own and reads it back."""

    def save(self, path: Path) -> None:
        """Write everything that it goes on from."""
        ...

    def load(self, path: Path) -> None:
        """Read what ``save`` wrote."""
        ...


STATE = "state"  # the policy's learner among the files of a step
KEPT = 2  # one to go on from, one in case the disk damages it


class Checkpoints:
    """``folder/step=000012/state.pt``, beside it what else has a state (``others``), each under its name.

    A step's folder appears by a rename, after its files are on disk.

    One process saves; others may look and load meanwhile. What a killed writer left is removed by the next ``save``.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def steps(self) -> list[int]:
        """Steps that can be loaded, ascending."""
        return sorted(int(path.name.removeprefix("step=")) for path in self._folder.glob("step=*"))

    def last(self) -> int | None:
        """The newest step, or None."""
        return max(self.steps(), default=None)

    def save(self, step: int, learner: Learner, others: Mapping[str, Kept] | None = None) -> None:
        """Write the state after ``step`` and drop all but the newest few. Raises StoreError if taken."""
        target = self._path(step)
        if target.exists():
            raise StoreError(f"checkpoint '{target}' exists; a step is written once")
        for torn in self._folder.glob("writing-*"):
            shutil.rmtree(torn)
        writing = self._folder / f"writing-{step}"
        writing.mkdir(parents=True)
        for name, one in {**(others or {}), STATE: learner}.items():
            state = writing / f"{name}.pt"
            one.save(state)
            with state.open("rb") as file:
                os.fsync(file.fileno())
        writing.rename(target)
        for old in self.steps()[:-KEPT]:
            shutil.rmtree(self._path(old))

    def load(self, step: int, learner: Learner, others: Mapping[str, Kept] | None = None) -> None:
        """Put everything back to the state after ``step``. Raises StoreError if something of it is not there."""
        for name, one in {**(others or {}), STATE: learner}.items():
            path = self._path(step) / f"{name}.pt"
            if not path.exists():
                what = "" if name == STATE else f" of '{name}'"
                raise StoreError(
                    f"there is no checkpoint{what} of step {step} in '{self._folder}'; there are {self.steps()}"
                )
            one.load(path)

    def _path(self, step: int) -> Path:
        return self._folder / f"step={step:06d}"
