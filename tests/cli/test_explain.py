"""``turngate explain``: what it prints of a small tree, and that the real one explains each of its keys."""

import io
import math
import sys
import types
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest
from pydantic import BaseModel, Field
from rich.console import Console

from tests.helpers.command_line import turngate
from turngate import parts
from turngate.cli.explain import Key, explain, find, first_sentence, holds, keys, toml_value
from turngate.config.run_config import Config
from turngate.errors import ConfigError, UnknownName, UserError
from turngate.parts import Part
from turngate.rubrics import SHIPPED
from turngate.sinks import ConsoleLines, Tensorboard, Wandb
from turngate.trainer.loss.base import Penalty


class Tune(Part):
    """What is played."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "tune"
    bars: int = Field(4, ge=1, le=9)
    """Length in bars."""


class March(Tune):
    """Left, right. Then ``left`` again."""

    type: Literal["march"] = "march"
    speed: Literal["slow", "quick"] = "slow"
    """How fast."""


class Jig(Tune):
    """Faster."""


class Waltz(Tune):
    type: Literal["waltz"] = "waltz"


class Stage(BaseModel):
    """Where it is played."""

    width_m: float = Field(8.0, gt=0)
    """Width of the stage."""


class Open(BaseModel):
    type: Literal["open"] = "open"
    seats: tuple[str, ...] = ("front", "back")


class Closed(BaseModel):
    """A hall."""

    type: Literal["closed"] = "closed"


class Act(BaseModel):
    """A part of an evening."""

    parts: tuple["Act", ...] = ()


class Concert(BaseModel):
    name: str
    """Name of ``it``."""
    folder: Path | None = None
    tune: Tune = March(bars=2)
    encores: tuple[Tune, ...] = ()
    """Played at the end."""
    stage: Stage = Stage()
    more: tuple[Stage, ...] = Field((), max_length=3)
    rain: Stage | None = None
    hall: Annotated[Open | Closed, Field(discriminator="type")] = Open()


def printed(path: str = "") -> str:
    out = io.StringIO()
    explain(Console(file=out, width=30, soft_wrap=True), Concert, path)
    return out.getvalue()


TREE = """\
name  (text, must be given)
    Name of it.
folder  (path, may be left out)
tune = {type = "march", bars = 2}  (tune)
    What is played.
encores = []  (list of tunes)
    Played at the end.

[stage]
    Where it is played.
stage.width_m = 8.0  (number > 0)
    Width of the stage.

[[more]]
    Where it is played.
more.width_m = 8.0  (number > 0)
    Width of the stage.

[rain]  may be left out
    Where it is played.
rain.width_m = 8.0  (number > 0)
    Width of the stage.

hall = "open"  (table with a type)

turngate explain KEY tells more about one key; where it takes a part, it lists the types of part.
"""
TUNES = """\
tune = {type = "march", bars = 2}  (tune)
    What is played.

types (turngate explain tune.NAME prints the keys of one):
  march  Left, right.
  waltz

keys that every type has:
tune.bars = 4  (whole number ≥ 1, ≤ 9)
    Length in bars.
"""
MARCH = """\
march: Left, right. Then left again.
encores.bars = 4  (whole number ≥ 1, ≤ 9)
    Length in bars.
encores.speed = "slow"  ("slow" or "quick")
    How fast.
"""
HALLS = """\
hall = "open"  (table with a type)

types (turngate explain hall.NAME prints the keys of one):
  open
  closed  A hall. (from tests)
