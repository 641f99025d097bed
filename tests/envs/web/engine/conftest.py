"""One Chromium per module of tests."""

import pytest

from tests.envs.web.engine.pages import HOST, Pages
from turngate.envs.web.engine.browser import Browser


@pytest.fixture(scope="module")
def browser():
    made = Browser()
    yield made
    made.close()


@pytest.fixture
def show(browser):
    """Opens pages in a session of their own: ``show({"/": HTML})`` or ``show(HTML)``; returns the session."""
    sessions = []

    def opened(pages, **options):
        site = pages if isinstance(pages, Pages) else Pages(pages)
        options = {"seed": 0, "sites": {HOST: site}} | options
        session = browser.lease(**options)
        sessions.append(session)
        session.open(f"http://{HOST}/")
        return session

    yield opened
    for session in sessions:
        session.close()
