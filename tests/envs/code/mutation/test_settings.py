"""What of a package's own configuration of pytest is kept."""

import pytest

from tests.envs.code.sums import put
from turngate.envs.code.generated.mutation.settings import PytestSettings, settings_of
from turngate.errors import TaskRefused

ADDOPTS = "-m 'not stress' -q --cov=sums --cov-report term -n auto --deselect tests/test_a.py::test_x --runslow -x"
KEPT = ("-m", "not stress", "--deselect", "tests/test_a.py::test_x", "--runslow")
DROPPED = ("--cov=sums", "--cov-report term", "-n auto")
CONFTEST = 'def pytest_addoption(parser):\n    parser.addoption("--runslow", action="store_true")\n'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", '[tool.pytest.ini_options]\naddopts = "{}"\n'),
        ("pyproject.toml", "[tool.pytest]\naddopts = ['-m', 'not stress', {}]\n"),
        ("pytest.toml", '[pytest]\naddopts = "{}"\n'),
        ("pytest.ini", "[pytest]\naddopts = {}\n"),
        (".pytest.ini", "[pytest]\naddopts =\n    {}\n"),
        ("tox.ini", "[tox]\na = %(b)s\n[pytest]\naddopts = {}\n"),
        ("setup.cfg", "[metadata]\nname = a\n[tool:pytest]\naddopts = {}\n"),
    ],
)
def test_what_decides_which_tests_run_is_kept_wherever_it_stands(tmp_path, name, text):
    listed = ", ".join(repr(word) for word in ADDOPTS.partition("' ")[2].split())
    content = text.format(listed if "[" in text.partition("addopts")[2] else ADDOPTS)
    found = settings_of(put(tmp_path, {name: content, "tests/conftest.py": CONFTEST}))
    assert (found.file, found.options, found.dropped) == (name, KEPT, DROPPED)


@pytest.mark.parametrize(
    ("addopts", "kept", "dropped", "ignored"),
    [
        ("", (), (), ()),
        ("-mslow -k=a -Werror", ("-mslow", "-k=a", "-Werror"), (), ()),
        ("-m=fast --deselect=a.py::b -s", ("-m=fast", "--deselect=a.py::b", "-s"), (), ()),
        ("-p no:randomly -p pytest_cov -pno:xdist", ("-p", "no:randomly", "-pno:xdist"), ("-p pytest_cov",), ()),
        ("-ra -vv --tb=short --tb long --durations 3 -l --maxfail=2 --color yes", (), (), ()),
        ("--strict-markers --strict-config --junitxml=out.xml", (), (), ()),
        ("--ignore=a/b --ignore ./c/ --ignore-glob=*d.py", (), (), ("a/b", "c", "*d.py")),
        ("--doctest-modules --benchmark-skip tests", (), ("--doctest-modules", "--benchmark-skip", "tests"), ()),
        ("--runslow", (), ("--runslow",), ()),
    ],
)
def test_options(tmp_path, addopts, kept, dropped, ignored):
    (tmp_path / "tests").mkdir()
    found = settings_of(put(tmp_path, {"pytest.ini": f"[pytest]\naddopts = {addopts}\n"}))
    options = tuple(word for word in found.options if "ignore::pytest" not in word)[: len(kept)]
    assert (options, found.dropped, found.ignored) == (kept, dropped, ignored)


def test_what_fails_for_a_plugin_that_is_not_there_is_switched_off(tmp_path):
    text = "[pytest]\nstrict_markers = true\nrequired_plugins = pytest-cov>=4\nfilterwarnings =\n    error\n"
    found = settings_of(put(tmp_path, {"pytest.ini": text}))
    assert found.options[:4] == ("-o", "strict_markers=false", "-o", "required_plugins=")
    assert found.options[5::2] == ("ignore::pytest.PytestConfigWarning", "ignore::pytest.PytestUnknownMarkWarning")
    assert found.dropped == ("required_plugins = pytest-cov>=4",)


def test_the_first_file_with_a_section_counts(tmp_path):
    assert settings_of(tmp_path) == PytestSettings()
    put(tmp_path, {"setup.cfg": "[tool:pytest]\ntestpaths = a\n", "tox.ini": "[tox]\n", "pyproject.toml": "[tool.x]\n"})
    (tmp_path / "a").mkdir()
    assert (settings_of(tmp_path).file, settings_of(tmp_path).testpaths) == ("setup.cfg", ("a",))
    put(tmp_path, {"pytest.ini": ""})
    assert (settings_of(tmp_path).file, settings_of(tmp_path).testpaths) == ("pytest.ini", ())


def test_which_files_hold_tests():
    found = PytestSettings(
        testpaths=("tests", "more/*"), norecursedirs=("data", "tests/old"), ignored=("tests/test_b.py",)
    )
    names = ["tests/test_a.py", "tests/a/b/c_test.py", "more/x/test_a.py"]
    others = ["test_a.py", "tests/helper.py", "tests/data/test_a.py", "tests/old/test_a.py", "tests/test_b.py"]
    assert [name for name in [*names, *others] if found.has_test(name)] == names
    assert PytestSettings(python_files=("check_*.py",)).has_test("tests/check_a.py")
    assert not PytestSettings(python_files=("check_*.py",)).has_test("tests/test_a.py")


@pytest.mark.parametrize(
    ("name", "text"),
    [("pytest.ini", "addopts = -q\n"), ("pytest.ini", "[pytest]\naddopts = 'a\n"), ("pyproject.toml", "x = ")],
)
def test_one_that_cannot_be_read(tmp_path, name, text):
    with pytest.raises(TaskRefused, match=rf"its configuration '{name}' cannot be read"):
        settings_of(put(tmp_path, {name: text}))
