"""The row order that a gold query's ORDER BY leaves open. Needs the extra "sql".

Rows that are equal in every term of an ORDER BY come in the order in which they happen to be stored, or in that of the
engine's query plan. So the same query gives another list of rows on the same content, and where a LIMIT cuts through
such rows, other rows. ``ranked`` writes a query that says which rows tie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from turngate.envs.sql.engine.compare import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """``sql`` gives what the query gives, and one more column: the rank of each row by the query's ORDER BY.

    ``whole`` is the same without LIMIT. ``first`` and ``end``: which of its rows the LIMIT takes; ``end`` is None
    without one. ``orders``: whether there is an ORDER BY. ``distinct``: whether the query is a SELECT DISTINCT, from
    which a rank may keep rows that are gone without it.
    """

    sql: str
    whole: str
    first: int
    end: int | None
    orders: bool
    distinct: bool

    def is_cut(self, rows: Sequence[Row]) -> bool:
        """Whether the result depends on how rows are stored; ``rows``: the result of ``whole``.

        It does where rows on both sides of a cut of LIMIT have equal ranks, and rows of that rank differ.
        """
        plain, ranks = split(rows)
        if self.end is None or (self.distinct and len(set(plain)) < len(plain)):
            return False
        for cut in (self.first, self.end):
            tied = 0 < cut < len(rows) and ranks[cut - 1] == ranks[cut]
            if tied and len({row for row in rows if row[-1] == ranks[cut]}) > 1:
                return True
        return False


def ranked(sql: str) -> Ranked | None:
    """The ranked form of a query, or None where it cannot be written. Raises MissingExtra."""
    try:
        import sqlglot
        from sqlglot import exp
    except ImportError as error:
        from turngate.errors import MissingExtra

        raise MissingExtra("sqlglot", "sql") from error
    try:
        tree: Any = sqlglot.parse_one(sql, read="sqlite")
        select: Any = _with_rank(tree, exp)
        if select is None:
            return None
        first, count = _number(tree, "offset"), _number(tree, "limit")
        plain = select.copy()
        for part in ("limit", "offset"):
            plain.set(part, None)
        end = None if tree.args.get("limit") is None or count < 0 else max(first, 0) + count  # negative: no limit
        return Ranked(
            sql=select.sql("sqlite"),
            whole=plain.sql("sqlite"),
            first=max(first, 0),
            end=end,
            orders=tree.args.get("order") is not None,
            distinct=tree.args.get("distinct") is not None,
        )
    except (sqlglot.errors.SqlglotError, ValueError, RecursionError):
        return None


def _with_rank(tree: Any, exp: Any) -> Any:
    terms = tree.args["order"].expressions if tree.args.get("order") else []
    named = [(select.alias_or_name, select.unalias()) for select in tree.selects]
    if isinstance(tree, exp.Select):
        return _add(tree.copy(), [_term(term, named, exp) for term in terms], exp)
    if not isinstance(tree, exp.SetOperation) or tree.ctes or any(select.is_star for select in tree.selects):
        return None
    # No window may stand in one half of a UNION: it becomes a table, whose columns its ORDER BY may name and no others.
    columns = [f"c{number}" for number in range(1, len(named) + 1)]
    named = [(name, exp.column(column)) for (name, _), column in zip(named, columns, strict=True)]
    terms = [_term(term, named, exp) for term in terms]
    inner = tree.copy()
    for part in ("order", "limit", "offset"):
        inner.set(part, None)
    outer = exp.select(*columns).from_("turngate_gold").with_(f"turngate_gold({', '.join(columns)})", as_=inner)
    if terms:
        outer = outer.order_by(*[term.copy() for term in terms])
    for part in ("limit", "offset"):
        outer.set(part, tree.args[part].copy() if tree.args.get(part) else None)
    return _add(outer, terms, exp)


def _term(term: Any, named: Sequence[tuple[str, Any]], exp: Any) -> Any:
    """A term of ORDER BY with an ordinal or alias replaced by its expression, because windows take neither."""
    term = term.copy()
    inner = term
    while isinstance(inner, exp.Ordered | exp.Collate):
        inner = inner.this
    index = None
    if isinstance(inner, exp.Literal) and not inner.is_string:
        index = int(inner.this) - 1
    elif isinstance(inner, exp.Column) and not inner.table:
        names = [name.lower() for name, _ in named]
        index = names.index(inner.name.lower()) if inner.name.lower() in names else None
    if index is None:
        return term
    if not 0 <= index < len(named) or named[index][1].is_star:
        raise ValueError(f"ORDER BY {inner} names no column that is known here")
    inner.replace(named[index][1].copy())
    return term


def _add(select: Any, terms: Sequence[Any], exp: Any) -> Any:
    order = exp.Order(expressions=[term.copy() for term in terms]) if terms else None
    rank = exp.Window(this=exp.Anonymous(this="dense_rank", expressions=[]), order=order)
    return select.select(exp.alias_(rank, "turngate_rank"), copy=False)


def _number(tree: Any, part: str) -> int:
    """The number in LIMIT or OFFSET; 0 where there is none. Raises ValueError for an expression."""
    node = tree.args.get(part)
    return 0 if node is None else int(node.expression.sql("sqlite"))


def split(rows: Sequence[Row]) -> tuple[list[Row], list[int]]:
    """The rows of a ranked query without their ranks, and the ranks."""
    return [row[:-1] for row in rows], [int(row[-1] or 0) for row in rows]
