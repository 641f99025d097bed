"""Pages in which something is typed: a text of the question, a text of the page, or a computed result."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from turngate.envs.web.loaders.miniwob.oracles.clicking import question_part
from turngate.envs.web.loaders.miniwob.oracles.opening import ANIMATION_MS
from turngate.envs.web.loaders.miniwob.page_steps import (
    Look,
    NoAnswer,
    Oracle,
    PageStep,
    attributes,
    click,
    count,
    drag,
    fill_field,
    nth_with,
    press,
    texts,
    utterance,
    visible_flags,
    wait,
)


def types_in(field: str, answer: Callable[[Look], str], button: str = "#subbtn") -> Oracle:
    """Type ``answer`` into ``field`` and submit."""

    def play(look: Look) -> Iterator[PageStep]:
        yield from fill_field(look, field, answer(look))
        yield click(button)

    return play


# --- answers ----------------------------------------------------------------------------------------------------------


def in_case(look: Look) -> str:
    """The quoted word in upper or lower case."""
    word = question_part(look)
    return word.upper() if "upper case" in utterance(look) else word.lower()


def iso_date(look: Look) -> str:
    """The date as a date field takes it."""
    month, day, year = question_part(look, re.compile(r"Enter ([\d/]+) as")).split("/")
    return f"{year}-{month}-{day}"


def iso_time(look: Look) -> str:
    """The time as a time field takes it: on a clock with 24 hours."""
    hour, minute, half = re.split(r"[:\s]+", question_part(look, re.compile(r"Enter (.*?) as")))
    return f"{int(hour) % 12 + 12 * (half == 'PM'):02}:{minute}"


def word_of_paragraph(look: Look) -> str:
    """A word of the paragraph by its number, without punctuation."""
    nth = int(question_part(look, re.compile(r"(\d+)(st|nd|rd|th) word")))
    return re.sub(r"[^a-zA-Z]", "", texts(look, "#area p")[0].split()[nth - 1])


def last_word(look: Look) -> str:
    """The last word of the text, without punctuation."""
    words = str(look.js("document.querySelector('#text-area').value")).split()
    return re.sub(r"[^a-zA-Z0-9]", "", words[-1])


def copied(look: Look) -> str:
    """The text of the field that is to be copied."""
    nth = re.search(r"(\d)(st|nd|rd)", utterance(look))
    field = f"text-{nth.group(1)}" if nth else "to-copy"
    return str(look.js(f"document.getElementById('{field}').value"))


def table_of(look: Look) -> dict[str, str]:
    """The page's table of two columns."""
    cells = texts(look, "#tab td")
    return dict(zip(cells[::2], cells[1::2], strict=True))


def solve_equation(look: Look) -> str:
    """The value of x."""
    left, _, right = texts(look, "#math-problem")[0].partition("=")
    first, sign, second = left.split()
    total = int(right)
    if first == "x":
        return str(total - int(second) if sign == "+" else total + int(second))
    return str(total - int(first) if sign == "+" else int(first) - total)


def calculated(look: Look) -> str:
    """The result of one sum, difference or product."""
    first, sign, second, _ = texts(look, "#math-problem")[0].split()
    a, b = int(first), int(second)
    return str({"+": a + b, "-": a - b, "x": a * b}[sign])


def captcha(look: Look) -> str:
    """The letters that stand askew."""
    return "".join(texts(look, "#captcha span"))


# --- forms ------------------------------------------------------------------------------------------------------------


def enter_password(look: Look) -> Iterator[PageStep]:
    """The same twice."""
    for field in ("#password", "#verify"):
        yield from fill_field(look, field, question_part(look))
    yield click("#subbtn")


def login_user(look: Look) -> Iterator[PageStep]:
    """User and password, sent away whatever asks whether to leave."""
    fields = {
        "#username": question_part(look, re.compile(r'username "(.*?)"')),
        "#password": question_part(look, re.compile(r'password "(.*?)" into')),
    }
    for field, value in fields.items():
        if count(look, "#popup"):
            yield click("#popup-cancel")
        yield from fill_field(look, field, value)
        if count(look, "#popup"):
            yield click("#popup-cancel")
            yield from fill_field(look, field, value)
    yield click("#subbtn")


