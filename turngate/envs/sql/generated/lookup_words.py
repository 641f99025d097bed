"""What look-up questions are about: families of two tables, and the words, codes and rates that their databases use."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import product
from string import ascii_lowercase

from turngate.envs.sql.generated.families_words import CITIES, COURSES, DISHES, GOODS, PEOPLE, SIGNS, TITLES

HELD_OUT_SHARE = 2  # one row to look up, question text and query in so many is held out

STATES = (
    "open done late new held void safe ready busy loose clean fixed paid lent kept sold rare calm early vague"
).split()
"""Words of code tables; none is part of another, so a look-up by part of a label finds one."""
CURRENCIES = "crown florin peso rupee dinar franc shilling mark lira yen".split()
NEVER, NOT_YET, UNKNOWN = "never", "not yet", "unknown day"
ABSENCES = (NEVER, NOT_YET, UNKNOWN)
"""What an entry that is no date can mean. Two have codes; NULL means the third."""
CODE_TABLES = ("codes", "terms", "labels")
RATE_TABLES = ("rates", "coins", "exchange")


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupFamily:
    """A table of things and one of the people or places that they belong to.

    ``name``: the things, ``tag`` the column that names one; ``areas``: two coded columns; ``amount``: a column of
    whole numbers; ``money``: begins the name of a price column; ``dates``: two columns, named by what happened.
    ``owners``: the other table, ``owner`` one of it, ``owner_area`` its coded column.
    """

    name: str
    tag: str
    tags: tuple[str, ...]
    areas: tuple[str, str]
    amount: str
    money: str
    dates: tuple[str, str]
    owners: str
    owner: str
    owner_area: str
    owner_names: tuple[str, ...] = PEOPLE


def _family(
    things: str, tag: str, tags: tuple[str, ...], columns: str, owners: str, names: tuple[str, ...] = PEOPLE
) -> LookupFamily:
    first, second, amount, money, early, late = columns.split()
    plural, one, area = owners.split()
    return LookupFamily(
        name=things, tag=tag, tags=tags, areas=(first, second), amount=amount, money=money, dates=(early, late),
        owners=plural, owner=one, owner_area=area, owner_names=names,
    )  # fmt: skip


_ALL = (
    _family("parcels", "tag", SIGNS + GOODS, "status billing items price sent delivered", "customers customer rank"),
    _family("loans", "title", TITLES, "stage fine renewals fee borrowed returned", "readers reader pass"),
    _family("repairs", "part", GOODS, "state surety hours cost started finished", "drivers driver licence"),
    _family("orders", "dish", DISHES, "kitchen payment portions bill placed served", "guests guest tab"),
    _family("classes", "course", COURSES, "plan room seats tuition announced taught", "teachers teacher contract"),
    _family("trips", "goal", CITIES + SIGNS, "seat visa days fare booked ended", "agents agent desk"),
    _family("visits", "alias", SIGNS + GOODS, "triage cover minutes charge planned closed", "patients patient file"),
    _family("shows", "film", TITLES, "screen print tickets rent opened cleared", "halls hall permit", CITIES),
)  # fmt: skip
LOOKUP_FAMILIES = {family.name: family for family in _ALL}
UNSEEN_FAMILIES = ("visits", "shows")
"""The families of the split newfamily."""

CODES = tuple(letter + str(digit) for letter, digit in product(ascii_lowercase, range(10)))
RATES = tuple(range(11, 100))


def held_back(kind: str, value: object) -> bool:
    """Whether a row to look up, a text or a query is kept from training, decided by its own hash."""
    return hashlib.blake2b(f"{kind}:{value}".encode(), digest_size=4).digest()[0] % HELD_OUT_SHARE == 0


def belongs(split: str, *row: object) -> bool:
    """Whether a row to look up (area, word and code, or currency and rate) may occur in databases of this split.

    Codes and rates occur on both sides, but none means the same thing there, so a row cannot be known by heart.
    """
    return held_back("row", row) == (split != "train")
