"""Whether a context can serve another episode, and how it is made as new."""

from __future__ import annotations

import asyncio

from turngate.envs.web.engine.episode_context import EpisodeContext
from turngate.envs.web.engine.network import SiteProxy

USES = 200
"""Most episodes of one context, so that what Chromium itself keeps about it stays bounded."""


async def make_clean(episode: EpisodeContext, gate: SiteProxy, seed: int) -> bool:
    """Make ``episode`` as new if no state of it can remain. False if that cannot be proven; then nothing relevant has
    changed, and the context has to be thrown away."""
    if not await _is_clean(episode):
        return False
    tab = await episode.tab()
    await tab.cdp.send("Page.navigate", {"url": "about:blank"})
    tab.leave_world()
    await asyncio.gather(
        tab.page.mouse.move(-10, -10),  # the pointer of a new page is nowhere
        episode.restart(gate, seed),
    )
    # Else one could go back into the last episode. Done last: ``navigate`` is answered before the blank page is there.
    await tab.cdp.send("Page.resetNavigationHistory")
    return True


async def _is_clean(episode: EpisodeContext) -> bool:
    if episode.dirty or episode.uses >= USES or len(episode.tabs) != 1 or gate_passed(episode):
        return False
    tab = await episode.tab()
    if tab.busy or len(origins := tab.origins - {"://", "null"}) > 1 or tab.error:
        return False
    assert episode.context is not None
    if await episode.context.cookies():
        return False
    kept = await tab.call("storage")
    if origins and kept["origin"] not in origins:
        return False
    return not any(kept[name] for name in ("local", "session", "name", "databases", "caches"))


def gate_passed(episode: EpisodeContext) -> bool:
    """Whether anything went to the real network, whose connections and caches outlive the page."""
    return any(seen.status is None and not seen.refused for seen in episode.gate.seen)
