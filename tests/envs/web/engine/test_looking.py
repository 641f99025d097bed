"""What is seen of a page: roles and names as Playwright has them, references that stay, no trust in the page."""

import re
import time
from collections import Counter

import pytest

from tests.envs.web.engine.pages import click, ref, texts
from turngate.envs.web.engine.page_problems import PageProblem

pytestmark = pytest.mark.component

FORM = """<h1>Order</h1><form aria-label=Order><label for=a>Name</label><input id=a placeholder=You>
  <label>Age <input type=number value=3></label><input type=search aria-label=Find><input type=checkbox id=c checked>
  <label for=c>Agree</label><fieldset><legend>Size</legend><label><input type=radio name=s checked> Small</label>
  <label><input type=radio name=s> Large</label></fieldset><select aria-label=Colour><option>Red<option selected>Blue
  </select><textarea aria-label=Note>hi</textarea><input type=range aria-label=Volume><button disabled>Send</button>
  <input type=submit value=Go><input type=reset></form>"""
ARTICLE = """<header><nav aria-label=Main><ul><li><a href=/a>First</a><li>
  <a href=/b>Second <b>bold</b></a></ul></nav></header>
  <main><article><h2>Title</h2><p>Some <em>very</em> plain text.</p><img src=x alt=Picture><hr>
  <blockquote>Said</blockquote></article></main>
  <footer>End</footer>"""
TABLE = """<table><caption>Prices</caption><thead><tr><th>Item<th>Price</tr></thead><tbody>
  <tr><td>Tea<td>3</tr>
  <tr><td><a href=/c>Cake</a><td><button>Buy cake</button></tr></tbody></table>"""
ARIA = """<div role=tablist><div role=tab aria-selected=true tabindex=0>One</div>
  <div role=tab tabindex=-1>Two</div></div>
  <div role=dialog aria-labelledby=t><h2 id=t>Sure?</h2><div role=button tabindex=0 aria-pressed=true>Yes</div></div>
  <div role=switch aria-checked=true tabindex=0 aria-label=Dark></div><div role=alert>Careful</div>
  <button style="visibility:hidden">Hidden</button><button style="display:none">Gone</button>"""


def ours(session):
    """Roles and names; Playwright leaves out the names of rows and cells that consist of elements."""
    seen = [(one.role, one.name, one.children) for one in session.observe().elements()]
    left_out = [role == "row" or (role == "cell" and bool(inner)) for role, _, inner in seen]
    pairs = [(role, "" if bare else name) for (role, name, _), bare in zip(seen, left_out, strict=True)]
    return Counter(pair for pair in pairs if pair[0] != "generic")


def playwrights(session):
    """Roles and names of ``aria_snapshot``, which is the reference."""

    async def snapshot(episode):
        return await (await episode.tab()).page.aria_snapshot(mode="ai")

    found = []
    for line in session._do(snapshot).splitlines():
        match = re.match(r"\s*- '?([a-z]+)(?: \"((?:[^\"\\]|\\.)*)\")?", line)
        if match and match[1] not in ("generic", "text"):
            found.append((match[1], (match[2] or "").replace('\\"', '"')))
    return Counter(found)


@pytest.mark.parametrize("page", [FORM, ARTICLE, TABLE, ARIA], ids=["form", "article", "table", "aria"])
def test_roles_and_names_are_those_of_playwright(show, page):
    session = show(page)
    assert ours(session) == playwrights(session)


def test_values_and_states(show):
    found = {one.name: one for one in show(FORM).observe().elements()}
    assert (found["Age"].value, found["Colour"].value, found["Note"].value) == ("3", "Blue", "hi")
    assert found["Send"].states["disabled"] is True
    assert found["Agree"].states["checked"] is True
    assert (found["Small"].states["checked"], found["Large"].states["checked"]) == (True, False)


def test_references_stay_while_the_element_lives_and_go_on_over_pages(show):
    page = """<ul><li>a<li>b</ul><button onclick="document.querySelector('li').before(
      Object.assign(document.createElement('li'), {textContent: 'new'}))">Add</button><a href="/2">Next</a>"""
    session = show({"/": page, "/2": page})
    before = {one.ref: one.role for one in session.observe().elements()}
    button = ref(session, "Add")
    session.evaluate("0")
    click(session, "Add")
    after = {one.ref: one.role for one in session.observe().elements()}
    assert before.items() <= after.items()
    assert (len(after) - len(before), ref(session, "Add")) == (1, button)
    click(session, "Next")
    with pytest.raises(PageProblem, match=f"no element {button} on this page any more"):
        session.click_on(button)
    assert not {one.ref for one in session.observe().elements()} & set(after)


