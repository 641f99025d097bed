"""Families that search lists and build new ones."""

from turngate.envs.code.generated.families.family import Arguments, Pick, family, form
from turngate.envs.seeded_random import SeededRandom

_ITEMS = "items parts things rows"
_X = "x item each"


def _items_and_value(rng: SeededRandom, _: Pick) -> Arguments:
    """A list and a value, which is mostly in it."""
    items = rng.numbers(0, 5, most=6)
    return (items, rng.pick([*items, items[0], items[-1], 7]))


def _items(rng: SeededRandom, _: Pick) -> Arguments:
    return (rng.numbers(0, 9, least=2, most=7),)


PAIRS = family(
    "pairs",
    form(
        2,
        "pairs neighbours steps",
        '''
        def $called($items):
            """Return each of $items with the one after it."""
            return list(zip($items, $items[1:]))
        ''',
        ("off by one", "[1:]", "[2:]"),
        ("wrong slice", "[1:]", "[:1]"),
        ("off by one", "[1:]", "[:]"),
        ("swapped", "$items, $items[1:]", "$items[1:], $items"),
    ),
    form(
        2,
        "changes differences rises",
        '''
        def $called($items):
            """Return each of $items less the one before it."""
            return [$y - $x for $x, $y in zip($items, $items[1:])]
        ''',
        ("swapped", "$y - $x", "$x - $y"),
        ("operator", "$y - $x", "$y + $x"),
        ("off by one", "[1:]", "[2:]"),
        ("wrong slice", "[1:]", "[:1]"),
    ),
    form(
        2,
        "pairs neighbours steps",
        '''
        def $called($items):
            """Return each of $items with the one after it."""
            $total = []
            for $i in range(len($items) - 1):
                $total.append(($items[$i], $items[$i + 1]))
            return $total
        ''',
        ("off by one", ") - 1)", "))"),
        ("off by one", ") - 1)", ") - 2)"),
        ("off by one", "[$i + 1]", "[$i - 1]"),
        ("wrong start", "range(len", "range(1, len"),
    ),
    items=_ITEMS,
    x="x a left",
    y="y b right",
    i="i j index",
    total="result found answer",
    arguments=_items,
)

INDEX_OF = family(
    "index_of",
    form(
        3,
        "index_of find position",
        '''
        def $called($items, $x):
            """Return the first index of $x in $items, or -1."""
            for $i in range(len($items)):
                if $items[$i] == $x:
                    return $i
            return -1
        ''',
        ("comparison", "] == $x", "] != $x"),
        ("off by one", "return $i\n", "return $i + 1\n"),
        ("wrong constant", "return -1", "return 0"),
        ("off by one", "range(len", "range(1, len"),
        ("off by one", "len($items))", "len($items) - 1)"),
    ),
    form(
        2,
        "last_index find_last last_position",
        '''
        def $called($items, $x):
            """Return the last index of $x in $items, or -1."""
            $found = -1
            for $i in range(len($items)):
                if $items[$i] == $x:
                    $found = $i
            return $found
        ''',
        ("comparison", "] == $x", "] != $x"),
        ("off by one", "$found = $i", "$found = $i + 1"),
        ("wrong start", "$found = -1", "$found = 0"),
        ("operator", "$found = $i", "$found += $i"),
    ),
    items=_ITEMS,
    x="x goal value",
    i="i j index",
    found="found last result",
    arguments=_items_and_value,
)

REMOVE_VALUE = family(
    "remove_value",
    form(
        1,
        "remove_value without drop_all",
        '''
        def $called($items, $value):
            """Return $items without those equal to $value."""
            return [$x for $x in $items if $x != $value]
        ''',
        ("comparison", "!= $value", "== $value"),
        ("comparison", "!= $value", "> $value"),
        ("wrong variable", "[$x for", "[$value for"),
        ("missing return", "return [", "["),
    ),
    form(
        1,
        "replace_value swap_out exchange",
        '''
        def $called($items, $value):
            """Return $items with $k in place of each $value."""
            return [$k if $x == $value else $x for $x in $items]
        ''',
        ("comparison", "== $value", "!= $value"),
        ("wrong constant", "[$k if", "[$wrong if"),
        ("wrong variable", "else $x", "else $value"),
        ("wrong variable", "[$k if", "[$x if"),
    ),
    items=_ITEMS,
    value="value old target",
    x=_X,
    k="10 20 50",
    wrong="11 30 60",
    arguments=_items_and_value,
)

UNIQUE = family(
    "unique",
    form(
        2,
        "unique distinct without_repeats",
        '''
        def $called($items):
            """Return $items without repeats, in order."""
            $seen = []
            for $x in $items:
                if $x not in $seen:
                    $seen.append($x)
            return $seen
        ''',
        ("negation", "$x not in", "$x in"),
        ("wrong function", "append($x)", "insert(0, $x)"),
        ("wrong variable", "return $seen", "return $items"),
        ("wrong variable", "not in $seen", "not in $items"),
    ),
    form(
        2,
        "repeats doubles repeated",
        '''
        def $called($items):
            """Return those of $items that occur more than once."""
            return [$x for $x in $items if $items.count($x) > 1]
        ''',
        ("comparison", "> 1", "< 1"),
        ("boundary", "> 1", ">= 1"),
        ("off by one", "> 1", "> 2"),
        ("wrong constant", "count($x)", "count(1)"),
    ),
    items=_ITEMS,
    x=_X,
    seen="seen result found",
    arguments=lambda rng, _: (rng.numbers(0, 4, least=2, most=7),),
)

JOIN_LISTS = family(
    "join_lists",
    form(
        2,
        "join_lists flatten merge_lists",
        '''
        def $called($items):
            """Put all lists of $items into one list, in order."""
            $total = []
            for $x in $items:
                $total.extend($x)
            return $total
        ''',
        ("wrong function", "extend($x)", "append($x)"),
        ("wrong variable", "extend($x)", "extend($items)"),
        ("wrong variable", "return $total", "return $x"),
        ("missing return", "return $total", "return"),
    ),
    form(
        2,
        "join_lists flatten merge_lists",
        '''
        def $called($items):
            """Put all lists of $items into one, the last list first."""
            $total = []
            for $x in $items:
                $total = $x + $total
            return $total
        ''',
        ("swapped", "$x + $total", "$total + $x"),
        ("wrong variable", "$x + $total", "$x + $x"),
        ("wrong variable", "return $total", "return $x"),
        ("operator", "= $x + $total", "= [$x] + $total"),
    ),
    items="lists groups rows",
    x="x part row",
    total="result joined answer",
    arguments=lambda rng, _: ([rng.numbers(0, 9, least=0, most=3) for _ in range(rng.whole(1, 3))],),
)

LISTS = (PAIRS, INDEX_OF, REMOVE_VALUE, UNIQUE, JOIN_LISTS)
