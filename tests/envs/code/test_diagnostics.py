import json
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.envs.code.engine import diagnostics
from turngate.envs.code.engine.diagnostics import Diagnoser, alias, audible
from turngate.errors import ConfigError, MissingExtra, UnknownName
from turngate.rewards.outcome.code import diagnostics_reward
from turngate.sandbox.reaper import processes_below

pytestmark = pytest.mark.component

WRONG_CALL = "def half(x: int) -> float:\n    return x / 2\n\n\nprint(half('a'))\n"


@pytest.fixture(scope="module")
def shared():
    return Diagnoser(deadline_s=60)


def rules(diagnoser: Diagnoser, text: str, path: str = "a.py"):
    found = diagnoser.measure({path: text})
    assert found is not None
    return found.by_rule


# --- what is found -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "ruff", "ty", "weighted"),
    [
        ("", {}, {}, 0.0),
        ("print('fine')\n", {}, {}, 0.0),
        ("print(unknown)\n", {"F821": 1}, {"unresolved-reference": 1}, 2.0),
        ("import os\n", {"F401": 1}, {}, 0.5),
        ("\ufeffimport os\r\n", {"F401": 1}, {}, 0.5),
        (WRONG_CALL, {}, {"invalid-argument-type": 1}, 1.0),
        ("def f(x=[]):\n    return x\n", {"B006": 1}, {}, 0.5),
        ("import not_here\nfrom . import sibling\nprint(not_here.a + sibling.b)\n", {}, {}, 0.0),
        ("print('a'\n", {"invalid-syntax": 1}, {"invalid-syntax": 1}, 2.0),
    ],
)
def test_the_rules(shared, text, ruff, ty, weighted):
    found = shared.measure({"a.py": text})
    assert (found.by_rule, found.weighted) == ({"ruff": ruff, "ty": ty}, weighted)


def test_files_add_up_and_only_python_counts(shared):
    files = {"b.py": "import os\nprint(unknown)\n", "a.pyi": "import os\n", "a.txt": "import os\n", "gone.py": None}
    found = shared.measure(files)
    assert found.by_rule == {"ruff": {"F401": 2, "F821": 1}, "ty": {"unresolved-reference": 1}}
    assert json.loads(json.dumps(found.to_json())) == {"weighted": 3.0, "by_rule": found.by_rule}


def test_one_tool():
    assert rules(Diagnoser(["ruff"], deadline_s=60), "import os\n") == {"ruff": {"F401": 1}}


def test_a_repair_lowers_the_weighted_number(shared):
    before = shared.measure({"a.py": WRONG_CALL}).weighted
    after = shared.measure({"a.py": WRONG_CALL.replace("'a'", "1")}).weighted
    assert (before, after) == (1.0, 0.0)
    assert diagnostics_reward(before, after, safe=True, confidence=1.0) == 0.5


# --- what is not known ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["\0", "#" * 1_000_001, "# \udc80"])
def test_what_cannot_be_read_is_not_known(shared, text):
    assert shared.measure({"a.py": text, "b.py": ""}) is None


def test_a_text_that_makes_a_tool_fail_is_not_known(shared):
    assert shared.measure({"a.py": "x = " + "+".join(["1"] * 20_000) + "\n"}) is None
    assert rules(shared, "import os\n")["ruff"] == {"F401": 1}


def program(folder, text):
    folder.mkdir(exist_ok=True)
    path = folder / "ruff"
    path.write_text(f"#!{sys.executable}\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    "text",
    [
        "import time; time.sleep(600)",
        "while True: pass",
        "import os; os.kill(os.getpid(), 9)",
        "raise SystemExit(2)",
        "print('[{')",
        "print('[{}]')",
        "print('{\"a\": 1}')",
        "import os\nwhile True: os.write(1, b'a' * 60000)",
    ],
)
def test_a_tool_that_hangs_dies_or_says_something_else_is_not_known_and_leaves_nothing(tmp_path, monkeypatch, text):
    program(tmp_path / "bin", text)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    (tmp_path / "temp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temp"))
    before = set(processes_below(os.getpid())), threading.active_count(), len(os.listdir("/proc/self/fd"))
    start_s = time.monotonic()
    assert Diagnoser(["ruff"], deadline_s=2).measure({"a.py": ""}) is None
    assert time.monotonic() - start_s < 60
    after = set(processes_below(os.getpid())), threading.active_count(), len(os.listdir("/proc/self/fd"))
    assert after[0] <= before[0]
    assert after[1:] == before[1:]
    assert list((tmp_path / "temp").iterdir()) == []


