"""The tables of docs/scale.md are those of its script."""

import csv
import re
from pathlib import Path

import pytest

from benchmarks import plan_simulation

ROOT = Path(__file__).parents[2]
ROWS = list(csv.DictReader((ROOT / "docs/data/scale_plan.csv").read_text().splitlines()))


@pytest.mark.parametrize("number", [0, 1, 4, 16, 17])
def test_a_row_is_what_the_script_makes(number):
    """Those of fleets that are simulated in a second."""
    found = plan_simulation.row_of(plan_simulation.CASES[number])
    assert {name: str(value) for name, value in found.items()} == ROWS[number]


def test_the_page_has_every_row():
    assert [row["what"] for row in ROWS] == [case.what for case in plan_simulation.CASES]
    assert plan_simulation.markdown(ROWS) in (ROOT / "docs/scale.md").read_text()


def test_the_page_says_what_the_largest_fleet_takes():
    (said,) = re.findall(r"simulated: ([\d.]+) s of playing", (ROOT / "docs/scale.md").read_text())
    found, _ = plan_simulation.largest()
    assert f"{found.collect_s:.2f}" == said
