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
from turngate.report.curves import means, plot_curves, plot_success, smooth

FINITE = st.floats(-1e3, 1e3)


@given(values=st.lists(FINITE, min_size=1, max_size=30), half=st.integers(0, 6))
def test_smooth_against_a_loop(values, half):
    slow = [np.mean(values[max(0, i - half) : i + half + 1]) for i in range(len(values))]
    np.testing.assert_allclose(smooth(np.array(values), 2 * half + 1), slow, atol=1e-8)


def test_means_are_of_neighbours_and_stand_at_their_last_step():
    x, y = means(np.array([1.0, 2, 3, 4, 7]), np.array([0.0, 1, 2, 4, 9]), 2)
    assert (x.tolist(), y.tolist()) == ([2, 4, 7], [0.5, 3, 9])
    assert [len(values) for values in means(np.zeros(0), np.zeros(0), 2)] == [0, 0]


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
    plot_curves(metrics(), tmp_path / "report" / "curves.png", title="lock, seed 0", about="split 'train'")
    assert (tmp_path / "report" / "curves.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    (figure,) = figures
    assert (figure.get_suptitle(), figure.get_supxlabel()) == ("lock, seed 0", "split 'train'")
    assert [(axes.get_title(), axes.get_ylabel()) for axes in figure.axes] == [
        ("Success in training (bold: mean of 3 steps)", "share of usable episodes"),
        ("Reward paid (bold: mean of 3 steps)", "reward per usable episode"),
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


def test_a_curriculum_has_panels_of_its_own(tmp_path, monkeypatch):
    figures = drawn(monkeypatch)
    own = {"curriculum/pass_rate": 0.4, "curriculum/weight/a:1": 0.3, "curriculum/weight/a:2": 0.7, "refill/tasks": 5}
    rows = [{"step": 1, "train/success": 0.5}, {"step": 2, "train/success": 0.5, **own}]
    plot_curves(rows, tmp_path / "c.png", title="t", about="a")
    (figure,) = figures
    assert [axes.get_title() for axes in figure.axes] == [
        "Success in training",
        "Pass rate of the curriculum's tasks",
        "Tasks played to fill a step",
        "Where the tasks come from",
    ]
    sources = figure.axes[3]
    assert [text.get_text() for text in sources.get_legend().get_texts()] == ["a:1", "a:2"]
    assert [line.get_xydata().tolist() for line in sources.lines] == [[[2, 0.3]], [[2, 0.7]]]


@pytest.mark.parametrize(
    ("metric", "low", "high", "bottom", "top"),
    [
        ("train/success", 0.5, 0.6, 0, 1),
        ("train/paid", 0.5, 0.6, 0, None),
        ("train/paid", -0.6, -0.5, None, 0),
        ("train/turns", 3, 3, 0, None),
    ],
)
def test_no_axis_leaves_out_0(metric, low, high, bottom, top, tmp_path, monkeypatch):
    figures = drawn(monkeypatch)
    plot_curves([{"step": 1, metric: low}, {"step": 2, metric: high}], tmp_path / "c.png", title="t", about="a")
    found = figures[0].axes[0].get_ylim()
    assert found[0] <= low <= high <= found[1]
    assert bottom in (None, found[0])
    assert top in (None, found[1])


def test_success_is_drawn_from_0_to_1_with_what_it_is(tmp_path, monkeypatch):
    figures = drawn(monkeypatch)
    runs = {"training, seed 3": metrics(10), "control, seed 3": metrics(6, scale=0.1)}
    about = "split 'train' of turngate/Lock-v1, sampled at temperature 0.7, no hints; 2.0% unusable " + "x " * 20
    plot_success(runs, tmp_path / "s.png", title="lock, seed 3: success in training episodes", about=about)
    (figure,) = figures
    (axes,) = figure.axes
    assert figure.get_suptitle() == "lock, seed 3: success in training episodes"
    assert axes.get_title().split() == about.split()
    assert max(map(len, axes.get_title().splitlines())) <= 85  # what fits the width of the figure
    assert (axes.get_ylim(), axes.get_ylabel()) == ((0, 1), "share of usable training episodes solved")
    assert axes.get_xlabel() == "training step (a point: mean of the 5 steps up to it)"
    training, control = axes.lines
    np.testing.assert_allclose(training.get_xydata(), [[5, 0.3], [10, 0.8]])
    np.testing.assert_allclose(control.get_xydata(), [[5, 0.05], [6, 0.1]])
    assert training.get_color() != control.get_color()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(runs)


def test_equal_curves_give_equal_bytes(tmp_path):
    for name in ("a", "b"):
        plot_curves(metrics(5), tmp_path / name, title="t", about="a")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_nothing_to_draw_is_said(tmp_path):
    with pytest.raises(DataError, match="none of train/success, guide/unguided_success, train/paid"):
        plot_curves([{"step": 1, "other": 2.0}], tmp_path / "c.png", title="t", about="a")
    with pytest.raises(DataError, match="neither train/success nor guide/unguided_success"):
        plot_success({"a": [{"step": 1, "other": 2.0}]}, tmp_path / "c.png", title="t", about="a")
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_the_command_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"turngate\[plots\]"):
        plot_curves(metrics(3), tmp_path / "c.png", title="t", about="a")


def test_matplotlib_is_loaded_late_and_pyplot_never(tmp_path):
    code = (
        "import sys; from turngate.report.curves import plot_success; assert 'matplotlib' not in sys.modules;"
        f"plot_success({{'a': [{{'step': 1, 'train/success': 1}}]}}, {str(tmp_path / 'c.png')!r}, title='t', about='');"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
