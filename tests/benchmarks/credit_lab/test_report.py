"""The command from end to end, small, and what it writes."""

import csv

import numpy as np
import pytest

from benchmarks.credit_lab.__main__ import main, options, run
from benchmarks.credit_lab.processes import all_processes
from benchmarks.credit_lab.report import BEGIN, END, write_page
from turngate.errors import DataError

ONLY = ["rloo", "ngrpo", "reinforce_pp", "tree_rl", "control: centred per index"]
QUICK = ["--quick", "--only", *ONLY]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab")
    (folder / "credit_lab.md").write_text(f"Title\n\n{BEGIN}\nold\n{END}\n\nAfterwards\n")
    assert main([*QUICK, "--out", str(folder)]) == 0
    return folder


def test_the_csv_has_one_row_for_each_process_and_estimator(folder):
    with (folder / "data" / "credit_lab.csv").open() as file:
        lines = list(csv.DictReader(file))
    expected = [
        (process.name, label)
        for process in all_processes()
        for label in ONLY
        if not (label == "ngrpo" and process.name in ("hackable", "gated", "delayed"))
    ]
    assert [(line["process"], line["estimator"]) for line in lines] == expected
    rloo = [line for line in lines if line["estimator"] == "rloo"]
    assert all(abs(float(line["scale"]) - 1) < 0.3 and line["claims"] == "gradient" for line in rloo)
    assert all(0 <= float(line["success_after_low"]) <= float(line["success_after_high"]) for line in lines)


def test_the_figure_is_a_picture(folder):
    assert (folder / "figures" / "credit_lab.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_keeps_its_prose_and_gets_new_tables(folder):
    page = (folder / "credit_lab.md").read_text()
    assert page.startswith("Title\n")
    assert page.endswith("\n\nAfterwards\n")
    assert "old" not in page
    assert "| rloo | gradient |" in page
    for title in ("Claims", "Biased by design", "Direction bias", "Trajectories until", "Success under"):
        assert f"### {title}" in page


def test_a_page_without_markers_is_refused(tmp_path):
    (tmp_path / "credit_lab.md").write_text("no markers")
    results = run(options(["--quick", "--only", "rloo"]))
    with pytest.raises(DataError, match="marker lines"):
        write_page(results, tmp_path / "credit_lab.md")


def test_a_broken_claim_fails_the_command(tmp_path, monkeypatch, capsys):
    from benchmarks.credit_lab import estimators

    monkeypatch.setattr(estimators, "find", lambda method: lambda turns: np.ones_like(turns.reward_N))
    assert main(["--quick", "--only", "rloo", "--out", str(tmp_path)]) == 1
    assert "'rloo' does not keep its claim" in capsys.readouterr().out


def test_an_unknown_label_is_refused(capsys):
    with pytest.raises(SystemExit):
        options(["--only", "rlo"])
    assert "unknown estimator 'rlo'" in capsys.readouterr().err
