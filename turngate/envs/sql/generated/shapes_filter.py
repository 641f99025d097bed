"""Level 1: one table, filters. Duplicates stay in an answer unless the question says "different"."""

from turngate.envs.sql.generated.families_schema import CATEGORY, DATE, NAME, NUMBER, SHOWN, Column, TableDesign
from turngate.envs.sql.generated.questions import Catalogue, Misfit, Pick, Query, QuestionDraft, literal

LEVEL_1 = Catalogue(level=1)


def _where(pick: Pick, table: TableDesign, about: Column, *conditions: str, **words: object) -> QuestionDraft:
    """One shown column under conditions about another."""
    shown = pick.visible_column(table, about)
    query = Query(select=shown.name, tables=(table.name,), where=conditions)
    return QuestionDraft(query=query, words={"a": shown, "many": table, "c": about, **words})


def _compared(pick: Pick, sign: str) -> QuestionDraft:
    table = pick.table(NUMBER)
    about = pick.column(table, NUMBER)
    value = pick.value(table, about)
    return _where(pick, table, about, f"{about.name} {sign} {literal(value)}", v=value)


@LEVEL_1.shape("list the {a} of all {many}", "show the {a} of every {one}", "what is the {a} of each {one}")
def _list_all(pick: Pick) -> QuestionDraft:
    table = pick.table(SHOWN)
    shown = pick.column(table, SHOWN)
    query = Query(select=shown.name, tables=(table.name,))
    return QuestionDraft(query=query, words={"a": shown, "many": table, "one": table.one})


@LEVEL_1.shape(
    "list the {a} and {b} of all {many}", "show {a} and {b} of every {one}", "give {a} and {b} of each {one}"
)
def _list_two(pick: Pick) -> QuestionDraft:
    table = pick.table(SHOWN)
    first = pick.visible_column(table)
    second = pick.column(table, SHOWN, first)
    query = Query(select=f"{first.name}, {second.name}", tables=(table.name,))
    return QuestionDraft(query=query, words={"a": first, "b": second, "many": table, "one": table.one})


@LEVEL_1.shape(
    "list the {a} of {many} whose {c} is {v}",
    "show the {a} of {many} with {c} {v}",
    "{many} with {c} {v}: list the {a}",
)
def _equal(pick: Pick) -> QuestionDraft:
    table = pick.table(CATEGORY)
    about = pick.column(table, CATEGORY)
    value = pick.value(table, about)
    return _where(pick, table, about, f"{about.name} = {literal(value)}", v=value)


@LEVEL_1.shape("list the {a} of {many} whose {c} is not {v}", "show the {a} of {many} with {c:a} other than {v}")
def _not_equal(pick: Pick) -> QuestionDraft:
    table = pick.table(CATEGORY, nulls=False)
    about = pick.column(table, CATEGORY, nulls=False)
    value = pick.value(table, about)
    return _where(pick, table, about, f"{about.name} != {literal(value)}", v=value)


@LEVEL_1.shape(
    "list the {a} of {many} whose {c} is above {v}",
    "show the {a} of {many} with {c} greater than {v}",
    "{many} with {c} more than {v}: list the {a}",
)
def _above(pick: Pick) -> QuestionDraft:
    return _compared(pick, ">")


@LEVEL_1.shape(
    "list the {a} of {many} whose {c} is below {v}",
    "show the {a} of {many} with {c} smaller than {v}",
    "{many} with {c} less than {v}: list the {a}",
)
def _below(pick: Pick) -> QuestionDraft:
    return _compared(pick, "<")


@LEVEL_1.shape("list the {a} of {many} whose {c} is at least {v}", "show the {a} of {many} with {c} of {v} or more")
def _at_least(pick: Pick) -> QuestionDraft:
    return _compared(pick, ">=")


@LEVEL_1.shape(
    "list the {a} of {many} whose {c} is between {v} and {w} inclusive",
    "show the {a} of {many} with {c} from {v} to {w}",
)
def _between(pick: Pick) -> QuestionDraft:
    table = pick.table(NUMBER)
    about = pick.column(table, NUMBER)
    low, high = pick.two(table, about)
    return _where(pick, table, about, f"{about.name} BETWEEN {low} AND {high}", v=low, w=high)


@LEVEL_1.shape(
    "list the {a} of {many} whose {c} is missing",
    "show the {a} of {many} with no known {c}",
    "{many} with unknown {c}: list the {a}",
)
def _missing(pick: Pick) -> QuestionDraft:
    table = pick.table(SHOWN, nulls=True)
    about = pick.column(table, SHOWN, nulls=True)
    return _where(pick, table, about, f"{about.name} IS NULL")


@LEVEL_1.shape("list the {a} of {many} whose {c} is known", "show the {a} of {many} with a known {c}")
def _known(pick: Pick) -> QuestionDraft:
    table = pick.table(SHOWN, nulls=True)
    about = pick.column(table, SHOWN, nulls=True)
    return _where(pick, table, about, f"{about.name} IS NOT NULL")


@LEVEL_1.shape(
    "list the different values of {c} of {many}",
    "which different values of {c} occur among {many}",
    "show each {c} of {many} once",
)
def _distinct(pick: Pick) -> QuestionDraft:
    table = pick.table(CATEGORY, nulls=False)
    about = pick.column(table, CATEGORY, nulls=False)
    query = Query(select=about.name, tables=(table.name,), distinct=True)
    return QuestionDraft(query=query, words={"c": about, "many": table})


