"""Rows of SWE-bench.

1. Rows load from a real repository; the tree that the agent finds holds no history, only texts of then.
2. What git could be talked into by a row or a repository (paths outside, attributes, filters) has no effect.
3. A row that cannot be used is dropped with its reason; a file that is no such data raises.
4. Measured in a sandbox, a good row settles and a useless one is dropped.
"""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.envs.code.loaders.repository import (
    BUGGY,
    FIXED,
    FUTURE,
    NEW_TEST,
    OLD_TEST,
    Repo,
    commit,
    commit_more,
    diff,
    git,
    row,
    write_rows,
)
from turngate.envs.code.grading.grading_sandbox import Bench
from turngate.envs.code.grading.junit import match
from turngate.envs.code.loaders import LoadedProblems, swe_bench
from turngate.envs.code.loaders.history import MAX_BYTES, History
from turngate.envs.tasks import Dropped
from turngate.errors import ConfigError, DataError, UnknownName


def load(tmp_path: Path, repo: Repo, *rows: object, **settings: Any) -> LoadedProblems:
    return swe_bench(write_rows(tmp_path, *rows), repo.folder.parent, extract=tmp_path / "trees", **settings)


def refusal(tmp_path: Path, origin: Repo, /, **changes: Any) -> str:
    """The reason for which the row is dropped."""
    loaded = load(tmp_path, origin, row(origin, **changes))
    assert loaded.problems == ()
    (dropped,) = loaded.dropped
    assert (dropped.id, dropped.line) == ("ada__shapes-1", 1)
    return dropped.reason


def below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


# --- rows that load --------------------------------------------------------------------------------------------------


def test_a_row(tmp_path: Path, repo: Repo) -> None:
    loaded = load(tmp_path, repo, row(repo))
    (problem,) = loaded.problems
    assert loaded.dropped == ()
    assert (problem.id, problem.statement) == ("ada__shapes-1", "The area of an oblong is wrong.")
    assert problem.folder == str(tmp_path / "trees" / f"ada__shapes@{repo.base}")
    assert problem.files == {"shapes.py": BUGGY}
    assert problem.solved == {"shapes.py": FIXED}
    assert problem.hidden == {"tests/test_shapes.py": NEW_TEST}
    assert (problem.runner, problem.test_files) == ("pytest", ("tests/test_shapes.py",))
    assert problem.fail_to_pass == ("tests/test_shapes.py::test_oblong",)
    assert problem.pass_to_pass == ("tests/test_shapes.py::test_square",)
    assert problem.import_paths == (".",)
    assert problem.about == {
        "source": "swe_bench",
        "line": 1,
        "repo": "ada/shapes",
        "base_commit": repo.base,
        "version": "1.0",
        "created_at": "2020-01-01",
        "hints_text": "Is it a sum?",
        "environment_setup_commit": repo.base,
    }


def test_the_tree_holds_no_history(tmp_path: Path, repo: Repo) -> None:
    (problem,) = load(tmp_path, repo, row(repo)).problems
    tree = Path(problem.folder)
    assert below(tree) == ["README", "shapes.py", "tests", "tests/test_shapes.py"]
    assert (tree / "shapes.py").read_text() == BUGGY
    everything = b"".join(path.read_bytes() for path in tmp_path.joinpath("trees").rglob("*") if path.is_file())
    for secret in ("width * height", "test_oblong", FUTURE, repo.head):
        assert secret.encode() not in everything
    assert not [path for path in tmp_path.joinpath("trees").rglob("*") if path.name == ".git"]


def test_the_repository_is_left_as_it_was(tmp_path: Path, repo: Repo) -> None:
    def content() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in repo.folder.rglob("*") if path.is_file()}

    before = content()
    load(tmp_path, repo, row(repo, patch=repo.patch.replace("*", "//")))  # a text that the repository does not have
    assert content() == before


@pytest.mark.parametrize("place", ["ada/shapes", "ada__shapes"])
def test_bare_repositories(tmp_path: Path, repo: Repo, place: str) -> None:
    target = tmp_path / "bare" / place
    target.parent.mkdir(parents=True)
    git(tmp_path, "clone", "--quiet", "--bare", str(repo.folder), str(target))
    path = write_rows(tmp_path, row(repo))
    with swe_bench(path, tmp_path / "bare", extract=tmp_path / "trees") as loaded:
        assert [problem.solved for problem in loaded.problems] == [{"shapes.py": FIXED}]


