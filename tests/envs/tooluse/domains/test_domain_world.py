"""A domain of one's own, from a module and a file of tasks, as ``docs/domains.md`` shows it."""

import re
import string
from pathlib import Path

import pytest

import turngate
from tests.envs.tooluse.domains.play import ID, domain, facts_of, tasks_of
from turngate.errors import ConfigError, UserError

PAGE = (Path(__file__).parents[4] / "docs" / "domains.md").read_text()


@pytest.fixture
def parcels(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = next(code for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "# parcels.py" in code)
    (tmp_path / "parcels.py").write_text(module)
    (tmp_path / "tasks.jsonl").write_text(re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)[1])
    return {"tools": {"type": "domain", "module": "parcels.py"}, "tasks": {"type": "tool_tasks", "file": "tasks.jsonl"}}


def test_a_domain_of_ones_own(parcels):
    with turngate.make(ID, **parcels) as env:
        facts, total = facts_of(env, "p1", env.oracle(env.tasks.find("p1")))
        assert facts["solved"]
        assert facts["user_said"] == "It is P1."
        assert total >= 1.0
        assert not facts_of(env, "p1", ["send P1", "answer refused"])[0]["solved"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('{"owner": "ada"}', '{"owner": 3}', "parcels.P1"),
        ('"wish": "Send my parcel.", ', "", "the user: key 'wish' is missing"),
        ('"parcels": {', '"packets": {', "the state has no table 'parcels'"),
        ('"tells": ["done"]', '"tells": ["done", "42"]', "does not tell what it has to"),
    ],
)
def test_rows_that_do_not_fit_are_refused_by_name(parcels, old, new, said):
    text = Path("tasks.jsonl").read_text()
    assert old in text
    Path("tasks.jsonl").write_text(text.replace(old, new, 1))
    with pytest.raises((ConfigError, UserError)) as raised:
        turngate.make(ID, **parcels)
    assert said in str(raised.value)
    assert "line 1" in str(raised.value)


def test_the_page_names_only_what_there_is():
    programs = [code for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "turngate.make" in code]
    assert programs
    for program in programs:
        exec(compile(program, "docs/domains.md", "exec"), {})


WIDE = {ord(one): ord(one) + 0xFEE0 for one in string.ascii_uppercase + string.digits}
ODD = WIDE | {ord("-"): "\N{NON-BREAKING HYPHEN}"}
"""Letters and digits of full width, and the hyphen at which no line breaks."""


@pytest.mark.parametrize("name", ["retail", "travel", "helpdesk"])
def test_names_are_looked_up_in_one_form_of_their_letters_by_tools_and_by_rules(name):
    """The same calls in odd letters do the same, and break the same rules."""
    with domain(name) as env:
        for task in tasks_of(env, 12):
            plain = env.oracle(task)
            odd = [one if one.startswith(("say", "answer")) else _odd(one) for one in plain]
            assert plain != odd
            assert facts_of(env, task, odd)[0]["solved"], (task.id, odd)
            skipped = [[one for one in calls if not one.startswith("verify")] for calls in (plain, odd)]
            broken = [facts_of(env, task, calls)[0].get("policy_violation") for calls in skipped]
            assert broken[0] == broken[1], task.id


def _odd(action):
    """An action whose arguments stand in odd letters; its tool is as it was."""
    tool, _, arguments = action.partition(" ")
    return f"{tool} {arguments.translate(ODD)}" if arguments else action
