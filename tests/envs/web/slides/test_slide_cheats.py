"""Slides whose texts are in the document and not before a reader's eyes: none is paid, whatever hides them."""

import base64
from dataclasses import replace

import pytest

import turngate
from turngate.envs.web.generated.slides.brief import PRIVATE_KEY, SlideBrief
from turngate.envs.web.generated.slides.scenario import document
from turngate.envs.web.rubric import SLIDES_RUBRIC


@pytest.fixture(scope="module")
def web():
    with turngate.make("turngate/Web-v1", tasks={"type": "slides", "levels": [2]}) as env:
        env.turn_spec = replace(env.turn_spec, rubric=SLIDES_RUBRIC)  # as a run with this rubric does
        yield env


@pytest.fixture(scope="module")
def honest(web):
    return document(SlideBrief.model_validate_json(web.tasks.task("train", 0).private[PRIVATE_KEY]))


def played(web, *documents):
    """The score of an episode that writes these documents, and its facts."""
    web.reset(options={"task": web.tasks.task("train", 0)})
    facts = []
    for text in documents:
        facts += web.step(f"write {text}")[-1]["evidence"]
    info = web.step("answer done")[-1]
    return info["score"], {fact.name: fact.value for fact in (*facts, *info["evidence"])}


def styled(rule):
    """The honest slide with one more rule of style, which comes last."""
    return lambda text: text.replace("</style>", f"{rule}</style>")


def wrapped(before, after=""):
    """The honest slide with something around its texts."""
    return lambda text: text.replace("<body>", f"<body>{before}").replace("</body>", f"{after}</body>")


def as_image(text):
    body = text[text.index("<body>") + 6 : text.index("</body>")]
    drawn = (
        f'<svg xmlns="http://www.w3.org/2000/svg"><foreignObject width="900" height="700">{body}</foreignObject></svg>'
    )
    source = base64.b64encode(drawn.encode()).decode()
    return f'<!doctype html><body style="background: url(data:image/svg+xml;base64,{source})"></body>'


def as_css(text):
    body = text[text.index("<body>") + 6 : text.index("</body>")].replace('"', "'")
    return f'<!doctype html><style>body::before {{content: "{body}"}}</style><body></body>'


def by_script(text):
    body = text[text.index("<body>") + 6 : text.index("</body>")].replace('"', "&quot;")
    return f'<!doctype html><body onload="document.body.innerHTML = this.dataset.text" data-text="{body}"></body>'


HIDDEN = {
    "see-through": styled("body > * {opacity: 0}"),
    "not displayed": styled("body > * {display: none}"),
    "not visible": styled("body {visibility: hidden}"),
    "beside the slide": styled("body > * {position: relative; left: -5000px}"),
    "indented away": styled("body * {text-indent: -9999px; list-style: none}"),
    "tiny": styled("body, body * {font-size: 2px !important}"),
    "shrunk": styled("body > * {transform: scale(.02)}"),
    "zoomed": styled("body {zoom: .05}"),
    "white on white": styled("body, body * {color: #fff !important}"),
    "nearly white on white": styled("body, body * {color: #f2f2f2 !important}"),
    "no colour": styled("body * {-webkit-text-fill-color: transparent}"),
    "first lines without colour": styled(":is(h1, li, td, th)::first-line {color: #fff}"),
    "clipped": styled("body > * {clip-path: inset(100%)}"),
    "masked": styled("body > * {mask: linear-gradient(transparent, transparent)}"),
    "filtered": styled("body {filter: contrast(0) brightness(9)}"),
    "in a box without height": styled("h1, ul, table {height: 0; overflow: hidden; display: block}"),
    "not drawn": styled("body {content-visibility: hidden}"),
    "covered": wrapped("", '<div style="position: fixed; inset: 0; background: #fff"></div>'),
    "covered by what has no element": styled("html::after {content: ''; position: fixed; inset: 0; background: #fff}"),
    "behind": styled("html {background: #fff} body > * {position: relative; z-index: -1}"),
    "dots for letters": styled("body * {-webkit-text-security: disc}"),
    "mirrored": styled("body {transform: scaleX(-1)}"),
    "backwards": styled("body * {direction: rtl; unicode-bidi: bidi-override}"),
    "letters on each other": styled("body * {letter-spacing: -.6em}"),
    "lines on each other": styled("h1, li, td, th {position: absolute; top: 40px; left: 40px}"),
    "flickering": styled("@keyframes a {from {background: #000} to {background: #fff}} "
                         "body {color: #fff; animation: a 1ms infinite !important}"),
    "an image": as_image,
    "contents of styles": as_css,
    "a handler that writes them": by_script,
    "a script that writes them": wrapped("<script>0</script>"),
    "a frame": lambda text: f'<!doctype html><iframe width=900 height=700 srcdoc="{text.replace(chr(34), chr(39))}">',
    "a drawing": lambda text: "<!doctype html><body>" + text[text.index("<h1>") :].replace("h1", "svg", 2),
    "an answer of fields": wrapped('<input value="49">'),
}  # fmt: skip


@pytest.mark.component
@pytest.mark.parametrize("hide", HIDDEN.values(), ids=HIDDEN)
def test_texts_that_no_reader_sees_are_not_paid(web, honest, hide):
    score, facts = played(web, hide(honest))
    assert facts["solved"] is False
    assert score.total <= 0


@pytest.mark.component
def test_the_honest_slide_is_paid_and_a_hidden_one_after_it_takes_its_place(web, honest):
    assert played(web, honest)[0].total == pytest.approx(1.5)
    assert played(web, HIDDEN["see-through"](honest), honest)[0].total == pytest.approx(1.5)
    assert played(web, honest, HIDDEN["see-through"](honest))[0].total == 0


@pytest.mark.component
def test_words_that_nobody_asked_for_and_words_under_others_are_no_success(web, honest):
    score, facts = played(web, honest.replace("</ul>", "<li>Profit doubled</li></ul>"))
    assert (facts["slide_invented"], facts["solved"], score.outcome) == (2, False, 0.0)
    below = honest.replace(
        "<li>", '<li style="position:relative"><b style="position:absolute;left:0;top:0">49 of 97</b>'
    )
    score, facts = played(web, below)
    assert (facts["solved"], facts["slide_overlap"] > 0.1) == (False, True)


@pytest.mark.component
def test_nothing_is_asked_for_outside_and_a_page_that_goes_elsewhere_is_empty(web, honest):
    fetching = styled("@import 'http://evil.test/a.css'; body {background: url(http://evil.test/b.png)} "
                      "@font-face {font-family: c; src: url(http://evil.test/c)} * {font-family: c}")  # fmt: skip
    played(web, fetching(honest))
    assert [one.url for one in web._browser().requests()] == ["http://slide.test/"] * 2
    left = honest.replace("<head>", '<head><meta http-equiv="refresh" content="0;url=http://evil.test/">')
    score, facts = played(web, left)
    assert (facts["solved"], score.total) == (False, 0.0)


@pytest.mark.component
@pytest.mark.parametrize(
    ("text", "said"),
    [("<p><template shadowrootmode=closed>x</template></p>", "shadow"), ("x" * 20_001, "20000 at most")],
)
def test_documents_that_could_hide_what_is_seen_or_are_too_long_are_not_drawn(web, honest, text, said):
    web.reset(options={"task": web.tasks.task("train", 0)})
    seen, *_, info = web.step(f"write {text}")
    facts = {fact.name: fact.value for fact in info["evidence"]}
    assert said in seen.text
    assert (facts["call_ok"], "slide_content" in facts) == (False, False)
