"""SQL: the parts of the Reasoning-SQL reward, and how well two results agree.

All scores are numbers in [0, 1], or None where they could not be measured. A rubric puts them together; the sum of
Reasoning-SQL (https://arxiv.org/abs/2503.23157) weighs execution 3 (2 in the released script) and syntax, schema,
bigrams and format 1 each. With 2, a wrong query (3.5) can overtake a right one (3): keep the partial scores behind a
gate.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from turngate.errors import ConfigError, MissingExtra
from turngate.rewards.outcome.formula import Formula
from turngate.rewards.parts import Kind

Row: TypeAlias = tuple[None | int | float | str | bytes, ...]

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
    """The items that ``sql`` names, or None if it is not exactly one query that sqlglot can parse within ``max_chars``.

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


# --- results ---------------------------------------------------------------------------------------------------------


def execution_match(
    predicted: Sequence[Row] | None, gold: Sequence[Row] | None, *, ordered: bool = False, faithful: bool = False
) -> float | None:
    """1 if two results hold the same rows, else 0: as bags, or as lists where the question asks for an order.

    ``predicted=None`` means that the query failed, and earns 0; ``gold=None`` (the gold query failed) and a gold
    without rows, which any query without rows would equal, give None: drop the task. ``faithful=True`` compares sets
    as BIRD does (https://arxiv.org/abs/2305.03111): repetitions and order are ignored, and two empty results are equal.
    Columns have to stand in order; ``turngate.envs.sql.engine.compare`` also tries other column orders.
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


# --- parts of a rubric -----------------------------------------------------------------------------------------------


class SchemaLinking(Formula):
    """Whether the query ``answer`` names the tables and columns of ``gold_query``, by ``schema_linking``."""

    type: Literal["schema_linking"] = "schema_linking"
    faithful: bool = False
    """Whether to use the released recall, which is 1 for a query that names every column there is."""

    def grade(self, answer: str | None, gold_query: str) -> float | None:
        """``schema_linking`` of what the two name."""
        return schema_linking(schema_items(answer or ""), schema_items(gold_query), faithful=self.faithful)


class NgramSimilarity(Formula):
    """How many runs of n tokens the query ``answer`` shares with ``gold_query``, by ``ngram_similarity``."""

    type: Literal["ngram_similarity"] = "ngram_similarity"
    n: int = 2
    """Length of a run, in tokens. Longer runs reward the same wording more strictly."""
    faithful: bool = False
    """Whether to use the released form: words between spaces, each run counted once."""

    def grade(self, answer: str | None, gold_query: str) -> float | None:
        """The verdict by ``ngram_similarity``."""
        return ngram_similarity(answer or "", gold_query, n=self.n, faithful=self.faithful)


class TagFormat(Formula):
    """Whether the ``reply`` of a turn is exactly one block per tag, in order, by ``tag_format``."""

    type: Literal["tag_format"] = "tag_format"
    per_turn: bool = True
    tags: tuple[str, ...] = ("reasoning", "answer")
    """The tags of the blocks, in order."""

    def grade(self, reply: str) -> float | None:
        """The verdict by ``tag_format``."""
        return tag_format(reply, tags=self.tags)


class ExecutionMatch(Formula):
    """Whether the ``rows`` of the submitted query are the ``gold_rows``, by ``execution_match``.

    ``rows`` is false where the query failed or none was submitted. ``ordered`` says whether the question asks for an
    order, and may be left out.
    """

    type: Literal["execution_match"] = "execution_match"
    kind: Kind = "outcome"
    yes_or_no: ClassVar[bool] = True
    faithful: bool = False
    """Whether to compare sets of rows as BIRD does: repetitions and order are ignored, and two empty results are
    equal."""

    def grade(self, rows: list[Row] | Literal[False], gold_rows: list[Row], ordered: bool = False) -> float | None:
        """The verdict by ``execution_match``."""
        return execution_match(_ran(rows), gold_rows, ordered=ordered, faithful=self.faithful)


class ResultF1(Formula):
    """How much the ``rows`` of the submitted query overlap with ``gold_rows``, by ``result_f1``; ``rows`` false: 0."""

    type: Literal["result_f1"] = "result_f1"
    faithful: bool = False
    """Whether to use BIRD's soft F1, which compares row by row and can be inflated."""

    def grade(self, rows: list[Row] | Literal[False], gold_rows: list[Row]) -> float | None:
        """The verdict by ``result_f1``."""
        return result_f1(_ran(rows), gold_rows, faithful=self.faithful)


def _ran(rows: list[Row] | Literal[False]) -> list[Row] | None:
    """The rows of a query that ran; None: it failed."""
    return None if rows is False else rows
