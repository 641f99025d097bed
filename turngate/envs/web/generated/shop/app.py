"""The shop as a Starlette application. It keeps nothing itself: the database of the episode comes with each request.

A page that changes something is a form with the token that the customer's pages hold, sent by POST, and answered with a
redirect. A form that is not accepted is answered with its page, which says why (422).
"""

from __future__ import annotations

import hmac
import sqlite3
from collections.abc import Awaitable, Callable
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from turngate.envs.web.generated.shop import customer_handlers as customer
from turngate.envs.web.generated.shop import goods_handlers as goods
from turngate.envs.web.generated.shop import pages, queries
from turngate.envs.web.generated.shop.changes import Missing
from turngate.envs.web.generated.shop.form_fields import FORM_TYPE, Malformed, fields_of
from turngate.envs.web.generated.shop.visits import Answer, Page, Visit
from turngate.errors import MissingExtra

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

Handler: TypeAlias = Callable[[Visit], Answer]
Endpoint: TypeAlias = "Callable[[Request], Awaitable[Response]]"
COOKIE = "session"
DATABASE, SEEN = "turngate.shop.database", "turngate.shop.seen"
"""Keys of a request's scope: the database, and a function that is told of each page that was answered."""
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; style-src 'self' 'unsafe-inline'; form-action 'self'; "
    "base-uri 'none'",
    "x-content-type-options": "nosniff",
}
_PROBLEMS = {
    400: ("Bad request", "The shop cannot read this request: {}."),
    401: ("Not signed in", "Sign in to see this page."),
    403: ("Form expired", "This form is not valid. Open its page again."),
    404: ("Page not found", "There is no such page."),
    405: ("Not allowed", "This page cannot be used in this way."),
}
_PUBLIC: dict[str, Handler] = {"/": goods.home, "/search": goods.results, "/products/{product}": goods.product}
_SHOWN: dict[str, Handler] = {
    "/cart": customer.cart,
    "/checkout": customer.checkout,
    "/checkout/review": customer.review,
    "/account": customer.account,
    "/addresses/{address}": customer.address,
    "/orders/{number}": customer.order,
    "/orders/{number}/thanks": customer.thanks,
    "/orders/{number}/lines/{line}/return": customer.return_line,
}
_SENT: dict[str, Handler] = {
    "/products/{product}": goods.add,
    "/cart/{line}/quantity": customer.set_quantity,
    "/cart/{line}/remove": customer.remove,
    "/checkout": customer.choose,
    "/checkout/review": customer.place,
    "/addresses/{address}": customer.save_address,
    "/addresses/{address}/default": customer.make_default,
    "/orders/{number}/lines/{line}/return": customer.request_return,
}


@cache
def shop_app() -> Starlette:
    """The application, made once: it serves the shops of all episodes. Raises MissingExtra."""
    try:
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException
        from starlette.responses import Response
        from starlette.routing import Route
    except ImportError as error:
        raise MissingExtra("starlette", "web") from error

    async def style(request: Request) -> Response:
        return Response(pages.STYLE, media_type="text/css", headers=_HEADERS)

    async def problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _problem(request, error.status_code)

    public = [Route(path, _shown(handler, public=True), methods=["GET"]) for path, handler in _PUBLIC.items()]
    shown = [Route(path, _shown(handler, public=False), methods=["GET"]) for path, handler in _SHOWN.items()]
    sent = [Route(path, _sent(handler), methods=["POST"]) for path, handler in _SENT.items()]
    routes = [Route("/style.css", style), *public, *shown, *sent]
    app = Starlette(routes=routes, exception_handlers={HTTPException: problem})
    app.router.redirect_slashes = False
    app.middleware_stack = app.build_middleware_stack()
    return app


def _shown(handler: Handler, *, public: bool) -> Endpoint:
    """A page that changes nothing."""

    async def endpoint(request: Request) -> Response:
        viewer = _viewer(request)
        if viewer.user is None and not public:
            return _problem(request, 401)
        try:
            fields = fields_of(request.scope["query_string"])
        except Malformed as reason:
            return _problem(request, 400, str(reason))
        return _carried_out(handler, request, Visit(_db(request), viewer, request.path_params, fields))

    return endpoint


def _sent(handler: Handler) -> Endpoint:
    """A form that changes something."""

    async def endpoint(request: Request) -> Response:
        try:
            if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM_TYPE:
                raise Malformed("it is not a form")
            fields = fields_of(await request.body())
        except Malformed as reason:
            return _problem(request, 400, str(reason))
        viewer = _viewer(request)
        if viewer.user is None:
            return _problem(request, 401)
        if not hmac.compare_digest(fields.get("csrf", "").encode(), viewer.csrf.encode()):
            return _problem(request, 403)
        return _carried_out(handler, request, Visit(_db(request), viewer, request.path_params, fields))

    return endpoint


def _carried_out(handler: Handler, request: Request, visit: Visit) -> Response:
    from starlette.responses import RedirectResponse

    try:
        answer = handler(visit)
    except Missing:
        return _problem(request, 404)
    if isinstance(answer, Page):
        return _page(request, answer)
    return RedirectResponse(answer.to, status_code=303, headers=_HEADERS)


def _problem(request: Request, status: int, reason: str = "") -> Response:
    title, text = _PROBLEMS[status]
    html = pages.notice(title, _viewer(request), text.format(reason))
    return _page(request, Page(kind="problem", html=html, status=status))


def _page(request: Request, page: Page) -> Response:
    from starlette.responses import HTMLResponse

    status = 422 if page.error else page.status
    request.scope[SEEN](page.kind, status, page.error)
    return HTMLResponse(page.html, status_code=status, headers=_HEADERS)


def _viewer(request: Request) -> pages.Viewer:
    """The customer whose session the request's cookie names."""
    db = _db(request)
    for part in request.headers.get("cookie", "").split(";"):
        name, _, token = part.strip().partition("=")
        if name == COOKIE and (user := queries.signed_in(db, token)):
            return pages.Viewer(user, len(queries.cart(db, user["id"])))
    return pages.Viewer()


def _db(request: Request) -> sqlite3.Connection:
    db: sqlite3.Connection = request.scope[DATABASE]
    return db
