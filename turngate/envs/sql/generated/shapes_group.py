"""Level 2: aggregates, order, limits and groups over one table."""

from turngate.envs.sql.generated.families_schema import AMOUNT, CATEGORY, DATE, NAME, NUMBER
from turngate.envs.sql.generated.questions import Catalogue, Pick, Query, QuestionDraft, literal

LEVEL_2 = Catalogue(level=2)


def _aggregate(pick: Pick, function: str) -> QuestionDraft:
    table = pick.table(AMOUNT)
    number = pick.column(table, AMOUNT)
    query = Query(select=f"{function}({number.name})", tables=(table.name,))
    return QuestionDraft(query=query, words={"x": number, "many": table})


@LEVEL_2.shape(
    "what is the highest {x} of all {many}", "find the largest {x} among {many}", "show the maximum {x} of {many}"
)
def _maximum(pick: Pick) -> QuestionDraft:
    return _aggregate(pick, "max")


@LEVEL_2.shape(
    "what is the lowest {x} of all {many}", "find the smallest {x} among {many}", "show the minimum {x} of {many}"
)
def _minimum(pick: Pick) -> QuestionDraft:
    return _aggregate(pick, "min")


@LEVEL_2.shape("what is the average {x} of all {many}", "find the average {x} of {many}", "show the mean {x} of {many}")
def _average(pick: Pick) -> QuestionDraft:
    return _aggregate(pick, "avg")


@LEVEL_2.shape("what is the total {x} of all {many}", "add up the {x} of all {many}", "show the sum of {x} over {many}")
def _total(pick: Pick) -> QuestionDraft:
    return _aggregate(pick, "sum")


@LEVEL_2.shape("list the lowest and the highest {x} of {many}", "show minimum and maximum {x} of {many}")
def _extremes(pick: Pick) -> QuestionDraft:
    table = pick.table(AMOUNT)
    number = pick.column(table, AMOUNT)
    query = Query(select=f"min({number.name}), max({number.name})", tables=(table.name,))
    return QuestionDraft(query=query, words={"x": number, "many": table})


@LEVEL_2.shape(
    "what is the difference between the highest and lowest {x} of {many}", "highest minus lowest {x} of {many}"
)
def _spread(pick: Pick) -> QuestionDraft:
    table = pick.table(AMOUNT)
    number = pick.column(table, AMOUNT)
    query = Query(select=f"max({number.name}) - min({number.name})", tables=(table.name,))
    return QuestionDraft(query=query, words={"x": number, "many": table})


def _aggregate_where(pick: Pick, function: str) -> QuestionDraft:
    table = pick.table(AMOUNT, CATEGORY)
    number, about = pick.column(table, AMOUNT), pick.column(table, CATEGORY)
    value = pick.value(table, about)
    condition = f"{about.name} = {literal(value)}"
    query = Query(select=f"{function}({number.name})", tables=(table.name,), where=(condition,))
    return QuestionDraft(query=query, words={"x": number, "many": table, "c": about, "v": value})


@LEVEL_2.shape("what is the average {x} of {many} whose {c} is {v}", "find the average {x} of {many} with {c} {v}")
def _average_where(pick: Pick) -> QuestionDraft:
    return _aggregate_where(pick, "avg")


@LEVEL_2.shape("what is the total {x} of {many} whose {c} is {v}", "add up the {x} of {many} with {c} {v}")
def _total_where(pick: Pick) -> QuestionDraft:
    return _aggregate_where(pick, "sum")


@LEVEL_2.shape("what is the highest {x} of {many} whose {c} is {v}", "find the largest {x} among {many} with {c} {v}")
def _maximum_where(pick: Pick) -> QuestionDraft:
    return _aggregate_where(pick, "max")


def _first(pick: Pick, direction: str, limit: int = 1) -> QuestionDraft:
    table = pick.table(NAME, NUMBER, nulls=False)
    name, number = pick.column(table, NAME), pick.column(table, NUMBER, nulls=False)
    query = Query(select=name.name, tables=(table.name,), order=number.name + direction, limit=limit)
    return QuestionDraft(query=query, words={"n": name, "x": number, "one": table.one, "many": table, "k": limit})


