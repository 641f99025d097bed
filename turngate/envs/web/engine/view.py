"""A page as it is seen at one moment."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in CSS pixels of the viewport; parts outside the viewport have coordinates outside it."""

    x: int
    y: int
    width: int
    height: int

    @property
    def centre(self) -> tuple[float, float]:
        """Its middle (x, y)."""
        return self.x + self.width / 2, self.y + self.height / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """An element that can be used or read. ``children`` are elements and the texts between them."""

    ref: str
    """``e1``, ``e2`` …, numbered from 1 in each episode; stays while the element exists."""
    role: str
    name: str
    value: str | None = None
    """The text or option in it; None for an element without a value."""
    states: Mapping[str, bool | str | int]
    """Only what applies: checked, pressed, selected, expanded, disabled, readonly, required, focused, level, url …"""
    box: Box
    interactive: bool = False
    """Whether it can be clicked, typed into or focused."""
    in_view: bool = True
    """Whether some of it is inside the viewport."""
    covered_by: str = ""
    """The element over its middle, in words; empty if there is none, or if it is out of view."""
    children: tuple[Element | str, ...] = ()

    def walk(self) -> Iterator[Element]:
        """It and all elements below it, in document order."""
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child.walk()


@dataclass(frozen=True, slots=True, kw_only=True)
class PageView:
    """A page as it stands. ``children`` is its tree, as in ``Element``."""

    url: str
    title: str
    tab: int
    """Which tab it is in; the first one is 0."""
    error: str = ""
    """Why the page could not be loaded, as Chromium names it, such as ``net::ERR_TOO_MANY_REDIRECTS``."""
    children: tuple[Element | str, ...]
    dom: str
    """The document as text: tags, attributes and values, without scripts, styles, comments and element ids."""
    scroll: tuple[int, int]
    page_size: tuple[int, int]
    viewport: tuple[int, int]
    focused: str = ""
    """The reference of the element that has the focus, if any."""
    truncated: bool = False
    """Whether the page has more than the limits allow to look at."""

    def elements(self) -> Iterator[Element]:
        """All elements in document order."""
        for child in self.children:
            if isinstance(child, Element):
                yield from child.walk()

    def find(self, ref: str) -> Element | None:
        """The element with this reference."""
        return next((element for element in self.elements() if element.ref == ref), None)

    @property
    def dom_key(self) -> str:
        """A short text that is equal for equal documents."""
        return hashlib.blake2b(self.dom.encode("utf-8", "replace"), digest_size=16).hexdigest()

    def outline(self) -> str:
        """The tree as indented lines: reference, role, name and states."""
        lines: list[str] = []

        def add(children: tuple[Element | str, ...], depth: int) -> None:
            for child in children:
                if isinstance(child, str):
                    lines.append("  " * depth + f"text: {child}")
                    continue
                states = "".join(f" [{key}={value}]" for key, value in sorted(child.states.items()))
                value = "" if child.value is None else f" value={child.value!r}"
                lines.append("  " * depth + f'{child.ref} {child.role} "{child.name}"{value}{states}')
                add(child.children, depth + 1)

        add(self.children, 0)
        return "\n".join(lines)


def read_view(raw: Mapping[str, Any], *, tab: int, error: str) -> PageView:
    """The PageView in what ``observe.js`` returned."""
    return PageView(
        url=raw["url"],
        title=raw["title"],
        tab=tab,
        error=error,
        children=_children(raw["tree"]),
        dom=raw["dom"],
        scroll=(raw["scroll"][0], raw["scroll"][1]),
        page_size=(raw["size"][0], raw["size"][1]),
        viewport=(raw["viewport"][0], raw["viewport"][1]),
        focused=raw["focused"],
        truncated=raw["truncated"],
    )


def _children(raw: list[Any]) -> tuple[Element | str, ...]:
    return tuple(child if isinstance(child, str) else _element(child) for child in raw)


def _element(raw: Mapping[str, Any]) -> Element:
    return Element(
        ref=raw["r"],
        role=raw["o"],
        name=raw["n"],
        value=raw.get("v"),
        states=raw["s"],
        box=Box(*raw["b"]),
        interactive=raw["i"],
        in_view=raw["w"],
        covered_by=raw.get("c", ""),
        children=_children(raw["k"]),
    )
