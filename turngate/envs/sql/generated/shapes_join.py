"""Level 3: two or three tables along foreign keys."""

from turngate.envs.sql.generated.families_schema import AMOUNT, CATEGORY, NAME, NUMBER, DatabaseFamily, Link
from turngate.envs.sql.generated.questions import Catalogue, Pick, Query, QuestionDraft, literal

LEVEL_3 = Catalogue(level=3)


def _joined(*links: Link) -> tuple[tuple[str, ...], str]:
    """Tables and FROM clause of links, of which the first names the table that the clause starts with."""
    start = links[0].child
    joins = (f"JOIN {link.parent.name} ON {link.on}" for link in links)
    return (start.name, *(link.parent.name for link in links)), " ".join([start.name, *joins])


def _has_chain(family: DatabaseFamily) -> bool:
    return bool(family.chains)


def _has_bridge(family: DatabaseFamily) -> bool:
    return bool(family.bridges)


def _named_child(family: DatabaseFamily) -> bool:
    return any(link.child.of_kind(NAME) for link in family.links)


def _of_parent(pick: Pick, function: str = "") -> QuestionDraft:
    """Something about the children of the parent that has a given name."""
    link = pick.link(child=AMOUNT)
    child, parent = link.child, link.parent
    name = pick.column(parent, NAME)
    value = pick.value(parent, name)
    shown = pick.column(child, AMOUNT) if function else pick.visible_column(child)
    column = f"{child.name}.{shown.name}"
    tables, source = _joined(link)
    select = f"{function}({column})" if function else column
    where = (f"{parent.name}.{name.name} = {literal(value)}",)
    query = Query(select=select, tables=tables, source=source, where=where)
    return QuestionDraft(query=query, words={"a": shown, "many": child, "one": parent.one, "v": value})


@LEVEL_3.shape("list the {a} of the {many} of {one} {v}", "show the {a} of all {many} that belong to {one} {v}")
def _children(pick: Pick) -> QuestionDraft:
    return _of_parent(pick)


@LEVEL_3.shape(
    "what is the total {a} of the {many} of {one} {v}", "add up the {a} of all {many} that belong to {one} {v}"
)
def _children_total(pick: Pick) -> QuestionDraft:
    return _of_parent(pick, "sum")


@LEVEL_3.shape(
    "what is the average {a} of the {many} of {one} {v}", "find the mean {a} of all {many} that belong to {one} {v}"
)
def _children_average(pick: Pick) -> QuestionDraft:
    return _of_parent(pick, "avg")


@LEVEL_3.shape(
    "how many {many} does {one} {v} have", "count the {many} of {one} {v}", "what is the number of {many} of {one} {v}"
)
def _children_count(pick: Pick) -> QuestionDraft:
    link = pick.link(parent=NAME)
    name = pick.column(link.parent, NAME)
    value = pick.value(link.parent, name)
    tables, source = _joined(link)
    where = (f"{link.parent.name}.{name.name} = {literal(value)}",)
    query = Query(select="count(*)", tables=tables, source=source, where=where)
    return QuestionDraft(query=query, words={"many": link.child, "one": link.parent.one, "v": value})


@LEVEL_3.shape(
    "what is the {a} of the {one} of {kid} {v}",
    "give the {a} of the {one} that {kid} {v} belongs to",
    fits=_named_child,
)
def _parent_of(pick: Pick) -> QuestionDraft:
    link = pick.link(child=NAME)
    name, shown = pick.column(link.child, NAME), pick.visible_column(link.parent)
    value = pick.value(link.child, name)
    tables, source = _joined(link)
    where = (f"{link.child.name}.{name.name} = {literal(value)}",)
    query = Query(select=f"{link.parent.name}.{shown.name}", tables=tables, source=source, where=where)
    return QuestionDraft(query=query, words={"a": shown, "one": link.parent.one, "kid": link.child.one, "v": value})


