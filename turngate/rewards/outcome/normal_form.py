"""The form in which two short answers are compared: texts that differ in spelling and mean the same become equal, and
texts that mean something else stay different.

Only the signs listed here are removed, and only where they carry no meaning: any other sign is kept.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_SAME_LETTER = frozenset({"<wide>", "<narrow>", "<compat>", "<noBreak>", "<font>"})
"""Compatibility decompositions that keep the meaning. Raised, lowered, circled and fraction forms change it: 10² is not
102."""
_JOINERS = "\u200c\u200d"
"""Invisible signs that change a word (Persian) or a picture; the other invisible ones say nothing."""
_ONE_MARK = str.maketrans(
    dict.fromkeys("‘’‚‛′ʼ＇‹›", "'")
    | dict.fromkeys("“”„‟″«»「」『』《》", '"')
    | dict.fromkeys("‐‑‒–—―−﹣－", "-")
    | dict.fromkeys("،、٬", ",")
    | {"。": ".", "٫": ".", "٪": "%", "؟": "?", "؛": ";", "\ufe0e": None, "\ufe0f": None}
)
_GROUPING = str.maketrans("", "", ",，٬")
"""Commas that stand between the thousands of a number; not "、", which stands between two numbers."""
_GROUPED = re.compile(r"(?<![\d.,])(\d{1,3})((?:,\d{3})+)(?![\d,])")
_CASED_UNIT = r"M(?:Wh?|Hz|V|A|J|N|Pa|eV|Ω|F|H|m|s|g|t|L|l|Bq|Sv)?|P(?:Wh?|Hz|V|J|eV|F)|[KMGTP]b(?:ps|it)?"
"""Units that differ from others by their case alone: MW and mW, Mb (bits) and MB."""
_UNIT_OF_NUMBER = re.compile(rf"(?<=\d)(\s?(?:{_CASED_UNIT}))(?!\w)")
_PAIRS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?<!\w)\"(?=\S)([^\"]*)(?<=\S)\"(?!\w)",
        r"(?<!\w)'(?=\S)((?:[^']|(?<=\w)'(?=\w))*)(?<=\S)'(?!\w)",
        r"(?<!\w)`+(?=\S)([^`]*)(?<=\S)`+(?!\w)",
        r"(?<![\w*])\*{1,3}(?=[^\s*])([^*]*)(?<=\S)\*{1,3}(?![\w*])",
        r"(?<!\w)_{1,3}(?=[^\s_])([^_]*)(?<=[^\s_])_{1,3}(?!\w)",
        r"(?<![\w~])~{1,2}(?=[^\s~])([^~]*)(?<=\S)~{1,2}(?![\w~])",
        r"(?<!\w)\(([^()\[\]]*)\)(?!\w)",
        r"(?<!\w)\[([^()\[\]]*)\](?!\w)",
    )
)
"""Quotes, marks of markup, and brackets around one or several words."""
_OPERAND = r"\s*[-+]?(?:[^\W_]|[\d.]+|∞)\s*"
_TUPLE = re.compile(rf"{_OPERAND}(?:[,;]{_OPERAND})+")
"""Numbers or single letters with commas between them, whose brackets say something: (1, 2) is not [1, 2)."""
_DEEPEST = 4
_LONGEST = 200
"""Characters. A longer word is kept as it stands: it is no real word, and would take long to trim."""
_COMMA = re.compile(r"(?<!\d)[,;]|[,;](?!\d)")
_BARE_DECIMAL = re.compile(r"(?<![\d.])\.(?=\d)")
_LETTER = r"[^\W\d_]"
_HYPHENATED = re.compile(rf"{_LETTER}+(?:['·・•‧-]{_LETTER}+)+")
"""Letters with apostrophes, hyphens or middle dots between them."""
_ABBREVIATION = re.compile(rf"(?:{_LETTER}{{1,2}}\.)+{_LETTER}{{1,2}}")
_EDGES = '"`,;:?¿¡•·†‡※'
"""Marks that say nothing at the edge of a word."""
_LONE = frozenset("-*#|_~'!()[]{}." + _EDGES)
"""Marks that say nothing as words of their own, unless they stand between two operands."""
_JOINS = frozenset({"and", "or", "nor", "is", "vs", "vs."})


def normalize(text: str, *, faithful: bool = False) -> str:
    """``text`` in one form of its letters, without case, articles and punctuation that says nothing; single spaces.

    Equal become: composed and decomposed accents, letters and digits of full width, digits of all scripts, typographic
    and plain quotes, all dashes, ß and ss, invisible signs and none, "1,000" and "1000", ".5" and "0.5", "+5" and "5",
    "- 5" and "-5", "5 %" and "5%", "**New York**" and "New York", "U.S." and "US", "e-mail" and "email".

    Everything else is kept, because it can carry meaning: the sign, decimals, percent and currency of a number, what
    stands between two digits or single letters ("3:00", "1e-5", "x-1"), "C++", "C#", "A*", "O-", ".NET", "-v", "5!",
    "5'", "(1, 2]", "f(x)", "MW" beside "mW". "A" is an article only before a word and at the beginning, "an" and "the"
    everywhere but at the end. A text of which nothing would be left keeps its lower-case form.

    ``faithful=True`` is the published form (SQuAD, https://arxiv.org/abs/1606.05250): lower case, without any ASCII
    punctuation and articles. There −5 equals 5, 1.5 equals 15, C++ equals C, and a gold answer "A" becomes empty.
    """
    if faithful:
        return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())
    plain = one_form(text)
    bare = _folded(_unwrapped(_GROUPED.sub(lambda found: found[1] + found[2].replace(",", ""), plain)))
    words = _signs([word for word in map(_word, _COMMA.sub(" ", bare).split()) if word])
    return " ".join(_without_articles(words)) or " ".join(_folded(plain).split())


def one_form(text: str) -> str:
    """``text`` with one spelling of each letter, digit, quote and dash: composed, of ordinary width, nothing invisible.

    Raised and lowered signs and fractions stay what they are.
    """
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", "".join(map(_letter, text)).translate(_ONE_MARK))


def keys_in_one_form(table: Mapping[str, T]) -> Mapping[str, T]:
    """``table`` with its keys in one form (``one_form``), case and all else kept; as it is where two would be one."""
    plain = {one_form(key) if isinstance(key, str) else key: value for key, value in table.items()}
    return plain if len(plain) == len(table) else table


def texts_in_one_form(value: object) -> object:
    """A JSON value with its texts and keys in one form (``one_form``), case and all else kept."""
    if isinstance(value, Mapping):
        return keys_in_one_form({key: texts_in_one_form(one) for key, one in value.items()})
    if isinstance(value, list | tuple):
        return [texts_in_one_form(one) for one in value]
    return one_form(value) if isinstance(value, str) else value


def without_case(text: str) -> str:
    """A text in one form (``one_form``) without regard to case: "Straße" and "STRASSE" become equal."""
    return unicodedata.normalize("NFC", text.casefold())


def without_commas(text: str) -> str:
    """``text`` in one form, without regard to case and without commas, in which facts are looked for as they stand."""
    return without_case(one_form(text.translate(_GROUPING)))


def one_case(unit: str) -> str:
    """A unit in lower case, unless its case is what tells it from another one (MW, mW)."""
    return unit if re.fullmatch(_CASED_UNIT, unit) else unit.casefold()


@lru_cache(maxsize=4096)
def _letter(letter: str) -> str:
    category = unicodedata.category(letter)
    if category == "Cf":
        return letter if letter in _JOINERS else ""
    if category == "Nd":
        return str(unicodedata.decimal(letter))
    kind, _, _ = unicodedata.decomposition(letter).partition(" ")
    return unicodedata.normalize("NFKC", letter) if kind in _SAME_LETTER else letter


def _folded(text: str) -> str:
    pieces = _UNIT_OF_NUMBER.split(text)
    folded = (piece if place % 2 else piece.casefold() for place, piece in enumerate(pieces))
    return unicodedata.normalize("NFC", "".join(folded))


def _unwrapped(text: str) -> str:
    """``text`` without the pairs of quotes, markup and brackets that only surround something."""
    for _ in range(_DEEPEST):
        before = text
        for pair in _PAIRS:
            text = pair.sub(lambda found: found[0] if _says_something(found) else found[1], text)
        if text == before:
            break
    return text


def _says_something(found: re.Match[str]) -> bool:
    return found[0][0] in "([" and (not found[1].strip() or _TUPLE.fullmatch(found[1]) is not None)


def _signs(words: list[str]) -> list[str]:
    """Words, with the signs and percent signs of numbers joined to them, and without marks that say nothing."""
    kept = list[str]()
    sign = ""
    for word, then in pairwise([*words, ""]):
        operands = _is_operand(kept[-1] if kept else "") and _is_operand(then)
        if word in ("-", "~", "+") and not operands and _starts_number(then):
            sign = word.strip("+")
        elif word == "%" and kept and kept[-1][-1:].isdigit():
            kept[-1] += word
        elif operands or not _LONE.issuperset(word):
            kept.append(sign + word)
            sign = ""
    return kept


def _is_operand(word: str) -> bool:
    return word[-1:].isdigit() or word[:1].isdigit() or (len(word) == 1 and word.isalnum())


def _starts_number(word: str) -> bool:
    first = word.lstrip("-+$€£¥.(")[:1]
    return bool(first) and (first.isnumeric() or first in "∞√π")


def _word(word: str) -> str:
    """One word without the punctuation that says nothing."""
    if len(word) > _LONGEST:
        return word
    while len(word) > 1 and _says_nothing_first(word):
        word = word[1:]
    while len(word) > 1 and _says_nothing_last(word):
        word = word[:-1]
    word = word.replace(".", "") if _ABBREVIATION.fullmatch(word) else _BARE_DECIMAL.sub("0.", word)
    if word[:1] == "+" and word[1:2].isdigit():
        word = word[1:]
    return _HYPHENATED.sub(_written_together, word)


def _written_together(found: re.Match[str]) -> str:
    """Without what stands between its letters, unless all of them are single: x-y is not xy."""
    parts = re.split(r"[^\w]", found[0])
    return found[0] if all(len(part) == 1 for part in parts) else "".join(parts)


def _says_nothing_first(word: str) -> bool:
    if word[0] == ".":
        return word[1:2] == "" or word.startswith("...")
    return word[0] in _EDGES or word[0] == "'" or (word[0] == "!" and not word[1:2].isalnum())


def _says_nothing_last(word: str) -> bool:
    sign, before = word[-1], word[:-1]
    short = before[-1:].isdigit() or (len(before) == 1 and before.isalnum())
    if sign in "'\"":
        return not (short or before[-1:] in ("'", '"'))
    if sign == "!":
        before = before.rstrip("!?")
        return not (before[-1:].isdigit() or before[-1:] == ")" or len(before) == 1)
    if sign == "-":
        return not (short or (0 < len(before) <= 2 and before.isalpha()) or before[-1:] in ("-", "+"))
    if sign in "+#":
        return not before.rstrip("+#")[-1:].isalnum()
    return sign in _EDGES or sign == "."


def _without_articles(words: list[str]) -> list[str]:
    kept = [word for word in words[:-1] if word not in ("an", "the")] + words[-1:]
    first = len(kept) > 1 and kept[0] == "a" and kept[1][:2].isalpha() and len(kept[1]) > 1 and kept[1] not in _JOINS
    return kept[1:] if first else kept
