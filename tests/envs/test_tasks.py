"""What ``tasks`` may say: a source, a part, its table, its name, a user's own class or function.

1. What opens is what plays; what is wrong is one line with key and file.
2. An environment refuses tasks of another kind.
3. Splits are read when they are first asked for, and held-out tasks are so by their id.
"""

import json
import pickle
import sqlite3
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import turngate
from turngate.envs.code.sources import GeneratedCode
from turngate.envs.lock import LockEnv, LockTasks
from turngate.envs.sql.sources import Spider
from turngate.envs.tasks import GivenTasks, TaskList, TasksBySplit, TaskSourcePart, open_source, part_of, split_of
from turngate.errors import ConfigError, UnknownName
from turngate.types import Task

SQL = "turngate/Sql-v1"
MINE = '''
    from typing import Literal

    from turngate import Task
    from turngate.envs.lock import LockTasks
    from turngate.envs.tasks import TaskSourcePart

    def red(*, n: int = 2):
        """Locks that are all red."""
        return [
            Task(id=f"red/{i}", env_id="turngate/Lock-v1", prompt="Open.", private={"dials": (0, 0, 0)},
                 split="train" if i else "heldout")
            for i in range(n)
        ]

    class Same(TaskSourcePart):
        """The tasks that ship."""
        type: Literal["same"] = "same"

        def open(self):
            return LockTasks()

    def broken():
        raise OSError("no disk")

    def strange():
        return ["red"]
'''


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A user's module in the current folder."""
    (tmp_path / "my_tasks.py").write_text(textwrap.dedent(MINE))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    before = dict(TaskSourcePart.types)
    yield "my_tasks"
    sys.modules.pop("my_tasks", None)
    TaskSourcePart.types.clear()
    TaskSourcePart.types.update(before)


@pytest.fixture
def spider(tmp_path: Path) -> Path:
    """Two questions of dev and three of train, of which one cannot be graded."""
    folder = tmp_path / "spider"
    (folder / "database" / "pets").mkdir(parents=True)
    connection = sqlite3.connect(folder / "database" / "pets" / "pets.sqlite")
    connection.executescript("CREATE TABLE dogs (name TEXT, age INT); INSERT INTO dogs VALUES ('Rex', 3), ('Bo', 5);")
    connection.close()
    dogs = ["SELECT name FROM dogs ORDER BY age", "SELECT count(*) FROM dogs", "SELECT nope FROM dogs"]
    for name, queries in (("dev.json", dogs[:2]), ("train_spider.json", dogs)):
        rows = [{"db_id": "pets", "question": f"Dogs {i}?", "query": query} for i, query in enumerate(queries)]
        (folder / name).write_text(json.dumps(rows))
    return folder


def play(env: turngate.TurnEnv, task: Task) -> float | None:
    """The outcome of the oracle's episode."""
    env.reset(seed=0, options={"task": task})
    for action in env.oracle(task):
        *_, info = env.step(action)
    return info["score"].outcome


# --- what opens -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["table", "part"])
def test_a_spider_folder_by_name(spider: Path, form: str):
    named = {"type": "spider", "folder": str(spider)} if form == "table" else Spider(folder=spider)
    env = turngate.make(SQL, tasks=named)
    assert (env.split, env.tasks.splits) == ("train", ("train", "dev"))
    assert [env.tasks.size(split) for split in env.tasks.splits] == [2, 2]
    for split in env.tasks.splits:
        task = env.tasks.task(split, 0)
        assert (task.id, task.split, play(env, task)) == (f"spider/{split}/0", split, 1.0)
        assert env.tasks.find(task.id) == task
    assert env.reset(seed=3)[1]["task_id"].startswith("spider/train/")
    env.close()


def test_a_bird_folder_by_name(spider: Path):
    (spider / "dev_databases").symlink_to(spider / "database")
    row = {"db_id": "pets", "question": "How many?", "SQL": "SELECT count(*) FROM dogs", "evidence": "dogs bark"}
    (spider / "dev.json").write_text(json.dumps([row]))
    env = turngate.make(SQL, tasks={"type": "bird", "folder": spider})
    assert (env.tasks.splits, env.tasks.size("dev")) == (("dev",), 1)
    assert play(env, env.tasks.find("bird/dev/0")) == 1.0
    env.close()