def read_table_2(look: Look) -> Iterator[PageStep]:
    """Each label's value."""
    table = table_of(look)
    for label, field in (("#ll1", "#tt1"), ("#ll2", "#tt2")):
        yield from fill_field(look, field, table[texts(look, label)[0].rstrip(":")])
    yield click("#subbtn")


def search_movies(look: Look) -> Iterator[PageStep]:
    """Genre, director and year, whatever the order and the labels."""
    question = re.search(r"Search for (.*) movies directed by (.*) from year (\d+)", utterance(look))
    if question is None:
        raise NoAnswer(f"the question is '{utterance(look)}'")
    values = dict(zip(("genre", "director", "year", "date"), (*question.groups(), question.group(3)), strict=True))
    labels = look.js(
        "Array.from(document.querySelectorAll('#area input'),"
        " one => one.closest('p, tr, .row, .field, .ui-entry').textContent)"
    )
    for nth, label in enumerate(labels):
        kind = next(kind for kind in values if kind in label.lower())
        yield from fill_field(look, "#area input", values[kind], nth)
    yield click("#area button, #area .final, #area .ui-submit")


def form_sequence_2(look: Look) -> Iterator[PageStep]:
    """A radio button and a field, both by number."""
    question = re.search(r'Check the (\d).* number "(-?\d+)" into the (\d)', utterance(look))
    if question is None:
        raise NoAnswer(f"the question is '{utterance(look)}'")
    radio, number, field = question.groups()
    if not look.js(f"document.querySelectorAll('#area input[type=radio]')[{int(radio) - 1}].checked"):
        yield click("#area input[type=radio]", int(radio) - 1)
    for nth in ("1", "2", "3"):
        yield from fill_field(look, f"#input-{nth}", number if nth == field else "")
    yield click("#subbtn")


def form_sequence_3(look: Look) -> Iterator[PageStep]:
    """A made list: open it, choose, then a button."""
    wanted = question_part(look, re.compile(r"Choose (.*) from"))
    if texts(look, ".selectric .label") != [wanted]:
        if not any(visible_flags(look, ".selectric-items")):
            yield click(".selectric")
        yield click(".selectric-items li", nth_with(texts(look, ".selectric-items li"), wanted))
    yield click("#buttons button", nth_with(texts(look, "#buttons button"), question_part(look)))


def use_autocomplete(look: Look) -> Iterator[PageStep]:
    """Type how it begins, then choose the one with the right end from the list that opens."""
    question = re.search(r'starts with "(.*?)"(?: and ends with "(.*?)")?\.', utterance(look))
    if question is None:
        raise NoAnswer(f"the question is '{utterance(look)}'")
    begin, end = question.group(1), question.group(2) or ""
    held = str(look.js("document.querySelector('#tags').value"))
    if not (held.startswith(begin) and held.endswith(end) and held):
        if not any(visible_flags(look, ".ui-autocomplete li")):
            yield from fill_field(look, "#tags", begin)
            yield wait(ANIMATION_MS)  # the list opens after a pause
        offers = texts(look, ".ui-autocomplete li")
        fitting = [nth for nth, one in enumerate(offers) if one.startswith(begin) and one.endswith(end)]
        if not fitting:
            raise NoAnswer(f"none of {offers} begins with '{begin}' and ends with '{end}'")
        yield click(".ui-autocomplete li", fitting[0])
    yield click("#subbtn")


def sign_agreement(look: Look) -> Iterator[PageStep]:
    """Scroll to the end, where the fields open, sign, agree or not."""
    question = utterance(look)
    if "cancel button" in question:
        yield click("#cancel")
        return
    while attributes(look, "#name", "disabled") != [None]:
        yield PageStep(kind="scroll", selector="#text-area", value="3000")
    yield from fill_field(look, "#name", question_part(look, re.compile(r'name "(.*?)"')))
    yield click("#agree" if '"Agree"' in question else "#cancel")


