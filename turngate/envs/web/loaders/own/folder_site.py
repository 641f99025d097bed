"""A folder of files as a site: ``http://site.test/``."""

from __future__ import annotations

import mimetypes
from pathlib import Path
from urllib.parse import unquote, urlsplit

from turngate.envs.web.engine.site_handler import SiteRequest, SiteResponse
from turngate.errors import ConfigError

HOST = "site.test"
MOST_BYTES = 32_000_000


class FolderSite:
    """Answers GET and HEAD with the files of a folder; ``index.html`` stands for a folder. Files outside of it, also
    behind a symbolic link, are not served. Raises ConfigError for a folder that does not exist."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise ConfigError(f"'{folder}' is no folder; name the folder that holds the files of the site")
        self._root = folder.resolve()

    def answer(self, request: SiteRequest) -> SiteResponse:
        """The file, 404 where there is none, 405 for other methods."""
        if request.method not in ("GET", "HEAD"):
            return SiteResponse(status=405, headers={"content-type": "text/plain", "allow": "GET, HEAD"})
        found = self._file(request.url)
        if found is None:
            return SiteResponse(status=404, headers={"content-type": "text/plain"}, body=b"there is no such page")
        kind = mimetypes.guess_type(found.name)[0] or "application/octet-stream"
        headers = {"content-type": f"{kind}; charset=utf-8" if kind.startswith("text/") else kind}
        return SiteResponse(headers=headers, body=b"" if request.method == "HEAD" else found.read_bytes())

    def _file(self, url: str) -> Path | None:
        try:
            found = (self._root / unquote(urlsplit(url).path, errors="strict").lstrip("/")).resolve()
            found = found / "index.html" if found.is_dir() else found
            inside = found.resolve().is_relative_to(self._root)
            return found if inside and found.is_file() and found.stat().st_size <= MOST_BYTES else None
        except (ValueError, OSError):  # a malformed address, a null byte, a name that is too long
            return None
