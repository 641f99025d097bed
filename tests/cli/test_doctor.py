"""``turngate doctor`` tells what a run would do, and what is refused by it is refused by ``turngate train`` too."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import tomli_w
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file

from tests.helpers import architectures, models, templates, tiny_run
from tests.helpers.command_line import turngate
from turngate import register
from turngate.agents import tiny
from turngate.config.run_config import load
from turngate.envs.registry import registered
from turngate.run.job import Job
from turngate.store import Store

LOCK = "turngate/Lock-v1"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A model folder with nothing wrong in it."""
    return architectures.saved("qwen3", tmp_path_factory.mktemp("whole") / "model")


@pytest.fixture
def told(capsys):
    """Exit code of the doctor, and what it says by subject; what stands indented below a line is joined to it."""

    def go(*arguments):
        code = turngate("doctor", *arguments)
        printed = capsys.readouterr()
        assert (printed.err == "") == (code != 2), printed.err
        found = {}
        for line in printed.out.splitlines():
            about, colon, rest = line.partition(":")
            if colon and not line.startswith(" "):
                found[about] = rest.strip()
            else:
                found[about := next(reversed(found))] += f"\n{line.strip()}"
        return code, found, printed.err

    return go


def config(folder, model, **changes):
    """A file of a run on this model."""
    table = {
        "name": "lock",
        "folder": str(folder / "runs"),
        "model": str(model),
        "env": [{"id": LOCK, "kwargs": {"max_turns": 4}}],
        "policy": {"turn_tokens": 8, "context": 512, "concurrency": 2},
        "train": {"steps": 1, "tasks_per_step": 1, "group_size": 2},
        "eval": {"tasks": 1},
    }
    for name, part in changes.items():
        table[name] = {**table.get(name, {}), **part}
    path = folder / "lock.toml"
    path.write_text(tomli_w.dumps(table))
    return path


def number(text, pattern):
    (found,) = re.findall(pattern, text)
    return float(found.replace(",", ""))


def test_it_tells_what_the_files_hold_and_what_the_model_is_shown(whole, told):
    code, found, _ = told(whole, LOCK)
    source, tokenizer = tiny.load(str(whole), dtype="float32")
    weights = sum(weight.numel() for weight in source.parameters())
    size = (whole / "model.safetensors").stat().st_size
    assert code == 0
    assert found["model"] == (f"Qwen3ForCausalLM, 2 layers of width 32, 4 heads, tied embeddings, {weights:,} weights")
    assert found["files"] == f"1 of {size / 1000:.3g} kB in BF16; trained in float32"
    assert found["vocabulary"] == f"{len(tokenizer)} tokens, {source.config.vocab_size} embeddings"
    assert found["tools"] == "tools are listed by the chat template, called in hermes tool format"
    assert found["a turn ends with"] == "<|im_end|>"
    assert found["thoughts"] == "<think> and </think> are tokens"
    assert found["earlier turns"].startswith("the chat template shows a turn otherwise once another one follows")
    assert found["decode steps"].startswith("on a GPU captured as graphs")
    assert found["prefix trees"].startswith("possible")
    first, *prompt = [line for line in found["prompt"].split("\n") if line]
    assert first.startswith("task 'lock/train/0' of 'turngate/Lock-v1' begins with 255 tokens of policy.context 1024")
    assert (prompt[0], prompt[-1]) == ("<|im_start|>system", "<|im_start|>assistant")
    assert number(found["memory"], r"(?m)^weights +([\d.]+) kB") == pytest.approx(weights * 4 / 1000, rel=0.01)
    assert found["verdict"] == "a run would begin"


def test_the_document_shows_what_it_prints(whole, monkeypatch, capsys):
    text = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
    ((command, shown),) = re.findall(r"```text\n\$ turngate (doctor .*)\n((?:.*\n)*?)```", text)
    monkeypatch.chdir(whole.parent)
    assert turngate(*shlex.split(command)) == 0
    lines = re.sub(r"this machine has .*", "HERE", capsys.readouterr().out).splitlines()
    assert [line.rstrip() for line in lines] == re.sub(r"this machine has .*", "HERE", shown).splitlines()


def test_the_prompt_is_what_training_shows(whole, told, tmp_path):
    path = config(tmp_path, whole)
    _, found, _ = told("--config", path)
    shown = int(number(found["prompt"], r"begins with (\d+) tokens"))
    Job(load(path), Console(quiet=True)).run()
    (group, *_) = Store(tmp_path / "runs" / "lock").read(1, "train")
    assert len(group.trajectories[0].turns[0].context_ids) == pytest.approx(shown, abs=6)  # another colour


