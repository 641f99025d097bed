"""The command that makes task sets, and the sets on disk: what is written, what is checked, what is refused."""

import json
import os
from dataclasses import replace

import pytest

from tests.envs.code.sums import FILES, INFO, MODULE, put
from tests.helpers.command_line import turngate
from turngate.envs.code.dataset_card import difficulty, source_of
from turngate.envs.code.problem import Problem
from turngate.envs.code.taskset import HELD_OUT, problems_of, read, sources_of, write
from turngate.envs.tasks import split_of
from turngate.errors import ConfigError, DataError, TaskRefused


@pytest.fixture
def fast(harvested, package, monkeypatch):
    """The command without measuring: "sums" gives two problems, "empty" is refused."""
    asked = []

    def give(opened, bench, *, n, seed, repetitions, workers, found, **_more):
        found(1)
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

    monkeypatch.setattr("turngate.envs.code.generated.mutation.harvest.harvest", give)
    monkeypatch.setattr("turngate.envs.code.grading.grading_sandbox.Bench", NoBench)
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
        assert found[problem.id].split == split_of(problem.id, HELD_OUT)


def test_a_fifth_of_the_tasks_is_held_out():
    splits = [split_of(f"toolz-1.0/0-{number}", HELD_OUT) for number in range(1000)]
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
        (lambda row: row.pop("solved"), r"problems.jsonl, line 2, field 'solved': is missing"),
        (lambda row: row.update(fail_to_pass=[]), r"line 2, field 'fail_to_pass': is empty"),
        (lambda row: row.update(fail_to_pass="a"), r"line 2, field 'fail_to_pass': must be a list, got 'a'"),
        (lambda row: row.update(unknown=1), r"line 2, field 'unknown': is unknown"),
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
    with pytest.raises(DataError, match=r"problems.jsonl, line 3: is not JSON"):
        read(stored)
    (stored / "problems.jsonl").write_bytes(rows + rows)
    with pytest.raises(DataError, match=r"line 3, field 'id': the id '.*' is used twice, first in line 1"):
        read(stored)
    (stored / "problems.jsonl").write_bytes(b"\n")
    with pytest.raises(DataError, match=r"problems.jsonl: holds no problems; make some with: turngate tasks code$"):
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
    assert f"{broken['id']}: the reference repair fails 1 of" in capsys.readouterr().out
    (path,) = broken["as_in_tree"].pop("solved")
    broken["solved"], broken["as_in_tree"]["solved"] = {path: "import os\nos._exit(3)\n"}, []
    rows.write_text("\n".join([json.dumps(broken), *others]) + "\n")
    assert turngate("tasks", "check", tmp_path / "set") == 1
    said = capsys.readouterr().out
    assert "do not come to their end on the reference repair: the run wrote no report (exit status 3)" in said
