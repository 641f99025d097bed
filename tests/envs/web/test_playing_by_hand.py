"""``turngate play turngate/Web-v1``: a person reads the accessibility tree, and gets the pictures as files."""

import pytest

from tests.helpers.command_line import turngate

pytestmark = pytest.mark.component
KWARGS = '{%s tasks = {type = "miniwob", pages = ["enter-text"], seeds = 1, held_out = 0}}'


@pytest.fixture
def play(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def go(*lines, kwargs="", options=()):
        written = iter(lines)
        monkeypatch.setattr("turngate.cli.play._ask", lambda console: next(written, ""))
        code = turngate("play", "turngate/Web-v1", "--kwargs", KWARGS % kwargs, *options)
        said = capsys.readouterr()
        return code, said.out, said.err

    return go


def test_the_accessibility_tree_is_shown_each_turn(play, tmp_path):
    code, out, _ = play("fill e3 hat")
    assert code == 0
    before, after = out.split("End the episode with an answer.", 1)
    assert 'button "Submit"' in before
    assert 'button "Submit"' in after
    assert '= "hat"' in after
    assert '= "hat"' not in before
    assert list(tmp_path.iterdir()) == []


def test_screenshots_of_each_turn_are_written_and_named(play, tmp_path):
    for number in (1, 2):  # a second play has a folder of its own
        code, out, _ = play("wait 10", "wait 10", kwargs='screenshot = "marks",')
        assert code == 0
        named = [line.removeprefix("image: ") for line in out.splitlines() if line.startswith("image: ")]
        assert [name.rpartition("/")[2] for name in named] == ["turn_000.png", "turn_001.png", "turn_002.png"]
        assert {name.split("/")[0] for name in named} == {"screenshots"}
        assert all(f"-{number}/" in name for name in named)
        assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in named)
    play("wait 10", kwargs='screenshot = "plain",', options=("--screenshots", "mine"))
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["turn_000.png", "turn_001.png"]


def test_a_folder_for_screenshots_that_nobody_takes_is_an_error(play):
    code, _, error = play("wait 10", options=("--screenshots", "mine"))
    assert code == 2
    assert "--screenshots has no effect" in error
    assert 'screenshot = "plain"' in error
