"""An environment that calls ``os.chdir`` while it plays moves nothing of the run.

1. Every relative path of a config leads to where the command was started: what is read is found, what is written lies
   there, and nothing lies in the folder that the environment went to.
2. A second identical command goes on with the same run.
3. Both hold where the system refuses threads a folder of their own, and a line says what that means.
"""

import json
import logging
import os
import sqlite3
import sys
from pathlib import Path

import pytest

from tests.helpers.command_line import turngate_at
from turngate.envs import own_folder
from turngate.store.folder import RunFolder

MODULE = '''
import os
from pathlib import Path
import turngate
from turngate import Evidence, FromEvidence, Reward, Rubric, Task, ToolEnv, TurnSpec, tool
from turngate.judges.examiners.base import Examiner
from turngate.types import Evidence as Fact

ELSEWHERE = Path(__file__).with_name("elsewhere")
RUBRIC = Rubric(rewards=(FromEvidence(name="ok", evidence="ok", kind="outcome", levels=(0, 1)),))


def tasks():
    os.chdir(ELSEWHERE)
    for n in range(8):
        split = "heldout" if n > 5 else "train"
        yield Task(id=f"{split}/{n}", env_id="acme/Moves-v0", prompt=f"Pay 3, account {n}.", split=split)


class Moves(ToolEnv):
    turn_spec = TurnSpec(tasks=tasks, rubric=RUBRIC, max_turns=2, has_oracle=True)

    def begin(self, task):
        os.chdir(ELSEWHERE)
        return task.prompt

    @tool
    def pay(self, amount: float) -> str:
        """Pay an amount."""
        os.chdir(ELSEWHERE)
        self.end()
        return "paid"

    def verify(self):
        os.chdir(ELSEWHERE)
        return [Evidence(name="ok", value=self.turn % 2 == 0)]

    def oracle(self, task):
        os.chdir(ELSEWHERE)
        return ["pay 3"]


class Bonus(Reward):
    evidence: str = "ok"

    @property
    def reads(self):
        return (self.evidence,)

    def verdicts(self, facts):
        os.chdir(ELSEWHERE)
        return [(None, 0.5)]


class Slow(Examiner):
    """Goes away, waits, and is still there when others go on."""

    @property
    def writes(self):
        return ("polite",)

    async def examine(self, groups, context):
        import asyncio
        os.chdir(ELSEWHERE)
        await asyncio.sleep(0)
        return [[[Fact(name="polite", value=True)] for _ in group.trajectories] for group in groups]


@tool(read_only=True)
def look(what: str) -> str:
    """Look."""
    os.chdir(ELSEWHERE)
    return "-"


turngate.register("acme/Moves-v0", f"{__name__}:Moves", description="pays, and goes away")
'''
TINY = """
[model]
layers = 1
width = 32
heads = 2
vocabulary = 300
[warm_start]
demonstrations = "demonstrations.jsonl"
epochs = 1
episodes_per_batch = 4
lr = 5e-3
"""
REST = """
[credit]
type = "tests.helpers.thinking_lock:alternating"
[policy]
turn_tokens = 4
context = 2000
concurrency = 8
examples = {examples}
[train]
steps = 1
tasks_per_step = {tasks}
group_size = 2
filters = []
[eval]
tasks = 1
[[sink]]
type = "jsonl"
folder = "numbers"
"""
FIRST = """
name = "first"
[env]
id = "goes_away:acme/Moves-v0"
rubric = "rubric.toml"
[[examine]]
type = "goes_away:Slow"
[guide]
type = "memory"
text_model = {type = "recorded", file = "replies.jsonl"}
"""
STAGES = """
name = "staged"
model = "runs/first/model"
[env]
id = "goes_away:acme/Moves-v0"
[[stages]]
name = "played"
[[stages]]
name = "stored"
episodes = {type = "stored", runs = ["runs/first"]}
"""
MANY = """
name = "many"
model = "runs/first/model"
[[env]]
id = "goes_away:acme/Moves-v0"
[[env]]
id = "turngate/Sql-v1"
tasks = {type = "sqlite", database = "data/shop.sqlite", questions = "data/asked.jsonl", held_out = 3}
[[env]]
id = "turngate/Search-v1"
kwargs = {retriever = {type = "tantivy", folder = "index"}}
[env.tasks]
type = "search_file"
questions = "data/searched.jsonl"
corpus = {type = "folder", path = "pages"}
held_out = 3
[[env]]
id = "turngate/ToolUse-v1"
kwargs = {tools = "goes_away"}
tasks = {type = "tool_tasks", file = "data/tool_tasks.jsonl", held_out = 3}
[[env]]
id = "turngate/Router-v1"
tasks = {type = "routing_questions", file = "data/routed.jsonl", held_out = 3}
[env.kwargs]
models = [{type = "text_model", name = "ann", cache = "caches/ann.jsonl", text_model = ANN, price = 0.5}]
"""
RUBRIC = """
rewards = [
    {type = "from_evidence", name = "ok", evidence = "ok", kind = "outcome", levels = [0, 1]},
    {type = "from_evidence", name = "polite", evidence = "polite", weight = 0.1},
    {type = "goes_away:Bonus", name = "bonus", weight = 0.1},
]
gates = [{type = "needs_outcome", at_least = 0.5}]
"""


