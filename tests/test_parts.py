"""The idiom of parts: lookup by name, entry point and path, functions as parts, errors with their key."""

import pickle
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from turngate import parts
from turngate.errors import ConfigError, DuplicateName, MissingExtra, UnknownName
from turngate.parts import Part, families, when_used
from turngate.problems import keys_at, one_line, spelled


class Scale(Part):
    """A number times something."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "scale"
    fallback: ClassVar[str] = "twice"
    from_function: ClassVar[bool] = True

    def __call__(self, number: float) -> float:
        assert self.function is not None
        result: float = self.function(number, **self.settings())
        return result


class Twice(Scale):
    """Two times."""

    type: Literal["twice"] = "twice"
    more: float = 0.0
    """Added at the end."""

    def __call__(self, number: float) -> float:
        return 2 * number + self.more


def times(number: float, *, factor: float, more: float = 0.0) -> float:
    """So many times."""
    return factor * number + more


class Tree(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    scale: Scale = Twice()
    scales: tuple[Scale, ...] = ()
    maybe: Scale | None = None
    named: dict[str, int] = Field(default_factory=dict)


@pytest.fixture
def registered() -> Iterator[None]:
    """``times`` under its own name, and nothing left behind."""
    before = dict(Scale.types)
    Scale.of_function("times", times)
    yield
    Scale.types.clear()
    Scale.types.update(before)


def problem(data: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        Tree.model_validate(data)
    return one_line(caught.value, Tree, data)


def test_a_part_is_a_table_a_name_or_itself():
    tree = Tree.model_validate({"scale": {"type": "twice", "more": 1}, "scales": ["twice", Twice(more=3)]})
    assert (tree.scale(2), tree.scales[0](2), tree.scales[1](2)) == (5.0, 4.0, 7.0)


def test_a_table_without_a_type_is_the_fallback():
    assert Tree.model_validate({"scale": {"more": 1}}).scale == Twice(more=1)


def test_the_base_class_looks_up_too():
    assert Scale.model_validate({"type": "twice", "more": 1}) == Twice(more=1)


@pytest.mark.usefixtures("registered")
def test_a_function_is_a_part_with_its_keywords_as_settings():
    tree = Tree.model_validate({"scale": {"type": "times", "factor": 3}})
    assert tree.scale(2) == 6.0
    assert tree.scale.settings() == {"factor": 3.0, "more": 0.0}
    assert type(tree.scale).__doc__ == "So many times."


@pytest.mark.usefixtures("registered")
def test_a_tree_of_parts_survives_json():
    tree = Tree.model_validate({"scale": {"type": "times", "factor": 3}, "scales": ["twice"], "maybe": {"more": 1}})
    written = tree.model_dump(mode="json")
    assert written["scale"] == {"type": "times", "factor": 3.0, "more": 0.0}
    assert Tree.model_validate(written) == tree


def test_a_copy_is_checked_like_a_new_part():
    with pytest.raises(ValidationError, match="mor"):
        Twice().model_copy(update={"mor": 1})
    assert Twice(more=1).model_copy(update={"more": 2}) == Twice(more=2)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"scale": {"type": "twise"}}, "scale: unknown scale type 'twise'; did you mean 'twice' or 'times'?"),
        ({"scale": "twise"}, "scale: unknown scale type 'twise'; did you mean 'twice' or 'times'?"),
        ({"scale": {"type": 3}}, "scale: a scale needs a type; known: times, twice"),
        ({"scale": 3}, "scale: a scale must be a table with a type, or a name"),
        ({"scale": {"type": "twice", "mor": 1}}, "unknown key 'scale.mor'; did you mean 'more'?"),
        ({"scales": ["twice", {"mor": 1}]}, "unknown key 'scales[1].mor'; did you mean 'more'?"),
        ({"scales": [{"type": "times"}]}, "key 'scales[0].factor' is missing"),
        ({"maybe": {"type": "twice", "more": "x"}}, "maybe.more: Input should be a valid number"),
        ({"scales": [{"type": "times", "fctor": 1, "factor": 1}]}, "'scales[0].fctor'; did you mean 'factor'?"),
        ({"scael": "twice"}, "unknown key 'scael'; did you mean 'scale'"),
        ({"scale": "no.such:thing"}, "scale: 'no.such:thing' cannot be imported: ModuleNotFoundError"),
        ({"scale": "os:pth"}, "scale: unknown name in os 'pth'; did you mean 'path'"),
        ({"scale": "os:path"}, "which is not a scale; it must be a subclass of"),
        ({"scale": "json:JSONDecoder"}, "which is not a scale"),
    ],
)
def test_what_is_wrong_is_one_line_with_key_value_and_closest_name(data: dict[str, Any], said: str):
    line = problem(data)
    assert said in line
    assert "\n" not in line


def test_keys_of_a_part_are_those_of_the_part_that_the_table_names():
    assert keys_at(Tree, ["scale"], {"scale": {"type": "twice"}}) == ["more", "type"]
    assert spelled(["scales", 1, "more"]) == "scales[1].more"


USER_MODULE = '''
    from abc import abstractmethod

    from turngate.parts import Part
    from tests_parts_family import Scale

    class Thrice(Scale):
        """Three times."""
        plus: int = 0
        def __call__(self, number):
            return 3 * number + self.plus

    class Tuned(Scale):
        """Base class of scales that are tuned."""
        @abstractmethod
        def tune(self):
            """Which tone is the first."""

    class Untuned(Tuned):
        """The tone is missing."""

    def halved(number, *, floor: float = 0.0):
        return max(number / 2, floor)

    def untyped(number, *, floor=0.0):
        return number

    VALUE = 3
'''


@pytest.fixture
def user_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module in the current folder that no path of Python's leads to."""
    (tmp_path / "own_scales.py").write_text(textwrap.dedent(USER_MODULE))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "tests_parts_family", sys.modules[__name__])
    before = dict(Scale.types)
    yield
    Scale.types.clear()
    Scale.types.update(before)
    sys.modules.pop("own_scales", None)


