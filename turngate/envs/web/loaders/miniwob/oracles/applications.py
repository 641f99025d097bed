"""Pages that look like small applications: mail, posts, shops for food, tickets and flights, an editor."""

from __future__ import annotations

import re
from collections.abc import Iterator

from turngate.envs.web.loaders.miniwob.oracles.clicking import question_part
from turngate.envs.web.loaders.miniwob.oracles.opening import ANIMATION_MS, picked_date
from turngate.envs.web.loaders.miniwob.page_steps import (
    Look,
    NoAnswer,
    Oracle,
    PageStep,
    click,
    count,
    drag,
    fill_field,
    nth_with,
    texts,
    utterance,
    visible_flags,
    wait,
)

# --- mail -------------------------------------------------------------------------------------------------------------

MAIL = re.compile(
    r"Find the email by (?P<by>.*?) and (?:(?P<delete>click the trash)|(?P<star>click the star)"
    r'|forward that email to (?P<to>.*)\.|reply to them with the text "(?P<text>.*)"\.)'
)


def email_inbox(look: Look) -> Iterator[PageStep]:
    """Delete, mark, answer or forward the mail of a person."""
    asks = MAIL.search(utterance(look))
    if asks is None:
        raise NoAnswer(f"the question is '{utterance(look)}'")
    yield from mailed(look, **asks.groupdict())


def mailed(
    look: Look, by: str, delete: str | None, star: str | None, to: str | None, text: str | None
) -> Iterator[PageStep]:
    """Carry out one of the four, in the list of mails or in the open mail."""
    if not count(look, "#email"):
        senders = texts(look, "#main .email-thread .email-sender")
        if to is not None and senders.count(by) > 1:
            raise NoAnswer(f"{by} has sent several mails, and the question does not say which to forward")
        thread = nth_with(senders, by)
        if delete or star:
            yield click(f"#main .email-thread .{'trash' if delete else 'star'}", thread)
            return
        yield click("#main .email-thread", thread)
    if delete or star:
        yield click(f"#email .{'trash' if delete else 'star'}")
    elif to is not None:
        if not count(look, "#forward"):
            yield click("#email .email-forward")
        yield from fill_field(look, "#forward .forward-sender", to)
        yield click("#send-forward")
    else:
        if not count(look, "#reply"):
            yield click("#email .email-reply")
        yield from fill_field(look, "#reply-text", text or "")
        yield click("#send-reply")


# --- posts ------------------------------------------------------------------------------------------------------------


def social_media(look: Look) -> Iterator[PageStep]:
    """One button of a post; some are in a menu."""
    question = re.search(r'user (@\S+), click on the "(.*)" button', utterance(look))
    if question is None:
        raise NoAnswer(f"the question is '{utterance(look)}'")
    user, label = question.groups()
    post = nth_with(texts(look, ".media .username"), user)
    if label in ("Reply", "Retweet", "Like"):
        yield click(f".media .{label.lower()}", post)
        return
    items = 6
    labels = texts(look, ".media ul li")[post * items : (post + 1) * items]
    nth = next((nth for nth, one in enumerate(labels) if one.startswith(label)), None)
    if nth is None:
        raise NoAnswer(f"the menu holds {labels}, not '{label}'")
    if not visible_flags(look, ".media ul")[post]:
        yield click(".media .more", post)
    yield click(".media ul li", post * items + nth)


def social_media_many(look: Look) -> Iterator[PageStep]:
    """The same button of all or some posts of one person."""
    question = re.search(r'"(\w+)" button on (all|\d+) posts? by (@\S+)', utterance(look))
    if question is None:
        raise NoAnswer(f"the question is '{utterance(look)}'")
    label, amount, user = question.groups()
    posts = [nth for nth, name in enumerate(texts(look, ".media .username")) if name == user]
    wanted = posts if amount == "all" else posts[: int(amount)]
    kind = label.lower()
    active = look.js(
        f"Array.from(document.querySelectorAll('.media .{kind}'), one => one.classList.contains('active'))"
    )
    for nth, is_active in enumerate(active):
        if is_active != (nth in wanted):
            yield click(f".media .{kind}", nth)
    yield click("#submitRow button")


# --- shops ------------------------------------------------------------------------------------------------------------


def order_food(look: Look) -> Iterator[PageStep]:
    """Dishes by name, or a number of dishes with a property."""
    question = utterance(look)
    dishes = look.js(
        "Array.from(document.querySelectorAll('.food-item'), one => ["
        "one.querySelector('.item-name').textContent.trim(),"
        " Array.from(one.querySelectorAll('img'), image => image.alt), Number(one.dataset.quantity)])"
    )
    if found := re.search(r"Order (\d+) items that are (\S+)", question):
        fitting = [nth for nth, (_, kinds, _) in enumerate(dishes) if found.group(2) in kinds]
        if not fitting:
            raise NoAnswer(f"no dish is {found.group(2)}")
        wanted = [int(found.group(1)) * (nth == fitting[0]) for nth in range(len(dishes))]
    else:
        names = question_part(look, re.compile(r"item: (.*)")).split(", ")
        wanted = [int(name in [one.strip() for one in names]) for name, _, _ in dishes]
    for nth, (_, _, quantity) in enumerate(dishes):
        for _ in range(abs(wanted[nth] - quantity)):
            yield click(f".food-item .{'add' if wanted[nth] > quantity else 'remove'}", nth)
    yield click("#submit-order button")