def test_the_settings_of_a_config_count(whole, told, tmp_path):
    path = config(tmp_path, whole)
    _, small, _ = told("--config", path)
    _, large, _ = told("--config", path, "--policy.concurrency=40", "--learner.tokens_per_pass=100000")
    each = 513 * 2 * 2 * 2 * 8 * 4  # columns, layers, keys and values, heads, numbers, bytes
    assert number(small["memory"], r"(?m)^key-value cache +([\d.]+) kB") == pytest.approx(2 * each / 1e3, rel=0.01)
    assert number(large["memory"], r"(?m)^key-value cache +([\d.]+) MB") == pytest.approx(40 * each / 1e6, rel=0.01)
    assert "policy.context 512; a turn has up to 8" in small["prompt"]
    code, beyond, _ = told("--config", path, "--policy.context=4096")
    assert code == 0
    assert beyond["context"].startswith("policy.context 4096 goes beyond the model's 1024 positions")


@pytest.mark.parametrize(
    ("settings", "about", "said"),
    [
        (["--policy.context=200"], "room", "policy.context 200 has no room for a turn of 'turngate/Lock-v1'"),
        (["--policy.concurrency=100000"], "memory", "lower policy.concurrency"),
        (["--policy.top_k=400"], "model", "policy.top_k 400 has no effect on a vocabulary of 311"),
        (["--policy.template={enable_thinkng = false}"], "chat", "did you mean 'enable_thinking'?"),
        (['--eval.splits=["nowhere"]'], "settings", "eval.splits: unknown split 'nowhere'"),
    ],
)
def test_what_a_run_would_refuse_is_told_with_the_setting_that_helps(settings, about, said, whole, told):
    code, found, _ = told(whole, LOCK, *settings)
    assert code == 1
    assert found[about].startswith("refused: ")
    assert said in found[about]
    assert found["verdict"] == "a run would be refused"


def test_trees_that_are_asked_for_and_not_possible_are_refused(tmp_path, told):
    folder = architectures.saved("gpt_oss", tmp_path / "model")
    code, found, _ = told(folder, LOCK)
    assert (code, found["prefix trees"]) == (
        0,
        "not possible, so every episode is computed as a whole (attention along a tree knows no s_aux)",
    )
    assert "each token goes through 2 experts; sliding layers see 24 tokens" in found["attention"]
    code, found, _ = told(folder, LOCK, "--learner.packing=tree")
    assert (code, found["prefix trees"].startswith("refused: not possible")) == (1, True)


