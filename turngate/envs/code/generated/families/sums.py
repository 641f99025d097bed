"""Families that calculate with numbers."""

from turngate.envs.code.generated.families.family import Arguments, Pick, family, form
from turngate.envs.seeded_random import SeededRandom

_X = "x n value amount"
_TOTAL = "total result answer"


def _start_and_goal(rng: SeededRandom, pick: Pick) -> Arguments:
    """Two numbers that are a whole number of steps apart, or one more or less."""
    start = rng.whole(0, 9)
    return (start, start + int(pick["k"]) * rng.whole(0, 3) + rng.whole(-1, 1))


PERCENT = family(
    "percent",
    form(
        1,
        "percent share_of percentage",
        '''
        def $called($part, $whole):
            """Return what percent $part is of $whole."""
            return 100 * $part / $whole
        ''',
        ("operator", "/ $whole", "* $whole"),
        ("operator", "/ $whole", "// $whole"),
        ("swapped", "$part / $whole", "$whole / $part"),
        ("wrong constant", "100 *", "10 *"),
        ("missing return", "return 100", "100"),
    ),
    form(
        3,
        "percent share_of percentage",
        '''
        def $called($part, $whole):
            """Return what percent $part is of $whole; 0 if $whole is 0."""
            if $whole == 0:
                return 0
            return 100 * $part / $whole
        ''',
        ("comparison", "== 0", "!= 0"),
        ("wrong variable", "$whole == 0", "$part == 0"),
        ("operator", "/ $whole", "* $whole"),
        ("wrong constant", "100 *", "10 *"),
    ),
    part="part some count hits",
    whole="whole total size full",
    # arguments that a form does not provide for, here a whole of 0, are dropped
    arguments=lambda rng, _: (rng.whole(0, 9), rng.pick((0, 0, 4, 8, 10, 16, 20, 50))),
)

DISCOUNT = family(
    "discount",
    form(
        1,
        "discount sale_price reduced",
        '''
        def $called($price):
            """Return $price less $k percent."""
            return $price - $price * $k / 100
        ''',
        ("operator", "$price - $price", "$price + $price"),
        ("wrong constant", "/ 100", "/ 10"),
        ("wrong constant", "* $k", "* $wrong"),
        ("missing return", "return $price -", "$price -"),
    ),
    form(
        1,
        "raised with_tax marked_up",
        '''
        def $called($price):
            """Return $price plus $k percent."""
            return $price + $price * $k / 100
        ''',
        ("operator", "$price + $price", "$price - $price"),
        ("wrong constant", "/ 100", "/ 10"),
        ("wrong constant", "* $k", "* $wrong"),
        ("missing return", "return $price +", "$price +"),
    ),
    price="price cost amount fee",
    k="5 10 15 20 25 30 40 50",
    wrong="5 10 15 20 25 30 40 50",
    arguments=lambda rng, _: (20 * rng.whole(0, 30),),
)

ROUND_TO = family(
    "round_to",
    form(
        1,
        "round_down floor_to step_down",
        '''
        def $called($x):
            """Round $x down to a multiple of $k."""
            return $x // $k * $k
        ''',
        ("operator", "// $k", "% $k"),
        ("operator", "* $k", "+ $k"),
        ("operator", "// $k *", "/ $k *"),
        ("wrong constant", "* $k", "* $wrong"),
    ),
    form(
        1,
        "round_up raise_to step_up",
        '''
        def $called($x):
            """Round $x up to a multiple of $k."""
            return ($x + $k - 1) // $k * $k
        ''',
        ("off by one", "- 1)", "+ 1)"),
        ("operator", "+ $k - 1", "- $k - 1"),
        ("operator", "* $k", "+ $k"),
        ("wrong constant", "* $k", "* $wrong"),
    ),
    x=_X,
    k="3 4 5 6 10 12 20",
    wrong="2 7 8 9 11 15",
    arguments=lambda rng, pick: (rng.whole(0, 4) * int(pick["k"]) + rng.whole(-1, 2),),
)

TO_MINUTES = family(
    "to_minutes",
    form(
        1,
        "to_minutes as_minutes in_minutes",
        '''
        def $called($large, $small):
            """Return $large hours and $small minutes in minutes."""
            return $large * 60 + $small
        ''',
        ("wrong constant", "* 60", "* 24"),
        ("operator", "* 60", "+ 60"),
        ("operator", "+ $small", "- $small"),
        ("swapped", "$large * 60 + $small", "$small * 60 + $large"),
    ),
    form(
        1,
        "to_hours as_hours in_hours",
        '''
        def $called($large, $small):
            """Return $large days and $small hours in hours."""
            return $large * 24 + $small
        ''',
        ("wrong constant", "* 24", "* 60"),
        ("operator", "* 24", "+ 24"),
        ("operator", "+ $small", "- $small"),
        ("swapped", "$large * 24 + $small", "$small * 24 + $large"),
    ),
    form(
        1,
        "to_months as_months in_months",
        '''
        def $called($large, $small):
            """Return $large years and $small months in months."""
            return $large * 12 + $small
        ''',
        ("wrong constant", "* 12", "* 24"),
        ("operator", "* 12", "+ 12"),
        ("operator", "+ $small", "- $small"),
        ("swapped", "$large * 12 + $small", "$small * 12 + $large"),
    ),
    large="a x big first p",
    small="b y rest second q",
    arguments=lambda rng, _: (rng.whole(0, 9), rng.whole(0, 11)),
)

