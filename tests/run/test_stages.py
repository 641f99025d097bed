"""Runs of stages, from the config on (``[[stages]]``).

1. Each stage is an ordinary run in a folder of its own, which begins with the model of the one before.
2. A run that was killed with SIGKILL in its second stage goes on there, bit for bit.
3. A stage that changed nothing stops the run each time, by its name; so does one whose input is gone.
4. What a stage cannot have, or would have no effect, is refused before any work.
5. Rounds can be added to a finished run, and nothing else can be changed.
6. A stage ends by itself where a number of its steps says so, also where it was killed in between.
7. A stage may begin with, and ask, the model of any earlier one.
"""

import shutil
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
import torch
from rich.console import Console

from tests.helpers.command_line import turngate
from tests.run.test_killed import episodes, metrics, train_until_killed
from tests.run.test_stored_episodes import BASE
from turngate.config.run_config import Config, dump, parse
from turngate.config.stages import StageEnd, merge_tables
from turngate.errors import ConfigError, RunError, UserError
from turngate.run.assembly.assemble import learning_run
from turngate.run.assembly.models import load_model
from turngate.run.environments import Environments
from turngate.run.staged_job import StagedJob
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.trainer.batch.table import tabulate
from turngate.trainer.credit.imitation_weights import rise
from turngate.types import Trajectory

COLLECT = {"name": "collect", "learner": "frozen", "train": {"steps": 1}}
IMITATE = {
    "name": "imitate",
    "reads": ["collect"],
    "credit": "imitate",
    "loss": {"objective": "imitation"},
    "train": {"steps": 2, "filters": ["successes"]},
}
VERIFY = {
    "name": "verify",
    "reads": ["collect"],
    "loss": {"objective": "none"},
    "auxiliary": [{"type": "pairs", "winners": "all", "score_decay": 1e-3}],
    "train": {"steps": 1},
}
SCORED = {
    "name": "imitate",
    "reads": ["collect"],
    "begins_with": "collect",
    "credit": {"type": "top_scored", "most": 2},
    "reward_model": {"model": "stage:verify"},
    "loss": {"objective": "imitation"},
    "train": {"steps": 1},
}
RL = {"name": "rl", "train": {"steps": 1}}


def config(folder: Path, *stages: dict[str, Any], **changes: Any) -> Config:
    return parse({**BASE, "folder": str(folder), "stages": list(stages), **changes})