@LEVEL_1.shape("list the {a} of {many} with {c} and {d}", "show the {a} of {many} with both {c} and {d}")
def _both(pick: Pick) -> QuestionDraft:
    return _two_conditions(pick, "AND")


@LEVEL_1.shape("list the {a} of {many} with {c} or {d}", "show the {a} of {many} with {c} or with {d}")
def _either(pick: Pick) -> QuestionDraft:
    return _two_conditions(pick, "OR")


def _two_conditions(pick: Pick, junction: str) -> QuestionDraft:
    table = pick.table(CATEGORY, nulls=False)
    first, first_words, about = pick.condition(table)
    second, second_words, other = pick.condition(table, about)
    shown = pick.visible_column(table, about, other)
    query = Query(select=shown.name, tables=(table.name,), where=(f"{first} {junction} {second}",))
    parts = (f"SELECT {shown.name} FROM {table.name} WHERE {part}" for part in (first, second))
    return QuestionDraft(
        query=query, words={"a": shown, "many": table, "c": first_words, "d": second_words}, decoys=tuple(parts)
    )


@LEVEL_1.shape("list the {a} of {many} whose {c} is {v} or {w}", "show the {a} of {many} with {c} {v} or {w}")
def _one_of(pick: Pick) -> QuestionDraft:
    table = pick.table(CATEGORY)
    about = pick.column(table, CATEGORY)
    low, high = pick.two(table, about)
    return _where(pick, table, about, f"{about.name} IN ('{low}', '{high}')", v=low, w=high)


@LEVEL_1.shape(
    "list the {a} of {many} whose {c} starts with {v}", "show the {a} of {many} with {c:a} that begins with {v}"
)
def _prefix(pick: Pick) -> QuestionDraft:
    table = pick.table(NAME)
    about = pick.column(table, NAME)
    letter = str(pick.value(table, about))[0]
    shown = about if pick.rng.uniform() < 0.7 else pick.column(table, SHOWN, about)
    query = Query(select=shown.name, tables=(table.name,), where=(f"{about.name} LIKE '{letter}%'",))
    return QuestionDraft(query=query, words={"a": shown, "many": table, "c": about, "v": letter})


@LEVEL_1.shape("list the {a} of {many} whose {c} ends with {v}", "show the {a} of {many} with {c:a} that ends in {v}")
def _suffix(pick: Pick) -> QuestionDraft:
    table = pick.table(NAME)
    about = pick.column(table, NAME)
    letter = str(pick.value(table, about))[-1]
    if letter.isdigit():
        raise Misfit
    shown = about if pick.rng.uniform() < 0.7 else pick.column(table, SHOWN, about)
    query = Query(select=shown.name, tables=(table.name,), where=(f"{about.name} LIKE '%{letter}'",))
    return QuestionDraft(query=query, words={"a": shown, "many": table, "c": about, "v": letter})


@LEVEL_1.shape("how many {many} are there", "count all {many}", "what is the number of {many}")
def _count_all(pick: Pick) -> QuestionDraft:
    table = pick.table(SHOWN)
    return QuestionDraft(query=Query(select="count(*)", tables=(table.name,)), words={"many": table})


@LEVEL_1.shape("how many {many} have {c}", "count the {many} with {c}")
def _count_where(pick: Pick) -> QuestionDraft:
    table = pick.table(SHOWN)
    condition, words, _ = pick.condition(table)
    query = Query(select="count(*)", tables=(table.name,), where=(condition,))
    return QuestionDraft(query=query, words={"many": table, "c": words})


@LEVEL_1.shape("list the {a} of {many} whose {c} is in {v}", "show the {a} of {many} with {c} in the year {v}")
def _in_year(pick: Pick) -> QuestionDraft:
    table = pick.table(DATE)
    about = pick.column(table, DATE)
    year = str(pick.value(table, about))[:4]
    return _where(pick, table, about, f"{about.name} LIKE '{year}%'", v=int(year))


@LEVEL_1.shape("list the {a} of {many} whose {c} is before {v}", "show the {a} of {many} with {c} earlier than {v}")
def _before(pick: Pick) -> QuestionDraft:
    table = pick.table(DATE)
    about = pick.column(table, DATE)
    year = str(pick.value(table, about))[:4]
    return _where(pick, table, about, f"{about.name} < '{year}-01-01'", v=int(year))


@LEVEL_1.shape("list the {a} of {many} whose {c} is after {v}", "show the {a} of {many} with {c} later than {v}")
def _after(pick: Pick) -> QuestionDraft:
    table = pick.table(DATE)
    about = pick.column(table, DATE)
    day = pick.value(table, about)
    return _where(pick, table, about, f"{about.name} > '{day}'", v=day)


@LEVEL_1.shape(
    "what is the {a} of the {one} with {c} {v}",
    "give the {a} of the {one} whose {c} is {v}",
    "find the {a} of {one} {v}",
)
def _find(pick: Pick) -> QuestionDraft:
    table = pick.table(NAME)
    about = pick.column(table, NAME)
    value = pick.value(table, about)
    return _where(pick, table, about, f"{about.name} = {literal(value)}", one=table.one, v=value)
