"""From the source of a package to a task set on disk: what is refused, what is measured, what is written."""

import io
import json
import os
import tarfile
import zipfile
from dataclasses import replace
from random import Random

import pytest
from command_line import turngate

from turngate.envs.code import command
from turngate.envs.code.card import difficulty, source_of
from turngate.envs.code.mutation import harvest as harvesting
from turngate.envs.code.mutation.coverage import Coverage, Function, measure
from turngate.envs.code.mutation.harvest import Spot, draw, harvest, spots_of
from turngate.envs.code.mutation.holdback import hold_back, without
from turngate.envs.code.mutation.measured import Measured, Pristine
from turngate.envs.code.mutation.mutate import Mutation
from turngate.envs.code.mutation.packages import MAX_TREE_BYTES, fetch, open_package, unpack
from turngate.envs.code.problem import Problem
from turngate.envs.code.report import Report
from turngate.envs.code.taskset import problems_of, read, sources_of, split_of, write
from turngate.errors import ConfigError, DataError, TaskRefused

MODULE = '''\
"""Small sums."""


def clamp(x, low, high):
    """The number nearest to x that lies in [low, high]."""
    if x < low:
        return low
    if x > high:
        return high
    return x  # inside


def mean(values):
    total = 0
    for value in values:
        total += value
    return total / len(values)
'''
TESTS = """\
import pytest
from sums.core import clamp, mean


@pytest.mark.parametrize(("x", "expected"), [(-5, 0), (0, 0), (2, 2), (3, 3), (9, 3), (-1, 0)])
def test_clamp(x, expected):
    assert clamp(x, 0, 3) == expected


def test_low_edge():
    assert clamp(1, 2, 3) == 2


# a word about the next one
@pytest.mark.parametrize("x", [7])
def test_high_edge(x):
    assert clamp(x, 2, 3) == 3


def test_inside():
    assert clamp(2, 1, 3) == 2


class TestMean:
    def test_one(self):
        assert mean([4]) == 4

    def test_two(self):
        assert mean([1, 2]) == 1.5

    def test_generator(self):
        assert [mean([x]) for x in (1, 2)] == [1, 2]


def test_that_fails():
    assert mean([1]) == 2
"""
UNUSABLE = "import no_such_module_at_all\n\n\ndef test_a():\n    pass\n"
NETWORK = """\
import urllib.request


def test_network():
    urllib.request.urlopen("http://192.0.2.1/", timeout=5)
"""
INFO = "Metadata-Version: 2.1\nName: sums\nVersion: 1.2\nClassifier: License :: OSI Approved :: MIT License\n"
FILES = {
    "PKG-INFO": INFO,
    "src/sums/__init__.py": "",
    "src/sums/core.py": MODULE,
    "src/sums/latin.py": "# \u00e9\ndef f(a):\n    return a + 1\n".encode("latin-1"),
    "src/sums/table.bin": b"\x00\xff\xfe",
    "tests/test_core.py": TESTS,
    "tests/test_network.py": NETWORK,
    "tests/test_unusable.py": UNUSABLE,
    "setup.py": "import setuptools\n",
    "docs/conf.py": "x = 1\n",
    ".git/HEAD": "ref\n",
    "src/sums/__pycache__/core.pyc": b"old",
}


