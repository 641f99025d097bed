"""An agent's actions in a tab. ``EpisodeContext.act`` waits for their effects."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

from turngate.envs.web.engine.page_problems import PageProblem
from turngate.envs.web.engine.tab import Tab

_REFERENCE = re.compile(r"e[1-9][0-9]{0,8}")
_BUTTONS = ("left", "middle", "right")
_KEYS = {"return": "Enter", "esc": "Escape", "ctrl": "Control", "cmd": "Meta", "del": "Delete", "up": "ArrowUp",
         "down": "ArrowDown", "left": "ArrowLeft", "right": "ArrowRight", "pgup": "PageUp", "pgdn": "PageDown",
         "space": "Space", "enter": "Enter", "tab": "Tab", "escape": "Escape", "control": "Control", "shift": "Shift",
         "alt": "Alt", "backspace": "Backspace", "delete": "Delete", "home": "Home", "end": "End"}  # fmt: skip
_FORMATS = {"date": "YYYY-MM-DD", "time": "HH:MM", "datetime-local": "YYYY-MM-DDTHH:MM", "month": "YYYY-MM",
            "week": "YYYY-Www", "color": "#rrggbb", "range": "a number within its limits",
            "number": "a number"}  # fmt: skip


async def nothing(tab: Tab) -> None:
    """Only let pending activity happen."""


async def goto(tab: Tab, url: str) -> None:
    """Open an address. Raises PageProblem if it may not be opened, or nothing came from there."""
    from playwright.async_api import Error

    address = tab.gate.check(url)
    for attempt in range(5):
        try:
            await tab.page.goto(address, wait_until="commit", timeout=tab.limits.load_s * 1000)
            tab.leave_world()
            return
        except Error as error:
            if attempt < 4 and "interrupted by another navigation" in error.message:  # an error page that came late
                await asyncio.sleep(0.1)
                continue
            raise PageProblem(f"'{address[:200]}' could not be opened: {_reason(error.message, tab)}") from None


def _reason(said: str, tab: Tab) -> str:
    if "ERR_TOO_MANY_REDIRECTS" in said:
        return "it redirects without end"
    if "Timeout" in said:
        return f"it did not answer within {tab.limits.load_s:g} s"
    if "ERR_ABORTED" in said or "Download is starting" in said:
        return "it is a download or has no content, or the page went elsewhere"
    found = re.search(r"net::(ERR_[A-Z_]+)", said)
    return found[1] if found else said.splitlines()[0]


async def back(tab: Tab) -> None:
    """Go one page back. Raises PageProblem if there is none."""
    history = await tab.cdp.send("Page.getNavigationHistory")
    entries, at = history["entries"], history["currentIndex"]
    if at < 1 or entries[at - 1]["url"] == "about:blank":
        raise PageProblem("there is no page before this one")
    await tab.cdp.send("Page.navigateToHistoryEntry", {"entryId": entries[at - 1]["id"]})


async def click(tab: Tab, x: float, y: float, button: str, count: int) -> None:
    """Click at a point of the viewport."""
    if button not in _BUTTONS or not 1 <= count <= 3:
        raise PageProblem(
            f"one clicks with {', '.join(_BUTTONS)}, once to three times; not with {button}, {count} times"
        )
    await tab.page.mouse.click(*_point(tab, x, y), button=button, click_count=count)  # type: ignore[arg-type]


async def click_on(tab: Tab, ref: str, button: str, count: int) -> None:
    """Click on an element. Raises PageProblem if it is gone, hidden, disabled or covered."""
    await click(tab, *await _place(tab, ref), button, count)


async def hover(tab: Tab, x: float, y: float) -> None:
    """Move the mouse to a point."""
    await tab.page.mouse.move(*_point(tab, x, y))


async def hover_on(tab: Tab, ref: str) -> None:
    """Move the mouse to an element, which may be disabled."""
    await hover(tab, *await _place(tab, ref, usable=False))


async def drag(tab: Tab, *path: tuple[float, float]) -> None:
    """Press the mouse at the first point, move it over the others and release it at the last."""
    start, *others = [_point(tab, *point) for point in path]
    await tab.page.mouse.move(*start)
    await tab.page.mouse.down()
    for point in others:
        await tab.page.mouse.move(*point, steps=5)
    await tab.page.mouse.up()


async def drag_on(tab: Tab, ref: str, onto: str) -> None:
    """Drag one element onto another."""
    end = await _place(tab, onto, usable=False)
    start = await _place(tab, ref)  # may scroll, so the other one is measured again
    await drag(tab, start, await _place(tab, onto, usable=False) if start != end else end)


async def scroll(tab: Tab, dx: float, dy: float, at: tuple[float, float] | None, ref: str | None) -> None:
    """Turn the wheel over a point, an element, or the middle of the viewport."""
    view = tab.page.viewport_size or {"width": 2, "height": 2}
    middle = (view["width"] / 2, view["height"] / 2)
    x, y = await _place(tab, ref, usable=False) if ref is not None else _point(tab, *(at or middle))
    await tab.page.mouse.move(x, y)
    await tab.page.mouse.wheel(dx, dy)


async def type_text(tab: Tab, text: str) -> None:
    """Press the keys of a text in whatever has the focus."""
    await tab.page.keyboard.type(text)


async def press(tab: Tab, keys: Sequence[str]) -> None:
    """Press keys one after the other, each such as ``Enter`` or ``Control+A``. Raises PageProblem: no such key."""
    from playwright.async_api import Error

    for chord in keys:
        names = [_KEYS.get(name.lower(), name) for name in re.split(r"(?<=.)\+", chord)]
        try:
            await tab.page.keyboard.press("+".join(names))
        except Error as error:
            if "Unknown key" not in error.message:
                raise
            known = "Enter, Tab, Escape, Backspace, ArrowDown, a, Control+A"
            raise PageProblem(f"there is no key '{chord[:80]}'; keys are named as in {known}") from None


async def fill(tab: Tab, ref: str, text: str) -> None:
    """Make ``text`` the whole content of a field. Raises PageProblem if it cannot be."""
    found = await tab.call("prepareFill", _named(ref), text)
    what = found.get("what", "")
    match found.get("problem"):
        case None:
            pass
        case "gone":
            raise PageProblem(_gone(ref))
        case "malformed":
            form = _FORMATS.get(found["type"], "another format")
            raise PageProblem(f"{ref} ({what}) does not take '{text[:80]}'; it takes {form}")
        case problem:
            raise PageProblem(f"{ref} ({what}) cannot be filled: it is {problem}")
    if found["done"]:
        return
    if text:
        await tab.page.keyboard.insert_text(text)
    else:
        await tab.page.keyboard.press("Delete")


async def select(tab: Tab, ref: str, options: Sequence[str]) -> None:
    """Choose options of a list, by their label or their value. Raises PageProblem if it has no such option."""
    found = await tab.call("choose", _named(ref), list(options))
    what = found.get("what", "")
    match found.get("problem"):
        case None:
            return
        case "gone":
            raise PageProblem(_gone(ref))
        case "no such option":
            offered = ", ".join(f"'{text}'" for text in found["options"])
            raise PageProblem(f"{ref} ({what}) has no option '{found['wanted'][:80]}'; its options: {offered}")
        case "option disabled":
            raise PageProblem(f"the option '{found['wanted'][:80]}' of {ref} ({what}) is disabled")
        case "one option only":
            raise PageProblem(f"{ref} ({what}) takes exactly one option, not {len(options)}")
        case problem:
            raise PageProblem(f"{ref} ({what}) is {problem}")


async def _place(tab: Tab, ref: str, *, usable: bool = True) -> tuple[float, float]:
    """Where a click on an element lands."""
    found: Mapping[str, Any] = await tab.call("locate", _named(ref), usable)
    what = found.get("what", "")
    match found.get("problem"):
        case None:
            return found["x"], found["y"]
        case "gone":
            raise PageProblem(_gone(ref))
        case "covered":
            raise PageProblem(f"{ref} ({what}) is covered by {found['by']}")
        case "outside":
            raise PageProblem(f"{ref} ({what}) lies outside of what can be scrolled to")
        case problem:
            raise PageProblem(f"{ref} ({what}) is {problem}")


def _named(ref: str) -> str:
    if not _REFERENCE.fullmatch(ref):
        raise PageProblem(f"'{ref[:80]}' is not a reference; references look like e12")
    return ref


def _gone(ref: str) -> str:
    return f"there is no element {ref} on this page any more, or there never was; look at the page again"


def _point(tab: Tab, x: float, y: float) -> tuple[float, float]:
    view = tab.page.viewport_size or {"width": 0, "height": 0}
    if not (0 <= x < view["width"] and 0 <= y < view["height"]):
        raise PageProblem(f"the point ({x:g}, {y:g}) is outside the viewport of {view['width']} x {view['height']}")
    return float(x), float(y)
