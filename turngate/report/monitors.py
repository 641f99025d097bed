"""The monitors of a run: a table of the alarms that began, and a figure of the measured values.

Both are made from the run's records (``monitor/…`` in its metrics, and ``alarms.jsonl``); nothing is scored again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table
from rich.text import Text

from turngate.errors import DataError
from turngate.report.episode_words import literal
from turngate.report.figure import COLOURS, Rows, curve_of, legend_below, new_figure, save_figure, tidy
from turngate.rewards.monitors.alarm import Alarm, Monitor
from turngate.rewards.monitors.watchlist import BATCH_MONITORS, TREND_MONITORS
from turngate.trainer.checks.alarm_log import Raised

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MONITORS: tuple[Monitor[Any], ...] = (*BATCH_MONITORS, *TREND_MONITORS)
HEADINGS = ("step", "alarm", "evidence", "look at")
USABLE = 0.9  # a run with a smaller share of usable episodes says so at its end; the number is our choice
LABELLED = 6  # with more alarms in a panel, their step numbers would cover each other
SEVERITY_COLOURS = {"warning": COLOURS[1], "notice": COLOURS[4]}


def is_monitored(rows: Rows) -> bool:
    """Whether any monitor had a value in any step."""
    return bool(_drawn(rows))


def no_alarms(rows: Rows) -> str:
    """A sentence for a run without alarms: either that none was raised, or that the run was not monitored."""
    if not is_monitored(rows):
        return "no alarms are known: this run was not monitored"
    return f"no alarm was raised in {len(rows)} steps"


def usable_line(rows: Rows) -> str:
    """A warning if the usable share of episodes, averaged over the steps, is below ``USABLE``; else ""."""
    shares = [row["train/unusable_share"] for row in rows if "train/unusable_share" in row]
    if not shares or (usable := 1 - sum(shares) / len(shares)) >= USABLE:
        return ""
    worst = max(rows, key=lambda row: row.get("train/unusable_share", 0.0))
    return (
        f"only {usable:.0%} of the training episodes were usable (below {USABLE:.0%}; worst in step "
        f"{worst['step']:.0f}, with {max(shares):.0%} unusable): rates and rewards leave the unusable ones out; "
        "'turngate show' says why they broke"
    )


def missing_line(rows: Rows) -> str:
    """Which verdicts are missing, and in what share of the training episodes; "" if none is."""
    found: dict[str, list[float]] = {}
    for row in rows:
        for name, share in row.items():
            if name.startswith("reward/") and name.endswith("/missing_share"):
                found.setdefault(name.removeprefix("reward/").removesuffix("/missing_share"), []).append(share)
    told = [f"'{name}' in {sum(shares) / len(shares):.1%}" for name, shares in sorted(found.items()) if any(shares)]
    if not told:
        return ""
    return (
        f"verdicts that were due could not be had: {', '.join(told)} of the training episodes (mean over steps); "
        "credit and 'train/paid' count the siblings' mean in their place, the ledger counts nothing"
    )


def alarm_table(raised: Sequence[Raised]) -> Table:
    """One row per alarm that began, in order, with a line for the trajectory to look at where there is one.

    Text of a model is shown as it is: markup and control codes are inert.
    """
    table = Table(box=None)
    table.add_column("step", justify="right")
    table.add_column("alarm and its evidence", overflow="fold")
    for step, alarm in raised:
        style = "yellow" if alarm.severity == "warning" else ""
        told = Text.assemble((_one_line(f"{alarm.name} ({alarm.severity})"), style), ": ", _one_line(alarm.sentence))
        if alarm.trajectories:
            told.append(f"\nlook at {_one_line(alarm.trajectories[0])}")
        table.add_row(str(step), told)
    return table


def alarm_markdown(raised: Sequence[Raised]) -> str:
    """The same table in Markdown."""
    lines = ["| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
    for step, alarm in raised:
        cells = (str(step), f"{alarm.name} ({alarm.severity})", alarm.sentence, _look_at(alarm))
        lines.append("| " + " | ".join(_one_line(cell).replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def plot_monitors(rows: Rows, raised: Sequence[Raised], path: str | Path, *, title: str) -> None:
    """Draw what each monitor measured over the training steps, its limits, and where its alarm began or stayed on.

    A monitor has a panel if it had a value in at least one step; steps without a value are gaps. Raises DataError when
    there is nothing to draw, and MissingExtra without matplotlib.
    """
    drawn = _drawn(rows)
    if not drawn:
        raise DataError(path, "nothing to draw: no monitor had a value in any step")
    n_columns = min(4, len(drawn))
    n_rows = -(-len(drawn) // n_columns)
    figure = new_figure(3.9 * n_columns, 2.6 * n_rows + 0.6)
    for number, monitor in enumerate(drawn, start=1):
        axes = figure.add_subplot(n_rows, n_columns, number)
        _draw_monitor(axes, monitor, rows, [one for one in raised if one.alarm.name == monitor.name])
        tidy(axes, "training step")
        axes.set_xlim(*_limits(rows))
    legend_below(figure, n_columns=5)
    save_figure(figure, path, title)


# --- parts -----------------------------------------------------------------------------------------------------------


def _drawn(rows: Rows) -> list[Monitor[Any]]:
    return [monitor for monitor in _MONITORS if len(curve_of(rows, f"monitor/{monitor.name}")[0])]


def _draw_monitor(axes: Axes, monitor: Monitor[Any], rows: Rows, raised: Sequence[Raised]) -> None:
    steps = np.array([row["step"] for row in rows], np.float64)
    value = np.array([row.get(f"monitor/{monitor.name}", np.nan) for row in rows], np.float64)
    value[~np.isfinite(value)] = np.nan
    on = np.array([row.get(f"monitor/{monitor.name}_alarm", 0.0) == 1.0 for row in rows])
    axes.plot(steps, value, color=COLOURS[0], linewidth=1.3, marker=".", markersize=3, label="measured")
    for limit in monitor.limits:
        axes.axhline(limit, color="#888888", linewidth=0.9, linestyle="--", label="limit")
    for step in steps[on]:
        axes.axvspan(step - 0.5, step + 0.5, color="#888888", alpha=0.15, linewidth=0, label="alarm is on")
    for step, alarm in raised:
        axes.axvline(step, color=SEVERITY_COLOURS[alarm.severity], linewidth=1.2, label=f"{alarm.severity} begins")
        if len(raised) <= LABELLED:
            axes.annotate(f"{step}", (step, 1.0), xycoords=("data", "axes fraction"), fontsize=7, ha="center")
    if np.nanmin([*value, *monitor.limits]) >= 0:  # nothing below zero, so no axis there
        axes.set_ylim(bottom=-0.03 * axes.get_ylim()[1])
    name = monitor.name.replace("_", " ")
    axes.set_title(f"{name}: {_times(raised)}" if raised else name, fontsize=9, pad=12)
    axes.set_ylabel(monitor.unit, fontsize=8)
    axes.tick_params(labelsize=8)


def _times(raised: Sequence[Raised]) -> str:
    return "1 alarm" if len(raised) == 1 else f"{len(raised)} alarms"


def _limits(rows: Rows) -> tuple[float, float]:
    """The same steps in every panel, so that they can be compared down the page."""
    steps = [row["step"] for row in rows]
    return min(steps) - 0.5, max(steps) + 0.5


def _look_at(alarm: Alarm) -> str:
    return alarm.trajectories[0] if alarm.trajectories else "–"


def _one_line(text: str) -> str:
    return literal(" ".join(text.split()))