@LEVEL_2.shape("what is the {n} of the {one} with the highest {x}", "which {one} has the largest {x}, give the {n}")
def _top(pick: Pick) -> QuestionDraft:
    return _first(pick, " DESC")


@LEVEL_2.shape("what is the {n} of the {one} with the lowest {x}", "which {one} has the smallest {x}, give the {n}")
def _bottom(pick: Pick) -> QuestionDraft:
    return _first(pick, "")


@LEVEL_2.shape(
    "list the {n} of the {k} {many} with the highest {x}, highest first",
    "show the {n} of the top {k} {many} by {x}, largest first",
)
def _top_few(pick: Pick) -> QuestionDraft:
    return _first(pick, " DESC", pick.rng.whole(2, 5))


@LEVEL_2.shape(
    "list the {n} of the {k} {many} with the lowest {x}, lowest first",
    "show the {n} of the bottom {k} {many} by {x}, smallest first",
)
def _bottom_few(pick: Pick) -> QuestionDraft:
    return _first(pick, "", pick.rng.whole(2, 5))


@LEVEL_2.shape("list the {n} of all {many} in alphabetical order", "show the {n} of every {one} sorted from a to z")
def _alphabetical(pick: Pick) -> QuestionDraft:
    table = pick.table(NAME)
    name = pick.column(table, NAME)
    query = Query(select=name.name, tables=(table.name,), order=name.name)
    return QuestionDraft(query=query, words={"n": name, "one": table.one, "many": table})


def _sorted(pick: Pick, direction: str) -> QuestionDraft:
    table = pick.table(NAME, NUMBER, CATEGORY)
    name, number = pick.column(table, NAME), pick.column(table, NUMBER, nulls=False)
    about = pick.column(table, CATEGORY)
    value = pick.value(table, about)
    condition = f"{about.name} = {literal(value)}"
    query = Query(select=name.name, tables=(table.name,), where=(condition,), order=number.name + direction)
    return QuestionDraft(query=query, words={"n": name, "x": number, "many": table, "c": about, "v": value})


@LEVEL_2.shape(
    "list the {n} of {many} whose {c} is {v} by {x}, lowest first",
    "show the {n} of {many} with {c} {v} sorted by {x}, smallest first",
)
def _sorted_up(pick: Pick) -> QuestionDraft:
    return _sorted(pick, "")


@LEVEL_2.shape(
    "list the {n} of {many} whose {c} is {v} by {x}, highest first",
    "show the {n} of {many} with {c} {v} sorted by {x}, largest first",
)
def _sorted_down(pick: Pick) -> QuestionDraft:
    return _sorted(pick, " DESC")


@LEVEL_2.shape("how many different values of {c} do {many} have", "count the different values of {c} of {many}")
def _count_distinct(pick: Pick) -> QuestionDraft:
    table = pick.table(CATEGORY, nulls=False)
    about = pick.column(table, CATEGORY, nulls=False)
    query = Query(select=f"count(DISTINCT {about.name})", tables=(table.name,))
    decoy = f"SELECT count({about.name}) FROM {table.name}"
    return QuestionDraft(query=query, words={"c": about, "many": table}, decoys=(decoy,))


@LEVEL_2.shape("what is the earliest {d} of all {many}", "find the first {d} among {many}")
def _earliest(pick: Pick) -> QuestionDraft:
    return _date(pick, "min")


@LEVEL_2.shape("what is the latest {d} of all {many}", "find the last {d} among {many}")
def _latest(pick: Pick) -> QuestionDraft:
    return _date(pick, "max")


def _date(pick: Pick, function: str) -> QuestionDraft:
    table = pick.table(DATE)
    day = pick.column(table, DATE)
    query = Query(select=f"{function}({day.name})", tables=(table.name,))
    return QuestionDraft(query=query, words={"d": day, "many": table})


@LEVEL_2.shape("what is the {n} of the {one} with the latest {d}", "which {one} has the most recent {d}, give the {n}")
def _newest(pick: Pick) -> QuestionDraft:
    return _by_date(pick, " DESC")


