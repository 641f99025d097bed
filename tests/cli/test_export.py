"""``turngate export``: a Hugging Face folder that stands alone, and a card that says what was done."""

import json
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from tests.cli.small_run import write_config
from tests.helpers import models
from tests.helpers.command_line import turngate
from tests.helpers.rounding import PASS, assert_alike
from turngate.run.assembly.models import stop_at
from turngate.trainer.evaluation.evaluations_file import read_evaluations

STEPS = 2
ADAPTERS = """
[learner]
lr = 1e-2
lora = {rank = 4, alpha = 8}

[credit]
type = "tests.helpers.thinking_lock:alternating"
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run ``runs/lock``, and its export in ``out``."""
    folder = tmp_path_factory.mktemp("exported")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert turngate("train", write_config(folder, steps=STEPS)) == 0
        assert turngate("export", "runs/lock", "out") == 0
    return folder


@pytest.fixture(scope="module")
def adapted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for a run with adapters: its whole model in ``whole``, its adapter alone in ``adapter``."""
    folder = tmp_path_factory.mktemp("adapted")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert turngate("train", write_config(folder, steps=STEPS, after=ADAPTERS), "--train.filters=[]") == 0
        for options in (["whole"], ["adapter", "--adapter"]):
            assert turngate("export", "runs/lock", *options) == 0
    return folder


def logits(folder: Path, adapter: Path | None = None) -> torch.Tensor:
    model = AutoModelForCausalLM.from_pretrained(folder)
    if adapter is not None:
        model, folder = PeftModel.from_pretrained(model, adapter), adapter
    tokenizer = AutoTokenizer.from_pretrained(folder)
    chat = [{"role": "user", "content": "Open the lock: click red"}]
    shown = tokenizer.apply_chat_template(chat, return_tensors="pt", add_generation_prompt=True, return_dict=True)
    with torch.no_grad():
        return model(**shown).logits


def test_transformers_alone_loads_it_with_equal_logits(here: Path):
    assert torch.equal(logits(here / "out"), logits(here / "runs/lock/model"))
    settings = GenerationConfig.from_pretrained(here / "out")
    tokenizer = AutoTokenizer.from_pretrained(here / "out")
    assert settings.eos_token_id == tokenizer.convert_tokens_to_ids("<|end|>")


def test_every_token_that_ends_a_turn_stops_generate(here: Path):
    model = models.plain_model()
    stop_at(model, models.tokenizer(), {7, 3})
    assert (model.generation_config.eos_token_id, model.generation_config.pad_token_id) == ([3, 7], 0)


def test_eval_and_train_take_the_folder_as_a_model(here: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(here)
    options = ("--env", "turngate/Lock-v1", "--tasks", 4, "--turn-tokens", 8, "--context", 256)
    assert turngate("eval", "out", *options, "--out", "kept") == 0
    text = write_config(here, steps=1).read_text()
    before, _, after = text.partition("[model]")
    _, _, after = after.partition("[policy]")
    (here / "further.toml").write_text(f'model = "out"\n{before.replace("lock", "further", 1)}[policy]{after}')
    assert turngate("train", "further.toml") == 0
    ((_, one),) = read_evaluations(here / "kept")
    further = {e.temperature: e for phase, e in read_evaluations(here / "runs/further") if phase == "before"}
    assert one.episodes == further[1.0].episodes == 4


def test_the_card_states_where_it_comes_from_and_what_it_reaches(here: Path):
    card = (here / "out/README.md").read_text()
    assert card.startswith("---\nlibrary_name: transformers\n")
    for line in (
        "| base model | random weights (Qwen3's architecture, layers = 1, width = 32) |",
        "| environment 'turngate/Lock-v1' | turngate/Lock-v1, split 'train' of its own tasks |",
        "| demonstrations | 24 tasks solved by the environment's own solution, passes: 1 |",
        f"| steps | {STEPS} of {STEPS}, each 3 tasks × 4 episodes |",
        "| credit rule | grpo |",
        "| opened | outcome | 1 once | from_evidence | opened |",
        "1. `needs_outcome(0.5)`: needs_outcome (at_least = 0.5)",
        "The run has no controls and no supervised baselines.",
        "One run with seed 0",
    ):
        assert line in card, card
    rows = [line for line in card.splitlines() if line.startswith("| heldout")]
    assert [[cell.strip() for cell in row.split("|")[2:4]] for row in rows] == [
        ["1", "before"],
        ["1", "after"],
        ["greedy", "before"],
        ["greedy", "after"],
    ]
    summary = (here / "runs/lock/report/summary.md").read_text()
    assert all(row in summary for row in rows), "the card and the report say the same"


@pytest.mark.parametrize(
    ("run", "out", "said"),
    [
        ("runs/lock", "out", "'out' exists already, and nothing is overwritten; name another folder"),
        ("kept", "more", "'kept' is an evaluation, which has no model of its own"),
        ("begun", "more", "'begun' has no trained model, because it is not complete"),
        ("nothing", "more", "'nothing' is not the folder of a run"),
    ],
)
def test_what_cannot_be_exported_is_told(
    run: str, out: str, said: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(here)
    for name in ("kept", "begun"):
        (here / name).mkdir(exist_ok=True)
        (here / name / "config.toml").write_text((here / "runs/lock/config.toml").read_text())
    (here / "kept/result.json").write_text("{}")
    assert turngate("export", run, out) == 2
    assert said in capsys.readouterr().err
    assert not (here / "more").exists()


def test_an_adapter_alone_and_its_base_are_the_whole_model(adapted: Path):
    settings = json.loads((adapted / "adapter/adapter_config.json").read_text())
    base = Path(settings["base_model_name_or_path"])
    assert base == adapted / "runs/lock/warm_start"
    assert (settings["r"], settings["lora_alpha"]) == (4, 8)
    whole = logits(adapted / "whole")
    assert_alike(logits(base, adapted / "adapter"), whole, PASS)
    assert (logits(base) - whole).abs().max() > 1e-3
    trained = AutoTokenizer.from_pretrained(adapted / "adapter")
    assert trained.chat_template == AutoTokenizer.from_pretrained(adapted / "whole").chat_template
    ends = [GenerationConfig.from_pretrained(adapted / name).eos_token_id for name in ("adapter", "whole")]
    assert ends[0] == ends[1] == trained.convert_tokens_to_ids("<|end|>")
    assert not list((adapted / "adapter").glob("model*"))


def test_the_card_of_an_adapter_says_of_which_model_it_is(adapted: Path):
    card, whole = ((adapted / name / "README.md").read_text() for name in ("adapter", "whole"))
    assert card.startswith("---\nlibrary_name: peft\n")
    assert "tags: [turngate, agent, tool-use, lora]" in card
    assert (
        "This folder holds an adapter (LoRA) and not a whole model: it is added to the local model `lock/warm_start`"
        in card
    )
    assert 'from_pretrained("lock/warm_start", dtype="float32")' in card
    assert card.partition("## Training")[2] == whole.partition("## Training")[2], (
        "data, rubric and results are the same"
    )


def test_a_run_without_adapters_has_none_to_export(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(here)
    assert turngate("export", "runs/lock", "more", "--adapter") == 2
    assert "there is no 'runs/lock/adapter', because the run was trained without adapters" in capsys.readouterr().err
    assert not (here / "more").exists()
