"""Pages that are solved by clicking the element that the question names."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from turngate.envs.web.loaders.miniwob.page_steps import (
    Look,
    NoAnswer,
    Oracle,
    PageStep,
    attributes,
    boxes,
    click,
    click_at,
    count,
    nth_with,
    texts,
    utterance,
    wait,
)

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
QUOTED = re.compile(r'"(.*)"')


def question_part(look: Look, pattern: re.Pattern[str] = QUOTED, group: int = 1) -> str:
    """The part of the question that ``pattern`` finds. Raises NoAnswer."""
    found = pattern.search(utterance(look))
    if found is None:
        raise NoAnswer(f"the question '{utterance(look)}' is not put as {pattern.pattern}")
    return found.group(group).strip()


def clicks_text(selector: str, pattern: re.Pattern[str] = QUOTED) -> Oracle:
    """Click the element of ``selector`` whose text is asked for."""

    def play(look: Look) -> Iterator[PageStep]:
        yield click(selector, nth_with(texts(look, selector), question_part(look, pattern), selector))

    return play


def clicks(selector: str) -> Oracle:
    """Click the first element of ``selector``."""

    def play(look: Look) -> Iterator[PageStep]:
        yield click(selector)

    return play


def click_dialog_2(look: Look) -> Iterator[PageStep]:
    """Click a button of the dialog, or the "x" in its corner."""
    label = question_part(look)
    if label == "x":
        yield click(".ui-dialog-titlebar button")
    else:
        yield click(".ui-dialog-buttonset button", nth_with(texts(look, ".ui-dialog-buttonset button"), label))


def click_button_sequence(look: Look) -> Iterator[PageStep]:
    """ONE, then TWO; the page marks what has been clicked."""
    if attributes(look, "#subbtn", "data-tampered") == [None]:
        yield click("#subbtn")
    yield click("#subbtn2")


def button_delay(look: Look) -> Iterator[PageStep]:
    """ONE, then as many seconds as are asked for, then TWO."""
    if attributes(look, "#subbtn", "data-tampered") != [None]:
        yield click("#subbtn2")
        return
    began = look.js("Date.now()")
    yield click("#subbtn")
    seconds = int(question_part(look, re.compile(r"wait (\d+) seconds")))
    left = int(seconds * 1000 - (look.js("Date.now()") - began))
    if left > 0:
        yield wait(left)
    yield click("#subbtn2")


def click_tab(look: Look) -> Iterator[PageStep]:
    """Click a tab by its number."""
    yield click("#area ul a", nth_with(texts(look, "#area ul a"), question_part(look, re.compile(r"on (Tab #\d)"))))


def click_widget(look: Look) -> Iterator[PageStep]:
    """Click a widget of a kind."""
    kind = {"radio": "[type=radio]", "checkbox": "[type=checkbox]", "text": "[type=input]"}.get(question_part(look))
    yield click(f".widget input{kind}" if kind else f".widget {question_part(look)}")


def click_color(look: Look) -> Iterator[PageStep]:
    """Click the box of a colour; a colour is compared as the browser paints it."""
    wanted = question_part(look, re.compile(r"Click on the (.*) colored box"))
    colours = [style and style.split(":")[1].strip(" ;") for style in attributes(look, "#area .color", "style")]
    if wanted not in colours:
        raise NoAnswer(f"no box is {wanted}, only {colours}")
    yield click("#area .color", colours.index(wanted))


def focus_text_2(look: Look) -> Iterator[PageStep]:
    """Focus a field by its number."""
    yield click("#area input", int(question_part(look, re.compile(r"(\d)(st|nd|rd)"))) - 1)


def grid_coordinate(look: Look) -> Iterator[PageStep]:
    """Click a point of the grid; x grows to the right and y upwards, from -2 to 2."""
    x, y = (int(one) for one in question_part(look, re.compile(r"\((.*)\)")).split(","))
    middles = [box.middle for box in boxes(look, "svg circle")]
    columns, rows = (sorted({round(middle[axis], 1) for middle in middles}) for axis in (0, 1))
    yield click_at(columns[x + 2], rows[2 - y])


def click_shades(look: Look) -> Iterator[PageStep]:
    """Select the boxes in which one of the three basic colours is the strongest."""
    wanted = ("red", "green", "blue").index(question_part(look, re.compile(r"shades of (\w+)")))
    painted = look.js(
        "Array.from(document.querySelectorAll('#area span'), one => [getComputedStyle(one).backgroundColor, "
        "one.classList.contains('selected')])"
    )
    for nth, (colour, is_selected) in enumerate(painted):
        parts = [float(one) for one in re.findall(r"[\d.]+", colour)[:3]]
        if (parts[wanted] == max(parts)) != is_selected:
            yield click("#area span", nth)
    yield click("#submit")


def ascending_numbers(look: Look) -> Iterator[PageStep]:
    """Click 1; then the others are covered, in the order in which the page holds them."""
    numbers = texts(look, "svg text")
    if numbers:
        places = boxes(look, "svg text")
        order = sorted(range(len(numbers)), key=lambda nth: int(numbers[nth]))
        for nth in order:
            yield click_at(*places[nth].middle)
    else:
        while count(look, "svg rect"):
            yield click("svg rect")


NEARER_THAN = (40, 10, 5)
"""COLD, WARM and HOT begin at these distances, in pixels."""


def hot_cold(look: Look) -> Iterator[PageStep]:
    """Move to the place whose answer tells most about the remaining places, until it is HOT, and click there."""
    area = boxes(look, "#touch-area")[0]
    xs = np.arange(math.ceil(area.left) + 1, area.left + area.width)
    ys = np.arange(math.ceil(area.top) + 1, area.top + area.height)
    left_P = np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)
    spots_S = np.stack(np.meshgrid(xs[2::5], ys[2::5]), axis=-1).reshape(-1, 2)
    while len(left_P):
        sample_P = left_P[:: 1 + len(left_P) // 400]
        degrees_SP = _degrees(np.linalg.norm(spots_S[:, None] - sample_P[None], axis=-1))
        shares_SD = np.stack([(degrees_SP == degree).mean(axis=1) for degree in range(4)], axis=-1)
        told_S = -(shares_SD * np.log(np.maximum(shares_SD, 1e-9))).sum(axis=-1)
        spot = spots_S[int(told_S.argmax())] if len(left_P) > 1 else left_P[0]
        x, y = map(int, spot)
        yield PageStep(kind="hover", point=(x, y))
        degree = ("ICE COLD", "COLD", "WARM", "HOT").index("".join(texts(look, "#signal")))
        if degree == len(NEARER_THAN):
            yield click_at(x, y)
            return
        left_P = left_P[_degrees(np.linalg.norm(left_P - spot, axis=-1)) == degree]
    raise NoAnswer("no place is as warm as the page says")


def _degrees(distance: FloatArray) -> IntArray:
    """How many of ``NEARER_THAN`` a distance lies below."""
    found: IntArray = np.sum([distance < near for near in NEARER_THAN], axis=0, dtype=np.int64)
    return found


ORACLES: dict[str, Oracle] = {
    "click-test": clicks("#subbtn"),
    "click-test-2": clicks_text("#area button", re.compile(r"button (\w+)")),
    "click-test-transfer": clicks_text("#area button", re.compile(r"button (\w+)")),
    "click-button": clicks_text("#area button"),
    "unicode-test": clicks_text("#area button"),
    "click-link": clicks_text("#area .alink"),
    "click-dialog": clicks(".ui-dialog-titlebar button"),
    "click-dialog-2": click_dialog_2,
    "click-button-sequence": click_button_sequence,
    "button-delay": button_delay,
    "click-tab": click_tab,
    "click-widget": click_widget,
    "click-color": click_color,
    "focus-text": clicks("#tt"),
    "focus-text-2": focus_text_2,
    "grid-coordinate": grid_coordinate,
    "click-shades": click_shades,
    "ascending-numbers": ascending_numbers,
    "hot-cold": hot_cold,
}
