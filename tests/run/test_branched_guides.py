"""Guides beside branching, in whole runs of the toy: who may go with whom, and that every episode is booked once.

1. Every guide grows trees of shared turns and new attempts; one guide of each mechanism goes with every way to branch.
2. sampled = kept + replaced + tried + failed experts, and kept = trained + dropped by reason; the store has them all.
3. A branch has the help of the episode that it leaves and the same turns before the branch, also where that episode was
   replaced: then the turns are those of another branch of the same tree.
4. What it cost is counted over all waves and batches of a step.
5. Values are never measured by continuations that are retries.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from tests.helpers.chat_server import serving_prompts
from tests.helpers.guided import shipped
from tests.run.test_guides import GUIDES
from turngate.config.run_config import parse
from turngate.errors import ConfigError
from turngate.report.episode_words import is_forced
from turngate.run.job import Job
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics
from turngate.trainer.branching.base import BranchingPart
from turngate.types import ScoredGroup, Trajectory

BRANCHINGS: dict[str, dict[str, Any]] = {
    "arpo": {"chains": 2, "alpha": 1.0},
    "tree_grpo": {},
    "tree_rpo": {},
    "portool": {},
    "eptree": {"rounds": 2},
    "cure": {},
    "mc_values": {},
    "prover": {},
    "rise": {},
}
CREDIT = {
    "mc_values": {"type": "turn_gae"},
    "prover": {"type": "progress", "read": "value", "prover_k": 4},
    "tree_grpo": {"type": "tree_grpo"},
    "tree_rpo": {"type": "tree_rpo"},
}
MEASURING = ("mc_values", "prover")
MECHANISMS = ("ladder", "guide", "oracle_prefix", "reflect", "g2rpo_a")
"""A row is replaced, a group of its own, a solution acts first, retries, siblings with help in the same baseline."""
ALL = GUIDES | {"herl": {}, "second_policy": {}}
RETRIES = ("reflect", "herl", "r3l")

ALLOWED = [(guide, branching) for guide in ALL for branching in ("tree_grpo", "rise")]
ALLOWED += [
    (guide, branching)
    for guide in MECHANISMS
    for branching in BRANCHINGS
    if branching not in ("tree_grpo", "rise") and not (guide in RETRIES and branching in MEASURING)
]


def config(folder: Path, name: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "folder": str(folder),
        "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300},
        "env": {"id": "turngate/Lock-v1"},
        "warm_start": {"episodes": 48, "epochs": 3, "episodes_per_batch": 8, "lr": 5e-3},
        "policy": {"turn_tokens": 8, "context": 800, "concurrency": 8},
        "learner": {"lr": 1e-3},
        "train": {"steps": 2, "tasks_per_step": 2, "group_size": 8},
        "eval": {"tasks": 1},
    } | changes


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run that has done the warm start only."""
    folder = tmp_path_factory.mktemp("runs")
    Job(parse(config(folder, "start", train={"steps": 0})), Console(quiet=True)).run()
    return RunFolder(folder / "start")


def train(settings: dict[str, Any], begun: RunFolder) -> RunFolder:
    Job(parse(settings), Console(quiet=True), start=begun).run()
    return RunFolder(Path(settings["folder"]) / settings["name"])


def check(run: RunFolder, *, shares: bool) -> None:
    """The books of every step, and the branches in it."""
    for step, row in enumerate(read_metrics(run.metrics), 1):
        left_out = sum(row[f"guide/{reason}"] for reason in ("replaced", "tried", "failed_experts"))
        learned = list(Store(run.path).read(step, "train"))
        unused = list(Store(run.path).read(step, "unused")) if left_out else []
        assert row["guide/sampled"] == row["guide/kept"] + left_out
        assert row["guide/kept"] == size(learned)
        assert size(unused) == left_out
        dropped = sum(
            value for name, value in row.items() if name.startswith("drop/") and name.endswith("_trajectories")
        )
        assert 0 <= dropped <= row["guide/kept"]
        episodes = [one for group in (*learned, *unused) for one in group.trajectories]
        assert len({one.id for one in episodes}) == len(episodes)
        assert row["branch/branches"] > 0
        assert row["guide/env_steps"] == row["branch/env_steps"]
        chains = sum(len(one.turns) for one in episodes)
        assert row["branch/env_steps"] + row["branch/saved_env_steps"] == chains
        assert shares or row["branch/saved_env_steps"] == 0
        for group in learned:
            check_branches(group)
        assert np.isfinite(list(row.values())).all()