def test_own_sqlite_questions_are_held_out_by_their_id(spider: Path, tmp_path: Path):
    lines = [{"question": f"{i}?", "sql": "SELECT count(*) FROM dogs", "ordered": False} for i in range(40)]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, lines)))
    table = {"type": "sqlite", "database": spider / "database/pets/pets.sqlite", "questions": tmp_path / "q.jsonl"}
    env = turngate.make(SQL, tasks=table)
    held = {f"q/{i}" for i in range(1, 41) if split_of(f"q/{i}", 5) == "heldout"}
    assert 3 <= len(held) <= 14
    assert {env.tasks.task("heldout", i).id for i in range(env.tasks.size("heldout") or 0)} == held
    assert env.tasks.size("train") == 40 - len(held)
    assert play(env, env.tasks.task("heldout", 0)) == 1.0
    assert turngate.make(SQL, tasks={**table, "held_out": 0}).tasks.splits == ("train",)


def test_the_bundled_questions_and_the_generated_ones_by_name():
    assert turngate.make(SQL, tasks="reference_sql").tasks.splits == ("reference",)
    default, easy = turngate.make(SQL), turngate.make(SQL, tasks={"type": "generated_sql", "max_level": 1})
    assert default.tasks.splits == easy.tasks.splits == ("train", "heldout", "newfamily")
    assert turngate.make(SQL, tasks="generated_sql").tasks.task("train", 5) == default.tasks.task("train", 5)
    assert {easy.tasks.task("train", i).private["level"] for i in range(10)} == {1}


def test_a_function_of_a_user(mine: str):
    env = turngate.make("turngate/Lock-v1", tasks={"type": "my_tasks:red", "n": 4})
    assert (env.split, env.tasks.splits) == ("heldout", ("heldout", "train"))
    assert (env.tasks.size("train"), env.tasks.size("heldout")) == (3, 1)
    assert play(env, env.tasks.find("red/2")) == 1.0


def test_a_class_of_a_user(mine: str):
    env = turngate.make("turngate/Lock-v1", tasks="my_tasks:Same", split="heldout")
    assert env.tasks.task("heldout", 3) == LockTasks().task("heldout", 3)


def own_locks(*, n: int = 2, colour: str = "red") -> list[Task]:
    return [Task(id=f"{colour}/{i}", env_id="e", prompt="Open.", private={"dials": (0, 0, 0)}) for i in range(n)]


def needy(*, n: int) -> list[Task]:
    return own_locks(n=n)


OWN = f"{__name__}:own_locks"


@pytest.mark.parametrize("own", [own_locks, TaskList(own_locks()), OWN, {"type": OWN, "n": 2}])
def test_an_environment_declares_its_tasks_in_whatever_form_it_takes_them(own: Any):
    class OwnLocks(LockEnv):
        turn_spec = replace(LockEnv.turn_spec, tasks=own)

    env = OwnLocks()
    assert [env.tasks.task("train", i).id for i in range(env.tasks.size("train"))] == ["red/0", "red/1"]
    assert play(env, env.tasks.find("red/1")) == 1.0
    more = {"type": OWN, "n": 3, "colour": "blue"}  # as a config writes it
    assert OwnLocks(tasks=more).tasks.find("blue/2").prompt == "Open."
    assert OwnLocks(tasks=needy_locks).tasks.size("train") == 4  # another function stands for a source too


def needy_locks(*, n: int = 4) -> list[Task]:
    return needy(n=n)


def test_settings_without_a_default_have_to_be_named():
    class Needy(LockEnv):
        turn_spec = replace(LockEnv.turn_spec, tasks=needy)

    with pytest.raises(ConfigError, match=r"tasks\.n"):
        Needy()
    assert Needy(tasks={"type": f"{__name__}:needy", "n": 1}).tasks.size("train") == 1


def test_two_functions_of_one_name_are_two():
    def made(n: int) -> Any:
        def tasks(*, at: int = n) -> list[Task]:
            return own_locks(n=at)

        return tasks

    one, other = made(1), made(2)
    assert [LockEnv(tasks=which).tasks.size("train") for which in (one, other, one)] == [1, 2, 1]


