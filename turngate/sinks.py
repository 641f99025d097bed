"""Sinks: where the numbers of each training step go besides ``metrics.jsonl``, which every run keeps.

    [[sink]]
    type = "tensorboard"

A config holds a ``SinkPart``; a run opens it and gets a ``Sink``, which is given the numbers of every step:

1. The numbers of a step go to ``metrics.jsonl`` first, then to every ``[[sink]]`` in the order of the config; then the
   checkpoint is written. So every sink has every step that a checkpoint covers.
2. A run that goes on plays the steps after its checkpoint again. Each sink is told the last step that counts when it is
   opened (``Opening.done``), and must make sure that no step is recorded twice.
3. A sink that raises stops the run, after the other sinks were given the step; the RunError names it. Started again,
   the run goes on after its checkpoint. ``[[sink]]`` is the only setting that may be changed in between.

Your own sink is a class in any module, named ``package.module:Class`` or by an entry point of group ``turngate.sinks``:

>>> class Loudest(SinkPart):
...     metric: str = "time/collect_s"
...     def open(self, opening):
...         return LoudestSink(opening.run.path / "loudest.txt", self.metric)
"""

from __future__ import annotations

import importlib
import json
import shlex
import uuid
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import ClassVar, Literal, Protocol, Self
from urllib.parse import quote

from pydantic import Field
from rich.console import Console
from rich.text import Text

from turngate.errors import ConfigError, DataError, MissingExtra, RunError
from turngate.foreign import described
from turngate.jsonl import read_json
from turngate.parts import Part
from turngate.servers import VIEW_PORT
from turngate.store import Store, write_json_atomic
from turngate.store.files import write_image
from turngate.store.folder import RunFolder
from turngate.store.metrics import JsonlSink
from turngate.types import JSON, Score, Trajectory, derive_seed, storable


class Sink(Protocol):
    """Where the numbers of each step are written. Opened by a ``SinkPart``."""

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Take the numbers of one step. NaN means that a metric could not be measured."""
        ...

    def close(self) -> None:
        """Close files and connections. Called once, also when the run failed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The arguments of a sink when it is opened.

    ``done`` is the last step that counts: 0 at the beginning, else that of the checkpoint from which the run goes on.
    ``config`` is the whole tree of settings. ``console`` is the one that shows the progress bar.
    """

    run: RunFolder
    done: int
    config: Mapping[str, JSON]
    console: Console


class SinkPart(Part):
    """Settings of a sink, which takes the metrics of each step. A subclass sets ``type`` and defines ``open``."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "sink"

    @abstractmethod
    def open(self, opening: Opening) -> Sink:
        """Open the sink of one run, before the run does any work. What this raises stops the run."""


class Sinks:
    """``metrics.jsonl`` of a run and its sinks, in order; a context manager that closes all of them."""

    def __init__(self, sinks: Sequence[tuple[str, Sink]]) -> None:
        self._sinks = tuple(sinks)

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Give the numbers of a step to every sink. If one of them raised, raises RunError after all were called."""
        problems = [problem for name, sink in self._sinks if (problem := _refused(name, sink, step, metrics))]
        if problems:
            raise RunError(
                f"{'; '.join(problems)}. The other sinks have the numbers of step {step}. Repair this sink or take it "
                "out of [[sink]], then start the run again: it goes on after its last checkpoint"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        with ExitStack() as stack:
            for _, sink in reversed(self._sinks):
                stack.callback(sink.close)


def open_sinks(parts: Sequence[SinkPart], opening: Opening) -> Sinks:
    """Open ``metrics.jsonl`` and the sinks of a run; steps that are going to be played again are cut from the file.

    If a sink cannot be opened, those opened before it are closed, and what it raised is raised.
    """
    with ExitStack() as opened:
        metrics = JsonlSink(opening.run.metrics)
        metrics.truncate_after(opening.done)
        sinks: list[tuple[str, Sink]] = [(opening.run.metrics.name, metrics)]
        for part in parts:
            sink = part.open(opening)
            opened.callback(sink.close)
            sinks.append((part.type, sink))
        opened.pop_all()
    return Sinks(sinks)


def _refused(name: str, sink: Sink, step: int, metrics: Mapping[str, float]) -> str:
    try:
        sink.write(step, metrics)
    except Exception as error:
        return f"sink '{name}' failed in step {step}: {described(error)}"
    return ""


def _imported(module: str, extra: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(extra, extra) from error


# --- what ships ------------------------------------------------------------------------------------------------------


class Jsonl(SinkPart):
    """A copy of metrics.jsonl in a folder of your choice, for instance one that collects several runs."""

    type: Literal["jsonl"] = "jsonl"
    folder: Path
    """Folder of the file. The file is called NAME.jsonl after the run, and NAME-CONTROL.jsonl for a control."""

    def open(self, opening: Opening) -> Sink:
        """The file, without the steps that are going to be played again."""
        sink = JsonlSink(self.folder.absolute() / f"{opening.run.label}.jsonl")
        sink.truncate_after(opening.done)
        return sink


class ConsoleLines(SinkPart):
    """One line per step on the terminal."""

    type: Literal["console"] = "console"
    keys: tuple[str, ...] = (
        "train/success",
        "guide/unguided_success",
        "train/paid",
        "train/turns",
        "policy/entropy_nats",
        "time/",
    )
    """Metrics to print, in this order; those that a step does not have are left out. A name that ends in / prints the
    sum of its section: time/ is the number of seconds that the step took. train/success counts episodes with help, too;
    guide/unguided_success, in a run with a guide, only those without."""

    def open(self, opening: Opening) -> Sink:
        """Lines above the progress bar."""
        return ConsoleSink(opening.console, self.keys)


class Tensorboard(SinkPart):
    """Event files for TensorBoard, one scalar per metric, in the run's folder tensorboard/."""

    type: Literal["tensorboard"] = "tensorboard"

    def open(self, opening: Opening) -> Sink:
        """Event files beside those of earlier starts. Raises MissingExtra."""
        return TensorboardSink(opening.run.tensorboard, done=opening.done)


