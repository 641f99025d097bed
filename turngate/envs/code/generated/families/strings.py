"""Families of functions over texts."""

from turngate.envs.code.generated.families.family import Arguments, Pick, family, form
from turngate.envs.seeded_random import SeededRandom

_TEXT = "text line phrase"
_W = "w word x"
_N = "n size width"


def _phrase(rng: SeededRandom, _: Pick) -> Arguments:
    return (rng.phrase(),)


def _word_and_width(rng: SeededRandom, _: Pick) -> Arguments:
    """A word and a number near its length."""
    word = rng.pick(rng.words())
    return (word, max(1, len(word) + rng.whole(-2, 4)))


def _text_and_part(rng: SeededRandom, _: Pick) -> Arguments:
    """A word and the beginning, the end or the inside of it, or another word."""
    word = rng.phrase(1, 2)
    cut = rng.whole(1, 2)
    return (word, rng.pick((word[:cut], word[-cut:], word[1 : 1 + cut], rng.pick(rng.words()))))


INITIALS = family(
    "initials",
    form(
        1,
        "initials first_letters short_name",
        '''
        def $called($text):
            """Return the first letters of the words of $text, in capitals."""
            return "".join($w[0].upper() for $w in $text.split())
        ''',
        ("off by one", "[0]", "[1]"),
        ("off by one", "[0]", "[-1]"),
        ("wrong function", "upper()", "lower()"),
        ("wrong constant", '"".', '" ".'),
    ),
    form(
        1,
        "endings last_letters ends",
        '''
        def $called($text):
            """Join the last letters of the words of $text with dots."""
            return ".".join($w[-1] for $w in $text.split())
        ''',
        ("off by one", "[-1]", "[-2]"),
        ("wrong slice", "[-1]", "[0]"),
        ("wrong constant", '".".', '"".'),
        ("missing return", 'return "', '"'),
    ),
    text=_TEXT,
    w=_W,
    arguments=_phrase,
)

REVERSE_WORDS = family(
    "reverse_words",
    form(
        2,
        "reverse_words turn_words backwards",
        '''
        def $called($text):
            """Return the words of $text in reverse order."""
            return " ".join($text.split()[::-1])
        ''',
        ("wrong slice", "[::-1]", "[::1]"),
        ("wrong slice", "[::-1]", "[:-1]"),
        ("wrong constant", '" ".', '"".'),
        ("missing return", 'return "', '"'),
    ),
    form(
        2,
        "mirror_words flip_words turn_letters",
        '''
        def $called($text):
            """Reverse the letters of each word of $text."""
            return " ".join($w[::-1] for $w in $text.split())
        ''',
        ("wrong slice", "[::-1]", "[::1]"),
        ("wrong slice", "[::-1]", "[:-1]"),
        ("wrong constant", '" ".', '"".'),
        ("wrong variable", "$text.split()", "$text"),
    ),
    text="text line phrase title row",
    w=_W,
    arguments=_phrase,
)

COUNT_CHAR = family(
    "count_char",
    form(
        2,
        "count_char occurrences how_often",
        '''
        def $called($text, $char):
            """Count how often $char stands in $text."""
            $total = 0
            for $w in $text:
                if $w == $char:
                    $total += 1
            return $total
        ''',
        ("comparison", "$w == $char", "$w != $char"),
        ("comparison", "$w == $char", "$w >= $char"),
        ("wrong start", "$total = 0", "$total = 1"),
        ("operator", "+= 1", "-= 1"),
    ),
    form(
        1,
        "count_other others without",
        '''
        def $called($text, $char):
            """Count the characters of $text other than $char."""
            return sum(1 for $w in $text if $w != $char)
        ''',
        ("comparison", "!= $char", "== $char"),
        ("comparison", "!= $char", "> $char"),
        ("wrong constant", "sum(1", "sum(2"),
        ("wrong function", "sum(", "max("),
    ),
    text=_TEXT,
    char="char letter c",
    w="x each one",
    total="total count hits",
    arguments=lambda rng, _: (phrase := rng.phrase(), rng.pick([*phrase, "e"])),
)

