"""Parts of the SQL reward and agreement of results; where the published forms can be farmed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError
from turngate.rewards.outcome.sql import (
    SchemaItems,
    execution_match,
    ngram_similarity,
    result_f1,
    schema_items,
    schema_linking,
    tag_format,
)

pytestmark = pytest.mark.component  # sqlglot


def items(tables, columns):
    return SchemaItems(tables=frozenset(tables.split()), columns=frozenset(columns.split()))


names = st.frozensets(st.sampled_from("abcdef"), max_size=5)
schemas = st.builds(lambda tables, columns: SchemaItems(tables=tables, columns=columns), names, names)
results = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["x", "y"])), max_size=6)
queries = st.lists(st.sampled_from(["select", "a", "b", ",", "from", "t", "'A'"]), max_size=8).map(" ".join)


# --- schema ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ('SELECT u.Name, "Age" FROM main.Users AS u', items("users", "name age")),
        ("WITH c AS (SELECT a FROM t) SELECT COUNT(*) FROM c JOIN s ON c.a = s.b", items("t s", "a b")),
        ("SELECT 1", items("", "")),
    ],
)
def test_what_a_query_names(sql, expected):
    assert schema_items(sql) == expected


@pytest.mark.parametrize("sql", ["SELEC a FROM", "", "DROP TABLE t", "SELECT a FROM t; SELECT b FROM t", "(" * 5000])
def test_what_is_not_one_query_names_nothing(sql):
    assert schema_items(sql) is None


def test_long_texts_are_not_parsed():
    sql = "SELECT a FROM t WHERE a IN (" + "1," * 40 + "1)"
    assert schema_items(sql) is not None
    assert schema_items(sql, max_chars=40) is None


def test_schema_linking():
    gold = items("t", "a b")
    assert schema_linking(items("t", "a c"), gold) == pytest.approx(0.5, abs=1e-5)  # 2 of 4
    assert schema_linking(items("t", "a c"), gold, faithful=True) == pytest.approx(2 / 3, abs=1e-5)
    assert schema_linking(None, gold) == schema_linking(None, gold, faithful=True) == 0.0
    assert schema_linking(gold, None) is schema_linking(gold, items("", "")) is None


def test_a_table_and_a_column_of_one_name_differ():
    assert schema_linking(items("a", ""), items("", "a")) == 0.0


def test_naming_every_column_pays_only_as_published():
    gold, all_of_it, honest = items("t", "a b"), items("t s u v", "a b c d e f g"), items("t", "a c")
    assert schema_linking(all_of_it, gold, faithful=True) == 1.0 > schema_linking(honest, gold, faithful=True)
    assert schema_linking(all_of_it, gold) < schema_linking(honest, gold)


@settings(max_examples=60, deadline=None)
@given(schemas, schemas.filter(lambda schema: schema.items))
def test_a_superset_never_beats_the_exact_schema(extra, gold):
    wider = SchemaItems(tables=gold.tables | extra.tables, columns=gold.columns | extra.columns)
    assert schema_linking(gold, gold) == 1.0
    assert (schema_linking(wider, gold) == 1.0) == (wider == gold)
    assert 0 <= schema_linking(extra, gold) <= 1


# --- n-grams and format ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("faithful", [True, False])
def test_bigrams(faithful):
    assert ngram_similarity("SELECT a FROM t", "SELECT b FROM t", faithful=faithful) == pytest.approx(0.2, abs=1e-5)
    assert ngram_similarity("", "SELECT b FROM t", faithful=faithful) == 0.0
    assert ngram_similarity("SELECT b FROM t", "", faithful=faithful) is None
    assert ngram_similarity("select", "SELECT", faithful=faithful) == 1.0


def test_tokens_do_not_depend_on_spaces_and_keep_text_literals():
    assert ngram_similarity("SELECT a,b FROM t WHERE x>='A'", "select a , b from t where x >= 'A'") == 1.0
    assert ngram_similarity("SELECT 'a b'", "SELECT 'A B'") == 0.0


@settings(max_examples=60, deadline=None)
@given(queries, queries.filter(bool), st.integers(2, 3))
def test_ngrams_are_bounded_and_repeating_the_gold_never_pays(mine, gold, times):
    assert 0 <= ngram_similarity(mine, gold) <= 1
    assert ngram_similarity(gold, gold) == 1.0 > ngram_similarity(" ".join([gold] * times), gold)


def test_ngrams_need_a_size():
    with pytest.raises(ConfigError, match="n is 0"):
        ngram_similarity("a", "b", n=0)


GOOD = "<reasoning>because</reasoning>\n<answer>SELECT 1</answer>"


@pytest.mark.parametrize(
    ("text", "fixed", "published"),
    [
        (GOOD, 1.0, 0.5),
        (GOOD + " " + "x" * 100, 0.0, 0.4),
        ("<answer></answer><reasoning></reasoning>", 0.0, 0.5 - 0.023),
        ("<reasoning></reasoning><answer></answer>", 0.0, 0.5),
        (GOOD + GOOD, 0.0, 0.0),
        ("SELECT 1", 0.0, 0.0),
        ("<reasoning>r<answer>a</reasoning><answer>b</answer>", 0.0, 0.375),
    ],
)
def test_format(text, fixed, published):
    assert tag_format(text) == fixed
    assert tag_format(text, faithful=True) == pytest.approx(published, abs=1e-5)


# --- results ---------------------------------------------------------------------------------------------------------


def test_execution_match():
    gold, predicted = [(1,), (1,), (2,)], [(2,), (1,)]
    assert execution_match(predicted, gold, faithful=True) == 1.0
    assert execution_match(predicted, gold) == 0.0
    ordered, reversed_rows = [(1,), (2,)], [(2,), (1,)]
    assert execution_match(reversed_rows, ordered, faithful=True) == execution_match(reversed_rows, ordered) == 1.0
    assert execution_match(reversed_rows, ordered, ordered=True) == 0.0
    assert execution_match([], [], faithful=True) == 1.0


def test_an_empty_gold_is_free_only_as_published():
    assert execution_match([], [], faithful=True) == 1.0
    assert execution_match([], []) is execution_match([(1,)], []) is result_f1([], []) is None


def test_failed_queries_and_failed_golds():
    for score in (execution_match, result_f1):
        assert score(None, [(1,)]) == 0.0
        assert score([(1,)], None) is None


def test_the_published_soft_f1_depends_on_order_and_can_be_inflated():
    gold = [("a",), ("b",)]
    assert result_f1([("b",), ("a",)], gold, faithful=True) == 0.0
    assert result_f1([("b",), ("a",)], gold) == 1.0
    assert result_f1([("a",)], gold, faithful=True) == pytest.approx(2 / 3, abs=1e-5)
    assert result_f1([("a",), ("b",), ("c",)], gold, faithful=True) == pytest.approx(0.8, abs=1e-5)
    plain, inflated = [("a",), ("x",)], [("a",) * 50, ("x",)]
    assert result_f1(plain, gold, faithful=True) == result_f1(plain, gold) == 0.5
    assert result_f1(inflated, gold, faithful=True) == pytest.approx(0.980392, abs=1e-5)
    assert result_f1(inflated, gold) == 0.0


@settings(max_examples=60, deadline=None)
@given(results, results.filter(bool), st.randoms(use_true_random=False))
def test_result_overlap_is_bounded_free_of_order_and_padding_never_pays(mine, gold, random):
    score = result_f1(mine, gold)
    assert 0 <= score <= 1
    assert (score == 1) == bool(execution_match(mine, gold))
    shuffled = list(mine)
    random.shuffle(shuffled)
    assert result_f1(shuffled, gold) == score
    assert result_f1([*gold, *mine], gold) <= result_f1(gold, gold) == 1
    if mine:
        assert result_f1([*gold, *mine], gold) < 1