class Wandb(SinkPart):
    """A run at Weights & Biases, with the settings of the run as its config."""

    type: Literal["wandb"] = "wandb"
    project: str = "turngate"
    """Project at Weights & Biases in which the run appears."""
    entity: str | None = None
    """User or team that owns the project; leave out for your default entity."""
    tags: tuple[str, ...] = Field(())
    """Tags of the run at Weights & Biases."""
    offline: bool = False
    """true: write to the run's folder wandb/ only, and upload it later with `wandb sync`, for a machine without
    internet. false: the environment variable WANDB_MODE decides."""

    def open(self, opening: Opening) -> Sink:
        """A run at Weights & Biases, or the one that was begun before a resume. Raises MissingExtra."""
        return WandbSink(self, opening)


class Trackio(SinkPart):
    """A run of trackio, Hugging Face's dashboard, in its SQLite file on this machine. `trackio show --project NAME`
    opens it. Nothing is sent anywhere; `trackio sync` uploads a project to a Space, when you ask for it."""

    type: Literal["trackio"] = "trackio"
    project: str = "turngate"
    """Project of trackio in which the run appears. Its file is PROJECT.db in the folder that the environment variable
    TRACKIO_DIR names, else trackio/ in the cache of Hugging Face."""
    episodes: int = Field(2, ge=0)
    """Number of episodes of each step that appear there turn by turn, as traces: the first siblings of its first task.
    A trace has the images that were seen, and the address of the episode's page in `turngate view`. 0: none."""

    def open(self, opening: Opening) -> Sink:
        """A run in trackio's file, or the one that was begun before a resume. Raises MissingExtra, and ConfigError
        where trackio cannot write its file safely."""
        return TrackioSink(self, opening)


class ConsoleSink:
    """One line per step with the chosen metrics, in the order given; those that a step does not have are left out."""

    def __init__(self, console: Console, keys: Sequence[str]) -> None:
        self._console, self._keys = console, tuple(keys)

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Print the line of one step."""
        line = Text.assemble("step ", (f"{step:>5}", "bold"))
        for key in self._keys:
            value = _summed(key, metrics) if key.endswith("/") else metrics.get(key)
            if value is not None:
                line.append(f"  {key} ", "dim").append(f"{value:.4g}")
        self._console.print(line, soft_wrap=True)

    def close(self) -> None:
        """The console belongs to the caller."""


def _summed(section: str, metrics: Mapping[str, float]) -> float | None:
    values = [value for name, value in metrics.items() if name.startswith(section)]
    return sum(values) if values else None


class TensorboardSink:
    """Scalars for TensorBoard in ``folder``. Entries of earlier files there about steps after ``done`` are hidden."""

    def __init__(self, folder: Path, *, done: int) -> None:
        module = _imported("torch.utils.tensorboard", "tensorboard")
        self._writer = module.SummaryWriter(str(folder), purge_step=done + 1)

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add one scalar per metric; they are on disk before the checkpoint of the step."""
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        """Flush and close."""
        self._writer.close()


