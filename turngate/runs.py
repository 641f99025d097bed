"""The folder of a run: every path in it is named here, once.

runs/NAME/
    config.toml machine.json            what was asked for, and on what machine
    metrics.jsonl                       a line per training step
    overlap.json                        what the evaluated splits have in common with training
    evaluations.jsonl alarms.jsonl      a line per evaluation, a line per alarm
    result.json                         what ``turngate eval`` found: its folder is that of a run without training
    trajectories/step=000012/           every episode; set_aside/ holds those of steps that were played again
    verdicts.sqlite                     what judges said
    warm_start/ model/                  the model that training began from, and the one that it made
    checkpoints/step=000012/            the last two
    tensorboard/ wandb/                 of the sinks of that name
    controls/NAME/                      negative controls, runs of their own
    rescored/NAME/                      the same trajectories under another rubric
    report/                             tables, curves, monitors
    traceback.txt .in_use               of an error that nobody expected; who works on the run
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from turngate.errors import ConfigError, WriteError


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A run on disk, or one that is going to be: making the value reads and creates nothing."""

    path: Path

    @classmethod
    def of(cls, path: str | Path) -> Self:
        """The run in a folder. Raises ConfigError if there is none."""
        run = cls(Path(path))
        if not run.exists:
            raise ConfigError(f"'{path}' is not the folder of a run (it has no config.toml)")
        return run

    # --- what is asked of it ------------------------------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        """Whether a run, or a rescored one, lies here."""
        return self.config.exists()

    @property
    def has_begun(self) -> bool:
        """Whether something of its work is on disk: a warm start, an evaluation, a step."""
        return any(work.exists() for work in (self.warm_start, self.trajectories, self.evaluations, self.model))

    @property
    def is_complete(self) -> bool:
        """Whether everything was done: the model is written last, and appears whole."""
        return self.model.exists()

    @property
    def label(self) -> str:
        """Its name where runs of several folders meet: that of the folder, a control's behind that of its run."""
        return self.path.name if self.owner is None else f"{self.owner.path.name}-{self.path.name}"

    @property
    def owner(self) -> RunFolder | None:
        """The run that a control, or a rescored one, belongs to and lies in."""
        run = RunFolder(self.path.parent.parent)
        return run if self.path.parent.name in ("controls", "rescored") and run.exists else None

    @property
    def first_model(self) -> Path | None:
        """The warm-started model that training began from, a control's in its run; None if there is none."""
        places = [self, *filter(None, [self.owner])]
        return next((run.warm_start for run in places if run.warm_start.exists()), None)

    @property
    def controls(self) -> list[RunFolder]:
        """The controls that have begun, by name."""
        return [RunFolder(file.parent) for file in sorted(self.path.glob("controls/*/config.toml"))]

    # --- where things are ---------------------------------------------------------------------------------------------

    @property
    def config(self) -> Path:
        """The resolved settings, as TOML."""
        return self.path / "config.toml"

    @property
    def machine(self) -> Path:
        """Python, platform and package versions."""
        return self.path / "machine.json"

    @property
    def metrics(self) -> Path:
        """The numbers of each training step."""
        return self.path / "metrics.jsonl"

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
        """What ``turngate eval`` found, in a few numbers."""
        return self.path / "result.json"

    @property
    def alarms(self) -> Path:
        """What the monitors found."""
        return self.path / "alarms.jsonl"

    @property
    def trajectories(self) -> Path:
        """Every episode, as Parquet."""
        return self.path / "trajectories"

    @property
    def set_aside(self) -> Path:
        """Steps that were recorded but not finished."""
        return self.path / "set_aside"

    @property
    def verdicts(self) -> Path:
        """What judges said, so that nothing is asked twice."""
        return self.path / "verdicts.sqlite"

    @property
    def warm_start(self) -> Path:
        """The model after imitation, in Hugging Face format."""
        return self.path / "warm_start"

    @property
    def model(self) -> Path:
        """The model after training, in Hugging Face format."""
        return self.path / "model"

    @property
    def checkpoints(self) -> Path:
        """What a killed run goes on from."""
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
    def lock(self) -> Path:
        """Held by the process that works on the run; names it."""
        return self.path / ".in_use"

    @property
    def traceback(self) -> Path:
        """Where an exception that nobody expected came from."""
        return self.path / "traceback.txt"

    @property
    def report(self) -> Path:
        """Tables and pictures."""
        return self.path / "report"

    def control(self, name: str) -> RunFolder:
        """The folder of a control."""
        return RunFolder(self.path / "controls" / name)

    def rescored(self, name: str) -> RunFolder:
        """The folder of scores by another rubric."""
        return RunFolder(self.path / "rescored" / name)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What the system refuses while ``path`` is written is raised as WriteError, which names it."""
    try:
        yield
    except OSError as error:
        raise WriteError(path, error.strerror or str(error)) from error