def scroll_text_2(look: Look) -> Iterator[PageStep]:
    """To the end or the beginning of a text."""
    down = "to the bottom" in utterance(look)
    while True:
        left = look.js(
            "(one => [one.scrollTop, one.scrollHeight - one.clientHeight - one.scrollTop])"
            "(document.querySelector('#text-area'))"
        )
        if left[down] <= 1:
            break
        yield PageStep(kind="scroll", selector="#text-area", value="3000" if down else "-3000")
    yield click("#subbtn")


def terminal(look: Look) -> Iterator[PageStep]:
    """List the files, then remove one with the right ending, key by key."""
    question = utterance(look)
    found = re.search(r"extension \.(\S+)$", question)

    def keys(command: str) -> Iterator[PageStep]:
        typed = texts(look, "#active-input")[0]
        if not command.startswith(typed):
            for _ in typed:
                yield press("Backspace", "#terminal-target")
            typed = ""
        for key in command[len(typed) :]:
            yield press("Space" if key == " " else key, "#terminal-target")
        yield press("Enter", "#terminal-target")

    def listed() -> list[str]:
        lines = texts(look, ".terminal-output, .terminal-line:not(:last-child)")
        after = [nth for nth, line in enumerate(lines) if re.fullmatch(r"user\$ ls", line)]
        return lines[after[-1] + 1].split() if after else []

    if not listed():
        yield from keys("ls")
    fitting = [one for one in listed() if (one.endswith("." + found.group(1)) if found else "." not in one)]
    if not fitting:
        raise NoAnswer(f"no file of {listed()} is asked for by '{question}'")
    yield from keys(f"rm {fitting[0]}")


def highlight(look: Look) -> Iterator[PageStep]:
    """Draw the mouse over the text from its first to its last letter."""
    nth = re.search(r"(\d)(st|nd|rd)", utterance(look))
    paragraph = f"document.querySelectorAll('#randomText p')[{int(nth.group(1)) - 1}]" if nth else "randomText"
    ends, is_selected = look.js(
        f"""(one => {{
          const range = document.createRange(), same = text => text.replace(/\\s/g, '');
          range.selectNodeContents(one);
          const lines = Array.from(range.getClientRects()).filter(line => line.width > 0);
          const first = lines[0], last = lines[lines.length - 1];
          return [[first.left, first.top + first.height / 2, last.right, last.top + last.height / 2],
                  same(getSelection().toString()) === same(one.textContent)];
        }})({paragraph})"""
    )
    if not is_selected:
        yield drag((ends[0] + 0.5, ends[1]), (ends[2] + 1, ends[3]))
    yield click("#subbtn")


ORACLES: dict[str, Oracle] = {
    "enter-text": types_in("#tt", question_part),
    "enter-text-dynamic": types_in("#tt", question_part),
    "enter-text-2": types_in("#tt", in_case),
    "enter-date": types_in("#tt", iso_date),
    "enter-time": types_in("#tt", iso_time),
    "find-word": types_in("#answer-input", word_of_paragraph),
    "scroll-text": types_in("#answer-input", last_word),
    "copy-paste": types_in("#answer-input", copied),
    "copy-paste-2": types_in("#answer-input", copied),
    "read-table": types_in("#tt", lambda look: table_of(look)[question_part(look, re.compile(r"value of (.*) into"))]),
    "simple-algebra": types_in("#math-answer", solve_equation),
    "simple-arithmetic": types_in("#math-answer", calculated),
    "visual-addition": types_in("#math-answer", lambda look: str(count(look, ".addition-block"))),
    "text-transform": types_in("#tt", captcha),
    "enter-password": enter_password,
    "login-user": login_user,
    "login-user-popup": login_user,
    "read-table-2": read_table_2,
    "multi-layouts": search_movies,
    "multi-orderings": search_movies,
    "form-sequence-2": form_sequence_2,
    "form-sequence-3": form_sequence_3,
    "use-autocomplete": use_autocomplete,
    "use-autocomplete-nodelay": use_autocomplete,
    "sign-agreement": sign_agreement,
    "scroll-text-2": scroll_text_2,
    "terminal": terminal,
    "highlight-text": highlight,
    "highlight-text-2": highlight,
}