class WandbSink:
    """One run at Weights & Biases for one run of turngate, however often that is resumed.

    Weights & Biases cannot delete a logged step, and offline it does not know what was logged before. So the file
    ``wandb/sink.json`` keeps the run's id at Weights & Biases and the last step that was logged; a step that is played
    again is not logged again. A separate process of theirs does the writing: steps that it had not written when the
    machine went down are missing at Weights & Biases, but not in ``metrics.jsonl``.
    """

    def __init__(self, part: Wandb, opening: Opening) -> None:
        wandb = _imported("wandb", "wandb")
        self._file = opening.run.wandb / "sink.json"
        self._id, self._last = _continued(self._file)
        self._run = wandb.init(
            project=part.project,
            entity=part.entity,
            tags=part.tags,
            id=self._id,
            name=opening.run.label,
            dir=str(opening.run.path),
            config=dict(opening.config),
            resume="allow",
            mode="offline" if part.offline else None,
            settings=wandb.Settings(console="off"),
        )
        self._remember()

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log the numbers of a step that was not logged yet."""
        if step > self._last:
            self._run.log(dict(metrics), step=step, commit=True)
            self._last = step
            self._remember()

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()

    def _remember(self) -> None:
        write_json_atomic(self._file, {"id": self._id, "step": self._last})


class TrackioSink:
    """One run in a project of trackio for one run of turngate, however often that is resumed.

    trackio's own ``init`` asks the Hub who is logged in, and its ``log`` writes later, in a thread that turns a failure
    into a warning. So the rows are given to its storage directly: they are in the file before the checkpoint of the
    step, and a failure is raised. A row is named after run and step, and trackio keeps the first of a name; so a
    step that is played again is not there twice. ``trackio/sink.json`` keeps the run's id.
    """

    def __init__(self, part: Trackio, opening: Opening) -> None:
        self._trackio = _imported("trackio", "trackio")
        if self._trackio.utils.get_storage_mode() != "sqlite":
            raise ConfigError(
                f"sink 'trackio': its folder {self._trackio.utils.TRACKIO_DIR} is on a network file system, or the "
                "environment variable TRACKIO_STORAGE_MODE is 'jsonl'; set TRACKIO_DIR to a folder of this machine, or "
                "TRACKIO_STORAGE_MODE=sqlite if no other machine writes there"
            )
        try:
            self._trackio.SQLiteStorage.validate_project_name(part.project)
        except ValueError as error:
            raise ConfigError(f"sink 'trackio': project = '{part.project}': {error}") from error
        self._part, self._run = part, opening.run
        self._settings = {**opening.config, "folder_of_the_run": str(opening.run.path.absolute())}
        file = opening.run.trackio / "sink.json"
        self._id, _ = _continued(file)
        write_json_atomic(file, {"id": self._id, "step": opening.done})

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add the row of a step that is not there yet, and some of its episodes."""
        traces = [self._trace(step, trajectory, score) for trajectory, score in self._episodes(step)]
        row = {**metrics, "episodes": traces} if traces else dict(metrics)
        self._trackio.SQLiteStorage.bulk_log(
            project=self._part.project,
            run=self._run.label,
            run_id=self._id,
            metrics_list=[row],
            steps=[step],
            log_ids=[f"{self._id}-{step}"],
            config=self._settings,
        )

    def close(self) -> None:
        """Nothing is open between two rows."""

    def _episodes(self, step: int) -> list[tuple[Trajectory, Score]]:
        store = Store(self._run.path)
        if not self._part.episodes or step not in store.steps("train"):
            return []
        played = [
            pair for g in store.read_groups(step, "train", [0]) for pair in zip(g.trajectories, g.scores, strict=True)
        ]
        return played[: self._part.episodes]

    def _trace(self, step: int, trajectory: Trajectory, score: Score) -> dict[str, JSON]:
        """An episode as trackio stores it: a message for each observation, hint and answer, and where its page is."""
        messages: list[JSON] = []
        for index, turn in enumerate(trajectory.turns):
            text, name = storable(turn.observation.text), f"{derive_seed(trajectory.id):016x}-{index}"
            seen = [
                self._image(step, image, f"{name}-{place}", f"seen before turn {index}")
                for place, image in enumerate(turn.observation.images)
            ]
            messages.append({"role": "user", "content": [{"type": "text", "text": text}, *seen] if seen else text})
            if turn.guidance is not None:
                messages.append({"role": "system", "content": storable(f"({turn.guidance.kind}) {turn.guidance.text}")})
            messages.append({"role": "assistant", "content": storable(turn.action.text)})
        shown = "/".join(quote(part, safe="") for part in ("run", self._run.label, "episode", trajectory.id))
        facts: dict[str, JSON] = {
            "episode": storable(trajectory.id),
            "task": storable(trajectory.task.id),
            "ending": str(trajectory.ending),
            "outcome": score.outcome,
            "paid": score.total,
            "page": f"http://127.0.0.1:{VIEW_PORT}/#/{shown}",
            "page_is_served_by": f"turngate view {shlex.quote(str(self._run.path.absolute()))}",
        }
        return {"_type": "trackio.trace", "messages": messages, "metadata": facts, "spans": []}

    def _image(self, step: int, image: bytes, name: str, caption: str) -> JSON:
        """An image in the folder where trackio looks for those of a step, under a name that a second try has too."""
        folder = self._trackio.media.get_project_media_path(project=self._part.project, run=self._run.label, step=step)
        file = write_image(image, folder, name).relative_to(self._trackio.utils.MEDIA_DIR)
        return {"_type": "trackio.image", "file_path": str(file), "caption": caption}


def _continued(file: Path) -> tuple[str, int]:
    """Id and last logged step of a run that a sink has begun; a new id and 0 if it has begun none. Raises DataError."""
    if not file.exists():
        return uuid.uuid4().hex[:8], 0
    row = read_json(file)
    match row:
        case {"id": str(name), "step": int(step)}:
            return name, step
    raise DataError(file, f"must be a JSON object with id and step, not {json.dumps(row)[:80]}")