@pytest.mark.usefixtures("user_module")
def test_a_class_of_the_users_own_module_needs_no_type_and_is_written_back_by_its_path():
    tree = Tree.model_validate({"scale": {"type": "own_scales:Thrice", "plus": 1}})
    assert tree.scale(2) == 7
    written = tree.model_dump(mode="json")
    assert written["scale"] == {"type": "own_scales:Thrice", "plus": 1}
    assert Tree.model_validate(written) == tree
    assert "own_scales:Thrice" not in Scale.names()


@pytest.mark.usefixtures("user_module")
def test_a_function_of_the_users_own_module_is_a_part():
    assert Tree.model_validate({"scale": {"type": "own_scales:halved", "floor": 2}}).scale(2) == 2.0


@pytest.mark.usefixtures("user_module")
@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"scale": "own_scales:untyped"}, "argument 'floor' of scale 'own_scales:untyped' needs a type annotation"),
        (
            {"scale": "own_scales:Untuned"},
            "scale 'own_scales:Untuned' is own_scales.Untuned, which lacks tune; write that",
        ),
        ({"scale": "own_scales:VALUE"}, "'own_scales:VALUE' is 3, which is not a scale"),
        ({"scale": {"type": "own_scales:Thrice", "pls": 1}}, "unknown key 'scale.pls'; did you mean 'plus'?"),
    ],
)
def test_a_path_to_what_is_no_part_says_so(data: dict[str, Any], said: str):
    assert said in problem(data)


