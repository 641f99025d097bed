"""The page over HTTP, for this machine alone: Starlette on the loopback address.

A browser may be led here by any page that it shows, so every request must name this address as its host; answers may
be read by this page alone. Nothing is written, and no path of a request is a path of a file.
"""

from __future__ import annotations

import inspect
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from turngate.errors import ConfigError, MissingExtra
from turngate.report.viewer.assets import assets
from turngate.report.viewer.episode_record import Record
from turngate.report.viewer.live_runs import LiveRuns

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

LOOPBACK = "127.0.0.1"


def view_app(runs: LiveRuns, port: int) -> Starlette:
    """The page and the routes that it requests. ``port``: where it is served. Raises MissingExtra without starlette."""
    try:
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
        from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse
        from starlette.routing import Route
    except ImportError as error:
        raise MissingExtra("starlette", "view") from error
    page = assets("server")
    hosts = {f"{name}:{port}" for name in (LOOPBACK, "localhost")}
    headers = {
        "content-security-policy": f"{page.policy}; frame-ancestors 'none'",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-resource-policy": "same-origin",
        "cross-origin-opener-policy": "same-origin",
        "cache-control": "no-store",
    }

    async def guarded(request: Request, answer: RequestResponseEndpoint) -> Response:
        if request.headers.get("host") not in hosts:
            return PlainTextResponse(f"this page is at http://{LOOPBACK}:{port}", 421)
        response = await answer(request)
        response.headers.update(headers)
        return response

    def route(path: str, find: Callable[..., Record | None]) -> Route:
        """``find`` is called with what the query names; a query that names something else is answered by 400."""
        names = list(inspect.signature(find).parameters)

        def answer(request: Request) -> Response:
            values = dict(request.query_params)
            if sorted(values) != sorted(names):
                return PlainTextResponse(f"{path} takes {', '.join(names) or 'nothing'}", 400)
            found = find(**values)
            return PlainTextResponse("not recorded", 404) if found is None else JSONResponse(found)

        return Route(path, answer)

    def whole(request: Request) -> Response:
        return HTMLResponse(f"{page.head}{page.program}</body>\n</html>\n")

    routes = [
        Route("/", whole),
        route("/api/index", runs.index),
        route("/api/run", runs.run),
        route("/api/group", runs.group),
        route("/api/compare", runs.compare),
        route("/api/find", runs.find),
    ]
    return Starlette(routes=routes, middleware=[Middleware(BaseHTTPMiddleware, dispatch=guarded)])


def serve(runs: LiveRuns, port: int, ready: Callable[[str], None]) -> None:
    """Serve until the process is interrupted. ``port``: 0 takes a free one; ``ready`` gets the address.

    Raises MissingExtra without starlette and uvicorn, and ConfigError where the port is taken.
    """
    try:
        import uvicorn
    except ImportError as error:
        raise MissingExtra("uvicorn", "view") from error
    listener = socket.socket()
    try:
        listener.bind((LOOPBACK, port))
    except OSError as error:
        listener.close()
        raise ConfigError(f"port {port} cannot be used: {error.strerror}; name another one with --port") from error
    with listener:
        own = int(listener.getsockname()[1])
        settings = uvicorn.Config(view_app(runs, own), log_level="warning", access_log=False, lifespan="off")
        listener.listen()
        ready(f"http://{LOOPBACK}:{own}/")
        uvicorn.Server(settings).run(sockets=[listener])
