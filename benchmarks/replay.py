"""Record episodes of each deterministic environment, replay all of them, and count those that are identical.

    python -m benchmarks.replay [--episodes 1000] [--envs lock sql code=200 …] [--out FOLDER] [--json FILE]

``NAME=N`` records N episodes of one environment instead of ``--episodes``.

Half of the episodes follow the oracle. In the other half each turn is drawn: a line of the oracle, a call with
arguments that do not fit, or nonsense. They are stored as a run stores them, and replayed as ``turngate replay`` does.
Then one character of one observation is changed in an episode of each of the first groups, and these are replayed too.
Prints a line per environment: episodes, turns, identical, diverged, left out, planted differences that were found at
their turn and character, the first difference that was not planted, and episodes per second of playing and of
replaying. ``web`` needs Chromium and ``code`` a sandbox. Exit code 1 if an episode diverged or a planted difference was
not found.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from turngate.agents.chat import TextChat
from turngate.agents.policies.base import Policy
from turngate.agents.rollout import Player, TokenLimits, play_groups
from turngate.config.run_config import Config, parse
from turngate.envs.base import TurnEnv
from turngate.run.environments import Environments
from turngate.run.replay.replayed_actions import MOST_AT_ONCE, ReplayCounts, Replayer, replay_store
from turngate.store import Store, machine
from turngate.types import Completion, EndedBy, Request, ScoredGroup, Trajectory, derive_seed

ENVS: dict[str, dict[str, Any]] = {
    "lock": {"id": "turngate/Lock-v1"},
    "sql": {"id": "turngate/Sql-v1"},
    "search": {"id": "turngate/Search-v1"},
    "router": {"id": "turngate/Router-v1"},
    "lending": {"id": "turngate/ToolUse-v1"},
    "helpdesk": {"id": "turngate/ToolUse-v1", "tasks": {"type": "helpdesk"}},
    "retail": {"id": "turngate/ToolUse-v1", "tasks": {"type": "retail"}},
    "travel": {"id": "turngate/ToolUse-v1", "tasks": {"type": "travel"}},
    "code": {"id": "turngate/CodeRepair-v1"},
    "web": {"id": "turngate/Web-v1"},
}
PER_GROUP = 4
PER_STEP = 25  # groups that are stored in one file
ODD = ("???", "", "no_such_tool x")


class Drawn(Policy):
    """The oracle's lines in every other sibling, else lines that are drawn by task, sibling and turn."""

    name, concurrency = "drawn", MOST_AT_ONCE

    def __init__(self, env: TurnEnv) -> None:
        self._env = env
        self._lines: Callable[[str], tuple[str, ...]] = lru_cache(4096)(self._oracle)

    def _oracle(self, task_id: str) -> tuple[str, ...]:
        return tuple(self._env.oracle(self._env.tasks.find(task_id)))

    async def complete(self, request: Request) -> Completion:
        """See ``Policy``."""
        lines = self._lines(request.task_id)
        sibling = int(request.episode.rpartition("#")[2].partition("@")[0])
        text = lines[min(request.turn, len(lines) - 1)]
        if sibling % 2:
            rng = np.random.default_rng(derive_seed(request.seed, "draw"))
            wrong = [f"{tool.name} no-such-thing 7" for tool in self._env.turn_spec.tools]
            text = str(rng.choice([*lines, text, *wrong, *ODD]))
        none = np.zeros(0, np.int32)
        return Completion(
            ids_K=none, logprobs_K=none.astype(np.float32), ended_by=EndedBy.STOP, policy_version=0, text=text
        )


