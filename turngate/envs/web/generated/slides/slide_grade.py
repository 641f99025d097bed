"""What a measured slide is worth: which of its texts a reader sees, which faults it has, and what it lacks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from turngate.envs.web.generated.slides.brief import LARGE_PX, LEAST_CONTRAST, SMALLEST_PX, SlideBrief
from turngate.envs.web.generated.slides.measuring import SlideMeasure, Word

OUTSIDE_PX = 2.0
"""A text may stand out of the slide by so much: letters are a little wider than their boxes."""
OVERLAP = 0.1
"""Largest share of the smaller of two words on which the other one may lie."""
LEAST_INK = 0.05
"""Of a word that is seen at least so much of its rectangles is coloured: of letters it is about a fifth."""
LEGIBLE_PX, LEGIBLE_CONTRAST, LEGIBLE_OVERLAP = 12.0, 3.0, 0.3
"""Beyond these a word does not count as written. Between them and the limits of a slide it is a fault of layout."""
_TRIMMED = 0.2
"""So much of a line's height is left out above and below, where neighbouring lines may meet without touching."""
_SAME_GROUND, _SAME_INK = 6, 48
"""By how much each of red, green and blue may differ. A thin letter is paler than its colour."""
_TOKEN = re.compile(r"[^\W_]+(?:[.,'’-][^\W_]+)*|[%€$+−-](?=\d)|(?<=\d)[%€]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlideGrade:
    """``overflow_px``: by how much a text leaves the slide, or content its box. ``overlap``: largest share of a word on
    which another one lies. ``contrast``: lowest WCAG ratio of a word, that of large text times 1.5. ``smallest_px``:
    the smallest text. The last two are None where no text is seen, and all four where nothing could be measured.
    ``content``: share of the required texts that a reader sees. ``invented``: seen words that are not asked for.
    ``wishes``: share of what else is asked for, colours and sizes, that is right. ``layout``: share of the limits that
    are kept; None where nothing could be measured. ``faults``: in words, for the agent."""

    overflow_px: float | None
    overlap: float | None
    contrast: float | None
    smallest_px: float | None
    content: float
    invented: int
    wishes: float
    layout: float | None
    faults: tuple[str, ...]

    @property
    def share(self) -> float:
        """Of what the task asks for: content, and of it what layout, wishes and truth leave."""
        return self.content * ((self.layout or 0.0) + self.wishes + (self.invented == 0)) / 3

    @property
    def solved(self) -> bool:
        """Whether all is there, nothing else, and no limit is passed."""
        return self.content == 1.0 and self.invented == 0 and self.wishes == 1.0 and self.layout == 1.0


def tokens(text: str) -> list[str]:
    """The words and numbers of a text, without case, marks and white space."""
    return _TOKEN.findall(text.casefold())


def graded(measure: SlideMeasure, brief: SlideBrief) -> SlideGrade:
    """The grade of a slide."""
    if measure.foreign:
        names = ", ".join(f"<{name}>" for name in sorted(set(measure.foreign)))
        return _unmeasured(f"a slide has no {names}; nothing is measured as long as it is there")
    if measure.moving or measure.cut:
        return _unmeasured("the slide moves" if measure.moving else "there are too many words on the slide")
    words = measure.words
    overlaps = overlap_of(words)
    seen = [word.ink >= LEAST_INK for word in words]
    legible = [
        is_seen and not word.odd and word.size >= LEGIBLE_PX and _contrast(word) >= LEGIBLE_CONTRAST
        and overlap <= LEGIBLE_OVERLAP and _outside(word, measure.size) <= OUTSIDE_PX
        for word, is_seen, overlap in zip(words, seen, overlaps, strict=True)
    ]  # fmt: skip
    shown = [word for word, is_seen in zip(words, seen, strict=True) if is_seen and tokens(word.text)]
    overflow = max([measure.outgrown_px, *(_outside(word, measure.size) for word in words)], default=0.0)
    contrast = min((_contrast(word) for word in shown), default=None)
    smallest = min((word.size for word in shown), default=None)
    overlap = max(overlaps, default=0.0)
    unseen = sum(bool(tokens(word.text)) and not is_seen for word, is_seen in zip(words, seen, strict=True))
    limits = {
        f"content is {overflow:.0f} px larger than the slide or its box": overflow <= OUTSIDE_PX,
        f"texts overlap by {100 * overlap:.0f} % of the smaller one": overlap <= OVERLAP,
        f"the lowest contrast is {contrast or 1:.1f}": contrast is not None and contrast >= LEAST_CONTRAST,
        f"the smallest text has {smallest or 0:.0f} px": smallest is not None and smallest >= SMALLEST_PX,
        f"{unseen} words cannot be seen": not unseen,
        "letters are turned, mirrored or squeezed": not any(word.odd for word in words),
    }
    return SlideGrade(
        overflow_px=round(overflow, 1),
        overlap=round(overlap, 3),
        contrast=None if contrast is None else round(contrast, 2),
        smallest_px=smallest,
        content=_content(measure, brief, legible),
        invented=_invented(shown, brief),
        wishes=_wishes(measure, brief, legible),
        layout=sum(limits.values()) / len(limits),
        faults=tuple(said for said, kept in limits.items() if not kept),
    )


def _unmeasured(why: str) -> SlideGrade:
    return SlideGrade(
        overflow_px=None, overlap=None, contrast=None, smallest_px=None, content=0.0, invented=0, wishes=0.0,
        layout=None, faults=(why,),
    )  # fmt: skip


def overlap_of(words: Sequence[Word]) -> list[float]:
    """Of each word, the largest share on which another word lies: of the smaller of two rectangles."""
    rows = [(number, *rect) for number, word in enumerate(words) for rect in word.rects]
    if not rows:
        return [0.0] * len(words)
    owner_R, x_R, y_R, width_R, height_R = np.array(rows, dtype=np.float64).T
    y_R, height_R = y_R + _TRIMMED * height_R, (1 - 2 * _TRIMMED) * height_R
    wide_RR = np.minimum.outer(x_R + width_R, x_R + width_R) - np.maximum.outer(x_R, x_R)
    high_RR = np.minimum.outer(y_R + height_R, y_R + height_R) - np.maximum.outer(y_R, y_R)
    shared_RR = np.clip(wide_RR, 0, None) * np.clip(high_RR, 0, None)
    area_R = width_R * height_R
    share_RR = shared_RR / np.minimum.outer(area_R, area_R)
    share_RR[owner_R[:, None] == owner_R[None, :]] = 0.0
    worst = [0.0] * len(words)
    for number, share in zip(owner_R.astype(int), share_RR.max(axis=1), strict=True):
        worst[number] = max(worst[number], float(share))
    return worst


def _contrast(word: Word) -> float:
    return word.contrast * (1.5 if word.size >= LARGE_PX else 1.0)


def _outside(word: Word, size: tuple[int, int]) -> float:
    """By how much the word stands out of the slide."""
    return max(
        (max(-x, -y, x + width - size[0], y + height - size[1]) for x, y, width, height in word.rects), default=0.0
    )


def _content(measure: SlideMeasure, brief: SlideBrief, legible: Sequence[bool]) -> float:
    """The share of title, points and rows of the table that are there, each word of them legible and in order."""
    read = [one for word, is_legible in zip(measure.words, legible, strict=True) if is_legible
            for one in tokens(word.text)]  # fmt: skip
    right = [_is_in(tokens(text), read) for text in (brief.title, *brief.facts)]
    if brief.table:
        grids = [_grid(measure, table, legible) for table in measure.tables]
        wanted = [[tokens(cell) for cell in row] for row in brief.table]
        fits = [[number < len(grid) and grid[number] == row for number, row in enumerate(wanted)] for grid in grids]
        right += max(fits, key=sum, default=[False] * len(wanted))
    return sum(right) / len(right)


def _grid(
    measure: SlideMeasure, table: Sequence[Sequence[Sequence[int]]], legible: Sequence[bool]
) -> list[list[list[str]]]:
    return [
        [[one for number in cell if legible[number] for one in tokens(measure.words[number].text)] for cell in row]
        for row in table
    ]


def _is_in(wanted: Sequence[str], read: Sequence[str]) -> bool:
    return _place_of(wanted, read) is not None


def _place_of(wanted: Sequence[str], read: Sequence[str]) -> int | None:
    size = len(wanted)
    return next((at for at in range(len(read) - size + 1) if list(read[at : at + size]) == list(wanted)), None)


def _invented(shown: Sequence[Word], brief: SlideBrief) -> int:
    """How many words are seen that the instruction does not give, or more often than it gives them."""
    given = Counter(one for text in brief.texts for one in tokens(text))
    seen = Counter(one for word in shown for one in tokens(word.text))
    return (seen - given).total()


def _wishes(measure: SlideMeasure, brief: SlideBrief, legible: Sequence[bool]) -> float:
    """The share of the wishes that are met; 1 where there are none."""
    title, others = _title(measure, brief, legible)
    met = list[bool]()
    if brief.background:
        met.append(measure.ground is not None and _near(measure.ground, brief.background, _SAME_GROUND))
    if brief.title_colour:
        met.append(
            bool(title)
            and all(word.colour is not None and _near(word.colour, brief.title_colour, _SAME_INK) for word in title)
        )
    if brief.title_largest:
        met.append(bool(title) and min(word.size for word in title) > max((word.size for word in others), default=0))
    return sum(met) / len(met) if met else 1.0


def _title(measure: SlideMeasure, brief: SlideBrief, legible: Sequence[bool]) -> tuple[list[Word], list[Word]]:
    """The words of the title, and the others."""
    words = [word for word, is_legible in zip(measure.words, legible, strict=True) if is_legible]
    owners = [number for number, word in enumerate(words) for _ in tokens(word.text)]
    read = [one for word in words for one in tokens(word.text)]
    wanted = tokens(brief.title)
    at = _place_of(wanted, read)
    chosen = set() if at is None else set(owners[at : at + len(wanted)])
    return [word for number, word in enumerate(words) if number in chosen], [
        word for number, word in enumerate(words) if number not in chosen
    ]


def _near(colour: tuple[int, int, int], wanted: str, most: int) -> bool:
    return all(
        abs(have - int(wanted[at : at + 2], 16)) <= most for have, at in zip(colour, (1, 3, 5), strict=True)
    )  # fmt: skip
