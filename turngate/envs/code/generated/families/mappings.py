"""Families of functions over dicts."""

from turngate.envs.code.generated.families.family import Arguments, Pick, family, form
from turngate.envs.seeded_random import SeededRandom

_TABLE = "table stock prices"
_KEY = "key name k"
_VALUE = "value v count"
_RESULT = "result found answer"


def _table(rng: SeededRandom, _: Pick) -> Arguments:
    return (rng.table(),)


MERGE_MAX = family(
    "merge_max",
    form(
        2,
        "merge_max join_largest combine_max",
        '''
        def $called($a, $b):
            """Join $a and $b with the larger value of each key."""
            $result = dict($a)
            for $key in $b:
                $result[$key] = max($b[$key], $a.get($key, 0))
            return $result
        ''',
        ("wrong function", "max(", "min("),
        ("wrong variable", "dict($a)", "dict($b)"),
        ("wrong variable", "$a.get", "$b.get"),
        ("wrong variable", "for $key in $b", "for $key in $a"),
    ),
    form(
        2,
        "merge_sum add_tables combine_sum",
        '''
        def $called($a, $b):
            """Join $a and $b with the sum of the values of each key."""
            $result = dict($a)
            for $key in $b:
                $result[$key] = $b[$key] + $a.get($key, 0)
            return $result
        ''',
        ("operator", "] + $a", "] - $a"),
        ("wrong variable", "dict($a)", "dict($b)"),
        ("wrong constant", "$key, 0", "$key, 1"),
        ("wrong variable", "$a.get", "$b.get"),
    ),
    a="a first old",
    b="b second more",
    key=_KEY,
    result=_RESULT,
    arguments=lambda rng, _: (rng.table(1, 9, most=3), rng.table(1, 9, most=3)),
)

INVERT = family(
    "invert",
    form(
        1,
        "invert swap_table turn_round",
        '''
        def $called($table):
            """Return $table with keys and values exchanged."""
            return {$value: $key for $key, $value in $table.items()}
        ''',
        ("swapped", "{$value: $key for", "{$key: $value for"),
        ("wrong variable", "{$value: $key", "{$value: $value"),
        ("wrong variable", "{$value: $key", "{$key: $key"),
        ("swapped", "for $key, $value", "for $value, $key"),
    ),
    form(
        2,
        "invert swap_table turn_round",
        '''
        def $called($table):
            """Return $table with keys and values exchanged."""
            $result = {}
            for $key in $table:
                $result[$table[$key]] = $key
            return $result
        ''',
        ("swapped", "$result[$table[$key]] = $key", "$result[$key] = $table[$key]"),
        ("wrong variable", "= $key\n", "= $table[$key]\n"),
        ("wrong variable", "return $result", "return $table"),
        ("wrong variable", "[$table[$key]]", "[$key]"),
    ),
    table=_TABLE,
    key=_KEY,
    value=_VALUE,
    result=_RESULT,
    arguments=_table,
)

LOOKUP_DEFAULT = family(
    "lookup_default",
    form(
        1,
        "lookup_default get_or value_of",
        '''
        def $called($table, $key, $other):
            """Return the value of $key in $table, else $other."""
            return $table.get($key, $other)
        ''',
        ("swapped", "get($key, $other)", "get($other, $key)"),
        ("wrong variable", "get($key, $other)", "get($key, $key)"),
        ("wrong variable", "get($key, $other)", "get($key)"),
        ("missing return", "return $table", "$table"),
    ),
    form(
        3,
        "lookup_default get_or value_of",
        '''
        def $called($table, $key, $other):
            """Return the value of $key in $table, else $other."""
            if $key in $table:
                return $table[$key]
            return $other
        ''',
        ("negation", "$key in $table:", "$key not in $table:"),
        ("wrong variable", "return $table[$key]", "return $key"),
        ("wrong variable", "return $other", "return $key"),
        ("wrong variable", "[$key]", "[$other]"),
    ),
    table=_TABLE,
    key="key name place",
    other="other default spare",
    arguments=lambda rng, _: (rng.table(), rng.pick("abcde"), rng.whole(10, 14)),
)

COUNT_ITEMS = family(
    "count_items",
    form(
        2,
        "count_items tally frequencies",
        '''
        def $called($items):
            """Return how often each of $items occurs, as a dict."""
            $result = {}
            for $x in $items:
                $result[$x] = $result.get($x, 0) + 1
            return $result
        ''',
        ("wrong start", "$x, 0)", "$x, 1)"),
        ("operator", ") + 1", ") - 1"),
        ("wrong constant", ") + 1", ") + 2"),
        ("operator", "$result.get($x, 0) + 1", "1"),
    ),
    form(
        2,
        "last_indices positions where",
        '''
        def $called($items):
            """Return the last index of each of $items, as a dict."""
            $result = {}
            for $i in range(len($items)):
                $result[$items[$i]] = $i
            return $result
        ''',
        ("swapped", "$result[$items[$i]] = $i", "$result[$i] = $items[$i]"),
        ("off by one", "= $i\n", "= $i + 1\n"),
        ("off by one", "range(len", "range(1, len"),
        ("off by one", "len($items))", "len($items) - 1)"),
    ),
    items="items letters words",
    x="x item each",
    i="i j index",
    result=_RESULT,
    arguments=lambda rng, _: ([rng.pick("abc") for _ in range(rng.whole(1, 5))],),
)

