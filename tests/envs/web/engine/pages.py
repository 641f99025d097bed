"""Pages for the tests of the browser, and how their elements are found."""

from turngate.envs.web.engine.site_handler import SiteResponse

HOST = "pages.test"


class Pages:
    """A site of pages by path: HTML, a SiteResponse, or a function from the request to one of them."""

    def __init__(self, pages):
        self.pages = pages if isinstance(pages, dict) else {"/": pages}
        self.asked = []

    def answer(self, request):
        path = request.url.split(HOST, 1)[-1].partition("?")[0]
        self.asked.append(request)
        found = self.pages.get(path)
        if callable(found):
            found = found(request)
        if found is None:
            return SiteResponse(status=404, body=b"<title>none</title><p>There is no such page")
        if isinstance(found, SiteResponse):
            return found
        return SiteResponse(headers={"content-type": "text/html; charset=utf-8"}, body=found.encode())


def redirect(place, status=302):
    return SiteResponse(status=status, headers={"location": place})


def ref(session, name, role=None):
    """The reference of the one element with this name."""
    (found,) = [one for one in session.observe().elements() if one.name == name and role in (None, one.role)]
    return found.ref


def texts(session):
    """All that the page says, as one text."""
    return session.observe().outline()


def click(session, name):
    session.click_on(ref(session, name))
