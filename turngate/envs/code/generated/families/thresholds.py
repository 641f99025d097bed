"""Families that compare numbers with limits."""

from turngate.envs.code.generated.families.family import Arguments, Pick, family, form
from turngate.envs.seeded_random import SeededRandom

_X = "x n value amount"
_LOW = "low lower floor"
_HIGH = "high upper top"


def _interval(rng: SeededRandom, _: Pick) -> Arguments:
    """A number and an interval; the number often lies on a border or next to one."""
    low = rng.whole(-6, 6)
    high = low + rng.whole(2, 6)
    x = rng.pick((low - 2, low - 1, low, low + 1, high - 1, high, high + 1, high + 2))
    return (x, low, high)


def _age_and_price(rng: SeededRandom, pick: Pick) -> Arguments:
    """An age at most one away from the right or the wrong limit, and an even price."""
    return (int(pick[rng.pick(("k", "k", "wrong"))]) + rng.whole(-1, 1), 2 * rng.whole(1, 9))


def _multiple(rng: SeededRandom, pick: Pick) -> Arguments:
    """A multiple of what the divisors drawn make together, or a number beside one."""
    k, m, wrong = int(pick["k"]), int(pick["m"]), int(pick["wrong"])
    return (rng.whole(0, 4) * rng.pick((k, m, wrong, k * m, wrong * m)) + rng.pick((0, 0, 1)),)


CLAMP = family(
    "clamp",
    form(
        1,
        "clamp limit_to keep_within",
        '''
        def $called($x, $low, $high):
            """Return $x, but at least $low and at most $high."""
            return max($low, min($x, $high))
        ''',
        ("wrong function", "max($low", "min($low"),
        ("wrong function", "min($x", "max($x"),
        ("wrong variable", "max($low,", "max($x,"),
        ("wrong variable", "$x, $high))", "$x, $low))"),
    ),
    form(
        3,
        "clamp limit_to keep_within",
        '''
        def $called($x, $low, $high):
            """Return $x, but at least $low and at most $high."""
            if $x < $low:
                return $low
            if $x > $high:
                return $high
            return $x
        ''',
        ("comparison", "$x < $low", "$x > $low"),
        ("comparison", "$x > $high", "$x < $high"),
        ("wrong variable", "$x > $high", "$x > $low"),
        ("negation", "if $x > $high", "if not $x > $high"),
    ),
    x=_X,
    low=_LOW,
    high=_HIGH,
    arguments=_interval,
)

IN_RANGE = family(
    "in_range",
    form(
        1,
        "in_range within is_between",
        '''
        def $called($x, $low, $high):
            """True if $x lies from $low to $high, both included."""
            return $low <= $x <= $high
        ''',
        ("boundary", "$low <= $x", "$low < $x"),
        ("boundary", "$x <= $high", "$x < $high"),
        ("comparison", "$low <= $x", "$low >= $x"),
        ("comparison", "$x <= $high", "$x >= $high"),
        ("missing return", "return $low", "$low"),
    ),
    form(
        1,
        "in_range within is_between",
        '''
        def $called($x, $low, $high):
            """True if $x lies between $low and $high, both excluded."""
            return $low < $x < $high
        ''',
        ("boundary", "$low < $x", "$low <= $x"),
        ("boundary", "$x < $high", "$x <= $high"),
        ("comparison", "$low < $x", "$low > $x"),
        ("missing return", "return $low", "$low"),
    ),
    form(
        1,
        "outside out_of_range beyond",
        '''
        def $called($x, $low, $high):
            """True if $x is below $low or above $high."""
            return $x < $low or $x > $high
        ''',
        ("boundary", "$x < $low", "$x <= $low"),
        ("boundary", "$x > $high", "$x >= $high"),
        ("operator", "$low or $x >", "$low and $x >"),
        ("comparison", "$x < $low", "$x > $low"),
    ),
    x=_X,
    low=_LOW,
    high=_HIGH,
    arguments=_interval,
)

GAP = family(
    "gap",
    form(
        1,
        "gap distance difference",
        '''
        def $called($a, $b):
            """Return how far $a and $b are apart, never below 0."""
            return abs($a - $b)
        ''',
        ("operator", "$a - $b", "$a + $b"),
        ("wrong function", "abs($a - $b)", "($a - $b)"),
        ("wrong variable", "$a - $b", "$a - $a"),
        ("missing return", "return abs", "abs"),
    ),
    form(
        3,
        "gap distance difference",
        '''
        def $called($a, $b):
            """Return how far $a and $b are apart, never below 0."""
            if $a > $b:
                return $a - $b
            return $b - $a
        ''',
        ("comparison", "$a > $b", "$a < $b"),
        ("operator", "return $a - $b", "return $a + $b"),
        ("operator", "return $b - $a", "return $b + $a"),
        ("missing return", "return $b - $a", "$b - $a"),
    ),
    a="a x first left start",
    b="b y second right stop",
    arguments=lambda rng, _: (rng.whole(-9, 9), rng.whole(-9, 9)),
)

