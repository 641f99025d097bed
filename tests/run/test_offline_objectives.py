"""Objectives on whole trajectories, each from a config through a tiny run; and what has no effect is refused."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from turngate.config.run_config import parse
from turngate.errors import ConfigError, RunError
from turngate.jsonl import read_rows
from turngate.run.job import Job
from turngate.store import Store

STEPS = {"steps": 2, "tasks_per_step": 4, "group_size": 4}


def settings(folder: Path, **changes: Any) -> dict[str, Any]:
    return {
        "name": "offline",
        "folder": str(folder),
        "model": str(folder.parent / "able" / "model"),
        "env": {"id": "turngate/Lock-v1"},
        "policy": {"turn_tokens": 8, "context": 256, "concurrency": 16},
        "learner": {"lr": 1e-3},
        "eval": {"tasks": 1},
        **changes,
        "train": STEPS | changes.get("train", {}),
    }


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model that succeeds in some episodes and fails in others."""
    folder = tmp_path_factory.mktemp("home")
    changes = {
        "name": "able",
        "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300},
        "warm_start": {"episodes": 96, "epochs": 4, "episodes_per_batch": 8, "lr": 5e-3},
        "train": {"steps": 0},
    }
    Job(parse(settings(folder, **changes)), Console(quiet=True)).run()
    return folder


@pytest.fixture
def folder(home: Path, request: pytest.FixtureRequest) -> Path:
    """A folder of this test's own."""
    return home / re.sub("[^a-zA-Z0-9]+", "-", request.node.name)


def run(folder: Path, **changes: Any) -> list[dict[str, Any]]:
    Job(parse(settings(folder, **changes)), Console(quiet=True)).run()
    return rows_of(folder)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [row for _, row in read_rows(folder / "offline" / "metrics.jsonl")]


IMITATING: dict[str, dict[str, Any]] = {
    "behaviour cloning": {"credit": "imitate", "loss": {"objective": "imitation"}},
    "RAFT": {"credit": "imitate", "loss": {"objective": "imitation"}, "train": {"filters": ["successes"]}},
    "BFS-Prover": {"credit": "bfs_prover", "loss": {"objective": "imitation"}, "train": {"filters": ["successes"]}},
    "AWR": {"credit": {"type": "awr", "beta": 0.5}, "loss": {"objective": "imitation", "aggregate": "sequence"}},
    "AWR by turn, with a critic": {
        "credit": {"type": "awr", "per": "turn", "worth": "critic"},
        "loss": {"objective": "imitation"},
    },
    "A-LoL": {"credit": "a_lol", "loss": {"objective": "a_lol", "aggregate": "sequence"}},
    "A-LoL seq, of the sampler": {
        "credit": "a_lol",
        "loss": {"objective": {"type": "a_lol", "unit": "token", "against": "sampler"}},
    },
    "A-LoL kl": {"credit": "a_lol", "loss": {"objective": "a_lol", "penalties": [{"type": "kl", "coef": 0.01}]}},
    "R-LoL": {"credit": {"type": "a_lol", "worth": "none"}, "loss": {"objective": "a_lol"}},
    "RISE": {"credit": {"type": "rise", "tau": 0.5}, "loss": {"objective": "imitation"}},
}


@pytest.mark.parametrize("name", IMITATING)
def test_what_is_imitated_becomes_likelier(name: str, folder: Path):
    """The loss is a weighted mean of −log π, so it is above 0; and an update follows."""
    rows = run(folder, **IMITATING[name])
    learned = [row for row in rows if "loss/policy" in row]
    assert learned
    for row in learned:
        assert row["loss/policy"] >= 0
        assert "drop/lonely_trajectories" not in row  # siblings are not compared
    assert any(row["loss/policy"] > 0 and row["learner/grad_norm"] > 0 for row in learned)
    assert all("drop/not_varied_groups" not in row for row in rows)  # no filter that compares siblings by default


def test_a_lone_success_is_imitated(folder: Path):
    """RAFT keeps as many trajectories as there are distinct successes, in cohorts of one too."""
    rows = run(folder, **IMITATING["RAFT"])
    for step, row in enumerate(rows, 1):
        groups = list(Store(folder / "offline").read(step))
        won = sum(bool(score.success) for group in groups for score in group.scores)
        kept = 16 - sum(row[f"drop/{why}_trajectories"] for why in ("unusable", "empty", "not_successes"))
        assert 0 < kept <= won
        assert row["drop/not_successes_trajectories"] >= 16 - won
    assert any(
        sum(bool(score.success) for score in group.scores) == 1
        for step in (1, 2)
        for group in Store(folder / "offline").read(step)
    )


