"""``turngate eval`` keeps what was played, of a model and of a server, and overwrites nothing."""

import json
from pathlib import Path

import pytest
import tomli_w

from tests.helpers import chat_server, models
from tests.helpers.command_line import turngate
from turngate.agents import tiny
from turngate.config.run_config import load
from turngate.envs.lock import key_of
from turngate.store import Store
from turngate.trainer.evaluation.evaluations_file import read_evaluations
from turngate.types import Ending

LOCK = ("--env", "turngate/Lock-v1", "--tasks", 4, "--turn-tokens", 8)
KEY = "sk-very-secret"


def opener(body, n):
    """Opens every lock: the last word of what it is told is the colour."""
    return f"press {key_of(body['messages'][-1]['content'].split()[-1])}"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("turngate.agents.policies.openai.BACKOFF_S", 0.01)
    return tmp_path


@pytest.fixture
def ask(capsys):
    """``turngate eval`` of a server that answers by a script: exit code, stdout, stderr, server."""

    def go(script, *arguments):
        with chat_server.serving(script) as server:
            options = ("--policy", "openai", "--url", server.url, "--model", "big", *LOCK, *arguments)
            code = turngate("eval", *options)
        said = capsys.readouterr()
        return code, said.out, said.err, server

    return go


def files(path: Path):
    return sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())


# --- a model ---------------------------------------------------------------------------------------------------------


def test_it_keeps_episodes_results_config_and_versions_and_says_where(here, capsys):
    tiny.save(models.plain_model(), models.tokenizer(), here / "model")
    assert turngate("eval", here / "model", *LOCK, "--out", "kept", "--samples", 2) == 0
    told, first, passed, apart, second = capsys.readouterr().out.splitlines()
    assert told == "no tools in the template: the environment names them, any tool format is read"
    assert first.startswith("turngate/Lock-v1 heldout, temperature 1: ")
    assert " of 8 solved unaided = " in first
    assert first.endswith("; 4 tasks, 4 distinct questions, 8 episodes, 0 unusable")
    assert passed.startswith("  one of k episodes succeeds: pass@1 ")
    assert " pass@2 " in passed
    assert apart == f"overlap with training: not known, because '{here}/model' is not the model of a run"
    assert second == "kept in kept; look at it with: turngate show kept"
    names = files(here / "kept")
    assert names[:1] + names[-1:] == ["config.toml", "trajectories/step=000000/" + names[-1].rpartition("/")[2]]
    assert set(names) > {"evaluations.jsonl", "machine.json", "result.json"}
    assert "torch" in json.loads((here / "kept" / "machine.json").read_text())["packages"]
    assert load(here / "kept" / "config.toml").eval.samples == 2
    ((phase, result),) = read_evaluations(here / "kept")
    assert (phase, len(result.success_B)) == ("eval", 8)
    (row,) = json.loads((here / "kept" / "result.json").read_text())["evaluations"]
    assert row["pass_at"]["1"]["value"] == row["rate"]
    assert row["pass_at"].keys() == {"1", "2"}
    assert (row["solved"], row["usable"], row["rate"]) == (sum(result.success_B), 8, sum(result.success_B) / 8)
    assert (row["tasks"], row["questions"], row["episodes"], row["unusable"]) == (4, 4, 8, 0)
    (group, *_) = Store(here / "kept").read(0, "eval-heldout-sampled")
    assert group.trajectories[0].turns[0].completion.text
    assert turngate("show", "kept") == 0
    assert group.trajectories[0].id in capsys.readouterr().out


