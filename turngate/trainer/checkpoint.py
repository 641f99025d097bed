"""Checkpoints: one folder per saved step, which exists completely or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from turngate.agents.refused_memory import is_out_of_memory
from turngate.errors import OutOfMemory, StoreError, TurngateError, WriteError
from turngate.store.files import sync_folder
from turngate.store.folder import step_of
from turngate.trainer.learner import Learner


class Stateful(Protocol):
    """Something whose state a checkpoint saves beside the policy's learner, in a file of its own."""

    def save(self, path: Path) -> None:
        """Write the whole state, so that ``load`` continues from it."""
        ...

    def load(self, path: Path) -> None:
        """Read what ``save`` wrote."""
        ...


STATE = "state"  # name of the file that holds the policy's learner
N_KEPT = 2  # the newest one, and one more in case the newest is damaged
SUMS = "sums.json"


class Checkpoints:
    """The checkpoints of a run: ``folder/step=000012/`` with ``state.pt`` and one file for each of ``others``.

    An object that saves itself may write further files beside its own, with names that begin like its own:
    ``state-00001.safetensors``, or a folder ``state`` into which several processes write. All are written into a
    temporary folder, which is renamed once they are on disk. ``sums.json`` has the SHA-256 of each file. Only one
    process may save; others may list and load meanwhile. A temporary folder that a killed process left is removed by
    the next ``save``.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def steps(self) -> list[int]:
        """Steps that can be loaded, ascending. Raises DataError for a folder that is named otherwise."""
        return sorted(map(step_of, self._folder.glob("step=*")))

    def last(self) -> int | None:
        """The newest step, or None."""
        return max(self.steps(), default=None)

    def path_of(self, step: int) -> Path:
        """The folder of a step's checkpoint."""
        return self._folder / f"step={step:06d}"

    def save(self, step: int, learner: Learner, others: Mapping[str, Stateful] | None = None) -> None:
        """Write the state after ``step``, then delete all but the newest two checkpoints.

        Raises StoreError if the step has a checkpoint already, WriteError if it cannot be written. In both cases the
        earlier checkpoints stay as they were, and nothing of the new one is left.
        """
        target = self.path_of(step)
        if target.exists():
            raise StoreError(f"checkpoint '{target}' exists already; a step is saved once")
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
            _raise_if_out_of_memory(error, f"'{target}' was written")
            raise WriteError(target, problem) from error
        for old in self.steps()[:-N_KEPT]:
            shutil.rmtree(self.path_of(old))

    def load(self, step: int, learner: Learner, others: Mapping[str, Stateful] | None = None) -> None:
        """Restore the state after ``step``. Raises StoreError for a file that is missing or damaged."""
        for name, one in {**(others or {}), STATE: learner}.items():
            path = self.path_of(step) / f"{name}.pt"
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
                _raise_if_out_of_memory(error, f"'{path}' was read")
                raise StoreError(f"'{path}' cannot be loaded: {_first_line(error)}") from error

    def set_damaged_aside(self) -> dict[int, str]:
        """Rename damaged checkpoints to ``damaged-000012``, from the newest back to the first that is whole.

        Returns the problem of each. Raises StoreError if none is whole, and then renames nothing.
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
                f"no checkpoint in '{self._folder}' can be used ({found}); restore one of them from a backup, or "
                "remove the run's folder to begin again"
            )
        for step in damaged:
            aside = self._folder / f"damaged-{step:06d}"
            shutil.rmtree(aside, ignore_errors=True)  # an earlier one of the same step, which was played again
            self.path_of(step).rename(aside)
        return damaged

    def _fill(self, folder: Path, kept: Mapping[str, Stateful | Learner]) -> None:
        for name, one in kept.items():
            one.save(folder / f"{name}.pt")
        found = sorted(folder.rglob("*"))
        sums = {path.relative_to(folder).as_posix(): _sum(path, sync=True) for path in found if path.is_file()}
        for path in found:
            if path.is_dir():
                sync_folder(path)
        with (folder / SUMS).open("w", encoding="utf-8") as file:
            json.dump(sums, file)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(folder)

    def _problem(self, step: int) -> str:
        """Which file is damaged; empty if none is, or if the checkpoint is so old that it has no sums."""
        folder = self.path_of(step)
        sums = folder / SUMS
        if not sums.exists():
            return "" if (folder / f"{STATE}.pt").exists() else f"{STATE}.pt is missing"
        try:
            for name, expected in dict(json.loads(sums.read_text(encoding="utf-8"))).items():
                if not (folder / name).exists():
                    return f"{name} is missing"
                if _sum(folder / name) != expected:
                    return f"{name} is not what was written"
        except (OSError, ValueError, TypeError, RecursionError) as error:
            return f"cannot be read: {_first_line(error)}"
        return ""


def _sum(path: Path, *, sync: bool = False) -> str:
    with path.open("rb") as file:
        if sync:
            os.fsync(file.fileno())
        return hashlib.file_digest(file, "sha256").hexdigest()


def _refusal(error: Exception, folder: Path) -> str:
    """Why a file could not be written; where a library hides the reason, another small write shows it."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    try:
        (folder / "more").write_bytes(bytes(1 << 16))
    except OSError as refused:
        return refused.strerror or str(refused)
    return _first_line(error)


def _raise_if_out_of_memory(error: Exception, when: str) -> None:
    """Raise OutOfMemory where that is the problem: the file may be as it should."""
    if is_out_of_memory(error):
        raise OutOfMemory(f"memory ran out while {when}") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).partition("\n")[0]
