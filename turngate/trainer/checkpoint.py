"""Checkpoints: a folder per step that exists whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from turngate.errors import StoreError, TurngateError, WriteError
from turngate.store.files import sync_folder
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
SUMS = "sums.json"


class Checkpoints:
    """``folder/step=000012/state.pt``, beside it what else has a state (``others``), each under its name.

    A step's folder appears by a rename, after its files are on disk. ``sums.json`` has the SHA-256 of each file.

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
        """Write the state after ``step`` and drop all but the newest few.

        Raises StoreError if taken, and WriteError; then nothing of it is left and the earlier ones are as they were.
        """
        target = self._path(step)
        if target.exists():
            raise StoreError(f"checkpoint '{target}' exists; a step is written once")
        for torn in self._folder.glob("writing-*"):
            shutil.rmtree(torn)
        writing = self._folder / f"writing-{step}"
        try:
            writing.mkdir(parents=True)
            self._fill(writing, {**(others or {}), STATE: learner})
            writing.rename(target)
            sync_folder(self._folder)
        except (OSError, RuntimeError) as error:  # torch raises RuntimeError when it cannot write
            problem = _refusal(error, writing)
            shutil.rmtree(writing, ignore_errors=True)
            raise WriteError(target, problem) from error
        for old in self.steps()[:-KEPT]:
            shutil.rmtree(self._path(old))

    def load(self, step: int, learner: Learner, others: Mapping[str, Kept] | None = None) -> None:
        """Put everything back to the state after ``step``. Raises StoreError for what is missing or damaged."""
        for name, one in {**(others or {}), STATE: learner}.items():
            path = self._path(step) / f"{name}.pt"
            if not path.exists():
                what = "" if name == STATE else f" of '{name}'"
                raise StoreError(
                    f"there is no checkpoint{what} of step {step} in '{self._folder}'; there are {self.steps()}"
                )
            try:
                one.load(path)
            except TurngateError:
                raise
            except Exception as error:
                raise StoreError(f"'{path}' cannot be loaded: {_first_line(error)}") from error

    def set_damaged_aside(self) -> dict[int, str]:
        """Rename the newest checkpoints, ``damaged-000012``, until the last one is whole; what is wrong with each.

        Raises StoreError if none is whole, and leaves them where they are.
        """
        damaged: dict[int, str] = {}
        for step in reversed(self.steps()):
            problem = self._problem(step)
            if not problem:
                break
            damaged[step] = problem
        if damaged and len(damaged) == len(self.steps()):
            found = "; ".join(f"step {step}: {problem}" for step, problem in damaged.items())
            raise StoreError(
                f"no checkpoint in '{self._folder}' can be used ({found}); bring back one of them, or remove the run's "
                "folder to begin again"
            )
        for step in damaged:
            aside = self._folder / f"damaged-{step:06d}"
            shutil.rmtree(aside, ignore_errors=True)  # of the same step, played again
            self._path(step).rename(aside)
        return damaged

    def _fill(self, folder: Path, kept: Mapping[str, Kept | Learner]) -> None:
        sums: dict[str, str] = {}
        for name, one in kept.items():
            state = folder / f"{name}.pt"
            one.save(state)
            sums[state.name] = _sum(state, sync=True)
        with (folder / SUMS).open("w", encoding="utf-8") as file:
            json.dump(sums, file)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(folder)

    def _problem(self, step: int) -> str:
        """Which file is damaged; empty if none is, and for a checkpoint from before there were sums."""
        folder = self._path(step)
        sums = folder / SUMS
        if not sums.exists():
            return "" if (folder / f"{STATE}.pt").exists() else f"{STATE}.pt is missing"
        try:
            for name, expected in dict(json.loads(sums.read_text(encoding="utf-8"))).items():
                if not (folder / name).exists():
                    return f"{name} is missing"
                if _sum(folder / name) != expected:
                    return f"{name} is not what was written"
        except (OSError, ValueError, TypeError) as error:
            return f"cannot be read: {_first_line(error)}"
        return ""

    def _path(self, step: int) -> Path:
        return self._folder / f"step={step:06d}"


def _sum(path: Path, *, sync: bool = False) -> str:
    with path.open("rb") as file:
        if sync:
            os.fsync(file.fileno())
        return hashlib.file_digest(file, "sha256").hexdigest()


def _refusal(error: Exception, folder: Path) -> str:
    """Why a file could not be written; where a library hides it, the system is asked by writing a little more."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    try:
        (folder / "more").write_bytes(bytes(1 << 16))
    except OSError as refused:
        return refused.strerror or str(refused)
    return _first_line(error)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).partition("\n")[0]
