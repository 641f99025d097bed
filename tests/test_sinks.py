"""Sinks: what each is given, what a run that goes on leaves in them, and what stops a run."""

import io
import json
import math
import struct
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.helpers.command_line import turngate
from tests.helpers.tiny_run import tiny_model
from turngate.config.run_config import dump, parse
from turngate.errors import ConfigError, DataError, MissingExtra, RunError
from turngate.sinks import (
    ConsoleLines,
    ConsoleSink,
    Jsonl,
    Opening,
    Sink,
    SinkPart,
    Tensorboard,
    Trackio,
    Wandb,
    open_sinks,
)
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics


def opening(folder: Path, done: int = 0, **config: Any) -> Opening:
    folder.mkdir(exist_ok=True)
    return Opening(run=RunFolder(folder), done=done, config=config, console=Console(file=io.StringIO()))


def steps(file: Path) -> list[tuple[float, float]]:
    return [(row["step"], row["a"]) for row in read_metrics(file)]


# --- every sink has its turn -----------------------------------------------------------------------------------------

LOG: list[tuple[Any, ...]] = []


class Recording(SinkPart):
    """Remembers what happens to it."""

    name: str
    fails: str = ""

    def open(self, opening: Opening) -> Sink:
        if self.fails == "open":
            raise MissingExtra("bells", "whistles")
        LOG.append((self.name, "opened", opening.done))
        return RecordingSink(self)


class RecordingSink:
    def __init__(self, part: Recording) -> None:
        self.part = part

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        LOG.append((self.part.name, step, dict(metrics)))
        if self.part.fails == "write":
            raise OSError("no space left")

    def close(self) -> None:
        LOG.append((self.part.name, "closed"))
        if self.part.fails == "close":
            raise OSError(f"{self.part.name} cannot close")


def recording(name: str, fails: str = "") -> Recording:
    return Recording(type="own", name=name, fails=fails)


@pytest.fixture(autouse=True)
def log() -> list[tuple[Any, ...]]:
    LOG.clear()
    return LOG


def test_all_sinks_get_everything_and_all_are_closed(tmp_path: Path, log: list[tuple[Any, ...]]) -> None:
    parts = [recording("a"), recording("b", fails="close"), recording("c")]
    with pytest.raises(OSError, match="b cannot close"), open_sinks(parts, opening(tmp_path, 7)) as sinks:
        sinks.write(8, {"x": 2.0})
    assert log[:3] == [("a", "opened", 7), ("b", "opened", 7), ("c", "opened", 7)]
    assert log[3:6] == [("a", 8, {"x": 2.0}), ("b", 8, {"x": 2.0}), ("c", 8, {"x": 2.0})]
    assert sorted(log[6:]) == [("a", "closed"), ("b", "closed"), ("c", "closed")]
    assert [row["step"] for row in read_metrics(tmp_path / "metrics.jsonl")] == [8]


def test_a_sink_that_fails_is_named_after_the_others_had_their_turn(tmp_path: Path, log: list[tuple[Any, ...]]) -> None:
    said = r"^sink 'own' failed in step 3: OSError: no space left\. .* take it out of \[\[sink\]\]"
    with open_sinks([recording("a", fails="write"), recording("b")], opening(tmp_path)) as sinks:
        with pytest.raises(RunError, match=said):
            sinks.write(3, {"x": 1.0})
        assert log[-1] == ("b", 3, {"x": 1.0})
    assert [row["step"] for row in read_metrics(tmp_path / "metrics.jsonl")] == [3]


def test_a_sink_that_cannot_be_opened_closes_those_before_it(tmp_path: Path, log: list[tuple[Any, ...]]) -> None:
    with pytest.raises(MissingExtra, match="whistles"):
        open_sinks([recording("a"), recording("b", fails="open"), recording("c")], opening(tmp_path))
    assert log == [("a", "opened", 0), ("a", "closed")]


# --- the shipped ones ------------------------------------------------------------------------------------------------


def test_the_console_prints_one_line_per_step_without_markup() -> None:
    out = io.StringIO()
    sink = ConsoleSink(Console(file=out, width=20), ["train/success", "absent", "time/[red]_s", "time/", "none/"])
    sink.write(12, {"train/success": 0.123456, "time/[red]_s": 1234.5, "time/b_s": 1.0, "other": 1.0})
    sink.close()
    assert out.getvalue() == "step    12  train/success 0.1235  time/[red]_s 1234  time/ 1236\n"


def test_the_console_of_a_run_is_the_one_of_its_progress_bar(tmp_path: Path) -> None:
    given = opening(tmp_path)
    ConsoleLines(keys=("a",)).open(given).write(1, {"a": 0.5})
    assert given.console.file.getvalue() == "step     1  a 0.5\n"  # type: ignore[attr-defined]


