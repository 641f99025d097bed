"""Steps that learn from fresh episodes and from recorded ones, and weights that are published now and then.

1. The first step, when nothing is recorded, is that of a run that plays all; later ones replay their share, and record
   only what they played.
2. Each replay part goes the whole way, with the numbers of its paper where a step can show them.
3. A run that was killed by SIGKILL goes on bit for bit, because it finds its earlier episodes where it recorded them.
4. With ``train.sync_every`` = s the sampler has the weights of every s-th step, also in a run that goes on.
"""

import os
import signal
from typing import Any

import numpy as np
import pytest
import tomli_w

from tests.helpers.command_line import turngate
from tests.helpers.kills import killed_in
from tests.run.test_stored_episodes import BASE, ROOT, Seen, reading, rows, trained
from turngate.config.run_config import parse
from turngate.errors import ConfigError
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.trainer.batch.contexts import Origin

POOL = {"id": "turngate/Lock-v1", "tasks": "tests.run.late_killing_pool:six_locks"}
LIMIT_S = 900


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The config of a run that plays tasks that come again; it begins with a model that solves some of them."""
    imitated = trained(tmp_path_factory.mktemp("start"), train={**BASE["train"], "steps": 0})
    return {**reading(imitated), "env": POOL, "episodes": "played"}


@pytest.fixture(scope="module")
def first(start: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """That run."""
    return trained(tmp_path_factory.mktemp("first"), start)


def mixed(start: dict[str, Any], *, steps: int = 3, **episodes: Any) -> dict[str, Any]:
    return {
        **start,
        "train": {**BASE["train"], "steps": steps},
        "episodes": {"type": "mixed", **episodes},
    }


def fresh_and_replayed(groups: Any) -> tuple[int, int]:
    marks = [one.replay is not None for group in groups for one in group.trajectories]
    return marks.count(False), marks.count(True)


def test_a_step_replays_its_share_and_records_what_it_played(start, first, tmp_path, monkeypatch):
    """ReMix: 2 of 4 groups (0.4 rounded is 2) where there are as many to replay that teach something."""
    seen = Seen(monkeypatch)
    done = trained(tmp_path, {**mixed(start, steps=4, max_age=2)})
    own = {step: list(Store(done.path).read(step, "train")) for step in range(1, 5)}
    alone = [group.trajectories for group in Store(first.path).read(1, "train")]
    assert [group.trajectories for group in own[1]] == alone  # nothing was there to replay
    metrics = rows(done)
    assert metrics[0]["replay/share"] == 0
    assert "replay/age_steps" not in metrics[0]
    assert max(row["replay/share"] for row in metrics) > 0
    for step, groups in enumerate(seen.groups, 1):
        fresh = [group for group in groups if group.trajectories[0].replay is None]
        replayed = [group for group in groups if group.trajectories[0].replay is not None]
        assert len(groups) == 4
        assert len(replayed) <= 2
        assert [group.task.id for group in fresh] == [group.task.id for group in own[step]]
        assert [len(group.trajectories) for group in groups] == [4] * 4
        ages = [step - one.replay.step for group in replayed for one in group.trajectories]
        assert set(ages) <= {1, 2}
        n_fresh, n_replayed = fresh_and_replayed(groups)
        assert metrics[step - 1]["replay/share"] == n_replayed / (n_fresh + n_replayed)
        assert len(own[step]) == len(fresh)
        if ages:
            assert metrics[step - 1]["replay/age_steps"] == np.mean(ages)
    replaying = [b for b in seen.batches if (b.origin_L == Origin.REPLAYED).any()]
    assert replaying
    assert any((b.origin_L[b.policy_weight_L > 0] == Origin.OWN).any() for b in replaying)


def test_repo_compares_replayed_episodes_with_each_other(start, tmp_path, monkeypatch):
    seen = Seen(monkeypatch)
    replay = {"type": "repo", "strategy": "max_variance", "cached": 4, "k": 2}
    done = trained(tmp_path, mixed(start, steps=3, replay=replay))
    assert len(seen.groups[0]) == 4
    pairs = [g for groups in seen.groups for g in groups if g.trajectories[0].replay is not None]
    assert pairs
    assert all(len(group.trajectories) == 2 for group in pairs)
    assert all(one.replay.joins is False for group in pairs for one in group.trajectories)
    cohorts = [{one.cohort for one in group.trajectories} for group in seen.groups[-1]]
    assert len(set().union(*cohorts)) >= len(cohorts)
    assert rows(done)[-1]["replay/share"] > 0


def test_rlep_joins_successes_of_another_run(start, first, tmp_path, monkeypatch, capsys):
    seen = Seen(monkeypatch)
    done = trained(tmp_path, mixed(start, steps=2, runs=[str(first.path)], replay="rlep"))
    joined = [group for groups in seen.groups for group in groups if len(group.trajectories) > 4]
    assert joined
    for group in joined:
        marks = [one.replay is not None for one in group.trajectories]
        assert marks == [False] * 4 + [True] * (len(marks) - 4)
        assert all(score.success for score, mark in zip(group.scores, marks, strict=True) if mark)
        assert len({one.cohort for one in group.trajectories}) == 1
    assert {len(group.trajectories) for group in Store(done.path).read(phase="train")} == {4}  # the fresh ones
    assert "replay/age_steps" not in rows(done)[0]
    capsys.readouterr()
    assert turngate("credit", done.path, "--method", "rloo") == 0
    assert turngate("show", done.path, "--trajectory", joined[0].trajectories[0].id) == 0
    assert (
        capsys.readouterr().out.count("'rlep' let recorded episodes join these groups, which are not recorded") == 1
    )  # show has the recorded credit
    probe = ("--probe", 0, "--trajectory", joined[0].trajectories[0].id)
    assert turngate("credit", done.path, "--method", "rloo", *probe) == 2
    assert "cannot be probed" in capsys.readouterr().err


def test_exgrpo_plays_earlier_tasks_again_beside_a_success(start, tmp_path, monkeypatch):
    seen = Seen(monkeypatch)
    base = mixed(start, steps=4, replay={"type": "exgrpo", "starts_above": 0.05})
    train = {**base["train"], "tasks_per_step": 3}
    done = trained(tmp_path, {**base, "train": train, "loss": {"replayed": "shaped"}, "credit": "rloo"})
    again = [group for groups in seen.groups for group in groups if any(one.replay for one in group.trajectories)]
    assert again
    for group in again:
        marks = [one.replay is not None for one in group.trajectories]
        assert marks == [False, False, False, True]  # a group of 4 with one replayed success
        assert group.scores[-1].success
    shares = [row.get("policy/replayed_share", 0.0) for row in rows(done)]
    assert max(shares) > 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"branching": "tree_grpo"}, r"branching 'tree_grpo' does not go with .*shares turns among its episodes"),
        ({"train": {"refill": {"batches": 2}}}, r"train\.refill does not go with episodes\.type = \"mixed\""),
        ({"episodes": {"replay": "exgrpo"}, "train": {"ahead": 1}}, r"'exgrpo' does not go with train\.ahead"),
        ({"episodes": {"replay": "exgrpo"}, "guide": {"type": "ladder"}}, r"'exgrpo' does not go with guide 'ladder'"),
        ({"train": {"tasks_per_step": 1}}, r"'remix' has no effect: 0\.4 of train\.tasks_per_step = 1 is no group"),
        ({"episodes": {"leave_out": ["guided"]}}, r"phase and leave_out have no effect without runs"),
        ({"episodes": {"runs": ["x"], "max_age": 2}}, r"max_age has no effect with runs"),
        ({"episodes": {"replay": {"type": "rlep", "k": 0}}}, r"episodes\.replay\.k"),
    ],
)
def test_what_does_not_go_with_it_is_refused_by_name(start, changes, said):
    base = mixed(start)
    train, episodes = {**base["train"], **changes.get("train", {})}, {**base["episodes"], **changes.get("episodes", {})}
    with pytest.raises(ConfigError, match=said):
        parse({**base, **changes, "train": train, "episodes": episodes})


def versions(run: RunFolder) -> list[set[int]]:
    """Which version of the policy played each step."""
    store = Store(run.path)
    return [
        {turn.completion.policy_version for g in store.read(step, "train") for t in g.trajectories for turn in t.turns}
        for step in store.steps("train")
    ]


def test_semi_online_weights_are_those_of_every_fourth_step(start, tmp_path, monkeypatch):
    """Ten steps, s = 4: the sampler gets weights before the steps 0, 4 and 8 (counted from 0), and after the last."""
    seen = Seen(monkeypatch)
    base = {**start, "credit": "tests.helpers.thinking_lock:alternating"}
    train = {**BASE["train"], "steps": 10, "tasks_per_step": 2, "filters": [], "checkpoint_every": 3}
    done = trained(tmp_path / "whole", {**base, "train": {**train, "sync_every": 4}})
    assert versions(done) == [{0}] * 4 + [{4}] * 4 + [{8}] * 2
    assert [row["step"] for row in rows(done) if "policy/version" in row] == [4, 8, 10]
    assert [row["policy/steps_behind"] for row in rows(done)] == [1, 2, 3, 0, 1, 2, 3, 0, 1, 0]
    kl = [row["policy/kl_to_sampler_nats"] for row in rows(done)]
    assert kl[0] == pytest.approx(0, abs=1e-9)
    assert kl[4] == pytest.approx(0, abs=1e-7)
    assert min(kl[2], kl[3], kl[7]) > 1e-6  # the ratio is that to the recorded log-probabilities
    recorded = [turn.completion.logprobs_K for g in Store(done.path).read(4, "train") for t in g.trajectories
                for turn in t.turns]  # fmt: skip
    batch = seen.batches[3]
    assert np.array_equal(batch.logprob_L[batch.policy_weight_L > 0], np.concatenate(recorded))

    with killed_in(7):
        trained(tmp_path / "killed", {**base, "train": {**train, "sync_every": 4}})
    again = trained(tmp_path / "killed", {**base, "train": {**train, "sync_every": 4}})  # from step 6, sampler at 4
    assert rows(again) == rows(done)
    assert (again.model / "model.safetensors").read_bytes() == (done.model / "model.safetensors").read_bytes()


def test_semi_online_adapters_go_on_with_the_weights_that_the_sampler_had(start, tmp_path, monkeypatch):
    """As above with LoRA: the weights that are kept for the sampler are those with the adapters of that step added."""
    base = {**start, "credit": "tests.helpers.thinking_lock:alternating", "learner": {"lr": 3e-3, "lora": {"rank": 4}}}
    train = {**BASE["train"], "steps": 5, "tasks_per_step": 2, "filters": [], "checkpoint_every": 1, "sync_every": 2}
    done = trained(tmp_path / "whole", {**base, "train": train})
    assert versions(done) == [{0}, {0}, {2}, {2}, {4}]
    kl = [row["policy/kl_to_sampler_nats"] for row in rows(done)]
    assert kl[2] == pytest.approx(0, abs=1e-7)
    assert min(kl[1], kl[3]) > 1e-6

    with killed_in(4):
        trained(tmp_path / "killed", {**base, "train": train})
    again = trained(tmp_path / "killed", {**base, "train": train})  # from step 3, the sampler at 2
    assert rows(again) == rows(done)
    assert (again.model / "model.safetensors").read_bytes() == (done.model / "model.safetensors").read_bytes()


def test_offline_weights_are_never_published_before_the_end(start, tmp_path):
    base = start
    done = trained(tmp_path, {**base, "train": {**BASE["train"], "sync_every": 0}})
    assert versions(done) == [{0}] * 3
    assert [row["step"] for row in rows(done) if "policy/version" in row] == [3]


@pytest.mark.parametrize(
    ("train", "said"),
    [
        ({"sync_every": 3}, r"train\.sync_every = 3 has no effect beyond that of 0: there are 3 steps"),
        ({"sync_every": 2, "ahead": 1}, r"does not go with train\.ahead"),
        ({"sync_every": 0, "validation": {"every": 2}}, r"train\.validation\.every = 2 needs the sampler's weights"),
    ],
)
def test_an_interval_that_cannot_be_kept_is_refused(start, train, said):
    with pytest.raises(ConfigError, match=said):
        parse({**start, "train": {**BASE["train"], **train}})


@pytest.mark.timeout(4 * LIMIT_S)
def test_a_killed_run_finds_its_episodes_again(start, tmp_path, forked):
    """SIGKILL in an episode of step 3, which replays; the whole run is not killed."""
    whole, killed = ({**mixed(start, steps=4, max_age=2)} for _ in range(2))
    for name, base in (("whole", whole), ("killed", killed)):
        folder = tmp_path / name
        folder.mkdir()
        kwargs = {"run": str(folder / "lock"), "steps": 2}
        base["env"] = {"id": "tests.run.late_killing:test/LateKillingLock-v0", "kwargs": kwargs, "tasks": POOL["tasks"]}
        base["folder"] = str(folder)
        (folder / "run.toml").write_text(tomli_w.dumps(base))
    (tmp_path / "whole" / "marker").touch()
    died = forked.run("train", tmp_path / "killed" / "run.toml", cwd=ROOT, env=os.environ, timeout=LIMIT_S)
    assert died.returncode == -signal.SIGKILL, died.stdout + died.stderr
    assert Store(tmp_path / "killed" / "lock").steps() == [1, 2]
    one, other = (trained(tmp_path / name, base) for name, base in (("killed", killed), ("whole", whole)))
    assert rows(one) == rows(other)
    assert max(row["replay/share"] for row in rows(other)[2:]) > 0
    played = [[group.trajectories for group in Store(run.path).read(phase="train")] for run in (one, other)]
    assert played[0] == played[1]
    assert (one.model / "model.safetensors").read_bytes() == (other.model / "model.safetensors").read_bytes()