def test_a_tool_that_writes_without_end_is_ended_long_before_its_deadline(tmp_path, monkeypatch, caplog):
    program(tmp_path / "bin", "import os\nwhile True: os.write(1, b'a' * 60000)")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setattr(diagnostics, "MAX_OUTPUT_BYTES", 1 << 20)
    assert Diagnoser(["ruff"], deadline_s=60).measure({"a.py": ""}) is None
    assert "'ruff' ended with 1: " in caplog.text


# --- nothing of the agent, and nothing of the host, decides ----------------------------------------------------------


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
    found = rules(shared, text)
    assert (found["ruff"]["F401"], found["ruff"]["F821"], found["ty"]["unresolved-reference"]) == (1, 1, 1)


@pytest.mark.parametrize("path", ["venv/a.py", "build/.git/a.py", "../a.py", "a b?#%/\n.py", "random.py", "-h.py"])
def test_a_path_hides_nothing(shared, path):
    text = f"import random\nprint(unknown, random.random())  # {path!r}\n"
    assert rules(shared, text, path) == {"ruff": {"F821": 1}, "ty": {"unresolved-reference": 1}}


def test_installed_packages_are_not_seen(shared):
    assert rules(shared, "import numpy\nprint(numpy.not_there)\n") == {"ruff": {}, "ty": {}}


def test_settings_of_folders_above_and_of_the_user_are_not_read(tmp_path, monkeypatch):
    for folder in (tmp_path, tmp_path / "ruff", tmp_path / "ty"):
        folder.mkdir(exist_ok=True)
        (folder / "ruff.toml").write_text("lint.select = []\nexclude = ['*']\n")
        (folder / "ty.toml").write_text("[rules]\nall = 'ignore'\n[src]\nexclude = ['**']\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("TY_CONFIG_FILE", str(tmp_path / "ty.toml"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = rules(Diagnoser(deadline_s=60), "print(unknown)\n")
    assert found == {"ruff": {"F821": 1}, "ty": {"unresolved-reference": 1}}


def test_a_file_is_measured_as_if_it_were_alone(shared):
    files = {"a.py": "def f(x: int): ...\n", "b.py": "from a import f\nf('a')\nprint(unknown)\n", "c.py": WRONG_CALL}
    assert [shared.measure({path: text}).weighted for path, text in files.items()] == [0.0, 2.0, 1.0]
    assert shared.measure(files).weighted == 3.0


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


# --- each text once -------------------------------------------------------------------------------------------------


def test_an_unchanged_text_is_not_measured_again(monkeypatch):
    diagnoser = Diagnoser(deadline_s=60)
    first = diagnoser.measure({"a.py": "import os\n"})
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: pytest.fail("a tool was started"))
    assert diagnoser.measure({"a.py": "import os\n"}) == first
    assert diagnoser.measure({"other/name.py": "import os\n"}) == first


def test_threads_share_one(shared):
    texts = [f"print(unknown{i})\n" * (i + 1) for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda text: shared.measure({"a.py": text}).weighted, texts))
    assert found == [2.0 * (i + 1) for i in range(8)]


# --- construction --------------------------------------------------------------------------------------------------


def test_a_tool_that_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingExtra, match=r"'ruff' is not installed.*turngate\[code\]"):
        Diagnoser()
    program(tmp_path, "")
    with pytest.raises(MissingExtra, match="'ty' is not installed"):
        Diagnoser()


def test_settings_that_make_no_sense():
    with pytest.raises(UnknownName, match="'rough'; did you mean 'ruff'"):
        Diagnoser(["rough"])
    with pytest.raises(ConfigError, match="deadline_s is 0"):
        Diagnoser(deadline_s=0)
