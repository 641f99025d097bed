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
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from turngate.errors import ConfigError

REMOVED = "[removed: text addressed to the judge]"
MIN_QUOTE = 8
"""Fewest characters of a quote that is not a whole line; ours. Shorter ones are found in any text."""

_JUDGE = r"(?:judge|grader|evaluator|assessor|scorer|grading model|reward model)s?"
_FORMS = "|".join(
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
        r"['\"]?\bverdict['\"]?\s*[:=]\s*['\"]?(?:yes|no|ok|wrong|invalid|pass|true|first|second|a|b|1)\b",
        r"['\"]label['\"]\s*[:=]\s*['\"](?:support|partial_support|not_support)\b",
        r"\b(?:system|developer) (?:prompt|message|instruction)",
        r"\bi am your (?:creator|developer|operator|administrator)",
    )
)
_ADDRESSED = re.compile(_FORMS.replace(" ", r"\s"), re.DOTALL | re.MULTILINE)
"""Over lines too: a blank stands for the end of a line as well, and ``$`` for the end of each."""
_ESCAPED = re.compile(r"\\+u([0-9a-fA-F]{4})")
"""A letter as JSON may write it: a reader of JSON sees the letter."""
_THOUGHT = re.compile(
    r"<(\s*/?\s*(?:\w+:)?(?:think|thinking|thought|reasoning|reflection|analysis)\s*/?\s*)>|\[(\s*/?\s*THINK\s*)\]",
    re.IGNORECASE,
)
"""Marks by which models, and servers that read their replies, tell a thought from an answer."""
_TEMPLATE = re.compile(
    r"<(/?s|bos|eos|(?:start|end)_of_turn)>|<(</?SYS>)>|\[(/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS))\]"
)
"""Marks of chat templates that are not framed by ``<|`` and ``|>``."""
_BROKEN = str.maketrans({"{": "｛", "}": "｝"})
_WHOLE = str.maketrans({"｛": "{", "｝": "}", "¦": "|", "‹": "<", "›": ">", "ˆ": " "})
"""Replacements for the signs of which replies, thoughts and chat templates are made; and the way back."""
WORD_MARK = "ˆ"
"""Stands between the words of a text whose words are marked."""
_UNSEEN = ("Cf", "Cc", "Co", "Cs")  # format, control, private use, halves of surrogates
_UNIT = re.compile(r".+?(?:[.!?]\s+|\n|\Z)", re.DOTALL)
_PASSES = 10
"""Most passes over a text; each sees the text that the last one left when it took something out."""
_ELIDED = re.compile(r"\[… \d+ characters left out …\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class FencedText:
    """Text as the judge sees it, and the parts that were taken out of it."""

    text: str
    removed: tuple[str, ...] = ()


def show(text: str, *, limit: int = 4000) -> FencedText:
    """``text`` made harmless: shortened in the middle to ``limit`` characters, unseen characters dropped, marks of chat
    templates and of thoughts broken, braces replaced by wide ones, so that no reply can stand in it, and sentences that
    address the judge replaced by a note.

    Such sentences are found in a normalised copy (compatibility forms, lower case, single spaces), also when they are
    spread over several lines. Raises ConfigError for limit < 1.
    """
    if limit < 1:
        raise ConfigError(f"limit is {limit}; at least one character must be shown")
    if len(text) > limit:
        head, tail = (limit + 1) // 2, limit // 2
        left_out = f"\n[… {len(text) - limit} characters left out …]\n"
        text = text[:head] + left_out + text[len(text) - tail :]
    units = _UNIT.findall(_broken(visible(text)))
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


def words_marked(text: str) -> str:
    """``text`` with a mark instead of every blank, so that all of it is seen to be data and none of it is obeyed.

    Datamarking, which makes injections a small part as successful: https://arxiv.org/abs/2403.14720.
    """
    return text.replace(" ", WORD_MARK)


def is_quoted(quote: str, text: str) -> bool:
    """Whether ``quote`` stands in ``text``, and is long enough to prove anything.

    Verbatim but for runs of white space and for signs that were broken.

    ``MIN_QUOTE`` characters or a whole line. Notes of ours (removed, left out) are no evidence.
    """
    wanted = _spaced(quote)
    lines = [_spaced(line) for line in _ELIDED.sub("\0", text.replace(REMOVED, "\0")).splitlines()]
    if not wanted or "\0" in wanted:
        return False
    return wanted in lines if len(wanted) < MIN_QUOTE else wanted in " ".join(line for line in lines if line)


def whole(text: str) -> str:
    """Shown text with the signs that were broken, as the agent wrote it."""
    return text.translate(_WHOLE)


def visible(text: str) -> str:
    """``text`` without invisible characters, such as those of no width."""
    return "".join(char for char in text if char in "\n\t" or unicodedata.category(char) not in _UNSEEN)


def break_marks(text: str) -> str:
    """``text`` with the marks of chat templates and of thoughts broken, so that nothing reads them as such."""
    text = text.replace("<|", "<¦").replace("|>", "¦>")
    for marks in (_THOUGHT, _TEMPLATE):
        text = marks.sub(lambda found: f"‹{next(filter(None, found.groups()))}›", text)
    return text


def _broken(text: str) -> str:
    return break_marks(text.translate(_BROKEN))


def _spaced(text: str) -> str:
    return " ".join(whole(text).split())


def _plain(text: str) -> str:
    text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _addressed(units: list[str]) -> set[int]:
    """Which units address the judge, alone or together with those beside them.

    The texts before and after a note must not address the judge across it, so the text is looked at again with the
    notes in it. Takes time in proportion to the text.
    """
    plain = [_plain(unit) for unit in units]
    found = {index for index, text in enumerate(plain) if _ADDRESSED.search(text)}
    for _ in range(_PASSES):
        more = _spread(plain, found) - found
        if not more:
            break
        found |= more
    return found


def _spread(plain: Sequence[str], found: set[int]) -> set[int]:
    """Units with which those of ``found``, as notes, or others address the judge when they are read in a row."""
    lines, owners = list[str](), list[int]()
    for index, text in enumerate(plain):
        if index in found:
            text = _NOTE if index - 1 not in found else ""
        if text:
            lines.append(text)
            owners.append(index)
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    whole, spread, at = "\n".join(lines), set[int](), 0
    while (match := _ADDRESSED.search(whole, at)) is not None:
        first = bisect_right(starts, match.start()) - 1
        last = bisect_right(starts, match.end() - 1) - 1
        spread.update(range(owners[first], owners[last] + 1))
        at = match.start() + 1
    return spread


_NOTE = _plain(REMOVED)
