"""SQL: the parts of the Reasoning-SQL reward, and how well two results agree.

Parts are numbers in [0, 1], or None where they could not be measured. ``reasoning_sql`` puts them together.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from turngate.errors import ConfigError, MissingExtra, ShapeError

Row: TypeAlias = tuple[Any, ...]

_TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|\[[^\]]*\]|\w+|[<>!=]=|<>|\|\||[^\s\w]")


# --- syntax and schema -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaItems:
    """The tables and columns that a query names, in lower case and without aliases, quotes and database names."""

    tables: frozenset[str]
    columns: frozenset[str]

    @property
    def items(self) -> frozenset[tuple[str, str]]:
        """All of them; a table and a column of one name are two items."""
        return frozenset({("table", name) for name in self.tables} | {("column", name) for name in self.columns})


def schema_items(sql: str, *, dialect: str = "sqlite", max_chars: int = 20_000) -> SchemaItems | None:
    """What ``sql`` names, or None if it is not exactly one query that sqlglot can parse within ``max_chars``.

    Names of common table expressions are no tables, and ``*`` is no column. Needs the extra "sql" (MissingExtra).
    """
    try:
        import sqlglot
    except ImportError as error:
        raise MissingExtra("sqlglot", "sql") from error
    if len(sql) > max_chars:
        return None
    try:
        trees: list[Any] = [tree for tree in sqlglot.parse(sql, read=dialect) if tree is not None]
    except (sqlglot.errors.SqlglotError, RecursionError):
        return None
    if len(trees) != 1 or not isinstance(trees[0], sqlglot.exp.Query):
        return None
    tree = trees[0]
    views = {view.alias.lower() for view in tree.find_all(sqlglot.exp.CTE)}
    tables = {table.name.lower() for table in tree.find_all(sqlglot.exp.Table)}
    columns = {column.name.lower() for column in tree.find_all(sqlglot.exp.Column)}
    return SchemaItems(tables=frozenset(tables - views - {""}), columns=frozenset(columns - {"", "*"}))


def schema_linking(predicted: SchemaItems | None, gold: SchemaItems | None, *, faithful: bool = False) -> float | None:
    """How well the tables and columns of two queries agree: ``|common| / |union|``, the paper's own Jaccard index.

    ``faithful=True`` is what the released training script counts (https://arxiv.org/abs/2503.23157):
    ``|common| / |gold|``, a recall, which is 1 for a query that names every column there is. A query that could not be
    parsed (``predicted=None``) earns 0; a gold that could not be, or that names nothing, gives None.
    """
    if gold is None or not gold.items:
        return None
    if predicted is None:
        return 0.0
    common = len(predicted.items & gold.items)
    return common / len(gold.items if faithful else predicted.items | gold.items)


def ngram_similarity(predicted: str, gold: str, *, n: int = 2, faithful: bool = False) -> float | None:
    """Jaccard index of the n-grams of two queries; None for an empty gold. ``n=2`` is the paper's.

    Tokens are words, quoted texts and operators, in lower case outside of text literals, and n-grams form bags
    (``Σmin / Σmax``), so saying something twice never pays. ``faithful=True`` (https://arxiv.org/abs/2503.23157,
    released script) splits at spaces and takes sets. A query of fewer than n tokens is one gram. Raises ConfigError for
    n < 1.
    """
    if n < 1:
        raise ConfigError(f"n is {n}; an n-gram has at least one token")
    mine, theirs = (_grams(_tokens(sql, faithful=faithful), n) for sql in (predicted, gold))
    if faithful:
        mine, theirs = Counter(set(mine)), Counter(set(theirs))
    return (mine & theirs).total() / (mine | theirs).total() if theirs else None


def _tokens(sql: str, *, faithful: bool) -> list[str]:
    if faithful:
        return sql.lower().split()
    return [token if token.startswith("'") else token.lower() for token in _TOKEN.findall(sql)]


def _grams(tokens: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[i : i + n]) for i in range(max(1, len(tokens) - n + 1))) if tokens else Counter()


def tag_format(text: str, *, tags: Sequence[str] = ("reasoning", "answer"), faithful: bool = False) -> float:
    """Whether ``text`` is exactly one block per tag, in order, with nothing but space around them: 1 or 0.

    ``faithful=True`` (released script): 1/8 for each of the opening and closing tags that stands there exactly once
    (with two tags at most 0.5), minus 0.001 per character after the last closing tag. Four bare tags then earn
    everything, and a long tail costs without bound.
    """
    marks = [mark for tag in tags for mark in (f"<{tag}>", f"</{tag}>")]
    if faithful:
        once = sum(text.count(mark) == 1 for mark in marks)
        _, last, tail = text.rpartition(marks[-1])
        return 0.125 * once - 0.001 * len(tail.strip() if last else "")
    rest = text.strip()
    for tag in tags:
        if not rest.startswith(f"<{tag}>"):
            return 0.0
        inside, found, rest = rest.removeprefix(f"<{tag}>").partition(f"</{tag}>")
        if not found or not inside.strip() or any(mark in inside for mark in marks):
            return 0.0
        rest = rest.lstrip()
    return float(not rest)


# --- the whole -------------------------------------------------------------------------------------------------------


def reasoning_sql(
    execution: float | None,
    partials: Mapping[str, float | None],
    *,
    judged: float | None = None,
    execution_weight: float = 1.0,
    partial_weight: float = 0.3,
    faithful: bool = False,
) -> float | None:
    """Execution match (0 or 1) and partial scores (``syntax``, ``schema``, ``ngram``, ``format`` …) in one number.

    Default: ``execution_weight·execution + partial_weight·mean(partials)``, in [0, 1.3]; partials without a
    measurement are left out of the mean. ``partial_weight < execution_weight`` is required (ConfigError), so no wrong
    query is paid more than a right one; without partials it becomes the execution match.

    ``faithful=True`` (https://arxiv.org/abs/2503.23157): ``execution_weight·execution + Σ partials``, and for a wrong
    query ``judged`` (a judge's score) if there is one. The released script has execution weight 2 and partials up to
    3.5 in all, so a wrong query (3.5) can overtake a right one (3); with weight 3, the paper's, it cannot (4 > 3.5)
    until a judge's score is added, whose bound is the caller's (the paper's is not known for sure). None if the
    execution is None.
    """
    if execution is None:
        return None
    if execution not in (0, 1):
        raise ShapeError(
            f"execution is {execution}; it must be 0 or 1, or partly right queries could overtake right ones"
        )
    measured = [value for value in partials.values() if value is not None]
    if faithful:
        bonus = judged if judged is not None and execution == 0 else 0.0
        return execution_weight * execution + bonus + sum(measured)
    if not 0 <= partial_weight < execution_weight:
        raise ConfigError(f"partial_weight={partial_weight} must be at least 0 and below {execution_weight=}")
    outside = {name: value for name, value in partials.items() if value is not None and not 0 <= value <= 1}
    if outside:
        raise ShapeError(f"partial scores {outside} must lie in [0, 1]")
    mean = sum(measured) / len(measured) if measured else 0.0
    return execution_weight * execution + partial_weight * mean


# --- results ---------------------------------------------------------------------------------------------------------


def execution_match(
    predicted: Sequence[Row] | None, gold: Sequence[Row] | None, *, ordered: bool = False, faithful: bool = False
) -> float | None:
    """1 if two results hold the same rows, else 0: as bags, or as lists where the question asks for an order.

    ``predicted=None`` means that the query failed, and earns 0; ``gold=None`` (the gold query failed) and a gold
    without rows, which any query without rows would equal, give None: drop the task. ``faithful=True`` compares sets
    as BIRD does (https://arxiv.org/abs/2305.03111): repetitions and order are ignored, and two empty results are equal.
    Columns have to stand in order; ``turngate.envs.sql.compare`` also tries other column orders.
    """
    if gold is None or not (gold or faithful):
        return None
    if predicted is None:
        return 0.0
    if faithful:
        return float(set(predicted) == set(gold))
    return float(list(predicted) == list(gold) if ordered else Counter(predicted) == Counter(gold))


def result_f1(predicted: Sequence[Row] | None, gold: Sequence[Row] | None, *, faithful: bool = False) -> float | None:
    """How much two results overlap: ``2·|common rows| / (|predicted| + |gold|)`` with rows as bags, in [0, 1].

    ``faithful=True`` is BIRD's soft F1 (https://arxiv.org/abs/2305.03111, its evaluation script): repetitions are
    dropped, row i is compared with row i, and the cells of one are looked up in the other. It depends on the order of
    rows, and a row that repeats one right cell fifty times drowns the wrong rows. Missing sides as in
    ``execution_match``.
    """
    if gold is None or not gold:
        return None
    if predicted is None:
        return 0.0
    if faithful:
        return _soft_f1(list(dict.fromkeys(predicted)), list(dict.fromkeys(gold)))
    common = (Counter(predicted) & Counter(gold)).total()
    return 2 * common / (len(predicted) + len(gold))


def _soft_f1(predicted: Sequence[Row], gold: Sequence[Row]) -> float:
    right = wrong = missed = 0.0
    for mine, theirs in zip(predicted, gold, strict=False):
        found = sum(cell in theirs for cell in mine)
        right += found / len(theirs)
        wrong += (len(mine) - found) / len(theirs)
        missed += sum(cell not in mine for cell in theirs) / len(theirs)
    wrong += max(0, len(predicted) - len(gold))
    missed += max(0, len(gold) - len(predicted))
    return 2 * right / (2 * right + wrong + missed) if right else 0.0
