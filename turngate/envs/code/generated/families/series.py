"""Families that go through one or two series of numbers and combine them."""

from turngate.envs.code.generated.families.family import Arguments, Pick, family, form
from turngate.envs.seeded_random import SeededRandom

_TOTAL = "total result answer"
_NUMBERS = "numbers values scores marks"
_N = "n x v"


def _two_lists(rng: SeededRandom, _: Pick) -> Arguments:
    """Two lists of equal length."""
    count = rng.whole(1, 3)
    return ([rng.whole(0, 9) for _ in range(count)], [rng.whole(0, 9) for _ in range(count)])


RUNNING_TOTAL = family(
    "running_total",
    form(
        2,
        "running_total sums_so_far totals",
        '''
        def $called($numbers):
            """Return for each of $numbers the sum up to it."""
            $total, $sums = 0, []
            for $n in $numbers:
                $total += $n
                $sums.append($total)
            return $sums
        ''',
        ("operator", "$total += $n", "$total -= $n"),
        ("operator", "$total += $n", "$total = $n"),
        ("wrong variable", "append($total)", "append($n)"),
        ("wrong start", "= 0, []", "= 1, []"),
    ),
    form(
        2,
        "running_product products_so_far products",
        '''
        def $called($numbers):
            """Return for each of $numbers the product up to it."""
            $total, $sums = 1, []
            for $n in $numbers:
                $total *= $n
                $sums.append($total)
            return $sums
        ''',
        ("operator", "$total *= $n", "$total += $n"),
        ("operator", "$total *= $n", "$total = $n"),
        ("wrong variable", "append($total)", "append($n)"),
        ("wrong start", "= 1, []", "= 0, []"),
    ),
    numbers=_NUMBERS,
    n=_N,
    total="total now last",
    sums="sums result found",
    arguments=lambda rng, _: (rng.numbers(0, 6, least=1, most=4),),
)

DOT = family(
    "dot",
    form(
        1,
        "dot sum_products weighted_sum",
        '''
        def $called($a, $b):
            """Add up the products of $a and $b, item by item."""
            return sum($x * $y for $x, $y in zip($a, $b))
        ''',
        ("operator", "$x * $y", "$x + $y"),
        ("wrong variable", "$x * $y", "$x * $x"),
        ("wrong variable", "zip($a, $b)", "zip($a, $a)"),
        ("wrong function", "sum(", "max("),
    ),
    form(
        1,
        "largest_gap widest farthest",
        '''
        def $called($a, $b):
            """Return the largest of $a less $b, item by item."""
            return max($x - $y for $x, $y in zip($a, $b))
        ''',
        ("operator", "$x - $y", "$x + $y"),
        ("swapped", "$x - $y", "$y - $x"),
        ("wrong variable", "zip($a, $b)", "zip($b, $a)"),
        ("wrong function", "max(", "min("),
    ),
    a="a first counts",
    b="b second prices",
    x="x p left",
    y="y q right",
    arguments=_two_lists,
)

TOTAL_PRICE = family(
    "total_price",
    form(
        1,
        "total_price bill to_pay",
        '''
        def $called($prices):
            """Return the sum of $prices plus $k for delivery."""
            return sum($prices) + $k
        ''',
        ("operator", ") + $k", ") - $k"),
        ("wrong constant", "+ $k", "+ $wrong"),
        ("wrong function", "sum(", "max("),
        ("missing return", "return sum", "sum"),
    ),
    form(
        2,
        "total_price bill to_pay",
        '''
        def $called($prices):
            """Return the sum of $prices plus $k for each."""
            $total = 0
            for $p in $prices:
                $total += $p + $k
            return $total
        ''',
        ("operator", "+= $p + $k", "+= $p - $k"),
        ("wrong constant", "+ $k", "+ $wrong"),
        ("wrong start", "$total = 0", "$total = $k"),
        ("operator", "$total += ", "$total = "),
    ),
    form(
        3,
        "total_price bill to_pay",
        '''
        def $taxed($p):
            return $p + $p * $k // 100


        def $called($prices):
            """Add up $prices, each with $k percent tax."""
            return sum($taxed($p) for $p in $prices)
        ''',
        ("operator", "return $p + $p", "return $p - $p"),
        ("wrong constant", "* $k", "* $wrong"),
        ("wrong function", "sum(", "max("),
        ("wrong variable", "sum($taxed($p)", "sum($p"),
    ),
    prices="prices costs amounts",
    p="p x price",
    total=_TOTAL,
    taxed="taxed with_tax gross",
    k="5 10 20",
    wrong="2 15 25",
    arguments=lambda rng, _: ([20 * rng.whole(1, 9) for _ in range(rng.whole(1, 4))],),
)

SQUARES = family(
    "squares",
    form(
        3,
        "distance_squared far_squared apart",
        '''
        def $square($x):
            return $x * $x


        def $called($a, $b):
            """Return the squared distance of the points $a and $b."""
            return $square($a[0] - $b[0]) + $square($a[1] - $b[1])
        ''',
        ("operator", "$x * $x", "$x + $x"),
        ("operator", ") + $square", ") - $square"),
        ("off by one", "$b[1]", "$b[0]"),
        ("operator", "$a[0] - $b", "$a[0] + $b"),
    ),
    form(
        3,
        "city_distance blocks walk",
        '''
        def $size($x):
            return $x if $x >= 0 else -$x


        def $called($a, $b):
            """Add the steps from $a to $b along both axes."""
            return $size($a[0] - $b[0]) + $size($a[1] - $b[1])
        ''',
        ("comparison", "$x >= 0", "$x <= 0"),
        ("operator", ") + $size", ") - $size"),
        ("off by one", "$b[1]", "$b[0]"),
        ("operator", "else -$x", "else $x"),
    ),
    square="square squared",
    size="size length",
    x="x n side",
    a="a p start",
    b="b q end",
    arguments=lambda rng, _: ((rng.whole(0, 6), rng.whole(0, 6)), (rng.whole(0, 6), rng.whole(0, 6))),
)

SERIES = (RUNNING_TOTAL, DOT, TOTAL_PRICE, SQUARES)
