"""Guidance in a report: help and success apart, at the beginning and at the end, in words and as curves."""

import numpy as np

from tests.helpers.command_line import turngate
from tests.report.test_summary import LOCK
from turngate.config.run_config import dump, parse
from turngate.report import curves, guidance
from turngate.report.curves import plot_curves, plot_success
from turngate.report.guidance import plot_guidance, was_guided
from turngate.store.metrics import JsonlSink


def step(number, *, share, alone, lifts, **more):
    levels = {f"guide/lift_{level}": lift for level, lift in lifts.items()}
    others = {f"guide/{name}": value for name, value in more.items()}
    return {"step": number, "guide/guided_share": share, "guide/unguided_success": alone, **levels, **others}


ROWS = [
    *(step(n, share=0.5, alone=0.1, lifts={1: 0.2, 10: 0.7}, refused_hints=1) for n in (1, 2)),
    *(step(n, share=0.2, alone=0.5, lifts={1: 0.1}) for n in range(3, 19)),
    *(step(n, share=0.01, alone=0.9, lifts={}, conversion=0.8) for n in (19, 20)),
]


def reported(folder, capsys, rows):
    sink = JsonlSink(folder / "metrics.jsonl")
    for row in rows:
        sink.write(int(row["step"]), {"train/success": 0.5, **row})
    (folder / "config.toml").write_text(dump(parse({"model": "any", "env": [{"id": LOCK}]})))
    assert turngate("report", folder) == 0
    return capsys.readouterr().out, (folder / "report" / "summary.md").read_text()


def test_the_report_tells_help_and_success_apart(tmp_path, capsys):
    told, summary = reported(tmp_path, capsys, ROWS)
    table = (
        "## guidance in training\n\n"
        "|  | steps 1 to 2 | steps 19 to 20 |\n"
        "| --- | --- | --- |\n"
        "| episodes with help | 50.0% | 1.0% |\n"
        "| success without help | 10.0% | 90.0% |\n"
        "| success with help of level 1 | 30.0% | – |\n"
        "| success with help of level 10 | 80.0% | – |\n"
        "| conversion | – | 80.0% |\n\n"
        "2 hints were refused because they hold the answer.\n\n"
        "![Help and what it was worth](guidance.png)\n"
    )
    assert table in summary
    assert "2 hints were refused because they hold the answer." in told.splitlines()
    assert (tmp_path / "report" / "guidance.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_a_run_without_a_guide_has_no_such_section(tmp_path, capsys):
    told, summary = reported(tmp_path, capsys, [{"step": 1}])
    assert "guidance" not in told + summary
    assert not (tmp_path / "report" / "guidance.png").exists()
    assert not was_guided([{"step": 1}])


def test_a_guide_that_helped_nobody_is_told_too(tmp_path, capsys):
    _, summary = reported(tmp_path, capsys, [step(1, share=0.0, alone=0.5, lifts={})])
    assert "|  | steps 1 | steps 1 |" in summary
    assert "| episodes with help | 0.0% | 0.0% |" in summary


def drawn(monkeypatch, module):
    """The figures that are drawn from now on."""
    figures, make = [], module.new_figure
    monkeypatch.setattr(module, "new_figure", lambda *size: figures.append(make(*size)) or figures[-1])
    return figures


def test_success_is_that_of_episodes_without_help(tmp_path, monkeypatch):
    """A mean for each five steps; the control of another run has no guide, so all its episodes count."""
    figures = drawn(monkeypatch, curves)
    alone = [{"step": n, "train/success": 0.25} for n in (1, 2)]
    plot_success(
        {"a": [{"train/success": 1.0, **row} for row in ROWS], "b": alone}, tmp_path / "s.png", title="", about=""
    )
    own, other = figures[0].axes[0].lines
    np.testing.assert_allclose(own.get_ydata(), [(2 * 0.1 + 3 * 0.5) / 5, 0.5, 0.5, (3 * 0.5 + 2 * 0.9) / 5])
    np.testing.assert_allclose(other.get_ydata(), [0.25])


def test_curves_show_success_with_and_without_help_apart(tmp_path, monkeypatch):
    figures = drawn(monkeypatch, curves)
    plot_curves([{"train/success": 1.0, **row} for row in ROWS[:4]], tmp_path / "c.png", title="", about="")
    both, alone = figures[0].axes
    assert [axes.get_title() for axes in (both, alone)] == [
        "Success in training, with and without help",
        "Success without help",
    ]
    assert both.lines[0].get_ydata().tolist() == [1, 1, 1, 1]
    assert alone.lines[0].get_ydata().tolist() == [0.1, 0.1, 0.5, 0.5]


def test_where_every_episode_had_help_no_success_is_drawn(tmp_path, capsys):
    told, _ = reported(tmp_path, capsys, [{"step": 1, "guide/guided_share": 1.0}])
    assert "success.png" not in told
    assert {path.name for path in (tmp_path / "report").glob("*.png")} == {"curves.png", "guidance.png"}


def test_decay_and_lift_are_drawn(tmp_path, monkeypatch):
    figures = drawn(monkeypatch, guidance)
    plot_guidance(ROWS, tmp_path / "g.png", title="lock")
    decay, lift = figures[0].axes
    assert [line.get_label() for line in decay.lines] == ["episodes with help", "success without help", "conversion"]
    assert [line.get_label() for line in lift.lines[:2]] == ["lift of level 1", "lift of level 10"]
    assert lift.lines[0].get_ydata().tolist() == [0.2] * 2 + [0.1] * 16
    assert (decay.get_ylim(), lift.get_ylim()) == ((0, 1), (-1.05, 1.05))