@LEVEL_2.shape("what is the {n} of the {one} with the earliest {d}", "which {one} has the oldest {d}, give the {n}")
def _oldest(pick: Pick) -> QuestionDraft:
    return _by_date(pick, "")


def _by_date(pick: Pick, direction: str) -> QuestionDraft:
    table = pick.table(NAME, DATE)
    name, day = pick.column(table, NAME), pick.column(table, DATE, nulls=False)
    query = Query(select=name.name, tables=(table.name,), order=day.name + direction, limit=1)
    return QuestionDraft(query=query, words={"n": name, "d": day, "one": table.one})


def _grouped(pick: Pick, function: str) -> QuestionDraft:
    table = pick.table(CATEGORY, AMOUNT, nulls=False)
    about, number = pick.column(table, CATEGORY, nulls=False), pick.column(table, AMOUNT, nulls=False)
    select = f"{about.name}, {function}({number.name})"
    query = Query(select=select, tables=(table.name,), group=about.name)
    return QuestionDraft(query=query, words={"c": about, "x": number, "many": table})


@LEVEL_2.shape(
    "for each {c} list the {c} and the number of {many}",
    "show each {c} and how many {many} it has",
    "count the {many} per {c}, list {c} and count",
)
def _group_count(pick: Pick) -> QuestionDraft:
    table = pick.table(CATEGORY, nulls=False)
    about = pick.column(table, CATEGORY, nulls=False)
    query = Query(select=f"{about.name}, count(*)", tables=(table.name,), group=about.name)
    return QuestionDraft(query=query, words={"c": about, "many": table})


@LEVEL_2.shape(
    "for each {c} list the {c} and the average {x} of {many}", "show each {c} and the average {x} of its {many}"
)
def _group_average(pick: Pick) -> QuestionDraft:
    return _grouped(pick, "avg")


@LEVEL_2.shape(
    "for each {c} list the {c} and the highest {x} of {many}", "show each {c} and the largest {x} of its {many}"
)
def _group_maximum(pick: Pick) -> QuestionDraft:
    return _grouped(pick, "max")


@LEVEL_2.shape(
    "for each {c} list the {c} and the total {x} of {many}", "show each {c} and the sum of {x} of its {many}"
)
def _group_total(pick: Pick) -> QuestionDraft:
    return _grouped(pick, "sum")


@LEVEL_2.shape(
    "among {many} with {d} list each {c} and its count",
    "count the {many} with {d} per {c}, list {c} and count",
)
def _group_where(pick: Pick) -> QuestionDraft:
    table = pick.table(CATEGORY, NUMBER, nulls=False)
    about = pick.column(table, CATEGORY, nulls=False)
    condition, words, _ = pick.condition(table, about)
    query = Query(select=f"{about.name}, count(*)", tables=(table.name,), where=(condition,), group=about.name)
    return QuestionDraft(query=query, words={"c": about, "many": table, "d": words})


@LEVEL_2.shape("which {c} occurs in more than {k} {many}", "list each {c} that more than {k} {many} have")
def _group_having(pick: Pick) -> QuestionDraft:
    table = pick.table(CATEGORY, nulls=False)
    about = pick.column(table, CATEGORY, nulls=False)
    bound = pick.rng.whole(1, max(1, len(pick.database.rows[table.name]) // 3))
    query = Query(select=about.name, tables=(table.name,), group=about.name, having=f"count(*) > {bound}")
    return QuestionDraft(query=query, words={"c": about, "many": table, "k": bound})


@LEVEL_2.shape("what is the most common {c} of {many}", "which {c} is the most frequent among {many}")
def _commonest(pick: Pick) -> QuestionDraft:
    return _by_count(pick, " DESC")


@LEVEL_2.shape("what is the least common {c} of {many}", "which {c} is the least frequent among {many}")
def _rarest(pick: Pick) -> QuestionDraft:
    return _by_count(pick, "")


def _by_count(pick: Pick, direction: str) -> QuestionDraft:
    table = pick.table(CATEGORY, nulls=False)
    about = pick.column(table, CATEGORY, nulls=False)
    query = Query(select=about.name, tables=(table.name,), group=about.name, order=f"count(*){direction}", limit=1)
    return QuestionDraft(query=query, words={"c": about, "many": table})