def test_it_overwrites_nothing_and_leaves_nothing_of_what_failed(here, capsys):
    tiny.save(models.plain_model(), models.tokenizer(), here / "model")
    model = here / "model"
    before = files(here)
    for wrong in (("--context", 16, "--out", "x"), ("--split", "helout"), ("--policy", "opnai")):
        assert turngate("eval", model, *LOCK, *wrong) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert files(here) == before
    (here / "taken").mkdir()
    (here / "taken" / "diary.txt").write_text("mine")
    assert turngate("eval", model, *LOCK, "--out", "taken") == 2
    error = capsys.readouterr().err
    assert error == "error: 'taken' exists already, and nothing is overwritten; choose another --out\n"
    assert files(here / "taken") == ["diary.txt"]
    assert turngate("eval", model, *LOCK, "--temperature", 0) == 0
    assert turngate("eval", model, *LOCK, "--temperature", 0) == 2  # the default folder is no exception
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name a model to evaluate"),
        (("m", "--url", "http://x"), "--url and --model need --policy openai"),
        (("--policy", "openai", "--model", "m"), "policy: '' is not the address of a server"),
        (("--policy", "openai", "--url", "localhost:1", "--model", "m"), "'localhost:1' is not the address"),
        (("--policy", "openai", "--url", "http://localhost:1"), "policy.model: "),
        (("m", "--tsks=3"), "unknown option '--tsks=3'"),
        (("--tsks=3", "m"), "unknown option '--tsks=3'"),
        (("m", "n"), "'n' is a second model"),
        (
            ("--config", "c.toml", "--tasks", 3),
            "--tasks has no effect with --config; set its key: --eval.tasks=VALUE",
        ),
        (("--config", "c.toml", "--context", 300), "set its key: --policy.context=VALUE"),
        (("--config", "c.toml", "--model", "m"), "--model=m has no effect on a server; write --policy.model=NAME"),
    ],
)
def test_options_that_do_not_go_together_are_a_line(arguments, said, here, capsys):
    Path("c.toml").write_text(tomli_w.dumps(config_for("http://localhost:1")))
    assert turngate("eval", *arguments) == 2
    error = capsys.readouterr().err
    assert (error.count("\n"), said in error) == (1, True), error
    assert files(here) == ["c.toml"]


# --- a server --------------------------------------------------------------------------------------------------------