STARTS_WITH = family(
    "starts_with",
    form(
        2,
        "starts_with begins_with is_prefix",
        '''
        def $called($text, $part):
            """True if $text begins with $part."""
            return $text[:len($part)] == $part
        ''',
        ("comparison", "== $part", "!= $part"),
        ("wrong slice", "[:len($part)]", "[len($part):]"),
        ("off by one", "[:len", "[1:len"),
        ("wrong variable", "$text[:", "$part[:"),
    ),
    form(
        2,
        "ends_with finishes_with is_suffix",
        '''
        def $called($text, $part):
            """True if $text ends with $part."""
            return $text[-len($part):] == $part
        ''',
        ("comparison", "== $part", "!= $part"),
        ("wrong slice", "[-len($part):]", "[len($part):]"),
        ("wrong slice", "[-len($part):]", "[:len($part)]"),
        ("wrong variable", "$text[-", "$part[-"),
    ),
    text=_TEXT,
    part="part piece head",
    arguments=_text_and_part,
)

PAD_LEFT = family(
    "pad_left",
    form(
        1,
        "pad_left fill_left lead",
        '''
        def $called($text, $n):
            """Put "$fill" before $text until it has $n letters."""
            return "$fill" * ($n - len($text)) + $text
        ''',
        ("operator", "- len", "+ len"),
        ("swapped", "$n - len($text)", "len($text) - $n"),
        ("wrong constant", '"$fill" *', '"$other" *'),
        ("swapped", '"$fill" * ($n - len($text)) + $text', '$text + "$fill" * ($n - len($text))'),
    ),
    form(
        1,
        "pad_right fill_right trail",
        '''
        def $called($text, $n):
            """Put "$fill" after $text until it has $n letters."""
            return $text + "$fill" * ($n - len($text))
        ''',
        ("operator", "- len", "+ len"),
        ("swapped", "$n - len($text)", "len($text) - $n"),
        ("wrong constant", '"$fill" *', '"$other" *'),
        ("swapped", '$text + "$fill" * ($n - len($text))', '"$fill" * ($n - len($text)) + $text'),
    ),
    text="text word name",
    n=_N,
    fill=". - * 0 _",
    other=". - * 0 _",
    arguments=_word_and_width,
)

CLIP_TEXT = family(
    "clip_text",
    form(
        3,
        "clip_text shorten cut",
        '''
        def $called($text, $n):
            """Cut $text to $n letters and add "$fill" if it is longer."""
            if len($text) <= $n:
                return $text
            return $text[:$n] + "$fill"
        ''',
        ("boundary", "<= $n", "< $n"),
        ("comparison", "<= $n", ">= $n"),
        ("wrong slice", "[:$n]", "[$n:]"),
        ("off by one", "[:$n]", "[:$n - 1]"),
    ),
    form(
        2,
        "clip_text shorten cut",
        '''
        def $called($text, $n):
            """Return at most the first $n letters of $text."""
            return $text[:$n]
        ''',
        ("wrong slice", "[:$n]", "[$n:]"),
        ("off by one", "[:$n]", "[:$n - 1]"),
        ("off by one", "[:$n]", "[:$n + 1]"),
        ("missing return", "return $text", "$text"),
    ),
    text="text word name",
    n=_N,
    fill=". - + ~",
    arguments=_word_and_width,
)

CAPITAL = family(
    "capital",
    form(
        2,
        "capital big_first start_large",
        '''
        def $called($text):
            """Return $text with its first letter in capitals."""
            return $text[0].upper() + $text[1:]
        ''',
        ("off by one", "[0]", "[1]"),
        ("wrong function", "upper()", "lower()"),
        ("wrong slice", "[1:]", "[:1]"),
        ("off by one", "[1:]", "[2:]"),
    ),
    form(
        2,
        "big_last end_large loud_end",
        '''
        def $called($text):
            """Return $text with its last letter in capitals."""
            return $text[:-1] + $text[-1].upper()
        ''',
        ("off by one", "[-1]", "[-2]"),
        ("wrong function", "upper()", "lower()"),
        ("wrong slice", "[:-1]", "[:1]"),
        ("off by one", "[:-1]", "[:-2]"),
    ),
    text="text word name line title label city letters phrase",
    arguments=_phrase,
)

