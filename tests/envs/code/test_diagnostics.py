import json
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.envs.code.diagnostics import Diagnoser, alias, audible
from turngate.envs.reaper import processes_below
from turngate.errors import ConfigError, EnvError, MissingExtra, UnknownName
from turngate.rewards.outcome.code import diagnostics_reward

pytestmark = pytest.mark.component

NONE = {"error": 0, "warning": 0, "information": 0, "hint": 0}
WRONG_CALL = "def half(x: int) -> float:\n    return x / 2\n\n\nprint(half('a'))\n"


@pytest.fixture(scope="module")
def shared():
    with Diagnoser(deadline_s=60) as diagnoser:
        yield diagnoser


def codes(diagnoser: Diagnoser, text: str, path: str = "a.py"):
    return diagnoser.measure({path: text}).by_code


def pids(diagnoser: Diagnoser) -> dict[str, int]:
    return {name: client._process.pid for name, client in diagnoser._clients.items()}


def stop(pid: int) -> None:
    """Stop a process and wait until all of its threads stand still."""
    os.kill(pid, signal.SIGSTOP)
    tasks = Path(f"/proc/{pid}/task")
    while any(stat.read_text().rpartition(")")[2].split()[0] != "T" for stat in tasks.glob("*/stat")):
        time.sleep(0.01)


# --- what is found -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "ruff", "ty"),
    [
        ("", {}, {}),
        ("print('fine')\n", {}, {}),
        ("print(unknown)\n", {"F821": 1}, {"unresolved-reference": 1}),
        ("import os\n", {"F401": 1}, {}),
        ("\ufeffimport os\r\n", {"F401": 1}, {}),
        (WRONG_CALL, {}, {"invalid-argument-type": 1}),
        ("def f(x=[]):\n    return x\n", {"B006": 1}, {}),
        ("import not_here\nfrom . import sibling\nprint(not_here.a + sibling.b)\n", {}, {}),
    ],
)
def test_the_rules(shared, text, ruff, ty):
    assert codes(shared, text) == {"ruff": ruff, "ty": ty}


def test_a_syntax_error_is_an_error(shared):
    found = shared.measure({"a.py": "print('a'\n"})
    assert found.by_severity == {"ruff": {**NONE, "error": 1}, "ty": {**NONE, "error": 1}}
    assert found.by_code == {"ruff": {"invalid-syntax": 1}, "ty": {"invalid-syntax": 1}}


def test_counts_and_weights(shared):
    found = shared.measure({"b.py": "import os\nprint(unknown)\n", "a.py": "print(unknown)\nprint(other)\n"})
    assert found.by_severity == {"ruff": {**NONE, "error": 3, "warning": 1}, "ty": {**NONE, "error": 3}}
    assert found.by_code == {"ruff": {"F401": 1, "F821": 3}, "ty": {"unresolved-reference": 3}}
    assert found.weighted() == 6.5
    assert found.weighted({"error": 0.0, "warning": 3.0, "information": 0.0, "hint": 0.0}) == 3.0
    assert json.loads(json.dumps(found.to_json())) == {
        "weighted": 6.5,
        "by_severity": {"ruff": {**NONE, "error": 3, "warning": 1}, "ty": {**NONE, "error": 3}},
        "by_code": {"ruff": {"F401": 1, "F821": 3}, "ty": {"unresolved-reference": 3}},
        "skipped": {},
    }


def test_a_repair_lowers_the_weighted_number(shared):
    before = shared.measure({"a.py": WRONG_CALL}).weighted()
    after = shared.measure({"a.py": WRONG_CALL.replace("'a'", "1")}).weighted()
    assert (before, after) == (1.0, 0.0)
    assert diagnostics_reward(before, after, safe=True, confidence=1.0) == 0.5


def test_a_version_of_python(shared):
    newer = "type Pair = tuple[int, int]\n"
    with Diagnoser(deadline_s=60, python_version="3.11") as old, Diagnoser(deadline_s=60, python_version="3.12") as new:
        assert codes(old, newer) == {"ruff": {"invalid-syntax": 1}, "ty": {"invalid-syntax": 1}}
        assert codes(new, newer) == {"ruff": {}, "ty": {}}


def test_settings_that_a_server_refuses_are_an_error_and_not_its_defaults():
    for server, says in (("ruff", "are invalid"), ("ty", "unknown variant `3.99`")):
        with (
            Diagnoser([server], python_version="3.99", deadline_s=60) as diagnoser,
            pytest.raises(EnvError, match=says),
        ):
            diagnoser.measure({"a.py": ""})


# --- one server only, other files ----------------------------------------------------------------------------------


