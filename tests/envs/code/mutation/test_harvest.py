"""From the source of a package to problems: what is refused, what is drawn, what is measured."""

import io
import subprocess
import tarfile
import zipfile
from dataclasses import replace
from random import Random

import pytest

from tests.envs.code.sums import FILES, INFO, MODULE, TESTS, put
from turngate.envs.code.generated.mutation import harvest as harvesting
from turngate.envs.code.generated.mutation.coverage import measure
from turngate.envs.code.generated.mutation.harvest import Spot, draw, harvest, spots_of
from turngate.envs.code.generated.mutation.holdback import hold_back, without
from turngate.envs.code.generated.mutation.measured import Measured, Pristine
from turngate.envs.code.generated.mutation.mutate import Mutation
from turngate.envs.code.generated.mutation.packages import MAX_TREE_BYTES, fetch, open_package, unpack
from turngate.envs.code.generated.mutation.suite import Function
from turngate.envs.code.grading.junit import Report
from turngate.errors import ConfigError, DataError, TaskRefused

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


def test_pip_is_asked_for_the_source_of_the_package_only_and_its_error_is_told(tmp_path, monkeypatch):
    asked = []

    def run(command, **_):
        asked.append(command)
        return subprocess.CompletedProcess(command, 1, "", "ERROR: No matching distribution\n\nnote: not pip's fault\n")

    monkeypatch.setattr("subprocess.run", run)
    with pytest.raises(DataError, match="has no source distribution that pip can fetch: ERROR: No matching"):
        fetch("sums==1.2", tmp_path)
    assert asked[0][asked[0].index("--no-binary") + 1] == "sums"


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
    with pytest.raises(TaskRefused, match=r"none of its 1 tests passes every time and is fast enough \(1 did not pass"):
        measure(replace(package, tests=("tests/test_network.py",)), bench, repetitions=1)
    with pytest.raises(TaskRefused, match="its tests do not run here"):
        measure(replace(package, tests=("tests/none.py",)), bench, repetitions=1)


def test_a_package_whose_coverage_cannot_be_read_is_refused(package, bench, monkeypatch):
    monkeypatch.setattr("turngate.envs.code.generated.mutation.suite.MAX_LOG_BYTES", 10)
    with pytest.raises(TaskRefused, match=r"what its tests do is not known: .* more than 10 bytes"):
        measure(package, bench, repetitions=1)


def test_only_functions_that_two_tests_call_are_broken(package, coverage):
    functions = {spot.function.name for spot in spots_of(package, coverage)}
    assert functions == {"clamp", "mean"}  # and nothing of latin.py, which is no UTF-8
    one = {Function(path="src/sums/core.py", name="mean"): frozenset({"tests/test_core.py::test_x"})}
    assert spots_of(package, replace(coverage, tests=one)) == []


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
        def measure(self, problem, changes, *, control=None):
            made.append((problem.id, changes == problem.solved, control))
            return Report(status={"t": "passed"}, output=str(len(made)))

    pristine, first = Pristine(), Report(status={"t": "failed"}, output="first")

    def outputs(problem):
        measured = Measured(Counting(), pristine, first)
        runs = [({}, None)] * 3 + [(problem.solved, None)] * 3 + [(problem.solved, "altered")]
        return [measured.measure(problem, changes, control=control).output for changes, control in runs]

    assert outputs(problem) == ["first", "1", "2", "3", "4", "5", "6"]
    assert outputs(problem) == ["first", "7", "8", "3", "4", "5", "6"]
    assert outputs(other) == ["first", "9", "10", "11", "12", "13", "14"]
    kinds = [(False, None)] * 2 + [(True, None)] * 3 + [(True, "altered")]
    assert made[:6] == [(problem.id, repaired, control) for repaired, control in kinds]


def test_one_bug_becomes_one_problem(harvested, package, coverage, bench, monkeypatch):
    found = replace(harvested.problems[0], about={})
    monkeypatch.setattr(harvesting, "measure", lambda package, bench, **_: coverage)
    monkeypatch.setattr(harvesting._Maker, "make", lambda self, number, chosen: replace(found, id=str(number)))
    again = harvest(package, bench, n=2)
    assert [problem.id for problem in again.problems] == ["0"]
    assert again.n_candidates == 16
    assert again.refused == {"the same bug as in another task": 15}


def test_bad_numbers(package, bench):
    with pytest.raises(ConfigError, match="n is 0"):
        harvest(package, bench, n=0)
    with pytest.raises(ConfigError, match="limit_s is 0"):
        harvest(package, bench, n=1, limit_s=0)