ANN = '{type = "recorded", file = "replies.jsonl"}'


def lines(path: Path, *rows: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all that the configs name, and one beside it that the code goes to."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "goes_away.py").write_text(MODULE)
    (tmp_path / "rubric.toml").write_text(RUBRIC)
    lines(tmp_path / "demonstrations.jsonl", *({"task": f"train/{n}", "actions": ["pay 3"]} for n in range(4)))
    lines(tmp_path / "examples.jsonl", {"task": "train/5", "actions": ["pay 3"]})
    lines(tmp_path / "replies.jsonl", {"prompt": "x", "reply": "y"})
    data = tmp_path / "data"
    names = ("Ann", "Bob", "Cid", "Dee", "Eve", "Fay", "Gus", "Hal", "Ida", "Jan", "Kim", "Leo")
    sql = "select price from goods where name = '{}'"
    lines(data / "asked.jsonl", *({"question": f"What does {one} cost?", "sql": sql.format(one)} for one in names))
    with sqlite3.connect(data / "shop.sqlite") as base:
        base.execute("create table goods(name text, price integer)")
        base.executemany("insert into goods values (?, ?)", [(one, n + 3) for n, one in enumerate(names)])
    base.close()
    (tmp_path / "pages").mkdir()
    for one in names:
        (tmp_path / "pages" / f"{one}.txt").write_text(f"{one} lives in {one}town.")
    for file, key in (("searched", "question"), ("routed", "prompt")):
        rows = ({"id": one, key: f"Where does {one} live?", "answers": [f"{one}town"]} for one in names)
        lines(data / f"{file}.jsonl", *rows)
    looks = {"gold": [{"name": "look", "arguments": {"what": "a"}}], "goal": {"type": "calls"}}
    lines(data / "tool_tasks.jsonl", *({"id": one, "prompt": f"Look at {one}.", **looks} for one in names))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "goes_away", raising=False)
    return tmp_path


def trained(home: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Two identical commands: the second one finds the run of the first one, and nothing lies elsewhere."""
    name = text.split('"')[1]
    (home / f"{name}.toml").write_text(text)
    run = RunFolder(home / "runs" / name)
    before: dict[Path, int] = {}
    for again in (False, True):
        code = turngate_at(home, "train", f"{name}.toml")
        assert code == 0, "".join(capsys.readouterr())
        assert os.listdir(home / "elsewhere") == []
        assert run.is_complete
        written = [path for kind in ("*.safetensors", "*.parquet", "*.jsonl") for path in run.path.rglob(kind)]
        after = {path: path.stat().st_mtime_ns for path in written}
        assert len(after) >= 5
        assert not again or after == before
        before = after


@pytest.mark.timeout(600)
def test_relative_paths_lead_to_where_the_command_was_started(home, capsys, caplog, monkeypatch):
    with caplog.at_level(logging.WARNING):
        trained(home, FIRST + TINY + REST.format(tasks=2, examples='"examples.jsonl"'), capsys)
        trained(home, STAGES + REST.format(tasks=2, examples='"examples.jsonl"'), capsys)
        trained(home, MANY.replace("ANN", ANN) + REST.format(tasks=5, examples=0), capsys)
        assert "cannot give" not in caplog.text
        monkeypatch.setattr(own_folder, "_unshared", lambda: False)  # as in a container that forbids unshare
        shared = FIRST.replace("first", "shared")
        trained(home, shared + TINY + REST.format(tasks=2, examples='"examples.jsonl"'), capsys)
    told = [record.getMessage() for record in caplog.records if "cannot give" in record.getMessage()]
    assert len(told) == 1
    assert "elsewhere', and this system cannot give its thread a folder of its own" in told[0]
    names = {path.stem for path in (home / "numbers").iterdir()}
    assert names == {"first", "01-played", "02-stored", "many", "shared"}
    assert (home / "index").is_dir()