@pytest.mark.usefixtures("user_module")
def test_entry_points_of_other_packages_are_names(monkeypatch: pytest.MonkeyPatch):
    entries = (
        EntryPoint("thrice", "own_scales:Thrice", "turngate.scales"),
        EntryPoint("broken", "own_scales:nothing", "turngate.scales"),
    )
    monkeypatch.syspath_prepend(".")  # an installed package
    monkeypatch.setattr(parts, "plugin_entries", lambda group: entries if group == "turngate.scales" else ())
    tree = Tree.model_validate({"scale": {"type": "thrice", "plus": 1}})
    assert tree.scale(2) == 7
    assert tree.model_dump()["scale"] == {"type": "thrice", "plus": 1}
    assert {"thrice", "twice", "broken"} <= Scale.names()
    assert "entry point 'broken' (own_scales:nothing) cannot be loaded" in problem({"scale": "broken"})


@pytest.mark.usefixtures("user_module")
def test_two_packages_that_bring_one_name_are_told_apart(monkeypatch: pytest.MonkeyPatch):
    entries = tuple(EntryPoint("both", f"own_scales:{name}", "turngate.scales") for name in ("Thrice", "halved"))
    monkeypatch.setattr(parts, "plugin_entries", lambda group: entries)
    said = "scale: several packages have a scale 'both': own_scales:Thrice, own_scales:halved; write one of the paths"
    assert problem({"scale": "both"}) == said
    assert Tree.model_validate({"scale": "own_scales:halved"}).scale(4) == 2.0


def test_a_taken_type_is_refused():
    with pytest.raises(DuplicateName, match="scale type 'twice' is taken by"):

        class Twice2(Scale):
            type: Literal["twice"] = "twice"


def test_a_part_made_of_another_one_leaves_its_name_alone():
    class Louder(Twice):
        def __call__(self, number: float) -> float:
            return 10 * super().__call__(number)

    assert Scale.find("twice") is Twice
    assert Louder(more=1)(2) == 50


def test_families_never_share_their_names():
    assert Scale in set(families())
    with pytest.raises(UnknownName):
        Scale.find("veto")


def test_when_used_imports_at_the_first_use():
    code = """
    import sys
    from turngate.parts import when_used
    lazy = when_used("sqlite3")
    assert "sqlite3" not in sys.modules
    assert lazy.sqlite_version and "sqlite3" in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_when_used_names_the_extra_of_a_missing_package():
    with pytest.raises(MissingExtra, match=r"turngate\[train\]"):
        when_used("no_such_package_at_all").anything  # noqa: B018


def test_a_user_error_inside_a_part_keeps_its_key():
    class Picky(Scale):
        type: Literal["picky"] = "picky"

        def model_post_init(self, context: Any) -> None:
            raise ConfigError("cannot be")

    assert problem({"scales": ["picky"]}) == "scales[0]: cannot be"
    del Scale.types["picky"]


def test_a_part_that_was_made_from_a_function_is_sent_to_other_processes():
    from tests.run import rank_parts
    from turngate.trainer.loss.base import Objective

    part = Objective.load({"type": "tests.run.rank_parts:scaled", "by": 0.5})
    sent = pickle.loads(pickle.dumps(part))
    assert sent == part
    assert type(sent).function is rank_parts.scaled
    assert sent.by == 0.5


WHERE_SHIPPED = """
import importlib, pkgutil
import turngate
from turngate.parts import families

for found in pkgutil.walk_packages(turngate.__path__, "turngate."):
    if not any(word in found.name for word in ("vllm", ".inside", "new_package", "__main__")):
        importlib.import_module(found.name)
for family in families():
    for name, part in family.types.items():
        places = {part.__module__, part.__module__.rpartition(".")[0]}
        if not places & {*family.shipped_in, family.__module__}:
            print(f"{family.__qualname__}.shipped_in lacks {part.__module__}, which defines '{name}'")
print(len(list(families())), "families")
"""


def test_every_shipped_part_is_defined_where_its_family_looks() -> None:
    """However little of the package was imported before its name is looked up."""
    done = subprocess.run([sys.executable, "-c", WHERE_SHIPPED], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.endswith(" families\n")
    assert done.stdout.count("\n") == 1, done.stdout
