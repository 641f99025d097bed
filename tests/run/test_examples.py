"""``policy.examples``: solved episodes before each task, from the config to recorded tokens and to an evaluation."""

import json

import pytest
from rich.console import Console

from tests.helpers.command_line import turngate_at
from turngate.config.run_config import parse
from turngate.errors import ConfigError, DataError
from turngate.run.job import Job
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.types import Source

BASE = {
    "name": "lock",
    "env": {"id": "turngate/Lock-v1", "tasks": {"type": "lock", "dials": 2}},
    "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300},
    "warm_start": {"episodes": 16, "epochs": 1, "episodes_per_batch": 8, "lr": 5e-3},
    "policy": {"turn_tokens": 8, "context": 512, "concurrency": 8, "examples": 2},
    "train": {"steps": 1, "tasks_per_step": 2, "group_size": 2, "filters": []},
    "eval": {"tasks": 2},
    "sink": [],
}


def config(folder, **policy):
    return parse({**BASE, "folder": str(folder), "policy": {**BASE["policy"], **policy}})


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    Job(config(folder), Console(quiet=True)).run()
    return RunFolder(folder / "lock")


def episodes(store, **where):
    return [trajectory for group in store.read(**where) for trajectory in group.trajectories]


def test_every_episode_begins_with_the_same_solved_episodes_which_carry_no_credit(run):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(run.model)
    played = episodes(Store(run.path), step=1, phase="train")
    assert len(played) == 4
    shown = set()
    for trajectory in played:
        first = trajectory.turns[0]
        text = tokenizer.decode(first.context_ids)
        before, _, task = text.rpartition("<|user|>")
        assert task == f"{first.observation.text}<|end|><|assistant|>"
        assert (first.source[: len(first.context_ids)] == Source.CONTEXT).all()
        shown.add(before)
    (before,) = shown
    assert before.count("<|assistant|>press ") == 4  # two episodes of a lock with two dials


def test_an_endless_source_trains_on_tasks_after_those_of_the_examples(run):
    played = {int(one.task.id.rpartition("/")[2]) for one in episodes(Store(run.path), step=1, phase="train")}
    assert min(played) >= 16 + 8  # of the warm start, and twice four that were tried


def test_evaluation_of_the_model_shows_them_too(run, tmp_path):
    asked = ["eval", run.model, "--env=turngate/Lock-v1", "--tasks=2", "--temperature=0", "--turn-tokens=8"]
    lengths = []
    for examples in (0, 1):
        assert turngate_at(tmp_path, *asked, f"--examples={examples}", f"--out=found{examples}") == 0
        store = Store(tmp_path / f"found{examples}")
        (phase,) = store.phases()
        lengths.append([len(one.turns[0].context_ids) for one in episodes(store, phase=phase)])
    assert all(shown > 2 * bare for bare, shown in zip(*lengths, strict=True))


def test_episodes_of_a_file_are_shown_all(tmp_path):
    file = tmp_path / "shown.jsonl"
    rows = [{"task": "lock-2/train/3", "actions": ["press a", "press b"]}]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with pytest.raises(ConfigError, match=r"shown\.jsonl' for 'lock-2/train/3' do not solve that task"):
        Job(config(tmp_path, examples=str(file)), Console(quiet=True)).run()
    for row, problem in (({"task": "lock-2/heldout/0"}, "of split 'heldout'"), ({"hint": "press a"}, "has hints")):
        file.write_text(json.dumps(rows[0] | row))
        with pytest.raises(ConfigError, match=problem):
            Job(config(tmp_path / problem[-5:-1], examples=str(file)), Console(quiet=True)).run()
    file.write_text('{"task": 3}\n')
    with pytest.raises(DataError, match="must be a text"):
        Job(config(tmp_path / "other", examples=str(file)), Console(quiet=True)).run()


def test_a_context_that_the_examples_fill_is_refused_before_the_first_step(tmp_path):
    with pytest.raises(ConfigError, match=r"policy\.context 64 has no room for a turn"):
        Job(config(tmp_path, context=64), Console(quiet=True)).run()
