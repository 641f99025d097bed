"""``train.reset_reference``: ReMix's reset of what the policy is kept near, from the config on."""

from typing import Any

import pytest
from rich.console import Console

from tests.helpers.command_line import turngate
from tests.helpers.kills import killed_in
from tests.run.test_stored_episodes import BASE, Seen, reading, rows, trained
from turngate.config.run_config import parse
from turngate.errors import ConfigError
from turngate.run.job import Job

KL = "policy/kl_to_reference_nats"
TRAIN = {**BASE["train"], "steps": 4, "tasks_per_step": 2, "filters": [], "checkpoint_every": 1, "reset_reference": 2}
RUN: dict[str, Any] = {
    **BASE,
    "warm_start": {**BASE["warm_start"], "epochs": 1, "episodes": 16},
    "credit": "tests.helpers.thinking_lock:alternating",
    "loss": {"penalties": [{"type": "kl", "coef": 0.01}]},
    "train": TRAIN,
    "eval": {"tasks": 1},
}


@pytest.mark.parametrize("lora", [None, {"rank": 4}], ids=["all weights", "adapters"])
def test_after_the_reset_the_policy_is_compared_with_itself_as_it_was_then(lora, tmp_path, monkeypatch):
    """Step 3 begins where the reference is; a run that was killed in step 4 compares with the same one."""
    base = {**RUN, "learner": {"lr": 3e-3, **({"lora": lora} if lora else {})}}
    kept = {key: value for key, value in TRAIN.items() if key != "reset_reference"}
    divergence = {name: [row[KL] for row in rows(trained(tmp_path / name, {**base, "train": train}))]
                  for name, train in (("reset", TRAIN), ("plain", kept))}  # fmt: skip
    assert divergence["reset"][:2] == divergence["plain"][:2]
    assert divergence["plain"][2] > 1e-4
    assert divergence["reset"][2] == pytest.approx(0, abs=1e-8)
    assert 1e-7 < divergence["reset"][3] != divergence["plain"][3]
    with killed_in(4):
        trained(tmp_path / "killed", base)
    again = trained(tmp_path / "killed", base)
    assert [row[KL] for row in rows(again)] == divergence["reset"]
    assert (again.model / "model.safetensors").read_bytes() == (
        tmp_path / "reset" / "lock" / "model" / "model.safetensors"
    ).read_bytes()


def test_a_step_after_the_reset_is_run_again_against_the_reference_of_then(tmp_path):
    run = trained(tmp_path, RUN)
    for step in (2, 3, 4):
        assert turngate("replay", run.path, "--step", step) == 0


def test_after_the_reset_nothing_is_replayed(tmp_path, monkeypatch):
    """ReMix: three steps that may replay, then fresh episodes alone."""
    seen = Seen(monkeypatch)
    imitated = trained(tmp_path / "start", train={**BASE["train"], "steps": 0})
    pool = {"id": "turngate/Lock-v1", "tasks": "tests.run.late_killing_pool:six_locks"}
    base = {
        **reading(imitated),
        "env": pool,
        "loss": {"penalties": ["kl_convex"]},
        "train": {**BASE["train"], "steps": 4, "reset_reference": 3},
        "episodes": {"type": "mixed", "replay": {"type": "remix", "until": 3}},
    }
    shares = [row["replay/share"] for row in rows(trained(tmp_path / "run", base))]
    assert max(shares[1:3]) > 0
    assert shares[3] == 0
    assert len(seen.groups[3]) == 4


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"loss": {}}, r"train\.reset_reference has no effect: neither the loss nor the credit rule compares"),
        ({"train": {**TRAIN, "reset_reference": 4}}, r"train\.reset_reference = 4 has no effect: no step follows"),
        ({"episodes": {"type": "mixed", "replay": {"type": "remix", "until": 4}}}, r"until = 4 has no effect"),
        ({"episodes": {"type": "mixed", "replay": {"type": "remix", "until": 1}}}, r"until = 1 has no effect"),
    ],
)
def test_a_reset_without_effect_is_refused_by_name(tmp_path, changes, said):
    with pytest.raises(ConfigError, match=said):
        Job(parse({**RUN, "folder": str(tmp_path), **changes}), Console(quiet=True))
