"""The page on which a slide is drawn: ``http://slide.test/``."""

from __future__ import annotations

from urllib.parse import urlsplit

from turngate.envs.web.engine.site_handler import SiteRequest, SiteResponse

HOST = "slide.test"
START_URL = f"http://{HOST}/"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""No scripts, images, fonts or frames: only the document and its own styles are drawn, and nothing is fetched."""


class SlideSite:
    """Answers with the slide as it was written last. ``html``: its document; "" before the first."""

    def __init__(self) -> None:
        self.html = ""

    def answer(self, request: SiteRequest) -> SiteResponse:
        """The slide; 404 for everything else."""
        if request.method != "GET" or urlsplit(request.url).path != "/":
            return SiteResponse(status=404, headers={"content-type": "text/plain"})
        headers = {"content-type": "text/html; charset=utf-8", "content-security-policy": _POLICY}
        return SiteResponse(headers=headers, body=self.html.encode("utf-8", "replace"))
