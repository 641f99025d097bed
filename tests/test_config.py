"""The settings tree: every mistake is one line that says where, and what was written is what is read."""

import types
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.helpers.credit_rules import CREDITS, TOKEN_CREDITS
from tests.helpers.every import for_every
from turngate.config.run_config import Config, dump, load, parse, parse_table
from turngate.config.sections import TinyModel
from turngate.errors import ConfigError, DataError
from turngate.field_help import field_help
from turngate.parts import Part
from turngate.rewards import Rubric
from turngate.trainer.credit.rule import CreditRule

RULES = {**CREDITS, **TOKEN_CREDITS}

WARM: dict[str, Any] = {"warm_start": {"episodes": 3}}


def problem(data):
    with pytest.raises(ConfigError) as caught:
        parse({**WARM, **data})
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "config.toml"

    def write(text):
        path.write_text(text)
        return path

    return write


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"trian": {}}, "unknown key 'trian'; did you mean 'train'?"),
        ({"aside": [{"type": "gtr"}]}, "unknown key 'aside'; it is called 'auxiliary' now"),
        ({"policy": {"lanes": 4}}, "unknown key 'policy.lanes'; it is called 'concurrency' now"),
        (
            {"guide": {"type": "self_hints", "speaker": {"type": "policy"}}},
            "unknown key 'guide.speaker'; it is called 'text_model' now",
        ),
        ({"train": {"step": 3}}, "unknown key 'train.step'; did you mean 'steps'?"),
        ({"model": {"layer": 2}}, "unknown key 'model.layer'; did you mean 'layers'?"),
        ({"credit": {"type": "gigpo", "gama": 1}}, "unknown key 'credit.gama'; did you mean 'gamma'?"),
        ({"credit": {"type": "returns", "std": True}}, "unknown key 'credit.std'; known: baseline, gamma, type"),
        ({"warm_start": {"episodes": 3, "lrr": 1}}, "unknown key 'warm_start.lrr'; did you mean 'lr'?"),
    ],
)
def test_an_unknown_key_names_the_closest(data, message):
    assert problem(data) == message


def test_an_unknown_key_is_told_before_a_wrong_value():
    assert "unknown key 'trian'" in problem({"seed": "x", "trian": {}})


def test_an_unknown_credit_rule_names_the_closest_or_all():
    assert "credit: unknown credit rule type 'gigp'; did you mean 'gigpo' or" in problem({"credit": {"type": "gigp"}})
    known = f"known: {', '.join(sorted(RULES))}"
    assert f"credit: unknown credit rule type 'zzz'; {known}" in problem({"credit": {"type": "zzz"}})
    assert problem({"credit": {"gamma": 1}}) == f"credit: a credit rule needs a type; {known}"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"seed": "x"}, "seed: Input should be a valid integer, unable to parse string as an integer, got 'x'"),
        ({"seed": -1}, "seed: Input should be greater than or equal to 0, got -1"),
        ({"policy": {"temperature": 0}}, "policy.temperature: Input should be greater than 0, got 0"),
        ({"policy": {"order": "fast"}}, "policy.order: Input should be 'fixed' or 'ready', got 'fast'"),
        ({"policy": {"top_p": 0}}, "policy.top_p: Input should be greater than 0, got 0"),
        ({"policy": {"top_p": 1.1}}, "policy.top_p: Input should be less than or equal to 1, got 1.1"),
        ({"policy": {"top_k": -1}}, "policy.top_k: Input should be greater than or equal to 0, got -1"),
        ({"policy": {"top_k": 1}}, "policy: top_k = 1 leaves one token, whose probability is 1, so nothing can be "),
        ({"train": 3}, "train: must be a table, got 3"),
        ({"train": {"group_size": 1}}, "train.group_size: Input should be greater than or equal to 2, got 1"),
        ({"train": {"filters": ["varied", 3]}}, "train.filters[1]: a filter must be a table with a type, or a name"),
        ({"model": {"layers": "x"}}, "model.layers: Input should be a valid integer, unable to parse string "),
        ({"model": {"width": 30}}, "model: width 30 is not a multiple of heads 4"),
        ({"name": "a/b"}, "name: cannot be the name of a folder"),
        (
            {"controls": ["shuffled"]},
            "controls[0]: Input should be 'shuffled_credit', 'shuffled_reward' or 'random_reward', got 'shuffled'",
        ),
        ({"warm_start": {}}, "warm_start: give either episodes (from the oracle) or demonstrations (a file)"),
        ({"warm_start": {"episodes": 3, "demonstrations": "x"}}, "warm_start: give either episodes"),
        ({"warm_start": None}, "a tiny new model has random weights"),
        (
            {"controls": ["random_reward"], "train": {"steps": 0}},
            "controls have no effect with train.steps = 0; leave them out",
        ),
    ],
)
def test_a_wrong_value_says_where_and_what(data, message):
    assert problem(data).startswith(message)


