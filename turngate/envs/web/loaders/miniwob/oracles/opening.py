"""Pages on which something has to be opened first: sections, tabs, menus, trees, calendars, pages of a list."""

from __future__ import annotations

import re
from collections.abc import Iterator

from turngate.envs.web.loaders.miniwob.oracles.clicking import question_part
from turngate.envs.web.loaders.miniwob.page_steps import (
    Look,
    NoAnswer,
    Oracle,
    PageStep,
    attributes,
    click,
    count,
    fill_field,
    nth_with,
    texts,
    utterance,
    visible_flags,
    wait,
)

ANIMATION_MS = 600
"""Longer than jQuery's animations and delayed look-ups."""


def click_collapsible(look: Look) -> Iterator[PageStep]:
    """Open the section, then submit."""
    if not any(visible_flags(look, ".ui-accordion-content")):
        yield click("#area h3")
    yield click("#subbtn")


def click_collapsible_2(look: Look) -> Iterator[PageStep]:
    """Open the section that holds the link."""
    word = question_part(look)
    nth = nth_with(texts(look, "#area .alink"), word)
    section = look.js(
        f"Array.from(document.querySelectorAll('#area .ui-accordion-content'))"
        f".indexOf(document.querySelectorAll('#area .alink')[{nth}].closest('.ui-accordion-content'))"
    )
    if not visible_flags(look, "#area .alink")[nth]:
        yield click("#area h3", section)
    yield click("#area .alink", nth)


def click_tab_2(look: Look) -> Iterator[PageStep]:
    """Open the tab that holds the link; where none does, the tab that is left is the answer."""
    links = texts(look, "#area .alink")
    word = question_part(look)
    if word not in links:
        yield click("#area ul a", 1)
        return
    nth = links.index(word)
    panel = look.js(f"document.querySelectorAll('#area .alink')[{nth}].closest('.ui-tabs-panel').id")
    if not visible_flags(look, "#area .alink")[nth]:
        yield click("#area ul a", attributes(look, "#area ul a", "href").index(f"#{panel}"))
    yield click("#area .alink", nth)


def click_menu(look: Look) -> Iterator[PageStep]:
    """Along a path of menus; a menu opens under the mouse."""
    names = question_part(look, re.compile(r"Select (.*)")).split(">")
    for name in names[:-1]:
        yield PageStep(kind="hover", selector="#menu .ui-menu-item-wrapper", nth=_menu_item(look, name))
    yield click("#menu .ui-menu-item-wrapper", _menu_item(look, names[-1]))


def _menu_item(look: Look, name: str) -> int:
    return nth_with(texts(look, "#menu .ui-menu-item-wrapper"), name)


def click_menu_2(look: Look) -> Iterator[PageStep]:
    """An item of a menu or of its submenu, by its label or its icon."""
    if icon := look.js("(document.querySelector('#query .ui-icon') || {}).className"):
        icons = look.js(
            "Array.from(document.querySelectorAll('#menu .ui-menu-item-wrapper'),"
            " one => (one.querySelector('.ui-icon:not(.ui-menu-icon)') || {}).className)"
        )
        nth = icons.index(icon)
    else:
        nth = _menu_item(look, question_part(look, re.compile(r'labeled "(.*)"')))
    if not any(visible_flags(look, "#menu")):
        yield click("#open-menu")
    if not visible_flags(look, "#menu .ui-menu-item-wrapper")[nth]:
        yield PageStep(kind="hover", selector="#menu .ui-menu-item-wrapper", nth=_menu_item(look, "Playback"))
    yield click("#menu .ui-menu-item-wrapper", nth)


def click_pie(look: Look) -> Iterator[PageStep]:
    """Open the wheel in its middle, then its piece."""
    label = question_part(look)
    if texts(look, "#wheelnav-divWheel-spreadertitle") == ["+"]:
        yield click("#wheelnav-divWheel-spreadertitle")
        yield wait(ANIMATION_MS)
    titles = texts(look, "#divWheel [id*='-title-']")
    yield click("#divWheel [id*='-title-']", nth_with(titles, label))