def made(folder: Path, *stages: dict[str, Any], **changes: Any) -> RunFolder:
    StagedJob(config(folder, *stages, **changes), Console(quiet=True)).run()
    return RunFolder(folder / "lock")


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def two_rounds(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Collect and imitate, twice."""
    return made(tmp_path_factory.mktemp("rounds"), COLLECT, IMITATE, rounds=2)


def test_each_stage_is_a_run_that_begins_with_the_model_of_the_one_before(two_rounds):
    names = [one.path.name for one in two_rounds.stages]
    assert names == ["01-collect", "02-imitate", "03-collect", "04-imitate"]
    first, second, third, fourth = two_rounds.stages
    assert first.warm_start.exists()
    assert [one.warm_start.exists() for one in (second, third, fourth)] == [False] * 3
    assert weights(first.model) == weights(first.warm_start)
    assert weights(second.model) != weights(first.model)
    assert weights(third.model) == weights(second.model)
    assert weights(two_rounds.model) == weights(fourth.model) != weights(third.model)
    tasks = [{group.task.id for group in Store(one.path).read(phase="train")} for one in (first, third)]
    assert tasks[0] != tasks[1]  # each round has a seed of its own


@pytest.mark.parametrize("command", [("report",), ("show",), ("replay",), ("rescore", "--rubric", "lock")])
def test_every_command_reads_a_stage(two_rounds, command):
    name, *options = command
    assert turngate(name, two_rounds.stages[0].path, *options) == 0
    assert turngate("compare", *[one.path for one in two_rounds.stages[::2]], "--phase=after-heldout-greedy") == 0


def test_a_report_compares_what_came_of_each_stage(two_rounds, capsys):
    assert turngate("report", two_rounds.path) == 0
    told = (two_rounds.report / "summary.md").read_text()
    for name in ("before", "01-collect", "02-imitate", "03-collect", "04-imitate"):
        assert f"| {name} " in told
    assert all((one.report / "summary.md").exists() for one in two_rounds.stages)
    assert turngate("show", two_rounds.path) == 2
    assert "is a run of stages; name one of them" in capsys.readouterr().err


@pytest.mark.timeout(2000)
def test_a_killed_run_goes_on_in_its_stage_bit_for_bit(tmp_path, forked):
    runs = {}
    for name in ("killed", "whole"):
        folder = tmp_path / name
        folder.mkdir()
        if name == "whole":
            (folder / "marker").touch()
        guide = {"type": "tests.run.killing_parts:WavesPart", "by": "env", "low": 0.0, "high": 0.01}
        kwargs = {"marker": str(folder / "marker")}
        tree = {
            **{key: value for key, value in BASE.items() if key != "env"},
            "folder": str(folder),
            "env": {"id": "tests.run.killing_parts:test/KillingLock-v0", "kwargs": kwargs},
            "credit": "tests.helpers.thinking_lock:alternating",
            "warm_start": {**BASE["warm_start"], "episodes": 16, "epochs": 1},
            "train": {"steps": 3, "tasks_per_step": 2, "group_size": 6, "filters": []},
            "eval": {"tasks": 1},
            "stages": [RL, {"name": "more", "guide": guide}, {"name": "last", "train": {"steps": 1}}],
        }
        (folder / "run.toml").write_text(tomli_w.dumps(tree))
        runs[name] = RunFolder(folder / "lock")
    train_until_killed(forked, tmp_path / "killed" / "run.toml")
    killed, whole = runs["killed"], runs["whole"]
    assert [one.path.name for one in killed.stages] == ["01-rl", "02-more"]
    assert not killed.stages[1].is_complete
    assert [row["step"] for row in metrics(killed.stages[1])] == [1]
    done = (killed.stages[0].model / "model.safetensors").stat().st_mtime_ns
    assert turngate("train", tmp_path / "killed" / "run.toml") == 0
    assert turngate("train", tmp_path / "whole" / "run.toml") == 0
    assert (killed.stages[0].model / "model.safetensors").stat().st_mtime_ns == done
    for one, other in zip(killed.stages, whole.stages, strict=True):
        assert metrics(one) == metrics(other)
        assert episodes(one) == episodes(other)
        assert weights(one.model) == weights(other.model)
    assert weights(killed.model) == weights(whole.model)


@pytest.mark.parametrize(
    ("stage", "error", "said"),
    [
        ({**RL, "credit": "tests.run.test_stages:nothing"}, RunError, r"stage 'rl' \(2 of 2\): it changed nothing: "),
        (
            {**RL, "train": {"steps": 2, "filters": ["tests.run.test_stages:none"]}},
            RunError,
            r"stage 'rl' \(2 of 2\): it changed nothing: none of its 2 steps had an episode left to learn from \(drop/",
        ),
        (
            {**IMITATE, "train": {"steps": 1, "filters": ["tests.run.test_stages:none"]}},
            UserError,
            r"stage 'imitate' \(2 of 2\): episodes: train\.filters drop each of the \d+ recorded groups",
        ),
    ],
    ids=["no change", "no episode", "no recorded episode"],
)
def test_a_stage_that_changes_nothing_stops_the_run_each_time(stage, error, said, tmp_path):
    first = {**COLLECT} if stage.get("reads") else {"name": "begin", "train": {"steps": 1}, "credit": "rloo"}
    plain = {**BASE, "eval": {"tasks": 1}}
    for _ in range(2):
        with pytest.raises(error, match=said):
            StagedJob(parse({**plain, "folder": str(tmp_path), "stages": [first, stage]}), Console(quiet=True)).run()
    assert not RunFolder(tmp_path / "lock").is_complete


def nothing(table):
    """A credit rule that gives none."""
    return np.zeros(table.n_turns, np.float32)


def none(group):
    """A filter that keeps none."""
    return np.zeros(len(group.trajectories), np.bool_)


def test_a_stage_whose_input_is_gone_is_named(two_rounds, tmp_path):
    shutil.copytree(two_rounds.path, tmp_path / "lock")
    shutil.rmtree(tmp_path / "lock" / "stages" / "02-imitate")
    text = (tmp_path / "lock" / "config.toml").read_text()
    again = parse({**tomllib.loads(text), "folder": str(tmp_path)})
    with pytest.raises(ConfigError, match=r"02-imitate' has no model, and '.*03-collect'.* has begun"):
        StagedJob(again, Console(quiet=True)).run()


@pytest.mark.parametrize(
    ("stages", "changes", "said"),
    [
        ([], {"rounds": 2}, r"rounds = 2 has no effect without \[\[stages\]\]"),
        ([RL, RL], {}, r"two stages are called 'rl'"),
        ([RL, {**IMITATE, "reads": ["colect"]}], {}, r"stages\[1\] \('imitate'\)\.reads: unknown stage 'colect'"),
        ([IMITATE, COLLECT], {}, r"stages\[0\].*reads: stage 'collect' is not made before it"),
        ([COLLECT], {}, r"stages\[0\] \('collect'\) has no effect: its learner is frozen, and no later stage reads"),
        ([RL, {**IMITATE, "reads": [], "episodes": "stored"}], {}, r"stages\[1\] \('imitate'\): .*episodes\.runs"),
        ([RL, {"name": "a", "train": {"steps": 0}}], {}, r"stages\[1\] \('a'\) changes nothing"),
        ([{**RL, "rounds_read": "all"}], {}, r"rounds_read has no effect without reads"),
        ([COLLECT, {**IMITATE, "rounds_read": "all"}], {}, r"rounds_read = \"all\" has no effect with rounds = 1"),
        ([{**RL, "begins_with": "first"}], {}, r"begins_with has no effect in the first stage"),
        ([{**RL, "model": "x"}], {}, r"stages\[0\]\.model cannot be set.*begins_with says where"),
        ([{**RL, "seed": 3}], {}, r"stages\[0\]\.seed cannot be set"),
        ([{**RL, "controls": ["random_reward"]}], {}, r"stages\[0\]\.controls cannot be set"),
        ([RL], {"controls": ["random_reward"]}, r"baselines and controls do not go with stages"),
        ([{**RL, "credit": "gigo"}], {}, r"stages\[0\] \('rl'\): credit: unknown .*'gigo'; did you mean 'gigpo'"),
        ([{**RL, "lerner": {"lr": 1}}], {}, r"stages\[0\] \('rl'\): unknown key 'lerner'; did you mean 'learner'"),
        ([{**RL, "name": "../x"}], {}, r"stages\[0\]\.name"),
        (
            [{**RL, "until": {"metric": "a"}}],
            {},
            r"stages\[0\]\.until: a stage ends by one of above, .*; none is given",
        ),
        (
            [RL, {**RL, "name": "b", "begins_with": "c"}],
            {},
            r"stages\[1\] \('b'\): begins_with = 'c': unknown stage 'c'",
        ),
        ([{**RL, "name": "first"}], {}, r"a stage cannot be called 'first', which begins_with takes for another model"),
        (
            [COLLECT, SCORED, VERIFY],
            {},
            r"stages\[1\] \('imitate'\): stage:verify: stage 'verify' is not made before it",
        ),
        (
            [COLLECT, {**SCORED, "reward_model": {"model": "stage:verifi"}}],
            {},
            r"stages\[1\] \('imitate'\): stage:verifi: unknown stage 'verifi'",
        ),
        ([{**RL, "until": {"metric": "a", "above": 1, "plateau": 2}}], {}, r"above and plateau is given"),
        (
            [{**RL, "train": {"steps": 3, "ahead": 1}, "until": {"metric": "a", "above": 1}}],
            {},
            r"stages\[0\] \('rl'\)\.until does not go with train\.ahead = 1",
        ),
    ],
)
def test_what_a_stage_cannot_have_is_refused_by_name(tmp_path, stages, changes, said):
    with pytest.raises(ConfigError, match=said):
        config(tmp_path, *stages, **changes)


def test_a_later_stage_that_does_not_fit_is_refused_before_any_work(tmp_path):
    bad = {**RL, "name": "bad", "eval": {"splits": ["nowhere"]}}
    with pytest.raises(ConfigError, match=r"stage 'bad' \(2 of 2\): eval\.splits"):
        StagedJob(config(tmp_path, RL, bad), Console(quiet=True))
    assert not (tmp_path / "lock").exists()


def test_rounds_can_be_added_and_nothing_else_changed(two_rounds, tmp_path):
    base = parse({**tomllib.loads(two_rounds.config.read_text())})
    StagedJob(base, Console(quiet=True)).run()  # nothing is left to do
    other = parse({**tomllib.loads(two_rounds.config.read_text()), "learner": {"lr": 1e-6}})
    with pytest.raises(ConfigError, match=r"learner\.lr was 0\.001 and is 1e-06; .*only rounds can be raised later"):
        StagedJob(other, Console(quiet=True))
    before = weights(two_rounds.model)
    more = parse({**tomllib.loads(two_rounds.config.read_text()), "rounds": 3})
    StagedJob(more, Console(quiet=True)).run()
    assert [one.path.name for one in two_rounds.stages][4:] == ["05-collect", "06-imitate"]
    assert weights(two_rounds.model) == weights(two_rounds.stages[-1].model) != before


def until(**table: Any) -> StageEnd:
    return StageEnd.model_validate({"metric": "train/success", **table})


@pytest.mark.parametrize(
    ("end", "values", "after"),
    [
        (until(above=0.5), [0.5, 0.25, 0.75, 0.0], 3),
        (until(below=0.25), [0.5, 0.25, 0.125], 3),
        (until(above=0.5, over=2), [1.0, 0.0, 0.5, 0.75], 4),  # means 0.5, 0.25, 0.625
        (until(plateau=2), [0.5, 0.25, 0.75, 0.75, 0.5], 5),  # an equal value is none that rises
        (until(plateau=2, over=2), [0.0, 1.0, 0.0, 1.0], 4),  # means 0.5, 0.5, 0.5
        (until(plateau=9), [0.5] * 9, None),
        (until(above=0.5, over=3), [1.0, 1.0], None),
    ],
)
def test_a_stage_ends_where_its_metric_says_so(end, values, after):
    ended = [n for n in range(len(values) + 1) if end.reason(values[:n])]
    assert ended[:1] == ([] if after is None else [after])


def test_a_stage_that_ends_by_itself_is_complete_and_the_next_one_begins_with_its_model(tmp_path, capsys):
    """Its second step is its last one; resumed without its model it makes no further one."""
    first = {**RL, "train": {"steps": 4}, "until": {"metric": "train/turns", "above": 0, "over": 2}}
    last = {"name": "last", "train": {"steps": 1}, "until": {"metric": "train/turns", "below": 0}}
    tree = {**BASE, "folder": str(tmp_path), "stages": [first, last], "eval": {"tasks": 1}}
    (tmp_path / "run.toml").write_text(tomli_w.dumps(tree))
    assert turngate("train", tmp_path / "run.toml") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "ended after step 2: train/turns is " in out
    assert "all 1 steps made: train/turns did not end it" in out
    run = RunFolder(tmp_path / "lock")
    assert [[row["step"] for row in metrics(one)] for one in run.stages] == [[1, 2], [1]]
    assert turngate("report", run.path) == 0
    assert turngate("replay", run.stages[0].path, "--step", "2") == 0
    before = weights(run.stages[0].model)
    for gone in (run.model, run.stages[1].path, run.stages[0].model):
        shutil.rmtree(gone)
    assert turngate("train", tmp_path / "run.toml") == 0
    assert [[row["step"] for row in metrics(one)] for one in run.stages] == [[1, 2], [1]]
    assert weights(run.stages[0].model) == before


def test_an_end_by_a_number_that_no_step_has_stops_the_run(tmp_path):
    stage = {**RL, "until": {"metric": "train/sucess", "above": 0.5}}
    with pytest.raises(RunError, match=r"no step of 1 had a number 'train/sucess'; there are train/success"):
        made(tmp_path, stage, {**RL, "name": "more"})


def test_a_stage_reads_all_rounds_or_its_own_and_may_begin_with_the_first_model(tmp_path):
    again = {**IMITATE, "begins_with": "first", "rounds_read": "all"}
    mixed = {"name": "rl", "reads": ["rl"], "episodes": {"type": "mixed", "replay": "rlep"}}
    stages = [parse(one.tree) for one in config(tmp_path, COLLECT, again, mixed, rounds=2).unfolded()]
    place = tmp_path / "lock" / "stages"
    assert [one.name for one in stages][3:] == ["04-collect", "05-imitate", "06-rl"]
    assert stages[4].episodes.folders == (place / "01-collect", place / "04-collect")
    assert stages[4].model == str(place / "01-collect" / "warm_start")
    assert stages[2].episodes.folders == ()  # there is no earlier round: it replays its own episodes
    assert stages[5].episodes.folders == (place / "03-rl",)
    assert [one.model for one in stages[1:4]] == [
        str(place / "01-collect" / "warm_start"), str(place / "02-imitate" / "model"), str(place / "03-rl" / "model")
    ]  # fmt: skip
    assert len({one.seed for one in stages}) == 6
    assert stages[0].seed == BASE.get("seed", 0)


def test_what_a_rule_of_the_file_implies_is_not_put_upon_a_stage(tmp_path):
    """A critic is added for turn_gae, and no filter; a stage with another rule has neither, and its own default."""
    found = config(tmp_path, {**RL, "credit": "grpo"}, {**RL, "name": "more"}, credit="turn_gae")
    plain, critic = (parse(one.tree) for one in found.unfolded())
    assert (plain.value, [part.type for part in plain.train.filters]) == (None, ["varied"])
    assert (critic.value is not None, critic.train.filters) == (True, ())
    assert dump(parse(tomllib.loads(dump(found)))) == dump(found)


@pytest.mark.parametrize(
    ("base", "over", "expected"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"a": {"b": 3, "c": 2}}),
        ({"l": {"type": "torch", "lr": 1}}, {"l": "frozen"}, {"l": "frozen"}),
        ({"l": {"type": "torch", "lr": 1}}, {"l": {"type": "frozen"}}, {"l": {"type": "frozen"}}),
        ({"l": {"type": "torch", "lr": 1}}, {"l": {"lr": 2}}, {"l": {"type": "torch", "lr": 2}}),
        ({"l": "torch"}, {"l": {"lr": 2}}, {"l": {"type": "torch", "lr": 2}}),
        ({"f": ["a"]}, {"f": []}, {"f": []}),
        ({}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    ],
)
def test_tables_are_merged_and_parts_of_another_type_replaced(base, over, expected):
    assert merge_tables(base, over) == expected


def test_further_attempts_are_weighed_with_the_first(tmp_path):
    """RISE: the learning stage gets both attempts, each in its own context, weighted by the softmax of payments."""
    attempt = {"name": "attempt", "learner": "frozen", "branching": {"type": "rise"}, "train": {"steps": 1}}
    learn = {**IMITATE, "reads": ["attempt"], "credit": {"type": "rise", "tau": 0.25}, "train": {"steps": 1}}
    policy = {**BASE["policy"], "context": 400}
    run = made(tmp_path, attempt, learn, policy=policy)
    first, second = run.stages
    played = [leaf for group in Store(first.path).read(phase="train") for leaf in group.trajectories]
    assert {leaf.parent is None for leaf in played} == {True, False}
    rows = metrics(second)
    assert rows[0]["replay/share"] == 1
    assert rows[0]["learner/grad_norm"] > 0
    group = next(Store(first.path).read(phase="train"))
    paid = np.array([score.total for score in group.scores])
    table = tabulate([group])
    power = np.exp(paid / 0.25)
    expected = (power / power.mean())[table.traj_N]
    np.testing.assert_allclose(rise(table, tau=0.25), expected, rtol=1e-5)


def test_what_a_scorer_of_an_earlier_stage_scores_highest_is_imitated(tmp_path):
    """muCode: the scorer's model is one of its own, the policy goes on from where it played, and of each task the
    episodes are imitated whose own tokens became likelier in the scorer, all tokens added up."""
    run = made(tmp_path, COLLECT, VERIFY, SCORED)
    collect, verify, imitate = run.stages
    assert metrics(verify)[0]["auxiliary/pairs_rows"] > 0
    settings = parse(tomllib.loads(imitate.config.read_text()))
    assert (settings.model, settings.reward_model.model) == (str(collect.model), str(verify.model))
    assert len({weights(one.model) for one in run.stages}) == 3
    assert metrics(imitate)[0]["learner/grad_norm"] > 0
    groups = list(Store(collect.path).read(phase="train"))
    credit = credit_in(settings, groups)
    models = [load_model(str(one.model))[0] for one in (verify, collect)]
    for group, given in zip(groups, credit, strict=True):
        scores = []
        for one in group.trajectories:
            scorer, before = (own_logprob(model, one, settings.policy.temperature) for model in models)
            scores.append(scorer - before)
        best = sorted(range(len(scores)), key=lambda at: -scores[at])[:2]
        assert [float(at in best) for at in range(len(scores))] == given
        assert abs(max(scores)) > 1e-4


def credit_in(settings: Config, groups: list) -> list[list[float]]:
    """The credit of each episode of recorded groups in a run with these settings, as its step computes it."""
    with Environments(settings.env) as environments:
        model, tokenizer = load_model(str(settings.model))
        chat = settings.policy.chat(model, tokenizer)
        run, _ = learning_run(
            settings, environments, model, chat, None, folder=RunFolder(Path("nowhere")), control=None, answer=None
        )
        table, _ = run.signals.measure(groups, tabulate(groups))
        credit_N = run.credit(table)
    per_B = [credit_N[table.traj_N == at] for at in range(table.n_trajectories)]
    assert all((one == one[0]).all() for one in per_B)
    told = iter(float(one[0]) for one in per_B)
    return [[next(told) for _ in group.trajectories] for group in groups]


def own_logprob(model: Any, one: Trajectory, temperature: float) -> float:
    """log-probability of what the policy wrote in an episode, token by token."""
    ids, total, place = torch.as_tensor(one.ids(), dtype=torch.long), 0.0, 0
    with torch.no_grad():
        logprob = torch.log_softmax(model(ids[None]).logits[0] / temperature, -1)
    for turn in one.turns:
        place += len(turn.context_ids)
        for _ in turn.completion.ids_K:
            total += float(logprob[place - 1, ids[place]])
            place += 1
    return total
