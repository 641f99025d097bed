"""A training process that is killed with SIGKILL, in a wave of a guide, in a branch and ahead, goes on bit for bit; the
last with a critic.

1. ``turngate train`` dies in an episode after step 1, at a turn that the environment chooses, not a clock.
2. What it had finished is there: the steps before, and no episode of the step in which it died.
   Where step 3 is played ahead of the update of step 2, that is step 1; what was played of step 2 is not played again.
3. The same command ends the run. Metrics, episodes and weights are those of a run that nobody killed.

Only the process that dies is one of its own; what need not die runs in that of the test.
"""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command_line import turngate
from tests.helpers.forked_commands import Forks
from tests.helpers.run_metrics import MEASURED
from tests.helpers.tiny_run import three_steps
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics

ROOT = Path(__file__).parents[2]
LIMIT_S = 900
WAVES = """
[guide]
type = "tests.run.killing_parts:WavesPart"
by = "env"
low = 0.0
high = 0.01
"""
AHEAD = f"{WAVES}kills = 3\n\n[value]\nlr_factor = 10.0\nepochs = 2\n"
BRANCHES = """
[branching]
type = "tree_grpo"
trees = 2
"""


def train_until_killed(forked: Forks, config: Path) -> None:
    """``turngate train`` in a process of its own, which has to end by SIGKILL."""
    done = forked.run("train", config, cwd=ROOT, env=os.environ, timeout=LIMIT_S)
    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr


def written(folder: Path, more: str, *, killed: bool) -> Path:
    """The config of a run in ``folder``. A run that was killed before is not killed again."""
    folder.mkdir()
    if not killed:
        (folder / "marker").touch()
    path = folder / "run.toml"
    marker = f'marker = "{folder}/marker"'
    lock = three_steps("tests.run.killing_parts:test/KillingLock-v0", kwargs=marker, heldout=1)
    text = f'folder = "{folder}"\n{lock}{more}'
    if more == AHEAD:
        text = text.replace("[train]", "[train]\nahead = 1")
        text = text.replace("tests.helpers.thinking_lock:alternating", "tests.run.rank_parts:valued")
    path.write_text(text)
    return path


def metrics(run: RunFolder) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if not k.startswith(MEASURED)} for row in read_metrics(run.metrics)]


def episodes(run: RunFolder) -> list[Any]:
    """Episodes and what they were paid, of every step."""
    groups = list(Store(run.path).read(None, "train"))
    return [(group.trajectories, [score.reward_T.tolist() for score in group.scores]) for group in groups]


@pytest.mark.timeout(4 * LIMIT_S)
@pytest.mark.parametrize(
    ("more", "where"),
    [(WAVES, "turn 1, wave"), (BRANCHES, "branch"), (AHEAD, "turn 1, wave")],
    ids=["wave", "branch", "ahead"],
)
def test_a_killed_run_goes_on_bit_for_bit(more: str, where: str, tmp_path: Path, forked: Forks) -> None:
    config = written(tmp_path / "killed", more, killed=True)
    train_until_killed(forked, config)
    killed, whole = (RunFolder(tmp_path / name / "run") for name in ("killed", "whole"))
    assert (tmp_path / "killed" / "marker").read_text().endswith(where)
    finished = [row["step"] for row in metrics(killed)]
    assert finished in ([1], [1, 2])
    assert Store(killed.path).steps() == finished
    if more == AHEAD:
        assert finished == [1]
        assert (killed.checkpoints / "step=000001" / "ahead.pt").exists()
    assert not killed.is_complete
    assert turngate("train", config) == 0
    assert turngate("train", written(tmp_path / "whole", more, killed=False)) == 0
    assert len(metrics(whole)) == 3
    assert metrics(killed) == metrics(whole)
    assert episodes(killed) == episodes(whole)
    weights = [(run.path / "model/model.safetensors").read_bytes() for run in (killed, whole)]
    assert weights[0] == weights[1]
    checked = [json.loads(row) for row in whole.metrics.read_text().splitlines()]
    assert all(row["learner/grad_norm"] > 0 for row in checked)
    if more == AHEAD:
        assert all(row["value/grad_norm"] > 0 for row in checked)
