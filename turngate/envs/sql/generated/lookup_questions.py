"""Look-up questions: conditions whose literals do not stand in the question, and the near misses that each invites.

A condition is drafted together with the queries of an agent that looked in the wrong place: the code of another area,
the opposite word, another column, another rate, another way to write dates. ``unfair`` demands that all of them answer
otherwise and that, for each look-up, one of them answers something that could be true.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from turngate.envs.seeded_random import SeededRandom
from turngate.envs.sql.generated.content import Row
from turngate.envs.sql.generated.lookup_content import DATE_FORMATS, Fact, LookupDatabase, in_month
from turngate.envs.sql.generated.lookup_words import UNKNOWN

LookupKind = Literal["code", "date", "absence", "rate"]
LOOKUP_KINDS: tuple[LookupKind, ...] = ("code", "date", "absence", "rate")
MONTH_NAMES = ("january february march april may june july august september october november december").split()
ANSWERS = {
    "count": ("count(*)", ("how many {things}{rest} are there", "count the {things}{rest}")),
    "names": ("{tag}", ("give the {tag} of all {things}{rest}", "which {tag} have the {things}{rest}")),
    "total": ("sum({amount})", ("add up the {amount} of {things}{rest}", "total {amount} of the {things}{rest}")),
    "most": ("max({amount})", ("highest {amount} of the {things}{rest}", "most {amount} among the {things}{rest}")),
}  # fmt: skip
"""By kind of answer, the selected columns and the wording of the request."""
MAX_ANSWER_ROWS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupNeed:
    """The look-up for one condition, and its place: an oracle needs nothing else to write the condition.

    ``word``: the question's; for a rate the sign and the number of euros, for a date "YEAR-MONTH".
    """

    kind: LookupKind
    column: str
    word: str
    sql: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupCondition:
    """One condition of a question. ``wrong``: conditions that a hasty reader would write in its place."""

    sql: str
    words: str
    wrong: tuple[str, ...] = ()
    need: LookupNeed | None = None
    owner: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupQuestion:
    """A question with its query. ``frame``: the query with ``{0}``, ``{1}`` … in place of the looked-up conditions."""

    text: str
    frame: str
    conditions: tuple[LookupCondition, ...]
    answer: str

    @property
    def looked_up(self) -> tuple[LookupCondition, ...]:
        """The conditions that need a look-up, in the order of the frame's numbers."""
        return tuple(condition for condition in self.conditions if condition.need)

    @property
    def gold(self) -> str:
        """The query."""
        return self.frame.format(*(condition.sql for condition in self.looked_up))

    def near_misses(self) -> Iterator[tuple[int, str]]:
        """Number of the look-up that went astray, and the query that comes of it."""
        right = [condition.sql for condition in self.looked_up]
        for place, condition in enumerate(self.looked_up):
            for wrong in condition.wrong:
                yield place, self.frame.format(*right[:place], wrong, *right[place + 1 :])

    def weaker(self) -> Iterator[str]:
        """The query without one of its conditions."""
        for left_out in self.conditions:
            kept = [condition.sql for condition in self.conditions if condition is not left_out]
            yield f"{self.frame.partition(' WHERE ')[0]} WHERE {' AND '.join(kept) or 1}"


# --- drafting ---------------------------------------------------------------------------------------------------------


def draft(
    level: int, kinds: Sequence[LookupKind], database: LookupDatabase, rng: SeededRandom
) -> LookupQuestion | None:
    """A question of a level that is true of some row: 1 one look-up, 2 two, 3 three with a join and a date.

    None if these choices do not go together.
    """
    fact = rng.pick(database.facts)
    slots = _slots(kinds, database, fact)
    dates = [slot for slot in slots if slot[0] == "date"]
    if level == 3 and dates:
        date_slot = rng.pick(dates)
        rest = [slot for slot in slots if slot[1] != date_slot[1]]
        chosen = [date_slot, rng.pick(rest), ("code", database.family.owner_area)]
    elif level < 3 and len(slots) >= level:
        chosen = rng.sample(slots, level)
    else:
        return None
    conditions = [_CONDITIONS[kind](column, fact, database, rng) for kind, column in chosen]
    if level == 1 and chosen[0][0] in ("code", "absence"):
        conditions.append(_plain(fact, database, rng))
    return _question(conditions, database, rng)


