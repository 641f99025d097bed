"""When two results say the same.

1. Rows are bags: duplicates count, order counts only if ``ordered``.
2. Columns may be permuted, all together; missing or extra ones are wrong.
3. 1 == 1.0, '1' != 1, NULL == NULL only; fractions up to rounding, whole numbers exactly, whatever stands beside them.
4. Rows of equal rank may stand in any order.
5. An empty gold result matches nothing.
"""

import math
from collections import Counter
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turngate.envs.sql.engine.compare as compare_module
from turngate.envs.sql.engine.compare import is_ordered, same_result

Rows = list[tuple[Any, ...]]

CASES: list[tuple[str, Rows, Rows, bool, bool]] = [
    # name, predicted, gold, equal as bags, equal as lists
    ("equal", [(1, "a"), (2, "b")], [(1, "a"), (2, "b")], True, True),
    ("other order", [(2, "b"), (1, "a")], [(1, "a"), (2, "b")], True, False),
    ("duplicate missing", [(1,), (2,)], [(1,), (1,), (2,)], False, False),
    ("duplicate elsewhere", [(1,), (2,), (2,)], [(1,), (1,), (2,)], False, False),
    ("duplicate added", [(1,), (1,)], [(1,)], False, False),
    ("columns swapped", [("a", 1), ("b", 2)], [(1, "a"), (2, "b")], True, True),
    ("columns swapped and rows", [("b", 2), ("a", 1)], [(1, "a"), (2, "b")], True, False),
    ("rows torn apart", [(1, "b"), (2, "a")], [(1, "a"), (2, "b")], False, False),
    ("column missing", [(1,)], [(1, "a")], False, False),
    ("column added", [(1, "a")], [(1,)], False, False),
    ("whole float", [(1.0,)], [(1,)], True, True),
    ("text is not a number", [("1",)], [(1,)], False, False),
    ("text is not a blob", [(b"a",)], [("a",)], False, False),
    ("case matters", [("A",)], [("a",)], False, False),
    ("null", [(None,)], [(None,)], True, True),
    ("null is not zero", [(None,)], [(0,)], False, False),
    ("null is not empty", [("",)], [(None,)], False, False),
    ("both empty", [], [], False, False),
    ("predicted empty", [], [(1,)], False, False),
    ("gold empty", [(1,)], [], False, False),
    ("rounding error", [(0.1 + 0.2,)], [(0.3,)], True, True),
    ("rounding error of a whole number", [(3.0000000000000004,)], [(3,)], True, True),
    ("rounding error at zero", [(0.1 + 0.2 - 0.3,)], [(0,)], True, True),
    ("within the tolerance", [(1.0000005,)], [(1.0,)], True, True),
    ("beyond the tolerance", [(1.000002,)], [(1.0,)], False, False),
    ("large numbers are exact", [(10_000_001,)], [(10_000_002,)], False, False),
    ("large whole floats are exact", [(10_000_001.0,)], [(10_000_002,)], False, False),
    ("a fraction beside a large whole number", [(1234567890.5,)], [(1234566890,)], False, False),
    ("a half is no rounding error", [(1234567890.5,)], [(1234567890,)], False, False),
    ("large fractions", [(1234567890.5,)], [(1234566890.25,)], False, False),
    ("a large sum in another order", [(1234567890.1234567,)], [(1234567890.1234574,)], True, True),
    ("a large whole sum in another order", [(1234567890.0000002,)], [(1234567890,)], True, True),
    ("a fraction in another row", [(10_000_001,), (0.5,)], [(10_000_002,), (0.5,)], False, False),
    ("a fraction in another row of the answer", [(10_000_001,), (2.0000001,)], [(10_000_002,), (2,)], False, False),
    ("tiny fractions", [(1e-7,)], [(2e-7,)], False, False),
    ("small numbers differ", [(0.001,)], [(0.009,)], False, False),
    ("sign", [(-0.5,)], [(0.5,)], False, False),
    ("infinite", [(math.inf,)], [(math.inf,)], True, True),
    ("infinite and finite", [(math.inf,)], [(1.5,)], False, False),
    ("null among fractions", [(None,), (0.1 + 0.2,)], [(0.3,), (None,)], True, False),
    ("fractions of two columns", [(0.3, 0.7), (0.30000000001, 0.1)], [(0.3, 0.1), (0.3, 0.7)], True, False),
    ("fractions torn apart", [(0.5, 0.1), (0.25, 0.7)], [(0.5, 0.7), (0.25, 0.1)], False, False),
    ("same bags, other pairs", [(1, 2), (2, 1), (3, 3)], [(1, 1), (2, 2), (3, 3)], False, False),
    ("twin columns", [(1, 1, 2)], [(1, 2, 1)], True, True),
    ("twin columns, wrong count", [(1, 1, 2)], [(1, 2, 2)], False, False),
]


