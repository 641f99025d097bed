"""Level 4: queries inside queries, set operations, CASE and dates taken apart."""

from turngate.envs.sql.generated.families_schema import AMOUNT, CATEGORY, DATE, NAME
from turngate.envs.sql.generated.questions import Catalogue, Misfit, Pick, Query, QuestionDraft, literal

LEVEL_4 = Catalogue(level=4)


def _against(pick: Pick, sign: str, function: str) -> QuestionDraft:
    """Rows whose number compares with an aggregate of the whole table."""
    table = pick.table(AMOUNT)
    number = pick.column(table, AMOUNT)
    shown = pick.visible_column(table, number)
    where = (f"{number.name} {sign} (SELECT {function}({number.name}) FROM {table.name})",)
    query = Query(select=shown.name, tables=(table.name,), where=where)
    return QuestionDraft(query=query, words={"a": shown, "x": number, "many": table, "one": table.one})


@LEVEL_4.shape(
    "list the {a} of {many} whose {x} is above the average {x}", "show the {a} of {many} with more than average {x}"
)
def _above_average(pick: Pick) -> QuestionDraft:
    return _against(pick, ">", "avg")


@LEVEL_4.shape(
    "list the {a} of {many} whose {x} is below the average {x}", "show the {a} of {many} with less than average {x}"
)
def _below_average(pick: Pick) -> QuestionDraft:
    return _against(pick, "<", "avg")


@LEVEL_4.shape(
    "list the {a} of all {many} whose {x} equals the highest {x}",
    "show the {a} of every {one} that shares the largest {x}",
)
def _equal_to_highest(pick: Pick) -> QuestionDraft:
    return _against(pick, "=", "max")


@LEVEL_4.shape(
    "list the {a} of all {many} whose {x} equals the lowest {x}",
    "show the {a} of every {one} that shares the smallest {x}",
)
def _equal_to_lowest(pick: Pick) -> QuestionDraft:
    return _against(pick, "=", "min")


@LEVEL_4.shape(
    "list the {a} of {many} with {c} {v} whose {x} is above the average {x} of all {many}",
    "show the {a} of {many} with {c} {v} and more than the average {x} of all {many}",
)
def _above_average_where(pick: Pick) -> QuestionDraft:
    table = pick.table(AMOUNT, CATEGORY)
    number, about = pick.column(table, AMOUNT), pick.column(table, CATEGORY)
    value, shown = pick.value(table, about), pick.visible_column(table, number, about)
    above = f"{number.name} > (SELECT avg({number.name}) FROM {table.name}"
    condition = f"{about.name} = {literal(value)}"
    query = Query(select=shown.name, tables=(table.name,), where=(condition, above + ")"))
    decoy = f"SELECT {shown.name} FROM {table.name} WHERE {condition} AND {above} WHERE {condition})"
    return QuestionDraft(
        query=query, words={"a": shown, "many": table, "c": about, "v": value, "x": number}, decoys=(decoy,)
    )


@LEVEL_4.shape(
    "for each {c} list {c} and {n} of the {many} with the highest {x} of that {c}",
    "show {c} and {n} of {many} whose {x} is the largest of their {c}",
)
def _top_of_each(pick: Pick) -> QuestionDraft:
    table = pick.table(NAME, AMOUNT, CATEGORY, nulls=False)
    name, number = pick.column(table, NAME), pick.column(table, AMOUNT, nulls=False)
    about = pick.column(table, CATEGORY, nulls=False)
    inner = f"SELECT max({number.name}) FROM {table.name} AS other WHERE other.{about.name} = {table.name}.{about.name}"
    select = f"{about.name}, {name.name}"
    query = Query(select=select, tables=(table.name,), where=(f"{number.name} = ({inner})",))
    return QuestionDraft(query=query, words={"c": about, "n": name, "x": number, "many": table})


def _member(pick: Pick, operator: str) -> QuestionDraft:
    """Parents whose id is, or is not, among the children under a condition."""
    link = pick.link(parent=NAME)
    condition, words, _ = pick.condition(link.child)
    shown = pick.visible_column(link.parent)
    start = f"SELECT {link.column.name} FROM {link.child.name}"
    tables = (link.parent.name, link.child.name)
    where = (f"id {operator} ({start} WHERE {condition})",)
    query = Query(select=shown.name, tables=tables, where=where)
    decoy = f"SELECT {shown.name} FROM {link.parent.name} WHERE id {operator} ({start})"
    spoken = {"a": shown, "parents": link.parent, "one": link.parent.one, "kid": link.child.one, "c": words}
    return QuestionDraft(query=query, words=spoken, decoys=(decoy,))


