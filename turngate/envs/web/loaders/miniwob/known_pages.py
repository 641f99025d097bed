"""Facts about each page of the wheel: the raw reward of right and wrong answers, and which pages need screenshots.

Found by reading the calls of ``endEpisode`` in each page, and by playing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from turngate.envs.web.loaders.miniwob.miniwob_site import html_folder
from turngate.envs.web.loaders.miniwob.oracles import ORACLES
from turngate.envs.web.loaders.miniwob.reward import is_right
from turngate.errors import UnknownName

NO_ORACLE: dict[str, str] = {
    "chase-circle": "the circle moves on while the player looks",
    "click-pie-nodelay": "its first piece takes no click",
    "count-sides": "drawn on a canvas",
    "daily-calendar": "its rows lie an hour below their labels where a font is a little wider than Arial",
    "drag-items-grid": "where the others go while one is dragged over several rows was not worked out",
    "drag-cube": "how far the cube turns depends on the frames that are drawn",
    "email-inbox-forward-nl": "the question is worded freely",
    "email-inbox-forward-nl-turk": "the question is worded freely",
    "email-inbox-nl-turk": "the question is worded freely",
    "hover-shape": "never ends",
    "moving-items": "the circles move on while the player looks",
    "tic-tac-toe": "the other player can force a draw",
}
"""Pages that no oracle plays, and why."""

CLOSE = 0.9
"""Raw reward from which an answer counts as right where the reward says how near it is: about three pixels, or five
degrees."""

FULL: dict[str, float] = {
    **dict.fromkeys(("bisect-angle", "circle-center", "find-midpoint", "right-angle"), CLOSE),
    **dict.fromkeys(("chase-circle", "draw-circle", "draw-line", "use-colorwheel", "use-colorwheel-2"), CLOSE),
    "moving-items": 0.8,
}
"""The raw reward of a right answer where it is not 1. moving-items: nine of ten circles."""

PAID_WRONG: dict[str, str] = {
    "ascending-numbers": "a wrong number after n right ones: n / 5",
    "bisect-angle": "an uneven halving: the smaller part's share of half the angle",
    "button-delay": "a pause that is 15 to 65 % off: .6 or .35",
    "chase-circle": "the share of the time inside",
    "circle-center": "how near the centre, within the circle",
    "click-checkboxes": "the right boxes less the wrong ones, as a share",
    "click-checkboxes-large": "the right boxes less the wrong ones, as a share",
    "click-checkboxes-soft": "the right boxes less the wrong ones, as a share",
    "click-checkboxes-transfer": "the right boxes less the wrong ones, as a share",
    "drag-shapes-2": "1.3 for a shape in its box less 1 for one that is not, of five, at most 1: four of five get .84",
    "draw-circle": "a small or uneven circle: .05 to .7",
    "draw-line": "a line that is askew, short or off the dot: .01 to .8",
    "find-greatest": "any card: .1",
    "find-midpoint": "how near the middle, within 30 pixels",
    "form-sequence-2": "any radio button passes, if the number is right: 1",
    "hot-cold": "warm .5, cold .25",
    "moving-items": "a fifth for each circle, less 1",
    "odd-or-even": "two of three numbers: .33",
    "phone-book": "another property of the right person: .4",
    "right-angle": "an angle between 45 and 135 degrees: .5 to 1",
    "use-colorwheel": "how near the colour is: black for white 0",
    "use-colorwheel-2": "how near the colour is: black for white 0",
}
"""Pages in which a wrong answer can have a positive raw reward, and which. Below the full one it counts as a failure.
The script of form-sequence-2 gives some wrong answers the full one, so that they pass."""

EYES = frozenset(
    "bisect-angle chase-circle circle-center click-color click-shades click-shape count-shape count-sides drag-circle "
    "drag-cube drag-shapes drag-shapes-2 drag-single-shape draw-circle draw-line find-midpoint hot-cold hover-shape "
    "identify-shape moving-items number-checkboxes right-angle simon-says use-colorwheel-2 visual-addition".split()
)
"""Pages whose relevant content has no name in the accessibility tree: canvas, drawing, colour or picture."""

TWO_HALVES = frozenset(
    "click-checkboxes-transfer click-test-transfer email-inbox-forward-nl email-inbox-forward-nl-turk "
    "email-inbox-nl-turk".split()
)
"""Pages that ask other questions when they are loaded in mode "test"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFacts:
    """Facts about a page.

    ``no_oracle``: why no oracle plays it, "" if one does. ``needs_eyes``: whether only a screenshot shows the relevant
    content. ``full``: the raw reward from which an answer is right. ``paid_wrong``: which wrong answers have a positive
    raw reward, "" if none. ``two_halves``: whether it has a mode "test".
    """

    name: str
    no_oracle: str
    needs_eyes: bool
    full: float
    paid_wrong: str
    two_halves: bool

    @property
    def has_oracle(self) -> bool:
        """Whether an oracle plays it."""
        return not self.no_oracle

    def is_right(self, raw: float | None) -> bool:
        """Whether a raw reward is that of a right answer; None: the page has not ended."""
        return is_right(raw, self.full)


@cache
def all_pages() -> dict[str, PageFacts]:
    """The pages of the wheel that is installed, by name. Raises MissingExtra without it."""
    names = sorted(file.stem for file in (html_folder() / "miniwob").glob("*.html"))
    return {
        name: PageFacts(
            name=name,
            no_oracle="" if name in ORACLES else NO_ORACLE.get(name, "not known"),
            needs_eyes=name in EYES,
            full=FULL.get(name, 1.0),
            paid_wrong=PAID_WRONG.get(name, ""),
            two_halves=name in TWO_HALVES,
        )
        for name in names
    }


def page_of(name: str) -> PageFacts:
    """The facts of a page. Raises UnknownName, and MissingExtra without the wheel."""
    pages = all_pages()
    if name not in pages:
        raise UnknownName("MiniWoB page", name, pages)
    return pages[name]
