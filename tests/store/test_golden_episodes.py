"""Recorded episodes of the shipped environments, which have to replay identically: they pin what an environment does.

A change that is meant renews them: ``python -m tests.golden.renew``.
"""

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.golden.renew import GOLDEN, NAMES, PHASE, renew
from tests.helpers.command_line import turngate_at
from tests.helpers.planted import one_character
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.types import Ending, ScoredGroup

ENVS = ("lock", "sql", "search", "router", "lending", "helpdesk", "retail")
N_EPISODES = 6


def replayed(folder: Path, code: int) -> dict:
    assert turngate_at(folder.parent, "replay", "--trust", folder, "--json", folder.parent / "found.json") == code
    found: dict = json.loads((folder.parent / "found.json").read_text())
    return found


def copied(name: str, folder: Path, groups: list[ScoredGroup]) -> Path:
    """The golden episodes with other groups."""
    shutil.copytree(GOLDEN / name, folder / name, ignore=shutil.ignore_patterns("trajectories"))
    Store(folder / name).write(0, groups, phase=PHASE)
    return folder / name


@pytest.mark.parametrize(("name", "n_envs"), [("in_process", len(ENVS)), ("sandboxed", 1)])
def test_the_golden_episodes_replay_identically(tmp_path: Path, name: str, n_envs: int):
    found = replayed(copied(name, tmp_path, list(Store(GOLDEN / name).read())), 0)
    assert (found["identical"], found["diverged"], found["left_out"]) == (N_EPISODES * n_envs, [], {})


def test_one_character_is_found_in_each_environment(tmp_path: Path):
    """In an observation, in what an action was read as, and in a state key, each in another episode."""
    groups, planted = [], {}
    for group in Store(GOLDEN / "in_process").read():
        ones = list(group.trajectories)
        for sibling, what in enumerate(("observation", "state key", "parse_error of the action")):
            turns = list(ones[sibling].turns)
            turn = turns[1]
            seen, action = turn.observation, turn.action
            changed = {
                "observation": replace(turn, observation=replace(seen, text=one_character(seen.text))),
                "state key": replace(turn, observation=replace(seen, state_key=one_character(seen.state_key))),
                "parse_error of the action": replace(turn, action=replace(action, parse_error="planted")),
            }
            turns[1] = changed[what]
            ones[sibling] = replace(ones[sibling], turns=tuple(turns))
            planted[ones[sibling].id] = (1, what)
        groups.append(replace(group, trajectories=tuple(ones)))
    found = replayed(copied("in_process", tmp_path, groups), 1)
    assert {one["episode"]: (one["turn"], one["what"]) for one in found["diverged"]} == planted
    assert found["identical"] == 0


def test_they_show_what_an_environment_can_say():
    """Solved and unsolved episodes, some that were cut, refused calls; of every environment."""
    for label in ENVS:
        groups = [group for group in Store(GOLDEN / "in_process").read() if group.task.env_id == label]
        episodes = [one for group in groups for one in group.trajectories]
        assert len(episodes) == N_EPISODES
        successes = Counter(bool(score.success) for group in groups for score in group.scores)
        assert min(successes[True], successes[False]) >= 1, label
        assert all(one.ending.usable for one in episodes)
        assert any(turn.action.parse_error for one in episodes for turn in one.turns)
        assert label == "lock" or any(one.ending is Ending.MAX_TURNS for one in episodes)


def test_they_are_small():
    files = [file for name in NAMES for file in RunFolder(GOLDEN / name).trajectories.rglob("*.parquet")]
    assert len(files) == len(NAMES)
    assert sum(file.stat().st_size for file in files) < 100_000


@pytest.mark.parametrize("name", NAMES)
def test_they_are_what_the_script_plays(tmp_path: Path, name: str):
    """``python -m tests.golden.renew`` would change nothing."""
    renew(name, tmp_path)
    new, old = ([group.trajectories for group in Store(folder / name).read()] for folder in (tmp_path, GOLDEN))
    assert new == old
