"""Every oracle solves its page, from the page alone, in a real browser; and wrong plays are failures."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import sync_playwright

from tests.envs.web.miniwob.driver import Driver, launch
from turngate.envs.web.loaders.miniwob.hints import hint, next_step
from turngate.envs.web.loaders.miniwob.known_pages import NO_ORACLE, all_pages, page_of
from turngate.envs.web.loaders.miniwob.oracles import ORACLES
from turngate.envs.web.loaders.miniwob.page_steps import NoAnswer, PageStep, click, click_at, press
from turngate.envs.web.loaders.miniwob.reward import reward_of

SEEDS = 3


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield Driver(browser)
        browser.close()


@pytest.mark.parametrize("page", sorted(ORACLES))
def test_an_oracle_gets_the_full_reward(driver, page):
    solved, seed = 0, 0
    while solved < SEEDS and seed < 4 * SEEDS:
        seed += 1
        driver.begin(page, seed, anew=page == "click-pie")  # it keeps the wheels of all episodes, and turns them all
        try:
            reading = driver.play(ORACLES[page])
        except NoAnswer as why:
            if "does not say" in str(why):  # a few mail problems are ambiguous
                continue
            raise
        assert reading.done, f"seed {seed} of {page} is not done"
        assert page_of(page).is_right(reading.raw), f"seed {seed} of {page}: {reading.raw} ({reading.utterance})"
        solved += 1
    assert solved == SEEDS


# --- wrong plays ------------------------------------------------------------------------------------------------------


def without(page: str, *dropped: int):
    """The oracle's play without some of its steps (negative: none of the last that it takes is known before)."""

    def play(look):
        for number, step in enumerate(ORACLES[page](look)):
            if number not in dropped:
                yield step

    return play


def steps(*given: PageStep):
    return lambda look: iter(given)


def off(page: str, dx: float, dy: float):
    """The oracle's play, each click at a place moved."""

    def play(look):
        for step in ORACLES[page](look):
            yield step if step.point is None else click_at(step.point[0] + dx, step.point[1] + dy)

    return play


def other(page: str, options: str):
    """Another element of ``options`` than the one that the oracle clicks."""

    def play(look):
        step = next(ORACLES[page](look))
        amount = look.js(f"document.querySelectorAll('{options}').length")
        yield click(options, (step.nth + 1) % amount)

    return play


def smallest_card(look):
    seen = {}
    for nth in range(3):
        yield click(".card", nth)
        seen[nth] = int(look.js(f"document.querySelectorAll('.card')[{nth}].textContent"))
    yield click(".card", min(seen, key=lambda nth: seen[nth]))
    yield click("#submit")


def one_number_wrong(look):
    for nth in range(3):
        number = int(look.js(f"document.querySelectorAll('.display-number')[{nth}].textContent"))
        yield click(".row .odd" if (number % 2 == 1) != (nth == 2) else ".row .even", nth)
    yield click("#submit")


def other_property(look):
    for step in ORACLES["phone-book"](look):
        if step.selector.startswith("#contact a."):
            kind = step.selector.removeprefix("#contact a.")
            step = click(f"#contact a.{'email' if kind != 'email' else 'phone'}")
        yield step


def largest_first(look):
    yield click("svg text")
    yield click("svg rect")
    yield click("svg rect", 2)


def types_wrong(page: str):
    def play(look):
        for step in ORACLES[page](look):
            yield PageStep(kind="fill", selector=step.selector, value="wrong") if step.kind == "fill" else step

    return play


def too_late(look):
    for step in ORACLES["button-delay"](look):
        yield PageStep(kind="wait", value=str(int(int(step.value) * 1.4) + 200)) if step.kind == "wait" else step


WRONG = [
    ("click-test-2", steps(click("#subbtn2")), -1.0),
    ("click-button-sequence", steps(click("#subbtn2"), click("#subbtn")), -1.0),
    ("click-tab", other("click-tab", "#area ul a"), -1.0),
    ("click-dialog-2", steps(click(".ui-dialog-buttonset button", 1)), None),
    ("find-greatest", smallest_card, 0.1),
    ("odd-or-even", one_number_wrong, 1 / 3),
    ("phone-book", other_property, 0.4),
    ("ascending-numbers", largest_first, None),
    ("click-checkboxes-large", without("click-checkboxes-large", 0), "positive"),
    ("click-checkboxes-soft", without("click-checkboxes-soft", 0), None),
    ("click-option", without("click-option", 0), -1.0),
    ("enter-text", types_wrong("enter-text"), -1.0),
    ("simple-arithmetic", types_wrong("simple-arithmetic"), -1.0),
    ("login-user", without("login-user", 1), -1.0),
    ("circle-center", off("circle-center", 8, 8), "positive"),
    ("find-midpoint", off("find-midpoint", 8, 8), "positive"),
    ("drag-shapes-2", without("drag-shapes-2", 0), None),
    ("use-colorwheel-2", steps(click("#subbtn")), "positive"),
    ("button-delay", too_late, "positive"),
    ("use-slider", steps(click("#subbtn")), -1.0),
    ("buy-ticket", other("buy-ticket", ".buy-ticket"), None),
    ("terminal", steps(*(press(key, "#terminal-target") for key in ("e", "x", "i", "t", "Enter"))), -1.0),
]


@pytest.mark.parametrize(("page", "play", "raw"), WRONG, ids=[page for page, _, _ in WRONG])
def test_a_wrong_play_is_a_failure_whatever_the_page_pays(driver, page, play, raw):
    driver.begin(page, seed=3)
    reading = driver.play(play)
    assert reading.done
    if raw == "positive":
        assert reading.raw > 0
    elif raw is not None:
        assert reading.raw == pytest.approx(raw)
    if reading.raw > 0:
        assert page_of(page).paid_wrong  # written down
    facts = page_of(page)
    assert not facts.is_right(reading.raw)
    assert reward_of(reading.raw, full=facts.full, mode="binary") == 0
    assert reward_of(reading.raw, full=facts.full, mode="partial") < 1


# --- hints ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["click-checkboxes", "login-user", "click-button-sequence", "search-engine"])
def test_the_third_hint_is_always_the_next_step(driver, page):
    driver.begin(page, seed=4)
    for _ in range(20):
        step = next_step(page, driver)
        if step is None or driver.read().done:
            break
        first, second, third = (hint(page, driver, level) for level in (1, 2, 3))
        assert step.value in second
        assert len({first, third}) == 2
        driver.carry_out(step)  # from the page alone: a new oracle goes on where the last one stopped
    assert page_of(page).is_right(driver.read().raw)


def test_hints_say_more_and_more(driver):
    driver.begin("enter-text", seed=1)
    name = driver.read().utterance.split('"')[1]
    first, second, third = (hint("enter-text", driver, level) for level in (1, 2, 3))
    assert name not in first
    assert "field" in first
    assert name in second
    assert third == f'Do this next: fill "{name}" into the field "tt".'


@pytest.mark.parametrize("level", [0, 4])
def test_other_levels_of_hints_do_not_exist(driver, level):
    with pytest.raises(ValueError, match=f"hint level {level} does not exist"):
        hint("enter-text", driver, level)


# --- the list of pages ------------------------------------------------------------------------------------------------


def test_each_page_has_an_oracle_or_a_reason():
    assert not set(ORACLES) & set(NO_ORACLE)
    assert set(ORACLES) | set(NO_ORACLE) == set(all_pages())


def test_a_page_without_an_oracle_has_no_hint(driver):
    driver.begin("tic-tac-toe", seed=1)
    assert hint("tic-tac-toe", driver, 3) is None
