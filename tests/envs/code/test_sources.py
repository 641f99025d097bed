"""Task sources of code repair, by name: what others have written is measured on the environment's own bench."""

from pathlib import Path

import pytest

import turngate
from tests.envs.code.loaders.pairs_on_disk import PLAIN, PUBLISHED, write
from tests.envs.code.loaders.repository import row, write_rows
from turngate.envs.code.sources import Pairs
from turngate.envs.code.taskset import write as write_set
from turngate.envs.tasks import split_of
from turngate.errors import ConfigError

CODE = "turngate/CodeRepair-v1"


def play(env, task_id):
    task = env.tasks.find(task_id)
    env.reset(seed=0, options={"task": task})
    for action in env.oracle(task):
        *_, info = env.step(action)
    return info["score"].outcome


@pytest.fixture
def made(bench):
    """Environments that are closed at the end. ``bench``: skips where there is no sandbox."""
    opened = []

    def make(**settings):
        opened.append(turngate.make(CODE, test_deadline_s=20, **settings))
        return opened[-1]

    yield make
    for env in opened:
        env.close()


def test_own_pairs_by_name(tmp_path, made):
    folder = write(tmp_path / "mine", PLAIN)
    env = made(tasks={"type": "pairs", "folder": str(folder), "repetitions": 1, "held_out": 2})
    ids = ["mine/area", "mine/far"]
    assert {name: env.tasks.find(name).split for name in ids} == {name: split_of(name, 2) for name in ids}
    assert env.tasks.find("mine/far").private["fail_to_pass"] == ("test_far.py::test_far",)
    assert play(env, "mine/far") == 1.0


def test_quixbugs_by_name(tmp_path, made):
    folder = write(tmp_path, {**PUBLISHED, "correct_python_programs/digits.py": "def digits(number):\n    return 0\n"})
    env = made(tasks={"type": "quixbugs", "folder": folder, "repetitions": 1, "held_out": 0})
    assert (env.tasks.splits, env.tasks.size("train")) == (("train",), 1)
    assert [item.id for item in env.tasks.dropped] == ["quixbugs/digits"]
    assert play(env, "quixbugs/tail_of") == 1.0


def test_swe_bench_rows_by_name(tmp_path, repo, made):
    rows = write_rows(tmp_path, row(repo, split="dev"), row(repo, instance_id="b"))
    table = {"type": "swe_bench", "rows": rows, "repositories": repo.folder.parent, "repetitions": 1, "held_out": 0}
    env = made(tasks=table)
    assert (env.tasks.splits, env.split) == (("dev", "train"), "dev")
    trees = Path(env.tasks.find("b").private["folder"])
    assert play(env, "ada__shapes-1") == 1.0
    assert trees.is_dir()
    env.close()
    assert not trees.exists()
    assert made(tasks={**table, "split": "dev", "trees": tmp_path / "trees"}).tasks.splits == ("dev",)


def test_a_task_set_by_name(tmp_path, harvested, package, made):
    write_set(tmp_path / "set", harvested.problems, [])
    env = made(tasks={"type": "code", "folder": tmp_path / "set"})
    wanted = {problem.id: split_of(problem.id, 5) for problem in harvested.problems}
    assert {name: env.tasks.find(name).split for name in wanted} == wanted


def test_generated_problems_by_name(made):
    env = made(tasks={"type": "generated_code", "families": ["clamp"], "max_level": 1})
    assert env.tasks.task("heldout", 0).private["about"]["family"] == "clamp"
    assert made(tasks="generated_code").tasks.task("train", 3) == made().tasks.task("train", 3)


def test_a_bench_of_its_own_measures_where_no_environment_does(tmp_path, bench):
    folder = write(tmp_path / "mine", {name: text for name, text in PLAIN.items() if "area" not in name})
    source = Pairs(folder=folder, repetitions=1, held_out=0).open()
    assert source.task("train", 0).private["sensitive"] == ("test_far.py::test_far",)


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        ({"type": "code", "folder": "none"}, "tasks.folder: there is no folder 'none'"),
        ({"type": "code", "folder": "empty"}, "tasks.folder: the folder 'empty' is empty"),
        ({"type": "code", "folder": "."}, "tasks: problems.jsonl: cannot be read: there is no such file"),
        ({"type": "quixbugs", "folder": "."}, "tasks.folder: '.' is not laid out as QuixBugs: it has no"),
        ({"type": "pairs", "folder": "."}, "tasks: .: holds neither the layout of QuixBugs nor NAME.py"),
        ({"type": "swe_bench", "rows": "x", "repositories": "."}, "tasks.rows: there is no file 'x'"),
        ({"type": "swe_bench", "rows": "rows", "repositories": "r"}, "tasks.repositories: there is no folder 'r'"),
        ({"type": "swe_bench", "rows": "rows", "repositories": "."}, "tasks: rows, line 1: is not JSON"),
        ({"type": "spider", "folder": "."}, "tasks: 'spider' gives tasks of SQL, and CodeRepairEnv plays code repair"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line_with_the_key(tmp_path, monkeypatch, made, tasks, said):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("rows").write_text("{\n")
    with pytest.raises(ConfigError) as caught:
        made(tasks=tasks)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