def test_a_tree_is_exported_once(tmp_path: Path, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    exported: list[str] = []
    export = History.export
    monkeypatch.setattr(
        History, "export", lambda self, name, folder: (exported.append(name), export(self, name, folder))
    )
    rows = [row(repo), row(repo, instance_id="second")]
    one, two = load(tmp_path, repo, *rows).problems
    assert one.folder == two.folder
    load(tmp_path, repo, *rows)
    assert exported == [repo.base]
    assert below(tmp_path / "trees")[0] == f"ada__shapes@{repo.base}"  # nothing is left of the work


def test_the_temporary_trees_end_with_the_result(tmp_path: Path, repo: Repo) -> None:
    with swe_bench(write_rows(tmp_path, row(repo)), repo.folder.parent) as loaded:
        tree = Path(loaded.problems[0].folder)
        assert tree.joinpath("shapes.py").is_file()
    assert loaded.folder is not None
    assert not tree.exists()
    assert not loaded.folder.exists()
    loaded.close()


def test_trees_in_a_folder_of_ones_own_stay(tmp_path: Path, repo: Repo) -> None:
    with load(tmp_path, repo, row(repo)) as loaded:
        pass
    assert Path(loaded.problems[0].folder, "shapes.py").is_file()


def test_files_that_appear_vanish_and_move(tmp_path: Path, repo: Repo) -> None:
    folder = tmp_path / "r" / "ada__moves"
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet")
    long = "".join(f"line {number}\r\n" for number in range(20))
    files: dict[str, str | bytes] = {"old.py": long, "gone.py": "x = 1\n", "tests/test_a.py": "a = 1\n"}
    base = commit(folder, {**files, "tests/test_gone.py": "b = 1\n", "run.sh": "echo\n"})
    git(folder, "mv", "old.py", "new name.py")
    for name in ("gone.py", "tests/test_gone.py"):
        (folder / name).unlink()
    (folder / "run.sh").chmod(0o755)
    head = commit(folder, {"made/é.py": "y = 'ü'", "tests/test_a.py": "a = 2\n", "tests/data.txt": "d"})
    patch = git(folder, "diff", "-M", base, head, "--", ":!tests")
    assert "rename from old.py" in patch
    changes = {"repo": "ada/moves", "base_commit": base, "patch": patch.rstrip("\n")}
    tests = diff(folder, base, head, "tests")
    names = {"FAIL_TO_PASS": ["tests/test_a.py::test_x"], "PASS_TO_PASS": []}
    (problem,) = load(
        tmp_path, Repo(folder, base, head, "", ""), row(repo, **changes, **names, test_patch=tests)
    ).problems
    assert problem.files == {"old.py": long, "new name.py": None, "gone.py": "x = 1\n", "made/é.py": None}
    assert problem.solved == {"old.py": None, "new name.py": long, "gone.py": None, "made/é.py": "y = 'ü'"}
    assert problem.hidden == {"tests/test_a.py": "a = 2\n", "tests/test_gone.py": None, "tests/data.txt": "d"}
    assert problem.test_files == ("tests/test_a.py",)


def test_attributes_of_the_repository_change_nothing(tmp_path: Path, repo: Repo) -> None:
    folder = tmp_path / "r" / "ada__odd"
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet")
    attributes = "tests export-ignore\n*.txt text eol=crlf\nversion.py export-subst\n"
    files: dict[str, str | bytes] = {"version.py": "v = '$Format:%d$'\n", "a.txt": "a\n", "shapes.py": BUGGY}
    base = commit(folder, {**files, ".gitattributes": attributes, "tests/test_shapes.py": OLD_TEST})
    loaded = load(tmp_path, Repo(folder, base, "", "", ""), row(repo, repo="ada/odd", base_commit=base))
    tree = Path(loaded.problems[0].folder)
    assert (tree / "version.py").read_bytes() == b"v = '$Format:%d$'\n"
    assert (tree / "a.txt").read_bytes() == b"a\n"
    assert (tree / "tests" / "test_shapes.py").read_text() == OLD_TEST


def test_settings_of_the_repository_run_nothing(tmp_path: Path, repo: Repo) -> None:
    folder = tmp_path / "r" / "ada__shapes"
    git(tmp_path, "clone", "--quiet", str(repo.folder), str(folder))
    mark = tmp_path / "ran"
    for name in ("core.fsmonitor", "tar.tar.command", "filter.x.smudge", "filter.x.clean", "core.pager"):
        git(folder, "config", name, f"touch {mark}; cat")
    (folder / ".git" / "info" / "attributes").write_text("* filter=x\n")
    loaded = load(tmp_path, repo._replace(folder=folder), row(repo))
    assert len(loaded.problems) == 1
    assert not mark.exists()


@pytest.mark.parametrize(
    ("files", "paths"),
    [
        ({"src/pack/__init__.py": ""}, ("src", ".")),
        ({"lib/pack/__init__.py": ""}, ("lib", ".")),
        ({"src/__init__.py": "", "src/pack/__init__.py": ""}, (".",)),
        ({"src/main.c": ""}, (".",)),
    ],
)
def test_where_packages_lie(tmp_path: Path, repo: Repo, files: dict[str, str | bytes], paths: tuple[str, ...]) -> None:
    other, base = commit_more(tmp_path, repo, files)
    loaded = load(tmp_path, other, row(repo, base_commit=base))
    assert loaded.problems[0].import_paths == paths


def test_split_and_limit(tmp_path: Path, repo: Repo) -> None:
    rows = [row(repo, instance_id=f"{split}-{number}", split=split) for number in range(3) for split in ("dev", "test")]
    rows[1]["patch"] = "nothing"
    loaded = load(tmp_path, repo, *rows, split="test", limit=1)
    assert [problem.id for problem in loaded.problems] == ["test-1"]
    assert [(item.id, item.line) for item in loaded.dropped] == [("test-0", 2)]
    assert len(load(tmp_path, repo, *rows).problems) == 5
    with pytest.raises(UnknownName, match="'tset'; did you mean 'test'"):
        load(tmp_path, repo, *rows, split="tset")
    with pytest.raises(ConfigError, match="limit is 0"):
        load(tmp_path, repo, *rows, limit=0)


def test_lines_end_at_newlines_only(tmp_path: Path, repo: Repo) -> None:
    separators = json.dumps(row(repo, problem_statement="one\u2028two\u0085three"), ensure_ascii=False)
    loaded = load(tmp_path, repo, "", separators, "   ", row(repo, instance_id="later", patch=""))
    assert loaded.problems[0].statement == "one\u2028two\u0085three"
    assert [(item.id, item.line) for item in loaded.dropped] == [("later", 4)]


def test_cut_off_ids_are_kept(tmp_path: Path, repo: Repo) -> None:
    names = ["tests/test_shapes.py::test_oblong[a", "tests/test_shapes.py::test_oblong[b c", "tests/test_shapes.py::t"]
    (problem,) = load(tmp_path, repo, row(repo, FAIL_TO_PASS=[*names, names[0]], PASS_TO_PASS=[])).problems
    assert problem.fail_to_pass == tuple(names)


def test_marks_of_progress_are_no_ids(tmp_path: Path, repo: Repo) -> None:
    names = ["tests/test_shapes.py::test_square", "[100%]", "["]
    (problem,) = load(tmp_path, repo, row(repo, PASS_TO_PASS=json.dumps(names))).problems
    assert problem.pass_to_pass == ("tests/test_shapes.py::test_square",)


def test_tasks(tmp_path: Path, repo: Repo) -> None:
    rows = [row(repo, instance_id="a", split="dev"), row(repo), row(repo, instance_id="b", split="dev")]
    source = load(tmp_path, repo, *rows).tasks()
    assert (source.splits, source.size("dev"), source.task("dev", 1).id) == (("dev", "train"), 2, "b")
    assert source.find("ada__shapes-1").env_id == "turngate/CodeRepair-v1"
    assert source.find("ada__shapes-1").split == "train"


# --- rows that are dropped -------------------------------------------------------------------------------------------


def new_file(path: str, text: str = "x = 1\n") -> str:
    lines = text.splitlines()
    body = "".join(f"+{line}\n" for line in lines)
    head = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
    return f"{head}@@ -0,0 +1,{len(lines)} @@\n{body}"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"repo": "ada/others"}, "there is no repository of 'ada/others'"),
        ({"repo": "../ada__shapes"}, "repo '../ada__shapes' is not of the form owner/name"),
        ({"repo": "ada/shapes/x"}, "is not of the form owner/name"),
        ({"repo": "/etc"}, "is not of the form owner/name"),
        ({"base_commit": "0" * 40}, f"the repository has no commit '{'0' * 40}'"),
        ({"base_commit": "main"}, "base_commit 'main' is not the name of a commit, 40 hexadecimal digits"),
        ({"base_commit": "--output=/tmp/x"}, "base_commit '--output=/tmp/x' is not the name of a commit"),
        ({"FAIL_TO_PASS": "[]"}, "FAIL_TO_PASS is empty"),
        ({"FAIL_TO_PASS": ["[100%]"]}, "FAIL_TO_PASS is empty"),
        ({"problem_statement": " \n"}, "problem_statement is empty"),
        ({"patch": ""}, "patch does not apply"),
        ({"patch": "rubbish"}, "patch does not apply"),
        ({"test_patch": ""}, "test_patch does not apply"),
        ({"test_patch": new_file("tests/data.txt")}, "test_patch has no tests"),
        ({"test_patch": new_file("tests/conftest.py")}, "test_patch has no tests"),
        ({"test_patch": new_file("tests/test_other.py")}, "::test_oblong' lies in a file that test_patch does not"),
        ({"FAIL_TO_PASS": ["test_oblong (shapes.Tests)"]}, "is not an id of pytest, which is FILE::NAME"),
        ({"PASS_TO_PASS": ["elsewhere.py::test_x"]}, "'elsewhere.py::test_x' lies in a file that test_patch does not"),
        ({"patch": new_file("../outside.py")}, "patch does not apply: git apply: invalid path '../outside.py'"),
        ({"patch": new_file("/etc/outside.py")}, "patch does not apply: git apply: invalid path '/etc/outside.py'"),
        ({"patch": new_file("a/../../outside.py")}, "invalid path"),
        ({"patch": new_file(".git/hooks/post-checkout")}, "invalid path '.git/hooks/post-checkout'"),
        ({"patch": new_file("link").replace("100644", "120000")}, "patch changes 'link', which is a link or a submod"),
        ({"patch": new_file("nul.py", "a\0b")}, "patch: 'nul.py' is binary, not text"),
    ],
)
def test_refusals(tmp_path: Path, repo: Repo, changes: dict[str, Any], reason: str) -> None:
    assert reason in refusal(tmp_path, repo, **changes)
    assert below(tmp_path / "trees") == []


