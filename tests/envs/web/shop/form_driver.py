"""A browser for tests that knows links and forms only: it reads the shop's HTML and carries out the steps of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlencode, urljoin
from xml.etree import ElementTree

from turngate.envs.web.engine.site_handler import SiteRequest, SiteResponse
from turngate.envs.web.generated.shop.records import PlanStep
from turngate.envs.web.generated.shop.shop_site import START_URL, ShopSite

ROLES = {"search": "searchbox", "text": "textbox", "number": "spinbutton", "radio": "radio"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    form: Element | None = None
    select: Element | None = None
    text: str = ""
    value: str = ""
    options: list[Element] = field(default_factory=list)


class Document:
    """The elements of a page in their order. Raises ParseError for a page that is not well-formed."""

    def __init__(self, html: str) -> None:
        self.elements: list[Element] = []
        self._add(ElementTree.fromstring(html), None, None)

    def _add(self, node: ElementTree.Element, form: Element | None, select: Element | None) -> None:
        element = Element(node.tag, dict(node.attrib), form, select, "".join(node.itertext()), node.get("value", ""))
        self.elements.append(element)
        if node.tag == "option":
            assert select is not None
            select.options.append(element)
            if "selected" in node.attrib or len(select.options) == 1:
                select.value = element.value
        for child in node:
            self._add(child, element if node.tag == "form" else form, element if node.tag == "select" else select)

    def role(self, element: Element) -> str:
        if element.tag == "input":
            return ROLES.get(element.attributes.get("type", "text"), "")
        return {"a": "link", "button": "button", "select": "combobox"}.get(element.tag, "")

    def name(self, element: Element) -> str:
        if "aria-label" in element.attributes:
            return element.attributes["aria-label"]
        if element.tag in ("input", "select"):
            labels = [
                one
                for one in self.elements
                if one.tag == "label" and one.attributes["for"] == element.attributes.get("id")
            ]
            return labels[0].text if labels else ""
        return element.text

    def find(self, role: str, name: str) -> Element:
        """The only element of this role and name."""
        found = [one for one in self.elements if self.role(one) == role and self.name(one) == name]
        assert len(found) == 1, f"{len(found)} elements are a {role} '{name}'"
        return found[0]


class Browser:
    """One tab of the shop."""

    def __init__(self, site: ShopSite, *, signed_in: bool = True) -> None:
        self.site = site
        self.cookie = "; ".join(f"{name}={value}" for name, value in site.cookies.items()) if signed_in else ""
        self.answered: str | None = None
        self.go("/")

    def go(self, to: str) -> SiteResponse:
        return self.send("GET", to)

    def post(self, to: str, **fields: str) -> SiteResponse:
        return self.send("POST", to, urlencode(fields).encode())

    def send(self, method: str, to: str, body: bytes = b"") -> SiteResponse:
        """Send a request and follow redirects."""
        self.url = urljoin(getattr(self, "url", START_URL), to)
        headers = {"cookie": self.cookie, **({"content-type": "application/x-www-form-urlencoded"} if body else {})}
        response = self.site.answer(SiteRequest(method=method, url=self.url, headers=headers, body=body))
        if response.status == 303:
            return self.send("GET", response.headers["location"])
        self.response, self.html = response, response.body.decode()
        self._page: Document | None = None
        return response

    @property
    def page(self) -> Document:
        """The elements of the page, read when they are first needed."""
        self._page = self._page or Document(self.html)
        return self._page

    @property
    def csrf(self) -> str:
        """The token of the page's forms."""
        return next(one.value for one in self.page.elements if one.attributes.get("name") == "csrf")

    def do(self, step: PlanStep) -> None:
        """Carry out one step."""
        if step.kind == "answer":
            self.answered = step.value
            return
        element = self.page.find(step.role, step.name)
        if step.kind == "fill":
            element.value = step.value
        elif step.kind == "select":
            (chosen,) = [one for one in element.options if one.text == step.value]
            element.value = chosen.value
        elif step.role == "link":
            self.go(element.attributes["href"])
        elif step.role == "radio":
            for one in self.page.elements:
                if one.attributes.get("name") == element.attributes["name"]:
                    one.attributes.pop("checked", None)
            element.attributes["checked"] = ""
        else:
            self.submit(element.form)

    def submit(self, form: Element | None) -> None:
        assert form is not None
        fields = {
            one.attributes["name"]: one.value
            for one in self.page.elements
            if one.form is form
            and "name" in one.attributes
            and (one.attributes.get("type") != "radio" or "checked" in one.attributes)
        }
        if form.attributes["method"] == "get":
            self.go(f"{form.attributes['action']}?{urlencode(fields)}")
        else:
            self.post(form.attributes["action"], **fields)
