"""The host ``miniwob.local``: files of the ``miniwob`` wheel, our guard added to ``core.js`` and a policy to each page.

The policy lets a page run its own scripts, by their hashes, and nothing else: text that an agent types cannot become a
script, whether as an element, as a handler or as a ``javascript:`` address.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from turngate.envs.web.engine.site_handler import SiteRequest, SiteResponse
from turngate.envs.web.loaders.miniwob.page_guard import GUARD
from turngate.errors import MissingExtra

HOST = "miniwob.local"

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".gif": "image/gif",
    ".woff": "font/woff",
}
_INLINE_SCRIPT = re.compile(r"<script(?![^>]*\ssrc\s*=)[^>]*>(.*?)</script", re.DOTALL | re.IGNORECASE)


def html_folder() -> Path:
    """The folder of the wheel that holds the pages. Raises MissingExtra."""
    spec = find_spec("miniwob")
    folder = Path(spec.origin).parent / "html" if spec is not None and spec.origin else None
    if folder is None or not (folder / "core" / "core.js").is_file():
        raise MissingExtra("miniwob", "web")
    return folder


def url_of(page: str, mode: str = "") -> str:
    """The address of a page. ``mode``: "test" for the other half of the pages that have two."""
    return f"http://{HOST}/miniwob/{quote(page)}.html" + (f"?mode={quote(mode)}" if mode else "")


class MiniwobSite:
    """Answers GET and HEAD with files of the wheel. Raises MissingExtra."""

    def __init__(self) -> None:
        self._root = html_folder().resolve()

    def answer(self, request: SiteRequest) -> SiteResponse:
        """The file, 404 for anything but a file of the wheel, 405 for other methods."""
        if request.method not in ("GET", "HEAD"):
            return _says(405, "only GET and HEAD", {"allow": "GET, HEAD"})
        found = self._file(request.url)
        if found is None:
            return _says(404, "there is no such page")
        body, headers = _served(found, found == self._root / "core" / "core.js")
        return SiteResponse(headers=headers, body=b"" if request.method == "HEAD" else body)

    def _file(self, url: str) -> Path | None:
        try:
            path = unquote(urlsplit(url).path, errors="strict").lstrip("/")
            found = (self._root / path).resolve()
            is_served = found.is_relative_to(self._root) and found.suffix in _TYPES and found.is_file()
        except (ValueError, OSError):  # a malformed address, a null byte, a name that is too long
            return None
        return found if is_served else None


def _says(status: int, text: str, headers: dict[str, str] | None = None) -> SiteResponse:
    return SiteResponse(
        status=status, headers={"content-type": "text/plain; charset=utf-8", **(headers or {})}, body=text.encode()
    )


@lru_cache(maxsize=512)
def _served(file: Path, is_core: bool) -> tuple[bytes, dict[str, str]]:
    """The body and headers of a file of the wheel, which does not change while we run."""
    body = file.read_bytes()
    headers = {"content-type": _TYPES[file.suffix], "cache-control": "max-age=86400"}
    if is_core:
        body += GUARD.encode()
    if file.suffix == ".html":
        headers["content-security-policy"] = policy_of(body.decode(errors="replace"))
    return body, headers


def policy_of(html: str) -> str:
    """The content security policy that allows the scripts which stand in ``html`` and the site's own files."""
    scripts = (match.group(1).replace("\r\n", "\n").replace("\r", "\n") for match in _INLINE_SCRIPT.finditer(html))
    hashes = {f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in scripts}
    return "; ".join(
        (
            "default-src 'self'",
            " ".join(("script-src 'self'", *sorted(hashes))),
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data:",
            "connect-src 'none'",
            "object-src 'none'",
            "base-uri 'none'",
        )
    )