def test_tasks_of_no_environment_are_given_to_it():
    env = turngate.make("turngate/Lock-v1", tasks=GivenTasks())
    task = LockTasks().task("train", 7)
    assert play(env, task) == 1.0
    for options in ({}, {"task": "lock/train/7"}):
        with pytest.raises(ConfigError, match="has no tasks of its own; give it one"):
            env.reset(seed=0, options=options)


def test_a_source_that_the_environment_opened_is_closed_with_it(monkeypatch: pytest.MonkeyPatch):
    closed = []

    class Holding(TaskList):
        def close(self) -> None:
            closed.append(self)

    monkeypatch.setattr(LockEnv, "open_tasks", lambda self, part: Holding([LockTasks().task("train", 0)]))
    env = LockEnv()
    env.close()
    assert closed == [env.tasks]
    own = Holding([LockTasks().task("train", 0)])
    LockEnv(tasks=own).close()  # a source that was handed over belongs to whoever made it
    assert len(closed) == 1


# --- what is wrong ----------------------------------------------------------------------------------------------------


class NoSplits:
    def size(self, split: str) -> int:
        return 0

    def task(self, split: str, index: int) -> None:
        raise IndexError


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        ({"type": "spyder"}, "tasks: unknown task source type 'spyder'; did you mean 'spider'"),
        ({"type": "spider", "fodler": "x"}, "unknown key 'tasks.fodler'; did you mean 'folder'?"),
        ({"type": "spider"}, "key 'tasks.folder' is missing"),
        ({"folder": "x"}, "tasks: a task source needs a type; known: "),
        ({"type": "spider", "folder": "no/such"}, "tasks.folder: there is no folder 'no/such'"),
        ({"type": "bird", "folder": "empty"}, "tasks.folder: the folder 'empty' is empty"),
        ({"type": "spider", "folder": "."}, "tasks.folder: '.' holds neither 'train_spider.json' nor 'dev.json'"),
        ({"type": "sqlite", "database": "x", "questions": "y"}, "tasks.database: there is no file 'x'"),
        ({"type": "sqlite", "database": "my_tasks.py", "questions": "y"}, "tasks.questions: there is no file 'y'"),
        ({"type": "generated_sql", "families": ["shp"]}, "tasks: unknown family 'shp'; did you mean 'shop'"),
        ({"type": "quixbugs", "folder": "."}, "tasks: 'quixbugs' gives tasks of code repair, and SqlEnv plays SQL"),
        ({"type": "my_tasks:broken"}, "tasks: 'my_tasks:broken' raised OSError: no disk"),
        ({"type": "my_tasks:strange"}, "must return tasks or a TaskSource; among them is 'red'"),
        ({"type": "my_tasks:red", "n": 0}, "the task source holds no tasks"),
        ({"type": "my_tasks:red", "m": 1}, "unknown key 'tasks.m'"),
        (7, "tasks: 7 is neither a task source nor a table with its type; make one of a list or generator of tasks: "),
        (NoSplits(), "; a source also has splits, find"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("mine")
def test_what_is_wrong_is_one_line_with_the_key(tasks: Any, said: str):
    Path("empty").mkdir()
    with pytest.raises(ConfigError) as caught:
        turngate.make(SQL, tasks=tasks)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unreadable_row_names_key_and_file(spider: Path):
    (spider / "dev.json").write_text('[{"db_id": "pets", "question": "Dogs?"}]')
    table = {"type": "spider", "folder": str(spider)}
    with pytest.raises(ConfigError, match=r"^tasks: .*/dev\.json, field 'query': record 0: is missing$"):
        turngate.make(SQL, tasks=table, split="dev")
    assert turngate.make(SQL, tasks=table, split="train").tasks.size("train") == 2  # nobody asked for the other
    (spider / "train_spider.json").write_text("[]")
    env = turngate.make(SQL, tasks=table)
    with pytest.raises(ConfigError, match=r"^tasks: .*/train_spider\.json: holds no questions$"):
        env.reset(seed=0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"question": "a", "sql": "SELECT 1", "id": "x"}\n\n{"question": "b", "sql": "SELECT 2", "id": "x"}',
         ", line 3, field 'id': the id 'x' is used twice, first in line 1"),
        ('{"question": "a", "sql": "SELECT 1"}\n[1, 2]', ", line 2: must be a JSON object, got [1, 2]"),
        ('"text"', ", line 1: must be a JSON object, got 'text'"),
        ('{"question": 7, "sql": "SELECT 1"}', ", line 1, field 'question': must be a text, got 7"),
        ('{"question": "a"}', ", line 1, field 'sql': is missing"),
        ('{"question": "", "sql": "SELECT 1"}', ", line 1, field 'question': is empty"),
        ('{"question": "a", "sql": "S", "ordered": 1}', ", line 1, field 'ordered': must be true or false, got 1"),
        ("", ": holds no questions"),
        ("\n  \n", ": holds no questions"),
    ],
)  # fmt: skip
def test_a_file_of_questions_speaks_of_itself(spider: Path, tmp_path: Path, text: str, said: str):
    """The file that is wrong, its line and field, and no word of Python's or of our classes."""
    file = tmp_path / "q.jsonl"
    file.write_text(text)
    table = {"type": "sqlite", "database": spider / "database/pets/pets.sqlite", "questions": file}
    with pytest.raises(ConfigError) as caught:
        turngate.make(SQL, tasks=table)
    assert str(caught.value).startswith(f"tasks: {file}{said}")
    assert "_OwnRow" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", ": holds no questions"),
        ("{}", ": must be a list of questions, [{…}, …]"),
        ("[3]", ": record 0: must be a JSON object, got 3"),
    ],
)
def test_a_list_of_questions_speaks_of_itself(spider: Path, text: str, said: str):
    (spider / "dev.json").write_text(text)
    with pytest.raises(ConfigError) as caught:
        turngate.make(SQL, tasks={"type": "spider", "folder": spider}, split="dev")
    assert str(caught.value) == f"tasks: {spider / 'dev.json'}{said}"