COMPARING: dict[str, dict[str, Any]] = {
    "DPO": {"type": "pairs", "winners": "all"},
    "DPO from the first difference": {"type": "pairs", "winners": "all", "span": "difference", "imitated": 0.1},
    "CPL": {"type": "cpl", "span": "difference"},
    "PRDP": {"type": "prdp"},
    "KTO": {"type": "kto"},
}


@pytest.mark.parametrize("name", COMPARING)
def test_a_run_may_learn_from_pairs_alone(name: str, folder: Path):
    """No episode reaches credit, and the policy is updated by the auxiliary loss all the same."""
    auxiliary = COMPARING[name]
    rows = run(folder, auxiliary=[auxiliary], loss={"objective": "none"})
    kind = auxiliary["type"]
    assert any(row[f"auxiliary/{kind}_rows"] for row in rows)
    for row in rows:
        assert row["drop/not_learned_trajectories"] == 16
        assert "loss/policy" not in row
        assert ("policy/version" in row) == (row[f"auxiliary/{kind}_rows"] > 0)
        if row[f"auxiliary/{kind}_rows"]:
            assert row[f"auxiliary/{kind}_grad_norm"] > 0
            assert row[f"auxiliary/{kind}_winner_logprob"] < 0
            assert row[f"auxiliary/{kind}_loser_logprob"] < 0
        if kind != "kto":
            assert row[f"auxiliary/{kind}_pairs"] * 2 == row[f"auxiliary/{kind}_rows"]
            assert row[f"auxiliary/{kind}_pairs"] == 0 or 0 <= row[f"auxiliary/{kind}_preferred_share"] <= 1


def test_the_config_of_the_page_learns(home: Path):
    """docs/offline.md: as it stands there, but for its folder and fewer steps."""
    page = (Path(__file__).parents[2] / "docs" / "offline.md").read_text()
    blocks = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (written,) = (block for block in blocks if 'type = "pairs"' in block)
    config = tomllib.loads(written) | {"folder": str(home), "eval": {"tasks": 1}}
    config["train"]["steps"] = 2
    Job(parse(config), Console(quiet=True)).run()
    rows = [row for _, row in read_rows(home / "dpo" / "metrics.jsonl")]
    assert any(row["auxiliary/pairs_pairs"] for row in rows)


def test_branches_are_compared_from_where_they_part(folder: Path):
    auxiliary = {"type": "pairs", "winners": "all", "rule": "branch", "span": "difference", "most": 8}
    rows = run(folder, auxiliary=[auxiliary], loss={"objective": "none"}, branching={"type": "tree_grpo", "trees": 2})
    assert any(row["auxiliary/pairs_pairs"] for row in rows)


def test_a_run_that_never_had_a_pair_fails_at_the_end(folder: Path):
    """No two episodes were paid so differently. Each step said so, and the same command once more fails alike."""
    auxiliary = {"type": "cpl", "min_gap": 99.0}
    for _ in range(2):
        with pytest.raises(RunError, match="auxiliary loss 'cpl' found no pair in any step"):
            run(folder, auxiliary=[auxiliary], loss={"objective": "none"})
    rows = rows_of(folder)
    assert [row["auxiliary/cpl_pairs"] for row in rows] == [0, 0]
    assert all("policy/version" not in row for row in rows)  # nothing moved, so nothing was published
    assert not (folder / "offline" / "model").exists()


PAIRS = [{"type": "pairs", "winners": "all"}]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"loss": {"objective": "none"}}, "learns nothing without an auxiliary loss"),
        ({"loss": {"objective": "none", "penalties": ["kl"]}, "auxiliary": PAIRS}, "penalties has no effect"),
        ({"loss": {"objective": "none", "aggregate": "sum"}, "auxiliary": PAIRS}, "aggregate has no effect"),
        ({"loss": {"objective": "none"}, "auxiliary": PAIRS, "credit": "rloo"}, "credit has no effect"),
        ({"loss": {"objective": "none"}, "auxiliary": PAIRS, "train": {"filters": ["varied"]}}, "train.filters has no"),
        ({"loss": {"objective": "none"}, "auxiliary": PAIRS, "train": {"minibatches": 2}}, "train.minibatches has no"),
        ({"auxiliary": [{"type": "pairs", "rule": "branch"}]}, 'set span = "difference"'),
        (
            {"auxiliary": [{"type": "prdp", "winners": "guided"}]},
            "auxiliary loss 'prdp' has no effect: no episode has help",
        ),
        ({"auxiliary": [{"type": "kto", "rule": "score"}]}, "rule"),
    ],
)
def test_what_has_no_effect_is_refused_by_its_name(folder: Path, changes: dict[str, Any], said: str):
    with pytest.raises(ConfigError, match=said):
        parse(settings(folder, **changes))
