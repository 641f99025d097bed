"""Looking at a run executes nothing that it names, however it names it, unless the user trusts who made it."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.small_run import turngate_in, write_config
from tests.helpers.command_line import turngate_at
from turngate.store import Store

pytestmark = pytest.mark.timeout(400)
TRAP = """
from pathlib import Path

Path("trap_was_run").touch()
from turngate import Gate


class Trap(Gate):
    @property
    def name(self):
        return "trap"

    def touches(self, name, kind):
        return False

    def apply(self, draft):
        pass
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    write_config(folder, steps=1)
    turngate_in(folder, "train", "lock.toml")
    return folder


@pytest.fixture
def foreign(made: Path, tmp_path: Path) -> Path:
    """A folder with a run that somebody else may have made, and a module that must not be imported."""
    shutil.copytree(made / "runs", tmp_path / "runs")
    (tmp_path / "trap.py").write_text(TRAP)
    return tmp_path


def named_by_machine(run: Path) -> None:
    told = json.loads((run / "machine.json").read_text())
    (run / "machine.json").write_text(json.dumps({**told, "modules": ["trap"]}))


def named_by_a_part(run: Path) -> None:
    text = (run / "config.toml").read_text()
    (run / "config.toml").write_text(text.replace('type = "grpo"', 'type = "trap:Trap"'))


def named_by_the_environment(run: Path) -> None:
    text = (run / "config.toml").read_text()
    (run / "config.toml").write_text(text.replace('id = "turngate/Lock-v1"', 'id = "trap:turngate/Lock-v1"'))


COMMANDS = [
    ("show", "runs/lock", "--trajectory", "{one}"),
    ("report", "runs/lock"),
    ("credit", "runs/lock", "--method", "rloo", "--step", 1),
    ("rescore", "runs/lock", "--rubric", "lock", "--write", "again"),
    ("compare", "runs/lock", "runs/lock", "--phase", "before-heldout-sampled", "--other", "after-heldout-sampled"),
    ("ope", "runs/lock", "--policy", "runs/lock"),
    ("replay", "runs/lock", "--limit", 1),
    ("export", "runs/lock", "exported"),
    ("data", "export", "runs/lock", "--to", "chat"),
]


@pytest.mark.parametrize("names", [named_by_machine, named_by_a_part, named_by_the_environment])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_nothing_that_a_run_names_is_imported(foreign: Path, names, command, capsys) -> None:
    one = next(Store(foreign / "runs/lock").read(1, "train")).trajectories[0].id
    names(foreign / "runs/lock")
    code = turngate_at(foreign, *(str(word).format(one=one) for word in command))
    assert not (foreign / "trap_was_run").exists()
    told = capsys.readouterr().err
    assert "a bug of turngate" not in told
    if code == 2:
        assert "the run names code of 'trap'" in told
        assert "--trust" in told


def test_trusted_code_is_imported(foreign: Path) -> None:
    named_by_machine(foreign / "runs/lock")
    turngate_in(foreign, "report", "runs/lock", "--trust")
    assert (foreign / "trap_was_run").exists()
