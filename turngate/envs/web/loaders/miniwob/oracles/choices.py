"""Pages in which boxes, lists, cards or buttons are chosen, mostly before a submit."""

from __future__ import annotations

import re
from collections.abc import Iterator

from turngate.envs.web.loaders.miniwob.oracles.clicking import question_part
from turngate.envs.web.loaders.miniwob.oracles.words import DIGITS, SIMILAR
from turngate.envs.web.loaders.miniwob.page_steps import (
    Look,
    NoAnswer,
    Oracle,
    PageStep,
    choose_labels,
    click,
    fill_field,
    nth_with,
    texts,
    ticked,
    utterance,
    wait,
)

SELECT = re.compile(r"Select (.*?) (?:from|and click)")


def click_checkboxes(look: Look) -> Iterator[PageStep]:
    """Tick the boxes that are named."""
    names = question_part(look, SELECT)
    labels = texts(look, "#area label")
    wanted = set() if names == "nothing" else {nth_with(labels, name) for name in names.split(", ")}
    yield from ticked(look, "#area input[type=checkbox]", wanted)
    yield click("#subbtn")


def click_checkboxes_soft(look: Look) -> Iterator[PageStep]:
    """Tick the boxes whose word means the same as one that is named."""
    names = set(question_part(look, re.compile(r"similar to (.*) and click")).split(", "))
    groups = [group for group in SIMILAR if group & names]
    labels = texts(look, "#area label")
    wanted = {nth for nth, label in enumerate(labels) if any(label in group for group in groups)}
    yield from ticked(look, "#area input[type=checkbox]", wanted)
    yield click("#subbtn")


def click_option(look: Look) -> Iterator[PageStep]:
    """Choose one radio button."""
    nth = nth_with(texts(look, "#area label"), question_part(look, SELECT))
    if not look.js(f"document.querySelectorAll('#area input')[{nth}].checked"):
        yield click("#area input", nth)
    yield click("#subbtn")


def choose_list(look: Look) -> Iterator[PageStep]:
    """Choose one or several of a list."""
    asks = question_part(look, SELECT)
    options = texts(look, "#options option")
    names = [asks] if asks in options else asks.split(", ")
    yield from choose_labels(look, "#options", *(options[nth_with(options, name)] for name in names))
    yield click("#area button")


def find_greatest(look: Look) -> Iterator[PageStep]:
    """Open each card to read it, then the greatest again."""
    seen: dict[int, int] = {}
    for nth in range(3):
        yield click(".card", nth)
        seen[nth] = int(texts(look, ".card")[nth])
    greatest = max(seen, key=lambda nth: seen[nth])
    yield click(".card", greatest)
    yield click("#submit")


def odd_or_even(look: Look) -> Iterator[PageStep]:
    """Mark each number."""
    selected = look.js(
        "Array.from(document.querySelectorAll('.row'), row => (row.querySelector('.selected') || {}).textContent)"
    )
    for nth, number in enumerate(texts(look, ".display-number")):
        kind = "odd" if int(number) % 2 else "even"
        if str(selected[nth]).lower() != kind:
            yield click(f".row .{kind}", nth)
    yield click("#submit")


def generate_number(look: Look) -> Iterator[PageStep]:
    """Generate until the number fits."""
    question = utterance(look)
    limit = re.search(r"(less|greater) than (\d+)", question)
    odd = "odd" in question

    def fits(shown: str) -> bool:
        if shown == "-":
            return False
        number = int(shown)
        if limit is None:
            return number % 2 == odd
        bound = int(limit.group(2))
        return number < bound if limit.group(1) == "less" else number > bound

    while not fits(texts(look, "#display-number")[0]):
        yield click("#generate")
    yield click("#submit")


def guess_number(look: Look) -> Iterator[PageStep]:
    """Halve the remaining range by the page's answer to the last guess."""
    low, high = 0, 9
    while low <= high:
        said = look.js("document.querySelector('#feedback > div:not(.hide)').textContent")
        if found := re.search(r"(lower|higher) than (\d+)", said):
            if found.group(1) == "lower":
                high = min(high, int(found.group(2)) - 1)
            else:
                low = max(low, int(found.group(2)) + 1)
        yield from fill_field(look, "#tt", str((low + high) // 2))
        yield click("#subbtn")
    raise NoAnswer("the page has ruled out all numbers")


def number_checkboxes(look: Look) -> Iterator[PageStep]:
    """Draw a digit as its picture shows it."""
    drawing = DIGITS[int(question_part(look))]
    yield from ticked(look, "#checkboxes input", {nth for nth, one in enumerate(drawing) if one == "#"})
    yield click("#subbtn")


def simon_says(look: Look) -> Iterator[PageStep]:
    """Watch the buttons light up, then push them in that order."""
    order: list[int] = []
    quiet = 0
    was: int | None = None
    while quiet < 8:
        lit = look.js("Array.from(document.querySelectorAll('#area button'), one => one.classList.contains('push'))")
        now = lit.index(True) if True in lit else None
        if now is not None and now != was:
            order.append(now)
        quiet = 0 if now is not None else quiet + 1
        was = now
        yield wait(100)
    for nth in order:
        yield click("#area button", nth)


def stock_market(look: Look) -> Iterator[PageStep]:
    """Wait for the price to fall to the wanted one: it may never fall below, and the page takes the price itself."""
    limit = float(question_part(look, re.compile(r"\$([\d.]+\d)")))
    while True:
        price = texts(look, "#stock-price")[0]
        if price and float(price.lstrip("$")) <= limit:
            yield click("#buy")
        yield wait(100)


ORACLES: dict[str, Oracle] = {
    "click-checkboxes": click_checkboxes,
    "click-checkboxes-large": click_checkboxes,
    "click-checkboxes-transfer": click_checkboxes,
    "click-checkboxes-soft": click_checkboxes_soft,
    "click-option": click_option,
    "choose-list": choose_list,
    "click-scroll-list": choose_list,
    "find-greatest": find_greatest,
    "odd-or-even": odd_or_even,
    "generate-number": generate_number,
    "guess-number": guess_number,
    "number-checkboxes": number_checkboxes,
    "simon-says": simon_says,
    "stock-market": stock_market,
}