PALINDROME = family(
    "palindrome",
    form(
        2,
        "palindrome same_backwards is_mirror",
        '''
        def $called($text):
            """True if $text reads the same backwards."""
            return $text == $text[::-1]
        ''',
        ("comparison", "== $text", "!= $text"),
        ("wrong slice", "[::-1]", "[:-1]"),
        ("wrong slice", "[::-1]", "[::1]"),
        ("missing return", "return $text", "$text"),
    ),
    form(
        2,
        "same_ends ends_agree round_word",
        '''
        def $called($text):
            """True if $text begins and ends with the same letter."""
            return $text[0] == $text[-1]
        ''',
        ("comparison", "] == $text", "] != $text"),
        ("off by one", "[-1]", "[-2]"),
        ("off by one", "[0]", "[1]"),
        ("missing return", "return $text", "$text"),
    ),
    text="text word name line phrase title label city letters",
    arguments=lambda rng, _: (rng.pick(("noon", "wow", "level", "abca", "abba", "Otto", *rng.words(2, 4))),),
)

LONG_WORDS = family(
    "long_words",
    form(
        1,
        "long_words longer_words words_above",
        '''
        def $called($text, $n):
            """Return the words of $text with more than $n letters."""
            return [$w for $w in $text.split() if len($w) > $n]
        ''',
        ("boundary", "> $n", ">= $n"),
        ("comparison", "> $n", "< $n"),
        ("wrong variable", "len($w)", "len($text)"),
        ("missing return", "return [", "["),
    ),
    form(
        1,
        "words_from words_reaching big_words",
        '''
        def $called($text, $n):
            """Return the words of $text with at least $n letters."""
            return [$w for $w in $text.split() if len($w) >= $n]
        ''',
        ("boundary", ">= $n", "> $n"),
        ("comparison", ">= $n", "<= $n"),
        ("wrong variable", "len($w)", "len($text)"),
        ("missing return", "return [", "["),
    ),
    text=_TEXT,
    n="n size limit",
    w="w word x",
    arguments=lambda rng, _: (rng.phrase(1, 4), rng.whole(2, 5)),
)

SAME_TEXT = family(
    "same_text",
    form(
        3,
        "same_text equal_texts matches",
        '''
        def $plain($text):
            return $text.strip().lower()


        def $called($a, $b):
            """True if $a and $b differ at most in case and outer spaces."""
            return $plain($a) == $plain($b)
        ''',
        ("wrong function", ".strip().lower()", ".strip()"),
        ("wrong function", ".strip().lower()", ".lower()"),
        ("comparison", ") == $plain", ") != $plain"),
        ("wrong variable", "== $plain($b)", "== $b"),
        ("wrong variable", "== $plain($b)", "== $plain($a)"),
    ),
    form(
        3,
        "same_length equally_long as_long",
        '''
        def $plain($text):
            return $text.replace(" ", "")


        def $called($a, $b):
            """True if $a and $b are equally long without spaces."""
            return len($plain($a)) == len($plain($b))
        ''',
        ("wrong constant", '" ", ""', '" ", " "'),
        ("comparison", ") == len", ") != len"),
        ("comparison", ") == len", ") <= len"),
        ("wrong variable", "len($plain($b))", "len($b)"),
    ),
    plain="plain clean bare",
    text=_TEXT,
    a="a left first",
    b="b right second",
    arguments=lambda rng, _: (
        text := rng.pick(("Sun", "be", "oak tree", "pin")),
        rng.pick((text.upper(), f" {text}", f"{text} ", f" {text} ".lower(), "pins", "no", "ab c", "bea")),
    ),
)

TEXTS = (
    INITIALS,
    REVERSE_WORDS,
    COUNT_CHAR,
    STARTS_WITH,
    PAD_LEFT,
    CLIP_TEXT,
    CAPITAL,
    PALINDROME,
    LONG_WORDS,
    SAME_TEXT,
)
