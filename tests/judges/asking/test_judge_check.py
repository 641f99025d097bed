"""``turngate judge-check``: the command, its table, and its one-line mistakes."""

import shutil

import pytest
from rich.console import Console

from tests.helpers import tiny_judge
from tests.helpers.command_line import turngate
from tests.helpers.scripted_judge import DOWN
from tests.judges.asking.labelled_rows import ROWS, grader, measure, work, write
from turngate.cli.judge_check import judge_check, judge_named, table
from turngate.errors import ConfigError, DataError
from turngate.judges.asking import ModelJudge, PolicyJudge, ServerJudge
from turngate.judges.asking.parts import folder_version


def printed(result, width=140):
    console = Console(record=True, width=width, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table(result))
    return console.export_text()


def test_the_table_says_it_in_words(tmp_path):
    text = printed(measure(grader, ROWS, tmp_path))
    assert "judge scripted, 1" in text
    for line in ("false positive rate", "false negative rate", "order consistency", "length correlation", "canaries"):
        assert line in text
    assert "33.3% (95 % bound" in text
    marked = [line for line in text.splitlines() if "!" in line and "! =" not in line]
    assert marked == []
    empty = printed(measure(lambda prompt, n: DOWN, ROWS, tmp_path))
    assert "unavailable" in empty
    assert "–" in empty
    assert "!" in next(line for line in empty.splitlines() if "no verdict" in line)


def test_the_table_fits_into_80_columns_with_every_word(tmp_path):
    result = measure(grader, ROWS, tmp_path)
    narrow = printed(result, width=80)
    assert max(map(len, narrow.splitlines())) <= 80
    assert sorted(narrow.split()) == sorted(printed(result).split())


DISTINCT = [work(f"add {n} and {n}", f"the sum of both is {2 * n}", n != 2) for n in range(4)]
TINY = ("--tokens", tiny_judge.TOKENS, "--context", tiny_judge.CONTEXT)


def test_a_real_judge_from_the_command_line(judge_folder, tmp_path, capsys):
    path = write(tmp_path / "rows.jsonl", DISTINCT)
    judge = f"{{type = '{tiny_judge.TinyJudge.__module__}:TinyJudge', model = '{judge_folder}'}}"
    options = ("--judge", judge, *TINY, "--cache", tmp_path / "c.sqlite")
    assert turngate("judge-check", path, *options) == 1
    first = capsys.readouterr().out
    assert "! it said no to all 3 rows labelled yes" in first
    assert f"judge tiny-judge, {folder_version(judge_folder)}" in first
    assert "100.0%" in next(line for line in first.splitlines() if "false negative rate" in line)  # it only says no
    assert "0.0%" in next(line for line in first.splitlines() if "false positive rate" in line)
    assert "60 calls, 0 from cache" in first  # 4 rows, 12 null answers, 40 injections, 4 different shuffled answers
    assert turngate("judge-check", path, *options) == 1
    assert "0 calls, 60 from cache" in capsys.readouterr().out


@pytest.mark.component
def test_a_real_server_from_the_command_line(url, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", "sesame")
    path = write(tmp_path / "rows.jsonl", DISTINCT)
    options = ("--judge", url, "--tokens", tiny_judge.TOKENS, "--version", "7", "--key-variable", "JUDGE_KEY")
    assert turngate("judge-check", path, *options, "--model", "locked") == 1  # it only says no
    output = capsys.readouterr().out
    assert "judge locked, 7" in output
    assert "0.0%" in next(line for line in output.splitlines() if "canaries accepted" in line)
    monkeypatch.delenv("JUDGE_KEY")
    assert turngate("judge-check", path, *options, "--model", "locked") == 2
    assert "answered 401 for model 'locked'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", "line 2: is not JSON"),
        (work("t", "r", "yes"), "line 2, field 'label': "),
        ({"task": "t", "label": True}, "line 2, field 'response': is missing"),
        ({"task": "t", "first": "a", "second": "b", "label": "third"}, "line 2, field 'label': "),
    ],
)
def test_a_bad_row_is_one_line_with_file_line_and_field(tmp_path, capsys, row, message):
    path = write(tmp_path / "rows.jsonl", [ROWS[0], row])
    assert turngate("judge-check", path, "--judge", "http://127.0.0.1:9/v1", "--model", "m") == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {path}, {message}")
    assert error.count("\n") == 1


def test_the_version_of_a_folder_is_that_of_its_contents(judge_folder, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(judge_folder, folder)
    before = folder_version(folder)
    assert before == folder_version(judge_folder)
    (folder / "config.json").write_text((folder / "config.json").read_text() + "\n")
    assert folder_version(folder) != before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--judge", "http://localhost:1/v1"), "name its model"),
        (("--judge", "some/model", "--model", "x"), "--model is for servers"),
        (("--judge", "http://", "--model", "x", "--context", 99), "--judge: unknown key 'context'"),
        (("--judge", "{type = 'servr'}"), "--judge: unknown judge type 'servr'; did you mean 'server'?"),
        (("--judge", "{type = 'model', model = 'x', vote = 2}"), "unknown key 'vote'; did you mean 'votes'?"),
        (
            ("--judge", "{type = 'server', url = 'localhost', model = 'x'}"),
            "'localhost' is not the address of a server",
        ),
        (("--judge", "{type = 'model'"), "is not a TOML inline table"),
    ],
)
def test_mistakes_are_one_line(tmp_path, capsys, options, message):
    assert turngate("judge-check", write(tmp_path / "rows.jsonl", ROWS), *options) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_bad_file_is_told_before_a_model_is_loaded(tmp_path):
    with pytest.raises(DataError, match=r"none\.jsonl"):
        judge_check(Console(), tmp_path / "none.jsonl", ModelJudge(model="no such model"))


@pytest.mark.parametrize(
    ("text", "options", "part"),
    [
        ("http://localhost:1/v1", {"model": "m"}, ServerJudge(url="http://localhost:1/v1", model="m")),
        ("some/model", {"context": 99, "version": ""}, ModelJudge(model="some/model", context=99)),
        (
            '{type = "model", model = "m", attempts = 1}',
            {"version": "2"},
            ModelJudge(model="m", attempts=1, version="2"),
        ),
        ("{type = 'policy'}", {}, PolicyJudge()),
    ],
)
def test_a_judge_is_named_as_in_a_config_or_shorter(text, options, part):
    assert judge_named(text, **options) == part


def test_the_running_policy_runs_in_training_only(tmp_path):
    with pytest.raises(ConfigError, match="needs a running policy"):
        judge_check(Console(), write(tmp_path / "rows.jsonl", ROWS), PolicyJudge())
