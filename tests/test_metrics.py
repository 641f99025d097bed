"""The clock and the sinks: names, what survives a kill, and what a resume drops."""

import io
import json
import logging
import math
import sys
import types

import pytest
from rich.console import Console

from turngate.errors import DataError, MissingExtra
from turngate.metrics import Clock, ConsoleSink, JsonlSink, Sinks, TensorboardSink, WandbSink, read_metrics

# --- clock -----------------------------------------------------------------------------------------------------------


def test_the_clock_is_a_dict_of_metrics(monkeypatch):
    now = iter([10.0, 12.5, 20.0, 20.25, 30.0, 30.5])
    monkeypatch.setattr("time.perf_counter", lambda: next(now))
    clock = Clock()
    with clock("rollout"):
        pass
    with clock("learn"):
        pass
    with pytest.raises(KeyError), clock("rollout"):
        raise KeyError("a block that fails counts too")
    assert dict(clock) == {"time/rollout_s": 3.0, "time/learn_s": 0.25}
    assert {"train/success": 1.0} | clock == {"train/success": 1.0, "time/rollout_s": 3.0, "time/learn_s": 0.25}


# --- jsonl -----------------------------------------------------------------------------------------------------------


def test_lines_are_strict_json_and_come_back(tmp_path):
    path = tmp_path / "run" / "metrics.jsonl"
    sink = JsonlSink(path)
    sink.write(1, {"a": 0.1 + 0.2, "missing": math.nan})
    sink.write(2, {"up": math.inf, "down": -math.inf, "whole": 3})
    sink.close()
    assert path.read_text() == (
        '{"step": 1, "a": 0.30000000000000004, "missing": null}\n'
        '{"step": 2, "up": "inf", "down": "-inf", "whole": 3.0}\n'
    )
    first, second = read_metrics(path)
    assert (first["step"], first["a"]) == (1, 0.30000000000000004)
    assert isinstance(first["step"], int)
    assert math.isnan(first["missing"])
    assert second == {"step": 2, "up": math.inf, "down": -math.inf, "whole": 3.0}


def test_an_existing_file_is_appended_to(tmp_path):
    path = tmp_path / "metrics.jsonl"
    JsonlSink(path).write(1, {"a": 1.0})
    JsonlSink(path).write(2, {"a": 2.0})
    assert [row["a"] for row in read_metrics(path)] == [1.0, 2.0]


def test_a_torn_last_line_is_dropped_with_a_warning(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "a": 1.0}\n{"step": 2, "a"')
    assert read_metrics(path) == [{"step": 1, "a": 1.0}]
    assert "dropped the torn last line 2, 15 characters" in caplog.text
    JsonlSink(path).write(2, {"a": 2.0})
    assert path.read_text() == '{"step": 1, "a": 1.0}\n{"step": 2, "a": 2.0}\n'


def test_a_last_line_that_lacks_only_its_newline_is_kept(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "a": 1.0}')
    JsonlSink(path).write(2, {"a": 2.0})
    assert [row["a"] for row in read_metrics(path)] == [1.0, 2.0]


def test_a_resume_drops_later_steps_and_the_torn_line(tmp_path):
    path = tmp_path / "metrics.jsonl"
    sink = JsonlSink(path)
    assert sink.truncate_after(0) == 0
    for step in (1, 2, 2, 3, 4):
        sink.write(step, {"a": float(step)})
    with path.open("a") as file:
        file.write('{"step": 5')
    assert sink.truncate_after(2) == 2
    sink.write(3, {"a": 30.0})
    assert [(row["step"], row["a"]) for row in read_metrics(path)] == [(1, 1.0), (2, 2.0), (2, 2.0), (3, 30.0)]
    assert [p.name for p in tmp_path.iterdir()] == ["metrics.jsonl"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not a line of metrics: Expecting"),
        ("[1]", r"line 2: not a line of metrics: expected an object, found \[1\]"),
        ('{"a": 1.0}', "'step' is None; it must be a whole number"),
        ('{"step": 1.5}', "'step' is 1.5; it must be a whole number"),
        ('{"step": 1, "a": "0.5"}', "'a' is '0.5'; it must be a number"),
        ('{"step": 1, "a": true}', "'a' is True; it must be a number"),
        ("", "line 2: not a line of metrics"),
    ],
)
def test_a_bad_line_in_the_middle_is_named(tmp_path, line, message):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n' + line + '\n{"step": 3}\n')
    with pytest.raises(DataError, match=message):
        read_metrics(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"metrics\.jsonl: there is no such file"):
        read_metrics(tmp_path / "metrics.jsonl")