def test_shadow_roots_and_frames_are_part_of_the_page(show):
    inner = "<button onclick=&quot;this.textContent = 'pressed'&quot;>Inside</button>"
    session = show(f"""<div style="height: 300px"></div><div id=h></div><iframe srcdoc="{inner}"></iframe><script>
      const root = h.attachShadow({{mode: 'open'}});
      root.innerHTML = '<button>Shadow</button>';
      root.firstChild.onclick = (e) => e.target.textContent = 'clicked';</script>""")
    click(session, "Shadow")
    click(session, "Inside")
    assert {"clicked", "pressed"} <= {one.name for one in session.observe().elements()}


COVERED = """<button id=a>Under</button>
  <div style="position:fixed;inset:0;background:#eee" role=dialog aria-label=Cookies>
  <button disabled>Off</button><button style="visibility:hidden" id=v>Veiled</button><input readonly aria-label=Fixed>
  <select aria-label=List><option>One<option disabled>Two</select><input type=date aria-label=Day></div>"""


def test_what_cannot_be_done_is_said_with_what_is_there_instead(show):
    session = show(COVERED)
    found = {one.name: one for one in session.observe().elements()}
    assert 'dialog "Cookies"' in found["Under"].covered_by
    for attempt, said in [
        (lambda: session.click_on(found["Under"].ref), r'button "Under"\) is covered by e\d+ dialog "Cookies"'),
        (lambda: session.click_on(found["Off"].ref), r'button "Off"\) is disabled'),
        (lambda: session.click_on("e999"), "no element e999"),
        (lambda: session.click_on("#a"), "'#a' is not a reference"),
        (lambda: session.click(5000, 1), r"outside the viewport of 1024 x 768"),
        (lambda: session.fill(found["Fixed"].ref, "x"), "read only"),
        (lambda: session.fill(found["Off"].ref, "x"), "not a text field"),
        (lambda: session.fill(found["Day"].ref, "tomorrow"), "takes YYYY-MM-DD"),
        (lambda: session.select(found["List"].ref, "Three"), "no option 'Three'; its options: 'One', 'Two'"),
        (lambda: session.select(found["List"].ref, "Two"), "is disabled"),
        (lambda: session.press("Hyper+Q"), r"no key 'Hyper\+Q'"),
        (lambda: session.switch_tab(3), "no tab 3"),
        (session.back, "no page before"),
    ]:
        with pytest.raises(PageProblem, match=said):
            attempt()
    session.fill(found["Day"].ref, "2026-02-03")
    assert next(one.value for one in session.observe().elements() if one.name == "Day") == "2026-02-03"


def test_mouse_and_keyboard_do_what_a_persons_do(show):
    session = show("""<p id=o></p><input aria-label=Text><div id=d draggable=false style="width:50px;height:50px"
      tabindex=0 aria-label=Box role=button>x</div><div style="height:3000px"></div><script>const say = (x) =>
      o.textContent += x + ';'; d.onmousedown = () => say('down'); onmouseup = () => say('up');
      d.onmouseover = () => say('over'); onkeydown = (e) => say(e.key);</script>""")
    box = ref(session, "Box")
    session.hover_on(box)
    session.drag((20, 70), (200, 300))
    session.click_on(ref(session, "Text"))
    session.type("ab")
    session.press(["Backspace", "Control+A"])
    session.scroll(0, 500)
    assert session.observe().scroll == (0, 500)
    session.fill(ref(session, "Text"), "new ü")
    assert next(one.value for one in session.observe().elements() if one.name == "Text") == "new ü"
    said = texts(session)
    assert "over;" in said
    assert "a;b;Backspace;" in said


HOSTILE = """<form id=f><input name=children value=x aria-label=Field><input name=parentNode>
  <button>Real</button></form>
  <script>
  for (const proto of [Node.prototype, Element.prototype, Document.prototype, HTMLElement.prototype, Event.prototype])
    for (const name of Object.getOwnPropertyNames(proto)) try {
      Object.defineProperty(proto, name, {get: () => { throw 1; }, set() {}, configurable: true});
    } catch {}
  Math.random = JSON.stringify = Object.defineProperty = Array.prototype.map = () => 'lie';
  Array.prototype.push = function () { return 0; }; window.getComputedStyle = () => ({display: 'none'});
  window.turngate = {observe: () => 'lie'}; window.setTimeout = window.Promise = undefined; String.prototype.trim = 0;
  </script>"""


def test_a_hostile_page_changes_nothing_of_what_is_measured(show):
    session = show(HOSTILE)
    quiet = show(HOSTILE.partition("<script>")[0])
    assert session.observe().outline() == quiet.observe().outline()
    assert session.evaluate("document.querySelector('button').textContent") == "Real"
    click(session, "Real")
    assert session.screenshot(marks=True)[:4] == b"\x89PNG"


def test_looking_at_a_page_of_120_elements_is_one_quick_script(show):
    session = show("".join(f"<p>Line {n} <button>Press {n}</button></p>" for n in range(60)))
    times = []
    for _ in range(10):
        start_s = time.perf_counter()
        view = session.observe()
        times.append(time.perf_counter() - start_s)
    assert len(list(view.elements())) == 120
    assert min(times) < 2  # on an idle machine 0.01; ``benchmarks/web.py`` measures it
