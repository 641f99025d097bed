"""A slide, as ``turngate/Web-v1`` plays it: written as HTML, drawn in the episode's browser, measured as drawn."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator

from turngate.envs.web.engine.browser_session import BrowserSession
from turngate.envs.web.engine.page_problems import PageProblem
from turngate.envs.web.engine.view import Box
from turngate.envs.web.generated.slides.brief import LARGE_PX, LEAST_CONTRAST, PRIVATE_KEY, SMALLEST_PX, SlideBrief
from turngate.envs.web.generated.slides.hints import slide_hint
from turngate.envs.web.generated.slides.measuring import measure_slide
from turngate.envs.web.generated.slides.slide_grade import SlideGrade, graded
from turngate.envs.web.generated.slides.slide_site import HOST, START_URL, SlideSite
from turngate.envs.web.scenario import Hands
from turngate.types import Evidence, Task

MOST_CHARS = 20_000


class SlideScenario:
    """See ``WebScenario``. The last slide counts."""

    goal = (
        "Write a slide as one HTML document; you see how it is drawn, may write it anew, and then answer \"done\". The "
        "slide is the window. It holds the texts of the task and no others, all in view, none over another, at least "
        f"{SMALLEST_PX} px large, with a contrast of {LEAST_CONTRAST} (from {LARGE_PX} px on "
        f"{LEAST_CONTRAST / 1.5:g}). Styles stand in the document; there are no scripts, images, links or drawings."
    )  # fmt: skip
    allowed: frozenset[str] = frozenset()
    ended = False

    def __init__(self, task: Task) -> None:
        self._prompt = task.prompt
        self._brief = SlideBrief.model_validate_json(task.private[PRIVATE_KEY])
        self._site = SlideSite()
        self.sites = {HOST: self._site}
        self._grade: SlideGrade | None = None
        self._new = False

    def begin(self, session: BrowserSession) -> str:
        """Open the empty slide."""
        session.open(START_URL)
        width, height = session.observe().viewport
        return f"{self._prompt}\nThe window is {width} px wide and {height} px high."

    def write(self, session: BrowserSession, text: str) -> str:
        """Draw the document in place of the slide, and name the faults of its layout.

        Raises PageProblem for a document that is not drawn, and AgentFault for one that breaks the page.
        """
        if len(text) > MOST_CHARS:
            raise PageProblem(f"the document has {len(text)} characters; a slide has {MOST_CHARS} at most")
        if "shadowroot" in text.casefold():  # text in a closed one would be visible but not measurable
            raise PageProblem("a slide has no shadow roots")
        self._site.html = text
        self._grade, self._new = None, True
        session.goto(START_URL)
        self._grade = graded(measure_slide(session), self._brief)
        faults = self._grade.faults
        return f"layout: {'; '.join(faults)}" if faults else "layout: no faults"

    def after_turn(self, session: BrowserSession) -> Iterable[Evidence]:
        """The measurements, in turns in which a slide was written."""
        if self._new and self._grade is not None:
            yield from facts_of(self._grade)
        self._new = False

    def target(self, session: BrowserSession) -> Box | None:
        """None: nothing has to be clicked."""
        return None

    def state(self) -> str:
        """The document as it was written, of which the page shows only a part."""
        return self._site.html

    def at_end(self, session: BrowserSession, answer: str | None) -> Iterable[Evidence]:
        """By the slide that was written last; without one there is nothing on it."""
        grade = self._grade
        yield Evidence(name="solved", value=grade is not None and grade.solved)
        yield Evidence(name="goal_share", value=0.0 if grade is None else round(grade.share, 4))
        yield Evidence(name="content_at_end", value=0.0 if grade is None else round(grade.content, 4))
        yield Evidence(name="layout_at_end", value=0.0 if grade is None else round(grade.layout or 0.0, 4))

    def oracle(self, hands: Hands) -> Iterator[str]:
        """A plain document that keeps all limits."""
        yield f"write {document(self._brief)}"
        yield "answer done"

    def hint(self, level: int, first_page: Callable[[], BrowserSession]) -> str | None:
        return slide_hint(self._brief, level)

    def close(self) -> None:
        """Nothing is held."""


def facts_of(grade: SlideGrade) -> Iterator[Evidence]:
    """The facts of a slide that was written; none of what could not be measured."""
    measures = {
        "slide_overflow_px": grade.overflow_px,
        "slide_overlap": grade.overlap,
        "slide_contrast": grade.contrast,
        "slide_smallest_px": grade.smallest_px,
        "slide_layout": grade.layout,
    }
    yield from (Evidence(name=name, value=value) for name, value in measures.items() if value is not None)
    yield Evidence(name="slide_content", value=round(grade.content, 4))
    yield Evidence(name="slide_invented", value=grade.invented)
    yield Evidence(name="slide_wishes", value=round(grade.wishes, 4))


def document(brief: SlideBrief) -> str:
    """A slide that says what the brief asks for, on one line."""
    text = html.escape
    light = not brief.background or sum(int(brief.background[at : at + 2], 16) for at in (1, 3, 5)) > 384
    ink = "#111111" if light else "#ffffff"
    style = (
        f"body{{margin:0;padding:28px 44px;background:{brief.background or '#ffffff'};color:{ink};"
        f"font:20px/1.4 sans-serif}}h1{{margin:0 0 12px;font-size:36px;line-height:1.3;"
        f"color:{brief.title_colour or ink}}}ul{{margin:0 0 12px;padding-left:26px}}table{{border-collapse:collapse}}"
        f"td,th{{padding:4px 18px;border:1px solid {ink};text-align:left}}"
    )
    points = "".join(f"<li>{text(fact)}</li>" for fact in brief.facts)
    rows = "".join(
        f"<tr>{''.join(f'<{tag}>{text(cell)}</{tag}>' for cell in row)}</tr>"
        for row, tag in zip(brief.table, ["th", *["td"] * len(brief.table)], strict=False)
    )
    table = f"<table>{rows}</table>" if rows else ""
    return (
        f"<!doctype html><html><head><style>{style}</style></head><body><h1>{text(brief.title)}</h1><ul>{points}</ul>"
        f"{table}</body></html>"
    )