def navigate_tree(look: Look) -> Iterator[PageStep]:
    """Open folders from the outermost to the one that holds the name."""
    name = question_part(look)
    nth = nth_with(texts(look, "#tree span"), name)
    path = look.js(
        f"""(one => {{
          const all = Array.from(document.querySelectorAll('#tree span')), path = [];
          for (let item = one.closest('li').parentElement.closest('li'); item; item = item.parentElement.closest('li'))
            path.unshift(all.indexOf(item.querySelector('span')));
          return path;
        }})(document.querySelectorAll('#tree span')[{nth}])"""
    )
    for folder in path:
        is_open = look.js(
            f"getComputedStyle(document.querySelectorAll('#tree span')[{folder}].nextElementSibling).display !== 'none'"
        )
        if not is_open:
            yield click("#tree span", folder)
    yield click("#tree span", nth)


MONTHS = "January February March April May June July August September October November December".split()


def picked_date(look: Look, month: int, day: int) -> Iterator[PageStep]:
    """Make the date field hold a day of 2016, by its calendar."""
    if look.js("document.querySelector('#datepicker').value") == f"{month:02}/{day:02}/2016":
        return
    if not any(visible_flags(look, "#ui-datepicker-div")):
        yield click("#datepicker")
    while True:
        now = MONTHS.index(texts(look, ".ui-datepicker-month")[0]) + 1
        if now == month:
            break
        yield click(".ui-datepicker-prev" if now > month else ".ui-datepicker-next")
    days = texts(look, "#ui-datepicker-div td a")
    yield click("#ui-datepicker-div td a", nth_with(days, str(day)))
    yield wait(ANIMATION_MS)  # the calendar fades away, over the button below it


def choose_date(look: Look) -> Iterator[PageStep]:
    """A day, by the calendar."""
    month, day, _ = question_part(look, re.compile(r"Select ([\d/]+) as")).split("/")
    yield from picked_date(look, int(month), int(day))
    yield click("#subbtn")


def phone_book(look: Look) -> Iterator[PageStep]:
    """Turn pages until the person is there."""
    question = re.search(r"Find (.*) in the contact book and click on their (phone|email|address)", utterance(look))
    if question is None:
        raise NoAnswer(f"the question is '{utterance(look)}'")
    name, kind = question.groups()
    for _ in range(5):
        if texts(look, "#contact .name")[-1] == name:
            break
        yield click("#pagination .next a")
    yield click(f"#contact a.{kind}", count(look, f"#contact a.{kind}") - 1)


def search_engine(look: Look) -> Iterator[PageStep]:
    """Search, turn to the page that holds the result with this number, and click it."""
    word = question_part(look, re.compile(r'enter "(.*?)"'))
    nth = int(question_part(look, re.compile(r"(\d)(st|nd|rd|th) search"))) - 1
    if look.js("document.querySelector('#search-text').value") != word or not count(look, "#page-content a"):
        yield from fill_field(look, "#search-text", word)
        yield click("#search")
    page = str(nth // 3 + 1)
    if texts(look, "#pagination .active") != [page]:
        yield click("#pagination a", nth_with(texts(look, "#pagination a"), page))
    yield click("#page-content a", nth % 3)


ORACLES: dict[str, Oracle] = {
    "click-collapsible": click_collapsible,
    "click-collapsible-nodelay": click_collapsible,
    "click-collapsible-2": click_collapsible_2,
    "click-collapsible-2-nodelay": click_collapsible_2,
    "click-tab-2": click_tab_2,
    "click-tab-2-easy": click_tab_2,
    "click-tab-2-medium": click_tab_2,
    "click-tab-2-hard": click_tab_2,
    "click-menu": click_menu,
    "click-menu-2": click_menu_2,
    "click-pie": click_pie,
    "navigate-tree": navigate_tree,
    "choose-date": choose_date,
    "choose-date-easy": choose_date,
    "choose-date-medium": choose_date,
    "choose-date-nodelay": choose_date,
    "phone-book": phone_book,
    "search-engine": search_engine,
}
