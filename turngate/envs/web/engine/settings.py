"""The settings of an episode's browser, and the limits that it keeps."""

from __future__ import annotations

from dataclasses import dataclass, field

from turngate.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Deadlines in seconds of real time, and most numbers of things. No page that works as it should exceeds them."""

    action_s: float = 20.0
    """Longest time of one action with all of its effects; then the page counts as hanging."""
    load_s: float = 8.0
    """Longest wait for the answers of servers in one action; answers that are still missing then are not waited for
    again."""
    answer_s: float = 10.0
    """Longest time that a ``SiteHandler`` in this process may take for one answer."""
    tabs: int = 8
    """Most tabs; one more is closed at once, and counted."""
    dialogs: int = 30
    """Most dialogs in one action; a page that shows more never ends."""
    navigations: int = 30
    """Most navigations in one action; a page that makes more never comes to rest."""
    log: int = 1_000
    """Most requests, dialogs and downloads that are kept; the first ones are."""
    elements: int = 2_000
    """Most elements of one ``PageView``."""
    nodes: int = 20_000
    """Most nodes of a page that one ``PageView`` looks at."""
    dom_chars: int = 400_000
    """Most characters of ``PageView.dom``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSettings:
    """How pages look and what time it is in them. The content of pages is a function of this, the sites and the
    actions."""

    width: int = 1024
    height: int = 768
    locale: str = "en-US"
    timezone: str = "UTC"
    start_s: int = 1_767_225_600
    """The time at which each episode begins, in seconds since 1970: 2026-01-01 by default."""
    action_ms: int = 100
    """How far the page's clock moves with each action, in milliseconds. Nothing else moves it."""
    dialogs: str = "accept"
    """The answer to alert, confirm and prompt: ``accept`` or ``dismiss``. A page may always be left."""
    prompt_text: str = ""
    """Text that is typed into a prompt before it is accepted."""
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.dialogs not in ("accept", "dismiss"):
            raise ConfigError(f"dialogs is '{self.dialogs}'; use 'accept' or 'dismiss'")
        for name in ("width", "height", "action_ms"):
            if (value := getattr(self, name)) < 1:
                raise ConfigError(f"{name} is {value}; it must be at least 1")
