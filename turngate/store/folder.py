"""The folder of a run. No other module names a file in it.

runs/NAME/
    config.toml                         all settings
    machine.json                        platform, package versions, the modules of the run's own parts
    metrics.jsonl                       a line of numbers per training step
    overlap.json                        what the evaluated splits have in common with training
    evaluations.jsonl alarms.jsonl      a line per evaluation, a line per alarm of a monitor
    result.json                         the success rates of ``turngate eval``, whose folder looks like that of a run
    trajectories/step=000012/           every episode
    set_aside/                          episodes of steps that were not finished and were played again
    verdicts.sqlite                     answers of judges
    broken_batch.npz                    the batch of the last of several updates that were not finite
    memory.json                         the experience memory after training, with guide "memory"
    warm_start.json                     how each pass of the warm start did on validation tasks
    best_pass/                          weights and optimizer that a warm start goes back to, while it is made
    warm_start/ model/                  the model that training began from, and the trained one
    validation.json                     how the model did on validation tasks after some training steps
    best/step=000012/                   the model after the best of these steps; older ones that a checkpoint may need
    adapter/                            the trained adapters alone, with learner.lora
    checkpoints/step=000012/            the last two checkpoints
    tensorboard/ wandb/ trackio/        files of the sinks with these names
    baselines/400/                      supervised baselines by number of demonstrations, each a run of its own
    controls/NAME/                      negative controls, each a run of its own
    stages/01-NAME/                     the stages of a run that has some, each a run of its own
    rescored/NAME/                      the same trajectories with scores by another rubric
    continued/NAME/                     recorded episodes that a policy continued from a turn on
    exported/                           episodes in the formats of others
    imported.json                       instead of config.toml: where the episodes of an imported log come from
    report/                             tables, curves, monitors
    console.log                         output of a baseline or control that another process made
    traceback.txt                       of an unexpected error
    .in_use                             locked by the process that works on the run, and names it
    .stored.json                        the last state that this folder has in common with the store it is kept in
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from turngate.errors import ConfigError, DataError, WriteError

_PASSING = re.compile(r"\.|writing[-_]|damaged-|best_pass$|.*\.old$")
"""Names that begin with a dot are those of locks and temporary files; a killed process leaves the others."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The paths of a run, which need not exist yet: constructing the value reads and writes nothing."""

    path: Path

    @classmethod
    def of(cls, path: str | Path) -> Self:
        """The run in a folder, or what was imported into it. Raises ConfigError if there is neither, and for a run of
        stages, which has no episodes of its own."""
        run = cls(Path(path))
        if stages := run.stages:
            raise ConfigError(
                f"'{path}' is a run of stages; name one of them: {', '.join(str(s.path) for s in stages)}"
            )
        if not run.exists and not run.is_imported:
            raise ConfigError(f"'{path}' is not the folder of a run (it has no config.toml)")
        return run

    # --- the state of the run -----------------------------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        """Whether the folder is that of a run, or of a rescored one: whether it has a config."""
        return self.config.exists()

    @property
    def is_imported(self) -> bool:
        """Whether its episodes come from a log of another tool, so that there are no settings of a run."""
        return self.imported.exists() and not self.exists

    @property
    def has_begun(self) -> bool:
        """Whether some of the run's work is on disk: a warm start, an evaluation, a step."""
        work = (self.warm_start, self.trajectories, self.evaluations, self.model, self.stages_folder)
        return any(one.exists() for one in work)

    @property
    def is_complete(self) -> bool:
        """Whether the training is done: the model is written last, and in one rename."""
        return self.model.exists()

    @property
    def label(self) -> str:
        """Name of the run beside runs of other folders: the folder's name; RUN-NAME for a control or baseline."""
        return self.path.name if self.owner is None else f"{self.owner.path.name}-{self.path.name}"

    @property
    def owner(self) -> RunFolder | None:
        """The run whose folder a control, a baseline, a rescored or a continued run is in; None for any other run."""
        run = RunFolder(self.path.parent.parent)
        inside = self.path.parent.name in ("baselines", "controls", "rescored", "continued")
        return run if inside and run.exists else None

    @property
    def first_model(self) -> Path | None:
        """The warm-started model that training began from, which for a control is its run's; None if there is none."""
        shared = self.owner if self.path.parent.name != "baselines" else None
        places = [self, *filter(None, [shared])]
        return next((run.warm_start for run in places if run.warm_start.exists()), None)

    @property
    def controls(self) -> list[RunFolder]:
        """The controls that have begun, in alphabetical order."""
        return [RunFolder(file.parent) for file in sorted(self.path.glob("controls/*/config.toml"))]

    @property
    def baselines(self) -> list[RunFolder]:
        """The supervised baselines that have begun, by their number of demonstrations."""
        found = [file.parent for file in self.path.glob("baselines/*/config.toml") if file.parent.name.isdecimal()]
        return [RunFolder(path) for path in sorted(found, key=lambda path: int(path.name))]

    @property
    def stages(self) -> list[RunFolder]:
        """The stages that have begun, in their order."""
        found = [file.parent for file in self.path.glob("stages/*/config.toml")]
        numbered = [path for path in found if path.name.partition("-")[0].isdecimal()]
        return [RunFolder(path) for path in sorted(numbered, key=lambda path: int(path.name.partition("-")[0]))]

    # --- where things are ---------------------------------------------------------------------------------------------

    @property
    def config(self) -> Path:
        """All settings of the run, defaults included, as TOML."""
        return self.path / "config.toml"

    @property
    def imported(self) -> Path:
        """The source of imported episodes, the origin of their tokens, and which were left out."""
        return self.path / "imported.json"

    @property
    def machine(self) -> Path:
        """Python, platform and package versions, and the modules that define the run's own parts."""
        return self.path / "machine.json"

    @property
    def metrics(self) -> Path:
        """The numbers of each training step."""
        return self.path / "metrics.jsonl"

    @property
    def memory(self) -> Path:
        """The experience memory after training, of a run whose guide keeps one."""
        return self.path / "memory.json"

    @property
    def broken_batch(self) -> Path:
        """The batch of the last of several updates that had to be skipped."""
        return self.path / "broken_batch.npz"

    @property
    def overlap(self) -> Path:
        """What the evaluated splits have in common with training."""
        return self.path / "overlap.json"

    @property
    def evaluations(self) -> Path:
        """The results of each evaluation."""
        return self.path / "evaluations.jsonl"

    @property
    def result(self) -> Path:
        """The success rates that ``turngate eval`` found."""
        return self.path / "result.json"

    @property
    def alarms(self) -> Path:
        """The alarms of the monitors."""
        return self.path / "alarms.jsonl"

    @property
    def trajectories(self) -> Path:
        """Every episode, as Parquet."""
        return self.path / "trajectories"

    @property
    def set_aside(self) -> Path:
        """Episodes of steps that were recorded but not finished before the run was stopped."""
        return self.path / "set_aside"

    @property
    def verdicts(self) -> Path:
        """The answers of judges, so that no question is asked twice."""
        return self.path / "verdicts.sqlite"

    @property
    def passes(self) -> Path:
        """How each pass of the warm start did on validation tasks."""
        return self.path / "warm_start.json"

    @property
    def best_pass(self) -> Path:
        """The weights and the optimizer after the best pass of the warm start, to which it goes back while it is
        made."""
        return self.path / "best_pass"

    @property
    def warm_start(self) -> Path:
        """The model after the warm start, in Hugging Face format."""
        return self.path / "warm_start"

    @property
    def model(self) -> Path:
        """The model after training, in Hugging Face format."""
        return self.path / "model"

    @property
    def validated(self) -> Path:
        """How the model did on validation tasks after some training steps."""
        return self.path / "validation.json"

    @property
    def bests(self) -> list[Path]:
        """The models of validated steps that are kept, in Hugging Face format, by their step."""
        return sorted(self.path.glob("best/step=*"))

    @property
    def adapter(self) -> Path:
        """The adapters after training, as ``peft`` reads them."""
        return self.path / "adapter"

    @property
    def checkpoints(self) -> Path:
        """The states from which a stopped run goes on."""
        return self.path / "checkpoints"

    @property
    def tensorboard(self) -> Path:
        """Event files of TensorBoard."""
        return self.path / "tensorboard"

    @property
    def wandb(self) -> Path:
        """Files of Weights & Biases."""
        return self.path / "wandb"

    @property
    def trackio(self) -> Path:
        """The run's id in trackio, whose own file is elsewhere."""
        return self.path / "trackio"

    @property
    def lock(self) -> Path:
        """Locked by the process that works on the run; holds its name."""
        return self.path / ".in_use"

    @property
    def stored(self) -> Path:
        """Which state of a store, such as S3, the files here were fetched from or written to last."""
        return self.path / ".stored.json"

    @property
    def log(self) -> Path:
        """What a baseline or control printed, where a process of its own made it."""
        return self.path / "console.log"

    @property
    def traceback(self) -> Path:
        """The traceback of an unexpected exception."""
        return self.path / "traceback.txt"

    @property
    def report(self) -> Path:
        """Tables and pictures."""
        return self.path / "report"

    @property
    def stages_folder(self) -> Path:
        """The folder of the stages."""
        return self.path / "stages"

    def lasting_files(self) -> Iterator[Path]:
        """The files that are the run, and those of the runs in its folder, in the order of their names: without locks,
        damaged checkpoints, and what is being written or removed."""
        for folder, folders, files in os.walk(self.path):
            folders[:] = sorted(name for name in folders if not _PASSING.match(name))
            for name in sorted(files):
                path = Path(folder, name)
                if not (_PASSING.match(name) or path.is_symlink()):
                    yield path

    def exported(self, name: str) -> Path:
        """The file of the episodes in a format of others."""
        return self.path / "exported" / f"{name}.jsonl"

    def best(self, step: int) -> Path:
        """The folder of the model after a validated step, if it is kept."""
        return self.path / "best" / f"step={step:06d}"

    def best_adapter(self, step: int) -> Path:
        """The adapters of that step, where there are any."""
        return self.best(step) / "adapter"

    def control(self, name: str) -> RunFolder:
        """The folder of a control."""
        return RunFolder(self.path / "controls" / name)

    def baseline(self, demonstrations: int) -> RunFolder:
        """The folder of the supervised baseline from so many demonstrations."""
        return RunFolder(self.path / "baselines" / str(demonstrations))

    def continued(self, name: str) -> RunFolder:
        """The folder of episodes that were continued by another policy."""
        return RunFolder(self.path / "continued" / name)

    def rescored(self, name: str) -> RunFolder:
        """The folder of scores by another rubric."""
        return RunFolder(self.path / "rescored" / name)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise an OSError of the block, in which ``path`` is written, as a WriteError that names ``path``."""
    try:
        yield
    except OSError as error:
        raise WriteError(path, error.strerror or str(error)) from error


def step_of(folder: Path) -> int:
    """The step of a folder ``step=000012``. Raises DataError for another name."""
    number = folder.name.removeprefix("step=")
    if not (number.isascii() and number.isdecimal()):
        raise DataError(folder, "is not named step=NUMBER; rename it or move it out of the run")
    return int(number)
