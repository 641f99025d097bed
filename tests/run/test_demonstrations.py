"""Demonstrations with hints: the warm start learns them under what the hint says."""

import json
from io import StringIO

import pytest
from rich.console import Console

from turngate.config.run_config import load
from turngate.run.job import Job
from turngate.run.start import warm_start
from turngate.types import Guidance

CONFIG = """
name = "lock"
folder = "{folder}"
model = {{layers = 1, width = 32, heads = 2, vocabulary = 320}}
warm_start = {{demonstrations = "{shown}", epochs = 1}}
policy = {{turn_tokens = 6, context = 200}}
train = {{steps = 0}}
eval = {{tasks = 1}}

[env]
id = "turngate/Lock-v1"
"""


def test_a_warm_start_shows_the_hint_of_a_demonstration(tmp_path, monkeypatch: pytest.MonkeyPatch):
    from turngate.envs.lock import LockTasks, colours_of, key_of

    rows = []
    for index, hint in enumerate(("red takes a", None, "zebra")):
        task = LockTasks().task("train", index)
        row = {"task": task.id, "actions": [f"press {key_of(colour)}" for colour in colours_of(task)]}
        rows.append(row if hint is None else row | {"hint": hint})
    shown, config = tmp_path / "shown.jsonl", tmp_path / "config.toml"
    shown.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config.write_text(CONFIG.format(folder=tmp_path / "runs", shown=shown))
    imitated, corpora = [], []
    imitate, new_model = warm_start.imitate, warm_start.new_model

    def looked_at(passes, **options):
        imitated.extend(passes.demonstrations)
        imitate(passes, **options)

    def with_texts(model, texts, **options):
        corpora.append(texts)
        return new_model(model, texts, **options)

    monkeypatch.setattr(warm_start, "imitate", looked_at)
    monkeypatch.setattr(warm_start, "new_model", with_texts)
    Job(load(config), Console(file=StringIO())).run()
    by_task = {trajectory.task.id: trajectory for trajectory in imitated}
    first, second, third = (by_task[row["task"]] for row in rows)
    assert (first.guidance, second.guidance) == (
        Guidance(kind="shown", level=0, text="red takes a", source="demonstration"),
        None,
    )
    assert third.turns[0].guidance == third.guidance
    lengths = [len(one.turns[0].context_ids) for one in (second, third)]
    assert lengths[1] > lengths[0]  # the hint's tokens are there
    assert "zebra" in corpora[0]  # and the tokenizer knows its words
