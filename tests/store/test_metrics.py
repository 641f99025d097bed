"""The clock and the file of metrics: names, what survives a kill, and what a resume drops."""

import json
import logging
import math

import pytest

from turngate.errors import DataError
from turngate.store.metrics import Clock, JsonlSink, read_metrics

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
    assert "dropped the incomplete last line 2, 15 characters" in caplog.text
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


def test_a_line_is_an_object_for_any_json_reader(tmp_path):
    JsonlSink(tmp_path / "m.jsonl").write(1, {"nan": math.nan, "inf": math.inf})
    strict = json.loads((tmp_path / "m.jsonl").read_text(), parse_constant=lambda name: pytest.fail(name))
    assert strict == {"step": 1, "nan": None, "inf": "inf"}
