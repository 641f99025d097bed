"""A run with help from its environment, from the config to the report: what is refused, and what one sees of the rest.

1. A hint that holds the answer is refused, counted and named; its episode is played without help.
2. Help and forced turns are marked wherever episodes are shown, and the report tells them apart.
3. An evaluation by the same config plays unguided.
"""

import logging

import pytest

from tests.cli.small_run import CONFIG
from tests.helpers.command_line import turngate
from turngate.config.run_config import parse
from turngate.run.assembly.guide_help import EnvironmentHelp
from turngate.run.environments import Environments
from turngate.store import Store
from turngate.store.metrics import read_metrics

GUIDE = 'guide = {{type = "tests.helpers.guides:HelpsOne", level = {level}}}\n'
ONE_DIAL = 'id = "turngate/Lock-v1"\ntasks = {type = "lock", dials = 1}'


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Trains two steps with the hint of a level; returns the folder of the run."""
    monkeypatch.chdir(tmp_path)

    def go(level, *, env='id = "turngate/Lock-v1"'):
        text = GUIDE.format(level=level) + CONFIG.format(steps=2).replace('id = "turngate/Lock-v1"', env)
        (tmp_path / "lock.toml").write_text(text)
        assert turngate("train", "lock.toml") == 0
        return tmp_path / "runs" / "lock"

    return go


def test_help_is_seen_from_the_episode_to_the_report(trained, capsys, tmp_path):
    run = trained(3)
    rows = read_metrics(run / "metrics.jsonl")
    assert [row["guide/refused_hints"] for row in rows] == [0.0, 0.0]
    assert [row["guide/guided_share"] for row in rows] == [0.5, 0.5]
    groups = list(Store(run).read(2, "train"))
    hinted, *alone, forced = groups[0].trajectories
    assert hinted.guidance.text in hinted.turns[0].guidance.text
    assert " takes " in hinted.guidance.text
    assert {one.guidance for one in alone} == {None}

    capsys.readouterr()
    assert turngate("show", run) == 0
    listed = capsys.readouterr().out
    assert "help" in listed.splitlines()[1]
    assert "hint 3" in listed
    assert "prefix 1, 1 forced" in listed
    assert turngate("show", run, "--trajectory", hinted.id) == 0
    shown = capsys.readouterr().out
    assert "hint, level 3, from env, seen in training" in shown
    assert "nothing was learned from it: no sibling with the same help to compare it with" in shown
    assert turngate("show", run, "--trajectory", forced.id) == 0
    shown = capsys.readouterr().out
    assert "1 of 3 turns, by oracle" in shown
    assert "forced by oracle (" in shown

    assert turngate("report", run) == 0
    summary = (run / "report" / "summary.md").read_text()
    assert "## guidance in training" in summary
    assert "| episodes with help | 50.0% | 50.0% |" in summary
    assert (run / "report" / "guidance.png").exists()

    capsys.readouterr()
    assert turngate("eval", run / "model", "--config", "lock.toml", "--out", tmp_path / "kept") == 0
    assert "solved unaided" in capsys.readouterr().out
    store = Store(tmp_path / "kept")
    played = [one for group in store.read(0, "eval-heldout-sampled") for one in group.trajectories]
    assert played
    assert all(one.guidance is None and all(turn.guidance is None for turn in one.turns) for one in played)


def test_a_hint_that_holds_the_answer_is_refused_counted_and_named(trained, caplog):
    """The lock of one dial: its second hint names its only key."""
    with caplog.at_level(logging.WARNING):
        run = trained(2, env=ONE_DIAL)
    rows = read_metrics(run / "metrics.jsonl")
    assert [row["guide/refused_hints"] for row in rows] == [3.0, 3.0]
    assert [row["guide/guided_share"] for row in rows] == [0.25, 0.25]
    told = [record.getMessage() for record in caplog.records if "refused" in record.getMessage()]
    assert len(told) == 1
    assert told[0].startswith("hint of level 2 refused: that of task 'lock-1/train/")
    assert "holds the answer, '" in told[0]


def test_a_run_is_told_of_its_environments_under_their_names():
    sections = [{"id": "turngate/Lock-v1"}, {"id": "turngate/Sql-v1", "name": "shop"}]
    with Environments(parse({"model": "any", "env": sections}).env) as environments:
        help_ = EnvironmentHelp(environments, "", seed=0)
        lock, shop = (environments.task(label, "train", 0) for label, _ in environments)
        assert [help_.hint_levels(task) for task in (lock, shop)] == [3, 4]
        assert help_.hint(lock, 2) == "red takes a."
        assert help_.hint(shop, 1) == "Tables: customers."
        assert help_.hint(shop, 5) is None
        assert help_.solutions(lock) == [["press b", "press a", "press a"]]
        assert help_.secrets(shop) == (shop.private["gold"],)