DIGIT_SUM = family(
    "digit_sum",
    form(
        1,
        "digit_sum add_digits sum_digits",
        '''
        def $called($x):
            """Add up the digits of $x."""
            return sum(int($d) for $d in str($x))
        ''',
        ("wrong function", "sum(", "max("),
        ("wrong function", "int($d)", "len($d)"),
        ("wrong variable", "int($d)", "int($x)"),
        ("missing return", "return sum", "sum"),
    ),
    form(
        2,
        "digit_sum add_digits sum_digits",
        '''
        def $called($x):
            """Add up the digits of $x."""
            $total = 0
            while $x > 0:
                $total += $x % 10
                $x = $x // 10
            return $total
        ''',
        ("wrong start", "$total = 0", "$total = 1"),
        ("operator", "$total += ", "$total = "),
        ("operator", "% 10", "// 10"),
        ("wrong constant", "// 10", "// 100"),
        ("boundary", "> 0", "> 1"),
    ),
    x=_X,
    d="d c digit",
    total=_TOTAL,
    arguments=lambda rng, _: (rng.pick((rng.whole(0, 9), rng.whole(10, 19), rng.whole(20, 999))),),
)

STEPS_TO = family(
    "steps_to",
    form(
        2,
        "steps_to jumps_to moves_to",
        '''
        def $called($x, $goal):
            """Count steps of $k from $x until $goal or more."""
            $total = 0
            while $x < $goal:
                $x += $k
                $total += 1
            return $total
        ''',
        ("boundary", "$x < $goal", "$x <= $goal"),
        ("wrong start", "$total = 0", "$total = 1"),
        ("wrong constant", "$total += 1", "$total += $k"),
        ("wrong constant", "$x += $k", "$x += $wrong"),
    ),
    form(
        1,
        "steps_to jumps_to moves_to",
        '''
        def $called($x, $goal):
            """Count steps of $k from $x until $goal or more."""
            return max(0, ($goal - $x + $k - 1) // $k)
        ''',
        ("operator", "$goal - $x", "$goal + $x"),
        ("wrong function", "max(0", "min(0"),
        ("off by one", "- 1)", "+ 1)"),
        ("wrong constant", "// $k", "// $wrong"),
    ),
    x="x start place",
    goal="goal end target",
    total="count steps moves",
    k="2 3 4 5",
    wrong="1 6 7",
    arguments=_start_and_goal,
)

REPEATED = family(
    "repeated",
    form(
        2,
        "grow multiply_up scale",
        '''
        def $called($x, $times):
            """Multiply $x by $k, $times times."""
            for _ in range($times):
                $x = $x * $k
            return $x
        ''',
        ("operator", "* $k", "+ $k"),
        ("off by one", "range($times)", "range($times - 1)"),
        ("off by one", "range($times)", "range($times + 1)"),
        ("wrong constant", "* $k", "* $wrong"),
    ),
    form(
        2,
        "climb add_up advance",
        '''
        def $called($x, $times):
            """Add $k to $x, $times times."""
            for _ in range($times):
                $x = $x + $k
            return $x
        ''',
        ("operator", "+ $k", "* $k"),
        ("off by one", "range($times)", "range($times - 1)"),
        ("off by one", "range($times)", "range($times + 1)"),
        ("operator", "+ $k", "- $k"),
    ),
    x=_X,
    times="times turns rounds",
    k="2 3 4 5 6",
    wrong="1 7 8 9",
    arguments=lambda rng, _: (rng.whole(0, 6), rng.whole(0, 4)),
)

UP_TO = family(
    "up_to",
    form(
        2,
        "sum_to add_to total_to",
        '''
        def $called($x):
            """Add up the numbers from 1 to $x."""
            $total = 0
            for $i in range(1, $x + 1):
                $total += $i
            return $total
        ''',
        ("wrong start", "$total = 0", "$total = 1"),
        ("off by one", "$x + 1)", "$x)"),
        ("operator", "$total += ", "$total *= "),
        ("wrong variable", "+= $i", "+= $x"),
    ),
    form(
        2,
        "factorial product_to multiply_to",
        '''
        def $called($x):
            """Multiply the numbers from 1 to $x."""
            $total = 1
            for $i in range(1, $x + 1):
                $total *= $i
            return $total
        ''',
        ("wrong start", "$total = 1", "$total = 0"),
        ("off by one", "$x + 1)", "$x)"),
        ("operator", "$total *= ", "$total += "),
        ("wrong variable", "*= $i", "*= $x"),
    ),
    form(
        1,
        "sum_to add_to total_to",
        '''
        def $called($x):
            """Add up the numbers from 1 to $x."""
            return sum(range(1, $x + 1))
        ''',
        ("off by one", "$x + 1)", "$x)"),
        ("off by one", "range(1", "range(2"),
        ("wrong function", "sum(", "len("),
        ("missing return", "return sum", "sum"),
    ),
    x="x n last top",
    i="i j step",
    total=_TOTAL,
    arguments=lambda rng, _: (rng.whole(0, 7),),
)

SUMS = (PERCENT, DISCOUNT, ROUND_TO, TO_MINUTES, DIGIT_SUM, STEPS_TO, REPEATED, UP_TO)
