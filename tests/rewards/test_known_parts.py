"""A rubric in JSON needs nothing but ``import turngate``: every reward and gate that is shipped is known by then."""

import json
import subprocess
import sys

from turngate.rewards import (
    EventCost,
    FromEvidence,
    InformationGain,
    LengthCost,
    Repetition,
    Rubric,
    UnitTests,
    cap_process,
    requires,
)

MIXED = Rubric(
    rewards=(
        UnitTests(name="tests", soft=True),
        FromEvidence(name="neat", evidence="neat"),
        EventCost(name="void", evidence="void_turn"),
        LengthCost(name="long", start=2, limit=8),
        Repetition(name="again"),
        InformationGain(name="gain"),
    ),
    gates=(requires("ok", on="neat"), cap_process(0.3)),
)


def python(program: str, given: str = "") -> str:
    result = subprocess.run([sys.executable, "-c", program], input=given, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_a_rubric_of_every_sort_loads_after_importing_turngate_alone():
    program = "import sys, turngate; print(turngate.Rubric.model_validate_json(sys.stdin.read()).model_dump_json())"
    assert json.loads(python(program, MIXED.model_dump_json())) == MIXED.model_dump(mode="json")


def test_importing_any_module_of_rewards_makes_nothing_else_known():
    program = """
import importlib, pkgutil, turngate
known = {**turngate.Reward.catalogue(), **turngate.Gate.catalogue()}
import turngate.rewards
for found in pkgutil.walk_packages(turngate.rewards.__path__, "turngate.rewards."):
    importlib.import_module(found.name)
print(sorted((turngate.Reward.types | turngate.Gate.types).keys() - known.keys()), len(known) >= 45)
"""
    assert python(program) == "[] True"