def test_a_server_is_evaluated_by_what_it_says(ask, here, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    code, out, error, server = ask(opener, "--out", "kept", "--seed", 3)
    assert (code, error) == (0, "")
    assert "4 of 4 solved unaided = 100.0%" in out
    path, headers, body = server.heard[0]
    assert (path, headers["Authorization"]) == ("/v1/chat/completions", f"Bearer {KEY}")
    assert {name: body[name] for name in ("model", "temperature", "max_tokens")} == {
        "model": "big",
        "temperature": 1.0,
        "max_tokens": 8,
    }
    longest = max((body["messages"] for _, _, body in server.heard), key=len)
    assert [one["role"] for one in longest] == ["user", "assistant", "user", "assistant", "user"]
    assert longest[0]["content"].startswith("Open the lock")
    assert longest[1]["content"].startswith("press ")
    assert len({body["seed"] for _, _, body in server.heard}) == 4 * 3
    assert not any(KEY.encode() in file.read_bytes() for file in here.rglob("*") if file.is_file())
    group = next(iter(Store(here / "kept").read(0, "eval-heldout-sampled")))
    turn = group.trajectories[0].turns[0]
    assert (turn.completion.text[:6], turn.action.calls[0].name) == ("press ", "press")
    assert (len(turn.completion.ids_K), len(turn.context_ids), len(turn.source)) == (0, 0, 0)
    assert turngate("show", "kept", "--trajectory", group.trajectories[0].id) == 0
    shown = capsys.readouterr().out
    assert "wrote (tokens unknown, ended by stop, policy version 0)" in shown
    assert "opened" in shown
    assert turngate("rescore", "kept", "--rubric", "lock", "--phase", "eval-heldout-sampled") == 0


def test_a_key_that_is_refused_ends_it_in_a_line_without_the_key(ask, here, monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)
    code, out, error, _ = ask(lambda body, n: (401, f"Incorrect key: {KEY}".encode(), {}), "--key-variable", "MY_KEY")
    assert (code, error.count("\n"), out.count("\n")) == (2, 1, 1)
    assert (
        "answered 401 for model 'big': 'Incorrect key: ***'; check the address, the model's name and the key" in error
    )
    assert files(here) == []


def test_episodes_that_get_no_reply_are_counted_and_said(ask, here):
    def script(body, n):
        spoilt = body["messages"][0]["content"] == first[0] if first else first.append(body["messages"][0]["content"])
        return 400 if spoilt is not False else opener(body, n)

    first = []
    code, out, _, _ = ask(script, "--out", "kept")
    lost = [
        one.error
        for group in Store(here / "kept").read(0, "eval-heldout-sampled")
        for one in group.trajectories
        if one.error
    ]
    assert code == 0
    assert f"4 episodes, {len(lost)} unusable, {(4 - len(lost)) / 4:.1%} if they count as failures" in out
    assert all("gave no reply to turn 0 of" in one and "in 1 attempts; the last: status 400" in one for one in lost)
    assert 1 <= len(lost) < 4


def test_where_no_episode_gets_a_reply_the_reason_is_told_and_nothing_is_kept(ask, here):
    code, _, error, _ = ask(lambda body, n: 400)
    assert (code, error.count("\n")) == (1, 1)
    assert error.startswith("StoreError: none of the 4 episodes was usable; the first says: http://127.0.0.1:")
    assert files(here) == []


def test_nobody_at_the_address_ends_it_at_once(here, capsys):
    server = ("--policy", "openai", "--url", "http://127.0.0.1:9/v1", "--model", "big")
    assert turngate("eval", *server, *LOCK) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "nobody answers at http://127.0.0.1:9/v1/chat/completions: ConnectError" in error
    assert files(here) == []


def test_an_episode_that_the_server_finds_too_long_ends_there_and_counts(ask, here):
    full = b'{"error": {"message": "This model\'s maximum context length is 40 tokens.", "code": null}}'
    code, out, _, _ = ask(
        lambda body, n: (400, full, {}) if len(body["messages"]) > 3 else opener(body, n), "--out", "kept"
    )
    assert code == 0
    assert "0 of 4 solved unaided = 0.0%" in out
    played = [one for group in Store(here / "kept").read(0, "eval-heldout-sampled") for one in group.trajectories]
    assert {(one.ending, len(one.turns)) for one in played} == {(Ending.TOKEN_BUDGET, 2)}


# --- a config --------------------------------------------------------------------------------------------------------


def config_for(url):
    return {
        "name": "served",
        "env": {"id": "turngate/Lock-v1"},
        "policy": {"type": "openai", "url": url, "model": "big", "turn_tokens": 8, "context": 256},
        "eval": {"tasks": 3, "samples": 2},
    }


def test_a_config_evaluates_a_server_sampled_and_greedy(here, capsys):
    with chat_server.serving(opener) as server:
        Path("served.toml").write_text(tomli_w.dumps(config_for(server.url)))
        assert turngate("eval", "--config", "served.toml", "--eval.tasks=2") == 0
    told, sampled, passed, greedy, apart, kept = capsys.readouterr().out.splitlines()
    assert passed.startswith("  one of k episodes succeeds: pass@1 ")
    assert told == "tools are given to the server, and its calls are kept in hermes tool format"
    assert sampled.startswith("turngate/Lock-v1 heldout, temperature 1: 4 of 4 solved unaided")
    assert greedy.startswith("turngate/Lock-v1 heldout, temperature 0: 2 of 2 solved unaided")
    assert apart == "overlap with training: not known, because the policy brings a model of its own"
    assert kept.startswith("kept in evaluations/served;")
    assert {body["temperature"] for _, _, body in server.heard} == {1.0, 0.0}
    assert load(here / "evaluations" / "served" / "config.toml").policy.type == "openai"


def test_the_temperature_of_the_evaluation_is_not_that_of_training(here, capsys):
    with chat_server.serving(opener) as server:
        Path("served.toml").write_text(tomli_w.dumps(config_for(server.url)))
        explores = ["--policy.temperature=1.5", "--eval.temperature=0.5"]
        assert turngate("eval", "--config", "served.toml", "--eval.tasks=2", *explores) == 0
    assert {body["temperature"] for _, _, body in server.heard} == {0.5, 0.0}
    assert "heldout, temperature 0.5: " in capsys.readouterr().out


def test_training_it_is_refused_in_a_line(here, capsys):
    Path("served.toml").write_text(tomli_w.dumps(config_for("http://localhost:1/v1")))
    assert turngate("train", "served.toml") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith('error: policy.type "openai" can be evaluated (turngate eval --config CONFIG) but not')
    assert files(here) == ["served.toml"]


def test_a_config_of_a_run_evaluates_its_model(here, capsys):
    tiny.save(models.plain_model(), models.tokenizer(), here / "model")
    table = {"env": {"id": "turngate/Lock-v1"}, "warm_start": {"episodes": 2}, "eval": {"tasks": 2}}
    Path("run.toml").write_text(tomli_w.dumps({**table, "policy": {"turn_tokens": 8}}))
    assert turngate("eval", "--config", "run.toml") == 2
    assert "model is a table for a new model, which has learned nothing" in capsys.readouterr().err
    assert turngate("eval", "--config", "run.toml", "--model", here / "model", "--out", "kept") == 0
    assert "temperature 0: " in capsys.readouterr().out


# --- what the model was trained on -----------------------------------------------------------------------------------

TASKS = """
from dataclasses import replace
from turngate.envs.lock import LockTasks
from turngate.envs.tasks import TaskList

def tasks():
    found = [LockTasks().task(split, n) for split in ("train", "heldout") for n in range(6)]
    return [replace(task, prompt=f"{task.prompt} ({task.id[-1]})") for task in found]
"""


@pytest.fixture
def run_of_12_tasks(here, monkeypatch):
    """The folder of a run whose model was warm-started on 2 tasks and trained on 2 steps of 2."""
    (here / "shared_tasks.py").write_text(TASKS)
    monkeypatch.syspath_prepend(str(here))
    for name in ("model", "warm_start"):
        tiny.save(models.plain_model(), models.tokenizer(), here / "run" / name)
    env = {"id": "turngate/Lock-v1", "tasks": "shared_tasks:tasks"}
    table = {
        "env": env,
        "warm_start": {"episodes": 2},
        "train": {"steps": 2, "tasks_per_step": 2},
        "policy": {"turn_tokens": 8},
        "eval": {"tasks": 4},
    }
    for place, more in (("run/config.toml", {}), ("eval.toml", {"model": "run/model"})):
        (here / place).write_text(tomli_w.dumps({**table, **more}))
    return here / "run"


def test_what_the_evaluated_split_shares_with_the_tasks_of_the_run_is_told(run_of_12_tasks, capsys):
    assert turngate("eval", "--config", "eval.toml", "--out", "kept") == 0
    lines = capsys.readouterr().out.splitlines()
    told = [
        "split 'heldout': 4 tasks, 4 distinct questions; in common with 6 training tasks: question text 4 of 4",
        "warning: split 'heldout' is not apart from training: 4 of 4 tasks have a question text that 6 training tasks "
        "have too",
    ]
    assert lines[-3:-1] == told
    (row,) = json.loads(Path("kept/overlap.json").read_text())["splits"]
    assert (row["trained"], row["questions"], row["leaks"]) == (6, 4, ["question text"])
    assert turngate("report", "kept") == 0
    out = capsys.readouterr().out
    assert all(line in out for line in [*told, "evaluation"])
    assert "training\n" not in out


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (
            "--eval.splits=['train']",
            "warning: split 'train' of 'turngate/Lock-v1' is the one that the model was trained on",
        ),
        (
            "--env.id=turngate/Sql-v1",
            "overlap with training: not known, because no training task of 'turngate/Sql-v1' is known",
        ),
    ],
)
def test_a_split_that_cannot_be_compared_is_said(option, told, run_of_12_tasks, capsys):
    config = Path("eval.toml").read_text()
    if "Sql" in option:
        Path("eval.toml").write_text(config.replace('tasks = "shared_tasks:tasks"\n', ""))
    assert turngate("eval", "--config", "eval.toml", option, "--eval.tasks=4", "--out", "kept") == 0
    assert told in capsys.readouterr().out


