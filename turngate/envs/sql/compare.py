"""Whether two query results say the same. A pure function of the rows; nothing here runs a query.

Rows are compared as bags: duplicates count, order counts only where the question asks for one. Columns may stand in any
order, as a question rarely fixes it, but all and no others must be there. Values are equal when SQL calls them equal:
1 and 1.0, never '1' and 1, NULL only with NULL; numbers with a fraction within a relative 1e-6. An empty gold result
matches nothing, because then every wrong query without rows would be right.
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

RELATIVE = 1e-6
ABSOLUTE = 1e-12
SEARCH_STEPS = 1_000  # refinements tried while looking for a column order


def same_result(predicted: Sequence[Row], gold: Sequence[Row], *, ordered: bool) -> bool:
    """Whether ``predicted`` equals ``gold`` as a bag of rows (a list if ``ordered``) in some order of its columns.

    Searching the column order stops after ``SEARCH_STEPS`` and then says False; only results with many columns of
    equal content can need so many.
    """
    if not gold or len(predicted) != len(gold) or len(predicted[0]) != len(gold[0]):
        return False
    if list(predicted) == list(gold) or (not ordered and Counter(predicted) == Counter(gold)):
        return True
    columns_p = [list(column) for column in zip(*predicted, strict=True)]
    columns_g = [list(column) for column in zip(*gold, strict=True)]
    return _same_sequence(columns_p, columns_g) if ordered else _same_bag(columns_p, columns_g)


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

    Whole numbers are compared exactly (identifiers above a million differ by less than the tolerance) unless there is
    a fraction among the values. Then numbers are paired by rank: if the sorted lists agree pairwise, partners get one
    id, and so do neighbours within the tolerance, so that rank cannot tear apart what is equal.
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
    return math.isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE)


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
    return a == b or ((_has_fraction(a) or _has_fraction(b)) and _are_numbers(a, b) and _close(a, b))


def _are_numbers(a: Any, b: Any) -> bool:
    return isinstance(a, int | float) and isinstance(b, int | float)


class _Search:
    """Depth-first search of a column order under which the bags of rows agree, one column at a time."""

    def __init__(self, mine: list[Column], theirs: list[Column]) -> None:
        self.steps = 0
        self.pairs = [[_align(column, target) for column in mine] for target in theirs]

    def extends(self, depth: int, free: tuple[int, ...], rows_m: Ids, rows_t: Ids) -> bool:
        """Whether columns ``depth``… of theirs can be matched by ``free`` ones, given the classes of rows so far."""
        if depth == len(self.pairs):
            return True
        tried: list[Ids] = []
        for i in sorted(free, key=lambda i: i != depth):  # most often the order is already right
            pair = self.pairs[depth][i]
            if pair is None or pair[0] in tried:
                continue
            tried.append(pair[0])
            self.steps += 1
            if self.steps > SEARCH_STEPS:
                return False
            refined = _refine(rows_m, rows_t, pair)
            if refined and self.extends(depth + 1, tuple(j for j in free if j != i), *refined):
                return True
        return False


def _same_bag(mine: list[Column], theirs: list[Column]) -> bool:
    search = _Search(mine, theirs)
    rows = [0] * len(mine[0])
    return search.extends(0, tuple(range(len(mine))), rows, rows)


def _refine(rows_m: Ids, rows_t: Ids, pair: tuple[Ids, Ids]) -> tuple[Ids, Ids] | None:
    """Classes of rows after one more column, or None if the bags of classes now differ."""
    classes: dict[Any, int] = {}
    refined_m = [classes.setdefault(key, len(classes)) for key in zip(rows_m, pair[0], strict=True)]
    refined_t = [classes.setdefault(key, len(classes)) for key in zip(rows_t, pair[1], strict=True)]
    return (refined_m, refined_t) if Counter(refined_m) == Counter(refined_t) else None