FARE = family(
    "fare",
    form(
        1,
        "fare ticket_price entry",
        '''
        def $called($age, $price):
            """Return half of $price if $age is below $k, else $price."""
            return $price // 2 if $age < $k else $price
        ''',
        ("boundary", "$age < $k", "$age <= $k"),
        ("comparison", "$age < $k", "$age > $k"),
        ("wrong constant", "if $age < $k", "if $age < $wrong"),
        ("operator", "// 2", "* 2"),
    ),
    form(
        3,
        "fare ticket_price entry",
        '''
        def $called($age, $price):
            """Return 0 if $age is below $k, else $price."""
            if $age < $k:
                return 0
            return $price
        ''',
        ("boundary", "$age < $k", "$age <= $k"),
        ("comparison", "$age < $k", "$age > $k"),
        ("wrong constant", "if $age < $k", "if $age < $wrong"),
        ("wrong variable", "return $price", "return $age"),
    ),
    form(
        3,
        "fare ticket_price entry",
        '''
        def $called($age, $price):
            """Return half of $price if $age is at most $k, else $price."""
            if $age <= $k:
                return $price // 2
            return $price
        ''',
        ("boundary", "$age <= $k", "$age < $k"),
        ("comparison", "$age <= $k", "$age >= $k"),
        ("wrong constant", "if $age <= $k", "if $age <= $wrong"),
        ("wrong constant", "// 2", "// 3"),
    ),
    age="age years days",
    price="price cost full",
    k="6 12 15 18 60",
    wrong="5 10 14 16 20 50 65",
    arguments=_age_and_price,
)

SIGN = family(
    "sign",
    form(
        3,
        "sign compare order",
        '''
        def $called($x, $y):
            """Return 1 if $x is above $y, -1 if below, else 0."""
            if $x > $y:
                return 1
            if $x < $y:
                return -1
            return 0
        ''',
        ("boundary", "$x > $y", "$x >= $y"),
        ("boundary", "$x < $y", "$x <= $y"),
        ("wrong constant", "return 0", "return 2"),
        ("wrong constant", "return -1", "return -2"),
    ),
    form(
        3,
        "sign compare order",
        '''
        def $called($x, $y):
            """Return 0 if $x is $y, 1 if above, else -1."""
            if $x == $y:
                return 0
            return 1 if $x > $y else -1
        ''',
        ("comparison", "$x == $y", "$x != $y"),
        ("comparison", "if $x > $y", "if $x < $y"),
        ("missing return", "return 1 if", "1 if"),
        ("wrong constant", "return 1 if", "return 2 if"),
    ),
    x=_X,
    y="y m limit other",
    arguments=lambda rng, _: (x := rng.whole(0, 9), x + rng.whole(-2, 2)),
)

IS_MULTIPLE = family(
    "is_multiple",
    form(
        1,
        "is_multiple divides fits",
        '''
        def $called($x):
            """True if $x is a multiple of $k."""
            return $x % $k == 0
        ''',
        ("comparison", "== 0", "!= 0"),
        ("operator", "% $k", "// $k"),
        ("wrong constant", "% $k", "% $wrong"),
        ("wrong constant", "== 0", "== 1"),
    ),
    form(
        1,
        "is_multiple divides fits",
        '''
        def $called($x):
            """True if $x is a multiple of $k and of $m."""
            return $x % $k == 0 and $x % $m == 0
        ''',
        ("operator", "0 and ", "0 or "),
        ("comparison", "$k == 0", "$k != 0"),
        ("comparison", "$m == 0", "$m != 0"),
        ("wrong constant", "% $k ==", "% $wrong =="),
    ),
    form(
        1,
        "is_multiple divides fits",
        '''
        def $called($x):
            """True if $x is a multiple of $k or of $m."""
            return $x % $k == 0 or $x % $m == 0
        ''',
        ("operator", "0 or ", "0 and "),
        ("comparison", "$k == 0", "$k != 0"),
        ("comparison", "$m == 0", "$m != 0"),
        ("wrong constant", "% $k ==", "% $wrong =="),
    ),
    x=_X,
    k="2 3 4 6",
    m="5 7 9",
    wrong="8 11 13",
    arguments=_multiple,
)

LIMITS = (CLAMP, IN_RANGE, GAP, FARE, SIGN, IS_MULTIPLE)
