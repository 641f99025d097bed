"""Generated problems: splits that share nothing, equal tasks in every process, settings, and the plain runner."""

import hashlib
import json
import os
import pickle
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.envs.code.asking import answers_of
from turngate.envs.code.generated.families import FAMILIES, HELD_OUT
from turngate.envs.code.generated.families.family import Bug, FunctionForm, family, form
from turngate.envs.code.generated.generate import MODULE, TESTS, _task, build, draft
from turngate.envs.code.grading.extracted_asserts import ask_module, holds
from turngate.envs.code.problem import Problem
from turngate.envs.code.sources import GeneratedCode
from turngate.envs.seeded_random import SeededRandom
from turngate.envs.tasks import TaskSource, part_of
from turngate.errors import ConfigError, UnknownName
from turngate.types import Task

SOURCE = GeneratedCode().open()


@pytest.fixture(scope="module")
def train() -> list[Task]:
    return [SOURCE.task("train", index) for index in range(2200)]


@pytest.fixture(scope="module")
def heldout() -> list[Task]:
    return [SOURCE.task("heldout", index) for index in range(800)]


def test_the_plain_runner_agrees(tmp_path: Path):
    for index in range(3):
        problem = Problem.of(SOURCE.task("train", index))
        folder = tmp_path / str(index)
        folder.mkdir()
        for path, text in {**problem.files, **problem.hidden}.items():
            (folder / path).write_text(text or "")
        with as_file(files("turngate.envs.code.grading.inside") / "run_plain.py") as runner:
            command = [sys.executable, "-I", "-S", str(runner), "report.xml", *problem.test_files]
            done = subprocess.run(command, cwd=folder, capture_output=True, timeout=60)
        cases = list(ElementTree.parse(folder / "report.xml").iter("testcase"))
        failed = tuple(case.get("name") for case in cases if case.find("failure") is not None)
        assert done.returncode == 1
        assert failed == problem.fail_to_pass
        assert {case.get("name") for case in cases} == {*problem.fail_to_pass, *problem.pass_to_pass}


def test_every_test_is_asked_and_tells_the_bug_from_the_repair(train: list[Task]):
    """What the tests expect is in no text that reaches the code, and the values alone decide as the tests would."""
    for task in train[::11]:
        problem = Problem.of(task)
        assert problem.asked == {name: name for name in (*problem.fail_to_pass, *problem.pass_to_pass)}
        module = ask_module(problem.hidden[TESTS] or "")
        assert module is not None
        assert "assert" not in module.text
        for text, failing in ((problem.solved[MODULE], ()), (problem.files[MODULE], problem.fail_to_pass)):
            names: dict[str, Any] = {}
            exec(text or "", names)
            for test in problem.asked:
                name = test.partition("::")[2]
                answers = answers_of(module.text, {"solution": names}, name)
                assert holds(module.functions[name], name, answers) is (test not in failing), (test, problem.hidden)


def test_it_is_a_source_of_endless_tasks():
    assert isinstance(SOURCE, TaskSource)
    assert SOURCE.splits == ("train", "heldout", "newfamily")
    assert SOURCE.size("train") is None
    task = SOURCE.task("heldout", 10**12)
    assert (task.id, task.split, task.env_id) == ("code/heldout/1000000000000", "heldout", "turngate/CodeRepair-v1")
    assert SOURCE.find(task.id) == task
    problem = Problem.of(task)
    assert (problem.runner, problem.requires, problem.test_files) == ("plain", (), ("test_solution.py",))
    assert set(problem.about) == {"family", "function", "level", "bug"}


def test_siblings_share_one_task():
    assert SOURCE.task("train", 11) is GeneratedCode().open().task("train", 11)


def contents(tasks: list[Task]) -> set[tuple[str, str]]:
    return {(task.private["files"][MODULE], task.private["solved"][MODULE]) for task in tasks}


def test_no_problem_of_train_is_held_out(train: list[Task], heldout: list[Task]):
    assert len(contents(train)) > 1500
    assert len(contents(heldout)) > 600
    assert not contents(train) & contents(heldout)


def test_held_out_families_show_only_in_newfamily(train: list[Task], heldout: list[Task]):
    fresh = [SOURCE.task("newfamily", index) for index in range(60)]
    assert {task.private["about"]["family"] for task in fresh} == set(HELD_OUT)
    assert {task.private["about"]["family"] for task in train} == set(FAMILIES) - set(HELD_OUT)
    assert {task.private["about"]["family"] for task in heldout} == set(FAMILIES) - set(HELD_OUT)


def test_families_are_drawn_evenly(train: list[Task]):
    families = Counter(task.private["about"]["family"] for task in train)
    assert max(families.values()) < 2 * 2200 / 48
    assert min(families.values()) > 0.5 * 2200 / 48


