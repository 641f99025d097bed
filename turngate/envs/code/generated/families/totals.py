"""Families that count, add up and compare the numbers of a list."""

from turngate.envs.code.generated.families.family import Arguments, Pick, family, form
from turngate.envs.seeded_random import SeededRandom

_NUMBERS = "numbers values scores marks"
_N = "n x v"
_TOTAL = "total result answer"


def _numbers(rng: SeededRandom, _: Pick) -> Arguments:
    return (rng.numbers(-9, 9, most=6),)


def _numbers_and_limit(rng: SeededRandom, _: Pick) -> Arguments:
    """Numbers and a limit that is often one of them."""
    numbers = rng.numbers(0, 9, most=6)
    return (numbers, rng.pick([*numbers, rng.whole(0, 9)]))


def _almost_sorted(rng: SeededRandom, _: Pick) -> Arguments:
    """Numbers in order, some with an equal pair, and often with one of them lowered."""
    numbers = sorted(rng.numbers(0, 9, least=2, most=4))
    place = rng.whole(1, len(numbers) - 1)
    numbers[place] = rng.pick((numbers[place], numbers[place - 1], numbers[place - 1] - 1))
    return (numbers,)


COUNT_ABOVE = family(
    "count_above",
    form(
        1,
        "count_above how_many_above above",
        '''
        def $called($numbers, $limit):
            """Count the $numbers above $limit."""
            return sum(1 for $n in $numbers if $n > $limit)
        ''',
        ("boundary", "> $limit", ">= $limit"),
        ("comparison", "> $limit", "< $limit"),
        ("wrong variable", "sum(1 for", "sum($n for"),
        ("wrong function", "sum(1", "max(1"),
    ),
    form(
        1,
        "count_from how_many_from reaching",
        '''
        def $called($numbers, $limit):
            """Count the $numbers that are at least $limit."""
            return sum(1 for $n in $numbers if $n >= $limit)
        ''',
        ("boundary", ">= $limit", "> $limit"),
        ("comparison", ">= $limit", "<= $limit"),
        ("wrong variable", "sum(1 for", "sum($n for"),
        ("comparison", ">= $limit", "== $limit"),
    ),
    form(
        2,
        "count_below how_many_below below",
        '''
        def $called($numbers, $limit):
            """Count the $numbers below $limit."""
            $total = 0
            for $n in $numbers:
                if $n < $limit:
                    $total += 1
            return $total
        ''',
        ("boundary", "< $limit", "<= $limit"),
        ("comparison", "< $limit", "> $limit"),
        ("wrong start", "$total = 0", "$total = 1"),
        ("wrong variable", "+= 1", "+= $n"),
        ("operator", "+= 1", "-= 1"),
    ),
    numbers=_NUMBERS,
    limit="limit bound level",
    n=_N,
    total="total count result",
    arguments=_numbers_and_limit,
)

SUM_EVEN = family(
    "sum_even",
    form(
        1,
        "sum_even add_even even_total",
        '''
        def $called($numbers):
            """Add up the even $numbers."""
            return sum($n for $n in $numbers if $n % 2 == 0)
        ''',
        ("comparison", "== 0", "!= 0"),
        ("operator", "% 2", "// 2"),
        ("wrong variable", "sum($n for", "sum(1 for"),
        ("missing return", "return sum", "sum"),
    ),
    form(
        1,
        "sum_odd add_odd odd_total",
        '''
        def $called($numbers):
            """Add up the odd $numbers."""
            return sum($n for $n in $numbers if $n % 2 == 1)
        ''',
        ("comparison", "== 1", "!= 1"),
        ("wrong constant", "% 2", "% 3"),
        ("wrong constant", "== 1", "== 0"),
        ("wrong variable", "sum($n for", "sum(1 for"),
    ),
    form(
        2,
        "sum_multiples add_multiples multiples_total",
        '''
        def $called($numbers):
            """Add up the $numbers that are multiples of $k."""
            $total = 0
            for $n in $numbers:
                if $n % $k == 0:
                    $total += $n
            return $total
        ''',
        ("comparison", "== 0", "!= 0"),
        ("operator", "% $k", "// $k"),
        ("wrong constant", "% $k", "% $wrong"),
        ("operator", "+= $n", "-= $n"),
        ("wrong start", "$total = 0", "$total = $k"),
    ),
    numbers=_NUMBERS,
    n=_N,
    total=_TOTAL,
    k="3 4 5",
    wrong="2 7",
    arguments=lambda rng, _: (rng.numbers(0, 15, most=6),),
)

