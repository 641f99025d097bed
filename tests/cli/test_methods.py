"""``turngate methods``, and a run with a method."""

import re
from pathlib import Path

import pytest

from tests.helpers.command_line import turngate
from turngate.methods.overlay import KINDS


def test_all_methods_are_listed_by_kind_and_filtered_by_word_and_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert turngate("methods") == 0
    shown = capsys.readouterr().out
    assert re.findall(r"^(\w+): ", shown, re.MULTILINE) == list(KINDS)
    assert re.search(r"^  gigpo +To GRPO of whole episodes", shown, re.MULTILINE)
    assert turngate("methods", "entropy") == 0
    by_word = capsys.readouterr().out
    assert "siren" in by_word
    assert "gigpo" not in by_word
    assert turngate("methods", "--kind", "trees") == 0
    assert re.findall(r"^(\w+): ", capsys.readouterr().out, re.MULTILINE) == ["trees"]


def test_one_method_is_shown_with_paper_equation_what_is_left_out_and_settings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert turngate("methods", "r3l") == 0
    shown = capsys.readouterr().out
    assert "r3l: R3L (guidance)" in shown
    for part in ("Reflect-then-Retry", "(2026)", "2601.03715", "amplify · (R − mean)", "guide = r3l, credit = r3l"):
        assert part in shown
    assert re.search(r"left out:\n    Learning from good reflections", shown)
    assert '[guide]\ntype = "r3l"' in shown
    assert "[method]" not in shown


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("gigpoo",), "unknown method, and no method holds the word, 'gigpoo'; did you mean 'gigpo'"),
        (("--kind", "tree"), "unknown kind of method 'tree'; did you mean 'trees'"),
        (("gigpo", "--kind", "credit"), "--kind has no effect with the name of a method"),
        (("gigpo", "--markdown"), "--markdown prints every method"),
        (("none.toml",), "cannot be read"),
    ],
)
def test_what_there_is_not_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], problem: str
) -> None:
    assert turngate("methods", *arguments) == 2
    assert problem in capsys.readouterr().err


CONFIG = """
folder = "runs"
[env]
id = "turngate/Lock-v1"
[model]
layers = 1
width = 16
heads = 2
vocabulary = 300
[warm_start]
episodes = 8
[policy]
turn_tokens = 8
context = 256
[train]
steps = 1
"""


def test_an_environment_that_lacks_what_a_method_needs_is_refused_by_the_method_s_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found out before any work: no hints, no forks in one of two environments, nothing that records a fact."""
    monkeypatch.chdir(tmp_path)
    Path("my.toml").write_text(CONFIG)
    assert turngate("train", "my.toml", "--method", "rlvmr") == 2
    assert "method 'rlvmr', which needs the tag of each turn" in capsys.readouterr().err
    assert turngate("train", "my.toml", "--method", "router_r1") == 2
    assert "method 'router_r1', which needs turngate/Router-v1, does not fit" in capsys.readouterr().err
    assert turngate("train", "my.toml", "--method", "her") == 2
    assert "method 'her', which needs tasks that can be asked for otherwise" in capsys.readouterr().err
    assert not Path("runs").exists()


def test_a_run_says_at_its_start_what_counts_instead_of_the_method_s(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.toml").write_text(CONFIG)
    options = ("--signals.evidence.tag_N=no_such", "--credit.alpha=0.25")
    assert turngate("train", "my.toml", "--method=rlvmr", *options) == 2
    shown = capsys.readouterr().out
    assert "method 'rlvmr': credit.alpha = 0.25 (the method has 0.5)" in shown