@pytest.mark.parametrize("split", SOURCE.splits)
def test_tasks_are_equal_in_another_process(split: str):
    code = (
        "import hashlib, json, sys\n"
        "from turngate.envs.code.sources import GeneratedCode\n"
        "tasks = [GeneratedCode().open().task(sys.argv[1], index) for index in (*range(20), 10**9)]\n"
        "print(hashlib.sha256(json.dumps([[t.prompt, dict(t.private), t.hints] for t in tasks]).encode()).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "4242", "PYTHONPATH": os.pathsep.join(sys.path)}
    printed = subprocess.run(
        [sys.executable, "-c", code, split], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    here = [SOURCE.task(split, index) for index in (*range(20), 10**9)]
    text = json.dumps([[task.prompt, dict(task.private), task.hints] for task in here])
    assert printed.stdout.strip() == hashlib.sha256(text.encode()).hexdigest()


def test_tasks_do_not_depend_on_what_was_asked_before_or_on_the_thread():
    wanted = [SOURCE.task("train", index) for index in range(40)]
    _task.cache_clear()
    with ThreadPoolExecutor(4) as threads:
        again = list(threads.map(lambda index: SOURCE.task("train", index), reversed(range(40))))
    assert again[::-1] == wanted


def test_a_source_survives_pickling():
    source = GeneratedCode(families=["clamp"], max_level=1).open()
    assert pickle.loads(pickle.dumps(source)).task("train", 5) == source.task("train", 5)


def test_settings_restrict_families_and_levels():
    source = GeneratedCode(families=["clamp", "average"], max_level=1).open()
    abouts = [source.task("train", index).private["about"] for index in range(60)]
    assert {about["family"] for about in abouts} == {"clamp", "average"}
    assert {about["level"] for about in abouts} == {1}
    easy = GeneratedCode(max_level=1).open()
    assert {easy.task("train", index).private["about"]["level"] for index in range(100)} == {1}
    assert {easy.task("newfamily", index).private["about"]["family"] for index in range(40)} == {"smallest", "steps_to"}


def test_held_out_families_can_be_chosen():
    source = GeneratedCode(held_out_families=["clamp"]).open()
    assert source.task("newfamily", 0).private["about"]["family"] == "clamp"
    seen = {source.task("train", index).private["about"]["family"] for index in range(400)}
    assert seen == set(FAMILIES) - {"clamp"}
    assert GeneratedCode(families=[*FAMILIES]).open().splits == ("train", "heldout")


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_alone_has_both_splits(name: str):
    source = GeneratedCode(families=[name], held_out_families=[]).open()
    assert source.splits == ("train", "heldout")
    train, heldout = (contents([source.task(split, index) for index in range(4)]) for split in source.splits)
    assert not train & heldout


def test_a_bug_that_changes_nothing_makes_no_problem():
    text = '''
        def $called($x):
            """Return $x and 1 more."""
            return $x + 1
    '''
    same = form(1, "next_one", text, ("swapped", "$x + 1", "1 + $x"), ("operator", "+ 1", "- 1"))
    numbers = family("numbers", same, x="x n", arguments=lambda rng, _: (rng.whole(0, 99),))
    for bug in same.bugs:
        rng = SeededRandom("nothing")
        assert build(draft(rng, numbers, same, bug), rng, "code/test/0") is None


def test_no_two_placeholders_of_a_draft_are_equal():
    crowded: FunctionForm = form(1, "a b", "def $called($x, $y): return $k", ("operator", "$k", "-$k"))
    pools = family("crowded", crowded, x="a b c", y="a b c d", k="1 2", arguments=lambda rng, _: ())
    for seed in range(50):
        drawn = draft(SeededRandom(seed), pools, crowded, Bug("operator", "$k", "-$k"))
        assert len(set(drawn.pick.values())) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"families": ["clmap"]}, "unknown family 'clmap'; did you mean 'clamp'"),
        ({"held_out_families": ["averge"]}, "unknown family 'averge'; did you mean 'average'"),
    ],
)
def test_unknown_names_come_with_the_closest(arguments: dict[str, list[str]], message: str):
    with pytest.raises(UnknownName, match=message):
        GeneratedCode(**arguments).open()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"families": ["clamp"], "held_out_families": ["clamp"]}, "both used and held out"),
        ({"families": []}, "no family is left"),
        ({"held_out_families": list(FAMILIES)}, "no family is left"),
        ({"families": ["rotate"], "max_level": 1}, "family 'rotate' has no form of level 1 or below; raise max_level"),
    ],
)
def test_settings_that_leave_nothing_are_refused(arguments: dict[str, object], message: str):
    with pytest.raises(ConfigError, match=message):
        GeneratedCode(**arguments).open()  # type: ignore[arg-type]


@pytest.mark.parametrize("level", [0, 4])
def test_levels_out_of_range_are_refused(level: int):
    with pytest.raises(ConfigError, match=f"tasks.max_level: Input should be .* equal to [13], got {level}"):
        part_of({"type": "generated_code", "max_level": level}, None, "CodeRepairEnv")


def test_unknown_splits_ids_and_numbers_are_refused():
    with pytest.raises(UnknownName, match="unknown split 'trian'; did you mean 'train'"):
        SOURCE.size("trian")
    with pytest.raises(UnknownName, match="unknown split 'test'"):
        SOURCE.task("test", 0)
    with pytest.raises(UnknownName, match="unknown task 'code/train/x'"):
        SOURCE.find("code/train/x")
    with pytest.raises(UnknownName, match="unknown task 'sql/train/1'"):
        SOURCE.find("sql/train/1")
    with pytest.raises(IndexError, match="task number -1"):
        SOURCE.task("train", -1)