LARGEST = family(
    "largest",
    form(
        2,
        "largest maximum top",
        '''
        def $called($numbers):
            """Return the largest of $numbers."""
            $best = $numbers[0]
            for $n in $numbers:
                if $n > $best:
                    $best = $n
            return $best
        ''',
        ("comparison", "$n > $best", "$n < $best"),
        ("wrong start", "$numbers[0]", "0"),
        ("wrong variable", "return $best", "return $n"),
        ("operator", "$best = $n\n", "$best += $n\n"),
    ),
    form(
        1,
        "second_largest runner_up second",
        '''
        def $called($numbers):
            """Return the second largest of $numbers."""
            return sorted($numbers)[-2]
        ''',
        ("off by one", "[-2]", "[-1]"),
        ("off by one", "[-2]", "[-3]"),
        ("operator", "[-2]", "[2]"),
        ("wrong function", "sorted($numbers)", "$numbers"),
    ),
    numbers=_NUMBERS,
    n=_N,
    best="best most result",
    arguments=_numbers,
)

SMALLEST = family(
    "smallest",
    form(
        2,
        "smallest minimum least",
        '''
        def $called($numbers):
            """Return the smallest of $numbers."""
            $best = $numbers[0]
            for $n in $numbers:
                if $n < $best:
                    $best = $n
            return $best
        ''',
        ("comparison", "$n < $best", "$n > $best"),
        ("wrong start", "$numbers[0]", "0"),
        ("wrong variable", "return $best", "return $n"),
        ("operator", "$best = $n\n", "$best += $n\n"),
    ),
    form(
        1,
        "spread width extent",
        '''
        def $called($numbers):
            """Return the largest of $numbers less the smallest."""
            return max($numbers) - min($numbers)
        ''',
        ("operator", ") - min", ") + min"),
        ("wrong function", "max(", "len("),
        ("wrong function", "- min(", "- max("),
        ("swapped", "max($numbers) - min($numbers)", "min($numbers) - max($numbers)"),
    ),
    numbers=_NUMBERS,
    n=_N,
    best="best lowest result",
    arguments=_numbers,
)

AVERAGE = family(
    "average",
    form(
        1,
        "average mean typical",
        '''
        def $called($numbers):
            """Return the mean of $numbers."""
            return sum($numbers) / len($numbers)
        ''',
        ("operator", "/ len", "// len"),
        ("operator", "/ len", "* len"),
        ("off by one", "/ len($numbers)", "/ (len($numbers) - 1)"),
        ("wrong function", "sum(", "max("),
        ("missing return", "return sum", "sum"),
    ),
    form(
        3,
        "average mean typical",
        '''
        def $called($numbers):
            """Return the mean of $numbers, or 0 if there are none."""
            if not $numbers:
                return 0
            return sum($numbers) / len($numbers)
        ''',
        ("negation", "if not $numbers", "if $numbers"),
        ("operator", "/ len", "* len"),
        ("operator", "/ len", "// len"),
        ("missing return", "return sum", "sum"),
    ),
    form(
        1,
        "midpoint mid_range halfway",
        '''
        def $called($numbers):
            """Return the mean of the least and largest of $numbers."""
            return (min($numbers) + max($numbers)) / 2
        ''',
        ("operator", "/ 2", "* 2"),
        ("operator", ") + max", ") - max"),
        ("wrong function", "+ max(", "+ min("),
        ("wrong constant", "/ 2", "/ 3"),
    ),
    numbers="numbers values scores marks sizes weights",
    # lengths that give short decimals
    arguments=lambda rng, _: ([rng.whole(0, 9) for _ in range(rng.pick((0, 1, 2, 4, 5)))],),
)

IS_SORTED = family(
    "is_sorted",
    form(
        2,
        "is_sorted in_order ordered",
        '''
        def $called($numbers):
            """True if none of $numbers is below the one before."""
            return all($a <= $b for $a, $b in zip($numbers, $numbers[1:]))
        ''',
        ("boundary", "$a <= $b", "$a < $b"),
        ("comparison", "$a <= $b", "$a >= $b"),
        ("wrong function", "all(", "any("),
        ("off by one", "[1:]", "[2:]"),
    ),
    form(
        2,
        "is_rising climbs grows",
        '''
        def $called($numbers):
            """True if each of $numbers is above the one before."""
            return all($a < $b for $a, $b in zip($numbers, $numbers[1:]))
        ''',
        ("boundary", "$a < $b", "$a <= $b"),
        ("comparison", "$a < $b", "$a > $b"),
        ("wrong function", "all(", "any("),
        ("off by one", "[1:]", "[2:]"),
    ),
    form(
        3,
        "is_sorted in_order ordered",
        '''
        def $called($numbers):
            """True if none of $numbers is below the one before."""
            for $i in range(1, len($numbers)):
                if $numbers[$i] < $numbers[$i - 1]:
                    return False
            return True
        ''',
        ("boundary", "] < $numbers", "] <= $numbers"),
        ("comparison", "] < $numbers", "] > $numbers"),
        ("off by one", "range(1,", "range(2,"),
        ("off by one", "$i - 1]", "$i - 2]"),
        ("off by one", "len($numbers))", "len($numbers) - 1)"),
    ),
    numbers=_NUMBERS,
    a="a x left",
    b="b y right",
    i="i j place",
    arguments=_almost_sorted,
)

TOTALS = (COUNT_ABOVE, SUM_EVEN, LARGEST, SMALLEST, AVERAGE, IS_SORTED)
