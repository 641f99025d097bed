"""The benchmark of replaying: what it records is what it says, and it counts what diverges and what it planted."""

import json
import sys
from dataclasses import replace

import pytest

from benchmarks import replay
from benchmarks.replay import ENVS, main, measured, plant
from turngate.store import Store
from turngate.types import Observation


@pytest.mark.parametrize("name", ["lock", "router"])
def test_every_episode_is_counted(tmp_path, name):
    found = measured(name, 8, tmp_path)
    counts = found.counts
    assert (counts.identical, counts.diverged, counts.left_out.total()) == (8, [], 0)
    assert (found.planted, found.found, found.good) == (2, 2, True)
    assert "identical      8  diverged    0" in found.line()
    episodes = [
        pair for group in Store(tmp_path / name).read() for pair in zip(group.trajectories, group.scores, strict=True)
    ]
    assert len(episodes) == 8
    solved = [score.success for one, score in episodes if int(one.id.rpartition("#")[2][0]) % 2 == 0]
    assert solved == [True] * 4  # those that follow the oracle
    assert not all(score.success for _, score in episodes)


def test_one_character_of_one_observation_is_planted(tmp_path):
    measured("lock", 4, tmp_path)
    (group,) = Store(tmp_path / "lock").read()
    for one in group.trajectories:
        changed, where = plant(one)
        shown = [turn.observation.text for turn in one.turns]
        planted = [turn.observation.text for turn in changed.turns]
        differ = [number for number, (old, new) in enumerate(zip(shown, planted, strict=True)) if old != new]
        assert differ == [where.turn]
        old, new = shown[where.turn], planted[where.turn]
        assert [place for place, (a, b) in enumerate(zip(old, new, strict=True)) if a != b] == [where.place]
    silent = [replace(turn, observation=Observation(text="")) for turn in one.turns]
    assert plant(replace(one, turns=tuple(silent))) is None


def test_a_planted_difference_that_is_not_found_fails_the_command(tmp_path, monkeypatch, capsys):
    file = tmp_path / "found.json"
    monkeypatch.setattr(sys, "argv", ["replay", "--envs", "lock=8", "router", "--episodes", "4", "--json", str(file)])
    assert main() == 0
    rows = json.loads(file.read_text())["environments"]
    assert {name: row["identical"] for name, row in rows.items()} == {"lock": 8, "router": 4}
    monkeypatch.setattr(replay, "plant", lambda one: (one, plant(one)[1]))  # says so, and changes nothing
    assert main() == 1
    assert "planted   2 found   0" in capsys.readouterr().out


def test_the_environments_are_those_that_ship():
    assert {one["id"] for one in ENVS.values()} == {
        f"turngate/{name}-v1" for name in ("Lock", "Sql", "Search", "Router", "ToolUse", "CodeRepair", "Web")
    }
