"""What commands print fits into a terminal of 80 columns and loses nothing there: as many letters as in a pipe."""

import io
import re
from collections import Counter
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.cli.small_run import write_config
from tests.helpers.command_line import turngate
from turngate.store import Store

COLUMNS = 80


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("width")
    config = write_config(folder, steps=1, before='controls = ["random_reward"]\n')
    assert turngate("train", config, f"--folder={folder}", '--eval.splits=["heldout", "train"]') == 0
    return folder / "lock"


def said(arguments: list[object], monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> list[str]:
    """The lines that a command prints, on a terminal of 80 columns or in a pipe."""
    out = io.StringIO()
    console = Console(file=out, width=COLUMNS, force_terminal=terminal, color_system=None, soft_wrap=not terminal)
    monkeypatch.setattr("turngate.cli.consoles.output", lambda: console)
    assert turngate(*arguments) == 0
    return left_of(out.getvalue())


def left_of(text: str) -> list[str]:
    """The lines that a terminal shows in the end: a bar that was drawn over and removed is not among them."""
    lines, row, column = [""], 0, 0
    for piece in re.split(r"(\r|\n|\x1b\[[0-9?]*[A-Za-z])", text):
        if piece in ("\r", "\n"):
            row, column = row + (piece == "\n"), 0
            lines += [""] * (row + 1 - len(lines))
        elif piece == "\x1b[1A":
            row -= 1
        elif piece == "\x1b[2K":
            lines[row] = ""
        elif not piece.startswith("\x1b"):
            assert cell_len(piece) <= COLUMNS or not re.search("[━╸╺]", piece), f"the bar is too wide: {piece}"
            lines[row] = lines[row][:column].ljust(column) + piece + lines[row][column + len(piece) :]
            column += len(piece)
    return lines[:-1] if not lines[-1] else lines


@pytest.mark.parametrize(
    "command",
    [
        ("report", "{run}"),
        ("show", "{run}"),
        ("credit", "{run}", "--method", "gigpo", "--top", 5),
        ("rescore", "{run}", "--rubric", "lock", "--write", "{new}"),
        ("envs",),
        ("explain", "credit"),
        ("explain", "eval"),
        ("show", "{run}", "--trajectory", "{trajectory}"),
        ("eval", "{run}/model", "--env", "turngate/Lock-v1", "--tasks", 3, "--turn-tokens", 8, "--out", "{out}"),
    ],
    ids=lambda command: command[0],
)
def test_no_line_is_wider_and_nothing_is_lost(
    command: tuple[object, ...], run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trajectory = next(Store(run).read(1, "train")).trajectories[0].id
    printed = {}
    for terminal in (True, False):
        known = {"run": run, "trajectory": trajectory, "out": tmp_path / str(terminal), "new": int(terminal)}
        arguments = [str(word).format(**known) for word in command]
        printed[terminal] = said(arguments, monkeypatch, terminal=terminal)
    # A path is not folded, so that it can be copied.
    folders = (str(run.parent), str(tmp_path))
    for line in printed[True]:
        assert cell_len(line) <= COLUMNS or any(name in line for name in folders), line
    whole, folded = (
        Counter(
            char
            for line in printed[terminal]
            if not any(name in line for name in folders)
            for char in line
            if char not in " ─"
        )
        for terminal in (False, True)
    )
    assert folded == whole