def test_a_patch_of_another_commit(tmp_path: Path, repo: Repo) -> None:
    reason = refusal(tmp_path, repo, base_commit=repo.head)
    assert reason == "patch does not apply: git apply: patch failed: shapes.py:1"


def test_patches_that_touch_the_same_file(tmp_path: Path, repo: Repo) -> None:
    reason = refusal(tmp_path, repo, patch=repo.patch + repo.test_patch)
    assert reason.startswith("patch and test_patch both change 'tests/test_shapes.py'")


def test_a_patch_of_permissions_changes_nothing(tmp_path: Path, repo: Repo) -> None:
    patch = "diff --git a/shapes.py b/shapes.py\nold mode 100644\nnew mode 100755\n"
    assert refusal(tmp_path, repo, patch=patch) == "patch changes no text"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a\0b\n", "patch: 'blob.py' is binary, not text"),
        (b"# caf\xe9\n", "patch: 'blob.py' is not UTF-8 text (byte 5)"),
        (
            b"#" * (MAX_BYTES + 1),
            f"patch changes 'blob.py', which has {MAX_BYTES + 1} bytes; at most {MAX_BYTES} are read",
        ),
    ],
    ids=["binary", "latin", "large"],
)
def test_what_is_no_text(tmp_path: Path, repo: Repo, content: bytes, reason: str) -> None:
    other, base = commit_more(tmp_path, repo, {"blob.py": content})
    moved = "diff --git a/blob.py b/b.py\nsimilarity index 100%\nrename from blob.py\nrename to b.py\n"
    assert refusal(tmp_path, other, base_commit=base, patch=moved).replace("'b.py'", "'blob.py'") == reason


