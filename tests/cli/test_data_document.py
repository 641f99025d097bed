"""The section on data of docs/offline.md, run as it stands: a log of an OpenAI loop to tables, and other readers."""

import contextlib
import io
import json
import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.helpers.command_line import turngate_at
from tests.helpers.random_episodes import random_groups
from turngate.store import Store

DOCUMENT = (Path(__file__).parents[2] / "docs" / "offline.md").read_text().partition("## Data in and out")[2]
DOCUMENT = DOCUMENT.partition("\n## ")[0]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", DOCUMENT, re.DOTALL)


class Message(SimpleNamespace):
    """A reply as the OpenAI client has it."""

    def model_dump(self, *, exclude_none: bool):
        assert exclude_none
        calls = [
            {"id": c.id, "type": "function", "function": {"name": c.function.name, "arguments": c.function.arguments}}
            for c in self.tool_calls or ()
        ]
        told = {"role": "assistant", "content": self.content, "tool_calls": calls or None}
        return {name: value for name, value in told.items() if value is not None}


class Client:
    """It calls with the right numbers or with others, and answers right or wrong, by the number of the episode."""

    def __init__(self) -> None:
        self.episodes = -1
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self.create))

    def create(self, *, model: str, messages: list, tools: list):
        x, y = map(int, re.findall(r"\d+", messages[0]["content"])[:2])
        turn = sum(one["role"] == "assistant" for one in messages)
        self.episodes += turn == 0
        clumsy, wrong = self.episodes % 4 in (1, 2), self.episodes % 4 in (2,) or self.episodes == 7
        if turn == 0 or (turn == 1 and clumsy):
            given = {"x": x, "y": y + (clumsy and turn == 0)}
            function = SimpleNamespace(name="add", arguments=json.dumps(given))
            message = Message(content=None, tool_calls=[SimpleNamespace(id=f"c{turn}", function=function)])
        else:
            message = Message(content=str(x + y + wrong), tool_calls=None)
        return SimpleNamespace(choices=[SimpleNamespace(message=message)])


def test_a_log_of_an_openai_loop_from_file_to_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    exec(blocks("python")[1], {"client": Client()})
    (tmp_path / "steps.toml").write_text(blocks("toml")[0])
    commands = [shlex.split(line, comments=True)[1:] for line in blocks("sh")[1].splitlines()]
    assert [words[0] for words in commands] == ["data", "rescore", "credit", "compare"]
    printed = []
    for words in commands:
        assert turngate_at(tmp_path, *words) == 0
        printed.append(capsys.readouterr().out)
    for shown, told in zip(blocks("text"), printed[2:], strict=True):
        assert shown.strip() in "\n".join(line.rstrip() for line in told.splitlines())
    assert "8 episodes of 2 tasks, 20 turns" in printed[0]
    groups = list(Store(tmp_path / "logs/sums/rescored/steps").read(1))
    assert [score.total for score in groups[0].scores] == pytest.approx([1.25, 1.125, 0.125, 1.25])
    assert "own: credit by grpo, as for a run that names no rule; new: by gigpo" in printed[2]


def test_other_tools_read_a_run_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = Store(tmp_path / "runs/lock")
    groups = [group for group in random_groups(0, groups=6, siblings=4)]
    store.write(1, groups)
    store.write(1, groups[:2], phase="after-heldout-greedy")
    monkeypatch.chdir(tmp_path)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(blocks("python")[0], {})
    assert said.getvalue().count("after-heldout-greedy") == 3
    assert f"num_rows: {6 * 4}" in said.getvalue()


def test_the_table_names_every_format():
    from turngate.cli.data_export import FORMATS
    from turngate.store.formats.sources import READERS

    for name in (*FORMATS, *READERS):
        assert re.search(rf"^\|[^|]*`{name}`", DOCUMENT, re.MULTILINE), name
