"""Databases of look-up questions: what a question calls by an everyday word stands in them in a form of their own."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from itertools import permutations
from threading import Lock
from typing import TypeAlias, TypeVar

from turngate.envs.seeded_random import SeededRandom
from turngate.envs.sql.generated.content import Row, Value, connect, freeze
from turngate.envs.sql.generated.lookup_words import (
    ABSENCES,
    CODE_TABLES,
    CODES,
    CURRENCIES,
    LOOKUP_FAMILIES,
    RATE_TABLES,
    RATES,
    STATES,
    LookupFamily,
    belongs,
)

T = TypeVar("T")
Fact: TypeAlias = Mapping[str, date | str | int]
"""One thing, by column: a date or why there is none, the word that a code stands for, a number, a price in euros."""
Content: TypeAlias = tuple[str, list[Row]]  # CREATE TABLE and the rows

EPOCH = date(1970, 1, 1)
FIRST_YEAR, YEARS = 2018, 9
MONTHS_USED = 3  # a database tells of so many months, so that a month has several rows
OWNERS = 6
WORDS = 4  # that an area has codes for
ABSENT_RATE = 0.36
DATE_FORMATS = ("iso", "dots", "slashes", "slashes_us", "digits", "days")
_DAY_ALONE = 13  # from this day on, a date cannot be read with day and month exchanged


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupTerms:
    """How one database writes things. ``codes``: area and word → code; ``labels``: area, code and label as they stand.

    ``absences``: by date column, meaning → what stands there, None for NULL. ``formats``: by date column. ``rates``:
    whole units per euro by currency; ``currency`` is that of the prices. ``months``: (year, month) that occur.
    """

    words: tuple[str, ...]
    code_table: str
    rate_table: str
    codes: Mapping[tuple[str, str], str]
    labels: Sequence[tuple[str, str, str]]
    absences: Mapping[str, Mapping[str, str | None]]
    formats: Mapping[str, str]
    currency: str
    rates: Mapping[str, int]
    months: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LookupDatabase:
    """One database. ``facts``: its things in the words of questions. ``image``: the SQLite file, ``key``: its hash."""

    family: LookupFamily
    terms: LookupTerms
    facts: Sequence[Fact] = field(repr=False)
    image: bytes = field(repr=False)
    key: str
    connection: sqlite3.Connection = field(repr=False)
    lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def money(self) -> str:
        """The name of the price column, which ends with its currency."""
        return f"{self.family.money}_{self.terms.currency}"

    def run(self, sql: str) -> list[Row]:
        """All rows of a query that this package wrote itself."""
        with self.lock:
            return self.connection.execute(sql).fetchall()


@lru_cache(maxsize=256)
def build_lookup(family: str, split: str, number: int, rows: int) -> LookupDatabase:
    """Database ``number`` of a family in a split, with ``rows`` things; codes and rates are those of the split."""
    rng = SeededRandom("sql-lookup-content", split, family, number, rows)
    declared = LOOKUP_FAMILIES[family]
    terms = _terms(declared, split, rng)
    ranks = [rng.pick(terms.words) for _ in range(OWNERS)]
    facts = [_fact(declared, terms, ranks, rng, telling=number == 0) for number in range(rows)]
    tables = [_owners(declared, terms, ranks, rng), _things(declared, terms, facts, rng)]
    tables += rng.shuffled((_codes(terms, rng), _rates(terms)))
    connection = connect()
    for ddl, content in tables:
        connection.execute(ddl)
        name = ddl.split()[2]
        connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(content[0]))})", content)
    connection.commit()
    image, key = freeze(connection)
    return LookupDatabase(family=declared, terms=terms, facts=facts, image=image, key=key, connection=connection)


# --- how a database writes things -------------------------------------------------------------------------------------


def _terms(family: LookupFamily, split: str, rng: SeededRandom) -> LookupTerms:
    words = tuple(rng.sample(STATES, WORDS))
    codes = _meanings((*family.areas, family.owner_area), words, split, rng)
    others = [code for code in rng.shuffled(CODES) if code not in codes.values()]
    labels = [(area, code, _styled(word, rng)) for (area, word), code in codes.items()]
    absences: dict[str, dict[str, str | None]] = {}
    for column in family.dates:
        unmarked = rng.pick(ABSENCES)
        absences[column] = {
            meaning: None if meaning == unmarked else _taken(others, split, column, meaning) for meaning in ABSENCES
        }
        labels += [(column, mark, meaning) for meaning, mark in absences[column].items() if mark is not None]
    currencies, start = rng.sample(CURRENCIES, 3), rng.whole(12 * FIRST_YEAR, 12 * (FIRST_YEAR + YEARS) - MONTHS_USED)
    known = rng.shuffled(RATES)
    rates = [_taken(known, split, currency) for currency in currencies]
    return LookupTerms(
        words=words,
        code_table=rng.pick(CODE_TABLES),
        rate_table=rng.pick(RATE_TABLES),
        codes=codes,
        labels=labels,
        absences=absences,
        formats={column: rng.pick(DATE_FORMATS) for column in family.dates},
        currency=currencies[0],
        rates=dict(zip(currencies, rates, strict=True)),
        months=tuple((month // 12, month % 12 + 1) for month in range(start, start + MONTHS_USED)),
    )


def _meanings(
    areas: Sequence[str], words: Sequence[str], split: str, rng: SeededRandom
) -> Mapping[tuple[str, str], str]:
    """(area, word) → code. All areas use the same codes, each for another word, so the wrong area leads astray."""
    while True:
        drawn = rng.sample(CODES, len(words))
        rows: list[tuple[str, ...]] = []
        for area in areas:
            fitting = [
                order
                for order in permutations(drawn)
                if all(belongs(split, area, word, code) for word, code in zip(words, order, strict=True))
                and not any(one == other for row in rows for one, other in zip(row, order, strict=True))
            ]
            if not fitting:
                break
            rows.append(rng.pick(fitting))
        else:
            return {
                (area, word): code
                for area, row in zip(areas, rows, strict=True)
                for word, code in zip(words, row, strict=True)
            }


def _taken(values: list[T], split: str, *meaning: str) -> T:
    """Take the first value out that may have this meaning in the split."""
    found = next(value for value in values if belongs(split, *meaning, value))
    values.remove(found)
    return found


def _styled(word: str, rng: SeededRandom) -> str:
    """A label as typed by hand: it holds the word, but never in the exact form of a question."""
    return rng.pick((word.upper(), word.capitalize(), f"{word}.", f"is {word}"))


def format_date(day: date, form: str) -> Value:
    """A date as a database of this format holds it."""
    match form:
        case "iso":
            return day.isoformat()
        case "dots":
            return f"{day:%d.%m.%Y}"
        case "slashes":
            return f"{day:%d/%m/%Y}"
        case "slashes_us":
            return f"{day:%m/%d/%Y}"
        case "digits":
            return int(f"{day:%Y%m%d}")
    return (day - EPOCH).days


def in_month(column: str, form: str, year: int, month: int) -> str:
    """The condition that a date of this format lies in a month."""
    patterns = {"iso": f"{year}-{month:02}%", "dots": f"%.{month:02}.{year}", "slashes": f"%/{month:02}/{year}"}
    patterns |= {"slashes_us": f"{month:02}/%/{year}", "digits": f"{year}{month:02}%", "days": f"{year}-{month:02}%"}
    value = f"date({column} * 86400, 'unixepoch')" if form == "days" else column
    return f"{value} LIKE '{patterns[form]}'"


def format_of(values: Sequence[Value]) -> str:
    """The format in which these dates are written, entries that are none aside. Raises ValueError if it stays open."""
    for text in map(str, values):
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return "iso"
        if re.fullmatch(r"\d\d\.\d\d\.\d{4}", text):
            return "dots"
        if re.fullmatch(r"\d{8}", text):
            return "digits"
        if re.fullmatch(r"\d{4,5}", text):
            return "days"
        if (parts := re.fullmatch(r"(\d\d)/(\d\d)/\d{4}", text)) and max(map(int, parts.groups())) >= _DAY_ALONE:
            return "slashes" if int(parts[1]) >= _DAY_ALONE else "slashes_us"
    raise ValueError(f"none of {list(values)} tells the format of the dates")


# --- rows -------------------------------------------------------------------------------------------------------------


def _fact(family: LookupFamily, terms: LookupTerms, ranks: Sequence[str], rng: SeededRandom, *, telling: bool) -> Fact:
    """One thing in the words of questions. ``telling``: with dates that cannot be read in two ways."""
    owner = rng.whole(1, OWNERS)
    fact: dict[str, date | str | int] = {f"{family.owner}_id": owner, family.owner_area: ranks[owner - 1]}
    fact |= {family.amount: rng.whole(1, 60), family.money: rng.whole(3, 60)}
    fact |= {area: rng.pick(terms.words) for area in family.areas}
    fact |= {column: _day(terms, rng, telling=telling) for column in family.dates}
    return fact


def _day(terms: LookupTerms, rng: SeededRandom, *, telling: bool) -> date | str:
    if not telling and rng.uniform() < ABSENT_RATE:
        return rng.pick(ABSENCES)
    year, month = rng.pick(terms.months)
    return date(year, month, rng.whole(_DAY_ALONE if telling else 1, 28))


def _owners(family: LookupFamily, terms: LookupTerms, ranks: Sequence[str], rng: SeededRandom) -> Content:
    names = rng.sample(family.owner_names, OWNERS)
    codes = [terms.codes[family.owner_area, rank] for rank in ranks]
    ddl = f"CREATE TABLE {family.owners} (id INTEGER PRIMARY KEY, name TEXT, {family.owner_area} TEXT)"
    return ddl, [*zip(range(1, OWNERS + 1), names, codes, strict=True)]


def _things(family: LookupFamily, terms: LookupTerms, facts: Sequence[Fact], rng: SeededRandom) -> Content:
    columns = (
        f"id INTEGER PRIMARY KEY, {family.tag} TEXT, {family.owner}_id INTEGER REFERENCES {family.owners}(id), "
        f"{family.areas[0]} TEXT, {family.areas[1]} TEXT, {family.amount} INTEGER, "
        f"{family.money}_{terms.currency} INTEGER, {family.dates[0]}, {family.dates[1]}"
    )
    rounds = range(len(facts) // len(family.tags) + 1)
    tags = [f"{tag}{turn or ''}" for turn in rounds for tag in rng.shuffled(family.tags)]
    rate = terms.rates[terms.currency]
    rows: list[Row] = [
        (
            number,
            tags[number - 1],
            int(str(fact[f"{family.owner}_id"])),
            *(terms.codes[area, str(fact[area])] for area in family.areas),
            int(str(fact[family.amount])),
            int(str(fact[family.money])) * rate + rng.whole(1, rate - 1),
            *(_entry(fact[column], column, terms) for column in family.dates),
        )
        for number, fact in enumerate(facts, start=1)
    ]
    return f"CREATE TABLE {family.name} ({columns})", rows


def _entry(fact: object, column: str, terms: LookupTerms) -> Value:
    return format_date(fact, terms.formats[column]) if isinstance(fact, date) else terms.absences[column][str(fact)]


def _codes(terms: LookupTerms, rng: SeededRandom) -> Content:
    return f"CREATE TABLE {terms.code_table} (area TEXT, code TEXT, label TEXT)", [*rng.shuffled(terms.labels)]


def _rates(terms: LookupTerms) -> Content:
    return f"CREATE TABLE {terms.rate_table} (currency TEXT, per_euro INTEGER)", sorted(terms.rates.items())