@pytest.mark.parametrize(("model", "n"), [("run/model", 2 + 2 * 2), ("run/warm_start", 2)])
def test_a_warm_started_model_has_seen_fewer_tasks_than_a_trained_one(model, n, run_of_12_tasks, capsys):
    for place in ("run/config.toml", "eval.toml"):
        Path(place).write_text(Path(place).read_text().replace('tasks = "shared_tasks:tasks"\n', ""))
    assert turngate("eval", "--config", "eval.toml", f"--model={model}", "--out", "kept") == 0
    assert f"; in common with {n} training tasks: " in capsys.readouterr().out


def test_a_run_whose_config_cannot_be_read_is_said_and_spares_the_evaluation(run_of_12_tasks, capsys):
    (run_of_12_tasks / "config.toml").write_text("sede = 1")
    assert turngate("eval", "--config", "eval.toml", "--out", "kept") == 0
    said = f"not known, because the config of '{run_of_12_tasks}' cannot be used: unknown key 'sede'"
    assert said in capsys.readouterr().out


# --- further tables ---------------------------------------------------------------------------------------------------


def test_one_of_k_is_chosen_at_equal_tokens_and_tasks_are_put_into_buckets(here, capsys):
    """The best by the rubric of all episodes is pass@k; the base is the same evaluation, and its buckets say so."""
    tiny.save(models.plain_model(), models.tokenizer(), here / "model")
    asked = ("eval", here / "model", *LOCK, "--samples", 4)
    assert turngate(*asked, "--out", "base") == 0
    capsys.readouterr()
    options = ("--best-of", "--vote", "--buckets", "base/eval-heldout-sampled", "--out", "kept")
    assert turngate(*asked, *options) == 0
    lines = capsys.readouterr().out.splitlines()
    told = [line.strip() for line in lines if line.startswith("  of ")]
    assert [line.split(",")[0] for line in told] == ["of 1 episodes", "of 2 episodes", "of 4 episodes"]
    assert all("by verifier" in line and "by likelihood" in line and "by vote" in line for line in told)
    (row,) = json.loads((here / "kept" / "result.json").read_text())["evaluations"]
    every = row["chosen"]["4"]["success"]
    assert every["by verifier"]["value"] == pytest.approx(row["pass_at"]["4"]["value"])
    assert {one["value"] for one in row["chosen"]["1"]["success"].values()} == {row["rate"]}
    assert row["chosen"]["4"]["tokens"] == pytest.approx(4 * row["chosen"]["1"]["tokens"])
    fits = row["calibration"]
    assert fits["stated"] is None
    assert fits["likelihood"]["episodes"] == 16
    assert 0 <= fits["likelihood"]["brier"]["value"] <= 1
    assert sum(one["tasks"] for one in row["buckets"].values()) == 4
    for name, one in row["buckets"].items():  # the same seed plays the same episodes
        assert name != "not played"
        assert (name == "never") == (one["value"] == 0)
    assert any("base/eval-heldout-sampled solved these" in line for line in lines)


