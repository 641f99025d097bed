"""Shows judged text to a judge as data: between marks that the text cannot contain, without sentences that address the
judge.

No list of phrases is complete, so this is only one of several guards: the marks tell the judge where data ends, quotes
tie a verdict to the transcript, canaries measure whether the judge can be fooled, and rules settle clear cases without
it.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from turngate.errors import ConfigError

REMOVED = "[removed: text addressed to the judge]"
MIN_QUOTE = 8
"""Fewest characters of a quote that is not a whole line; ours. Shorter ones are found in any text."""

_JUDGE = r"(?:judge|grader|evaluator|assessor|scorer|grading model|reward model)s?"
_ADDRESSED = re.compile(
    "|".join(
        (
            r"\b(?:ignore|disregard|forget|override|bypass)\b.{0,60}\b(?:instruction|prompt|rubric|criteri|guideline"
            r"|(?:all|any|your|these|the above|previous|grading) rules\b"
            r"|(?:everything|anything|all|text|said)\b.{0,20}\b(?:above|before|previous|prior)\b)",
            rf"\b(?:you are|you're|act as|pretend to be|as an?|as the)\b.{{0,40}}\b{_JUDGE}\b",
            rf"\b(?:dear|attention|hey|hello|(?:note|message|instructions?) (?:to|for))[ ,:]{{1,3}}(?:the )?{_JUDGE}\b",
            rf"\b(?:the )?{_JUDGE} (?:must|should|shall|has to|needs to|will)\b",
            r"\b(?:give|assign|award|grant|grade|rate|mark|score)\b.{0,40}\b(?:full|maximum|max|perfect|highest|top"
            r"|passing)\b(?: possible)? (?:score|grade|mark|rating|point|credit)s?\b"
            r"(?! (?:of|for|per|in|by|from|among|history|card|limit)\b)",
            r"\b(?:output|reply|respond)(?: only| just| exactly| with| the (?:number|word|score))*[ :]+['\"]?"
            r"(?:1|10|yes|true|pass|correct)['\"]?\s*[.!]?$",
            r"\b(?:answer|response|solution|submission) (?:should|must|has to) be "
            r"(?:graded|scored|marked|judged|accepted|rated)\b",
            r"['\"]?\bverdict['\"]?\s*[:=]\s*['\"]?(?:yes|no|ok|pass|true|first|second|a|b|1)\b",
            r"\b(?:system|developer) (?:prompt|message|instruction)",
            r"\bi am your (?:creator|developer|operator|administrator)",
        )
    )
)
_UNSEEN = ("Cf", "Cc", "Co", "Cs")  # format, control, private use, halves of surrogates
_UNIT = re.compile(r".+?(?:[.!?]\s+|\n|\Z)", re.DOTALL)
_WINDOW = 200  # characters within which an instruction that is spread over short lines is still seen
_ELIDED = re.compile(r"\[… \d+ characters left out …\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class FencedText:
    """Text as the judge sees it, and what was taken out of it."""

    text: str
    removed: tuple[str, ...] = ()


def show(text: str, *, limit: int = 4000) -> FencedText:
    """``text`` made harmless: shortened in the middle to ``limit`` characters, unseen characters dropped, marks of chat
    templates broken, sentences that address the judge replaced by a note.

    Such sentences are found in a normalised copy (compatibility forms, lower case, single spaces), also when they are
    spread over several lines. Raises ConfigError for limit < 1.
    """
    if limit < 1:
        raise ConfigError(f"limit is {limit}; at least one character must be shown")
    if len(text) > limit:
        head, tail = (limit + 1) // 2, limit // 2
        left_out = f"\n[… {len(text) - limit} characters left out …]\n"
        text = text[:head] + left_out + text[len(text) - tail :]
    kept = "".join(char for char in text if char in "\n\t" or unicodedata.category(char) not in _UNSEEN)
    units = _UNIT.findall(kept.replace("<|", "<¦").replace("|>", "¦>"))
    addressed = _addressed(units)
    parts: list[str] = []
    for index, unit in enumerate(units):
        if index not in addressed:
            parts.append(unit)
        elif index + 1 not in addressed:
            parts.append(REMOVED + unit[len(unit.rstrip()) :])
    return FencedText(text="".join(parts), removed=tuple(units[index].strip() for index in sorted(addressed)))


def addresses_judge(text: str) -> bool:
    """Whether ``text`` contains something addressed to a judge, which the monitor ``judge_addressed`` counts."""
    return bool(show(text, limit=max(len(text), 1)).removed)


def fence_mark(texts: Iterable[str]) -> str:
    """A mark for the fence around ``texts``: a hash of them, so none of them can contain it on purpose.

    It depends on nothing else, so the same question has the same prompt and is found in the cache.
    """
    digest = hashlib.blake2b(digest_size=8)
    for text in texts:
        digest.update(hashlib.blake2b(text.encode(errors="surrogatepass")).digest())
    return digest.hexdigest()


def fenced(label: str, text: str, mark: str) -> str:
    """``text`` between two lines that carry the mark."""
    return f"BEGIN {mark} {label}\n{text}\nEND {mark} {label}"


def is_quoted(quote: str, text: str) -> bool:
    """Whether ``quote`` stands in ``text``: verbatim but for runs of white space, and long enough to prove anything.

    ``MIN_QUOTE`` characters or a whole line. Notes of ours (removed, left out) are no evidence.
    """
    wanted = _spaced(quote)
    lines = [_spaced(line) for line in _ELIDED.sub("\0", text.replace(REMOVED, "\0")).splitlines()]
    if not wanted or "\0" in wanted:
        return False
    return wanted in lines if len(wanted) < MIN_QUOTE else wanted in " ".join(line for line in lines if line)


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _plain(text: str) -> str:
    return _spaced(unicodedata.normalize("NFKC", text).casefold())


def _addressed(units: list[str]) -> set[int]:
    """Which units address the judge, alone or together with those that follow."""
    plain = [_plain(unit) for unit in units]
    found = {index for index, text in enumerate(plain) if _ADDRESSED.search(text)}
    for start in reversed(range(len(plain))):  # backwards, so that a window holds no harmless unit in front
        window, end = plain[start], start
        while start not in found and len(window) < _WINDOW and end + 1 < len(plain):
            end += 1
            if end not in found:
                window = f"{window} {plain[end]}"
            elif end - 1 not in found:  # what stands before and after a note must not address the judge across it
                window = f"{window} {_NOTE}"
            if _ADDRESSED.search(window):
                found.update(range(start, end + 1))
    return found


_NOTE = _plain(REMOVED)