def _slots(kinds: Sequence[LookupKind], database: LookupDatabase, fact: Fact) -> list[tuple[LookupKind, str]]:
    """A possible question about a row: a kind of look-up and its column."""
    family = database.family
    columns: dict[LookupKind, list[str]] = {
        "code": [*family.areas],
        "date": [column for column in family.dates if isinstance(fact[column], date)],
        "absence": [column for column in family.dates if not isinstance(fact[column], date)],
        "rate": [database.money],
    }
    return [(kind, column) for kind in kinds for column in columns[kind]]


def _code(column: str, fact: Fact, database: LookupDatabase, rng: SeededRandom) -> LookupCondition:
    family, terms = database.family, database.terms
    word, owner = str(fact[column]), column == family.owner_area
    areas = [area for area in (*family.areas, family.owner_area) if area != column]
    codes = [terms.codes[area, word] for area in areas]
    codes += [terms.codes[column, other] for other in terms.words if other != word]
    wrong = [f"{column} = '{code}'" for code in dict.fromkeys(codes)]
    wrong += [f"{area} = '{terms.codes[area, word]}'" for area in areas if owner or area != family.owner_area]
    return LookupCondition(
        sql=f"{column} = '{terms.codes[column, word]}'",
        words=f"with {column} {word}",
        wrong=(*wrong, f"{column} = '{word}'"),
        need=LookupNeed(
            kind="code",
            column=column,
            word=word,
            sql=code_of(terms.code_table, column, word),
        ),
        owner=owner,
    )


def _date(column: str, fact: Fact, database: LookupDatabase, rng: SeededRandom) -> LookupCondition:
    formats, day = database.terms.formats, fact[column]
    assert isinstance(day, date)
    year, month = day.year, day.month
    (other,) = (name for name in database.family.dates if name != column)
    wrong = [in_month(other, formats[other], year, month), in_month(other, formats[column], year, month)]
    wrong += [in_month(column, form, year, month) for form in DATE_FORMATS if form != formats[column]]
    return LookupCondition(
        sql=in_month(column, formats[column], year, month),
        words=f"{column} in {MONTH_NAMES[month - 1]} {year}",
        wrong=tuple(wrong),
        need=LookupNeed(
            kind="date",
            column=column,
            word=f"{year}-{month:02}",
            sql=f"SELECT {column} FROM {database.family.name} LIMIT 3",
        ),
    )


def _absence(column: str, fact: Fact, database: LookupDatabase, rng: SeededRandom) -> LookupCondition:
    absences, word = database.terms.absences, str(fact[column])
    wrong = [
        marked_condition(name, mark)
        for name in database.family.dates
        for meaning, mark in absences[name].items()
        if (name, meaning) != (column, word) and (name == column or meaning == word)
    ]
    return LookupCondition(
        sql=marked_condition(column, absences[column][word]),
        words=f"{column} on an {word}" if word == UNKNOWN else f"{word} {column}",
        wrong=(*wrong, f"{column} = '{word}'", f"{column} = ''"),
        need=LookupNeed(
            kind="absence",
            column=column,
            word=word,
            sql=code_of(database.terms.code_table, column, word),
        ),
    )


def code_of(table: str, area: str, word: str) -> str:
    """The look-up of a code by the word in its label, which is written in some style."""
    return f"SELECT code FROM {table} WHERE area = '{area}' AND label LIKE '%{word}%'"


def marked_condition(column: str, mark: str | None) -> str:
    """The condition that a mark stands in the column."""
    return f"{column} IS NULL" if mark is None else f"{column} = '{mark}'"


