"""A run that is broken, half written or older: what is readable is shown, and the rest is named."""

import shutil
from pathlib import Path

import pytest

from tests.helpers.command_line import turngate
from tests.report.viewer.conftest import Watched
from tests.report.viewer.test_pages import data, rows_of


def damage_metrics(run: Path) -> str:
    (run / "metrics.jsonl").write_text("not json\n{}\n")
    return "metrics.jsonl"


def damage_alarms(run: Path) -> str:
    (run / "alarms.jsonl").write_text('{"step": 1}\n')
    return "alarms.jsonl"


def damage_evaluations(run: Path) -> str:
    (run / "evaluations.jsonl").write_bytes(b"\xff\xfe")
    return "evaluations"


def damage_config(run: Path) -> str:
    (run / "config.toml").write_text('name = "old"\nno_such_key = 3\n')
    return "no_such_key"


def damage_episodes(run: Path) -> str:
    file = run / "trajectories" / "step=000002" / "train.parquet"
    file.write_bytes(file.read_bytes()[:-200])
    return "episodes of step 2, train"


def damage_folder(run: Path) -> str:
    (run / "trajectories" / "step=new").mkdir()
    shutil.copy(run / "trajectories" / "step=000001" / "train.parquet", run / "trajectories" / "step=new")
    return "step=new"


DAMAGES = (damage_metrics, damage_alarms, damage_evaluations, damage_config, damage_episodes, damage_folder)


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_rest_is_shown(watched: Watched, runs: tuple[Path, Path], tmp_path: Path, damage):
    run = shutil.copytree(runs[0], tmp_path / "hurt", ignore=shutil.ignore_patterns("report"))
    named = damage(run)
    assert turngate("report", "--html", run) == 0
    file = run / "report" / "run.html"
    watched.open(file.as_uri())
    watched.go("#/run/hurt")
    assert named in watched.page.inner_text(".problems")
    rows = rows_of(data(file, "r-0"))
    assert {row["phase"] for row in rows if row["step"] == 1} >= {"train"}
    (row, *_) = [row for row in rows if row["phase"] == "train"]
    watched.go(f"#/run/hurt/episode/{row['id'].replace('/', '%2F').replace('#', '%23')}")
    watched.page.wait_for_selector("#turn-0")
    assert watched.complaints == []


def test_a_run_that_has_only_begun(watched: Watched, runs: tuple[Path, Path], tmp_path: Path):
    run = tmp_path / "begun"
    run.mkdir()
    shutil.copy(runs[0] / "config.toml", run)
    (run / "metrics.jsonl").write_text('{"step": 1, "train/succ')
    assert turngate("report", "--html", run) == 0
    watched.open((run / "report" / "run.html").as_uri())
    assert "0 of 2 steps so far" in watched.text()
    assert "No episode is recorded." in watched.text()


def test_a_folder_that_is_no_run_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert turngate("report", "--html", tmp_path) == 2
    assert "is not the folder of a run" in capsys.readouterr().err
    assert turngate("view", tmp_path) == 2
    assert "turngate init" in capsys.readouterr().err
    assert turngate("report", tmp_path, "--beside", tmp_path) == 2
    assert "--beside has no effect without --html" in capsys.readouterr().err
