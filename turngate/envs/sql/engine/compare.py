"""Whether two query results say the same. A pure function of the rows; nothing here runs a query.

Rows are compared as bags: duplicates count, order counts only where the question asks for one, and then only as far as
the gold query's ORDER BY decides it. Columns may stand in any order, as a question rarely fixes it, but all and no
others must be there. Values are equal when SQL calls them equal: 1 and 1.0, never '1' and 1, NULL only with NULL. Whole
numbers are compared exactly; where one of two numbers has a fraction, up to what rounding can explain (``_close``). An
empty gold result matches nothing, because then every wrong query without rows would be right.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import chain
from typing import Any, TypeAlias

Cell: TypeAlias = None | int | float | str | bytes
Row: TypeAlias = tuple[Cell, ...]
Column: TypeAlias = list[Cell]
Ids: TypeAlias = Sequence[Hashable]

SHOWN = 1e-6  # relative for numbers below 1, absolute for larger ones: digits that are never written down
ROUNDING = 1e-12  # relative: the effect of adding in another order
SEARCH_STEPS = 1_000  # comparisons of columns and refinements tried while looking for a column order
SEARCH_ROWS = 1_000_000  # the same bound in rows that they look at; a column costs at least three


def same_result(
    predicted: Sequence[Row], gold: Sequence[Row], *, ordered: bool, ranks: Sequence[int] | None = None
) -> bool:
    """Whether ``predicted`` equals ``gold`` as a bag of rows (a list if ``ordered``) in some order of its columns.

    ``ranks``, one per row of ``gold`` and never falling: rows of equal rank tie in the gold query's ORDER BY, so any
    order among them is right; None: no two do. Only read if ``ordered``.

    Searching the column order stops after ``SEARCH_STEPS`` and then says False; only results with many columns of
    equal content can need so many.
    """
    if not gold or len(predicted) != len(gold) or len(predicted[0]) != len(gold[0]):
        return False
    if list(predicted) == list(gold) or (not ordered and Counter(predicted) == Counter(gold)):
        return True
    columns_p = [list(column) for column in zip(*predicted, strict=True)]
    columns_g = [list(column) for column in zip(*gold, strict=True)]
    if not ordered:
        return _same_bag(columns_p, columns_g, [0] * len(gold))
    return _same_sequence(columns_p, columns_g) if ranks is None else _same_bag(columns_p, columns_g, ranks)


def is_ordered(sql: str) -> bool:
    """Whether the outermost query has ORDER BY. Needs the extra "sql"; raises ValueError where it cannot be parsed."""
    try:
        import sqlglot
    except ImportError as error:
        from turngate.errors import MissingExtra

        raise MissingExtra("sqlglot", "sql") from error
    try:
        tree: Any = sqlglot.parse_one(sql, read="sqlite")
    except sqlglot.errors.SqlglotError as error:
        raise ValueError(f"not a query that sqlglot can parse: {str(error).splitlines()[0]}") from error
    while isinstance(tree, sqlglot.exp.Subquery | sqlglot.exp.Paren) and tree.args.get("order") is None:
        tree = tree.this
    return tree.args.get("order") is not None


# --- columns ---------------------------------------------------------------------------------------------------------


def _align(mine: Column, theirs: Column) -> tuple[Ids, Ids] | None:
    """Both columns with equal values as equal ids, or None if they do not hold the same bag of values.

    With a fraction among the values, numbers are paired by rank: if the sorted lists agree pairwise, partners get one
    id, and so do neighbours within the tolerance, so that ranks cannot separate equal values.
    """
    if not any(map(_has_fraction, chain(mine, theirs))):
        return (mine, theirs) if Counter(mine) == Counter(theirs) else None
    numbers = sorted(value for value in mine if isinstance(value, int | float))
    targets = sorted(value for value in theirs if isinstance(value, int | float))
    if len(numbers) != len(targets) or not all(map(_close, numbers, targets)):
        return None
    names_m: dict[float, tuple[str, int]] = {}
    names_t: dict[float, tuple[str, int]] = {}
    group, last = 0, math.nan
    for number, target in zip(numbers, targets, strict=True):
        group += not (number in names_m or _close(target, last))
        names_m[number] = names_t[target] = ("number", group)
        last = target
    ids_m = [names_m[value] if isinstance(value, int | float) else value for value in mine]
    ids_t = [names_t[value] if isinstance(value, int | float) else value for value in theirs]
    return (ids_m, ids_t) if Counter(ids_m) == Counter(ids_t) else None


def _has_fraction(value: Any) -> bool:
    return isinstance(value, float) and not value.is_integer()


def _close(a: float, b: float) -> bool:
    """Whether two numbers are equal up to rounding.

    Two whole ones are exact, as identifiers differ by one whatever their size. A fraction may be off by ``SHOWN``, or
    by ``ROUNDING`` where that is more: 0.1 + 0.2 is 0.3, and 1234567890.5 is neither 1234566890 nor 1234567890.
    """
    if a == b or not (_has_fraction(a) or _has_fraction(b)):
        return a == b
    size = max(abs(a), abs(b))
    return math.isfinite(size) and abs(a - b) <= max(ROUNDING, ROUNDING * size, SHOWN * min(size, 1))


def _same_sequence(mine: list[Column], theirs: list[Column]) -> bool:
    """A column equals another when it does in every row, so the first free partner is as good as any."""
    free = list(range(len(mine)))
    for column in theirs:
        partner = next((i for i in free if all(map(_same_value, mine[i], column))), None)
        if partner is None:
            return False
        free.remove(partner)
    return True


def _same_value(a: Any, b: Any) -> bool:
    return a == b or (_are_numbers(a, b) and _close(a, b))


def _are_numbers(a: Any, b: Any) -> bool:
    return isinstance(a, int | float) and isinstance(b, int | float)


class _Search:
    """Depth-first search of a column order under which the bags of rows agree, one column at a time."""

    def __init__(self, mine: list[Column], theirs: list[Column]) -> None:
        self.steps = 0
        self._mine, self._theirs = mine, theirs
        self._pairs: dict[tuple[int, int], tuple[Ids, Ids] | None] = {}
        self._limit = max(3 * len(theirs), min(SEARCH_STEPS, SEARCH_ROWS // len(theirs[0])))

    def extends(self, depth: int, free: tuple[int, ...], rows_m: Ids, rows_t: Ids) -> bool:
        """Whether columns ``depth``… of theirs can be matched by ``free`` ones, given the classes of rows so far."""
        if depth == len(self._theirs):
            return True
        tried: list[Ids] = []
        for i in sorted(free, key=lambda i: i != depth):  # most often the order is already right
            pair = self._pair(depth, i)
            if pair is None or pair[0] in tried:
                continue
            tried.append(pair[0])
            self.steps += 1
            if self.steps > self._limit:
                return False
            refined = _refine(rows_m, rows_t, pair)
            if refined and self.extends(depth + 1, tuple(j for j in free if j != i), *refined):
                return True
        return False

    def _pair(self, target: int, column: int) -> tuple[Ids, Ids] | None:
        if (target, column) not in self._pairs:
            self.steps += len(self._theirs[0]) > SEARCH_STEPS  # aligning short columns costs nothing
            if self.steps > self._limit:
                return None
            self._pairs[target, column] = _align(self._mine[column], self._theirs[target])
        return self._pairs[target, column]


def _same_bag(mine: list[Column], theirs: list[Column], ranks: Sequence[int]) -> bool:
    """``ranks``: classes that rows must agree in, by their places."""
    return _Search(mine, theirs).extends(0, tuple(range(len(mine))), ranks, ranks)


def _refine(rows_m: Ids, rows_t: Ids, pair: tuple[Ids, Ids]) -> tuple[Ids, Ids] | None:
    """Classes of rows after one more column, or None if the bags of classes now differ."""
    classes: dict[Any, int] = {}
    refined_m = [classes.setdefault(key, len(classes)) for key in zip(rows_m, pair[0], strict=True)]
    refined_t = [classes.setdefault(key, len(classes)) for key in zip(rows_t, pair[1], strict=True)]
    return (refined_m, refined_t) if Counter(refined_m) == Counter(refined_t) else None
