"""Finds playwright and Chromium, or says in one line how to install them."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from turngate.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    from playwright.async_api import Playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def require_playwright() -> None:
    """Raise MissingExtra if playwright cannot be imported."""
    try:
        import playwright.async_api  # noqa: F401
    except ImportError as error:
        raise MissingExtra("playwright", "web") from error


def executable(playwright: Playwright, wanted: str | None = None) -> str:
    """The path of the browser: ``wanted``, else playwright's own, else the first of ``NAMES`` on PATH.

    Raises ConfigError if there is none.
    """
    if wanted is not None:
        if not os.access(wanted, os.X_OK):
            raise ConfigError(f"there is no browser at '{wanted}'; name the path of Chromium, or leave it out")
        return wanted
    own = playwright.chromium.executable_path
    found = own if os.path.exists(own) else next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise ConfigError(
            "no Chromium was found; run: sudo apt-get install chromium (or: playwright install --with-deps chromium)"
        )
    return found
