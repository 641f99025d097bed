"""A page as text: the accessibility tree, an element a line, within a budget that cuts at the same place each time."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from turngate.envs.web.engine.view import Element, PageView

INDENT = " "
_SILENT = frozenset({"generic", "none", "presentation", "paragraph", "rowgroup", "StaticText"})
"""Roles without information: of such an element only its content is shown."""
_HOLDS = frozenset({"row", "list", "listitem", "table", "grid", "term", "definition"})
"""Roles whose name only repeats their content, which is shown below them."""
_LEFT_OUT = ("focused", "in_view", "url", "level")
"""States that are not written: they change with each action, or say little to an agent."""


def page_lines(children: Sequence[Element | str], depth: int = 0) -> Iterator[str]:
    """The elements and texts, one a line, indented by depth.

    ``e3 button "Buy" (disabled)``: reference, role, name, value and states. Only what can be used has a reference.
    """
    for child in children:
        if isinstance(child, str):
            yield INDENT * depth + child
            continue
        own = element_line(child)
        if own:
            yield INDENT * depth + own
        if not own or not child.name or _text_of(child) != child.name:
            yield from page_lines(child.children, depth + bool(own))


def element_line(element: Element) -> str:
    """One element without its content; "" if its role has no information and it cannot be used."""
    if not element.interactive and ((element.role in _SILENT and not element.name) or element.role == "rowgroup"):
        return ""
    words = [element.ref] if element.interactive else []
    words.append(element.role)
    if element.name and not (element.children and element.role in _HOLDS):
        words.append(f'"{element.name}"')
    if element.value is not None:
        words.append(f'= "{element.value}"')
    said = {name: value for name, value in element.states.items() if name not in _LEFT_OUT and value is not False}
    states = [name if value is True else f"{name} {value}" for name, value in said.items()]
    if element.covered_by:
        states.append(f"covered by {element.covered_by}")
    if states:
        words.append(f"({', '.join(states)})")
    return " ".join(words)


def within(lines: Sequence[str], chars: int) -> str:
    """The lines that fit into ``chars`` characters, from the top, and how many were left out."""
    kept, used = list[str](), 0
    for line in lines:
        used += len(line) + 1
        if used > chars:
            break
        kept.append(line)
    left = len(lines) - len(kept)
    return "\n".join([*kept, f"… {left} more lines; read an element to see what is in it"] if left else kept)


def changed_lines(before: Sequence[str], now: Sequence[str]) -> list[str]:
    """Added (+) and removed (-) lines, in the order of the page."""
    found = difflib.ndiff([line.strip() for line in before], [line.strip() for line in now])
    return [line for line in found if line[:2] in ("+ ", "- ")]


def head_line(view: PageView) -> str:
    """Title and address of the page."""
    return f"page: {view.title} ({view.url})" if view.title else f"page: {view.url}"


def _text_of(element: Element) -> str | None:
    """The text of an element without usable elements in it; else None."""
    texts = list[str]()
    for child in element.children:
        text = child if isinstance(child, str) else None if child.interactive else _text_of(child)
        if text is None:
            return None
        texts.append(text)
    return " ".join(texts)