# --- other sinks -----------------------------------------------------------------------------------------------------


def test_the_console_prints_one_line_per_step_without_markup():
    out = io.StringIO()
    sink = ConsoleSink(Console(file=out, width=20), ["train/success", "absent", "time/[red]_s"])
    sink.write(12, {"train/success": 0.123456, "time/[red]_s": 1234.5, "other": 1.0})
    sink.close()
    assert out.getvalue() == "step    12  train/success 0.1235  time/[red]_s 1234\n"


class Recording:
    def __init__(self, log, name, fails=False):
        self.log, self.name, self.fails = log, name, fails

    def write(self, step, metrics):
        self.log.append((self.name, step, dict(metrics)))

    def close(self):
        self.log.append((self.name, "closed"))
        if self.fails:
            raise OSError(f"{self.name} cannot close")


def test_all_sinks_get_everything_and_all_are_closed():
    log = []
    sinks = Sinks([Recording(log, "a"), Recording(log, "b", fails=True), Recording(log, "c")])
    sinks.write(1, {"x": 2.0})
    assert log == [("a", 1, {"x": 2.0}), ("b", 1, {"x": 2.0}), ("c", 1, {"x": 2.0})]
    with pytest.raises(OSError, match="b cannot close"):
        sinks.close()
    assert sorted(log[3:]) == [("a", "closed"), ("b", "closed"), ("c", "closed")]


def test_tensorboard_gets_one_scalar_per_metric(tmp_path, monkeypatch):
    log = []

    class Writer:
        def __init__(self, folder):
            log.append(folder)

        def add_scalar(self, *values):
            log.append(values)

        def close(self):
            log.append("closed")

    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    sink = TensorboardSink(tmp_path)
    sink.write(3, {"a": 1.0, "b": 2.0})
    sink.close()
    assert log == [str(tmp_path), ("a", 1.0, 3), ("b", 2.0, 3), "closed"]


def test_wandb_continues_the_same_run(tmp_path, monkeypatch):
    log = []
    run = types.SimpleNamespace(log=lambda metrics, step: log.append((metrics, step)), finish=lambda: log.append("end"))
    module = types.ModuleType("wandb")
    module.init = lambda **settings: log.append(settings) or run
    monkeypatch.setitem(sys.modules, "wandb", module)
    sink = WandbSink("project", run_id="r1", folder=tmp_path, config={"seed": 1})
    sink.write(3, {"a": 1.0})
    sink.close()
    settings = {"project": "project", "id": "r1", "name": "r1", "dir": str(tmp_path), "config": {"seed": 1}}
    assert log == [settings | {"resume": "allow"}, ({"a": 1.0}, 3), "end"]


@pytest.mark.parametrize(
    ("module", "make", "command"),
    [
        ("torch.utils.tensorboard", lambda: TensorboardSink("x"), r"turngate\[tensorboard\]"),
        ("wandb", lambda: WandbSink("p", run_id="r", folder="x", config={}), r"turngate\[wandb\]"),
    ],
)
def test_a_missing_package_names_its_command(monkeypatch, module, make, command):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=command):
        make()


def test_a_line_is_an_object_for_any_json_reader(tmp_path):
    JsonlSink(tmp_path / "m.jsonl").write(1, {"nan": math.nan, "inf": math.inf})
    strict = json.loads((tmp_path / "m.jsonl").read_text(), parse_constant=lambda name: pytest.fail(name))
    assert strict == {"step": 1, "nan": None, "inf": "inf"}