def _per_parent(pick: Pick, function: str) -> QuestionDraft:
    link = pick.link(child=AMOUNT, parent=NAME)
    name, number = pick.column(link.parent, NAME), pick.column(link.child, AMOUNT, nulls=False)
    label = f"{link.parent.name}.{name.name}"
    tables, source = _joined(link)
    select = f"{label}, {function.format(f'{link.child.name}.{number.name}')}"
    query = Query(select=select, tables=tables, source=source, group=label)
    return QuestionDraft(query=query, words={"n": name, "x": number, "one": link.parent.one, "many": link.child})


@LEVEL_3.shape(
    "for each {one} with {many} list the {n} and the number of {many}",
    "show {n} and number of {many} of every {one} that has any",
)
def _count_each(pick: Pick) -> QuestionDraft:
    return _per_parent(pick, "count(*)")


@LEVEL_3.shape(
    "for each {one} with {many} list the {n} and the average {x} of the {many}",
    "show {n} and average {x} of {many} of every {one} that has any",
)
def _average_each(pick: Pick) -> QuestionDraft:
    return _per_parent(pick, "avg({})")


@LEVEL_3.shape(
    "for each {one} with {many} list the {n} and the total {x} of the {many}",
    "show {n} and total {x} of {many} of every {one} that has any",
)
def _total_each(pick: Pick) -> QuestionDraft:
    return _per_parent(pick, "sum({})")


@LEVEL_3.shape(
    "for each {one} list the {n} and the number of {many}, including zero",
    "show {n} and number of {many} of every {one}, even without {many}",
)
def _count_each_zero(pick: Pick) -> QuestionDraft:
    link = pick.link(parent=NAME)
    child, parent = link.child.name, link.parent.name
    name = pick.column(link.parent, NAME)
    select, label = f"{parent}.{name.name}, count({child}.id)", f"{parent}.{name.name}"
    source = f"{parent} LEFT JOIN {child} ON {link.on}"
    query = Query(select=select, tables=(parent, child), source=source, group=label)
    inner = f"SELECT {select} FROM {parent} JOIN {child} ON {link.on} GROUP BY {label}"
    return QuestionDraft(query=query, words={"n": name, "one": link.parent.one, "many": link.child}, decoys=(inner,))


@LEVEL_3.shape("list the {a} of {parents} without {many}", "show the {a} of {parents} that have no {many}")
def _childless(pick: Pick) -> QuestionDraft:
    link = pick.link(parent=NAME)
    child, parent = link.child.name, link.parent.name
    shown = pick.visible_column(link.parent)
    source = f"{parent} LEFT JOIN {child} ON {link.on}"
    where = (f"{child}.id IS NULL",)
    query = Query(select=f"{parent}.{shown.name}", tables=(parent, child), source=source, where=where)
    return QuestionDraft(query=query, words={"a": shown, "parents": link.parent, "many": link.child})


@LEVEL_3.shape(
    "what is the {n} of the {one} of the {kid} with the highest {x}",
    "which {one} has the {kid} with the largest {x}, give the {n}",
)
def _parent_of_top(pick: Pick) -> QuestionDraft:
    return _parent_of_extreme(pick, " DESC")


@LEVEL_3.shape(
    "what is the {n} of the {one} of the {kid} with the lowest {x}",
    "which {one} has the {kid} with the smallest {x}, give the {n}",
)
def _parent_of_bottom(pick: Pick) -> QuestionDraft:
    return _parent_of_extreme(pick, "")


def _parent_of_extreme(pick: Pick, direction: str) -> QuestionDraft:
    link = pick.link(child=NUMBER, parent=NAME)
    name, number = pick.column(link.parent, NAME), pick.column(link.child, NUMBER, nulls=False)
    tables, source = _joined(link)
    order = f"{link.child.name}.{number.name}{direction}"
    query = Query(select=f"{link.parent.name}.{name.name}", tables=tables, source=source, order=order, limit=1)
    return QuestionDraft(query=query, words={"n": name, "x": number, "one": link.parent.one, "kid": link.child.one})