def test_one_server():
    with Diagnoser(["ruff"], deadline_s=60) as diagnoser:
        assert diagnoser.measure({"a.py": "import os\n"}).by_severity == {"ruff": {**NONE, "warning": 1}}
        assert list(pids(diagnoser)) == ["ruff"]


def test_what_is_not_python_does_not_count(shared):
    found = shared.measure({"a.txt": "import os\n", "py": "import os\n", "gone.py": None, "b.pyi": "import os\n"})
    assert found.by_code == {"ruff": {"F401": 1}, "ty": {}}
    assert found.skipped == {}


def test_what_cannot_be_read_is_named_and_leaves_the_weight_unknown(shared):
    found = shared.measure(
        {
            "binary.py": b"\0\1",
            "big.py": "#" * 1_000_001,
            "latin.py": "# é\n".encode("latin-1"),
            "lone.py": "# \udc80",
            "fits.py": "#" * 1_000_000,
            "bytes.py": b"import os\n",
        }
    )
    assert list(found.skipped.items()) == [
        ("big.py", "above 1000000 bytes"),
        ("binary.py", "binary"),
        ("latin.py", "not UTF-8"),
        ("lone.py", "not UTF-8"),
    ]
    assert found.by_code["ruff"] == {"F401": 1}
    assert found.weighted() is None
    assert found.to_json()["weighted"] is None


# --- nothing of the agent decides ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "import os  # noqa\nprint(half)  # type: ignore\n",
        "import os  # noqa: F401\nprint(half)  # ty: ignore[unresolved-reference]\n",
        "# ruff: noqa\n# type: ignore\nimport os\nprint(half)  # NoQA # TYPE:IGNORE # type:ignore\n",
        "# flake8: noqa\n# ty: ignore[unresolved-reference]\nimport os\nprint(half)\n",
        "# ruff: disable[F401, F821]\nimport os\nprint(half)\n# ruff: enable[F401, F821]\n",
        "# ruff: file-ignore[F401, F821]\n# ruff: ignore[F401]\nimport os\nprint(half)  # ruff: ignore[F821]\n",
        "# /// script\n# [tool.ty.rules]\n# unresolved-reference = 'ignore'\n# ///\nimport os\nprint(half)\n",
        "x = '''\n'''; print(half)  # noqa: F821 # type: ignore\nimport os; print('# a') # noqa\n",
    ],
)
def test_a_comment_silences_nothing(shared, text):
    found = shared.measure({"a.py": text}).by_code
    assert (found["ruff"]["F401"], found["ruff"]["F821"], found["ty"]["unresolved-reference"]) == (1, 1, 1)


@pytest.mark.parametrize("path", ["venv/a.py", "build/.git/a.py", "../a.py", "a b?#%/\n.py", "random.py", "test_a.py"])
def test_a_path_hides_nothing(shared, path):
    text = f"import random\nprint(unknown, random.random())  # {path!r}\n"
    assert codes(shared, text, path) == {"ruff": {"F821": 1}, "ty": {"unresolved-reference": 1}}


def test_installed_packages_are_not_seen(shared):
    assert codes(shared, "import numpy\nprint(numpy.not_there)\n") == {"ruff": {}, "ty": {}}


def test_settings_of_folders_above_are_not_read(tmp_path, monkeypatch):
    (tmp_path / "ruff.toml").write_text("lint.select = []\nexclude = ['*']\n")
    (tmp_path / "ty.toml").write_text("[rules]\nall = 'ignore'\n[src]\nexclude = ['**']\n")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Diagnoser(deadline_s=60) as diagnoser:
        assert codes(diagnoser, "print(unknown)\n") == {"ruff": {"F821": 1}, "ty": {"unresolved-reference": 1}}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ruff.toml", "ty.toml"]


def test_a_file_is_measured_as_if_it_were_alone(shared):
    files = {"a.py": "def f(x: int): ...\n", "b.py": "from a import f\nf('a')\nprint(unknown)\n", "c.py": WRONG_CALL}
    alone = [shared.measure({path: text}).weighted() for path, text in files.items()]
    assert alone == [0.0, 2.0, 1.0]
    assert shared.measure(files).weighted() == 3.0


@pytest.mark.parametrize(
    ("path", "name"),
    [("a/b.py", "module.py"), ("a.b/c.d.pyi", "module.pyi"), ("a/__init__.py", "__init__.py"), (".py", "module.py")],
)
def test_alias(path, name):
    assert alias(path) == name


@settings(max_examples=60)
@given(st.text(alphabet="#noqa: tyeigr/\n\r'x", max_size=60))
def test_audible_keeps_code_and_lines(text):
    heard = audible(text)
    lines, heard_lines = text.splitlines(), heard.splitlines()
    assert len(heard) == len(text)
    assert [line.split("#")[0] for line in heard_lines] == [line.split("#")[0] for line in lines]
    assert not any("noqa" in line.partition("#")[2] for line in heard_lines)


