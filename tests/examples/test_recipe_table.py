"""The tables of docs/guidance.md have a row for every part, and the method or the recipe that it names has the part."""

import re
import tomllib
from collections.abc import Iterator

import pytest

from tests.helpers.recipes import FOLDER, alternatives
from turngate.config.run_config import Config, parse
from turngate.methods.overlay import find, parts_in
from turngate.parts import Part
from turngate.trainer.auxiliary.base import AuxiliaryPart
from turngate.trainer.branching.base import BranchingPart
from turngate.trainer.curriculum.base import CurriculumPart
from turngate.trainer.filters.parts import FilterPart
from turngate.trainer.guidance.base import GuidePart

PAGE = (FOLDER.parents[1] / "docs" / "guidance.md").read_text(encoding="utf-8")
TABLES: dict[str, tuple[type[Part], str, set[str]]] = {
    "Guides": (GuidePart, "guide", {"none"}),
    "Auxiliary losses": (AuxiliaryPart, "auxiliary", set()),
    "Branching": (BranchingPart, "branching", set()),
    "Curricula": (CurriculumPart, "curriculum", {"order"}),
    "Filters": (FilterPart, "train.filters", set()),
}
"""Heading → family, the key that has its parts, and what of it is no method."""


def rows(heading: str) -> dict[str, str]:
    """Name of each part below a heading, and its method or recipe."""
    section = re.split(r"^#+ ", PAGE.split(f"\n### {heading}: ")[1], flags=re.MULTILINE)[0]
    found = re.findall(r"^\| `(\w+)` \|.*\| (\S+) \|$", section, re.MULTILINE)
    return {name: place.strip("`") for name, place in found}


def configs(recipe: str) -> Iterator[Config]:
    """A recipe and its alternatives."""
    text = (FOLDER / recipe).read_text()
    for one in (text, *alternatives(text).values()):
        yield parse(tomllib.loads(one))


def used(place: str) -> set[tuple[str, str]]:
    """Key and type of the parts that a method or a recipe is about."""
    if not place.endswith(".toml"):
        return {(key.removeprefix("stages."), name) for key, name in parts_in(find(place).settings)}
    return {
        (key, part.type)
        for config in configs(place)
        for key, parts in {
            "guide": [config.guide],
            "auxiliary": config.auxiliary,
            "curriculum": [config.curriculum],
            "train.filters": config.train.filters,
            "branching": [config.branching] if config.branching else [],
        }.items()
        for part in parts
    }


@pytest.mark.parametrize("heading", TABLES)
def test_every_part_has_a_row_and_a_method_or_recipe_that_has_it(heading: str) -> None:
    family, key, not_methods = TABLES[heading]
    shipped = {name for name, part in family.catalogue().items() if part.__module__.startswith("turngate.")}
    found = rows(heading)
    assert set(found) == shipped - not_methods
    for name, place in found.items():
        assert (key, name) in used(place), f"{place} has no '{name}'"