@LEVEL_4.shape(
    "list the {a} of {parents} that have {kid:a} with {c}",
    "show the {a} of every {one} with at least one {kid} with {c}",
)
def _in_children(pick: Pick) -> QuestionDraft:
    return _member(pick, "IN")


@LEVEL_4.shape(
    "list the {a} of {parents} that have no {kid} with {c}", "show the {a} of every {one} without any {kid} with {c}"
)
def _not_in_children(pick: Pick) -> QuestionDraft:
    return _member(pick, "NOT IN")


def _exists(pick: Pick, negation: str) -> QuestionDraft:
    """Parents with, or without, a child above a bound."""
    link = pick.link(child=AMOUNT, parent=NAME)
    number, shown = pick.column(link.child, AMOUNT), pick.visible_column(link.parent)
    value = pick.value(link.child, number)
    start = f"{negation}EXISTS (SELECT 1 FROM {link.child.name} WHERE {link.on}"
    tables = (link.parent.name, link.child.name)
    where = (f"{start} AND {number.name} > {value})",)
    query = Query(select=shown.name, tables=tables, where=where)
    decoy = f"SELECT {shown.name} FROM {link.parent.name} WHERE {start})"
    spoken = {"a": shown, "parents": link.parent, "many": link.child, "kid": link.child.one, "x": number, "v": value}
    return QuestionDraft(query=query, words=spoken, decoys=(decoy,))


@LEVEL_4.shape(
    "list the {a} of {parents} for which {kid:a} exists whose {x} is above {v}",
    "show the {a} of {parents} where some {kid} has {x} above {v}",
)
def _exists_above(pick: Pick) -> QuestionDraft:
    return _exists(pick, "")


@LEVEL_4.shape(
    "list the {a} of {parents} for which no {kid} exists whose {x} is above {v}",
    "show the {a} of {parents} where no {kid} has {x} above {v}",
)
def _none_above(pick: Pick) -> QuestionDraft:
    return _exists(pick, "NOT ")


@LEVEL_4.shape(
    "list the {n} of {parents} with more than {k} {many}", "show the {n} of every {one} that has more than {k} {many}"
)
def _having_join(pick: Pick) -> QuestionDraft:
    link = pick.link(parent=NAME)
    name, bound = pick.column(link.parent, NAME), pick.rng.whole(1, 5)
    label = f"{link.parent.name}.{name.name}"
    source = f"{link.child.name} JOIN {link.parent.name} ON {link.on}"
    tables = (link.child.name, link.parent.name)
    query = Query(select=label, tables=tables, source=source, group=label, having=f"count(*) > {bound}")
    return QuestionDraft(
        query=query, words={"n": name, "parents": link.parent, "one": link.parent.one, "k": bound, "many": link.child}
    )


@LEVEL_4.shape(
    "which {c} has an average {x} of {many} above the average {x} of all {many}",
    "list each {c} whose {many} have an average {x} above the average of all {many}",
)
def _having_average(pick: Pick) -> QuestionDraft:
    table = pick.table(CATEGORY, AMOUNT, nulls=False)
    about, number = pick.column(table, CATEGORY, nulls=False), pick.column(table, AMOUNT, nulls=False)
    having = f"avg({number.name}) > (SELECT avg({number.name}) FROM {table.name})"
    query = Query(select=about.name, tables=(table.name,), group=about.name, having=having)
    return QuestionDraft(query=query, words={"c": about, "x": number, "many": table})


@LEVEL_4.shape(
    "list the {n} of all {many} and high if the {x} is above {v}, else low",
    "show the {n} of all {many} and high for {x} above {v}, otherwise low",
)
def _case(pick: Pick) -> QuestionDraft:
    table = pick.table(NAME, AMOUNT, nulls=False)
    name, number = pick.column(table, NAME), pick.column(table, AMOUNT, nulls=False)
    value = pick.value(table, number)
    label = f"CASE WHEN {number.name} > {value} THEN 'high' ELSE 'low' END"
    query = Query(select=f"{name.name}, {label}", tables=(table.name,))
    decoys = tuple(f"SELECT {name.name}, '{word}' FROM {table.name}" for word in ("high", "low"))
    return QuestionDraft(query=query, words={"n": name, "many": table, "x": number, "v": value}, decoys=decoys)