"""


@pytest.fixture(autouse=True)
def _of_this_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of other packages say where they come from; these are to look like ours."""
    for module in ("turngate.tunes", "tests.halls"):
        monkeypatch.setitem(sys.modules, module, sys.modules[__name__])
    for model in (Tune, March, Waltz, Open):
        monkeypatch.setattr(model, "__module__", "turngate.tunes")
    for model in (Closed, Jig):
        monkeypatch.setattr(model, "__module__", "tests.halls")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", TREE),
        ("tune", TUNES),
        ("encores.march", MARCH),
        ("tune.march.speed", 'tune.march.speed = "slow"  ("slow" or "quick")\n    How fast.\n'),
        ("tune.bars", "tune.bars = 4  (whole number ≥ 1, ≤ 9)\n    Length in bars.\n"),
        ("hall", HALLS),
        ("hall.open", 'open: \nhall.seats = ["front", "back"]  (list of texts)\n'),
        ("stage.width_m", "stage.width_m = 8.0  (number > 0)\n    Width of the stage.\n"),
    ],
)
def test_a_small_tree_in_full(path: str, expected: str) -> None:
    assert printed(path) == expected


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("tuen", r"^unknown key 'tuen'; did you mean 'tune'"),
        ("stage.wdith_m", r"^unknown key below 'stage': 'wdith_m'; did you mean 'width_m'\?$"),
        ("tune.marhc", r"^unknown key below 'tune': 'marhc'; did you mean 'march' or "),
        ("tune.march.sped", r"^unknown key below 'tune\.march': 'sped'; did you mean 'speed' or "),
        ("hall.opne", r"^unknown key below 'hall': 'opne'; did you mean 'open' or "),
        ("name.first", r"^unknown key 'name\.first': 'name' has no keys below it$"),
        ("tune.nowhere:March", r"^'nowhere:March' cannot be imported"),
        ("nowhere:March", r"^unknown key 'nowhere:March'"),
        ("width_m", r"^unknown key 'width_m'; did you mean 'stage\.width_m'"),
        ("march.speed", r"^unknown key 'march\.speed'; did you mean 'tune\.march\.speed'"),
        ("march.sped", r"^unknown key 'march'; "),
    ],
)
def test_a_wrong_key_is_one_line_with_the_closest(path: str, problem: str) -> None:
    with pytest.raises(UserError, match=problem) as error:
        find(Concert, path)
    assert "\n" not in str(error.value)
    assert isinstance(error.value, UnknownName | ConfigError)


def test_parts_of_other_packages_say_so_and_a_broken_one_spares_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tune, "types", dict(Tune.types))
    entries = [
        EntryPoint("jig", "halls:Jig", "turngate.tunes"),
        EntryPoint("broken", "no_such_module:Tune", "turngate.tunes"),
    ]
    monkeypatch.setitem(sys.modules, "halls", types.SimpleNamespace(Jig=Jig))
    monkeypatch.setattr(parts, "plugin_entries", lambda group: tuple(entries) if group == "turngate.tunes" else ())
    text = printed("tune")
    assert "\n  broken  (entry point 'broken' (no_such_module:Tune) cannot be loaded: ModuleNotFoundError" in text
    assert "\n  jig     Faster. (from tests)\n  march   Left, right.\n" in text
    assert printed("tune.jig").startswith("jig: Faster.\n")


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (int | None, "whole number"),
        (str | int, "text or whole number"),
        (dict[str, Any], "table"),
        (Literal["a", 1], '"a" or 1'),
        (list[bool], "list of: true or false"),
        (list[Penalty], "list of penalties"),
        (Annotated[str, Field(min_length=2)], "text at least 2 characters"),
        (Annotated[tuple[int, ...], Field(max_length=3)], "list of whole numbers at most 3 of them"),
        (tuple[tuple[str, ...], ...], "list of lists of texts"),
        (Sequence[str], "list of texts"),
        (Any, "value"),
    ],
)
def test_types_in_words(annotation: object, words: str) -> None:
    class Holder(BaseModel):
        one: annotation  # type: ignore[valid-type]

    field = Holder.model_fields["one"]
    assert holds(field.annotation, field.metadata).words == words


def test_a_table_that_holds_tables_like_itself_is_explained_once() -> None:
    assert [(key.path, key.help) for key in keys(Act)] == [("parts", "A part of an evening.")]


def test_a_key_that_a_subclass_redefines_keeps_its_help_and_lists_of_penalties_are_spelled_right() -> None:
    class Hornpipe(Tune):
        """Faster still."""

        bars: int = 8

    assert [(key.path, key.default, key.help) for key in keys(Hornpipe)][1:] == [("bars", "8", "Length in bars.")]
    assert next(key for key in SECTIONS if key.path == "loss.penalties").holds.words == "list of penalties"


def test_a_setting_of_a_rule_is_annotated_with_its_help_and_its_bounds() -> None:
    assert keys_of("credit.grpo")["eps"].holds.words == "number ≥ 0"
    assert keys_of("credit.turn_gae")["gamma"].holds.words == "number ≥ 0, ≤ 1"
    assert keys_of("credit.capo")["outcome"].holds.words == '"earned" or "settled"'


def test_the_help_of_a_rubric_names_the_shipped_ones() -> None:
    assert [name for name in SHIPPED if name not in key_at("env.rubric").help] == []