KEYS_ABOVE = family(
    "keys_above",
    form(
        1,
        "keys_above names_above over",
        '''
        def $called($table, $limit):
            """Return the keys of $table with values above $limit."""
            return [$key for $key, $value in $table.items() if $value > $limit]
        ''',
        ("boundary", "> $limit", ">= $limit"),
        ("comparison", "> $limit", "< $limit"),
        ("wrong variable", "[$key for", "[$value for"),
        ("swapped", "for $key, $value", "for $value, $key"),
    ),
    form(
        1,
        "keys_upto names_upto under",
        '''
        def $called($table, $limit):
            """Return the keys of $table with values of at most $limit."""
            return [$key for $key in $table if $table[$key] <= $limit]
        ''',
        ("boundary", "<= $limit", "< $limit"),
        ("comparison", "<= $limit", ">= $limit"),
        ("wrong variable", "[$key for", "[$table[$key] for"),
        ("missing return", "return [$key", "[$key"),
    ),
    table=_TABLE,
    key=_KEY,
    value=_VALUE,
    limit="limit bound level",
    arguments=lambda rng, _: (table := rng.table(), rng.pick([*table.values(), rng.whole(0, 9)])),
)

SUM_KEYS = family(
    "sum_keys",
    form(
        1,
        "sum_keys add_values total_of",
        '''
        def $called($table, $keys):
            """Add up the values of $keys in $table, $k for a missing one."""
            return sum($table.get($x, $k) for $x in $keys)
        ''',
        ("wrong constant", "$x, $k)", "$x, $wrong)"),
        ("wrong function", "sum(", "max("),
        ("wrong variable", "in $keys)", "in $table)"),
        ("missing return", "return sum", "sum"),
    ),
    form(
        1,
        "sum_values table_total total_value",
        '''
        def $called($table, $keys):
            """Add up the values of $table whose keys are not in $keys."""
            return sum($table[$x] for $x in $table if $x not in $keys)
        ''',
        ("negation", "$x not in $keys", "$x in $keys"),
        ("wrong function", "sum(", "len("),
        ("wrong variable", "$table[$x] for", "1 for"),
        ("wrong variable", "$x not in $keys", "$x not in $table"),
    ),
    table=_TABLE,
    keys="keys names wanted",
    x="x key each",
    k="0 1 2 3",
    wrong="4 5 6",
    arguments=lambda rng, _: (rng.table(), rng.sample("abcde", rng.whole(0, 3))),
)

BEST_KEY = family(
    "best_key",
    form(
        1,
        "best_key winner top_key",
        '''
        def $called($table):
            """Return the key of $table with the largest value."""
            return max($table, key=$table.get)
        ''',
        ("wrong function", "max(", "min("),
        ("wrong variable", "max($table, key=$table.get)", "max($table)"),
        ("wrong variable", "max($table, key=$table.get)", "max($table.values())"),
        ("missing return", "return max", "max"),
    ),
    form(
        1,
        "lowest_key loser bottom_key",
        '''
        def $called($table):
            """Return the key of $table with the smallest value."""
            return min($table, key=$table.get)
        ''',
        ("wrong function", "min(", "max("),
        ("wrong variable", "min($table, key=$table.get)", "min($table)"),
        ("wrong variable", "min($table, key=$table.get)", "min($table.values())"),
        ("missing return", "return min", "min"),
    ),
    table="table stock prices scores votes points ages sizes weights",
    arguments=_table,
)

GROUP_BY = family(
    "group_by",
    form(
        2,
        "group_by_length by_length lengths",
        '''
        def $called($words):
            """Return a dict from length to the $words of that length."""
            $result = {}
            for $w in $words:
                $result.setdefault(len($w), []).append($w)
            return $result
        ''',
        ("wrong variable", "len($w)", "$w"),
        ("wrong variable", "append($w)", "append(len($w))"),
        ("wrong variable", "len($w)", "len($words)"),
        ("wrong variable", "return $result", "return $words"),
    ),
    form(
        2,
        "group_by_letter by_letter letters",
        '''
        def $called($words):
            """Return a dict from first letter to the $words with it."""
            $result = {}
            for $w in $words:
                $result.setdefault($w[0], []).append($w)
            return $result
        ''',
        ("off by one", "[0]", "[1]"),
        ("off by one", "[0]", "[-1]"),
        ("wrong variable", "append($w)", "append($w[1:])"),
        ("wrong variable", "return $result", "return $words"),
    ),
    words="words names texts",
    w="w x each",
    result=_RESULT,
    arguments=lambda rng, _: (rng.words(1, 3),),
)

TABLES = (
    MERGE_MAX,
    INVERT,
    LOOKUP_DEFAULT,
    COUNT_ITEMS,
    KEYS_ABOVE,
    SUM_KEYS,
    BEST_KEY,
    GROUP_BY,
)
