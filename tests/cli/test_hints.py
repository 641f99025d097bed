"""``turngate hints``: what an environment tells, level by level, of a shipped environment and of one's own."""

import pytest

from tests.helpers.command_line import turngate
from turngate.envs.check.check_env import check_env

OWN = '''
import turngate
from turngate import Evidence, FromEvidence, Rubric, Task, ToolEnv, TurnSpec, tool

RIGHT = FromEvidence(name="right", evidence="right", kind="outcome", levels=(0, 1))
TOLD = {told}


def sums(*, n: int = 4):
    for i in range(n):
        asked, total = f"What is {{i}}0 + 7?", i * 10 + 7
        yield Task(id=f"sum/{{i}}", env_id="acme/Hinted-v{version}", prompt=asked, private={{"answer": total}})


class Hinted(ToolEnv):
    turn_spec = TurnSpec(tasks=sums, rubric=Rubric(rewards=(RIGHT,)), max_turns=2, has_oracle=True, hint_levels=2)

    def begin(self, task):
        self.said = None
        return task.prompt

    def hint(self, task, level):
        total = task.private["answer"]
        return (f"It is below {{total + 3}}.", TOLD.format(total=total))[level - 1] if level in (1, 2) else None

    @tool
    def say(self, total: int) -> str:
        """Say the sum."""
        self.said = total
        self.end()
        return "noted"

    def state(self):
        return f"{{self.task.id}} {{self.said}}"

    def verify(self):
        yield Evidence(name="right", value=self.said == self.task.private["answer"])

    def oracle(self, task):
        return [f"say {{task.private['answer']}}"]


turngate.register("acme/Hinted-v{version}", f"{{__name__}}:Hinted", description="Add.")
'''


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_all_levels_of_a_task_are_printed(capsys):
    assert turngate("hints", "turngate/Lock-v1") == 0
    assert capsys.readouterr().out == (
        "[lock/train/0] Open the lock: press the key of each colour.\n"
        "level 1: No dial takes c or d.\n"
        "level 2: red takes a.\n"
        "level 3: red takes a, green takes b.\n"
    )
    assert turngate("hints", "turngate/Lock-v1", "--task", "lock/heldout/1", "--level", "2") == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("level 2: ")


def test_hints_of_an_environment_of_ones_own(here, capsys):
    (here / "hinted.py").write_text(OWN.format(told='"Its last digit is 7."', version=0))
    assert turngate("hints", "hinted:acme/Hinted-v0", "--index", "2") == 0
    said = "[sum/2] What is 20 + 7?\nlevel 1: It is below 30.\nlevel 2: Its last digit is 7.\n"
    assert capsys.readouterr().out == said
    assert check_env("hinted:acme/Hinted-v0") == []


def test_a_hint_that_holds_the_answer_is_named_by_command_and_check(here, capsys):
    (here / "telling.py").write_text(OWN.format(told='"It is {total}."', version=1))
    assert turngate("hints", "telling:acme/Hinted-v1", "--index", "2", "--level", "2") == 0
    assert "level 2 (refused in training: it holds the answer, '27'): It is 27." in capsys.readouterr().out
    assert turngate("check", "telling:acme/Hinted-v1") == 1
    assert "[hints] level 2 of task 'sum/" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("turngate/Lock-v1", "--level", "4"), "--level is 4, but 'turngate/Lock-v1' has 3 levels"),
        (("turngate/Lock-v1", "--task", "lock/train/0", "--index", "1"), "have no effect with --task"),
        (("turngate/Lock-v1", "--split", "test"), "split 'test'"),
        (("turngate/Lock-v1", "--task", "lock/train"), "task 'lock/train'"),
        (("turngate/Lokc-v1",), "turngate/Lock-v1"),
    ],
)
def test_mistakes_are_named(words, problem, capsys):
    assert turngate("hints", *words) == 2
    assert problem in capsys.readouterr().err
