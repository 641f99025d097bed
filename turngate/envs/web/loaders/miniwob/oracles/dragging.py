"""Pages for the mouse: sliders, things that are dragged or resized, lines and points in a drawing, colours."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

from turngate.envs.web.loaders.miniwob.oracles.clicking import question_part
from turngate.envs.web.loaders.miniwob.page_steps import (
    Extent,
    Look,
    NoAnswer,
    Oracle,
    PageStep,
    Point,
    boxes,
    click,
    click_at,
    drag,
    nth_with,
    press,
    texts,
    ticked,
    utterance,
)

# --- sliders and spinners ---------------------------------------------------------------------------------------------


def slid(look: Look, wanted: int, value: str, handle: str, nth: int = 0) -> Iterator[PageStep]:
    """Move a slider to ``wanted`` with the arrow keys; ``value`` finds where its number stands."""
    while (now := int(texts(look, value)[0])) != wanted:
        far = abs(wanted - now) >= 20  # a page key moves by a fifth of the range, which is 5 at least
        keys = ("PageUp", "PageDown") if far else ("ArrowRight", "ArrowLeft")
        yield press(" ".join([keys[wanted < now]] * (1 if far else abs(wanted - now))), handle, nth)


def use_slider(look: Look) -> Iterator[PageStep]:
    """One slider."""
    yield from slid(look, int(question_part(look, re.compile(r"Select (-?\d+)"))), "#val", ".ui-slider-handle")
    yield click("#subbtn")


def use_slider_2(look: Look) -> Iterator[PageStep]:
    """Three sliders."""
    for nth, wanted in enumerate(question_part(look, re.compile(r"\[(.*)\]")).split(",")):
        yield from slid(look, int(wanted), f"#val-{nth + 1}", f"#slider-{nth + 1} .ui-slider-handle")
    yield click("#subbtn")


def form_sequence(look: Look) -> Iterator[PageStep]:
    """A slider, then a box."""
    yield from slid(look, int(question_part(look, re.compile(r"Select (-?\d+)"))), "#val", ".ui-slider-handle")
    yield from ticked(
        look, "#area input[type=checkbox]", {int(question_part(look, re.compile(r"the (\d)\w\w checkbox"))) - 1}
    )
    yield click("#subbtn")


def use_spinner(look: Look) -> Iterator[PageStep]:
    """The arrows beside a number."""
    wanted = int(question_part(look, re.compile(r"Select (-?\d+)")))
    while (now := int(look.js("Number(document.querySelector('#spinner').value)"))) != wanted:
        yield click(".ui-spinner-up" if wanted > now else ".ui-spinner-down")
    yield click("#subbtn")


# --- dragging ---------------------------------------------------------------------------------------------------------


def moved(point: Point, dx: float, dy: float) -> Point:
    """``point``, moved."""
    return point[0] + dx, point[1] + dy


def drag_box(look: Look) -> Iterator[PageStep]:
    """The small box into the middle of the large one, held where the large one does not cover it."""
    small, large = boxes(look, "#draggableSmall")[0], boxes(look, "#draggableLarge")[0]
    if math.dist(small.middle, large.middle) > 5:
        dx, dy = large.middle[0] - small.middle[0], large.middle[1] - small.middle[1]
        grips = [
            (small.left + x, small.top + y)
            for x in (4, small.width / 2, small.width - 4)
            for y in (4, small.height / 2, small.height - 4)
        ]
        free = [
            grip
            for grip in grips
            if look.js(f"document.elementFromPoint({grip[0]}, {grip[1]}).id === 'draggableSmall'")
        ]
        if free:
            yield drag(free[0], moved(free[0], dx, dy))
        else:  # the large box lies on it: pull that one away
            away = -1 if large.left > 50 else 1
            yield drag(large.middle, moved(large.middle, 60 * away, 0))
            yield from drag_box(look)
            return
    yield click("#subbtn")


DIRECTIONS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}


def drag_shape_away(look: Look) -> Iterator[PageStep]:
    """A shape in one direction, as far as needed: how it hangs on the mouse depends on its kind."""
    dx, dy = DIRECTIONS[question_part(look, re.compile(r"(left|right|up|down) then"))]
    shape = boxes(look, "#area svg > *")[0]
    if look.js("document.querySelector('#area svg > *').getAttribute('transform')") is None:
        yield drag(shape.middle, moved(shape.middle, 35 * dx, 35 * dy))
    yield click("#subbtn")


SHAPES = {"rectangles": "rect", "circles": "circle", "triangles": "polygon"}


def shapes_of(look: Look) -> list[tuple[str, str, Extent]]:
    """Tag, colour and place of each shape that can be dragged."""
    selector = "#area_svg > :not(#shape-container)"
    found = look.js(
        f"Array.from(document.querySelectorAll('{selector}'), one => [one.tagName, one.getAttribute('fill')])"
    )
    return [(tag, colour, box) for (tag, colour), box in zip(found, boxes(look, selector), strict=True)]


def inside(box: Extent, frame: Extent) -> bool:
    """Whether the left upper corner of ``box`` is within ``frame``, which is what the pages look at."""
    return frame.left + 2 < box.left < frame.left + frame.width - 2 and (
        frame.top + 2 < box.top < frame.top + frame.height - 2
    )


def drag_shapes(look: Look) -> Iterator[PageStep]:
    """All shapes of a kind into a box, or into the left of two and all others into the right."""
    wanted = question_part(look, re.compile(r"Drag all (\w+)"))
    frames = boxes(look, "#area_svg #shape-container")
    for nth, (tag, colour, box) in enumerate(shapes_of(look)):
        fits = wanted in (colour, next(name for name, one in SHAPES.items() if one == tag))
        if not fits and len(frames) == 1:
            continue
        frame = frames[0] if fits else frames[-1]
        if not inside(box, frame):
            # side by side, because a shape can only be taken where no other lies on it
            yield drag(box.middle, (frame.left + 14 + 11 * nth, frame.top + frame.height / 2))
    yield click("#subbtn")


def sorted_to(look: Look, start: int, end: int) -> Iterator[PageStep]:
    """Drag an item of a list or grid to the place of another, a little beyond its middle."""
    places = boxes(look, "#sortable > li")
    source, target = places[start], places[end]
    dx, dy = target.middle[0] - source.middle[0], target.middle[1] - source.middle[1]
    beyond = (math.copysign(4, dx) if abs(dx) > 1 else 0, math.copysign(4, dy) if abs(dy) > 1 else 0)
    halfway = (source.middle[0] + dx / 2, source.middle[1] + dy / 2)
    yield drag(source.middle, moved(target.middle, *beyond), halfway, target.middle)


def drag_items(look: Look) -> Iterator[PageStep]:
    """An item to a place in a list of five, by number or by name of the place."""
    name = question_part(look, re.compile(r"Drag (\S+) "))
    start = nth_with(texts(look, "#sortable > li"), name)
    question = utterance(look)
    if found := re.search(r"to the (\d)\w\w position", question):
        end = int(found.group(1)) - 1
    else:
        end = next(
            place
            for said, place in {"top": 0, "bottom": 4, "up by one": start - 1, "down by one": start + 1}.items()
            if said in question
        )
    yield from sorted_to(look, start, end)


def drag_sort_numbers(look: Look) -> Iterator[PageStep]:
    """The smallest to the top, then the next one below it."""
    for place in range(3):
        numbers = [int(one) for one in texts(look, "#sortable > li")]
        least = min(range(place, 4), key=lambda nth: numbers[nth])
        if numbers[least] != numbers[place]:
            yield from sorted_to(look, least, place)
    yield click("#subbtn")


def resize_textarea(look: Look) -> Iterator[PageStep]:
    """Pull at the corner."""
    question = utterance(look)
    by = 20 if "larger" in question else -20
    handle = boxes(look, ".ui-resizable-se")[0].middle
    yield drag(handle, moved(handle, by * ("width" in question), by * ("height" in question)))
    yield click("#submit")


# --- points and lines in a drawing ------------------------------------------------------------------------------------


def middles(look: Look, selector: str) -> list[Point]:
    """The middles of the elements that ``selector`` finds."""
    return [box.middle for box in boxes(look, selector)]


def point_at(find: Callable[[Look], Point]) -> Oracle:
    """Click the place that ``find`` gives, then submit. Pages draw a point two pixels beside the click."""

    def play(look: Look) -> Iterator[PageStep]:
        x, y = find(look)
        yield click_at(round(x) - 2, round(y) - 2)
        yield click("#subbtn")

    return play


def midpoint(look: Look) -> Point:
    """Halfway between two points."""
    (ax, ay), (bx, by) = middles(look, "svg .black-circle")
    return (ax + bx) / 2, (ay + by) / 2


def far_out(vertex: Point, dx: float, dy: float, frame: Extent) -> Point:
    """The place farthest from ``vertex`` in a direction, or in its opposite if there is more room, in the frame."""
    length = math.hypot(dx, dy)
    for far in range(150, 5, -1):
        x, y = vertex[0] + far * dx / length, vertex[1] + far * dy / length
        if frame.left + 4 < x < frame.left + frame.width - 4 and frame.top + 4 < y < frame.top + frame.height - 4:
            return x, y
    raise NoAnswer("there is no room in that direction")


def bisector(look: Look) -> Point:
    """A place on the line that halves the angle, far from its vertex."""
    vertex = middles(look, "svg .init-blue")[0]
    arms = [(x - vertex[0], y - vertex[1]) for x, y in middles(look, "svg .init-black")]
    dx, dy = (sum(arm[axis] / math.hypot(*arm) for arm in arms) for axis in (0, 1))
    return far_out(vertex, dx, dy, boxes(look, "#svg-grid")[0])


def perpendicular(look: Look) -> Point:
    """A place at a right angle, on the side with more room."""
    vertex, black = middles(look, "#init-blue")[0], middles(look, "#init-black")[0]
    dx, dy = black[1] - vertex[1], vertex[0] - black[0]
    frame = boxes(look, "#svg-grid")[0]
    sides = []
    for sign in (1, -1):
        try:
            sides.append(far_out(vertex, sign * dx, sign * dy, frame))
        except NoAnswer:
            continue
    if not sides:
        raise NoAnswer("there is no room for a right angle")
    return max(sides, key=lambda side: math.dist(side, vertex))


def draw_line(look: Look) -> Iterator[PageStep]:
    """A line through the dot."""
    x, y = middles(look, "#circ")[0]
    along = (0, 1) if "vertical" in utterance(look) else (1, 0)
    ends = [moved((x, y), side * along[0], side * along[1]) for side in (-25, 25)]
    yield drag(ends[0], ends[1], (x, y))
    yield click("#controls button")


def draw_circle(look: Look) -> Iterator[PageStep]:
    """A circle of 24 strokes around the dot."""
    x, y = middles(look, "#circ")[0]
    ring = [(x + 22 * math.cos(turn * math.pi / 12), y + 22 * math.sin(turn * math.pi / 12)) for turn in range(25)]
    yield drag(ring[0], ring[-1], *ring[1:-1])
    yield click("#controls button")


def use_colorwheel_2(look: Look) -> Iterator[PageStep]:
    """Type the colour that the question shows into the field of the picker."""
    red, green, blue = re.findall(
        r"\d+", look.js("getComputedStyle(document.querySelector('#query .cc')).backgroundColor")
    )
    yield from coloured(look, f"{int(red):02X}{int(green):02X}{int(blue):02X}")


def use_colorwheel(look: Look) -> Iterator[PageStep]:
    """Type the colour of a name: the browser knows which it is."""
    name = question_part(look, re.compile(r"Select (\w+) with"))
    painted = look.js(
        f"(one => {{ one.fillStyle = {name!r}; return one.fillStyle; }})"
        "(document.createElement('canvas').getContext('2d'))"
    )
    yield from coloured(look, painted.lstrip("#").upper())


def coloured(look: Look, value: str) -> Iterator[PageStep]:
    """Make the picker's field hold a colour, close the picker, submit."""
    if look.js("document.querySelector('#col').value") != value:
        yield PageStep(kind="fill", selector="#col", value=value)
        yield press("Tab", "#col")
    yield click("#subbtn")


ORACLES: dict[str, Oracle] = {
    "use-slider": use_slider,
    "use-slider-2": use_slider_2,
    "form-sequence": form_sequence,
    "use-spinner": use_spinner,
    "drag-box": drag_box,
    "drag-circle": drag_shape_away,
    "drag-single-shape": drag_shape_away,
    "drag-shapes": drag_shapes,
    "drag-shapes-2": drag_shapes,
    "drag-items": drag_items,
    "drag-sort-numbers": drag_sort_numbers,
    "resize-textarea": resize_textarea,
    "circle-center": point_at(lambda look: middles(look, "svg .black-circle")[0]),
    "find-midpoint": point_at(midpoint),
    "bisect-angle": point_at(bisector),
    "right-angle": point_at(perpendicular),
    "draw-line": draw_line,
    "draw-circle": draw_circle,
    "use-colorwheel": use_colorwheel,
    "use-colorwheel-2": use_colorwheel_2,
}
