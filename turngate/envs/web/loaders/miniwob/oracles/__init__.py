"""Oracles of the pages: generators that look at the page, never into its scripts, and act as a person would."""

from __future__ import annotations

from turngate.envs.web.loaders.miniwob.oracles import (
    applications,
    choices,
    clicking,
    dragging,
    drawn,
    opening,
    typing_in,
)
from turngate.envs.web.loaders.miniwob.page_steps import Oracle

ORACLES: dict[str, Oracle] = {
    **clicking.ORACLES,
    **choices.ORACLES,
    **typing_in.ORACLES,
    **opening.ORACLES,
    **applications.ORACLES,
    **dragging.ORACLES,
    **drawn.ORACLES,
}
"""Page → its oracle."""
