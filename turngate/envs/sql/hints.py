"""Hints of a question about a database: its tables, how they are joined, the clauses of a query, a query with a hole.

All are read from the gold query, whether generated or written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from turngate.envs.sql.task import SqlTask
from turngate.types import Task

HOLE = "…"
LEVELS = 4

_TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|\[[^\]]*\]|(?:GROUP|ORDER)\s+BY\b|\w+|[^\w\s]", re.IGNORECASE)
_WORDS = "SELECT DISTINCT FROM LEFT JOIN ON WHERE HAVING LIMIT UNION INTERSECT EXCEPT ALL"
_KEYWORDS = frozenset({*_WORDS.split(), "GROUP BY", "ORDER BY"})
_SETS = frozenset({"UNION", "INTERSECT", "EXCEPT"})
_LEFT_OUT = ("WHERE", "HAVING", "ORDER BY", "GROUP BY", "SELECT")
"""The clause that the last level leaves out is the first of these that the query has."""
_FROM = re.compile(r"\bFROM\s+(\w+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Clause:
    """The text after a keyword, up to the next one at its own depth or the end of its subquery: ``sql[start:end]``."""

    keyword: str
    depth: int
    start: int
    end: int


def sql_hint(task: Task, level: int) -> str | None:
    """Level 1 to 4 of a task, each with all that the one before it says; None for another level."""
    if not 1 <= level <= LEVELS:
        return None
    asked = SqlTask.of(task)
    gold, needs = asked.gold, asked.needs
    tables = [*asked.tables, *(table for need in needs for table in _FROM.findall(need["sql"]))]
    looks = f" Look up: {', '.join(dict.fromkeys(need['column'] for need in needs))}." if needs else ""
    parts = (
        f"Tables: {', '.join(dict.fromkeys(tables))}.",
        f"{_joins(gold, len(asked.tables))}{looks}",
        f"Clauses: {clauses_of(gold)}.",
    )
    if level < LEVELS:
        return " ".join(parts[:level])
    query = asked.frame.format(*[HOLE] * len(needs)) if asked.frame else with_hole(gold)
    return f"{parts[0]}{looks} Query: {query}"


def clauses_of(sql: str) -> str:
    """The keywords of a query with ``…`` for the text between them; subqueries in brackets."""
    written: list[str] = []
    brackets: list[bool] = []
    tokens = [match[0] for match in _TOKEN.finditer(sql)]
    for token, following in zip(tokens, [*tokens[1:], ""], strict=True):
        word, piece = _upper(token), HOLE
        if word == "(":
            brackets.append(following.upper() == "SELECT")
            piece = "(" if brackets[-1] else HOLE
        elif word == ")" and brackets:
            piece = ")" if brackets.pop() else HOLE
        elif word in _KEYWORDS:
            piece = word
        if piece != HOLE or written[-1:] != [HOLE]:
            written.append(piece)
    return " ".join(written).replace("( ", "(").replace(" )", ")")


def with_hole(sql: str) -> str:
    """The query with ``…`` in place of its condition; of its order, its groups or its selected columns if it has
    none."""
    own = [clause for clause in _clauses(sql) if clause.depth == 0]
    for keyword in _LEFT_OUT:
        for clause in own:
            if clause.keyword == keyword:
                rest = sql[clause.end :].strip().rstrip(";").strip()
                return f"{sql[: clause.start]} {HOLE} {rest}".rstrip()
    return HOLE


def _joins(sql: str, n_tables: int) -> str:
    conditions = [sql[one.start : one.end].strip().rstrip(";") for one in _clauses(sql) if one.keyword == "ON"]
    if conditions:
        return f"Join: {', '.join(dict.fromkeys(conditions))}."
    return "No join." if n_tables <= 1 else "No JOIN … ON: one query inside of another, or two combined."


def _clauses(sql: str) -> Iterator[_Clause]:
    """Every clause, in the order in which they end."""
    open_: dict[int, tuple[str, int]] = {}
    depth = 0
    for match in _TOKEN.finditer(sql):
        word = _upper(match[0])
        if word == "(":
            depth += 1
        elif word == ")":
            if depth in open_:
                keyword, start = open_.pop(depth)
                yield _Clause(keyword, depth, start, match.start())
            depth = max(depth - 1, 0)
        elif word in _KEYWORDS - {"DISTINCT", "ALL"}:
            if depth in open_:
                keyword, start = open_.pop(depth)
                yield _Clause(keyword, depth, start, match.start())
            if word not in _SETS and word != "LEFT":
                open_[depth] = word, match.end()
    for depth, (keyword, start) in open_.items():
        yield _Clause(keyword, depth, start, len(sql))


def _upper(token: str) -> str:
    return " ".join(token.upper().split())
