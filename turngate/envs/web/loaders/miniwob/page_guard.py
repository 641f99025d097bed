"""How an episode of a page begins and how its result is read: a script that the site adds to the pages' own core.js.

It enforces four rules that the pages lack. An episode begins only by ``begin``: the cover "START", which a page shows
after loading and after its end, starts nothing. The first end counts, and no later event changes it. Seconds play no
part: no time-out, no decay, no clock on the page. And the last reward is not written on the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

GUARD = """
;(function () {
  'use strict';
  var start = core.startEpisodeReal, end = core.endEpisode, begun = false, result = null;
  var fix = function (name, value) {
    Object.defineProperty(core, name, {value: value, writable: false, configurable: false, enumerable: true});
  };
  fix('startEpisodeReal', function () {});
  fix('endEpisode', function (raw, proportional, reason) {
    if (!begun || result !== null) return;
    raw = Number(raw);
    result = {raw: isFinite(raw) ? raw : -1, reason: reason === undefined || reason === null ? '' : String(reason)};
    end(raw, false, reason);
  });
  fix('turngate', Object.freeze({
    begin: function (seed) {
      begun = false; result = null;
      document.querySelectorAll('[data-tampered]').forEach(function (one) { one.removeAttribute('data-tampered'); });
      Math.seedrandom(seed);
      core.EPISODE_MAX_TIME = 1e9;
      start();
      core.clearTimer();
      document.getElementById('reward-display').style.display = 'none';
      document.getElementById('click-canvas').style.display = 'none';
      begun = true;
      return true;
    },
    read: function () {
      var said = core.getUtterance(), whole = typeof said === 'object';
      return {begun: begun, done: result !== null, raw: result && result.raw, reason: result ? result.reason : '',
              utterance: String(whole ? said.utterance : said).replace(/\\s+/g, ' ').trim(),
              fields: whole ? said.fields || {} : {}};
    }
  }));
})();
"""

READ = "typeof core === 'object' && core.turngate ? core.turngate.read() : null"
"""JavaScript expression whose value ``PageReading.of`` understands; null on any other page."""


def begin(seed: int) -> str:
    """JavaScript expression that begins the episode of ``seed`` in a page that has loaded; its value is true.

    The seed is a number: the pages' generator gives the texts "1", "11" and "111" the same problem.
    """
    return f"core.turngate.begin({int(seed)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReading:
    """The state of a page's episode.

    ``begun``: false after the page was left or reloaded, where its result is lost. ``raw``: the page's own reward in
    [-1, 1], None until the episode is done. ``fields``: parts of the question that some pages give beside the text.
    """

    begun: bool
    done: bool
    raw: float | None
    reason: str
    utterance: str
    fields: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Mapping[str, Any] | None) -> PageReading:
        """The reading that the expression ``READ`` has given; None: the page was left."""
        if value is None:
            return cls(begun=False, done=False, raw=None, reason="the page was left", utterance="")
        raw = value["raw"]
        return cls(
            begun=bool(value["begun"]),
            done=bool(value["done"]),
            raw=None if raw is None else float(raw),
            reason=str(value["reason"]),
            utterance=str(value["utterance"]),
            fields={str(name): str(one) for name, one in value["fields"].items()},
        )
