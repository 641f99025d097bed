"""A context without room for an episode is told in a line that names ``policy.context`` and says what is needed."""

import re

import pytest
import tomli_w

from tests.helpers import models
from tests.helpers.command_line import turngate
from turngate.agents import tiny

TABLE = {
    "name": "lock",
    "env": {"id": "turngate/Lock-v1"},
    "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300},
    "warm_start": {"episodes": 8, "epochs": 1, "lr": 5e-3},
    "policy": {"turn_tokens": 8, "concurrency": 4},
    "train": {"steps": 1, "tasks_per_step": 2, "group_size": 2, "filters": []},
    "eval": {"tasks": 2},
}


@pytest.fixture
def train(tmp_path, capsys):
    """Run with a context; the exit code, and the line on stderr."""

    def go(context, **changes):
        table = {**TABLE, **changes, "folder": str(tmp_path / "runs")}
        table["policy"] = {**table["policy"], "context": context}
        path = tmp_path / "lock.toml"
        path.write_text(tomli_w.dumps({key: value for key, value in table.items() if value is not None}))
        return turngate("train", path), capsys.readouterr().err

    return go


def needed(error):
    """What the line says is needed for one turn."""
    found = re.search(
        r"error: policy\.context (\d+) has no room for a turn of 'turngate/Lock-v1': the first prompts of 4 tasks have "
        r"(\d+) to (\d+) tokens, and a turn up to 8 \(policy\.turn_tokens\); set policy\.context to more than (\d+)",
        error,
    )
    assert found, error
    context, least, most, enough = map(int, found.groups())
    assert (least + 8 > context, enough) == (True, most + 8)
    return enough


def test_a_prompt_that_leaves_no_room_for_a_turn_is_told_before_anything_is_played(train, tmp_path):
    code, error = train(16)
    assert (code, error.count("\n")) == (2, 1)
    assert not (tmp_path / "runs" / "lock" / "warm_start").exists()
    enough = needed(error)
    code, error = train(enough)  # one turn fits now, and the demonstrations of a warm start, several turns, do not
    assert code == 1
    assert re.fullmatch(
        rf"RunError: none of 8 demonstrations can be used: 8 of them had no room left in policy\.context {enough}: "
        r"after \d+ tokens the next observation and a turn of up to 8 \(policy\.turn_tokens\) did not fit; raise "
        r"policy\.context\n",
        error,
    )


def test_so_it_is_for_a_model_that_needs_no_warm_start(train, tmp_path):
    tiny.save(models.plain_model(), models.tokenizer(), tmp_path / "model")
    code, error = train(16, model=str(tmp_path / "model"), warm_start=None)
    assert code == 2
    enough = needed(error)
    assert train(enough, model=str(tmp_path / "model"), warm_start=None)[0] == 0


def test_a_run_whose_guide_gives_hints_needs_room_for_them(train):
    _, error = train(16)
    alone = needed(error)
    code, error = train(alone, guide={"type": "ladder"})
    assert code == 2
    assert "the first prompts of 4 tasks with their longest hints have" in error
    found = re.search(r"set policy\.context to more than (\d+)", error)
    assert int(found[1]) > alone
