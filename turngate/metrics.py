"""Metrics: a clock, and sinks that a step's numbers flow into. Nothing here is ever read to decide something.

A metric is one float under a name ``section/name``, with the unit at the end of the name where it has one.
"""

from __future__ import annotations

import importlib
import json
import logging
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.text import Text

from turngate.errors import DataError, MissingExtra
from turngate.types import Metrics

_log = logging.getLogger(__name__)


class Clock(dict[str, float]):
    """Seconds per stage, itself a dict of metrics: ``with clock("rollout"): …`` adds to ``time/rollout_s``."""

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Time a block; a stage that is entered again adds up, and a block that raises counts too."""
        start = time.perf_counter()
        try:
            yield
        finally:
            name = f"time/{stage}_s"
            self[name] = self.get(name, 0.0) + time.perf_counter() - start


class Sink(Protocol):
    """Where metrics go."""

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Take the numbers of one step."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...


class Sinks:
    """Every sink in order. ``close`` closes all of them, also when one fails."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = tuple(sinks)

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Hand the numbers of a step to every sink."""
        for sink in self._sinks:
            sink.write(step, metrics)

    def close(self) -> None:
        """Close every sink."""
        with ExitStack() as stack:
            for sink in self._sinks:
                stack.callback(sink.close)


# --- sinks -----------------------------------------------------------------------------------------------------------


class JsonlSink:
    """One JSON object a line, ``{"step": 12, "train/success": 0.5, …}``: NaN as null, infinity as "inf" or "-inf".

    The file is opened for each line, so a killed process loses at most the line that it was writing.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists() and self.path.read_bytes()[-1:] not in (b"", b"\n"):
            self._replace(_parse(self.path))

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Append the line of one step."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_line({"step": step, **metrics}))

    def truncate_after(self, step: int) -> int:
        """Drop the lines of later steps and a torn last line; returns how many later lines there were.

        A resume calls it with the step of its checkpoint. The file is replaced in one go. Raises DataError.
        """
        if not self.path.exists():
            return 0
        rows = _parse(self.path)
        kept = [row for row in rows if row["step"] <= step]
        self._replace(kept)
        return len(rows) - len(kept)

    def close(self) -> None:
        """Nothing is held open."""

    def _replace(self, rows: Sequence[Mapping[str, float]]) -> None:
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        with temporary.open("w", encoding="utf-8") as file:
            file.writelines(map(_line, rows))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path)


class ConsoleSink:
    """One line per step with the chosen metrics, in the order given; those that a step does not have are left out."""

    def __init__(self, console: Console, keys: Sequence[str]) -> None:
        self._console, self._keys = console, tuple(keys)

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Print the line of one step."""
        line = Text.assemble("step ", (f"{step:>5}", "bold"))
        for key in self._keys:
            if key in metrics:
                line.append(f"  {key} ", "dim").append(f"{metrics[key]:.4g}")
        self._console.print(line, soft_wrap=True)

    def close(self) -> None:
        """The console belongs to the caller."""


class TensorboardSink:
    """Scalars for TensorBoard in ``folder``. Raises MissingExtra."""

    def __init__(self, folder: str | Path) -> None:
        try:
            module = importlib.import_module("torch.utils.tensorboard")
        except ImportError as error:
            raise MissingExtra("tensorboard", "tensorboard") from error
        self._writer = module.SummaryWriter(str(folder))

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add one scalar per metric."""
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Flush and close."""
        self._writer.close()


class WandbSink:
    """A Weights & Biases run. The same ``run_id`` continues the same run after a resume. Raises MissingExtra."""

    def __init__(self, project: str, *, run_id: str, folder: str | Path, config: Mapping[str, Any]) -> None:
        try:
            wandb = importlib.import_module("wandb")
        except ImportError as error:
            raise MissingExtra("wandb", "wandb") from error
        self._run = wandb.init(
            project=project, id=run_id, name=run_id, dir=str(folder), config=dict(config), resume="allow"
        )

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log the numbers of one step."""
        self._run.log(dict(metrics), step=step)

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


# --- reading back ----------------------------------------------------------------------------------------------------


def read_metrics(path: str | Path) -> list[Metrics]:
    """The lines that a ``JsonlSink`` wrote, each with its ``step``.

    A torn last line (its writer was killed) is dropped with a warning. Raises DataError for any other bad line and for
    a file that is not there.
    """
    if not Path(path).is_file():
        raise DataError(path, "there is no such file")
    return _parse(Path(path))


def _parse(path: Path) -> list[Metrics]:
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    rows: list[Metrics] = []
    for number, line in enumerate(lines, start=1):
        if not line and number == len(lines):
            break
        try:
            rows.append(_row(json.loads(line)))
        except ValueError as error:
            if number < len(lines):
                raise DataError(path, f"not a line of metrics: {error}", line=number) from error
            _log.warning("%s: dropped the torn last line %d, %d characters", path, number, len(line))
    return rows


def _row(data: object) -> Metrics:
    if not isinstance(data, dict):
        raise ValueError(f"expected an object, found {data!r}")
    if not isinstance(data.get("step"), int):
        raise ValueError(f"'step' is {data.get('step')!r}; it must be a whole number")
    return {name: value if name == "step" else _number(name, value) for name, value in data.items()}


def _number(name: str, value: object) -> float:
    if value is None:
        return math.nan
    if value == "inf" or value == "-inf" or (isinstance(value, int | float) and not isinstance(value, bool)):
        return float(value)
    raise ValueError(f'\'{name}\' is {value!r}; it must be a number, null, "inf" or "-inf"')


def _line(row: Mapping[str, float]) -> str:
    plain = {name: int(value) if name == "step" else _plain(value) for name, value in row.items()}
    return json.dumps(plain, allow_nan=False) + "\n"


def _plain(value: float) -> float | str | None:
    number = float(value)
    if math.isnan(number):
        return None
    return str(number) if math.isinf(number) else number