@LEVEL_3.shape(
    "what is the average {x} of {many} of {parents} whose {c} is {v}",
    "find the mean {x} of {many} of {parents} with {c} {v}",
)
def _average_by_parent(pick: Pick) -> QuestionDraft:
    link = pick.link(child=AMOUNT, parent=CATEGORY)
    number, about = pick.column(link.child, AMOUNT), pick.column(link.parent, CATEGORY)
    value = pick.value(link.parent, about)
    tables, source = _joined(link)
    where = (f"{link.parent.name}.{about.name} = {literal(value)}",)
    query = Query(select=f"avg({link.child.name}.{number.name})", tables=tables, source=source, where=where)
    words = {"x": number, "many": link.child, "parents": link.parent, "c": about, "v": value}
    return QuestionDraft(query=query, words=words)


@LEVEL_3.shape("how many {many} belong to {parents} whose {c} is {v}", "count the {many} of {parents} with {c} {v}")
def _count_by_parent(pick: Pick) -> QuestionDraft:
    link = pick.link(parent=CATEGORY)
    about = pick.column(link.parent, CATEGORY)
    value = pick.value(link.parent, about)
    tables, source = _joined(link)
    where = (f"{link.parent.name}.{about.name} = {literal(value)}",)
    query = Query(select="count(*)", tables=tables, source=source, where=where)
    return QuestionDraft(query=query, words={"many": link.child, "parents": link.parent, "c": about, "v": value})


@LEVEL_3.shape(
    "group the {many} by {one} {c}, list {c} and count",
    "count the {many} per {c} of the {one}, list {c} and count",
)
def _group_by_parent(pick: Pick) -> QuestionDraft:
    link = pick.link(parent=CATEGORY)
    about = pick.column(link.parent, CATEGORY, nulls=False)
    label = f"{link.parent.name}.{about.name}"
    tables, source = _joined(link)
    query = Query(select=f"{label}, count(*)", tables=tables, source=source, group=label)
    decoy = f"SELECT {about.name}, count(*) FROM {link.parent.name} GROUP BY {about.name}"
    return QuestionDraft(query=query, words={"c": about, "one": link.parent.one, "many": link.child}, decoys=(decoy,))


@LEVEL_3.shape(
    "list the {a} of {many} with {c} whose {one} has {d}", "show the {a} of {many} with {c} and {one:a} with {d}"
)
def _both_sides(pick: Pick) -> QuestionDraft:
    link = pick.link(child=CATEGORY, parent=CATEGORY)
    child, child_words, about = pick.condition(link.child, prefix=f"{link.child.name}.")
    parent, parent_words, _ = pick.condition(link.parent, prefix=f"{link.parent.name}.")
    shown = pick.visible_column(link.child, about)
    tables, source = _joined(link)
    select = f"{link.child.name}.{shown.name}"
    query = Query(select=select, tables=tables, source=source, where=(parent, child))
    words = {"a": shown, "many": link.child, "c": child_words, "one": link.parent.one, "d": parent_words}
    return QuestionDraft(query=query, words=words)


@LEVEL_3.shape("list the {a} and the {one} {n} of {many} with {c}", "show {a} and {one} {n} of every {kid} with {c}")
def _pair(pick: Pick) -> QuestionDraft:
    link = pick.link(parent=NAME)
    name = pick.column(link.parent, NAME)
    condition, words, about = pick.condition(link.child, prefix=f"{link.child.name}.")
    shown = pick.visible_column(link.child, about)
    tables, source = _joined(link)
    select = f"{link.child.name}.{shown.name}, {link.parent.name}.{name.name}"
    query = Query(select=select, tables=tables, source=source, where=(condition,))
    spoken = {"a": shown, "n": name, "one": link.parent.one, "many": link.child, "kid": link.child.one, "c": words}
    return QuestionDraft(query=query, words=spoken)


