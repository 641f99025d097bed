"""A run whose files were damaged: every command that reads it works, or says in one line what is wrong.

The files of a small real run are changed, cut, emptied or removed; then each reading command looks at it, and ``train``
goes on with it.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.cli.small_run import write_config
from tests.fuzz.budget import examples
from tests.helpers.command_line import turngate

COMMANDS = {
    "show": ("show", "RUN"),
    "show_step": ("show", "RUN", "--step=1"),
    "report": ("report", "RUN"),
    "credit": ("credit", "RUN", "--method=grpo"),
    "rescore": ("rescore", "RUN", "--rubric=lock"),
    "compare": ("compare", "RUN", "WHOLE"),
    "ope": ("ope", "RUN", "--policy=RUN/model"),
    "replay": ("replay", "RUN", "--limit=2"),
    "replay_update": ("replay", "RUN", "--update=1"),
    "export": ("export", "RUN", "OUT"),
    "export_chat": ("data", "export", "RUN", "--to=chat", "--out=OUT"),
    "export_atif": ("data", "export", "RUN", "--to=atif", "--out=OUT"),
    "train": ("train", "CONFIG"),
    "doctor": ("doctor", "RUN/model", "turngate/Lock-v1"),
    "evaluate": ("eval", "RUN/model", "--env=turngate/Lock-v1", "--tasks=2", "--turn-tokens=8", "--context=256"),
}

NO_TEXT = ("replace", 0.0, b"\xff\xfe")
FOUND = [
    {"damages": [("overlap.json", NO_TEXT)], "commands": ["export", "train"]},
    {"damages": [("evaluations.jsonl", NO_TEXT)], "commands": ["show", "compare", "train"]},
    {"damages": [("alarms.jsonl", NO_TEXT)], "commands": ["report"]},
    {"damages": [("config.toml", NO_TEXT)], "commands": ["show", "train"]},
    {"damages": [("overlap.json", ("garbage", 0.0, b"7"))], "commands": ["export"]},
]
"""Each was called a bug of turngate."""
FINDS = ("replay", "replay_update", "doctor")
"""Exit code 1 says in a table that what was recorded came about otherwise, or that a run would not begin."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Iterator[Path]:
    """A folder with the run ``runs/lock`` of ``lock.toml``, which is the current one."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert turngate("train", write_config(folder, steps=2)) == 0
        yield folder


def files(run: Path) -> list[str]:
    return sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.is_file())


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def damage(run: Path, name: str, how: str, place: float, piece: bytes) -> None:
    """Change one file. ``place``: where in it, as a share."""
    path = run / name
    match how:
        case "stray":
            path.mkdir(parents=True)
        case "dangling":
            remove(path)
            path.symlink_to("nowhere")
        case "file":
            remove(path)
            path.write_bytes(piece)
    if not path.is_file() or how == "file":
        return
    data = path.read_bytes()
    at = int(place * len(data))
    match how:
        case "remove":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "cut":
            path.write_bytes(data[:at])
        case "replace":
            path.write_bytes(data[:at] + piece + data[at + len(piece) :])
        case "insert":
            path.write_bytes(data[:at] + piece + data[at:])
        case "garbage":
            path.write_bytes(piece * 9)
        case "folder":
            path.unlink()
            path.mkdir()
        case "beside":
            (path.parent / f"{piece[:4].hex()}{path.suffix}").write_bytes(data)


DAMAGES = st.tuples(
    st.sampled_from(["remove", "empty", "cut", "cut", "replace", "replace", "insert", "garbage", "folder", "beside"]),
    st.floats(0, 1),
    st.one_of(
        st.sampled_from(
            [b"\xff\xfe", b"\0" * 8, b"{", b"}", b'"', b"\n", b"null", b"[" * 3000, b"9" * 5000, b"NaN", b"-1"]
        ),
        st.binary(min_size=1, max_size=40),
    ),
)


PLACES = [
    ("checkpoints/step=x", "stray"),
    ("metrics.jsonl", "dangling"),
    ("config.toml", "folder"),
    ("trajectories", "file"),
    ("checkpoints", "file"),
    ("model", "file"),
]
"""Other things where files and folders of a run belong."""


def assert_told(whole: Path, capsys: pytest.CaptureFixture[str], damages: list, commands: list[str]) -> list[int]:
    """Copy the run, damage it, and give it to these commands; their exit codes."""
    codes = list[int]()
    folder = whole / "damaged"
    shutil.rmtree(folder, ignore_errors=True)
    run = folder / "runs" / "lock"
    shutil.copytree(whole / "runs" / "lock", run)
    for name, (how, place, piece) in damages:
        damage(run, name, how, place, piece)
    names = {"RUN": run, "WHOLE": whole / "runs" / "lock", "OUT": folder / "out", "CONFIG": whole / "lock.toml"}
    for command in commands:
        remove(folder / "out")
        words = [
            str(names.get(word, word)).replace("RUN/", f"{run}/").replace("=OUT", f"={folder / 'out'}")
            for word in COMMANDS[command]
        ]
        words += [f"--folder={folder / 'runs'}"] if command == "train" else []
        words += [f"--out={folder / 'out'}"] if command == "evaluate" else []
        capsys.readouterr()
        code = turngate(*words)
        printed = capsys.readouterr().err
        assert code in (0, 1, 2), printed
        assert "a bug of turngate" not in printed, f"{command}: {printed}"
        assert "Traceback" not in printed, f"{command}: {printed}"
        if code and not (code == 1 and command in FINDS):
            *warnings, line = printed.splitlines() or [""]
            assert line.startswith(("error: ", "StoreError: ", "WriteError: ")), f"{command}: {printed}"
            assert len(line) < 3000
            assert len(warnings) < 9, printed
        codes.append(code)
    return codes


@pytest.mark.timeout(1200)
def test_a_damaged_run_is_one_line_of_every_command(whole, capsys):
    run = whole / "runs" / "lock"
    assert assert_told(whole, capsys, [], list(COMMANDS)) == [0] * len(COMMANDS)
    there = files(run)

    @examples(25)
    @given(
        damages=st.lists(st.tuples(st.sampled_from(there), DAMAGES), min_size=1, max_size=2),
        commands=st.lists(st.sampled_from(sorted(COMMANDS)), min_size=3, max_size=3, unique=True),
    )
    def look(damages, commands):
        assert_told(whole, capsys, damages, commands)

    for found in FOUND:
        look = example(**found)(look)
    look()


@pytest.mark.parametrize(("name", "how"), PLACES)
def test_something_else_in_the_place_of_a_file_or_folder_is_one_line_of_every_command(name, how, whole, capsys):
    assert_told(whole, capsys, [(name, (how, 0.0, b"{}"))], list(COMMANDS))