# --- files and overrides ---------------------------------------------------------------------------------------------


def test_a_file_is_read_and_overrides_win(file):
    path = file("seed = 3\n[warm_start]\nepisodes = 5\n[credit]\ntype = 'gigpo'\ngamma = 0.5\n[train]\nsteps = 7\n")
    config = load(path)
    assert (config.seed, config.warm_start.episodes, config.train.steps) == (3, 5, 7)
    assert (config.credit.type, config.credit.gamma) == ("gigpo", 0.5)
    config = load(
        path,
        [
            "--seed=4",
            "--credit.gamma=0.9",
            "--train.filters=[]",
            "--env.id=turngate/Lock-v1",
            "--env.kwargs.rows=12",
            "--model={layers = 2, width = 32, heads = 2}",
            '--name="quoted"',
            "--loss.aggregate=turn",
        ],
    )
    assert (config.seed, config.credit.gamma, config.train.filters, config.train.steps) == (4, 0.9, (), 7)
    assert (config.env[0].id, config.env[0].kwargs) == ("turngate/Lock-v1", {"rows": 12})
    assert config.model == TinyModel(layers=2, width=32, heads=2)
    assert (config.name, config.loss.aggregate) == ("quoted", "turn")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed=3", "'seed=3' is not an override; write --section.key=value"),
        ("--seed", "'--seed' is not an override; write --section.key=value"),
        ("--seed.x=3", "'--seed.x=3': 'seed' is a value, not a section"),
        ("--train.stepps=3", "unknown key 'train.stepps'; did you mean 'steps'?"),
        ("--train.steps=three", "train.steps: Input should be a valid integer"),
    ],
)
def test_a_wrong_override(file, override, message):
    path = file("seed = 1\n[warm_start]\nepisodes = 5\n")
    with pytest.raises(ConfigError) as caught:
        load(path, [override])
    assert str(caught.value).startswith(message)


def test_files_that_cannot_be_read(file, tmp_path):
    with pytest.raises(ConfigError, match=r"no config file '.*missing\.toml'"):
        load(tmp_path / "missing.toml")
    with pytest.raises(DataError, match=r"config.toml: Invalid value \(at line 1"):
        load(file("seed = = 1"))


def test_an_inline_table_of_the_command_line():
    assert parse_table("--env", "{rows = 12, name = 'x'}") == {"rows": 12, "name": "x"}
    with pytest.raises(ConfigError, match="--env 'rows = 12' is not a TOML inline table"):
        parse_table("--env", "rows = 12")
    with pytest.raises(ConfigError, match="--env '3' is not a table"):
        parse_table("--env", "3")


# --- there and back --------------------------------------------------------------------------------------------------

words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=8)
FILTERS = st.sampled_from(["varied", "dcpo"])
configs = st.fixed_dictionaries(
    {"warm_start": st.sampled_from([{"episodes": 3}, {"demonstrations": "a b/c.jsonl", "epochs": 2}])},
    optional={
        "name": st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]*", fullmatch=True),
        "folder": st.sampled_from(["runs", "a b/ü"]),
        "seed": st.integers(0, 2**40),
        "model": st.sampled_from(["Qwen/Qwen3-0.6B", {"layers": 1}, {"width": 64, "heads": 8}]),
        "env": st.fixed_dictionaries({"kwargs": st.dictionaries(words, st.integers() | words | st.booleans())}),
        "credit": st.sampled_from(
            [{"type": "grpo", "std": False}, {"type": "rloo"}, {"type": "gigpo", "gamma": 0.9}, {"type": "returns"}]
        ),
        "learner": st.fixed_dictionaries({"lr": st.floats(1e-9, 1.0)}),
        "train": st.fixed_dictionaries({"filters": st.lists(FILTERS, unique=True), "steps": st.integers(1, 9)}),
        "controls": st.sampled_from([[], ["shuffled_credit"], ["random_reward", "shuffled_reward"]]),
    },
)


