"""What BFCL's tasks are made of: gold calls that are read and never run, tools from docs, folders, limits."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import turngate
from tests.envs.tooluse.bfcl.bfcl_envs import make
from turngate.envs.tooluse.loaders.bfcl.functions import gold_call, tool_of_doc
from turngate.envs.tooluse.loaders.bfcl.services import Services
from turngate.envs.tooluse.loaders.bfcl.wheel import package_folder, service_class
from turngate.errors import AgentFault, ConfigError, DataError, TaskRefused
from turngate.tools.arguments import BadArguments, convert_arguments

FUNCTIONS = {"cd": ["folder"], "book": ["seat", "meals", "window"]}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.lists(VALUES, max_size=3), st.integers(0, 3))
def test_a_gold_call_is_read_as_python_reads_it(values, n_named):
    names = FUNCTIONS["book"][: len(values)]
    places = max(0, len(values) - n_named)
    spelt = [repr(value) for value in values[:places]]
    spelt += [f"{name}={value!r}" for name, value in zip(names[places:], values[places:], strict=True)]
    call = gold_call(f"book({', '.join(spelt)})", FUNCTIONS)
    assert (call.name, call.arguments) == ("book", dict(zip(names, values, strict=True)))


@pytest.mark.parametrize(
    "text",
    [
        "cd(__import__('os').getcwd())",
        "cd.__call__('a')",
        "rm(file_name='a')",
        "cd(folder=open('a').read())",
        "cd",
        "cd(",
        "cd(*['a'])",
    ],
)
def test_what_is_no_plain_call_is_refused(text):
    with pytest.raises(TaskRefused, match="cannot be read"):
        gold_call(text, FUNCTIONS)


def doc(**about):
    properties = {"value": {"description": "a value", **about}}
    return {"name": "use", "description": "Use it.", "parameters": {"properties": properties, "required": ["value"]}}


@pytest.mark.parametrize(
    ("about", "fits", "not_"),
    [
        ({"type": "string"}, "", 3),
        ({"type": "integer"}, 3, "three"),
        ({"type": "float"}, 2.5, "two"),
        ({"type": "boolean"}, True, "perhaps"),
        ({"type": "array", "items": {"type": "string"}}, ["a"], [1]),
        ({"type": "array", "items": {"type": "float"}}, [1, 2.5], ["a"]),
        ({"type": "dict", "properties": {"title": {"type": "string"}}}, {"title": "a"}, {"owner": "a"}),
    ],
)
def test_arguments_are_checked_against_the_docs(about, fits, not_):
    tool = tool_of_doc(doc(**about))
    assert convert_arguments(tool, {"value": fits})[0] == {"value": fits}
    with pytest.raises(BadArguments):
        convert_arguments(tool, {"value": not_})


def test_a_type_that_is_not_known_is_refused():
    with pytest.raises(TaskRefused, match="'value' has the type 'tuple'"):
        tool_of_doc(doc(type="tuple"))


# --- limits -----------------------------------------------------------------------------------------------------------


def services(name, **config):
    return Services({name: service_class(package_folder(None), name)}, {name: config}, long_context=False)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("power", {"base": 10, "exponent": 10**9}),
        ("power", {"base": 10**200, "exponent": 50}),
        ("logarithm", {"value": 2.0, "base": 3.0, "precision": 10**9}),
        ("square_root", {"number": 2, "precision": 10**8}),
        ("round_number", {"number": 2, "decimal_places": -(10**9)}),
        ("sum_values", {"numbers": [10**200]}),
    ],
)
def test_the_calculator_never_computes_for_ever(function, arguments):
    text, fine = services("MathAPI").call(function, arguments)
    assert "too large for the calculator" in text
    assert not fine


def test_one_episode_s_precision_is_not_another_s():
    import decimal

    import mpmath

    before = decimal.getcontext().prec, mpmath.mp.dps
    math = services("MathAPI")
    root, _ = math.call("square_root", {"number": 2, "precision": 60})
    assert "1.41421356237309504880168872420969807856967187537694" in root
    assert math.call("logarithm", {"value": 8.0, "base": 2.0, "precision": 40})[1]
    assert (decimal.getcontext().prec, mpmath.mp.dps) == before


def files():
    folder = {"type": "directory", "contents": {"b": {"type": "directory", "contents": {}}}}
    return services("GorillaFileSystem", root={"top": {"type": "directory", "contents": {"a": folder}}})


def test_a_folder_inside_of_itself_is_the_agent_s_fault():
    with pytest.raises(AgentFault, match="cp made a file system"):
        files().call("cp", {"source": "a", "destination": "a"})


def test_a_folder_too_deep_is_the_agent_s_fault():
    made = files()

    def dig():
        for _ in range(200):
            made.call("mkdir", {"dir_name": "d"})
            made.call("cd", {"folder": "d"})

    with pytest.raises(AgentFault, match="too deep"):
        dig()


def test_copies_of_copies_are_the_agent_s_fault():
    made = files()

    def double():
        for number in range(40):
            made.call("mkdir", {"dir_name": f"top{number}"})
            made.call("mv", {"source": "a", "destination": f"top{number}"})
            made.call("cd", {"folder": f"top{number}"})
            made.call("cp", {"source": "a", "destination": "c"})
            made.call("cd", {"folder": ".."})
            made.call("mv", {"source": f"top{number}", "destination": "a"})

    with pytest.raises(AgentFault, match="too many files"):
        double()


# --- where it comes from ----------------------------------------------------------------------------------------------


def test_without_the_wheel_the_line_that_installs_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(turngate.errors.UserError, match="pip install --no-deps bfcl-eval"):
        make()


def test_a_folder_that_is_none(tmp_path: Path):
    with pytest.raises(ConfigError, match="there is no folder"):
        make(folder=str(tmp_path / "none"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("")
    with pytest.raises(DataError, match="is no folder 'bfcl_eval'"):
        make(folder=str(tmp_path / "other"))


def test_a_second_copy_in_one_process_is_refused(tmp_path: Path):
    with make(categories=["base"]):
        pass
    (tmp_path / "bfcl_eval" / "data").mkdir(parents=True)
    with pytest.raises(ConfigError, match="one process takes one folder"):
        make(folder=str(tmp_path / "bfcl_eval"))


def test_the_installed_folder_can_be_named():
    with make(folder=str(package_folder(None)), categories=["miss_param"]) as env:
        assert env.tasks.size("train") == 200


def test_a_broken_row_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from turngate.envs.tooluse.loaders.bfcl import bfcl_rows

    name = "BFCL_v4_multi_turn_base.json"
    (tmp_path / "data" / "possible_answer").mkdir(parents=True)
    row = {"id": "multi_turn_base_0", "question": [[{"content": "Go."}]], "initial_config": {}}
    row["involved_classes"] = ["Nowhere"]
    (tmp_path / "data" / name).write_text(json.dumps(row) + "\n")
    (tmp_path / "data" / "possible_answer" / name).write_text('{"id": "multi_turn_base_0", "ground_truth": [[]]}\n')
    with pytest.raises(DataError, match=r"base.json, line 1: task 'multi_turn_base_0' has the service 'Nowhere'"):
        list(bfcl_rows.read_tasks(tmp_path, ["base"], held_out=0, world={}))
    (tmp_path / "data" / "possible_answer" / name).write_text('{"id": "other", "ground_truth": [[]]}\n')
    with pytest.raises(DataError, match="'multi_turn_base_0' has no gold calls"):
        list(bfcl_rows.read_tasks(tmp_path, ["base"], held_out=0, world={}))