def minutes_of(duration: str) -> int:
    """ "13h 5m" in minutes."""
    hours, minutes = re.findall(r"\d+", duration)
    return int(hours) * 60 + int(minutes)


def best(look: Look, wish: str, price: str) -> int:
    """The number of the cheapest, most expensive, shortest or longest offer, whose prices stand in ``price``."""
    if "cheap" in wish or "expensive" in wish:
        values = [int(re.findall(r"\d+", one)[-1]) for one in texts(look, price)]
    else:
        values = [minutes_of(one) for one in texts(look, ".time-duration")]
    return values.index(max(values) if "expensive" in wish or "longest" in wish else min(values))


def buy_ticket(look: Look) -> Iterator[PageStep]:
    """The ticket that is best in one respect."""
    yield click(".buy-ticket", best(look, utterance(look), ".buy-ticket"))


def book_flight(look: Look) -> Iterator[PageStep]:
    """Search for flights between two places on a day, then book the best in one respect."""
    question = re.search(r"Book the (\w+) .* from: (.*) to: (.*) on (\d+)/(\d+)/2016", utterance(look))
    if question is None:
        raise NoAnswer(f"the question is '{utterance(look)}'")
    wish, origin, destination, month, day = question.groups()
    if not any(visible_flags(look, "#results .flight")):
        for field, place in (("#flight-from", origin), ("#flight-to", destination)):
            held = look.js(f"document.querySelector('{field}').value")
            if place not in held or held == place:
                yield PageStep(kind="fill", selector=field, value=place)
                yield wait(ANIMATION_MS)  # the list of places opens after a pause
                offers = texts(look, ".ui-autocomplete li")
                visible = visible_flags(look, ".ui-autocomplete li")
                fitting = [n for n, one in enumerate(offers) if place in one and visible[n]]
                if not fitting:
                    raise NoAnswer(f"none of {offers} is {place}")
                yield click(".ui-autocomplete li", fitting[0])
        yield from picked_date(look, int(month), int(day))
        yield click("#search")
    yield click("#results .flight-price", best(look, wish, "#results .flight-price"))


# --- editor -----------------------------------------------------------------------------------------------------------


EDITOR_COLOURS = {
    "red": "#e60000",
    "orange": "#ff9900",
    "yellow": "#ffff00",
    "green": "#008a00",
    "blue": "#0066cc",
    "purple": "#9933ff",
}


def text_editor(look: Look) -> Iterator[PageStep]:
    """Select a word or everything with the mouse, then give it a style or a colour."""
    question = re.search(
        r"(?:give the text |give |make )(?P<text>.*?) the (?:style|color) (?P<style>[a-z]+)", utterance(look)
    )
    if question is None:
        raise NoAnswer(f"the question is '{utterance(look)}'")
    text, style = question.group("text"), question.group("style")
    ends = look.js(
        f"""(text => {{
          const node = document.querySelector('.ql-editor p').firstChild, range = document.createRange();
          const at = text === 'everything' ? 0 : node.data.split(' ').slice(0, node.data.split(' ').indexOf(text))
            .reduce((sum, word) => sum + word.length + 1, 0);
          range.setStart(node, at);
          range.setEnd(node, text === 'everything' ? node.data.length : at + text.length);
          const lines = Array.from(range.getClientRects()), first = lines[0], last = lines[lines.length - 1];
          return [first.left, first.top + first.height / 2, last.right, last.top + last.height / 2];
        }})({text!r})"""
    )
    yield drag((ends[0] + 0.5, ends[1]), (ends[2], ends[3]))
    if style in EDITOR_COLOURS:
        yield click(".ql-color .ql-picker-label")
        yield click(f".ql-color .ql-picker-item[data-value='{EDITOR_COLOURS[style]}']")
    else:
        yield click({"bold": ".ql-bold", "italics": ".ql-italic", "underlined": ".ql-underline"}[style])
    yield click("#subbtn")


ORACLES: dict[str, Oracle] = {
    **dict.fromkeys(
        (
            "email-inbox",
            "email-inbox-delete",
            "email-inbox-forward",
            "email-inbox-important",
            "email-inbox-noscroll",
            "email-inbox-reply",
            "email-inbox-star-reply",
        ),
        email_inbox,
    ),
    "social-media": social_media,
    "social-media-all": social_media_many,
    "social-media-some": social_media_many,
    "order-food": order_food,
    "buy-ticket": buy_ticket,
    "book-flight": book_flight,
    "book-flight-nodelay": book_flight,
    "text-editor": text_editor,
}
