"""The overlays that ship: each says what it is, and says what is true of this repository."""

import re
from pathlib import Path

import pytest

from tests.helpers.every import for_every
from turngate.cli.methods import markdown_page
from turngate.errors import ConfigError, DataError
from turngate.methods.overlay import FOLDER, NOT_MEASURED, find, listed, parts_in, read

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.stem for path in FOLDER.glob("*.toml"))
ON_PAGES = {"reinforce_plus_plus_baseline": "reinforce_pp_base"}  # what tables call a part whose name is long
HEAD = """[method]
called = "Mine"
kind = "credit"
paper = "Mine"
year = 2026
source = "https://example.org/mine"
changes = "It changes something."
measured = "not measured"
"""


def test_every_file_is_read_and_sets_parts() -> None:
    found, broken = listed()
    assert broken == {}
    assert set(NAMES) <= set(found)
    for method in found.values():
        assert method.parts or "sync_every" in method.text or "stages" in method.settings
        assert (
            method.head.year >= int(f"20{year[1]}") if (year := re.search(r"abs/(2\d)", method.head.source)) else True
        )


@for_every("name", NAMES)
def test_a_page_that_measures_a_method_names_one_of_its_parts(name: str) -> None:
    method = find(name)
    if method.head.measured != NOT_MEASURED:
        page = (ROOT / method.head.measured).read_text(encoding="utf-8").casefold()
        kinds = {kind for _, kind in parts_in(method.settings)}
        kinds |= {ON_PAGES[kind] for kind in kinds & set(ON_PAGES)}
        assert any(one in page for one in (*kinds, method.head.called.casefold())), kinds


def test_the_page_of_methods_is_current() -> None:
    """Otherwise: python -m turngate methods --markdown > docs/methods.md"""
    assert (ROOT / "docs" / "methods.md").read_text(encoding="utf-8") == markdown_page()


def test_a_file_that_is_no_method_is_refused_with_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    cases = {
        'credit = "rloo"': r"is no method: it has no table \[method\]",
        HEAD: "the method sets nothing",
        f"{HEAD}\n[train]\nsteps = 3\n": r"cannot set 'train.steps', which belongs to the user's run",
        f'{HEAD}\n[model]\nname = "x"\n': "cannot set 'model'",
        HEAD.replace("credit", "credits") + '\n[credit]\ntype = "rloo"\n': r"method.kind: Input should be",
        HEAD.replace("something.", "one. It changes two.") + '\n[credit]\ntype = "rloo"\n': "must be one sentence",
    }
    for text, problem in cases.items():
        file.write_text(text)
        with pytest.raises(ConfigError, match=problem):
            read("mine", file)
    file.write_text("a = ")
    with pytest.raises(DataError, match="is not TOML"):
        read("mine", file)
