"""From a config to what a step works on: what would have no effect is refused before any work."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from turngate.config.run_config import parse
from turngate.errors import ConfigError, UserError
from turngate.run.job import Job

LOCK = {"id": "turngate/Lock-v1"}
BASE: dict[str, Any] = {"env": LOCK, "warm_start": {"episodes": 2}}
JUDGED = {"type": "tournament", "name": "rank", "judge": {"type": "policy"}}


def job(tmp_path: Path, **changes: Any) -> Job:
    return Job(parse({**BASE, "folder": str(tmp_path / "runs"), **changes}), Console(quiet=True))


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"examine": [JUDGED]}, ConfigError, r"examine\[0\] \('tournament'\) has no effect: it records 'rank'"),
        ({"examine": [{**JUDGED, "env": "turngate/Lok"}]}, UserError, "did you mean 'turngate/Lock-v1'"),
        ({"credit": {"type": "gdpo", "weights": {"nothing": 1.0}}}, ConfigError, "rubric has no component 'nothing'"),
        ({"env": {**LOCK, "allow_unsafe": True}}, ConfigError, "env.allow_unsafe has no effect"),
        (
            {"eval": {"splits": ["helddout"]}},
            ConfigError,
            r"eval\.splits: .*did you mean 'heldout'",
        ),
    ],
)
def test_what_environments_make_impossible_is_told_before_any_work(
    changes: dict[str, Any], error: type[Exception], said: str, tmp_path: Path
):
    with pytest.raises(error, match=said):
        job(tmp_path, **changes)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("credit", [{"type": "gdpo"}, {"type": "sag", "outcome": "earned"}])
def test_kl_in_the_reward_is_refused_where_credit_does_not_see_it(credit: dict[str, Any]):
    with pytest.raises(ConfigError, match=r"signals\.kl_in_reward has no effect"):
        parse({**BASE, "credit": credit, "signals": {"kl_in_reward": 0.01}})


def test_similar_states_are_refused_where_nobody_compares_them():
    with pytest.raises(ConfigError, match=r"signals\.similar has no effect: credit 'rloo'"):
        parse({**BASE, "credit": "rloo", "signals": {"similar": {}}})
    config = parse({**BASE, "credit": {"type": "gigpo", "anchors": "similar"}, "signals": {"similar": {}}})
    assert "similar_N" in config.columns


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"guide": "ladder"}, "controls cannot be made of a run with guide 'ladder': a guide decides by true results"),
        (
            {"auxiliary": ["relift"]},
            "controls cannot be made of a run with auxiliary loss 'relift': it learns from true results",
        ),
    ],
)
@pytest.mark.parametrize("control", ["shuffled_credit", "shuffled_reward", "random_reward"])
def test_controls_are_refused_where_they_could_learn_from_true_results(
    control: str, changes: dict[str, Any], said: str
) -> None:
    parse({**BASE, **changes})
    with pytest.raises(ConfigError, match=said):
        parse({**BASE, **changes, "controls": [control]})
