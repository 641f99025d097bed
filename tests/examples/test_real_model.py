"""The demo of a pretrained model: its tasks, and its config on a small model, which no index has to be asked for."""

import json
from pathlib import Path

from transformers import AutoTokenizer

from examples.real_model import stock
from tests.helpers import architectures
from tests.helpers.command_line import turngate
from turngate.config.run_config import load
from turngate.store import Store
from turngate.store.metrics import read_metrics
from turngate.trainer.learner import ADAPTER_LR, TorchLearnerPart

SETTINGS = Path(stock.__file__).parents[1] / "real_model_demo.toml"


def test_the_tasks_are_those_that_the_module_writes_and_no_pair_of_items_is_in_both_splits():
    tasks = [json.loads(line) for line in stock.FILE.read_text().splitlines()]
    assert tasks == list(stock.tasks())
    train, heldout = (
        {frozenset(task["state"]["wanted"]) for task in tasks if task["split"] == split}
        for split in ("train", "heldout")
    )
    assert (len(train), len(heldout), train & heldout) == (49, 17, set())


def test_the_config_trains_adapters_without_a_demonstration(tmp_path, capsys):
    small = architectures.saved("qwen3", tmp_path / "small")
    changes = [f"--model={small}", f"--folder={tmp_path}", "--controls=[]", "--train.steps=1", "--eval.tasks=2"]
    changes += ["--train.tasks_per_step=2", "--train.group_size=2", "--policy.context=3000"]
    config = load(SETTINGS, changes)
    assert (config.warm_start, config.learner.lr) == (None, ADAPTER_LR)
    assert isinstance(config.learner, TorchLearnerPart)
    assert turngate("train", str(SETTINGS), *changes) == 0
    assert "trained: adapters of rank 16, " in capsys.readouterr().out
    run = tmp_path / "real-model-demo"
    assert len(read_metrics(run / "metrics.jsonl")) == 1
    (first, *_) = Store(run).read(1, "train")
    shown = AutoTokenizer.from_pretrained(small).decode(first.trajectories[0].turns[0].context_ids)
    assert shown.count("on the list: nothing") == 3, "solved examples stand before the task"
