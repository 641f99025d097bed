"""The tables of docs/guidance.md have a row for every part, and its recipe has the part."""

import re
import tomllib
from collections.abc import Iterator

import pytest

from tests.helpers.recipes import FOLDER, alternatives
from turngate.config import Config, parse
from turngate.parts import Part
from turngate.trainer.auxiliary import AuxiliaryPart
from turngate.trainer.branching import BranchingPart
from turngate.trainer.curriculum import CurriculumPart
from turngate.trainer.filters.parts import FilterPart
from turngate.trainer.guidance import GuidePart

PAGE = (FOLDER.parents[1] / "docs" / "guidance.md").read_text(encoding="utf-8")
TABLES: dict[str, tuple[type[Part], set[str]]] = {
    "Guides": (GuidePart, {"none"}),
    "AuxiliaryLosses": (AuxiliaryPart, set()),
    "Branching": (BranchingPart, set()),
    "Curricula": (CurriculumPart, {"order"}),
    "Filters": (FilterPart, set()),
}
"""Heading → family, and what of it is no method."""


def rows(heading: str) -> dict[str, str]:
    """Name of each part below a heading, and its recipe."""
    section = re.split(r"^#+ ", PAGE.split(f"\n### {heading}: ")[1], flags=re.MULTILINE)[0]
    return {name: recipe for name, recipe in re.findall(r"^\| `(\w+)` \|.*\| (\S+) \|$", section, re.MULTILINE)}


def configs(recipe: str) -> Iterator[Config]:
    """A recipe, its alternatives, and the stages of each."""
    text = (FOLDER / recipe).read_text()
    for one in (text, *alternatives(text).values()):
        config = parse(tomllib.loads(one))
        yield config
        yield from (parse(stage.tree) for stage in config.unfolded())


def used(config: Config) -> set[tuple[str, str]]:
    """Noun and type of the parts that a recipe is about."""
    parts = [config.guide, *config.auxiliary, config.curriculum, *config.train.filters]
    return {(part.noun, part.type) for part in (*parts, *([config.branching] if config.branching else []))}


@pytest.mark.parametrize("heading", TABLES)
def test_every_part_has_a_row_and_a_recipe_that_has_it(heading: str) -> None:
    family, not_methods = TABLES[heading]
    shipped = {name for name, part in family.types.items() if part.__module__.startswith("turngate.")}
    found = rows(heading)
    assert set(found) == shipped - not_methods
    for name, recipe in found.items():
        assert (family.noun, name) in set().union(*map(used, configs(recipe))), f"{recipe} has no '{name}'"