def test_a_binary_patch(tmp_path: Path, repo: Repo) -> None:
    other, head = commit_more(tmp_path, repo, {"blob.py": b"a\0b\n" * 100})
    patch = git(other.folder, "diff", "--binary", repo.base, head)
    assert "GIT binary patch" in patch
    assert refusal(tmp_path, other, patch=patch) == "patch: 'blob.py' is binary, not text"
    without = git(other.folder, "diff", repo.base, head)
    assert refusal(tmp_path, other, patch=without).startswith("patch does not apply: git apply: cannot apply binary")


@pytest.mark.parametrize("target", ["../../../../etc", "/etc"])
def test_a_tree_that_leads_outside(tmp_path: Path, repo: Repo, target: str) -> None:
    other, _ = commit_more(tmp_path, repo, {"more.py": ""})
    (other.folder / "way_out").symlink_to(target)
    base = commit(other.folder, {})
    assert f"the tree of '{base}' leads outside" in refusal(tmp_path, other, base_commit=base)
    assert below(tmp_path / "trees") == []


def test_a_patch_through_a_link(tmp_path: Path, repo: Repo) -> None:
    other, _ = commit_more(tmp_path, repo, {"more.py": ""})
    (other.folder / "inside").symlink_to("tests")
    base = commit(other.folder, {})
    assert len(load(tmp_path, other, row(repo, base_commit=base)).problems) == 1
    reason = refusal(tmp_path, other, base_commit=base, patch=new_file("inside/x.py"))
    assert reason == "patch does not apply: git apply: affected file 'inside/x.py' is beyond a symbolic link"


