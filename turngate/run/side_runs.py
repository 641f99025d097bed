"""The baselines and controls of a run: made after it, or at the same time by other processes.

Each is a run with a folder and lock of its own, so the same command goes on with those that are not complete.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from functools import partial
from typing import Self

from rich.console import Console

from turngate.config.run_config import Config, dump, parse
from turngate.errors import ConfigError, RunError
from turngate.jsonl import toml_of
from turngate.run.process.child_process import OwnProcess
from turngate.run.process.event_loop import DaemonThreads
from turngate.run.supervised_baselines import baseline_configs
from turngate.store.folder import RunFolder, writing


@dataclass(frozen=True, slots=True, kw_only=True)
class SideRun:
    """A baseline or control: a run of its own in a folder of the run that it is compared with."""

    config: Config
    title: str
    """The line that is printed when it begins."""
    control: str | None = None
    """Name of the control; None for a baseline."""
    start: RunFolder | None = None
    """The run whose warm-started model it begins from; None where it does not share one."""

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the settings as text, because some classes of parts are not found under their names."""
        return _from_text, (dump(self.config), self.title, self.control, self.start)

    @property
    def folder(self) -> RunFolder:
        """Its folder."""
        return RunFolder((self.config.folder / self.config.name).absolute())

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"{'control' if self.control else 'baseline'} '{self.config.name}'"

    @property
    def can_begin(self) -> bool:
        """Whether it is not complete and the model that it begins from exists."""
        return not self.folder.is_complete and (self.start is None or self.start.warm_start.exists())


def _from_text(settings: str, title: str, control: str | None, start: RunFolder | None) -> SideRun:
    return SideRun(config=parse(toml_of(settings)), title=title, control=control, start=start)


def side_runs(config: Config, run: RunFolder) -> Iterator[SideRun]:
    """The baselines of a run, then its controls."""
    for baseline in baseline_configs(config, run):
        yield SideRun(config=baseline, title=f"baseline: supervised learning from {baseline.name} demonstrations")
    for control in config.controls:
        changes = {
            "folder": run.control(control).path.parent,
            "name": control,
            "baselines": None,
            "controls": (),
        }
        yield SideRun(
            config=config.model_copy(update=changes),
            title=f"control: {control}",
            control=control,
            # without a warm start, every run begins from the named model itself
            start=run if config.warm_start else None,
        )


Make = Callable[[SideRun, Console], None]
"""Makes a side run, or the rest of it, and prints to the console. Other processes import it by its name."""


class SideRuns:
    """Makes the side runs of a run so that at most ``jobs`` runs are made at once, the run itself included.

    Use it in ``with`` around the run, which calls ``begin`` and ``finish``; leaving the block ends every process. With
    one job, all side runs are made by ``finish`` in this process. Raises ConfigError for more jobs without side runs.
    """

    def __init__(self, runs: Iterator[SideRun], make: Make, *, jobs: int, console: Console) -> None:
        self._left = list(runs)  # those that no process has been given
        if jobs > 1 and not self._left:
            raise ConfigError(
                f"--jobs {jobs} has no effect: the config has one run, without baselines and controls; leave --jobs out"
            )
        self._make, self._jobs, self._console = make, jobs, console
        self._places = threading.Semaphore(jobs - 1)
        self._lock = threading.Lock()  # of the next two, which the threads that wait for processes use
        self._processes: list[OwnProcess] = []
        self._is_over = False
        self._made: list[Future[str]] = []

    def __enter__(self) -> Self:
        self.begin()
        return self

    def begin(self) -> None:
        """Have other processes make the side runs whose starting model exists, as soon as there is a place for them."""
        if self._jobs == 1:
            return
        for one in [one for one in self._left if one.can_begin]:
            self._left.remove(one)
            self._made.append(DaemonThreads().submit(self._made_elsewhere, one))

    def finish(self) -> None:
        """Make the remaining ones, now that the run itself has ended. Raises RunError if a process failed."""
        self.begin()
        self._places.release()  # that of the run itself
        wait_for(self._made)
        if problems := [problem for one in self._made if (problem := one.result())]:
            raise RunError("; ".join(problems))
        for one in self._left:  # with more jobs than one: complete ones
            if one.control is None:
                self._say(one.title)
            self._make(one, self._console)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._is_over = True
            self._places.release(len(self._made) + 1)  # no thread waits for a place any more
        for process in self._processes:
            process.end()
        for process in self._processes:
            process.bury()

    def _made_elsewhere(self, one: SideRun) -> str:
        """Wait for a place, then for the process; returns what went wrong, "" if nothing did."""
        with self._places:
            began_s = time.monotonic()
            with writing(one.folder.log):
                one.folder.path.mkdir(parents=True, exist_ok=True)
                one.folder.log.touch()
            with self._lock:
                if self._is_over:
                    return ""
                process = OwnProcess(partial(self._make, one), one.folder.log)
                self._processes.append(process)
            self._say(f"{one.title}; its output: {one.folder.log}")
            problem = process.wait()
            if self._is_over:
                return ""
            if not problem and one.folder.is_complete:
                self._say(f"{one.name}: complete after {time.monotonic() - began_s:.0f} s")
                return ""
            told = f"{one.name} failed: {problem or 'it ended early'}; all that it printed is in {one.folder.log}"
            self._say(f"{told}; the other runs go on")
            return told

    def _say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