def put(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    source = put(tmp_path_factory.mktemp("sums"), FILES)
    (source / "link.py").symlink_to("/etc/passwd")
    return open_package(source, tmp_path_factory.mktemp("tree") / "tree")


@pytest.fixture(scope="module")
def coverage(package, bench):
    return measure(package, bench, repetitions=1)


@pytest.fixture(scope="module")
def harvested(package, coverage, bench):
    """Two problems of candidates 0 to 5, each verdict measured once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(harvesting, "ROUND", 3)
        patch.setattr(harvesting, "measure", lambda package, bench, repetitions: coverage)
        return harvest(package, bench, n=2, repetitions=1)


# --- packages ---------------------------------------------------------------------------------------------------------


def test_a_package_is_sorted_into_modules_and_tests(package):
    assert (package.label, package.licence, package.import_paths) == ("sums-1.2", "MIT License", ("src", "."))
    assert package.modules == ("src/sums/__init__.py", "src/sums/core.py", "src/sums/latin.py")
    assert package.tests == ("tests/test_core.py", "tests/test_network.py", "tests/test_unusable.py")
    assert package.requires == ()  # pytest comes with the bench
    kept = {path.relative_to(package.folder).as_posix() for path in package.folder.rglob("*") if path.is_file()}
    assert kept == FILES.keys() - {".git/HEAD", "src/sums/__pycache__/core.pyc"}
    assert (package.folder / "src/sums/table.bin").read_bytes() == b"\x00\xff\xfe"


def test_a_flat_package_with_a_project_file(tmp_path):
    project = '[project]\nname = "flat"\nversion = "3"\nlicense = {text = "BSD"}\n'
    files = {"pyproject.toml": project, "flat.py": MODULE, "test_flat.py": "import flat, hypothesis, pytest\n"}
    package = open_package(put(tmp_path / "a", files), tmp_path / "b")
    assert (package.label, package.licence, package.import_paths) == ("flat-3", "BSD", (".",))
    assert (package.modules, package.tests) == (("flat.py",), ("test_flat.py",))
    assert {"hypothesis", "sortedcontainers"} <= set(package.requires)


def test_what_needs_the_package_itself_is_not_shown(tmp_path):
    files = {"PKG-INFO": "Name: sortedcontainers\n", "a.py": MODULE, "test_a.py": "import a, hypothesis\n"}
    assert open_package(put(tmp_path / "a", files), tmp_path / "b").requires == ()


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"a.py": MODULE}, "holds no tests"),
        ({"a.py": MODULE, "docs/test_a.py": TESTS}, "holds no tests"),
        ({"test_a.py": TESTS, "setup.py": ""}, "holds no Python modules"),
        ({"a/__init__.py": "", "a/fast.pyx": "", "test_a.py": TESTS}, r"compiled modules \('a/fast.pyx'\)"),
        ({"PKG-INFO": "Name: Pluggy\n", "a.py": MODULE, "test_a.py": TESTS}, "the test runner needs this package"),
    ],
)
def test_packages_of_which_nothing_can_be_made(tmp_path, files, reason):
    with pytest.raises(TaskRefused, match=reason):
        open_package(put(tmp_path / "a", files), tmp_path / "b")


def test_a_huge_file_is_refused_before_anything_is_read(tmp_path, monkeypatch):
    source = put(tmp_path / "a", {"a.py": MODULE, "test_a.py": TESTS})
    with open(source / "data.bin", "wb") as file:
        file.truncate(200 << 20)
    monkeypatch.setattr("shutil.copyfile", lambda *_: pytest.fail("a file was read"))
    with pytest.raises(DataError, match=f"is larger than {MAX_TREE_BYTES} bytes with 'data.bin'"):
        open_package(source, tmp_path / "b")


def test_a_source_that_is_no_folder(tmp_path):
    with pytest.raises(DataError, match="is no folder with the source"):
        open_package(tmp_path / "none", tmp_path / "b")
    with pytest.raises(DataError, match="cannot be read"):
        open_package(put(tmp_path / "a", {"pyproject.toml": "x = ", "test_a.py": TESTS}), tmp_path / "b")


def tar_of(path, *members):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            if name.startswith("link"):
                member.type, member.linkname, member.size = tarfile.SYMTYPE, "/etc", 0
            archive.addfile(member, io.BytesIO(content))
    return path


def test_archives_are_unpacked(tmp_path):
    packed = tar_of(tmp_path / "a.tar.gz", ("sums-1.2/PKG-INFO", INFO.encode()), ("sums-1.2/a.py", b"x = 1\n"))
    assert (unpack(packed, tmp_path / "tar") / "a.py").read_text() == "x = 1\n"
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.py", "x = 1\n")
    assert (unpack(tmp_path / "a.zip", tmp_path / "zip") / "a.py").read_text() == "x = 1\n"


def test_archives_that_reach_out_are_refused(tmp_path):
    for place, name in enumerate(("../out.py", "/out.py", "a/../../out.py")):
        with pytest.raises(DataError, match="leads out of it"):
            unpack(tar_of(tmp_path / f"{place}.tar.gz", (name, b"x")), tmp_path / f"t{place}")
        with zipfile.ZipFile(tmp_path / f"{place}.zip", "w") as archive:
            archive.writestr(name, "x")
        with pytest.raises(DataError, match="leads out of it"):
            unpack(tmp_path / f"{place}.zip", tmp_path / f"z{place}")
    with pytest.raises(DataError, match="cannot be unpacked"):
        unpack(tar_of(tmp_path / "l.tar.gz", ("link", b""), ("link/passwd", b"x")), tmp_path / "l")
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", b"\0" * (MAX_TREE_BYTES + 1))
    with pytest.raises(DataError, match=f"larger than {MAX_TREE_BYTES} bytes with 'zeros'"):
        unpack(tmp_path / "bomb.zip", tmp_path / "bomb")
    (tmp_path / "text.tar.gz").write_text("no archive")
    with pytest.raises(DataError, match="cannot be unpacked"):
        unpack(tmp_path / "text.tar.gz", tmp_path / "text")


@pytest.mark.parametrize("name", ["--index-url=http://a", "../a", "a b", "git+https://a", "a==", "-a"])
def test_only_names_of_packages_are_given_to_pip(tmp_path, name, monkeypatch):
    monkeypatch.setattr("subprocess.run", lambda *_, **__: pytest.fail("pip was called"))
    with pytest.raises(DataError, match="is neither a folder nor the name of a package"):
        fetch(name, tmp_path)


# --- what the tests of a package cover --------------------------------------------------------------------------------


def test_only_tests_that_pass_here_count_and_the_functions_that_they_call_are_known(coverage):
    clamp = [f"test_clamp[{case}]" for case in ("-5-0", "0-0", "2-2", "3-3", "9-3", "-1-0")]
    clamp += ["test_low_edge", "test_high_edge[7]", "test_inside"]
    mean = ["TestMean::test_one", "TestMean::test_two", "TestMean::test_generator"]
    of = {
        name: frozenset(f"tests/test_core.py::{test}" for test in tests) for name, tests in (("c", clamp), ("m", mean))
    }
    assert coverage.stable == of["c"] | of["m"]
    assert coverage.tests[Function(path="src/sums/core.py", name="clamp")] == of["c"]
    assert coverage.tests[Function(path="src/sums/core.py", name="mean")] == of["m"]
    assert coverage.cpu_s["tests/test_core.py"] < 5


def test_a_package_whose_tests_never_pass_is_refused(package, bench):
    with pytest.raises(TaskRefused, match="none of its tests passes every time"):
        measure(replace(package, tests=("tests/test_network.py",)), bench, repetitions=1)
    with pytest.raises(TaskRefused, match="its tests do not run here"):
        measure(replace(package, tests=("tests/none.py",)), bench, repetitions=1)


def test_only_functions_that_two_tests_call_are_broken(package, coverage):
    functions = {spot.function.name for spot in spots_of(package, coverage)}
    assert functions == {"clamp", "mean"}  # and nothing of latin.py, which is no UTF-8
    one = {Function(path="src/sums/core.py", name="mean"): frozenset({"tests/test_core.py::test_x"})}
    assert spots_of(package, Coverage(tests=one, stable=frozenset(), cpu_s={})) == []


# --- drawing ----------------------------------------------------------------------------------------------------------


def spot(operator, function, start):
    mutation = Mutation(operator=operator, start=start, end=start + 1, replacement="x", function=function, line=1)
    return Spot(path="a.py", mutation=mutation)


SPOTS = [spot("often", "f", place) for place in range(100)] + [spot("rare", "f", 100), spot("rare", "g", 101)]


def test_the_draw_depends_on_its_seed_only_and_spreads_over_operators_and_functions():
    drawn = [draw(SPOTS, {}, Random(seed)) for seed in range(200)]
    assert drawn == [draw(SPOTS, {}, Random(seed)) for seed in range(200)]
    assert all(len({item.function for item in chosen}) == len(chosen) for chosen in drawn)
    assert 0.55 < sum(len(chosen) == 1 for chosen in drawn) / 200 < 0.85
    first = [chosen[0].mutation.operator for chosen in drawn]
    assert 0.35 < first.count("rare") / 200 < 0.65
    used = {"often": 9, SPOTS[0].function: 9}
    assert sum(draw(SPOTS, used, Random(seed))[0] == SPOTS[-1] for seed in range(200)) > 180


# --- tests that are held back -----------------------------------------------------------------------------------------


def test_a_test_is_cut_out_with_its_decorators_and_its_comment():
    text = without(TESTS, "test_high_edge")
    assert text is not None
    assert text == TESTS.replace(TESTS[TESTS.index("# a word") : TESTS.index("def test_inside")], "")
    assert "def test_two" not in (without(TESTS, "TestMean.test_two") or "def test_two")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("def test_a():\n    pass\n", "test_b"),
        ("def test_a():\n    pass\n\n\ndef test_a():\n    pass\n", "test_a"),
        ("class TestA:\n    def test_a(self):\n        pass\n\n\nx = 1\n", "TestA.test_a"),
        ("def test_a():\n    pass\n\n\ntest_b = test_a\n", "test_a"),
        ("if 1:\n    def test_a():\n        pass\n", "test_a"),
    ],
)
def test_what_cannot_be_cut_out_cleanly_stays(source, name):
    assert without(source, name) is None


def test_half_of_the_failing_functions_are_held_back():
    path = "tests/test_core.py"
    failing = [
        f"{path}::{name}" for name in ("test_clamp[9-3]", "test_clamp[3-3]", "test_inside", "TestMean::test_two")
    ]
    texts, held = hold_back(failing, {path: TESTS}, Random(0))
    (name,) = held  # of three functions one
    assert name in {f"{path}::test_clamp", f"{path}::test_inside", f"{path}::TestMean::test_two"}
    assert texts == {path: without(TESTS, name.partition("::")[2].replace("::", "."))}
    assert hold_back(failing[:2], {path: TESTS}, Random(0)) == ({}, frozenset())


# --- problems ---------------------------------------------------------------------------------------------------------


def test_problems_are_settled_and_say_what_they_are(harvested, package):
    assert [problem.id for problem in harvested.problems] == sorted({problem.id for problem in harvested.problems})
    assert len({problem.patch for problem in harvested.problems}) == len(harvested.problems) == 2
    assert harvested.n_candidates % 3 == 0
    assert sum(harvested.refused.values()) <= harvested.n_candidates - 2
    assert (harvested.n_functions, harvested.n_tests) == (2, 12)
    for problem in harvested.problems:
        about = problem.about
        assert problem.solved == {"src/sums/core.py": MODULE}
        assert problem.files["src/sums/core.py"] != MODULE
        assert problem.hidden == {"tests/test_core.py": TESTS}
        assert (problem.test_files, problem.import_paths) == (("tests/test_core.py",), ("src", "."))
        assert 1 <= len(problem.fail_to_pass) <= about["n_covering"] / 2
        assert about["n_failing"] == len(problem.fail_to_pass)
        assert about["n_unsteady"] == 0
        assert set(problem.fail_to_pass) | set(problem.pass_to_pass) <= set(harvested_tests())
        assert problem.sensitive
        assert not any(word in problem.statement for word in ("clamp", "mean", "core"))
        assert "sums 1.2" in problem.statement


def harvested_tests():
    clamp = [f"test_clamp[{case}]" for case in ("-5-0", "0-0", "2-2", "3-3", "9-3", "-1-0")]
    mean = ["TestMean::test_one", "TestMean::test_two", "TestMean::test_generator"]
    names = [*clamp, "test_low_edge", "test_high_edge[7]", "test_inside", *mean]
    return [f"tests/test_core.py::{name}" for name in names]


def test_a_harvested_problem_measured_again_tells_bug_from_repair(harvested, bench):
    problem = harvested.problems[0]
    found, repaired = bench.run(problem, {}), bench.run(problem, problem.solved)
    assert all(found.status[test] == "failed" for test in problem.fail_to_pass)
    assert all(repaired.status[test] == "passed" for test in (*problem.fail_to_pass, *problem.pass_to_pass))


def test_runs_on_the_repaired_tree_are_shared_by_problems_and_counted_in_each(harvested):
    problem = harvested.problems[0]
    other = replace(problem, id="other", test_files=("tests/test_network.py",))
    made = []

    class Counting:
        def measure(self, problem, changes, *, spoilt=False):
            made.append((problem.id, changes == problem.solved, spoilt))
            return Report(status={"t": "passed"}, output=str(len(made)))

    pristine, first = Pristine(), Report(status={"t": "failed"}, output="first")

    def outputs(problem):
        measured = Measured(Counting(), pristine, first)
        runs = [({}, False)] * 3 + [(problem.solved, False)] * 3 + [(problem.solved, True)]
        return [measured.measure(problem, changes, spoilt=spoilt).output for changes, spoilt in runs]

    assert outputs(problem) == ["first", "1", "2", "3", "4", "5", "6"]
    assert outputs(problem) == ["first", "7", "8", "3", "4", "5", "6"]
    assert outputs(other) == ["first", "9", "10", "11", "12", "13", "14"]
    kinds = [(False, False)] * 2 + [(True, False)] * 3 + [(True, True)]
    assert made[:6] == [(problem.id, repaired, spoilt) for repaired, spoilt in kinds]


def test_one_bug_becomes_one_problem(harvested, package, coverage, bench, monkeypatch):
    found = replace(harvested.problems[0], about={})
    monkeypatch.setattr(harvesting, "measure", lambda package, bench, repetitions: coverage)
    monkeypatch.setattr(harvesting._Maker, "make", lambda self, number, chosen: replace(found, id=str(number)))
    again = harvest(package, bench, n=2)
    assert [problem.id for problem in again.problems] == ["0"]
    assert again.n_candidates == 16
    assert again.refused == {"the same bug as in another task": 15}


def test_bad_numbers(package, bench):
    with pytest.raises(ConfigError, match="n is 0"):
        harvest(package, bench, n=0)


# --- the task set -----------------------------------------------------------------------------------------------------


@pytest.fixture
def fast(harvested, package, monkeypatch):
    """The command without measuring: "sums" gives two problems, "empty" is refused."""
    asked = []

    def give(opened, bench, *, n, seed, repetitions, workers):
        asked.append((opened.name, n, seed, repetitions, workers))
        if opened.name == "empty":
            raise TaskRefused("none of its tests passes every time")
        problems = tuple(replace(problem, folder=str(opened.folder)) for problem in harvested.problems)
        return replace(harvested, package=opened, problems=problems, seed=seed, repetitions=repetitions)

    class NoBench:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(command, "harvest", give)
    monkeypatch.setattr(command, "Bench", NoBench)
    return asked


@pytest.fixture
def sources(tmp_path):
    put(tmp_path / "sums", FILES)
    put(tmp_path / "empty", {**FILES, "PKG-INFO": INFO.replace("sums", "empty")})
    return tmp_path / "sums", tmp_path / "empty"


def test_the_command_makes_a_task_set_and_goes_on_where_it_stopped(tmp_path, fast, sources, harvested, capsys):
    out = tmp_path / "set"
    arguments = ["--out", out, "--n", 4, "--seed", 3, "--repetitions", 2, "--workers", 2]
    assert turngate("tasks", "code", "--package", sources[0], *arguments) == 0
    assert fast == [("sums", 4, 3, 2, 2)]
    assert "sums 1.2: 2 tasks of" in capsys.readouterr().out
    rows = (out / "problems.jsonl").read_bytes()
    (out / ".problems.jsonl.new").write_text("half a ro")  # a writer was killed here
    both = ["--package", sources[0], "--package", sources[1]]
    assert turngate("tasks", "code", *both, *arguments) == 0
    assert fast[1:] == [("empty", 2, 3, 2, 2)]
    said = capsys.readouterr().out
    assert "(kept)" in said
    assert "empty: not used: none of its tests passes every time" in said
    assert (out / "problems.jsonl").read_bytes() == rows
    assert [(item.asked, item.n_tasks, item.seed) for item in sources_of(out)] == [("sums", 2, 3), ("empty", 0, 3)]
    assert turngate("tasks", "code", *both, *arguments) == 0
    assert len(fast) == 2
    tree = out / "trees" / "sums-1.2"
    assert [path.name for path in (out / "trees").iterdir()] == ["sums-1.2"]
    assert problems_of(out) == tuple(replace(problem, folder=str(tree)) for problem in harvested.problems)
    assert MODULE not in rows.decode()  # texts of the tree are not stored again
    page = (out / "card.md").read_text()
    assert "2 tasks of 1 packages" in page
    assert "| sums | 1.2 | MIT License | 2 |" in page
    assert "| empty | none of its tests passes every time |" in page
    assert "in each of 2 repetitions: 2/2" in page
    card = json.loads((out / "card.json").read_text())
    assert card["n_tasks"] == sum(card["splits"].values()) == sum(card["bugs"].values()) == 2
    assert sum(card["operators"].values()) == sum(len(p.about["operators"]) for p in harvested.problems)


def test_a_package_is_in_a_set_once_and_a_set_has_one_seed(tmp_path, fast, sources, capsys):
    copy = put(tmp_path / "copy", FILES)
    arguments = ["tasks", "code", "--out", tmp_path / "set", "--n", 8]
    assert turngate(*arguments, "--package", sources[0], "--package", copy) == 0
    assert "copy: not used: the task set has sums-1.2 already" in capsys.readouterr().out
    assert len(problems_of(tmp_path / "set")) == 2
    assert turngate(*arguments, "--package", sources[1], "--seed", 1) == 2
    assert "was made with seed 0 and 3 repetitions; use them again" in capsys.readouterr().err


def test_rows_of_a_package_that_was_not_finished_are_made_again(tmp_path, fast, sources):
    out = tmp_path / "set"
    arguments = ["tasks", "code", "--package", sources[0], "--out", out, "--n", 2]
    assert turngate(*arguments) == 0
    (out / "card.json").unlink()
    assert turngate(*arguments) == 0
    assert len(fast) == 2
    assert len(problems_of(out)) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--package", "{a}", "--package", "{a}", "--out", "{t}/set"], "is named twice"),
        (["--package", "{a}", "--out", "{a}"], "which is no part of a task set; name an empty folder"),
        (["--package", "{a}", "--out", "{a}/PKG-INFO"], "is no folder; name another one"),
        (["--package", "{t}/none", "--out", "{t}/set"], "there is no such folder or archive"),
    ],
)
def test_mistakes_are_one_line(tmp_path, fast, sources, arguments, message, capsys):
    words = [word.format(a=sources[0], t=tmp_path) for word in arguments]
    assert turngate("tasks", "code", *words) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert message in said
    assert fast == []


def test_a_task_set_becomes_tasks(tmp_path, harvested):
    write(tmp_path / "set", harvested.problems, ())
    tasks = read(tmp_path / "set")
    places = [(split, place) for split in tasks.splits for place in range(tasks.size(split))]
    found = {task.id: task for task in (tasks.task(*place) for place in places)}
    assert found.keys() == {problem.id for problem in harvested.problems}
    for problem in harvested.problems:
        assert Problem.of(found[problem.id]).patch == problem.patch
        assert found[problem.id].split == split_of(problem.id)


def test_a_fifth_of_the_tasks_is_held_out():
    splits = [split_of(f"toolz-1.0/0-{number}") for number in range(1000)]
    assert set(splits) == {"train", "heldout"}
    assert 160 < splits.count("heldout") < 240


def test_a_problem_without_a_package_is_not_stored(tmp_path, harvested):
    with pytest.raises(ConfigError, match="is not made of a package"):
        write(tmp_path / "set", [replace(harvested.problems[0], about={})], ())


@pytest.fixture
def stored(tmp_path, harvested):
    write(tmp_path / "set", harvested.problems, ())
    return tmp_path / "set"


def spoil(folder, line, change):
    """Change one row of a task set."""
    rows = (folder / "problems.jsonl").read_text().splitlines()
    row = json.loads(rows[line - 1])
    change(row)
    rows[line - 1] = json.dumps(row)
    (folder / "problems.jsonl").write_text("\n".join(rows) + "\n")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda row: row.pop("solved"), r"problems.jsonl, line 2, field 'solved': Field required"),
        (lambda row: row.update(fail_to_pass=[]), r"line 2, field 'fail_to_pass': "),
        (lambda row: row.update(fail_to_pass="a"), r"line 2, field 'fail_to_pass': "),
        (lambda row: row.update(unknown=1), r"line 2, field 'unknown': Extra inputs"),
        (lambda row: row.update(folder="trees/none-1"), r"line 2, field 'folder': there is no tree '.*none-1'"),
        (lambda row: row.update(folder="../set"), r"line 2: .*names the file '../set'"),
        (lambda row: row.update(folder="/etc"), r"line 2: .*names the file '/etc'"),
        (lambda row: row["as_in_tree"].update(hidden=["../../../x"]), r"line 2: .*names the file '../../../x'"),
        (lambda row: row["as_in_tree"].update(solved=["none.py"]), r"line 2: .*none.py"),
        (lambda row: row.update(files={"../a": "x"}), r"line 2: .*names the file '../a'"),
    ],
)
def test_a_bad_row_is_named(stored, change, message):
    spoil(stored, 2, change)
    with pytest.raises(DataError, match=message):
        read(stored)


def test_damaged_files_are_named(stored, tmp_path):
    rows = (stored / "problems.jsonl").read_bytes()
    (stored / "problems.jsonl").write_bytes(rows + rows[:40])
    with pytest.raises(DataError, match=r"problems.jsonl, line 3: Invalid JSON"):
        read(stored)
    (stored / "problems.jsonl").write_bytes(rows + rows)
    with pytest.raises(DataError, match="is used by several problems"):
        read(stored)
    (stored / "problems.jsonl").write_bytes(b"\xff")
    with pytest.raises(DataError, match=r"is not UTF-8 text \(byte 0\)"):
        read(stored)
    (stored / "card.json").write_text('{"sources": [1]}')
    with pytest.raises(DataError, match="is not the card of a task set"):
        sources_of(stored)
    os.unlink(stored / "problems.jsonl")
    with pytest.raises(DataError, match="cannot be read"):
        read(stored)


@pytest.mark.parametrize(
    ("failing", "name"), [(1, "1 test"), (2, "2–3 tests"), (9, "4–9 tests"), (10, "10 tests or more")]
)
def test_difficulty(failing, name):
    assert difficulty(failing) == name


def test_a_task_set_is_checked_by_measuring_it_again(tmp_path, harvested, capsys):
    write(tmp_path / "set", harvested.problems, [source_of("sums", harvested, 3)])
    assert turngate("tasks", "check", tmp_path / "set") == 0
    assert f"{len(harvested.problems)} of {len(harvested.problems)} tasks hold" in capsys.readouterr().out
    rows = tmp_path / "set" / "problems.jsonl"
    first, *others = rows.read_text().splitlines()
    broken = json.loads(first)
    broken["pass_to_pass"] = [*broken["pass_to_pass"], "tests/test_core.py::test_that_is_not_there"]
    rows.write_text("\n".join([json.dumps(broken), *others]) + "\n")
    assert turngate("tasks", "check", tmp_path / "set") == 1
    assert f"{broken['id']}: the reference repair fails" in capsys.readouterr().out
