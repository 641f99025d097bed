"""The page's own world: an episode begins once, its first end counts, and nothing that is typed becomes a script."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import sync_playwright

from tests.envs.web.miniwob.driver import Driver, launch
from turngate.envs.web.loaders.miniwob.known_pages import all_pages
from turngate.envs.web.loaders.miniwob.miniwob_site import url_of
from turngate.envs.web.loaders.miniwob.page_guard import begin
from turngate.envs.web.loaders.miniwob.page_steps import click, press


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield Driver(browser)
        browser.close()


def test_the_first_end_counts(driver):
    driver.begin("click-test-2", seed=1)
    driver.carry_out(click("#subbtn2"))
    assert driver.read().raw == -1
    driver.js("document.getElementById('subbtn').click()")
    assert driver.read().raw == -1


def test_the_cover_starts_nothing_after_the_end(driver):
    driver.begin("click-test-2", seed=1)
    driver.carry_out(click("#subbtn2"))
    driver.carry_out(click("#sync-task-cover"))
    reading = driver.read()
    assert (reading.done, reading.raw) == (True, -1)
    assert driver.js("document.getElementById('sync-task-cover').style.display") == "block"


def test_a_page_that_was_loaded_anew_has_not_begun_and_pays_nothing(driver):
    driver.begin("click-test", seed=1)
    driver.page.reload()
    driver.carry_out(click("#sync-task-cover"))
    driver.js("document.getElementById('subbtn').click()")
    reading = driver.read()
    assert (reading.begun, reading.done, reading.raw) == (False, False, None)
    driver.js(begin(2))
    assert driver.read().begun


def test_the_functions_that_begin_and_end_cannot_be_replaced(driver):
    driver.begin("click-test-2", seed=1)
    driver.js("[core.endEpisode = null, core.startEpisodeReal = null, core.turngate = null, 0][3]")
    driver.carry_out(click("#subbtn"))
    assert driver.read().raw == 1


def test_no_time_runs_out_and_no_clock_is_shown(driver):
    driver.begin("click-test", seed=1)
    before = driver.js("document.body.innerHTML")
    driver.page.clock.run_for(60 * 60 * 1000)
    assert driver.js("document.body.innerHTML") == before
    assert not driver.js("document.getElementById('reward-display').offsetWidth")
    driver.carry_out(click("#subbtn"))
    assert driver.read().raw == 1


@pytest.mark.parametrize("text", ["<img src=x onerror=core.endEpisode(1)>", "<script>core.endEpisode(1)</script>"])
def test_what_is_typed_into_the_terminal_is_no_script(driver, text):
    """The page writes the command into its HTML."""
    driver.begin("terminal", seed=1)
    for key in (*text, "Enter"):
        driver.carry_out(press("Space" if key == " " else key, "#terminal-target"))
    driver.page.wait_for_timeout(100)
    assert not driver.read().done


def test_a_javascript_address_does_nothing(driver):
    driver.begin("click-test", seed=1)
    driver.js("(one => { one.id = 'trap'; one.href = 'javascript:core.endEpisode(1)'; one.textContent = 'x';"
              " document.body.prepend(one); })(document.createElement('a'))")  # fmt: skip
    driver.carry_out(click("#trap"))
    assert not driver.read().done


def test_a_seed_gives_the_same_problem_in_a_fresh_page_and_again(driver):
    for page in ("email-inbox", "drag-shapes", "click-menu", "form-sequence-3", "use-autocomplete"):
        seen = []
        for anew in (True, False, True):
            driver.begin(page, seed=7, anew=anew)
            seen.append((driver.read().utterance, driver.js("document.getElementById('area').textContent")))
            driver.begin(page, seed=8)
        assert seen[0] == seen[1] == seen[2], page


def test_the_other_half_of_a_page_asks_other_questions(driver):
    driver.begin("click-test-transfer", seed=1)
    assert driver.read().utterance == "Click button ONE."
    driver.begin("click-test-transfer", seed=1, mode="test")
    assert driver.read().utterance == "Click button TWO."


def test_every_page_starts_without_leaving_the_site(driver):
    errors: list[str] = []
    driver.page.on("pageerror", lambda error: errors.append(str(error)))
    driver.asked.clear()
    for page in all_pages():
        driver.begin(page, seed=1)
        reading = driver.read()
        assert reading.begun, page
        assert not reading.done, page
        assert reading.utterance, page
    assert errors == []
    assert all(address.startswith(url_of("x").removesuffix("miniwob/x.html")) for address in driver.asked)


def test_fields_beside_the_question_are_read(driver):
    driver.begin("email-inbox-forward-nl", seed=1)
    reading = driver.read()
    assert set(reading.fields) == {"by", "to"}
    assert all(name in reading.utterance for name in reading.fields.values())