@LEVEL_4.shape(
    "how many {many} have {x} above {v} and how many do not",
    "count {many} with {x} above {v} and those without, list both",
)
def _case_count(pick: Pick) -> QuestionDraft:
    table = pick.table(AMOUNT, nulls=False)
    number = pick.column(table, AMOUNT, nulls=False)
    value = pick.value(table, number)
    parts = (f"sum(CASE WHEN {number.name} {sign} {value} THEN 1 ELSE 0 END)" for sign in (">", "<="))
    query = Query(select=", ".join(parts), tables=(table.name,))
    return QuestionDraft(query=query, words={"many": table, "x": number, "v": value})


def _set_of_names(pick: Pick, operator: str) -> QuestionDraft:
    """Names of two tables under a set operator."""
    left = pick.table(NAME)
    right = pick.table(NAME)
    if left == right:
        raise Misfit
    first, second = pick.column(left, NAME), pick.column(right, NAME)
    other = Query(select=second.name, tables=(right.name,))
    query = Query(select=first.name, tables=(left.name, right.name), then=(operator, other))
    return QuestionDraft(query=query, words={"n": first, "m": second, "many": left, "others": right})


@LEVEL_4.shape(
    "list each different value that is {n:a} of {many} or {m:a} of {others}",
    "which different values occur as {n} of {many} or as {m} of {others}",
)
def _union(pick: Pick) -> QuestionDraft:
    return _set_of_names(pick, "UNION")


def _set_of_categories(pick: Pick, operator: str) -> QuestionDraft:
    """Values of a category under a set operator of two conditions."""
    table = pick.table(CATEGORY, AMOUNT, nulls=False)
    about = pick.column(table, CATEGORY, nulls=False)
    first, first_words, _ = pick.condition(table, about)
    second, second_words, _ = pick.condition(table, about)
    other = Query(select=about.name, tables=(table.name,), where=(second,))
    query = Query(select=about.name, tables=(table.name,), where=(first,), then=(operator, other))
    return QuestionDraft(query=query, words={"c": about, "many": table, "d": first_words, "e": second_words})


@LEVEL_4.shape(
    "which {c} occurs among {many} with {d} and also among {many} with {e}",
    "list each {c} found both for {many} with {d} and for {many} with {e}",
)
def _intersect(pick: Pick) -> QuestionDraft:
    return _set_of_categories(pick, "INTERSECT")


@LEVEL_4.shape(
    "which {c} occurs among {many} with {d} but not among {many} with {e}",
    "list each {c} found for {many} with {d} but not for {many} with {e}",
)
def _except(pick: Pick) -> QuestionDraft:
    return _set_of_categories(pick, "EXCEPT")


@LEVEL_4.shape(
    "for each year of the {d} list the year and the number of {many}",
    "count the {many} per year of the {d}, list year and count",
)
def _per_year(pick: Pick) -> QuestionDraft:
    table = pick.table(DATE, nulls=False)
    day = pick.column(table, DATE, nulls=False)
    part = f"strftime('%Y', {day.name})"
    query = Query(select=f"{part}, count(*)", tables=(table.name,), group=part)
    return QuestionDraft(query=query, words={"d": day, "many": table})


@LEVEL_4.shape("in which year of the {d} were there the most {many}", "which year has the most {many} by {d}")
def _best_year(pick: Pick) -> QuestionDraft:
    table = pick.table(DATE, nulls=False)
    day = pick.column(table, DATE, nulls=False)
    part = f"strftime('%Y', {day.name})"
    query = Query(select=part, tables=(table.name,), group=part, order="count(*) DESC", limit=1)
    return QuestionDraft(query=query, words={"d": day, "many": table})


@LEVEL_4.shape("how many {many} have {d:a} in month {v}", "count the {many} whose {d} is in month {v}")
def _in_month(pick: Pick) -> QuestionDraft:
    table = pick.table(DATE)
    day = pick.column(table, DATE)
    month = str(pick.value(table, day))[5:7]
    query = Query(select="count(*)", tables=(table.name,), where=(f"strftime('%m', {day.name}) = '{month}'",))
    return QuestionDraft(query=query, words={"d": day, "many": table, "v": month})
