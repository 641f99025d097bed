"""A run of stages: each is an ordinary run in a folder of its own, made one after the other.

A stage is over when its model is there and differs from the one that it began from. So the same command goes on in the
stage where a killed one stopped, as with any run; only files on disk, the model and the recorded episodes, pass from
one stage to the next. A stage that changed nothing stops the run each time; the error names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from turngate.config.run_config import Config, dump, modules_of, parse
from turngate.config.stages import StageRun
from turngate.errors import ConfigError, MissingExtra, RunError, UserError
from turngate.run.assembly.models import copy_model, require_torch, same_weights
from turngate.run.checks.config_fit import check_policy, fit_of
from turngate.run.environments import Environments
from turngate.run.job import Job
from turngate.run.learner_restarts import run_with_learner
from turngate.run.process.run_lock import locked_run
from turngate.run.remote_folder import keep_here, refuse_address
from turngate.run.resume import check_rounds, remove_model
from turngate.store import machine, write_json_atomic, write_text_atomic
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics
from turngate.trainer.evaluation.validation_steps import read_steps
from turngate.trainer.torch.place import place
from turngate.types import Metrics


class StagedJob:
    """The work on a run of stages. ``strict`` and ``commit``: see ``Job``.

    The constructor does no work, but raises ConfigError for settings of any stage that do not fit the environments that
    it names, and where several processes were started.
    """

    def __init__(
        self, config: Config, console: Console, *, strict: bool = False, commit: Callable[[], None] = keep_here
    ) -> None:
        refuse_address(config.folder)
        self._commit = commit
        self.config, self.console, self._strict = config, console, strict
        self.folder = RunFolder((config.folder / config.name).absolute())
        self._stages = [(stage, parse(stage.tree)) for stage in config.unfolded()]
        here = place()
        if here is not None and here.size > 1:
            raise ConfigError(
                f"torchrun started {here.size} processes, and a run of stages is made by one; leave out [[stages]], or "
                "start turngate train CONFIG without torchrun"
            )
        require_torch()
        check_rounds(self.folder, dump(config))
        models = [str(stage.folder.model) for stage, _ in self._stages]
        for stage, settings in self._stages[: len(config.stages)]:
            with self._naming(stage):
                check_policy(settings)
                with Environments(settings.env) as environments:
                    fit_of(settings, environments, unmade=models)

    def run(self) -> None:
        """Make the remaining stages, and copy the last one's model."""
        with locked_run(self.folder):
            self._write_config()
            self._refuse_gaps()
            for stage, settings in self._stages:
                with self._naming(stage):
                    self._make(stage, settings)
            if not self.folder.is_complete:
                copy_model(self._stages[-1][0].folder.model, self.folder.model)
                self._commit()

    def _make(self, stage: StageRun, settings: Config) -> None:
        run = stage.folder
        if not run.is_complete:
            self._say(f"stage {stage.number} of {len(self._stages)}: {stage.name}; its folder: {run.path}")

            def work() -> None:
                Job(settings, self.console, strict=self._strict, until=stage.until, commit=self._commit).run()

            run_with_learner(settings, run, work, self.console)
        after = self._stages[stage.number : stage.number + 1]
        followed = any(one.folder.has_begun for one, _ in after) or (not after and self.folder.is_complete)
        if not followed:  # else it was checked before
            refuse_unchanged(run, settings)

    def _refuse_gaps(self) -> None:
        """Raise ConfigError where a later stage began with the model of an earlier one that is not there any more."""
        open_ = [stage for stage, _ in self._stages if not stage.folder.is_complete]
        later = [stage for stage, _ in self._stages if open_ and stage.number > open_[0].number]
        if made := [stage for stage in later if stage.folder.has_begun]:
            raise ConfigError(
                f"stage '{open_[0].folder.path}' has no model, and '{made[0].folder.path}', which comes after it, has "
                "begun; put the first back, or remove the folders of all stages after it"
            )

    def _write_config(self) -> None:
        text, path = dump(self.config), self.folder.config
        if path.exists() and path.read_text(encoding="utf-8") == text:
            return
        check_rounds(self.folder, text)
        remove_model(self.folder)  # which is that of the last stage before rounds were added
        settings = [self.config, *(one for _, one in self._stages)]
        modules = sorted({module for one in settings for module in modules_of(one)} - {"__main__"})
        write_json_atomic(self.folder.machine, {**machine(), "modules": modules})
        write_text_atomic(path, text)

    @contextmanager
    def _naming(self, stage: StageRun) -> Iterator[None]:
        """Have an error of the block say in which stage it was."""
        try:
            yield
        except MissingExtra:
            raise
        except (UserError, RunError) as error:
            error.args = (f"stage '{stage.name}' ({stage.number} of {len(self._stages)}): {error}", *error.args[1:])
            raise

    def _say(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


def refuse_unchanged(run: RunFolder, settings: Config) -> None:
    """Raise RunError if a run that learns has the weights that it began from."""
    if settings.learner.type == "frozen":
        return
    rows = read_metrics(run.metrics) if run.metrics.exists() else []
    began = run.warm_start if run.warm_start.exists() and rows else settings.model
    if not isinstance(began, str | Path):
        return  # a new model: the warm start made it
    if same_weights(str(began), str(run.model)):
        raise RunError(
            f"it changed nothing: {_why(run, rows)}. The stages after it would learn from what it did not do; change "
            "what it reads, filters or learns by, under another --name"
        )


def _why(run: RunFolder, rows: Sequence[Metrics]) -> str:
    """Why the weights are those that a run began from, as far as its numbers say."""
    updates = sum("learner/grad_norm" in row for row in rows)
    if rows and not updates:
        dropped: dict[str, float] = {}
        for row in rows:
            for name, value in row.items():
                if name.startswith("drop/") and value:
                    dropped[name] = dropped.get(name, 0.0) + value
        told = ", ".join(f"{name} {value:g}" for name, value in dropped.items())
        return f"none of its {len(rows)} steps had an episode left to learn from{f' ({told})' if told else ''}"
    known = read_steps(run)
    if known is not None and known.best is not None and known.best.number == 0:
        return "the start was better than every step on the validation tasks, so its weights were kept"
    return f"{updates} of its {len(rows)} steps made an update, and no weight is another one"


def stage_in_work(config: Config) -> tuple[StageRun, Config] | None:
    """The first stage that is not complete, with its settings; None if all are."""
    return next(((stage, parse(stage.tree)) for stage in config.unfolded() if not stage.folder.is_complete), None)
