"""Rubrics by name, file, table and path: what a config and ``turngate rescore`` take."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from tests.cli.small_run import write_config
from tests.helpers.command_line import turngate_at
from turngate.config.run_config import load
from turngate.envs.lock import RUBRIC as LOCK
from turngate.errors import ConfigError, UnknownName
from turngate.problems import one_line
from turngate.rewards import Rubric
from turngate.rubrics import SHIPPED, NamedRubric, find_rubric, rubric_names
from turngate.store import Store
from turngate.store.folder import RunFolder

TOML = """
[[rewards]]
type = "from_evidence"
name = "opened"
evidence = "opened"
kind = "outcome"

[[gates]]
type = "needs_outcome"
at_least = 0.5
"""


class Holder(BaseModel):
    rubric: NamedRubric | None = None


def held(value: Any) -> Rubric | None:
    return Holder.model_validate({"rubric": value}).rubric


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_rubric_is_found_by_its_name(name: str):
    assert isinstance(find_rubric(name), Rubric)
    assert name in rubric_names()


def test_a_rubric_is_a_name_a_path_a_file_or_a_table(tmp_path: Path):
    json_file, toml_file = tmp_path / "own.json", tmp_path / "own.toml"
    json_file.write_text(LOCK.model_dump_json())
    toml_file.write_text(TOML.replace("[[gates]]", "").split('type = "needs')[0])
    assert held("lock") == held("turngate.envs.lock:RUBRIC") == held(str(json_file)) == held(LOCK) == LOCK
    assert held(LOCK.model_dump(mode="json")) == LOCK
    assert [reward.name for reward in find_rubric(str(toml_file)).rewards] == ["opened"]


def test_a_table_or_file_adds_to_another_rubric(tmp_path: Path):
    gate = {"type": "needs_outcome", "at_least": 0.75}
    style = {"type": "from_evidence", "name": "style", "evidence": "style", "weight": 0.1}
    found = held({"extends": "lock", "rewards": [style], "gates": [gate]})
    assert found is not None
    assert found.rewards[:-1] == LOCK.rewards
    assert found.rewards[-1].name == "style"
    assert found.gates[:-1] == LOCK.gates
    assert found.gates[-1].model_dump()["at_least"] == 0.75
    file = tmp_path / "more.toml"
    file.write_text('extends = "lock"\n[[gates]]\ntype = "needs_outcome"\nat_least = 0.75\n')
    assert find_rubric(str(file)).gates == (*LOCK.gates, found.gates[-1])


def test_a_run_is_paid_by_a_rubric_that_adds_to_another(tmp_path: Path):
    more = '[env.rubric]\nextends = "lock"\n[[env.rubric.gates]]\ntype = "needs_outcome"\nat_least = 0.75\n'
    write_config(tmp_path, steps=1, after=more)
    assert turngate_at(tmp_path, "train", "lock.toml") == 0
    run = RunFolder(tmp_path / "runs" / "lock")
    (entry,) = load(run.config).env
    assert entry.rubric is not None
    assert [gate.name for gate in entry.rubric.gates] == [*(gate.name for gate in LOCK.gates), "needs_outcome(0.75)"]
    paid = {bool(score.total) for group in Store(run.path).read(1) for score in group.scores if score.outcome == 0}
    assert paid <= {False}, "nothing is paid without success"


def test_files_that_extend_each_other_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name, base in (("a", "b"), ("b", "a")):
        (tmp_path / f"{name}.toml").write_text(f'extends = "{base}.toml"\n[[gates]]\ntype = "success_only"\n')
    with pytest.raises(ConfigError, match=r"cannot extend itself: a\.toml extends b\.toml extends a\.toml"):
        find_rubric("a.toml")


def test_a_rubric_is_written_back_whole():
    dumped = Holder(rubric=LOCK).model_dump(mode="json")
    assert dumped["rubric"]["rewards"][0]["name"] == "opened"
    assert Holder.model_validate(dumped).rubric == LOCK


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("lok", "rubric: unknown rubric 'lok'; did you mean 'lock'?"),
        ({"extends": "lok", "gates": []}, "rubric: unknown rubric 'lok'; did you mean 'lock'?"),
        ({"extends": "lock", "gates": []}, "rubric: extends = 'lock' adds nothing"),
        ({"extends": "lock"}, "rubric: extends = 'lock' adds nothing; name the rubric itself, or add rewards or gates"),
        ({"extends": 3, "gates": []}, "rubric: extends is 3; it must name a rubric, such as 'sql'"),
        ("json:dumps", "which is not a rubric; it must be a turngate.Rubric"),
        ("no.such:RUBRIC", "rubric: 'no.such:RUBRIC' cannot be imported"),
        ({"rewards": [{"type": "from_evidence", "name": "a", "evidence": "b"}]}, "rubric: the rubric has no outcome"),
        ({"rewards": [{"type": "from_evidence", "nam": "a"}]}, "unknown key 'rubric.rewards[0].nam'; did you mean"),
        ("nowhere.toml", "rubric: nowhere.toml: cannot be read"),
    ],
)
def test_what_is_no_rubric_is_one_line(value: Any, said: str):
    data = {"rubric": value}
    with pytest.raises(ValidationError) as caught:
        Holder.model_validate(data)
    assert said in one_line(caught.value, Holder, data)


def test_a_toml_file_that_is_none_is_named(tmp_path: Path):
    (tmp_path / "bad.toml").write_text("= 3")
    with pytest.raises(Exception, match=r"bad\.toml: is not TOML"):
        find_rubric(str(tmp_path / "bad.toml"))
    (tmp_path / "gate.toml").write_text(TOML.replace("at_least", "at_lest"))
    with pytest.raises(ConfigError, match=r"gate\.toml: unknown key 'gates\[0\]\.at_lest'; did you mean 'at_least'"):
        find_rubric(str(tmp_path / "gate.toml"))
    with pytest.raises(UnknownName):
        find_rubric("nothing")
