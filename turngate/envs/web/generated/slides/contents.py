"""What slides are about: made-up organisations and what they count. Held-out slides use other names and subjects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Something that is reported on. ``title`` and each of ``facts`` take a name, a number, a place and a share.
    ``rows`` and ``heads``: of a table of numbers, below and beside ``corner``."""

    title: str
    facts: tuple[str, ...]
    corner: str
    rows: tuple[str, ...]
    heads: tuple[str, ...]


NAMES: Mapping[str, tuple[str, ...]] = {
    "train": ("Alder Bikes", "Norrland Rail", "Brightwater", "Kestrel Foods", "Olive & Sons", "Hafen Museum",
              "Tallgrass", "Ridgeway Clinic", "Copper Lane", "Marlow Press", "Pinecrest School", "Solvang Dairy"),
    "heldout": ("Juniper Ferries", "Westerly Wool", "Quarry Arts", "Lindqvist Tools", "Elmstead Library", "Fennmark"),
}  # fmt: skip
PLACES: Mapping[str, tuple[str, ...]] = {
    "train": ("Lisbon", "Bergen", "Ghent", "Turku", "Graz", "Leeds", "Porto", "Aarhus"),
    "heldout": ("Malmo", "Bilbao", "Trieste", "Cork", "Tartu"),
}
SUBJECTS: Mapping[str, tuple[Subject, ...]] = {
    "train": (
        Subject(
            title="{name}: sales in {year}",
            facts=("Sales rose by {share}% to {number} units", "The shop in {place} sold {number} units",
                   "Returns fell to {share}% of all orders", "{number} customers ordered more than once",
                   "Delivery took {share} hours on average", "The team in {place} grew to {share} people"),
            corner="Region", rows=("North", "South", "East", "West"), heads=("Spring", "Summer", "Autumn"),
        ),
        Subject(
            title="{name}: visitors in {year}",
            facts=("{number} people came, {share}% of them for the first time", "The busiest day saw {number} guests",
                   "A tour took {share} minutes on average", "Guests from {place} stayed longest",
                   "{share}% of the tickets were sold online", "The show in {place} drew {number} visitors"),
            corner="Hall", rows=("Garden", "Tower", "Gallery", "Cellar"), heads=("Adults", "Children", "Groups"),
        ),
        Subject(
            title="{name}: energy report {year}",
            facts=("Power use fell by {share}%", "The roof in {place} supplied {number} kilowatt hours",
                   "{number} lamps were replaced", "Heating now takes {share}% of the total",
                   "The boiler in {place} was shut down", "{share} of the halls are insulated"),
            corner="Source", rows=("Solar", "Wind", "Grid", "Gas"), heads=("January", "May", "October"),
        ),
    ),
    "heldout": (
        Subject(
            title="{name}: training plan {year}",
            facts=("{number} lessons are planned", "{share}% of the staff have finished the first course",
                   "The workshop in {place} lasts {share} days", "{number} exercises were rewritten",
                   "Tutors from {place} take over in March", "Fees fall by {share}%"),
            corner="Course", rows=("Safety", "Welding", "Design", "Budget"), heads=("Enrolled", "Passed", "Waiting"),
        ),
        Subject(
            title="{name}: fleet review {year}",
            facts=("{number} trips were made on time", "Repairs in {place} cost {share}% less",
                   "{share} boats are due for a check", "Fuel per trip fell to {number} litres",
                   "The line to {place} opens in June", "{share}% of the crew are trained"),
            corner="Vessel", rows=("Heron", "Otter", "Tern", "Seal"), heads=("Trips", "Hours", "Repairs"),
        ),
    ),
}  # fmt: skip
GROUNDS: tuple[tuple[str, str], ...] = (
    ("#102a43", "#ffd166"), ("#1b1b1e", "#8be9fd"), ("#fff8e7", "#7a1f1f"), ("#f0f4f8", "#0b4f6c"),
    ("#003d2b", "#f4e285"), ("#ffffff", "#6a1b9a"),
)  # fmt: skip
"""Background and colour of the title; they contrast by 5 or more."""