def test_a_folder_that_is_no_repository(tmp_path: Path, repo: Repo) -> None:
    (tmp_path / "r" / "ada__shapes").mkdir(parents=True)
    reason = refusal(tmp_path, repo._replace(folder=tmp_path / "r" / "ada__shapes"))
    assert reason == f"there is no git repository '{tmp_path / 'r' / 'ada__shapes'}'"


def test_dropped_rows_are_reported(tmp_path: Path, repo: Repo, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        loaded = load(tmp_path, repo, row(repo), row(repo, instance_id="bad", FAIL_TO_PASS=[]))
    assert [problem.id for problem in loaded.problems] == ["ada__shapes-1"]
    reason = "FAIL_TO_PASS is empty, so nothing could tell whether it is solved"
    assert loaded.dropped == (Dropped(id="bad", line=2, reason=reason),)
    assert f"dropped 1 of 2 problems that cannot be used, the first being bad: {reason}" in caplog.text


# --- files that are no such data -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "message", "field"),
    [
        ("instance_id,repo", "is not JSON: expected value at column 1", None),
        ("[" * 100_000, "recursion limit exceeded", None),
        ("[1]", r"must be a JSON object, got \[1\]", None),
        ({"instance_id": ""}, "is empty", "instance_id"),
        ({"patch": None}, "must be a text, got None", "patch"),
        ({"patch": "\ud800"}, "is not JSON: .* hex escape", None),
        (
            {"FAIL_TO_PASS": '["\\ud800"]'},
            "'FAIL_TO_PASS': is neither a list nor the JSON text of one: .* hex escape",
            "FAIL_TO_PASS",
        ),
        ({"FAIL_TO_PASS": "tests/a.py::b"}, "neither a list nor the JSON text of one", "FAIL_TO_PASS"),
        ({"FAIL_TO_PASS": '{"a": 1}'}, "must be a list, got {'a': 1}", "FAIL_TO_PASS"),
        ({"PASS_TO_PASS": ["a", 1]}, "must be a text, got 1", "PASS_TO_PASS.1"),
        ({"instance_id": "first"}, "the id 'first' is used twice, first in line 1", "instance_id"),
    ],
)
def test_malformed_rows(tmp_path: Path, repo: Repo, bad: Any, message: str, field: str | None) -> None:
    second = bad if isinstance(bad, str) else row(repo, **bad)
    with pytest.raises(DataError, match=message) as caught:
        load(tmp_path, repo, row(repo, instance_id="first"), second)
    assert (caught.value.line, caught.value.field) == (2, field)
    assert caught.value.path.endswith("rows.jsonl")
    assert not (tmp_path / "trees").exists()