def test_a_model_that_cannot_be_captured_is_told_and_not_refused(whole, told, tmp_path):
    folder = shutil.copytree(whole, tmp_path / "model")
    _config(rope_parameters={"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 2.0})(folder)
    code, found, _ = told(folder, LOCK)
    assert code == 0
    assert found["decode steps"].startswith("on a GPU not captured as graphs, each goes through the model's modules (")
    assert "makes the host wait for a number" in found["decode steps"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name a model and an environment, or a config: turngate doctor --config CONFIG"),
        (["MODEL"], "name a model and an environment"),
        (["MODEL", LOCK, "more"], "'more' is neither the model nor the environment"),
        (["MODEL", "turngate/Lok-v1", "--config", "CONFIG"], "unknown environment of the config 'turngate/Lok-v1'"),
        (["MODEL", LOCK, "--policy.contxt=3"], "unknown key 'policy.contxt'; did you mean 'context'?"),
    ],
)
def test_a_command_that_names_too_little_or_too_much_is_a_line(arguments, said, whole, told, tmp_path):
    names = {"MODEL": whole, "CONFIG": config(tmp_path, whole)}
    code, _, error = told(*[names.get(one, one) for one in arguments])
    assert (code, error.count("\n"), said in error) == (2, 1, True), error


def test_a_config_with_a_new_model_is_looked_at_before_and_after_its_run(told, tmp_path, monkeypatch):
    """The vocabulary is that of the run; a model of the run is looked at as one of another run."""
    monkeypatch.chdir(tmp_path)
    Path("new.toml").write_text(
        '[env]\nid = "turngate/Lock-v1"\n[eval]\ntasks = 1\n[train]\nsteps = 1\ntasks_per_step = 1\ngroup_size = 2\n'
        + tiny_run.tiny()
    )
    code, found, _ = told("--config", "new.toml")
    assert (code, found["verdict"], found["files"]) == (0, "a run would begin", "none, it is new")
    assert turngate("train", "new.toml") == 0
    (trained,) = Path("runs").glob("*/model")
    after = told(trained, "--config", "new.toml")[1]
    assert after["verdict"] == "a run would begin"
    assert [found[one] for one in ("model", "vocabulary", "prompt")] == [
        after[one] for one in ("model", "vocabulary", "prompt")
    ]
    assert json.loads((trained / "config.json").read_text())["vocab_size"] == number(found["vocabulary"], r"^([\d,]+)")


def test_a_new_model_without_a_demonstration_is_refused(told, tmp_path):
    if "test/NoOracle-v0" not in registered():
        register("test/NoOracle-v0", "tests.helpers.odd_envs:NoOracle")
    new = tmp_path / "new.toml"
    new.write_text('[env]\nid = "test/NoOracle-v0"\n' + tiny_run.tiny())
    code, found, _ = told("--config", new)
    assert code == 1
    assert found["model"].startswith("refused: none of 16 demonstrations can be used: task 0 of")


def test_a_new_model_is_not_played(told, tmp_path):
    new = tmp_path / "new.toml"
    new.write_text('[env]\nid = "turngate/Lock-v1"\n' + tiny_run.tiny())
    code, found, _ = told("--config", new, "--play", 1)
    assert code == 1
    assert found["episodes"].startswith("refused: a new model has learned nothing yet; play a trained one")


# --- broken folders, through both commands ----------------------------------------------------------------------------


def _without(*names):
    def go(folder):
        for name in names:
            (folder / name).unlink()

    return go


def _config(**changes):
    def go(folder):
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return go


def _cut_off(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def _lacks_a_part(folder):
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    parts = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": parts}))


def _more_tokens(folder):
    tokenizer = templates.tokenizer("qwen3")
    tokenizer.add_tokens([f"<more{number}>" for number in range(9)])
    tokenizer.save_pretrained(folder)


def _only(**settings):
    return lambda folder: (folder / "config.json").write_text(json.dumps(settings))


TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
BROKEN = {
    "no tokenizer": (_without(*TOKENIZER), "has no tokenizer; copy tokenizer.json and tokenizer_config.json beside"),
    "no template": (_without("chat_template.jinja"), "has no chat template; give a chat model"),
    "too many tokens": (_more_tokens, "has 317 tokens and the model 311 (vocab_size of config.json), so some have no"),
    "no weights": (_without("model.safetensors"), "has no weights (model.safetensors, or "),
    "cut off": (_cut_off, "model.safetensors' are damaged or cut off; copy the file again"),
    "a part is missing": (
        _lacks_a_part,
        "lacks 'model-00002-of-00002.safetensors', which model.safetensors.index.json",
    ),
    "layers are missing": (_config(num_hidden_layers=3, layer_types=None), "weights that config.json describes; copy"),
    "other sizes": (_config(intermediate_size=50), "copy config.json and the weights from the same model"),
    "unknown architecture": (_config(model_type="qwen99"), "name a causal language model that transformers"),
    "code of its own": (_config(model_type="own", auto_map={"AutoConfig": "x.Y"}), "it brings code of its own, which"),
    "quantised": (
        _config(quantization_config={"quant_method": "fp8"}),
        "its weights are quantised (fp8), which cannot",
    ),
    "recurrent": (_only(model_type="mamba", num_hidden_layers=1), "has layers of the kind linear_attention"),
    "reads images": (_only(model_type="gemma3"), "gemma3 reads more than text; save its language model as a folder"),
    "translates": (_only(model_type="t5"), "t5 has an encoder beside the decoder; name a causal language model"),
    "no settings": (_without("config.json"), "cannot be loaded: "),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_folder_is_a_line_of_doctor_and_of_train(name, whole, told, tmp_path, capsys):
    folder = tmp_path / "model"
    shutil.copytree(whole, folder)
    breaks, said = BROKEN[name]
    breaks(folder)
    code, found, _ = told(folder, LOCK)
    lines = [line for line in found.values() if line.startswith("refused: ")]
    assert code == 1
    assert any(said in line for line in lines), found
    assert turngate("train", config(tmp_path, folder)) == 2
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 1, printed.err
    assert said in printed.err
    assert not (tmp_path / "runs").exists()


def test_weights_of_other_names_are_told_when_they_are_loaded(whole, tmp_path, capsys):
    """As many numbers as config.json describes, so that no head of a file shows it."""
    folder = tmp_path / "model"
    shutil.copytree(whole, folder)
    weights = load_file(folder / "model.safetensors")
    weights["model.layers.7.mlp.up_proj.weight"] = weights.pop("model.layers.1.mlp.up_proj.weight")
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    assert turngate("train", config(tmp_path, folder)) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "lacks 1 of its weights, model.layers.1.mlp.up_proj.weight among them, which would begin at random" in error


def test_an_outline_has_the_shapes_and_the_ends_of_the_model_and_no_weights(tmp_path):
    source = models.plain_model()
    source.generation_config.eos_token_id = [0, 5]
    tiny.save(source, models.tokenizer(), tmp_path)
    outline, _ = tiny.outline(str(tmp_path))
    loaded, _ = tiny.load(str(tmp_path))
    shapes = [{name: weight.shape for name, weight in one.named_parameters()} for one in (outline, loaded)]
    assert shapes[0] == shapes[1]
    assert {weight.device for weight in outline.parameters()} == {torch.device("meta")}
    assert outline.generation_config.eos_token_id == loaded.generation_config.eos_token_id == [0, 5]