@given(data=configs)
def test_what_is_dumped_is_read_back(data, tmp_path_factory):
    config = parse(data)
    path = tmp_path_factory.mktemp("config") / "config.toml"
    path.write_text(dump(config))
    assert load(path) == config
    assert dump(load(path)) == dump(config)


def test_a_dump_holds_every_setting(file):
    text = dump(parse(WARM))
    for line in ('name = "run"', "concurrency = 64", 'type = "grpo"', "steps = 100", 'splits = [\n    "heldout",\n]'):
        assert line in text
    assert "demonstrations" not in text  # None has no form in TOML


def test_the_tree_cannot_be_changed():
    config = parse(WARM)
    with pytest.raises(ValueError, match="frozen"):
        config.train.steps = 3


# --- the tree itself -------------------------------------------------------------------------------------------------


def models_in(annotation):
    if isinstance(annotation, type) and issubclass(annotation, Part | Rubric):
        return []  # its keys are its own
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Union, types.UnionType, Annotated, tuple):
        return [model for part in get_args(annotation) for model in models_in(part)]
    return []


def leaves(model, path=""):
    """(path, help) of every setting; a type tag and the members of a union are settings of their own."""
    for name, field in model.model_fields.items():
        sections = models_in(field.annotation)
        if not sections:
            yield f"{path}{name}", field_help(model, name)
        for section in sections:
            label = f"{section.__name__}." if len(sections) > 1 else ""
            yield from leaves(section, f"{path}{name}.{label}")


def test_the_tree_stays_small_and_every_setting_is_explained():
    found = [(path, field) for path, field in leaves(Config) if not path.startswith(("credit.", "loss."))]
    tags = {path for path, _ in found if path.endswith(".type")}
    of_stages = {path for path, _ in found if path.startswith("stages.") or path == "rounds"}  # each a run of its own
    of_methods = {path for path, _ in found if path.startswith(("method.", "env.rubric_adds."))}  # set by a method
    assert 20 < len(found) - len(tags) - len(of_stages) - len(of_methods) <= 76  # 75, and where it is played
    assert [path for path, said in found if path not in tags and not said] == []


GREEK = {
    "gamma": "γ",
    "omega": "ω",
    "lam": "λ",
    "alpha": "α",
    "beta": "β",
    "eps": "ε",
    "tau": "τ",
    "mu": "μ",
    "zeta": "ζ",
}


def as_symbol(argument):
    """``omega_fork`` as a docstring may write it, ``ω_fork``."""
    first, *rest = argument.split("_")
    return "_".join([GREEK.get(first, first), *rest])


@for_every("name", RULES)
def test_the_settings_of_a_credit_rule_are_its_arguments_and_its_docstring_names_them(name):
    arguments = [argument for argument in signature(RULES[name]).parameters if argument != "table"]
    assert list(CreditRule.find(name).model_fields) == ["type", *arguments]
    text = RULES[name].__doc__ or ""
    assert [argument for argument in arguments if argument not in text and as_symbol(argument) not in text] == []


def test_a_model_may_be_named_by_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert parse({"model": "~/models/small"}).model == str(tmp_path / "models/small")
    assert parse({"model": "Qwen/Qwen3-0.6B"}).model == "Qwen/Qwen3-0.6B"


def test_adapters_have_a_learning_rate_of_their_own():
    assert parse(WARM).learner.lr == 1e-5
    config = parse({**WARM, "learner": {"lora": {}}})
    assert config.learner.lr == 2e-4
    assert parse(config.model_dump()) == config
    assert parse({**WARM, "learner": {"lora": {}, "lr": 1e-3}}).learner.lr == 1e-3


def test_defaults_are_valid():
    config = parse(WARM)
    assert config.folder == Path("runs")
    assert parse(config.model_dump()) == config