def test_values_as_they_are_written() -> None:
    assert toml_value({"a": [1, "x"], "b": True}) == '{a = [1, "x"], b = true}'
    assert toml_value((Tensorboard(), Wandb(offline=True))) == '["tensorboard", {type = "wandb", offline = true}]'
    assert toml_value(Path("a/b")) == '"a/b"'
    assert [toml_value(value) for value in (math.inf, -math.inf, 0.5)] == ["inf", "-inf", "0.5"]
    assert first_sentence(ConsoleLines) == "One line per step on the terminal."


def key_at(path: str) -> Key:
    found = find(Config, path)
    assert isinstance(found, Key)
    return found


def keys_of(path: str) -> dict[str, Key]:
    found = find(Config, path)
    assert not isinstance(found, Key)
    return {key.path: key for key in keys(found)}


# --- the real tree ---------------------------------------------------------------------------------------------------


def shipped_parts() -> set[type[BaseModel]]:
    """Every part that a config can name and that ships with turngate."""
    variants = {model for key in keys(Config) for model in key.holds.variants}
    found = {family.find(name) for family in parts.families() for name in family.names()} | variants
    return {part for part in found if part.__module__.startswith("turngate.")}


SECTIONS = [*keys(Config)]
PARTS = sorted(shipped_parts(), key=lambda part: part.__name__)


def test_every_key_of_a_section_has_help() -> None:
    silent = [key.path for key in SECTIONS if not (key.help or any(map(first_sentence, key.holds.variants)))]
    assert not silent, "\n".join(silent)


def test_every_shipped_part_says_what_it_is() -> None:
    silent = [f"{part.__module__}.{part.__qualname__}" for part in PARTS if not first_sentence(part)]
    assert not silent, "\n".join(silent)


def test_every_key_of_a_part_has_help() -> None:
    silent = sorted(
        f"{part.__module__}.{part.__name__}.{key.path}" for part in PARTS for key in keys(part) if not key.help
    )
    assert silent == []


@pytest.mark.parametrize(
    "path",
    [
        *("auxiliary.gtr", "auxiliary.interventions", "branching.prover", "branching.rise", "examine.test_weights"),
        *("examine.tournament", "guide.guide", "guide.herl", "guide.ladder", "guide.memory"),
    ],
)
def test_a_method_says_what_of_its_paper_is_left_out(path: str) -> None:
    console = Console(file=io.StringIO(), width=120)
    explain(console, Config, path)
    assert "\nLeft out of the paper: " in console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("source", "page", "line"),
    [
        ("envs/planned.py", "guidance.md", "| `turngate/Planned-v1` | the judge that scores plans in stage 2"),
        (
            "envs/search/engine/self_search.py",
            "search_env.md",
            "Left out of the paper: query, passages and answer as one text",
        ),
        ("envs/search/rubric.py", "search_env.md", "Left out of the paper: its environment, in which an agent"),
    ],
)
def test_so_does_what_no_key_of_a_config_leads_to(source: str, page: str, line: str) -> None:
    """An environment, a retriever and a rubric: in the docstring, and on the page that lists it."""
    root = Path(__file__).parents[2]
    assert "Left out of the paper: " in (root / "turngate" / source).read_text()
    assert line in (root / "docs" / page).read_text()


def test_every_key_can_be_asked_for() -> None:
    for key in SECTIONS:
        found = find(Config, key.path)
        assert isinstance(found, Key)
        assert found == key


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert turngate("explain") == 0
    assert (
        "\ntrain.group_size = 8  (whole number ≥ 2, ≤ 100000)\n    Episodes of each task in a step: the siblings"
        in capsys.readouterr().out
    )
    assert turngate("explain", "sink") == 0
    assert "\n  tensorboard  Event files for TensorBoard, one scalar per metric" in capsys.readouterr().out
    assert turngate("explain", "sink.wandb") == 0
    assert 'sink.project = "turngate"  (text)\n' in capsys.readouterr().out
    assert turngate("explain", "sink.turngate.sinks:Wandb") == 0
    assert 'sink.project = "turngate"  (text)\n' in capsys.readouterr().out
    assert turngate("explain", "trian") == 2
    assert capsys.readouterr().err == "error: unknown key 'trian'; did you mean 'train' or 'sink' or 'branching'?\n"


def test_the_type_of_a_part_may_be_left_out_where_one_alone_has_the_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert turngate("explain", "episodes.replay") == 0
    told = capsys.readouterr().out
    assert told.startswith("episodes.mixed.replay = ")
    assert all(name in told for name in ("remix", "repo", "rlep", "exgrpo"))
    assert turngate("explain", "episodes.replay.rlep") == 0
    assert turngate("explain", "episodes.replai") == 2
