"""How a page, or the browser itself, can fail. The cause is decided by evidence (``Browser`` documents the rule).

* ``PageProblem``: an action cannot be done on this page. The agent reads the message; the episode goes on.
* ``PageDied``: the page's own code broke the page after the agent's action. The agent's failure; the episode ends.
* ``BrowserLost``: the browser broke and no page is the cause. Unusable; the next lease starts another browser.
"""

from __future__ import annotations

from turngate.errors import AgentFault, EnvError, TurngateError


class PageProblem(TurngateError):
    """An action that cannot be done; the message says what the page has instead."""


class PageDied(AgentFault):
    """The page hangs, crashed or never comes to rest, by its own code. ``reason`` is one word, the message a sentence.

    Reasons: ``hang``, ``crash``, ``dialogs``, ``navigations``, ``too_large``.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class BrowserLost(EnvError):
    """The browser is gone, was killed, or does not answer any more."""
