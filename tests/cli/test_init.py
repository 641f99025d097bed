"""``turngate init``: the package that it writes passes its own tests and trains; what cannot be written is one line."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli.small_run import turngate_in
from tests.helpers.command_line import turngate
from turngate.store import Store
from turngate.store.folder import RunFolder


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.chdir(tmp_path)
    assert turngate("init", "my_shop") == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "  cd my_shop",
        "  turngate check my_shop:my_shop/MyShop-v0",
        "  turngate train train.toml",
    ]
    assert [entry.name for entry in tmp_path.iterdir()] == ["my_shop"]
    return tmp_path / "my_shop"


@pytest.mark.slow
def test_what_it_writes_is_tested_checked_played_and_trained(package: Path) -> None:
    def run(*command: str) -> "subprocess.CompletedProcess[str]":
        environ = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2]), "HOME": str(package)}
        words = [sys.executable, "-m", *command]
        return subprocess.run(words, cwd=package, env=environ, capture_output=True, text=True)

    tested = run("pytest", "-q", "-p", "no:cacheprovider")
    assert "2 passed" in tested.stdout, tested.stdout + tested.stderr
    styled = run("ruff", "check", "--isolated", "--select=E,F,I,UP,B", "--line-length=120", ".")
    assert styled.returncode == 0, styled.stdout
    checked = turngate_in(package, "check", "my_shop:my_shop/MyShop-v0")
    assert "0 errors, 0 warnings" in checked.stdout
    played = turngate_in(package, "play", "my_shop:my_shop/MyShop-v0", "--oracle")
    assert "done" in played.stdout
    short = ["--train.steps=2", "--warm_start.epochs=2", "--eval.tasks=6", "--train.group_size=4"]
    turngate_in(package, "train", "train.toml", *short)
    found = RunFolder(package / "runs" / "my_shop")
    assert found.is_complete
    (group, *_) = Store(found.path).read(1)
    assert group.trajectories[0].task.env_id == "my_shop/MyShop-v0"


def test_installed_the_id_alone_names_it(package: Path) -> None:
    """The entry point of pyproject.toml registers the environment."""
    table = tomllib.loads((package / "pyproject.toml").read_text())
    (entry,) = table["project"]["entry-points"]["turngate.envs"].values()
    module, _, function = entry.partition(":")
    program = f"import turngate, {module} as m; m.{function}(); print(turngate.make('my_shop/MyShop-v0').spec.id)"
    done = subprocess.run([sys.executable, "-c", program], cwd=package, capture_output=True, text=True, check=False)
    assert done.stdout == "my_shop/MyShop-v0\n", done.stderr


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("My-Shop", "'My-Shop' is no name for a package: small letters, digits and _, such as my_shop"),
        ("class", "'class' is no name for a package"),
        ("json", "a module named 'json' can be imported already, and would be instead; give another name"),
        ("taken", "/taken' exists already; give another name, or remove it"),
    ],
)
def test_what_cannot_be_written_is_one_line(
    name: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    assert turngate("init", name) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert problem in line
    assert [entry.name for entry in tmp_path.iterdir()] == ["taken"]
