"""Families that cut and reorder lists."""

from turngate.envs.code.generated.families.family import Arguments, Pick, family, form
from turngate.envs.seeded_random import SeededRandom

_ITEMS = "items parts things rows"
_COUNT = "n count size"


def _items_and_count(rng: SeededRandom, _: Pick) -> Arguments:
    """Two to six items, and a number of them from 1 to all."""
    items = rng.numbers(0, 9, least=2, most=6)
    return (items, rng.whole(1, len(items)))


def _items(rng: SeededRandom, _: Pick) -> Arguments:
    return (rng.numbers(0, 9, least=2, most=7),)


FIRST_N = family(
    "first_n",
    form(
        2,
        "first_n head take",
        '''
        def $called($items, $n):
            """Return the first $n of $items."""
            return $items[:$n]
        ''',
        ("wrong slice", "[:$n]", "[$n:]"),
        ("off by one", "[:$n]", "[:$n - 1]"),
        ("off by one", "[:$n]", "[:$n + 1]"),
        ("off by one", "[:$n]", "[1:$n]"),
    ),
    form(
        2,
        "first_n head take",
        '''
        def $called($items, $n):
            """Return the first $n of $items, in reverse order."""
            return $items[:$n][::-1]
        ''',
        ("wrong slice", "[:$n]", "[$n:]"),
        ("off by one", "[:$n]", "[:$n - 1]"),
        ("wrong slice", "[::-1]", "[::1]"),
        ("missing return", "return $items", "$items"),
    ),
    items=_ITEMS,
    n=_COUNT,
    arguments=_items_and_count,
)

LAST_N = family(
    "last_n",
    form(
        2,
        "last_n tail ending",
        '''
        def $called($items, $n):
            """Return the last $n of $items."""
            return $items[-$n:]
        ''',
        ("wrong slice", "[-$n:]", "[$n:]"),
        ("wrong slice", "[-$n:]", "[:-$n]"),
        ("off by one", "[-$n:]", "[-$n + 1:]"),
        ("off by one", "[-$n:]", "[-$n - 1:]"),
    ),
    form(
        2,
        "last_n tail ending",
        '''
        def $called($items, $n):
            """Return the last $n of $items."""
            return $items[len($items) - $n:]
        ''',
        ("operator", ") - $n", ") + $n"),
        ("off by one", "- $n:]", "- $n + 1:]"),
        ("wrong slice", "- $n:]", "- $n]"),
        ("wrong variable", "len($items)", "len($n)"),
    ),
    items=_ITEMS,
    n=_COUNT,
    arguments=_items_and_count,
)

DROP_FIRST = family(
    "drop_first",
    form(
        2,
        "drop_first skip without_first",
        '''
        def $called($items, $n):
            """Return $items without the first $n."""
            return $items[$n:]
        ''',
        ("wrong slice", "[$n:]", "[:$n]"),
        ("wrong slice", "[$n:]", "[-$n:]"),
        ("off by one", "[$n:]", "[$n + 1:]"),
        ("off by one", "[$n:]", "[$n - 1:]"),
    ),
    form(
        2,
        "drop_last cut_end without_last",
        '''
        def $called($items, $n):
            """Return $items without the last $n."""
            return $items[:-$n]
        ''',
        ("wrong slice", "[:-$n]", "[-$n:]"),
        ("wrong slice", "[:-$n]", "[:$n]"),
        ("off by one", "[:-$n]", "[:-$n - 1]"),
        ("off by one", "[:-$n]", "[1:-$n]"),
    ),
    items=_ITEMS,
    n=_COUNT,
    arguments=_items_and_count,
)

ROTATE = family(
    "rotate",
    form(
        2,
        "rotate turn shift",
        '''
        def $called($items, $n):
            """Move the first $n of $items to the end."""
            return $items[$n:] + $items[:$n]
        ''',
        ("wrong slice", "[$n:] +", "[:$n] +"),
        ("wrong slice", "+ $items[:$n]", "+ $items[$n:]"),
        ("off by one", "[$n:] +", "[$n + 1:] +"),
        ("swapped", "$items[$n:] + $items[:$n]", "$items[:$n] + $items[$n:]"),
    ),
    form(
        2,
        "rotate turn shift",
        '''
        def $called($items, $n):
            """Move the last $n of $items to the front."""
            return $items[-$n:] + $items[:-$n]
        ''',
        ("wrong slice", "[-$n:]", "[$n:]"),
        ("wrong slice", "[:-$n]", "[:$n]"),
        ("off by one", "[:-$n]", "[1:-$n]"),
        ("swapped", "$items[-$n:] + $items[:-$n]", "$items[:-$n] + $items[-$n:]"),
    ),
    items=_ITEMS,
    n=_COUNT,
    arguments=_items_and_count,
)

EVERY_NTH = family(
    "every_nth",
    form(
        2,
        "every_nth each_nth sample",
        '''
        def $called($items, $n):
            """Return the first of $items and every $n-th after it."""
            return $items[::$n]
        ''',
        ("wrong slice", "[::$n]", "[:$n]"),
        ("wrong slice", "[::$n]", "[$n::]"),
        ("off by one", "[::$n]", "[1::$n]"),
        ("off by one", "[::$n]", "[::$n + 1]"),
    ),
    form(
        2,
        "every_nth each_nth sample",
        '''
        def $called($items, $n):
            """Return every $n-th of $items, beginning with the $n-th."""
            return $items[$n - 1::$n]
        ''',
        ("off by one", "[$n - 1::", "[$n::"),
        ("operator", "[$n - 1::", "[$n + 1::"),
        ("wrong slice", "::$n]", ":$n]"),
        ("wrong start", "[$n - 1::", "[::"),
    ),
    items=_ITEMS,
    n="n step stride",
    arguments=lambda rng, _: (rng.numbers(0, 9, least=3, most=9), rng.whole(1, 3)),
)

MIDDLE = family(
    "middle",
    form(
        2,
        "middle inner without_ends",
        '''
        def $called($items):
            """Return $items without the first and the last."""
            return $items[1:-1]
        ''',
        ("off by one", "[1:-1]", "[1:]"),
        ("off by one", "[1:-1]", "[:-1]"),
        ("off by one", "[1:-1]", "[2:-1]"),
        ("off by one", "[1:-1]", "[1:-2]"),
    ),
    form(
        2,
        "middle inner without_ends",
        '''
        def $called($items):
            """Return $items without the first $k and the last."""
            return $items[$k:-1]
        ''',
        ("off by one", "[$k:-1]", "[$k:]"),
        ("wrong constant", "[$k:", "[$wrong:"),
        ("wrong slice", ":-1]", ":1]"),
        ("wrong slice", "[$k:", "[-$k:"),
    ),
    form(
        1,
        "middle center halfway",
        '''
        def $called($items):
            """Return the middle item of $items, the later if two."""
            return $items[len($items) // 2]
        ''',
        ("operator", "// 2", "/ 2"),
        ("wrong constant", "// 2", "// 3"),
        ("off by one", "// 2", "// 2 - 1"),
        ("missing return", "return $items", "$items"),
    ),
    items=_ITEMS,
    k="2 3 4",
    wrong="1 5",
    arguments=_items,
)

SLICES = (FIRST_N, LAST_N, DROP_FIRST, ROTATE, EVERY_NTH, MIDDLE)
