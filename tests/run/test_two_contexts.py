"""From a config to a step that learns without the hint, and to experts among the siblings."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from turngate.config.run_config import dump, parse
from turngate.errors import ConfigError
from turngate.jsonl import read_rows
from turngate.run.job import Job


def settings(folder: Path, **changes: Any) -> dict[str, Any]:
    return {
        "name": "hinted",
        "folder": str(folder),
        "model": {"layers": 1, "width": 16, "heads": 2, "vocabulary": 300},
        "env": {"id": "turngate/Lock-v1"},
        "warm_start": {"episodes": 8, "epochs": 1},
        "policy": {"turn_tokens": 4, "context": 100, "concurrency": 8},
        "train": {"steps": 2, "tasks_per_step": 2, "group_size": 4, "filters": []},
        "eval": {"tasks": 2},
        "guide": {"type": "tests.helpers.half_hinted:HalfHinted"},
        **changes,
    }


@pytest.mark.parametrize("guided", [{"gamma": 0.1}, {"gamma": "quantile", "normalised": True}])
def test_a_run_learns_hinted_episodes_without_the_hint(tmp_path: Path, guided: dict[str, Any]):
    config = parse(settings(tmp_path, loss={"guided": guided}))
    assert "[loss.guided]" in dump(config)
    Job(config, Console(quiet=True)).run()
    rows = [row for _, row in read_rows(tmp_path / "hinted" / "metrics.jsonl")]
    assert len(rows) == 2
    for row in rows:
        assert 0 < row["policy/hinted_share"] < 0.5  # two of three turns of every other sibling
        assert "loss/hinted" in row
        assert row["canary/max_logprob_difference"] < 1e-4


def test_the_guide_that_strips_its_hints_trains(tmp_path: Path):
    """Every task is failed alone, so a second group gets the fullest hint, and is learned without it."""
    Job(parse(settings(tmp_path, guide="guide")), Console(quiet=True)).run()
    rows = [row for _, row in read_rows(tmp_path / "hinted" / "metrics.jsonl")]
    assert all(0.3 < row["policy/hinted_share"] < 0.7 for row in rows)


@pytest.mark.parametrize("experts", ["shaped", "rl_plus"])
def test_a_run_learns_from_an_expert_among_the_siblings(tmp_path: Path, experts: str):
    config = parse(settings(tmp_path, guide="luffy", credit="dr_grpo", loss={"experts": experts}))
    Job(config, Console(quiet=True)).run()
    rows = [row for _, row in read_rows(tmp_path / "hinted" / "metrics.jsonl")]
    for row in rows:
        assert row["policy/expert_share"] > 0
        assert row["loss/expert"] < 0  # the only success of its task, so its credit is positive
        assert row["canary/max_logprob_difference"] < 1e-4


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"guide": "none", "loss": {"guided": {"gamma": 0.2}}}, r"loss\.guided has no effect: no guide strips"),
        ({"loss": {"experts": "shaped"}}, r"loss\.experts has no effect: no guide has an expert"),
        (
            {"guide": "luffy", "credit": "rl_zvp_tokens", "loss": {"experts": "shaped"}},
            r"loss\.experts has no effect: the credit rule",
        ),
        ({"loss": {"guided": {"gamma": 0}}}, r"gamma must be above 0, found 0"),
        ({"loss": {"guided": {"type": "shapd"}}}, r"did you mean 'shaped'"),
    ],
)
def test_a_shaping_without_effect_is_told(tmp_path: Path, changes: dict[str, Any], said: str):
    with pytest.raises(ConfigError, match=said):
        parse(settings(tmp_path, **changes))
