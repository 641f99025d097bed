"""``turngate plan``: from a config, from a file of rates, from a finished run; and what it refuses."""

import io
import json
import re
import shlex
from pathlib import Path

import pytest
import tomli_w
from rich.cells import cell_len
from rich.console import Console

from tests.cli.small_run import write_config
from tests.helpers import architectures
from tests.helpers.command_line import turngate, turngate_at
from turngate.run.plan.rate_table import SHIPPED, read_rates

ROOT = Path(__file__).parents[2]
QWEN3_06B = {
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "max_window_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151_936,
    "tie_word_embeddings": True,
    "max_position_embeddings": 40_960,
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of Qwen3-0.6B's shape, without weights, which a plan does not read."""
    folder = architectures.saved("qwen3", tmp_path_factory.mktemp("plan") / "model")
    settings = json.loads((folder / "config.json").read_text()) | QWEN3_06B
    settings.pop("layer_types", None)
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "model.safetensors").unlink()
    return folder


@pytest.fixture
def config(model: Path, tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(f'model = "{model}"\n[env]\nid = "turngate/Sql-v1"\n[policy]\nconcurrency = 128\n')
    return path


def rates(folder: Path, **changes: dict[str, object]) -> Path:
    """A file of rates: the shipped table with some numbers changed."""
    table = read_rates().model_dump()
    for name, change in changes.items():
        table[name] |= change
    path = folder / "rates.toml"
    path.write_text(tomli_w.dumps(table))
    return path


def numbers(text: str, stage: str) -> list[float]:
    """The seconds of a stage, and those simulated, if they are printed."""
    (line,) = re.findall(rf"^ *{stage} +([\d., ]+)", text, re.M)
    return [float(number.replace(",", "")) for number in line.split()[:2]]


def test_one_gpu_takes_what_was_measured_on_it(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """docs/engines.md: an update took 3.1 s, of which sampling 53 %, and a gradient 35 % without its measurement."""
    assert turngate("plan", config) == 0
    out = capsys.readouterr().out
    collect, simulated = numbers(out, "collect")
    assert collect == pytest.approx(0.53 * 3.1, rel=0.05)
    assert simulated == pytest.approx(collect, rel=0.1)
    assert numbers(out, "learn")[0] == pytest.approx(0.35 * 3.1, rel=0.05)
    assert "596,049,920 weights" in out
    assert "128 episodes × 4 turns × 32 tokens: 16,384 written" in out
    assert "nothing above one GPU was ever measured" in out
    assert "docs/engines.md" in out


def test_keys_of_the_config_can_be_set_and_the_limit_moves(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert turngate("plan", config, "--gpus=64", "--nodes=8", "--train.tasks_per_step=1024") == 0
    out = capsys.readouterr().out
    assert "limit: host" in out
    assert "balance: 5 of the engines play a step as fast; the other 59 do not help" in out
    assert turngate("plan", config, "--gpus=8", "--train.ahead=1", "--train.tasks_per_step=64") == 0
    assert re.search(r"nodes: 1; \d sample while \d learn", capsys.readouterr().out)


def test_a_file_of_rates_replaces_the_table(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = rates(tmp_path, device={"sampled_tokens_per_s": 1800.0, "name": "mine"}, host={"turn_s": 0.0})
    assert turngate("plan", config, "--rates", path) == 0
    out = capsys.readouterr().out
    assert "mine" in out
    assert numbers(out, "collect")[0] == pytest.approx(16_384 / 1800, rel=0.01)


def test_it_fits_a_terminal(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=True, color_system=None)
    monkeypatch.setattr("turngate.cli.consoles.output", lambda: console)
    assert turngate("plan", config, "--gpus=1000", "--nodes=125", "--train.tasks_per_step=12500") == 0
    assert max(map(cell_len, out.getvalue().splitlines())) <= 80


def test_a_finished_run_tells_its_own_rates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The planned step on its own machine is near the step that was recorded."""
    path = write_config(tmp_path, steps=4)
    assert turngate("train", path, f"--folder={tmp_path}", "--eval.tasks=1", "--train.filters=[]") == 0
    run = tmp_path / "lock"
    capsys.readouterr()
    assert turngate("plan", run) == 0
    out = capsys.readouterr().out
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for stage, metric in (("collect", "time/collect_s"), ("learn", "time/learn_s")):
        seconds = sorted(row[metric] for row in rows)
        assert seconds[0] * 0.5 <= numbers(out, stage)[0] <= seconds[-1] * 2
    assert f"{run}, medians of its last 4 steps" in out
    assert turngate("plan", path, "--from", run, f"--model={run / 'model'}", "--gpus=2") == 0
    assert "2 × this machine" in capsys.readouterr().out


def test_a_finished_run_tells_how_slow_its_environment_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of an environment that the table does not know, whose turns wait for 0.1 s."""
    slow = "tests.run.cluster_parts:test/SlowLock-v0"
    path = write_config(tmp_path, steps=2)
    short = (f"--env.id={slow}", f"--folder={tmp_path}", "--eval.tasks=1", "--train.filters=[]")
    assert turngate("train", path, *short) == 0
    capsys.readouterr()
    assert turngate("plan", tmp_path / "lock") == 0
    (turn_s,) = re.findall(r"environment \S*test/SlowLock-v0: (\S+) s a turn", capsys.readouterr().out)
    assert 0.1 <= float(turn_s) < 0.2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--gpus=0"], "--gpus 0 is not a number of GPUs; give one from 1"),
        (["--gpus=4", "--nodes=5"], "--nodes 5 cannot hold 4 GPUs"),
        (["--model={layers = 2}", "--warm_start.episodes=4"], "name one that exists: --model=FOLDER"),
        (['--policy={type = "openai", url = "http://x", model = "y"}'], "brings its own model"),
        (["--policy.context=300"], "has 456 tokens and policy.context is 300; raise it"),
        (["--learner.tokens_per_pass=131072"], "lower learner.tokens_per_pass; more GPUs alone do not help"),
        (["--policy.concurrency=1024"], "lower policy.concurrency or policy.context"),
        (["--env.id=turngate/Planned-v1"], 'nothing is known of the seconds of a turn of "turngate/Planned-v1"'),
        (["--rates=none.toml"], "no file of rates 'none.toml'"),
        (["--from=nowhere"], "'nowhere' is not the folder of a run"),
        (["--gpu=3"], "gpu"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(
    arguments: list[str], said: str, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert turngate("plan", config, *arguments) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert said.replace('"turngate/Planned-v1"', "'turngate/Planned-v1'") in err


def test_memory_that_suffices_on_more_gpus_is_told(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = rates(tmp_path, device={"memory_bytes": 56e9})
    assert turngate("plan", config, "--rates", path) == 2
    (gpus,) = re.findall(r"or --gpus (\d+)\n", capsys.readouterr().err)
    assert turngate("plan", config, "--rates", path, f"--gpus={gpus}") == 0
    assert turngate("plan", config, "--rates", path, f"--gpus={int(gpus) - 1}") == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("turn_s = 0.00073\n", ""), "host.turn_s"),
        (("slots = 128", "slots = 0"), "device.slots"),
        (("slots = 128", "slot = 128"), "slot"),
        (("slots = 128", "slots = "), "Invalid value"),
    ],
)
def test_a_file_of_rates_that_lacks_a_key_names_it(
    change: tuple[str, str], said: str, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rates.toml"
    path.write_text(SHIPPED.read_text().replace(*change))
    assert turngate("plan", config, "--rates", path) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_sources_of_the_shipped_rates_exist() -> None:
    found = set(re.findall(r"(?:docs|benchmarks)/[\w/]+\.\w+", SHIPPED.read_text()))
    assert len(found) >= 4
    assert [name for name in found if not (ROOT / name).exists()] == []
    played = json.loads((ROOT / "benchmarks/results/replay.json").read_text())["environments"]
    table = read_rates().environments
    for name, of in {"Lock-v1": "lock", "Router-v1": "router", "Search-v1": "search", "CodeRepair-v1": "code"}.items():
        turn_s = played[of]["played_s"] / played[of]["turns"]
        assert table[f"turngate/{name}"].turn_s == pytest.approx(turn_s, rel=0.01)


def test_the_commands_of_the_page_run(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "docs/scale.md").read_text(), re.DOTALL)
    lines = [shlex.split(line, comments=True) for line in "".join(blocks).splitlines()]
    plans = [words for _, *words in lines if words[0] == "plan"]
    assert len(plans) == 4
    rates(config.parent)
    for words in plans:
        assert turngate_at(config.parent, *words) == 0, words
