"""The public names are a list; changing it is a decision, so it is written down twice: there and here."""

import subprocess
import sys
from types import ModuleType

import pytest

import turngate

PUBLIC = """
    Action AgentFault Completion ConfigError Credit DataError DuplicateName Ending EnvError EpisodeError EstimateRefused
    Evidence Finding FromEvidence Gate Group Guidance MismatchError MissingExtra NotFiniteError Observation OutOfMemory
    OutOfRoom Outcome Parameter PartError PolicyError ProcessLost Record Registered ReplayRefused Reward RewardEvent
    Rubric RunError Score ScoredGroup ShapeError StoreError Task TaskList TaskRefused TaskSource Tool ToolCall ToolEnv
    ToolError Trajectory Turn TurnEnv TurnSpec TurnTable TurngateError UnknownName UserError VerifierError WriteError
    cap_process check_env make needs_outcome register registered requires tool veto
""".split()


def test_the_public_names_are_these():
    assert list(turngate.__all__) == PUBLIC == sorted(PUBLIC)
    assert dir(turngate) == PUBLIC


def test_every_name_exists_and_says_what_it_is():
    things = {name: getattr(turngate, name) for name in PUBLIC}
    assert [name for name, thing in things.items() if isinstance(thing, ModuleType)] == []
    assert [name for name, thing in things.items() if not (thing.__doc__ or "").strip()] == []
    assert [name for name, thing in things.items() if not thing.__module__.startswith("turngate.")] == []


def test_nothing_else_is_exported():
    found = {name for name, thing in vars(turngate).items() if not name.startswith("_")}
    modules = {name for name in found if isinstance(getattr(turngate, name), ModuleType)}
    helpers = {"import_module", "TYPE_CHECKING", "Any"}
    assert found - modules - helpers <= set(PUBLIC)


def test_every_error_is_public():
    def below(kind):
        return {kind.__name__}.union(*map(below, kind.__subclasses__()))

    ours = {name for name in below(turngate.TurngateError) if hasattr(turngate.errors, name)}
    assert ours <= set(PUBLIC)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'turngate' has no attribute 'Rubrik'"):
        turngate.Rubrik  # noqa: B018


def test_a_star_import_brings_the_list_and_nothing_more():
    program = "from turngate import *; print(*sorted(name for name in dir() if not name.startswith('__')))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.split() == PUBLIC


def test_the_version_is_the_one_of_the_package():
    import tomllib
    from pathlib import Path

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert turngate.__version__ == project["version"]