@LEVEL_3.shape("what is the {n} of the {one} with the most {many}", "which {one} has the most {many}, give the {n}")
def _busiest(pick: Pick) -> QuestionDraft:
    link = pick.link(parent=NAME)
    name = pick.column(link.parent, NAME)
    label = f"{link.parent.name}.{name.name}"
    tables, source = _joined(link)
    query = Query(select=label, tables=tables, source=source, group=label, order="count(*) DESC", limit=1)
    return QuestionDraft(query=query, words={"n": name, "one": link.parent.one, "many": link.child})


@LEVEL_3.shape(
    "list the {a} of {many} whose {mid} has {one} {v}",
    "show the {a} of {many} with {mid:a} of {one} {v}",
    fits=_has_chain,
)
def _grandchildren(pick: Pick) -> QuestionDraft:
    low, high = pick.chain()
    name, shown = pick.column(high.parent, NAME), pick.visible_column(low.child)
    value = pick.value(high.parent, name)
    tables, source = _joined(low, high)
    where = (f"{high.parent.name}.{name.name} = {literal(value)}",)
    query = Query(select=f"{low.child.name}.{shown.name}", tables=tables, source=source, where=where)
    words = {"a": shown, "many": low.child, "mid": high.child.one, "one": high.parent.one, "v": value}
    return QuestionDraft(query=query, words=words)


@LEVEL_3.shape(
    "how many {many} have {mid:a} whose {one} has {c} {v}",
    "count the {many} with {mid:a} of {one:a} with {c} {v}",
    fits=_has_chain,
)
def _grandchildren_count(pick: Pick) -> QuestionDraft:
    low, high = pick.chain()
    about = pick.column(high.parent, CATEGORY)
    value = pick.value(high.parent, about)
    tables, source = _joined(low, high)
    where = (f"{high.parent.name}.{about.name} = {literal(value)}",)
    query = Query(select="count(*)", tables=tables, source=source, where=where)
    words = {"many": low.child, "mid": high.child.one, "one": high.parent.one, "c": about, "v": value}
    return QuestionDraft(query=query, words=words)


@LEVEL_3.shape(
    "list each different {n} of {others} that have {many} with {one} {v}",
    "{others} with {many} of {one} {v}: list each different {n}",
    fits=_has_bridge,
)
def _across(pick: Pick) -> QuestionDraft:
    here, there = pick.bridge()
    name, shown = pick.column(here.parent, NAME), pick.column(there.parent, NAME)
    value = pick.value(here.parent, name)
    tables, source = _joined(here, there)
    where = (f"{here.parent.name}.{name.name} = {literal(value)}",)
    select = f"{there.parent.name}.{shown.name}"
    query = Query(select=select, tables=tables, source=source, where=where, distinct=True)
    words = {"n": shown, "others": there.parent, "many": here.child, "one": here.parent.one, "v": value}
    return QuestionDraft(query=query, words=words)


@LEVEL_3.shape(
    "list the {one} {n} and the {other} {m} of {many} with {c}",
    "show {one} {n} and {other} {m} for each of the {many} with {c}",
    fits=_has_bridge,
)
def _both_parents(pick: Pick) -> QuestionDraft:
    here, there = pick.bridge()
    name, other = pick.column(here.parent, NAME), pick.column(there.parent, NAME)
    condition, words, _ = pick.condition(here.child, prefix=f"{here.child.name}.")
    tables, source = _joined(here, there)
    select = f"{here.parent.name}.{name.name}, {there.parent.name}.{other.name}"
    query = Query(select=select, tables=tables, source=source, where=(condition,))
    spoken = {"one": here.parent.one, "n": name, "other": there.parent.one, "m": other}
    return QuestionDraft(query=query, words=spoken | {"many": here.child, "c": words})
