"""The monitors in a report: the table says what was raised, the figure where, and calm is told from blindness."""

import io
import math

import numpy as np
import pytest
from rich.console import Console

from turngate.errors import DataError
from turngate.report import monitors
from turngate.report.monitors import alarm_markdown, alarm_table, is_monitored, no_alarms, plot_monitors
from turngate.report.summary import write_report
from turngate.rewards.monitors.alarm import Alarm
from turngate.store.metrics import JsonlSink
from turngate.trainer.checks.alarm_log import AlarmLog, Raised

SPAM = Alarm(
    name="tool_spam",
    severity="warning",
    sentence="9 of 12 episodes make the same call: ls [red]\x1b|x|",
    evidence={"trajectories": ["run/3/a", "run/3/b"]},
)
DRIFT = Alarm(name="turns_drift", severity="notice", sentence="turns went from 3 to 9")
RAISED = [Raised(3, SPAM), Raised(5, DRIFT)]


def metrics(n=6):
    """Spam in steps 3 and 4; drift can be told from step 4 on and is on from step 5."""
    rows = []
    for step in range(1, n + 1):
        row = {"step": step, "train/success": 0.5, "monitor/overlap_share": 0.2, "time/rollout_s": 1.0}
        row |= {"monitor/tool_spam": 0.75 * (step in (3, 4)), "monitor/tool_spam_alarm": float(step in (3, 4))}
        if step >= 4:
            row |= {"monitor/turns_drift": 4.0 if step > 4 else math.inf, "monitor/turns_drift_alarm": float(step > 4)}
        rows.append(row)
    return rows


def printed(table, width=120):
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(table)
    return console.file.getvalue()


def test_the_table_has_step_name_evidence_and_where_to_look():
    lines = [line.strip() for line in printed(alarm_table(RAISED)).splitlines()]
    assert lines == [
        "step  alarm and its evidence",
        "3  tool_spam (warning): 9 of 12 episodes make the same call: ls [red]\\x1b|x|",
        "look at run/3/a",
        "5  turns_drift (notice): turns went from 3 to 9",
    ]


def test_the_table_fits_into_80_columns_with_long_names_and_every_word():
    trajectory = "turngate/Sql-v1:shop/train/1234#17@7c1098c8594fccc"
    alarm = Alarm(
        name="success_by_unusable",
        severity="warning",
        sentence="words " * 40 + "end",
        evidence={"trajectories": [trajectory]},
    )
    lines = printed(alarm_table([Raised(12345, alarm)]), width=80).splitlines()
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert f"12345 success_by_unusable (warning): {'words ' * 40}end look at {trajectory}" in text


def test_the_table_in_markdown():
    assert alarm_markdown(RAISED).splitlines() == [
        "| step | alarm | evidence | look at |",
        "|---|---|---|---|",
        "| 3 | tool_spam (warning) | 9 of 12 episodes make the same call: ls [red]\\x1b\\|x\\| | run/3/a |",
        "| 5 | turns_drift (notice) | turns went from 3 to 9 | – |",
    ]


def test_a_run_without_alarms_says_whether_anybody_looked():
    assert no_alarms(metrics()) == "no alarm was raised in 6 steps"
    blind = [{"step": 1, "train/success": 1.0}]
    assert no_alarms(blind) == "no alarms are known: this run was not monitored"
    assert (is_monitored(metrics()), is_monitored(blind), is_monitored([])) == (True, False, False)


def drawn(monkeypatch):
    """The figures that are drawn from now on."""
    figures = []
    make = monitors.new_figure
    monkeypatch.setattr(monitors, "new_figure", lambda *size: figures.append(make(*size)) or figures[-1])
    return figures


def test_each_monitor_that_could_tell_has_a_panel_with_its_limits_and_alarms(tmp_path, monkeypatch):
    figures = drawn(monkeypatch)
    plot_monitors(metrics(), RAISED, tmp_path / "monitors.png", title="lock, seed 0: monitors")
    assert (tmp_path / "monitors.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    (figure,) = figures
    assert figure.get_suptitle() == "lock, seed 0: monitors"
    assert [(axes.get_title(), axes.get_xlabel(), axes.get_ylabel()) for axes in figure.axes] == [
        ("tool spam: 1 alarm", "training step", "share of episodes"),
        ("turns drift: 1 alarm", "training step", "z"),
    ]
    spam, drift = figure.axes
    value, limit, begin = spam.lines
    np.testing.assert_allclose(value.get_ydata(), [0, 0, 0.75, 0.75, 0, 0])
    assert list(limit.get_ydata()) == [0.05, 0.05]
    assert list(begin.get_xdata()) == [3, 3]
    assert [text.get_text() for text in spam.texts] == ["3"]
    assert len(spam.patches) == 2  # the steps in which it was on
    np.testing.assert_allclose(drift.lines[0].get_ydata(), [np.nan, np.nan, np.nan, np.nan, 4, 4])  # a gap, no zero
    assert [line.get_ydata()[0] for line in drift.lines[1:3]] == [-3.0, 3.0]
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {
        "measured",
        "limit",
        "alarm is on",
        "warning begins",
        "notice begins",
    }
    assert spam.get_xlim() == drift.get_xlim() == (0.5, 6.5)


def test_equal_runs_give_equal_bytes(tmp_path):
    for name in ("a", "b"):
        plot_monitors(metrics(), RAISED, tmp_path / name, title="t")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_nothing_to_draw_is_said(tmp_path):
    with pytest.raises(DataError, match="no monitor had a value"):
        plot_monitors([{"step": 1, "monitor/overlap_share": 0.5}], [], tmp_path / "m.png", title="t")
    assert list(tmp_path.iterdir()) == []


# --- the report of a run ---------------------------------------------------------------------------------------------


def run_folder(path, rows, alarms=()):
    sink = JsonlSink(path / "metrics.jsonl")
    for row in rows:
        sink.write(row["step"], row)
    (path / "config.toml").write_text('name = "lock"\nseed = 7\nmodel = "any"\n[env]\nid = "turngate/Lock-v1"\n')
    for step, alarm in alarms:
        AlarmLog(path).write(step, alarm)
    return path


def reported(run):
    console = Console(file=io.StringIO(), width=160, force_terminal=False)
    write_report(run, console)
    return console.file.getvalue(), (run / "report" / "summary.md").read_text()


def test_a_report_has_the_alarms_and_the_figure_of_the_monitors(tmp_path, monkeypatch):
    figures = drawn(monkeypatch)
    run = run_folder(tmp_path / "lock", metrics(), RAISED)
    run_folder(run / "controls" / "random_reward", metrics())
    text, summary = reported(run)
    assert figures[0].get_suptitle() == "lock, seed 7: hacking and starvation monitors of training episodes"
    assert "monitors.png" in text
    assert "tool_spam (warning)" in text
    assert "no alarm was raised in 6 steps" in text  # of the control
    assert "## alarms, training\n\n| step | alarm |" in summary
    assert "## alarms, control: random reward\n\nno alarm was raised in 6 steps\n" in summary


def test_a_run_that_was_not_monitored_has_no_such_figure(tmp_path):
    rows = [{name: value for name, value in row.items() if "monitor/" not in name} for row in metrics()]
    text, _ = reported(run_folder(tmp_path / "old", rows))
    assert "this run was not monitored" in text
    assert "monitors.png" not in text
    assert not (tmp_path / "old" / "report" / "monitors.png").exists()