async def record(config: Config, environments: Environments, store: Store, episodes: int) -> int:
    """Play and store so many episodes; returns their number of turns."""
    ((label, env),) = environments
    limits = TokenLimits(turn_tokens=1, context=1 << 30, episode_s=1e9)
    player, turns = Player(Drawn(env), TextChat(), limits), 0
    size = env.tasks.size(config.env[0].split)
    async with environments.worlds(MOST_AT_ONCE) as worlds:
        for step, first in enumerate(range(0, -(-episodes // PER_GROUP), PER_STEP)):
            indices = range(first, min(first + PER_STEP, -(-episodes // PER_GROUP)))
            numbers = dict.fromkeys(index if size is None else index % size for index in indices)
            tasks = [environments.task(label, config.env[0].split, index) for index in numbers]
            plans = [[None] * PER_GROUP for _ in tasks]
            groups = await play_groups(player, worlds, tasks, plans, seed=derive_seed(config.seed, "record", step))
            scored: list[ScoredGroup] = [environments.score(group, step) for group in groups]
            store.write(step, scored)
            turns += sum(len(one.turns) for group in groups for one in group.trajectories)
    return turns


async def replay(config: Config, environments: Environments, store: Store) -> ReplayCounts:
    """Replay everything that is stored."""
    async with environments.worlds(MOST_AT_ONCE) as worlds:
        return await replay_store(store, Replayer(config, environments, worlds, ""), phases=["train"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """One character of one observation that was changed: of which episode, in which turn and place."""

    id: str
    turn: int
    place: int


def plant(one: Trajectory) -> tuple[Trajectory, Planted] | None:
    """The episode with one character of one observation changed; None if it shows nothing that could be."""
    shown = [number for number, turn in enumerate(one.turns) if turn.observation.text]
    if not shown:
        return None
    rng = np.random.default_rng(derive_seed(one.seed, "plant"))
    number = int(rng.choice(shown))
    turns, seen = list(one.turns), one.turns[number].observation
    place = int(rng.integers(len(seen.text)))
    other = "x" if seen.text[place] != "x" else "y"
    text = seen.text[:place] + other + seen.text[place + 1 :]
    turns[number] = replace(turns[number], observation=replace(seen, text=text))
    return replace(one, turns=tuple(turns)), Planted(id=one.id, turn=number, place=place)


async def find_planted(config: Config, environments: Environments, store: Store) -> tuple[int, int]:
    """Plant a difference in one episode of each group of the first step; how many were found in their place, of all."""
    planted: list[Planted] = []
    groups: list[ScoredGroup] = []
    for place, group in enumerate(store.read(store.steps("train")[0], "train")):
        row = place % len(group.trajectories)
        if group.trajectories[row].ending.usable and (found := plant(group.trajectories[row])) is not None:
            groups.append(replace(group, trajectories=(found[0],), scores=(group.scores[row],)))
            planted.append(found[1])
    counts = ReplayCounts()
    known = {one.id: one for group in groups for one in group.trajectories}
    async with environments.worlds(MOST_AT_ONCE) as worlds:
        await Replayer(config, environments, worlds, "").groups(0, "train", groups, known, counts)
    told = {
        Planted(id=one.id, turn=-1 if one.divergence.turn is None else one.divergence.turn, place=one.divergence.place)
        for one in counts.diverged
        if one.divergence is not None and one.divergence.what == "observation"
    }
    return len(told & set(planted)), len(planted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What came of one environment."""

    name: str
    turns: int
    counts: ReplayCounts
    planted: int
    found: int
    played_s: float
    replayed_s: float

    @property
    def episodes(self) -> int:
        """How many were recorded."""
        return self.counts.replayed + self.counts.left_out.total()

    @property
    def good(self) -> bool:
        """Whether every episode replayed identically and every planted difference was found."""
        return self.counts.identical == self.episodes and self.found == self.planted > 0

    def line(self) -> str:
        """What is printed."""
        counts = self.counts
        line = (
            f"{self.name:9} {self.episodes:6} episodes {self.turns:7} turns  identical {counts.identical:6}  "
            f"diverged {len(counts.diverged):4}  left out {counts.left_out.total():4}  "
            f"planted {self.planted:3} found {self.found:3}  played {self.episodes / self.played_s:8.1f}/s  "
            f"replayed {counts.replayed / self.replayed_s:8.1f}/s"
        )
        if counts.diverged and (first := counts.diverged[0].divergence) is not None:
            line += f"\n  {counts.diverged[0].id}, turn {first.turn}, {first.what}: {first.excerpts}"
        return line

    def row(self) -> dict[str, object]:
        """What is written as JSON."""
        return {
            "episodes": self.episodes,
            "turns": self.turns,
            "identical": self.counts.identical,
            "diverged": len(self.counts.diverged),
            "left_out": dict(self.counts.left_out),
            "planted": self.planted,
            "found": self.found,
            "played_s": round(self.played_s, 1),
            "replayed_s": round(self.replayed_s, 1),
        }


def measured(name: str, episodes: int, folder: Path) -> Measured:
    """Record so many episodes of one environment, replay them, and look for planted differences."""
    config = parse({"name": name, "model": "none", "env": ENVS[name], "train": {"steps": 0}})
    store = Store(folder / name)
    with Environments(config.env, trained=False) as environments:
        start_s = time.perf_counter()
        turns = asyncio.run(record(config, environments, store, episodes))
        played_s = time.perf_counter()
        counts = asyncio.run(replay(config, environments, store))
        end_s = time.perf_counter()
        found, planted = asyncio.run(find_planted(config, environments, store))
    return Measured(
        name=name,
        turns=turns,
        counts=counts,
        planted=planted,
        found=found,
        played_s=played_s - start_s,
        replayed_s=end_s - played_s,
    )


def chosen_env(text: str) -> tuple[str, int | None]:
    """The name of an environment and how many episodes of it, None = as many as of the others."""
    name, _, number = text.partition("=")
    if name not in ENVS or (number and not number.isdecimal()):
        raise argparse.ArgumentTypeError(f"'{text}' is not one of {', '.join(ENVS)}, alone or as NAME=EPISODES")
    return name, int(number) if number else None


def main() -> int:
    """Print a line per environment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument(
        "--envs",
        nargs="+",
        type=chosen_env,
        metavar="NAME[=EPISODES]",
        default=[(name, None) for name in ENVS if name != "web"],
    )
    parser.add_argument("--out", type=Path, help="keep the episodes in this new folder")
    parser.add_argument("--json", type=Path, help="write the counts, the command and the machine to this file")
    chosen = parser.parse_args()
    found: list[Measured] = []
    load = os.getloadavg()
    with tempfile.TemporaryDirectory() as scratch:
        for name, episodes in chosen.envs:
            found.append(measured(name, episodes or chosen.episodes, chosen.out or Path(scratch)))
            print(found[-1].line(), flush=True)
    if chosen.json is not None:
        about = {
            "command": " ".join(["python -m benchmarks.replay", *sys.argv[1:]]),
            "machine": {**machine(), "load_average_before": [round(one, 2) for one in load]},
        }
        rows = {one.name: one.row() for one in found}
        chosen.json.write_text(json.dumps({**about, "environments": rows}, indent=1) + "\n", encoding="utf-8")
    return 0 if all(one.good for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