def test_a_second_file_is_named_after_the_run_and_after_its_control(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "lock")
    run.path.mkdir()
    run.config.touch()
    for folder in (run, run.control("random_reward")):
        folder.path.mkdir(parents=True, exist_ok=True)
        with open_sinks([Jsonl(folder=tmp_path / "all")], opening(folder.path)) as sinks:
            for step in (1, 2, 3):
                sinks.write(step, {"a": float(step)})
        with open_sinks([Jsonl(folder=tmp_path / "all")], opening(folder.path, done=1)) as sinks:
            sinks.write(2, {"a": 20.0})
        assert steps(tmp_path / "all" / f"{folder.label}.jsonl") == steps(folder.metrics) == [(1, 1.0), (2, 20.0)]
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == ["lock-random_reward.jsonl", "lock.jsonl"]


def scalars(folder: Path, name: str) -> list[tuple[int, float]]:
    """What TensorBoard shows."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    shown = EventAccumulator(str(folder))
    shown.Reload()
    return [(event.step, event.value) for event in shown.Scalars(name)]


@pytest.mark.component
def test_tensorboard_shows_each_step_once(tmp_path: Path) -> None:
    for done, played in ((0, (1, 2, 3)), (1, (2, 3, 4))):
        sink = Tensorboard().open(opening(tmp_path, done))
        for step in played:
            sink.write(step, {"a/b": step + 10.0 * done, "none": math.nan})
        sink.close()
    assert scalars(tmp_path / "tensorboard", "a/b") == [(1, 1.0), (2, 12.0), (3, 13.0), (4, 14.0)]
    assert all(math.isnan(value) for _, value in scalars(tmp_path / "tensorboard", "none"))


@pytest.mark.component
def test_a_step_is_on_disk_for_tensorboard_before_the_sink_is_closed(tmp_path: Path) -> None:
    sink = Tensorboard().open(opening(tmp_path))
    sink.write(1, {"a": 0.5})
    assert scalars(tmp_path / "tensorboard", "a") == [(1, 0.5)]
    sink.close()


def logged(run: RunFolder) -> Iterator[Any]:
    """The records of every offline file: blocks of 32 KiB after a head of 7 bytes, as in LevelDB's log."""
    import wandb
    from wandb.proto import wandb_internal_pb2

    wandb.teardown()  # files are whole when the process that writes them has ended
    for file in sorted(run.wandb.glob("offline-run-*/*.wandb")):
        data, at, whole = file.read_bytes(), 7, b""
        while at + 7 <= len(data):
            if (left := 32768 - at % 32768) < 7:
                at += left
                continue
            _, length, kind = struct.unpack("<IHB", data[at : at + 7])
            whole += data[at + 7 : at + 7 + length]
            at += 7 + length
            if kind in (1, 4):  # a whole record, or the last part of one
                yield wandb_internal_pb2.Record.FromString(whole)
                whole = b""


def history(run: RunFolder, name: str) -> list[tuple[int, float]]:
    rows = [record.history for record in logged(run) if record.WhichOneof("record_type") == "history"]
    values = [{item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in row.item} for row in rows]
    return [(value["_step"], value[name]) for value in values]


@pytest.mark.component
def test_wandb_is_told_what_the_run_is_and_each_step_once(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "lock")
    sink = Wandb(project="locks", tags=("small",), offline=True).open(opening(run.path, seed=3))
    for step in (1, 2, 3, 2, 3, 4):
        sink.write(step, {"a/b": step + 0.5})
    sink.close()
    assert history(run, "a/b") == [(1, 1.5), (2, 2.5), (3, 3.5), (4, 4.5)]
    [begun] = [record.run for record in logged(run) if record.WhichOneof("record_type") == "run"]
    assert (begun.display_name, begun.project, *begun.tags) == ("lock", "locks", "small")
    assert {item.key: item.value_json for item in begun.config.update}["seed"] == "3"
    assert json.loads((run.wandb / "sink.json").read_text()) == {"id": begun.run_id, "step": 4}


@pytest.mark.component
def test_a_damaged_record_of_a_wandb_run_is_named(tmp_path: Path) -> None:
    (tmp_path / "wandb").mkdir()
    (tmp_path / "wandb" / "sink.json").write_text('{"id": 3}')
    with pytest.raises(DataError, match=r'sink\.json: must be a JSON object with id and step, not \{"id": 3\}'):
        Wandb(offline=True).open(opening(tmp_path))


