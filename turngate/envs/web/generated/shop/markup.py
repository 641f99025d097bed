"""HTML made of elements. Every text is escaped unless it is ``Html`` already, so nothing that a customer wrote can
become markup. What comes out is well-formed XML too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TypeAlias


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Child: TypeAlias = str | int
_VOID = frozenset(("input", "link", "meta", "br"))


def tag(element: str, /, *children: Child, **attributes: str | int | bool) -> Html:
    """An element. ``class_`` and ``for_`` stand for class and for, ``aria_label`` for aria-label; an attribute that is
    True is empty, and one that is False is left out."""
    opening = "".join(_attribute(key, value) for key, value in attributes.items() if value is not False)
    if element in _VOID:
        return Html(f"<{element}{opening}/>")
    return Html(f"<{element}{opening}>{join_markup(children)}</{element}>")


def join_markup(children: Iterable[Child]) -> Html:
    """The children one after another, escaped where they are text."""
    return Html("".join(child if isinstance(child, Html) else escape(str(child)) for child in children))


def _attribute(key: str, value: str | int | bool) -> str:
    name = key.rstrip("_").replace("_", "-")
    return f' {name}=""' if value is True else f' {name}="{escape(str(value))}"'


# --- controls ---------------------------------------------------------------------------------------------------------


def link(to: str, text: Child) -> Html:
    """A link."""
    return tag("a", text, href=to)


def button(text: str, name: str = "") -> Html:
    """A button that sends its form. ``name``: what it is called where its text alone would not say what it is about."""
    return tag("button", text, type="submit", aria_label=name or False)


def field(label: str, name: str, value: str = "", *, type_: str = "text", **more: str | int | bool) -> Html:
    """A labelled input."""
    id_ = f"field-{name}"
    return tag("p", tag("label", label, for_=id_), tag("input", id=id_, name=name, type=type_, value=value, **more))


def drop_down(label: str, name: str, choices: Mapping[str, str], chosen: str = "") -> Html:
    """A labelled list to choose one of. ``choices``: value → text."""
    id_ = f"field-{name}"
    options = [tag("option", text, value=value, selected=value == chosen) for value, text in choices.items()]
    return tag("p", tag("label", label, for_=id_), tag("select", *options, id=id_, name=name))


def radios(legend: str, name: str, choices: Mapping[str, str], chosen: str) -> Html:
    """A group of radio buttons. ``choices``: value → text."""
    rows = []
    for value, text in choices.items():
        id_ = f"{name}-{value}"
        dot = tag("input", id=id_, name=name, type="radio", value=value, checked=value == chosen)
        rows.append(tag("p", dot, tag("label", text, for_=id_)))
    return tag("fieldset", tag("legend", legend), *rows)


def post_form(action: str, csrf: str, *children: Child) -> Html:
    """A form that changes something: it carries the token of the page."""
    return tag("form", tag("input", type="hidden", name="csrf", value=csrf), *children, method="post", action=action)


def listing(pairs: Mapping[str, Child]) -> Html:
    """Names and values."""
    return tag("dl", *(join_markup((tag("dt", name), tag("dd", value))) for name, value in pairs.items()))


def table(head: Sequence[str], rows: Iterable[Sequence[Child]]) -> Html:
    """A table with a line of headings."""
    heads = tag("tr", *(tag("th", text, scope="col") for text in head))
    body = [tag("tr", *(tag("td", cell) for cell in row)) for row in rows]
    return tag("table", tag("thead", heads), tag("tbody", *body))


def alert(message: str) -> Html:
    """Why a form was not accepted; nothing for ""."""
    return tag("p", message, role="alert") if message else Html()