def test_questions_that_none_of_can_be_graded(spider: Path):
    (spider / "dev.json").write_text('[{"db_id": "pets", "question": "Dogs?", "query": "SELECT nope FROM dogs"}]')
    with pytest.raises(ConfigError, match=r"'dev' holds no tasks; the first .* is spider/dev/0: the gold query"):
        turngate.make(SQL, tasks={"type": "spider", "folder": spider}, split="dev")


def test_every_environment_says_what_fits():
    spider = {"type": "spider", "folder": "."}
    with pytest.raises(ConfigError, match="use one of code, generated_code, pairs, quixbugs, swe_bench, or package"):
        part_of(spider, GeneratedCode(), "X")
    with pytest.raises(ConfigError, match="and LockEnv plays locks; use one of lock, or package"):
        LockEnv(tasks=spider)
    with pytest.raises(ConfigError, match="Own has no tasks of its own"):
        part_of(None, None, "Own")
    assert part_of(spider, None, "Own").type == "spider"  # an environment of a user may play anything


# --- splits -----------------------------------------------------------------------------------------------------------


def test_splits_are_read_once_and_when_asked_for():
    read = []

    def reader(split: str) -> TaskList:
        read.append(split)
        return TaskList([Task(id=f"{split}/{i}", env_id="e", prompt="", split=split) for i in range(2)])

    source = TasksBySplit({"a": lambda: reader("a"), "b": lambda: reader("b"), "none": lambda: TaskList([])})
    assert (source.splits, read) == (("a", "b", "none"), [])
    assert (source.find("b/1").id, read) == ("b/1", ["b"])
    assert (source.size("a"), source.size("a"), read) == (2, 2, ["b", "a"])
    with pytest.raises(ConfigError, match=r"^tasks: split 'none' holds no tasks$"):
        source.size("none")
    with pytest.raises(UnknownName, match="unknown split 'c'"):
        source.size("c")


def test_one_in_so_many_is_held_out():
    # shares of 2000 ids by hash: 1/5 and 1/2 within three standard errors (0.027, 0.034)
    for one_in, share, slack in ((5, 0.2, 0.027), (2, 0.5, 0.034)):
        held = sum(split_of(f"t/{i}", one_in) == "heldout" for i in range(2000)) / 2000
        assert abs(held - share) < slack
    assert {split_of(f"t/{i}", 0) for i in range(50)} == {"train"}


def test_what_is_opened_can_be_sent_to_a_process(spider: Path):
    source = open_source(Spider(folder=spider), lambda part: part.open())
    source.size("dev")
    assert pickle.loads(pickle.dumps(source)).task("dev", 0) == source.task("dev", 0)