@pytest.mark.parametrize(
    ("predicted", "gold", "as_bag", "as_list"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_cases(predicted: Rows, gold: Rows, as_bag: bool, as_list: bool) -> None:
    assert same_result(predicted, gold, ordered=False) is as_bag
    assert same_result(predicted, gold, ordered=True) is as_list


def brute_force(predicted: Rows, gold: Rows, *, ordered: bool) -> bool:
    """Try every column order. Only for exact values."""
    if not gold or len(predicted) != len(gold) or len(predicted[0]) != len(gold[0]):
        return False
    for order in permutations(range(len(gold[0]))):
        moved = [tuple(row[i] for i in order) for row in predicted]
        if moved == gold if ordered else Counter(moved) == Counter(gold):
            return True
    return False


cells = st.sampled_from([None, 0, 1, 1.0, 2, "1", "a", b"a", 0.5])
tables = st.integers(1, 4).flatmap(lambda width: st.lists(st.tuples(*[cells] * width), max_size=5))


@given(tables, tables, st.booleans())
@settings(max_examples=300, deadline=None)
def test_any_two_tables_agree_with_brute_force(predicted: Rows, gold: Rows, ordered: bool) -> None:
    assert same_result(predicted, gold, ordered=ordered) == brute_force(predicted, gold, ordered=ordered)


@given(tables.filter(bool), st.data(), st.booleans(), st.booleans())
@settings(max_examples=300, deadline=None)
def test_a_changed_table_agrees_with_brute_force(gold: Rows, data: st.DataObject, ordered: bool, spoil: bool) -> None:
    order = data.draw(st.permutations(range(len(gold[0]))))
    rows = gold if ordered else data.draw(st.permutations(gold))
    predicted = [tuple(row[i] for i in order) for row in rows]
    if spoil:
        at, column = data.draw(st.integers(0, len(gold) - 1)), data.draw(st.integers(0, len(order) - 1))
        row = list(predicted[at])
        row[column] = data.draw(cells)
        predicted[at] = tuple(row)
    else:
        assert same_result(predicted, gold, ordered=ordered)
    assert same_result(predicted, gold, ordered=ordered) == brute_force(predicted, gold, ordered=ordered)


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.sampled_from("ab")), min_size=1, max_size=8), st.randoms())
@settings(max_examples=200, deadline=None)
def test_rounding_errors_never_matter(gold: Rows, random: Any) -> None:
    noisy = [(name, value * (1 + random.choice([0, 1e-13, -1e-13]))) for value, name in gold]
    assert same_result(noisy, gold, ordered=True)
    random.shuffle(noisy)
    assert same_result(noisy, gold, ordered=False)


@given(tables.filter(bool), st.data())
@settings(max_examples=200, deadline=None)
def test_ranks_agree_with_brute_force(gold: Rows, data: st.DataObject) -> None:
    """Rows of equal rank are compared as a bag, at their places."""
    ranks = sorted(data.draw(st.lists(st.integers(1, 3), min_size=len(gold), max_size=len(gold))))
    predicted = data.draw(st.permutations(gold))
    right = any(
        Counter(zip(ranks, moved, strict=True)) == Counter(zip(ranks, gold, strict=True))
        for order in permutations(range(len(gold[0])))
        for moved in [[tuple(row[i] for i in order) for row in predicted]]
    )
    assert same_result(predicted, gold, ordered=True, ranks=ranks) is right


def test_a_long_result_of_equal_columns_is_given_up_soon() -> None:
    """The bound counts rows: 20,000 rows of ten columns with the same values would take minutes."""
    gold = [tuple((row * (column + 1)) % 19_997 for column in range(10)) for row in range(20_000)]
    columns = [list(column) for column in zip(*gold, strict=True)]
    broken = [column[:] for column in columns[::-1]]
    broken[0][1], broken[0][2] = broken[0][2], broken[0][1]
    search = compare_module._Search(broken, columns)
    assert search.extends(0, tuple(range(10)), [0] * 20_000, [0] * 20_000) is False
    assert search.steps <= 60


def test_the_search_finds_one_order_among_many() -> None:
    """Twelve columns with the same values: 479,001,600 orders."""
    gold = [tuple((row * (column + 1)) % 13 for column in range(12)) for row in range(13)]
    predicted = [row[::-1] for row in gold]
    assert same_result(predicted, gold, ordered=False)
    assert same_result(predicted, gold, ordered=True)


def test_the_search_is_bounded() -> None:
    """Columns of equal content that no order makes right: the search gives up and says False."""
    width = 14
    gold = [tuple((row * (column + 1)) % 17 for column in range(width)) for row in range(17)]
    broken = [list(row) for row in gold]
    broken[3], broken[5] = [*broken[3][:-1], broken[5][-1]], [*broken[5][:-1], broken[3][-1]]
    search = compare_module._Search([list(c) for c in zip(*broken)], [list(c) for c in zip(*gold)])  # noqa: B905
    assert search.extends(0, tuple(range(width)), [0] * 17, [0] * 17) is False
    assert search.steps <= compare_module.SEARCH_STEPS + width


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT a FROM t ORDER BY a", True),
        ("SELECT a FROM t ORDER BY a DESC LIMIT 3;", True),
        ("SELECT a FROM t", False),
        ("SELECT a FROM (SELECT a FROM t ORDER BY a) AS s", False),
        ("SELECT rank() OVER (ORDER BY a) FROM t", False),
        ("SELECT a FROM t UNION SELECT b FROM s ORDER BY 1", True),
        ("WITH s AS (SELECT a FROM t ORDER BY a) SELECT * FROM s", False),
        ("WITH s AS (SELECT a FROM t) SELECT * FROM s ORDER BY a", True),
        ("SELECT 'ORDER BY' FROM t -- ORDER BY a", False),
        ("SELECT `a b` FROM `t` ORDER BY lower(`a b`)", True),
    ],
)
def test_is_ordered(sql: str, expected: bool) -> None:
    assert is_ordered(sql) is expected


def test_is_ordered_says_when_it_cannot_tell() -> None:
    with pytest.raises(ValueError, match="sqlglot"):
        is_ordered("SELECT FROM WHERE )(")