def test_audible_changes_only_what_silences():
    assert audible("x = a  # noqa: F401, ok\nnoqa = b  # why: because\n") == (
        "x = a  # ____: F401, ok\nnoqa = b  # why: because\n"
    )


# --- servers come and go -------------------------------------------------------------------------------------------


def test_an_unchanged_text_is_not_asked_about_again():
    with Diagnoser(deadline_s=60) as diagnoser:
        first = diagnoser.measure({"a.py": "import os\n"})
        for pid in pids(diagnoser).values():
            os.kill(pid, signal.SIGKILL)
        assert diagnoser.measure({"a.py": "import os\n"}) == first
        assert diagnoser.measure({"other/name.py": "import os\n"}) == first
        with pytest.raises(EnvError, match="ended; exit status -9"):
            diagnoser.measure({"a.py": "import sys\n"})


def test_only_so_many_texts_are_remembered(monkeypatch):
    monkeypatch.setattr("turngate.envs.code.diagnostics.REMEMBERED", 2)
    with Diagnoser(["ruff"], deadline_s=60) as diagnoser:
        for text in ("a = 1\n", "b = 1\n", "a = 1\n", "c = 1\n"):
            diagnoser.measure({"a.py": text})
        os.kill(pids(diagnoser)["ruff"], signal.SIGKILL)
        diagnoser.measure({"a.py": "a = 1\n", "b.py": "c = 1\n"})
        with pytest.raises(EnvError):
            diagnoser.measure({"a.py": "b = 1\n"})


def test_a_dead_server_is_an_error_once_and_then_started_anew():
    with Diagnoser(deadline_s=60) as diagnoser:
        diagnoser.measure({"a.py": ""})
        os.kill(pids(diagnoser)["ty"], signal.SIGKILL)
        with pytest.raises(EnvError, match="'ty server' ended; exit status -9"):
            diagnoser.measure({"a.py": "print(unknown)\n"})
        assert codes(diagnoser, "print(unknown)\n") == {"ruff": {"F821": 1}, "ty": {"unresolved-reference": 1}}


def test_a_server_that_does_not_answer_is_an_error():
    with Diagnoser(deadline_s=60) as diagnoser:
        diagnoser.measure({"a.py": ""})
        diagnoser._deadline_s = 0.2
        ruff = pids(diagnoser)["ruff"]
        stop(ruff)
        with pytest.raises(EnvError, match="'ruff server' did not answer in time"):
            diagnoser.measure({"a.py": "import os\n"})
        assert ruff not in processes_below(os.getpid())


def servers():
    """Language servers below this process; spare sandboxes of other tests come and go as they like."""
    found = set()
    for pid in processes_below(os.getpid()):
        with suppress(OSError):
            if Path(os.readlink(f"/proc/{pid}/exe")).name in ("ruff", "ty"):
                found.add(pid)
    return found


def test_nothing_is_left_after_close(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = servers(), threading.active_count(), len(os.listdir("/proc/self/fd"))
    with Diagnoser(deadline_s=60) as diagnoser:
        diagnoser.measure({"a.py": "import os\n"})
        assert threading.active_count() == before[1]
        assert servers() > before[0]
        open_files = len(os.listdir("/proc/self/fd"))
        for i in range(50):
            diagnoser.measure({"a.py": f"import os{i}\n"})
        assert len(os.listdir("/proc/self/fd")) == open_files
    diagnoser.close()
    after = servers(), threading.active_count(), len(os.listdir("/proc/self/fd"))
    assert after == before
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigError, match="closed"):
        diagnoser.measure({})


def test_threads_share_one(shared):
    texts = [f"print(unknown{i})\n" * (i + 1) for i in range(20)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda text: shared.measure({"a.py": text}).weighted(), texts))
    assert found == [2.0 * (i + 1) for i in range(20)]


# --- construction --------------------------------------------------------------------------------------------------


def test_a_server_that_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingExtra, match=r"'ruff' is not installed.*turngate\[code\]"):
        Diagnoser()
    (tmp_path / "ruff").write_text("")
    (tmp_path / "ruff").chmod(0o755)
    with pytest.raises(MissingExtra, match="'ty' is not installed"):
        Diagnoser()


def test_settings_that_make_no_sense():
    with pytest.raises(UnknownName, match="'rough'; did you mean 'ruff'"):
        Diagnoser(["rough"])
    for wrong in ({"servers": ()}, {"deadline_s": 0}, {"python_version": "3"}):
        with pytest.raises(ConfigError, match="name a server"):
            Diagnoser(**wrong)
