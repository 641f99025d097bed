"""Importing turngate is cheap and loads nothing optional."""

import subprocess
import sys
from importlib.metadata import packages_distributions

import pytest

LIGHT = (
    "turngate",
    "turngate.envs",
    "turngate.rewards",
    "turngate.trainer.credit",
    "turngate.trainer.loss",
    "turngate.trainer.learner",
    "turngate.agents.policies.parts",
    "turngate.config.run_config",
    "turngate.cli.main",
)
HEAVY = ("torch", "transformers", "tokenizers", "vllm", "playwright", "docker", "matplotlib", "duckdb", "pandas")
CORE = {
    *("numpy", "gymnasium", "farama_notifications", "cloudpickle"),
    *("pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"),
    "docstring_parser",
}
MOST_MODULES = 35


def python(program, **options):
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, **options)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@pytest.mark.parametrize("module", LIGHT)
def test_nothing_optional_is_loaded(module):
    assert python(f"import sys, {module}; print(sorted(set(sys.modules) & set({HEAVY!r})))") == "[]"


def test_the_check_above_can_fail():
    assert python(f"import sys, tokenizers; print(sorted(set(sys.modules) & set({HEAVY!r})))") == "['tokenizers']"


def test_importing_says_and_makes_nothing(tmp_path):
    program = f"import sys; sys.path[:] = {sys.path!r}; import turngate"
    assert python(program, cwd=tmp_path) == ""
    assert list(tmp_path.iterdir()) == []


def test_help_and_a_mistake_on_the_command_line_import_no_work():
    """Every command is declared in a module of ``turngate.cli``, and imports what it works with when it is called."""
    rooms = tuple(f"turngate.{name}" for name in ("agents", "config", "judges", "rewards", "store", "trainer"))
    program = f"""
import sys, contextlib, io
from tests.helpers.command_line import turngate
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    codes = turngate("--help"), turngate("train", "--help"), turngate("train"), turngate("tasks", "code", "--n", "x")
print(*codes, *(name for name in sys.modules if name.startswith({rooms!r})))
"""
    assert python(program) == "0 0 2 2"


def test_importing_turngate_loads_its_core_dependencies_alone():
    """What is loaded costs time on each machine; how long it takes is measured (docs/results.md), not tested."""
    program = "import sys; known = set(sys.modules); import turngate; print(*sorted(set(sys.modules) - known))"
    modules = python(program).split()
    installed = {name.partition(".")[0] for name in modules} & set(packages_distributions())
    assert {"numpy", "gymnasium"} <= installed <= CORE | {"turngate"}, installed - CORE
    ours = [name for name in modules if name.partition(".")[0] == "turngate"]
    assert len(ours) <= MOST_MODULES, ours