def test_stated_confidence_is_compared_with_success(here, capsys):
    """No question is answered, by a script that says in each of its turns how sure it is of the question."""
    said = dict[str, str]()

    def script(body, n):
        question = next(one["content"] for one in body["messages"] if one["role"] == "user")
        if question not in said:
            said[question] = ("0.9", "40%", "0.1", "no")[len(said)]
        return f"<confidence>{said[question]}</confidence>"

    with chat_server.serving(script) as server:
        where = ("--policy", "openai", "--url", server.url, "--model", "big", "--env", "turngate/Search-v1")
        assert turngate("eval", *where, "--tasks", 4, "--turn-tokens", 32, "--out", "kept") == 0
    out = capsys.readouterr().out
    (row,) = json.loads((here / "kept" / "result.json").read_text())["evaluations"]
    assert row["calibration"]["stated"]["episodes"] == 3
    assert row["calibration"]["likelihood"] is None  # a server says nothing of its tokens
    wrong = (0.9**2 + 0.4**2 + 0.1**2) / 3
    assert row["solved"] == 0
    assert row["calibration"]["stated"]["brier"]["value"] == pytest.approx(wrong)
    assert "stated confidence, 3 episodes: calibration error (10 bins)" in out
    assert "; 1 stated none" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--best-of",), "each is played once; set --samples"),
        (("--vote", "--samples", 1), "each is played once; set --samples"),
        (("--buckets", "nowhere/eval"), "'nowhere' has no episodes of phase 'eval'; nothing is recorded there"),
    ],
)
def test_further_tables_that_cannot_be_made_are_refused_before_anything_is_played(arguments, said, here, capsys):
    tiny.save(models.plain_model(), models.tokenizer(), here / "model")
    assert turngate("eval", here / "model", *LOCK, *arguments) == 2
    assert said in capsys.readouterr().err
    assert not (here / "evaluations").exists()
