"""Two log-probabilities that are subtracted are of one distribution: a policy that has not moved is its reference.

Every run here earns nothing, so without a KL or a log-ratio its first update has no gradient at all.
"""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from turngate.config.run_config import parse
from turngate.jsonl import read_rows
from turngate.run.job import Job

OUTCOME = [{"type": "from_evidence", "name": "opened", "evidence": "opened", "kind": "outcome", "levels": [0, 1]}]
SAMPLED = {
    "whole": {},
    "top_k": {"top_k": 5},
    "top_p": {"top_p": 0.8},
    "temperature": {"temperature": 0.6},
    "all of them": {"top_k": 20, "top_p": 0.9, "temperature": 1.5},
}
STRIPPED = {"guide": {"type": "tests.helpers.half_hinted:HalfHinted"}}
KL_PENALTY = {"loss": {"penalties": [{"type": "kl", "coef": 0.5}]}}
TOGETHER = {
    **KL_PENALTY,
    "credit": "returns",
    "signals": {"kl_in_reward": 0.5},
    "auxiliary": [{"type": "kdrl", "teacher": "start"}],
}
BY_POLICY = {"reward_model": {"model": "policy"}}
LOG_RATIOS = {
    "reinforce_plus_plus": {"credit": {"type": "reinforce_plus_plus", "kl": 0.5}},
    "prime": {"credit": "prime_tokens", **BY_POLICY},
    "istar": {"credit": {"type": "istar", "std": False}},
    "istar by the policy": {"credit": {"type": "istar", "std": False}, **BY_POLICY},
}


def steps(folder: Path, *, n: int = 1, policy: dict[str, Any], **changes: Any) -> list[dict[str, Any]]:
    """The metrics of a run of ``n`` steps."""
    settings = {
        "name": "same",
        "folder": str(folder),
        "model": {"layers": 1, "width": 16, "heads": 2, "vocabulary": 300},
        "env": {"id": "turngate/Lock-v1", "rubric": {"rewards": OUTCOME}},
        "warm_start": {"episodes": 8, "epochs": 2, "lr": 5e-3},
        "policy": {"turn_tokens": 4, "context": 100, "concurrency": 8, **policy},
        "train": {"steps": n, "tasks_per_step": 2, "group_size": 4, "filters": []},
        "eval": {"tasks": 1},
        **changes,
    }
    Job(parse(settings), Console(quiet=True)).run()
    return [row for _, row in read_rows(folder / "same" / "metrics.jsonl")]


def pulls_nothing(row: dict[str, Any]) -> None:
    assert row["train/paid"] == 0
    assert row["learner/grad_norm"] == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("sampled", SAMPLED)
def test_no_divergence_pulls_at_a_policy_that_is_its_reference(tmp_path: Path, sampled: str):
    """A penalty, a charge on the reward and a teacher at once, also where half of the tokens lost their hint."""
    (row,) = steps(tmp_path, policy=SAMPLED[sampled], **STRIPPED, **TOGETHER)
    assert row["policy/kl_to_reference_nats"] == pytest.approx(0, abs=1e-6)
    assert row["auxiliary/kdrl_loss"] == pytest.approx(0, abs=1e-6)
    pulls_nothing(row)


@pytest.mark.parametrize("rule", LOG_RATIOS)
def test_no_log_ratio_pays_a_policy_that_is_its_reference(tmp_path: Path, rule: str):
    (row,) = steps(tmp_path, policy=SAMPLED["all of them"], **STRIPPED, **LOG_RATIOS[rule])
    pulls_nothing(row)


@pytest.mark.parametrize("adapters", [{}, {"lora": {"rank": 2}}], ids=["weights", "adapters"])
def test_the_penalty_is_0_before_the_first_update_and_not_after_it(tmp_path: Path, adapters: dict[str, Any]):
    """The credit pushes the policy away from the reference in the first step, so the penalty pulls in the second."""
    credit, learner = "tests.helpers.thinking_lock:alternating", {"lr": 1e-2, **adapters}
    first, second = steps(tmp_path, n=2, policy=SAMPLED["all of them"], credit=credit, learner=learner, **KL_PENALTY)
    assert first["policy/kl_to_reference_nats"] == pytest.approx(0, abs=1e-6)
    assert second["policy/kl_to_reference_nats"] > 1e-4