def test_files_that_cannot_be_read(tmp_path: Path, repo: Repo) -> None:
    with pytest.raises(DataError, match="cannot be read: No such file"):
        swe_bench(tmp_path / "missing.jsonl", repo.folder.parent)
    (tmp_path / "latin.jsonl").write_bytes(b"{}\n\xe9")
    with pytest.raises(DataError, match="field 'instance_id'"):
        swe_bench(tmp_path / "latin.jsonl", repo.folder.parent)
    (tmp_path / "latin.jsonl").write_bytes(b"\xe9")
    with pytest.raises(DataError, match="line 1: is not JSON"):
        swe_bench(tmp_path / "latin.jsonl", repo.folder.parent)
    with pytest.raises(DataError, match="holds no rows"):
        load(tmp_path, repo, "\n \n")
    with pytest.raises(DataError, match="no such folder of repositories"):
        swe_bench(write_rows(tmp_path, row(repo)), tmp_path / "missing")


def test_without_git(tmp_path: Path, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    path, made = write_rows(tmp_path, row(repo)), tmp_path / "made"
    made.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(made))
    monkeypatch.setenv("PATH", str(made))
    with pytest.raises(ConfigError, match="'git' is not installed"):
        swe_bench(path, repo.folder.parent)
    assert below(made) == []  # nothing is left of a load that failed


# --- ids that are cut off --------------------------------------------------------------------------------------------


def test_which_reported_ids_are_meant() -> None:
    reported = ["t.py::a[1 2]", "t.py::a[1-x]", "t.py::a[2]", "t.py::ab[1]", "t.py::a", "t.py::c[1", "t.py::c[1 2]"]
    wanted = ["t.py::a", "t.py::a[1", "t.py::a[2]", "t.py::a[3", "t.py::b", "t.py::c[1", "t.py::a["]
    assert {name: match(name, reported) for name in wanted} == {
        "t.py::a": ("t.py::a",),
        "t.py::a[1": ("t.py::a[1 2]", "t.py::a[1-x]"),
        "t.py::a[2]": ("t.py::a[2]",),
        "t.py::a[3": (),
        "t.py::b": (),
        "t.py::c[1": ("t.py::c[1",),
        "t.py::a[": ("t.py::a[1 2]", "t.py::a[1-x]", "t.py::a[2]"),
    }


@settings(max_examples=60)
@given(st.text(alphabet="a[] 1", min_size=1, max_size=6), st.sets(st.text(alphabet="a[] 1", max_size=6), max_size=6))
def test_ids_match_themselves_or_a_beginning(wanted: str, reported: set[str]) -> None:
    found = match(wanted, sorted(reported))
    assert set(found) <= reported
    if wanted in reported:
        assert found == (wanted,)
    elif "[" not in wanted:
        assert found == ()
    assert all(name.startswith(wanted) for name in found)


# --- measured --------------------------------------------------------------------------------------------------------


def test_rows_settle(tmp_path: Path, repo: Repo, bench: Bench) -> None:
    useless = row(repo, instance_id="useless", patch=new_file("more.py"))
    bad = row(repo, instance_id="bad", patch="")
    with swe_bench(write_rows(tmp_path, bad, row(repo), useless), repo.folder.parent) as loaded:
        settled = loaded.settled(bench, repetitions=1)
        (problem,) = settled.problems
        names = ("tests/test_shapes.py::test_oblong",)
        kept = ("tests/test_shapes.py::test_square",)
        assert (problem.fail_to_pass, problem.pass_to_pass, problem.sensitive) == (names, kept, names)
        assert [(item.id, item.line) for item in settled.dropped] == [("bad", 1), ("useless", 3)]
        assert "no test fails with the bug and passes with the reference repair" in settled.dropped[1].reason
        assert settled.folder == loaded.folder
