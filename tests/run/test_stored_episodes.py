"""Steps that learn from recorded episodes, from the config on (``episodes``).

1. ``stored`` plays nothing: groups are episodes of one task and one policy version, paid by today's rubric, with ratios
   to the recorded log-probabilities; the same seed gives the same run.
2. What cannot be learned from is refused by name before the first step.
3. ``played`` is the default, and nothing of it changes (the other tests of runs show it).
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from tests.helpers.command_line import turngate_at
from tests.helpers.run_metrics import MEASURED
from turngate.config.run_config import parse
from turngate.errors import ConfigError, UserError
from turngate.run.job import Job
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics
from turngate.trainer import step as step_module
from turngate.trainer.batch.contexts import Origin

ROOT = Path(__file__).parents[2]
BASE: dict[str, Any] = {
    "name": "lock",
    "env": {"id": "turngate/Lock-v1", "tasks": {"type": "lock", "dials": 2}},
    "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300},
    "warm_start": {"episodes": 96, "epochs": 6, "episodes_per_batch": 8, "lr": 5e-3},
    "policy": {"turn_tokens": 8, "context": 256, "concurrency": 8, "temperature": 1.2},
    "learner": {"lr": 1e-3},
    "train": {"steps": 3, "tasks_per_step": 4, "group_size": 4, "checkpoint_every": 2},
    "eval": {"tasks": 2},
    "sink": [],
}


def trained(folder: Path, base: dict[str, Any] = BASE, **changes: Any) -> RunFolder:
    Job(parse({**base, "folder": str(folder), **changes}), Console(quiet=True)).run()
    return RunFolder(folder / "lock")


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """The run whose episodes are learned from."""
    return trained(tmp_path_factory.mktemp("first"))


def reading(first: RunFolder, **episodes: Any) -> dict[str, Any]:
    """The same config, which begins with the first run's model and reads its episodes."""
    without = {key: value for key, value in BASE.items() if key not in ("model", "warm_start")}
    return {
        **without,
        "model": str(first.warm_start),
        "episodes": {"type": "stored", "runs": [str(first.path)], **episodes},
    }