def size(groups: list[ScoredGroup]) -> int:
    return sum(len(group.trajectories) for group in groups)


def check_branches(group: ScoredGroup) -> None:
    assert all(one.ending.usable for one in group.trajectories), group.trajectories[0].error
    known = {one.id: one for one in group.trajectories}
    for one in group.trajectories:
        if one.guidance is not None and one.guidance.kind in ("prefix", "expert"):
            assert sum(map(is_forced, one.turns)) == one.guidance.level
        if one.parent is None or is_retry(one):
            continue
        parent, turn = known.get(one.parent[0]), one.parent[1]
        if parent is None:
            assert turn == 0  # a new attempt at what was replaced
            continue
        assert parent.guidance == one.guidance
        for mine, its in zip(one.turns[:turn], parent.turns[:turn], strict=True):
            np.testing.assert_array_equal(mine.completion.ids_K, its.completion.ids_K)
            np.testing.assert_array_equal(mine.source, its.source)


def is_retry(one: Trajectory) -> bool:
    return one.guidance is not None and one.guidance.kind == "correction"


def test_every_guide_without_a_writer_is_in_the_table() -> None:
    assert set(shipped()) <= set(ALL)
    assert set(BRANCHINGS) == {name for name in BranchingPart.catalogue() if ":" not in name}  # those of other tests
    assert {guide for guide, _ in ALLOWED} == set(ALL)
    assert {branching for _, branching in ALLOWED} == set(BRANCHINGS)


@pytest.mark.parametrize(("guide", "branching"), ALLOWED)
def test_a_guide_trains_on_trees(guide: str, branching: str, begun: RunFolder, tmp_path: Path) -> None:
    settings = config(
        tmp_path,
        "run",
        guide={"type": guide, **ALL[guide]},
        branching={"type": branching, **BRANCHINGS[branching]},
        credit=CREDIT.get(branching, {"type": "grpo"}),
        train={"steps": 2, "tasks_per_step": 1, "group_size": 8},
    )
    check(train(settings, begun), shares=branching != "rise")


@pytest.mark.parametrize("branching", MEASURING)
@pytest.mark.parametrize("guide", RETRIES)
def test_values_of_helped_play_are_refused(guide: str, branching: str, tmp_path: Path) -> None:
    settings = config(tmp_path, "x", branching=branching, credit=CREDIT[branching])
    with pytest.raises(ConfigError, match=f"branching '{branching}' cannot be used with guide '{guide}': its retries"):
        parse(settings | {"guide": {"type": guide, **ALL.get(guide, {})}})


def test_a_teacher_helps_trees(tmp_path: Path, begun: RunFolder) -> None:
    with serving_prompts(lambda prompt, n: "Look at the colour first.") as server:
        text_model = {"type": "server", "url": server.url, "model": "x", "attempts": 1}
        guide = {"type": "teacher", "text_model": text_model, "kinds": ["plan"], "strip": True}
        run = train(config(tmp_path, "run", guide=guide, branching="tree_grpo"), begun)
    check(run, shares=True)


def test_costs_are_those_of_all_batches_and_asides_learn_beside(tmp_path: Path, begun: RunFolder) -> None:
    settings = config(
        tmp_path,
        "run",
        guide={"type": "ladder", "exempt_steps": 0},
        branching="tree_grpo",
        train={"steps": 2, "tasks_per_step": 2, "group_size": 8, "refill": {"batches": 3}},
        auxiliary=[{"type": "relift", "at_least": 1}],
        learner={"lr": 1e-3, "max_kl": 1.0},
    )
    run = train(settings, begun)
    check(run, shares=True)
    assert max(row["refill/batches"] for row in read_metrics(run.metrics)) > 1
    assert sum(row["auxiliary/relift_rows"] for row in read_metrics(run.metrics)) > 0