@pytest.mark.parametrize(
    ("module", "part", "command"),
    [
        ("torch.utils.tensorboard", Tensorboard(), r"'tensorboard' is not installed.*turngate\[tensorboard\]"),
        ("wandb", Wandb(), r"'wandb' is not installed.*turngate\[wandb\]"),
        ("trackio", Trackio(), r"'trackio' is not installed.*turngate\[trackio\]"),
    ],
)
def test_a_missing_package_names_its_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, module: str, part: SinkPart, command: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=command):
        part.open(opening(tmp_path))


# --- in a config -----------------------------------------------------------------------------------------------------

WARM = {"warm_start": {"episodes": 1}}


def test_sinks_are_read_from_a_config_and_written_back() -> None:
    config = parse({**WARM, "sink": ["tensorboard", {"type": "jsonl", "folder": "x"}]})
    assert config.sink == (Tensorboard(), Jsonl(folder=Path("x")))
    assert parse(tomllib.loads(dump(config))) == config
    assert parse(WARM).sink == (ConsoleLines(),)
    assert parse({**WARM, "sink": []}).sink == ()


@pytest.mark.parametrize(
    ("sink", "problem"),
    [
        ("tensorbord", r"^sink\[0\]: unknown sink type 'tensorbord'; did you mean 'tensorboard'\?"),
        ({"type": "wandb", "projekt": "x"}, r"^unknown key 'sink\[0\]\.projekt'; did you mean 'project'\?"),
        ({"type": "jsonl"}, r"^key 'sink\[0\]\.folder' is missing"),
        ("json:JSONEncoder", "which is not a sink; it must be a subclass of turngate.sinks.SinkPart"),
    ],
)
def test_a_wrong_sink_is_one_line(sink: object, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse({**WARM, "sink": [sink]})


CONFIG = (
    """
name = "lock"
folder = "{folder}/runs"

[env]
id = "turngate/Lock-v1"
"""
    + tiny_model()
    + """
[train]
steps = 5
tasks_per_step = 3
group_size = 4
checkpoint_every = 2

[eval]
tasks = 2

[[sink]]
type = "tensorboard"

[[sink]]
type = "wandb"
offline = true

[[sink]]
type = "jsonl"
folder = "{folder}/copies"

[[sink]]
type = "own_sink:Steps"
limit = {limit}
"""
)
OWN = '''
from turngate.sinks import SinkPart

class Steps(SinkPart):
    """The number of each step, as text."""
    limit: int

    def open(self, opening):
        return StepsSink(opening.run.path / "steps.txt", self.limit, opening.done)

class StepsSink:
    def __init__(self, file, limit, done):
        self.file, self.limit = file, limit
        with file.open("a") as text:
            text.write(f"after {done}:")

    def write(self, step, metrics):
        if step > self.limit:
            raise ValueError(f"more than {self.limit} steps")
        with self.file.open("a") as text:
            text.write(f" {step}")

    def close(self):
        with self.file.open("a") as text:
            text.write(" end\\n")
'''


@pytest.mark.component
def test_a_run_whose_sink_fails_goes_on_without_it_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_sink.py").write_text(OWN)
    path, run = tmp_path / "lock.toml", RunFolder(tmp_path / "runs" / "lock")
    path.write_text(CONFIG.format(folder=tmp_path, limit=3))
    assert turngate("train", path) == 1
    assert "sink 'own_sink:Steps' failed in step 4: ValueError: more than 3 steps" in capsys.readouterr().err
    assert [row["step"] for row in read_metrics(run.metrics)] == [1, 2, 3, 4]
    path.write_text(CONFIG.format(folder=tmp_path, limit=9))
    assert turngate("train", path) == 0
    assert (run.path / "steps.txt").read_text() == "after 0: 1 2 3 end\nafter 2: 3 4 5 end\n"
    rows = [(row["step"], row["train/paid"]) for row in read_metrics(run.metrics)]
    assert [step for step, _ in rows] == [1, 2, 3, 4, 5]
    assert [(row["step"], row["train/paid"]) for row in read_metrics(tmp_path / "copies" / "lock.jsonl")] == rows
    assert scalars(run.tensorboard, "train/paid") == [(step, pytest.approx(paid)) for step, paid in rows]  # float32
    assert history(run, "train/paid") == rows
    assert len({record.run.run_id for record in logged(run) if record.WhichOneof("record_type") == "run"}) == 1


def test_a_sink_whose_package_is_missing_is_named_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "wandb", None)
    (tmp_path / "own_sink.py").write_text(OWN)
    path = tmp_path / "lock.toml"
    path.write_text(CONFIG.format(folder=tmp_path, limit=9))
    assert turngate("train", path) == 2
    assert 'pip install "turngate[wandb]"' in capsys.readouterr().err
    assert not (tmp_path / "runs/lock/warm_start").exists()
    assert turngate("train", path, "--sink=[]", "--seed=1", "--train.steps=0") == 0