class Seen:
    """What ``learn`` was given, step by step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.batches: list[Any] = []
        self.groups: list[Any] = []
        learn, keep = step_module.learn, step_module.keep

        def learning(run, batch, *more, **named):
            self.batches.append(batch)
            return learn(run, batch, *more, **named)

        def keeping(groups, *more, **named):
            self.groups.append(list(groups))
            return keep(groups, *more, **named)

        monkeypatch.setattr(step_module, "learn", learning)
        monkeypatch.setattr(step_module, "keep", keeping)


def rows(run: RunFolder) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if not k.startswith(MEASURED)} for row in read_metrics(run.metrics)]


def test_steps_learn_from_what_was_recorded_and_play_nothing(first, tmp_path, monkeypatch):
    seen = Seen(monkeypatch)
    done = trained(tmp_path / "one", reading(first))
    recorded = {one.id: one for group in Store(first.path).read(phase="train") for one in group.trajectories}
    assert Store(done.path).steps("train") == []  # nothing was played in a step
    assert {phase.split("-")[0] for phase in Store(done.path).phases()} == {"before", "after"}
    assert done.is_complete
    assert len(seen.groups) == 3
    for group in (group for groups in seen.groups for group in groups):
        versions = {one.replay.version for one in group.trajectories}
        assert 2 <= len(group.trajectories) <= 4
        assert len(versions) == 1
        for one in group.trajectories:
            was = recorded[one.id]
            assert [t.completion for t in one.turns] == [t.completion for t in was.turns]  # with their logprobs
            assert {turn.completion.policy_version for turn in one.turns} <= versions
    learned = [one for groups in seen.groups for group in groups for one in group.trajectories]
    assert {one.id for one in learned} <= recorded.keys()
    assert len({one.id for one in learned}) == len(learned)
    for batch in seen.batches:
        trained_L = batch.policy_weight_L > 0
        assert trained_L.any()
        assert (batch.origin_L[trained_L] == Origin.REPLAYED).all()
    metrics = rows(done)
    assert all(row["replay/share"] == 1 for row in metrics)
    moved = [row for row in metrics if "replay/chi2" in row]
    assert moved
    assert all(0 < row["replay/ess_share"] <= 1 and row["replay/k3_nats"] >= 0 for row in moved)
    assert max(row["policy/kl_to_sampler_nats"] for row in metrics) > 1e-6  # the ratio is that to who sampled
    assert any("canary/max_logprob_difference" in row for row in metrics)  # the probe samples anew
    again = trained(tmp_path / "two", reading(first))
    assert rows(again) == metrics
    assert (again.model / "model.safetensors").read_bytes() == (done.model / "model.safetensors").read_bytes()
    assert (done.model / "model.safetensors").read_bytes() != (first.warm_start / "model.safetensors").read_bytes()


def test_a_policy_learns_to_do_what_was_paid(first, tmp_path, monkeypatch):
    """The likelihood of what had positive credit rises beside that of what had negative credit."""
    seen = Seen(monkeypatch)
    made: list[Any] = []
    learn = step_module.learn

    def learning(run, batch, *more, **named):
        before = run.learner.logprobs(batch)
        found = learn(run, batch, *more, **named)
        made.append((run.learner.logprobs(batch) - before, batch))
        return found

    monkeypatch.setattr(step_module, "learn", learning)
    trained(tmp_path, {**reading(first), "learner": {"lr": 3e-3}})
    for moved, batch in made:
        own = batch.policy_weight_L > 0
        assert np.sum((moved * batch.advantage_L)[own]) > 0
    assert seen.batches


def test_recorded_episodes_may_teach_by_pairs_alone(first, tmp_path):
    """Without a policy loss no episode reaches credit, and yet no group counts as dropped."""
    auxiliary = {"type": "pairs", "winners": "all"}
    folder = trained(tmp_path, reading(first), loss={"objective": "none"}, auxiliary=[auxiliary])
    rows = read_metrics(folder.metrics)
    assert len(rows) == 3
    assert any(row["auxiliary/pairs_rows"] and row["auxiliary/pairs_grad_norm"] > 0 for row in rows)


def test_todays_rubric_pays(first, tmp_path, monkeypatch):
    """Halving the weight of the outcome halves what recorded episodes are paid."""
    paid = []
    for number, weight in enumerate((1.0, 0.5)):
        with pytest.MonkeyPatch.context() as patch:
            seen = Seen(patch)
            rubric = {"rewards": [{"type": "from_evidence", "name": "opened", "evidence": "opened", "kind": "outcome",
                                   "weight": weight, "levels": [0, 1]}]}  # fmt: skip
            env = {**BASE["env"], "rubric": rubric}
            trained(tmp_path / str(number), {**reading(first), "env": env})
            paid.append([s.total for groups in seen.groups for group in groups for s in group.scores])
    assert max(paid[0]) > 0
    assert paid[1] == [value / 2 for value in paid[0]]


@pytest.mark.parametrize(
    ("episodes", "holds"),
    [
        ({"where": {"versions": [1, 2]}}, lambda one, solved: one.replay.version in (1, 2)),
        ({"where": {"versions": [0, 0]}}, lambda one, solved: one.replay.version == 0),
        ({"phase": "before-heldout-sampled", "where": {}}, lambda one, solved: one.task.split == "heldout"),
    ],
)
def test_where_and_phase_choose(first, tmp_path, monkeypatch, episodes, holds):
    seen = Seen(monkeypatch)
    base = {**reading(first, **episodes), "train": {**BASE["train"], "steps": 1, "filters": []}}
    if "phase" in episodes:
        more = trained(tmp_path / "more", reading_nothing(first), eval={"tasks": 2, "samples": 4})
        base["episodes"]["runs"] = [str(more.path)]
    trained(tmp_path / "run", base)
    pairs = [(o, s) for group in seen.groups[-1] for o, s in zip(group.trajectories, group.scores, strict=True)]
    assert pairs
    assert all(holds(one, score.success) for one, score in pairs)


@pytest.mark.parametrize(
    ("auxiliary", "steps"), [([], [3]), ([{"type": "cpl"}], [3]), ([{"type": "interventions"}], [1, 2, 3])]
)
def test_the_sampler_has_the_weights_of_every_step_only_where_something_may_ask_it(first, tmp_path, auxiliary, steps):
    done = trained(tmp_path, {**reading(first), "auxiliary": auxiliary, "eval": {"tasks": 1}})
    assert [row["step"] for row in rows(done) if "policy/version" in row] == steps


def reading_nothing(first: RunFolder) -> dict[str, Any]:
    """A run of one step that plays."""
    without = {key: value for key, value in BASE.items() if key not in ("model", "warm_start")}
    return {**without, "model": str(first.warm_start), "train": {**BASE["train"], "steps": 1}}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"guide": {"type": "ladder"}},
            r"guide 'ladder' has no effect with episodes\.type = \"stored\": no step plays",
        ),
        ({"branching": "tree_grpo"}, r"branching 'tree_grpo' does not go with .*no step plays"),
        ({"curriculum": {"type": "greso", "pool": 12}}, r"curriculum 'greso' has no effect with episodes\.type"),
        ({"train": {"ahead": 1}}, r"train\.ahead = 1 has no effect with episodes\.type"),
        ({"train": {"refill": {"batches": 2}}}, r"train\.refill does not go with episodes\.type"),
        ({"train": {"sync_every": 2}}, r"train\.sync_every = 2 has no effect: no step plays"),
        ({"learner": "frozen"}, r"episodes\.type = \"stored\" has no effect: learner\.type = \"frozen\""),
        ({"episodes": {"type": "stored"}}, r"episodes\.runs"),
        ({"episodes": "played", "loss": {"replayed": "shaped"}}, r"loss\.replayed has no effect"),
    ],
)
def test_settings_without_effect_are_refused_by_name(first, changes, said):
    base = reading(first)
    train = {**base["train"], **changes.get("train", {})}
    with pytest.raises(ConfigError, match=said):
        parse({**base, **changes, "train": train})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"phase": "tried"}, r"episodes: .* has no episodes of phase 'tried'; recorded phases: after-"),
        ({"runs": ["nowhere"]}, r"episodes: 'nowhere' holds no recorded episodes"),
        ({"where": {"tasks": ["none"]}}, r"episodes: nothing is left to learn from; .*of others than where names"),
        ({"phase": "before-heldout-greedy"}, r"was played at temperature 0"),
        ({"where": {"success": True}}, r"train\.filters drop each of the \d+ recorded groups"),
    ],
)
def test_episodes_that_do_not_fit_are_refused_by_name(first, tmp_path, changes, said):
    with pytest.raises(UserError, match=said):
        trained(tmp_path, reading(first, **changes))


def test_a_setting_about_hints_needs_recorded_hints(first, tmp_path):
    with pytest.raises(ConfigError, match=r"episodes: loss\.guided has no effect: none of the \d+ recorded episodes"):
        trained(tmp_path, {**reading(first), "loss": {"guided": {"type": "shaped", "gamma": 0.3}}})


def test_the_config_of_the_offline_page_trains(first, tmp_path, monkeypatch):
    blocks = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/offline.md").read_text(), re.DOTALL)
    (text,) = (block for block in blocks if 'type = "stored"' in block)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "lock").symlink_to(first.path)
    (tmp_path / "offline.toml").write_text(text)
    fewer = ("--train.steps=1", "--eval.tasks=2", '--env.tasks={type = "lock", dials = 2}', "--policy.concurrency=8")
    assert turngate_at(tmp_path, "train", "offline.toml", *fewer) == 0
    assert rows(RunFolder(tmp_path / "runs" / "offline"))[0]["replay/share"] == 1
    for command in (("report", "runs/offline"), ("show", "runs/offline")):
        assert turngate_at(tmp_path, *command) == 0


def test_a_model_with_another_tokenizer_is_refused(first, tmp_path):
    """Before the first step; its own warm start is made first, as it has no tokenizer before."""
    other = {**BASE, "model": {**BASE["model"], "vocabulary": 270}, "warm_start": {**BASE["warm_start"], "epochs": 1}}
    with pytest.raises(ConfigError, match=r"episodes: .*(reads otherwise|would be shown another text)"):
        trained(tmp_path, {**other, "episodes": {"type": "stored", "runs": [str(first.path)]}})
    assert not (tmp_path / "lock" / "metrics.jsonl").exists()


def test_tasks_that_are_evaluated_are_told(first, tmp_path):
    """``--strict`` refuses them before any work."""
    base = parse({**reading(first, phase="before-heldout-sampled"), "folder": str(tmp_path)})
    with pytest.raises(ConfigError, match=r"episodes: 2 of the 2 evaluated tasks are among those of the recorded"):
        Job(base, Console(quiet=True), strict=True)