def _rate(column: str, fact: Fact, database: LookupDatabase, rng: SeededRandom) -> LookupCondition:
    terms, money = database.terms, database.family.money
    sign, word = rng.pick(((">", "over"), ("<", "under")))
    price = int(str(fact[money]))
    euros = rng.whole(max(1, price - 12), price) if sign == ">" else rng.whole(price + 1, price + 12)
    wrong = [f"{column} {sign} {euros}"]
    wrong += [f"{column} {sign} {euros}*{rate}" for name, rate in terms.rates.items() if name != terms.currency]
    return LookupCondition(
        sql=f"{column} {sign} {euros}*{terms.rates[terms.currency]}",
        words=f"with {money} {word} {euros} euro",
        wrong=tuple(wrong),
        need=LookupNeed(
            kind="rate",
            column=column,
            word=f"{sign} {euros}",
            sql=f"SELECT per_euro FROM {terms.rate_table} WHERE currency = '{terms.currency}'",
        ),
    )


def _plain(fact: Fact, database: LookupDatabase, rng: SeededRandom) -> LookupCondition:
    """A condition whose number stands in the question."""
    sign, word = rng.pick(((">", "more than"), ("<", "fewer than")))
    amount = database.family.amount
    held = int(str(fact[amount]))
    number = rng.whole(max(1, held - 20), held) - 1 if sign == ">" else held + rng.whole(1, 20)
    return LookupCondition(sql=f"{amount} {sign} {number}", words=f"with {word} {number} {amount}")


_CONDITIONS = {"code": _code, "date": _date, "absence": _absence, "rate": _rate}


def _question(conditions: list[LookupCondition], database: LookupDatabase, rng: SeededRandom) -> LookupQuestion:
    family = database.family
    answer = rng.pick(tuple(ANSWERS))
    select, templates = ANSWERS[answer]
    nouns = {"things": family.name, "tag": family.tag, "amount": family.amount}
    numbers = iter(range(len(conditions)))
    where = " AND ".join(f"{{{next(numbers)}}}" if condition.need else condition.sql for condition in conditions)
    join = ""
    if any(condition.owner for condition in conditions):
        join = f" JOIN {family.owners} ON {family.owner}_id = {family.owners}.id"
    return LookupQuestion(
        text=rng.pick(templates).format(rest=_rest(conditions, family.owners), **nouns).replace("_", " "),
        frame=f"SELECT {select.format(**nouns)} FROM {family.name}{join} WHERE {where}",
        conditions=tuple(conditions),
        answer=answer,
    )


def _rest(conditions: Sequence[LookupCondition], owners: str) -> str:
    """What follows the noun: first what happened to the things, then what they have, then whose they are."""
    own = [condition.words for condition in conditions if not condition.owner]
    happened = [words for words in own if not words.startswith("with ")]
    have = [words.removeprefix("with ") for words in own if words.startswith("with ")]
    parts = [" and ".join(happened), f"with {' and '.join(have)}" if have else ""]
    parts += [f"of {owners} {condition.words}" for condition in conditions if condition.owner]
    return "".join(f" {part}" for part in parts if part)


# --- fairness ---------------------------------------------------------------------------------------------------------


def unfair(question: LookupQuestion, database: LookupDatabase) -> str:
    """Why the question is not fair, or misleads no hasty reader; "" if it can be used.

    The answer says something in at most 20 rows; every near miss and every query with a condition left out answers
    otherwise; and each look-up has a near miss whose answer says something too.
    """
    rows = database.run(question.gold)
    if not telling(rows) or len(rows) > MAX_ANSWER_ROWS:
        return "the answer says nothing, or too much"
    known = Counter(rows)
    for sql in question.weaker():
        if Counter(database.run(sql)) == known:
            return f"same answer as: {sql}"
    tempting = set()
    for place, sql in question.near_misses():
        wrong = database.run(sql)
        if Counter(wrong) == known:
            return f"same answer as: {sql}"
        if telling(wrong):
            tempting.add(place)
    return "" if len(tempting) == len(question.looked_up) else "a look-up without a plausible near miss"


def telling(rows: Sequence[Row]) -> bool:
    """Whether an answer has a value that is neither NULL nor 0."""
    return any(value not in (None, 0) for row in rows for value in row)
