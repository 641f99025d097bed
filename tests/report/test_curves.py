"""Curves: the numbers that are drawn against slow loops, and that the drawings say what they show."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.errors import DataError, MissingExtra
from turngate.report import curves
from turngate.report.curves import mean_curve, plot_curves, plot_runs, smooth

FINITE = st.floats(-1e3, 1e3)


@given(values=st.lists(FINITE, min_size=1, max_size=30), half=st.integers(0, 6))
def test_smooth_against_a_loop(values, half):
    slow = [np.mean(values[max(0, i - half) : i + half + 1]) for i in range(len(values))]
    np.testing.assert_allclose(smooth(np.array(values), 2 * half + 1), slow, atol=1e-8)


def test_the_mean_covers_what_all_seeds_share_and_interpolates():
    first = np.array([[0.0, 0.0], [2.0, 2.0], [4.0, 4.0]])
    second = np.array([[1.0, 10.0], [3.0, 30.0], [9.0, 90.0]])
    expected = [[1.0, 5.5], [2.0, 11.0], [3.0, 16.5], [4.0, 22.0]]
    np.testing.assert_allclose(mean_curve([first, second]), expected)
    assert mean_curve([]).shape == (0, 2)
    assert mean_curve([first[:1], second]).shape == (0, 2)


def drawn(monkeypatch):
    """The figures that are drawn from now on."""
    figures = []
    make = curves.new_figure
    monkeypatch.setattr(curves, "new_figure", lambda *size: figures.append(make(*size)) or figures[-1])
    return figures


def metrics(n=40, scale=1.0):
    return [
        {
            "step": step,
            "train/success": scale * step / n,
            "train/paid": 0.5,
            "policy/entropy_nats": math.nan if step == 3 else 1.0 / step,
            "time/rollout_s": 3.0,
            "time/learn_s": 0.96,
            "time/record_s": 0.04,
        }
        for step in range(1, n + 1)
    ]


def test_a_run_is_drawn_panel_by_panel(tmp_path, monkeypatch):
    figures = drawn(monkeypatch)
    plot_curves(metrics(), tmp_path / "report" / "curves.png", title="lock, seed 0")
    assert (tmp_path / "report" / "curves.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    (figure,) = figures
    assert figure.get_suptitle() == "lock, seed 0"
    assert [(axes.get_title(), axes.get_ylabel()) for axes in figure.axes] == [
        ("Success in training (bold: mean of 3 steps)", "share of episodes"),
        ("Reward paid (bold: mean of 3 steps)", "reward per episode"),
        ("Entropy of the policy (bold: mean of 3 steps)", "nats per token"),
        ("Time", "seconds per step"),
    ]
    assert {axes.get_xlabel() for axes in figure.axes} == {"training step"}
    raw, smoothed = figure.axes[0].lines
    np.testing.assert_allclose(raw.get_ydata(), np.arange(1, 41) / 40)
    np.testing.assert_allclose(smoothed.get_ydata()[1:-1], np.arange(2, 40) / 40)
    assert len(figure.axes[2].lines[0].get_xdata()) == 39
    labels = [text.get_text() for text in figure.axes[3].get_legend().get_texts()]
    assert labels == ["rollout 75%", "learn 24%", "other 1%"]


def test_several_runs_share_one_legend(tmp_path, monkeypatch):
    figures = drawn(monkeypatch)
    plot_curves({"gated": metrics(), "control": metrics(scale=0.1)}, tmp_path / "c.png", title="t")
    (figure,) = figures
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["gated", "control"]
    bold = [line for line in figure.axes[0].lines if line.get_label() in ("gated", "control")]
    assert [line.get_color() for line in bold] == list(curves.COLOURS[:2])
    np.testing.assert_allclose(figure.axes[-1].lines[0].get_ydata(), 4.0)


def test_seeds_are_thin_and_their_mean_is_bold(tmp_path, monkeypatch):
    figures = drawn(monkeypatch)
    series = {
        "gated": [[(0, 0.0), (10, 1.0)], [(0, 0.5), (10, 0.7), (20, math.nan)]],
        "control": [[(0, 0.1), (10, 0.1)]],
    }
    plot_runs(series, tmp_path / "runs.png", ylabel="success (share)", xlabel="training step", title="SQL")
    (figure,) = figures
    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("training step", "success (share)")
    first, second, mean, control = axes.lines
    assert first.get_linewidth() < mean.get_linewidth()
    assert second.get_color() == mean.get_color() != control.get_color()
    np.testing.assert_allclose(mean.get_xydata(), [[0, 0.25], [10, 0.85]])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "gated (mean of 2 seeds)",
        "control (1 seed)",
    ]


def test_equal_curves_give_equal_bytes(tmp_path):
    for name in ("a", "b"):
        plot_curves(metrics(5), tmp_path / name, title="t")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_nothing_to_draw_is_said(tmp_path):
    with pytest.raises(DataError, match="none of train/success, train/paid"):
        plot_curves([{"step": 1, "other": 2.0}], tmp_path / "c.png", title="t")
    with pytest.raises(DataError, match="no curve has a point"):
        plot_runs({"a": [[]]}, tmp_path / "c.png", ylabel="y", xlabel="x", title="t")
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_the_command_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"turngate\[plots\]"):
        plot_curves(metrics(3), tmp_path / "c.png", title="t")


def test_matplotlib_is_loaded_late_and_pyplot_never(tmp_path):
    code = (
        "import sys; from turngate.report.curves import plot_runs; assert 'matplotlib' not in sys.modules;"
        f"plot_runs({{'a': [[(0, 1.0)]]}}, {str(tmp_path / 'c.png')!r}, ylabel='y', xlabel='x', title='t');"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
